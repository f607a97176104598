// Decompression of zlib streams (RFC 1950, RFC 1951).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace saturate {

// The data of a zlib stream; nullopt where it is damaged or longer than `limit` bytes. The checksum is not looked at.
std::optional<std::vector<std::uint8_t>> inflate_zlib(std::span<const std::uint8_t> stream, std::size_t limit);

}  // namespace saturate
