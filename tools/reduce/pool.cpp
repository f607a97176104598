#include "tools/reduce/pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "egraph/stop.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr unsigned kPollMicroseconds = 20'000;
constexpr double kTimeToStop = 5;  // seconds, after which what was interrupted is killed

struct Running {
  std::size_t piece = 0;
  pid_t process = -1;
  int out = -1, err = -1;
};

std::string all_of(int fd) {
  std::string text;
  struct stat facts {};
  if (fd < 0 || ::fstat(fd, &facts) != 0) return text;
  text.resize(static_cast<std::size_t>(facts.st_size));
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = ::pread(fd, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<std::size_t>(n);
  }
  text.resize(at);
  return text;
}

[[noreturn]] void run_in_child(const Running& running, const std::function<int(std::size_t)>& work) {
  ::setpgid(0, 0);  // a Ctrl-C reaches the parent, which tells its children
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(running.out, STDOUT_FILENO);
  ::dup2(running.err, STDERR_FILENO);
  int status = 1;
  try {
    status = work(running.piece);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(status);
}

class Pool {
 public:
  Pool(const std::function<int(std::size_t)>& work, const std::function<void(const PieceEnd&)>& ended) : work_(work), ended_(ended) {}
  std::size_t running() const { return running_.size(); }

  void start(std::size_t piece) {
    Running made{piece, -1, ::memfd_create("out", MFD_CLOEXEC), ::memfd_create("err", MFD_CLOEXEC)};
    std::fflush(nullptr);  // else the copy writes it, too
    const bool opened = made.out >= 0 && made.err >= 0;
    made.process = opened ? ::fork() : -1;
    if (made.process == 0) run_in_child(made, work_);
    if (made.process > 0) {
      ::setpgid(made.process, made.process);
      running_.push_back(made);
      return;
    }
    end(made, PieceEnd{piece, 0, 0, fmt::format("no process: {}", std::strerror(errno)), "", ""});
  }

  // Tells of those that have ended; how many.
  std::size_t gather() {
    std::size_t count = 0;
    for (std::size_t i = 0; i < running_.size();) {
      int status = 0;
      if (::waitpid(running_[i].process, &status, WNOHANG) != running_[i].process) {
        ++i;
        continue;
      }
      const Running done = running_[i];
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      ::kill(-done.process, SIGKILL);  // what it has started itself and leaves behind
      PieceEnd told{done.piece, WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0, "", "", ""};
      end(done, std::move(told));
      ++count;
    }
    return count;
  }

  void signal(int number) {
    for (const Running& r : running_) ::kill(-r.process, number);
  }

 private:
  void end(const Running& done, PieceEnd told) {
    told.out = all_of(done.out);
    told.err = all_of(done.err);
    for (const int fd : {done.out, done.err})
      if (fd >= 0) ::close(fd);
    ended_(told);
  }

  const std::function<int(std::size_t)>& work_;
  const std::function<void(const PieceEnd&)>& ended_;
  std::vector<Running> running_;
};

}  // namespace

void run_pieces(std::size_t count, const std::function<int(std::size_t)>& work, const std::function<void(const PieceEnd&)>& ended,
                const PoolOptions& options) {
  Pool pool(work, ended);
  const std::size_t jobs = std::max<std::size_t>(options.jobs, 1);
  std::size_t next = 0, done = 0;
  double interrupted = 0;
  while (pool.running() > 0 || next < count) {
    const bool cancelled = options.cancel && *options.cancel;
    while (!cancelled && next < count && pool.running() < jobs) pool.start(next++);
    if (cancelled && interrupted == 0) {
      interrupted = steady_seconds();
      pool.signal(SIGTERM);
    }
    if (cancelled && steady_seconds() - interrupted > kTimeToStop) pool.signal(SIGKILL);
    const std::size_t more = pool.gather();
    done += more;
    if (cancelled && pool.running() == 0) return;
    if (options.waits) options.waits(done);
    if (more == 0 && pool.running() > 0) ::usleep(kPollMicroseconds);
  }
}

}  // namespace saturate
