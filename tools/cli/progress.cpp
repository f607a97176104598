#include "tools/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

constexpr double kPatience = 1, kEachOnTerminal = 0.2, kEachInLog = 10;  // seconds

}  // namespace

Progress::Progress(bool quiet) : on_terminal_(isatty(STDERR_FILENO) == 1), started_(steady_seconds()), shown_at_(started_) {
  if (!quiet) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    name_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Progress::stage(const std::string& name, const std::string& detail, const Share& share) {
  const std::lock_guard lock(mutex_);
  if (name != name_) stage_started_ = steady_seconds();
  name_ = name;
  detail_ = detail;
  share_ = share;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  name_.clear();
  if (line_stands_) std::fputs("\r\x1b[K", stderr);
  line_stands_ = false;
}

// "verify: 2 of 4 inputs, 3 s, about 3 s left".
std::string Progress::line(double now) const {
  const double here = now - stage_started_;
  std::string out = fmt::format("{}{}{}, {:.0f} s", name_, detail_.empty() ? "" : ": ", printable(detail_), now - started_);
  const bool known = share_.done > 0 && share_.done < share_.all;
  const double most = std::max(0.0, share_.most - here);
  const double left = known ? here / static_cast<double>(share_.done) * static_cast<double>(share_.all - share_.done) : most;
  if (std::isfinite(std::min(left, most)))
    out += fmt::format(", {} {:.0f} s left", left < most ? "about" : "at most", std::min(left, most));
  return out;
}

void Progress::show(double now) {
  if (name_.empty() || now - started_ < kPatience || now - shown_at_ < (on_terminal_ ? kEachOnTerminal : kEachInLog)) return;
  shown_at_ = now;
  line_stands_ = on_terminal_;
  if (on_terminal_)
    std::fprintf(stderr, "\r\x1b[K%s", line(now).c_str());
  else
    std::fprintf(stderr, "saturate: %s\n", line(now).c_str());
  std::fflush(stderr);
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, std::chrono::duration<double>(kEachOnTerminal));
    show(steady_seconds());
  }
}

}  // namespace saturate
