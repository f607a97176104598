// What the static libstdc++ of Debian 12 takes of a newer glibc than the wheels ask for.
#include <sys/random.h>

#include <cstdint>

// Of glibc 2.36; std::random_device calls it. The kernel's random numbers as well, by a call of glibc 2.25.
extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
