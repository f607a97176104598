// Which files are mapped where: asked by a signal handler, where one of them has been cut while it was read.
#pragma once

#include <cstddef>
#include <string>

namespace saturate {

void note_mapping(const void* begin, std::size_t size, const std::string& path);
void forget_mapping(const void* begin);
// The path of the file that `at` lies in, null if none is known. May be called from a signal handler.
const char* mapped_path(const void* at);

}  // namespace saturate
