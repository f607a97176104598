// Many command lines from one process, so that a sanitized build starts and reads its rules once: many_commands MODEL
// A line of standard input is FOLDER<tab>WORD<tab>WORD...; a child runs the command on these words in that folder, without standard output,
// with FOLDER.errors as standard error. The answer is a line: the exit status, minus a signal, `hang` or `memory`.
// MODEL is explained first, for what is then there before the first child.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tools/cli/command_line.h"

namespace {

constexpr int kSeconds = 45;              // below that of the one who asks
constexpr long kPages = 6L << (30 - 12);  // of resident memory: sanitizers take address space at will, so there is no limit on that

int command(std::vector<std::string> words) {
  words.insert(words.begin(), "saturate");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return saturate::command_line(static_cast<int>(words.size()), argv.data());
}

void redirect(int to, const char* path) {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::dup2(file, to) < 0) std::perror(path), ::_exit(126);
  ::close(file);
}

[[noreturn]] void child(std::vector<std::string> words) {
  const std::string folder = words.front();
  redirect(STDERR_FILENO, (folder + ".errors").c_str());
  redirect(STDIN_FILENO, "/dev/null");
  if (::chdir(folder.c_str()) != 0) std::perror(folder.c_str()), ::_exit(126);
  words.erase(words.begin());
  const int status = command(std::move(words));
  std::fflush(nullptr);
  ::_exit(status);
}

bool takes_too_much(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/statm");
  long all = 0, resident = 0;
  return in >> all >> resident && resident > kPages;
}

// How the child ended.
std::string awaited(pid_t pid) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kSeconds);
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  pollfd ended{descriptor, POLLIN, 0};
  const char* killed = nullptr;
  while (::poll(&ended, 1, 50) <= 0 && killed == nullptr)
    killed = takes_too_much(pid) ? "memory" : std::chrono::steady_clock::now() > until ? "hang" : nullptr;
  if (killed) ::kill(pid, SIGKILL);
  ::close(descriptor);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return killed ? killed : std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: many_commands MODEL\n", stderr), 2;
  const int answers = ::dup(STDOUT_FILENO);
  redirect(STDOUT_FILENO, "/dev/null");
  if (command({"explain", argv[1]}) != 0) return 1;
  for (std::string line; std::getline(std::cin, line);) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) ::close(answers), child(absl::StrSplit(line, '\t'));
    if (pid < 0) return std::perror("fork"), 1;
    const std::string answer = awaited(pid) + "\n";
    if (::write(answers, answer.data(), answer.size()) < 0) return 1;
  }
}
