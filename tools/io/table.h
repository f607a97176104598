// Text tables and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saturate {

// Rows of cells; the first row is the header. The first `left` columns are left-aligned, the others right-aligned.
// With a width, the cells of the last column go on in further lines below where they began.
std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t left = 1, std::size_t width = 0);
std::string human_count(std::uint64_t count);                            // 1234567 -> "1.23 M"
std::string human_bytes(std::uint64_t bytes);                            // 1536 -> "1.5 KiB"
std::string human_seconds(double seconds);                               // 0.0123 -> "12.3 ms"
std::string signed_difference(std::int64_t before, std::int64_t after);  // "+3", "-2", ""

}  // namespace saturate
