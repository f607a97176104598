#include "tools/reduce/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "egraph/stop.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr int kPollMilliseconds = 50;
constexpr int kNotStarted = 127;

// In the child: a group of its own, so that all of it can be killed; no core file; it ends with its parent.
void become_child(int output) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGBUS, SIGXFSZ, SIGPIPE}) std::signal(signal, SIG_DFL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  if (const int null = ::open("/dev/null", O_RDONLY); null >= 0) ::dup2(null, STDIN_FILENO);
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Reads until the child ends; kills its group at a limit. What it has started itself and leaves behind is killed, too.
void follow(pid_t child, int fd, const ChildLimits& limits, ChildEnd& end) {
  const double start = steady_seconds();
  int status = 0;
  char buffer[1 << 14];
  bool open = true, ended = false;
  while (!ended) {
    end.cancelled = limits.cancel && *limits.cancel;
    end.timed_out = !end.cancelled && steady_seconds() - start > limits.seconds;
    if (end.cancelled || end.timed_out) break;
    ended = ::waitpid(child, &status, WNOHANG) == child;
    pollfd waiting{fd, POLLIN, 0};
    while (open && ::poll(&waiting, 1, ended ? 0 : kPollMilliseconds) > 0) {
      const ssize_t n = ::read(fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        open = false;
        break;
      }
      end.output.append(buffer, std::min(static_cast<std::size_t>(n), limits.output - std::min(limits.output, end.output.size())));
      if (steady_seconds() - start > limits.seconds) break;
    }
    if (!open && !ended) ended = ::waitpid(child, &status, WNOHANG) == child || (::usleep(1000), false);
  }
  ::kill(-child, SIGKILL);
  if (!ended) ::waitpid(child, &status, 0);
  end.seconds = steady_seconds() - start;
  if (end.cancelled || end.timed_out) return;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.status = WEXITSTATUS(status);
}

ChildEnd run_child(const std::function<void()>& in_child, const ChildLimits& limits) {
  ChildEnd end;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    end.error = fmt::format("no pipe: {}", std::strerror(errno));
    return end;
  }
  const pid_t child = ::fork();
  if (child < 0) end.error = fmt::format("no process: {}", std::strerror(errno));
  if (child == 0) {
    become_child(ends[1]);
    in_child();
    ::_exit(0);
  }
  ::close(ends[1]);
  if (child > 0) {
    ::setpgid(child, child);
    follow(child, ends[0], limits, end);
  }
  ::close(ends[0]);
  return end;
}

}  // namespace

ChildEnd run_program(const std::vector<std::string>& words, const ChildLimits& limits) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  constexpr std::string_view kNotFound = "saturate: can't run the program: ";
  ChildEnd end = run_child(
      [&] {
        ::execvp(arguments[0], arguments.data());
        write_all(STDERR_FILENO, kNotFound);
        write_all(STDERR_FILENO, std::strerror(errno));
        ::_exit(kNotStarted);
      },
      limits);
  if (end.exited() && end.status == kNotStarted && end.output.starts_with(kNotFound)) end.error = end.output.substr(kNotFound.size());
  return end;
}

ChildEnd run_apart(const std::function<std::string()>& work, const ChildLimits& limits) {
  return run_apart(
      [&] {
        write_all(STDOUT_FILENO, work());
        return 0;
      },
      limits);
}

ChildEnd run_apart(const std::function<int()>& work, const ChildLimits& limits) {
  std::fflush(nullptr);  // else the copy writes it, too
  return run_child(
      [&] {
        int status = 1;
        try {
          status = work();
        } catch (const std::exception& e) {
          write_all(STDERR_FILENO, e.what());
        }
        std::fflush(nullptr);
        ::_exit(status);
      },
      limits);
}

}  // namespace saturate
