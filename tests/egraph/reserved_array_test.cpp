#include "egraph/reserved_array.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <vector>

namespace saturate {
namespace {

// What a process of its own with this limit makes of a test below: its exit status, -1 where a signal ended it.
int run_limited(std::size_t bytes, const char* filter) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
    ::execl("/proc/self/exe", "egraph_test", filter, "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool many_arenas() {
  std::vector<ReservedArray<std::uint64_t>> all(400);
  for (std::size_t round = 0; round < 3000; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) all[i].push_back(round * i);
  const std::vector<char> others(50 << 20);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].size() != 3000 || all[i][2999] != 2999 * i) return false;
  return others.size() == 50 << 20;
}

bool one_that_grows() {
  ReservedArray<std::uint32_t> all;
  for (std::uint32_t i = 0; i < 60'000'000; ++i) all.push_back(i);
  return all[59'999'999] == 59'999'999 && all[0] == 0;
}

TEST(UnderALimit, DISABLED_ManyArenas) { EXPECT_TRUE(many_arenas()); }
TEST(UnderALimit, DISABLED_OneThatGrows) { EXPECT_TRUE(one_that_grows()); }
TEST(UnderALimit, DISABLED_TooLittle) { EXPECT_THROW(one_that_grows(), std::bad_alloc); }

TEST(ReservedArray, LeavesAddressesToOthers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more than the limit";
#endif
  EXPECT_EQ(run_limited(std::size_t{1} << 30, "--gtest_filter=UnderALimit.DISABLED_ManyArenas"), 0);
  EXPECT_EQ(run_limited(std::size_t{1} << 30, "--gtest_filter=UnderALimit.DISABLED_OneThatGrows"), 0);
  EXPECT_EQ(run_limited(std::size_t{200} << 20, "--gtest_filter=UnderALimit.DISABLED_TooLittle"), 0);
}

}  // namespace
}  // namespace saturate
