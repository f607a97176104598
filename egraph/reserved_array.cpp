#include "egraph/reserved_array.h"

#include <cstdio>
#include <string>

namespace saturate {
namespace {

std::string head_of(const char* path) {
  std::string text(8192, '\0');
  std::FILE* file = std::fopen(path, "re");
  text.resize(file ? std::fread(text.data(), 1, text.size(), file) : 0);
  if (file) std::fclose(file);
  return text;
}

// Where the system promises no more than it has (vm.overcommit_memory = 2), what is reserved for writing counts as used.
std::size_t commit_limit() {
  if (!head_of("/proc/sys/vm/overcommit_memory").starts_with('2')) return ~std::size_t{0};
  const std::string text = head_of("/proc/meminfo");
  const std::size_t at = text.find("CommitLimit:");
  unsigned long long kilobytes = 0;
  if (at == std::string::npos || std::sscanf(text.c_str() + at, "CommitLimit: %llu", &kilobytes) != 1) return ~std::size_t{0};
  return static_cast<std::size_t>(kilobytes) << 10;
}

}  // namespace

std::size_t soft_limit(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? static_cast<std::size_t>(limit.rlim_cur) : ~std::size_t{0};
}

AddressSpace::AddressSpace() : limit_(std::min({soft_limit(RLIMIT_AS), soft_limit(RLIMIT_DATA), commit_limit()})) {}

AddressSpace& address_space() {
  static AddressSpace all;
  return all;
}

}  // namespace saturate
