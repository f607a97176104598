// Memory of tensors.
#pragma once

#include <cstddef>

namespace saturate {

// So many bytes, in whole lines of a processor's cache; one at least.
std::size_t whole_lines(std::size_t bytes);
// 64-byte aligned; null where the machine has no such memory. Large ones have pages of their own: the system has them again as soon as they
// are free, where the C library would keep them, and those that are not written take no memory.
std::byte* take_bytes(std::size_t bytes, bool zeros);
// The same number of bytes.
void give_bytes(std::byte* data, std::size_t bytes);

}  // namespace saturate
