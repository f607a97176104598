#include "kernels/judge/judge.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "kernels/judge/given_model.h"
#include "kernels/judge/values.h"
#include "onnx_bridge/file/io.h"

extern char** environ;

namespace saturate {
namespace {

constexpr const char* kProgram = "saturate-judge";
constexpr std::size_t kToldOfStderr = 300;
constexpr double kSecondsToStart = 60;

// Its last words, in one line.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.size() > kToldOfStderr ? "..." + text.substr(text.size() - kToldOfStderr) : text;
}

std::string name_of_signal(int signal) { return fmt::format("signal {} ({})", signal, ::strsignal(signal)); }

}  // namespace

// A process with a socket to it and a pipe from its standard error.
class JudgeProcess {
 public:
  static absl::StatusOr<std::unique_ptr<JudgeProcess>> start(const std::string& program, std::size_t memory) {
    int sockets[2], pipe[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
      return absl::FailedPreconditionError(fmt::format("no socket: {}", std::strerror(errno)));
    if (::pipe2(pipe, O_CLOEXEC) != 0) {
      ::close(sockets[0]);
      ::close(sockets[1]);
      return absl::FailedPreconditionError(fmt::format("no pipe: {}", std::strerror(errno)));
    }
    for (const int end : pipe) ::fcntl(end, F_SETFL, O_NONBLOCK);  // what nobody reads is thrown away
    std::unique_ptr<JudgeProcess> out(new JudgeProcess(sockets[0], pipe[0]));
    const int error = out->spawn(program, memory, sockets[1], pipe[1]);
    ::close(sockets[1]);
    ::close(pipe[1]);
    if (error != 0) return absl::NotFoundError(fmt::format("{} can't be started: {}", program, std::strerror(error)));
    return out;
  }
  JudgeProcess(const JudgeProcess&) = delete;
  JudgeProcess& operator=(const JudgeProcess&) = delete;
  ~JudgeProcess() {
    ::close(socket_);
    ::close(errors_);
    if (child_ > 0) end(SIGKILL);
  }

  int socket() const { return socket_; }

  // Ends it, and waits for it. Its status, as waitpid() tells.
  int end(int signal) {
    int status = 0;
    if (signal) ::kill(child_, signal);
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    return status;
  }

  // What stands in the pipe.
  std::string last_words() {
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = ::read(errors_, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<std::size_t>(n));
    return one_line(std::move(out));
  }

 private:
  JudgeProcess(int socket, int errors) : socket_(socket), errors_(errors) {}

  int spawn(const std::string& program, std::size_t memory, int socket, int errors) {
    const std::string parent = std::to_string(::getpid()), most = std::to_string(memory);
    char* const arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>(parent.c_str()), const_cast<char*>(most.c_str()),
                               nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, wire::kSocket);
    const int error = ::posix_spawn(&child_, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }

  int socket_, errors_;
  pid_t child_ = -1;
};

namespace {

absl::Status status_of(wire::Answer answer, std::string message) {
  message = one_line(std::move(message));
  switch (answer) {
    case wire::Answer::kDone:
      return absl::OkStatus();
    case wire::Answer::kNoKernel:
      return absl::UnimplementedError(message);
    case wire::Answer::kNoMemory:
      return absl::ResourceExhaustedError(message);
    case wire::Answer::kNotCompared:
      return absl::FailedPreconditionError(message);
    case wire::Answer::kRefused:
      break;
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace

struct Judge::Impl {
  JudgeSetup setup;
  std::string version;
  std::unique_ptr<JudgeProcess> process;
  std::uint64_t generation = 0;  // of the process: what was loaded into an older one is gone
  std::uint64_t next_id = 1;
  bool greeted = false;  // the process has loaded the library
  double patience = 600;
  std::recursive_mutex mutex;

  absl::Status begin() {
    auto started = JudgeProcess::start(setup.program, setup.memory);
    if (!started.ok()) return started.status();
    process = *std::move(started);
    ++generation;
    greeted = false;
    wire::Packer ask;
    ask.number(wire::Ask::kStart);
    ask.text(setup.library);
    ask.number(static_cast<std::int32_t>(setup.threads));
    if (!wire::send_message(process->socket(), ask.bytes())) return ended(false, false, 0);
    return absl::OkStatus();
  }

  // Waits for the library to be loaded.
  absl::Status greet() {
    const auto answer = answered(kSecondsToStart);
    if (!answer.ok()) {
      process.reset();
      if (absl::IsCancelled(answer.status())) return answer.status();
      return absl::FailedPreconditionError(
          fmt::format("ONNX Runtime ({}) can't judge: {}", setup.library, std::string(answer.status().message())));
    }
    version = std::string(wire::Unpacker(*answer).text());
    greeted = true;
    return absl::OkStatus();
  }

  // What follows the answer's first byte.
  absl::StatusOr<std::string> request(const wire::Packer& ask, const std::vector<int>& files, double seconds) {
    if (!process) return absl::AbortedError("the process has ended");
    if (!wire::send_message(process->socket(), ask.bytes(), files)) return ended(false, false, seconds);
    return answered(seconds);
  }

  absl::StatusOr<std::string> answered(double seconds) {
    const double start = steady_seconds();
    const auto stopped = [&] { return setup.cancel && *setup.cancel; };
    wire::Message message;
    const wire::Got got =
        wire::receive_message(process->socket(), message, [&] { return !stopped() && steady_seconds() - start <= seconds; });
    for (const int file : message.files) ::close(file);
    if (got != wire::Got::kMessage) return ended(got == wire::Got::kStopped, stopped(), seconds);
    wire::Unpacker in(message.bytes);
    const auto answer = in.number<wire::Answer>();
    if (answer != wire::Answer::kDone) return status_of(answer, std::string(in.text()));
    return message.bytes.substr(sizeof answer);
  }

  absl::Status ended(bool by_us, bool cancelled, double seconds) {
    const int status = process->end(by_us ? SIGKILL : 0);
    const std::string words = process->last_words();
    process.reset();
    if (cancelled) return absl::CancelledError("interrupted");
    if (by_us) return absl::DeadlineExceededError(fmt::format("took more than {:.3g} s and was ended", seconds));
    const std::string how = WIFSIGNALED(status) ? name_of_signal(WTERMSIG(status)) : fmt::format("exit status {}", WEXITSTATUS(status));
    return absl::AbortedError(fmt::format("ended its process: {}{}{}", how, words.empty() ? "" : ": ", words));
  }

  absl::Status ready() {
    if (!process)
      if (absl::Status s = begin(); !s.ok()) return s;
    return greeted ? absl::OkStatus() : greet();
  }
};

namespace {

void pack(const GivenModel& model, wire::Packer& ask) {
  ask.text(model.message);
  ask.number(static_cast<std::uint64_t>(model.weights.size()));
  for (const WeightPlace& weight : model.weights) {
    ask.text(weight.name);
    ask.number(static_cast<std::int32_t>(weight.dtype));
    ask.number(static_cast<std::uint32_t>(weight.dims.size()));
    for (const std::int64_t dim : weight.dims) ask.number(dim);
    ask.number(weight.file);
    ask.number(weight.offset);
    ask.number(weight.bytes);
  }
}

void pack(const Inputs& inputs, wire::Packer& ask) {
  ask.number(static_cast<std::uint64_t>(inputs.size()));
  for (const auto& [name, value] : inputs) {
    ask.text(name);
    pack(value, ask);
  }
}

void pack(const std::vector<std::string>& names, wire::Packer& ask) {
  ask.number(static_cast<std::uint64_t>(names.size()));
  for (const std::string& name : names) ask.text(name);
}

std::vector<int> numbers_of(const GivenModel& model) {
  std::vector<int> out;
  for (const auto& file : model.files) out.push_back(file->number());
  return out;
}

}  // namespace

// A model that is loaded at a level; again where the process that had it is gone.
class JudgeSession {
 public:
  JudgeSession(std::shared_ptr<Judge::Impl> judge, std::shared_ptr<const GivenModel> model, JudgeLevel level,
               wire::Purpose purpose = wire::Purpose::kComparing)
      : judge_(std::move(judge)), model_(std::move(model)), level_(level), purpose_(purpose) {}
  absl::Status load();
  // Its id, loaded again where the process that had it is gone.
  absl::StatusOr<std::uint64_t> there();
  // Again, before the one that is there goes.
  absl::Status reload();
  absl::StatusOr<Ran> run(const Inputs& inputs, double seconds);
  ~JudgeSession() { free(); }

 private:
  void free();

  std::shared_ptr<Judge::Impl> judge_;
  std::shared_ptr<const GivenModel> model_;
  JudgeLevel level_;
  wire::Purpose purpose_;
  std::uint64_t id_ = 0, generation_ = 0;  // 0: not loaded
};

absl::Status JudgeSession::load() {
  if (absl::Status s = judge_->ready(); !s.ok()) return s;
  generation_ = judge_->generation;
  id_ = judge_->next_id++;
  wire::Packer ask;
  ask.number(wire::Ask::kLoad);
  ask.number(id_);
  ask.number(level_);
  ask.number(purpose_);
  pack(*model_, ask);
  return judge_->request(ask, numbers_of(*model_), judge_->patience).status();
}

absl::StatusOr<std::uint64_t> JudgeSession::there() {
  if (generation_ != judge_->generation || !judge_->process)
    if (absl::Status s = load(); !s.ok()) return s;
  return id_;
}

absl::StatusOr<Ran> JudgeSession::run(const Inputs& inputs, double seconds) {
  const std::lock_guard lock(judge_->mutex);
  const absl::StatusOr<std::uint64_t> id = there();
  if (!id.ok()) return id.status();
  wire::Packer ask;
  ask.number(wire::Ask::kRun);
  ask.number(*id);
  pack(inputs, ask);
  pack(model_->outputs, ask);
  const auto answer = judge_->request(ask, {}, seconds);
  if (!answer.ok()) return answer.status();
  wire::Unpacker in(*answer);
  Ran out;
  out.seconds = in.number<double>();
  for (const ValueType& type : model_->output_types) out.outputs.push_back(unpack(in, type));
  if (!in.ok()) return absl::FailedPreconditionError("what the judge's process answered was cut");
  return out;
}

absl::Status JudgeSession::reload() {
  JudgeSession old(judge_, model_, level_, purpose_);
  std::swap(old.id_, id_);
  std::swap(old.generation_, generation_);
  return load();
}

void JudgeSession::free() {
  const std::lock_guard lock(judge_->mutex);
  if (generation_ != judge_->generation || !judge_->process) return;
  wire::Packer ask;
  ask.number(wire::Ask::kFree);
  ask.number(id_);
  judge_->request(ask, {}, judge_->patience).IgnoreError();
}

namespace {

bool is_program(const std::filesystem::path& path) { return ::access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path); }

}  // namespace

Judge::Judge(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Judge::~Judge() = default;
absl::Status Judge::ready() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->ready();
}
const std::string& Judge::version() const { return impl_->version; }
double Judge::hang_seconds() const { return impl_->setup.hang_seconds; }
void Judge::set_patience(double seconds) { impl_->patience = seconds; }
std::string Judge::name() const { return "ONNX Runtime " + version().substr(0, version().rfind('.')); }

absl::StatusOr<std::shared_ptr<Judge>> Judge::start(JudgeSetup setup) {
  auto impl = std::make_shared<Impl>();
  impl->setup = std::move(setup);
  if (impl->setup.program.empty()) impl->setup.program = judge_program();
  if (impl->setup.program.empty()) return absl::NotFoundError(fmt::format("the program {} is not beside this one; install it", kProgram));
  if (absl::Status s = impl->begin(); !s.ok()) return s;
  return std::shared_ptr<Judge>(new Judge(std::move(impl)));
}

absl::StatusOr<RunOnce> Judge::open(std::shared_ptr<const GivenModel> model, JudgeLevel level) {
  const auto session = std::make_shared<JudgeSession>(impl_, std::move(model), level);
  {
    const std::lock_guard lock(impl_->mutex);
    if (absl::Status s = session->load(); !s.ok()) return s;
  }
  return RunOnce([session](const Inputs& inputs, const RunLimits& limits) {
    return session->run(inputs, std::max(0.1, limits.deadline - steady_seconds()));
  });
}

OpenModel Judge::opener(JudgeLevel level) {
  return [judge = shared_from_this(), level](const Model& model) -> absl::StatusOr<RunOnce> {
    auto given = give_model(model);
    return given.ok() ? judge->open(*std::move(given), level) : given.status();
  };
}

struct Turns::Impl {
  std::shared_ptr<Judge::Impl> judge;
  TurnsSetup setup;
  std::vector<std::unique_ptr<JudgeSession>> sessions = {};  // null: dropped
  std::vector<std::string> outputs = {};
};

Turns::Turns(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Turns::Turns(Turns&&) noexcept = default;
Turns::~Turns() = default;
Turns Judge::turns(const TurnsSetup& setup) { return Turns(std::make_unique<Turns::Impl>(Turns::Impl{impl_, setup})); }

absl::StatusOr<std::size_t> Turns::add(const Model& model) {
  auto given = give_model(model);
  if (!given.ok()) return given.status();
  impl_->outputs = (*given)->outputs;
  auto session = std::make_unique<JudgeSession>(impl_->judge, *std::move(given), impl_->setup.level,
                                                impl_->setup.wall ? wire::Purpose::kTimingAlone : wire::Purpose::kTiming);
  const std::lock_guard lock(impl_->judge->mutex);
  if (absl::Status s = session->load(); !s.ok()) return s;
  impl_->sessions.push_back(std::move(session));
  return impl_->sessions.size() - 1;
}

absl::Status Turns::reload(std::size_t number) {
  const std::lock_guard lock(impl_->judge->mutex);
  return impl_->sessions[number]->reload();
}

void Turns::drop(std::size_t number) { impl_->sessions[number].reset(); }

absl::StatusOr<std::vector<std::vector<double>>> Turns::run(std::span<const std::size_t> numbers, std::span<const TimedInputs> inputs,
                                                            std::size_t rounds, double seconds) {
  const std::lock_guard lock(impl_->judge->mutex);
  for (const std::size_t number : numbers)  // loading one may end the process
    if (const auto id = impl_->sessions[number]->there(); !id.ok()) return id.status();
  wire::Packer ask;
  ask.number(wire::Ask::kTime);
  ask.number(static_cast<std::uint64_t>(numbers.size()));
  for (const std::size_t number : numbers) ask.number(*impl_->sessions[number]->there());
  pack(impl_->outputs, ask);
  ask.number(static_cast<std::uint64_t>(inputs.size()));
  for (const TimedInputs& set : inputs) {
    ask.number(set.weight);
    pack(set.inputs, ask);
  }
  ask.number(static_cast<std::uint64_t>(rounds));
  ask.number(seconds);
  ask.number(impl_->setup.wall ? wire::Clock::kWall : wire::Clock::kProcessor);
  const absl::StatusOr<std::string> answer = impl_->judge->request(ask, {}, seconds + impl_->judge->patience);
  if (!answer.ok()) return answer.status();
  wire::Unpacker in(*answer);
  std::vector<std::vector<double>> out(std::min<std::uint64_t>(in.number<std::uint64_t>(), rounds), std::vector<double>(numbers.size()));
  for (std::vector<double>& round : out)
    for (double& one : round) one = in.number<double>();
  if (!in.ok()) return absl::FailedPreconditionError("what the judge's process answered was cut");
  return out;
}

absl::StatusOr<Model> Judge::after_load(const Model& model, JudgeLevel level) {
  if (const std::uint64_t bytes = initializer_bytes(model.graph); bytes >= wire::kMostSaved)
    return absl::ResourceExhaustedError(
        fmt::format("the model has {:.1f} GB of weights, and the runtime saves none of more than 2 GB", static_cast<double>(bytes) / 1e9));
  const auto given = give_model(model);
  if (!given.ok()) return given.status();
  const std::lock_guard lock(impl_->mutex);
  if (absl::Status s = impl_->ready(); !s.ok()) return s;
  wire::Packer ask;
  ask.number(wire::Ask::kAfterLoad);
  ask.number(level);
  pack(**given, ask);
  const absl::StatusOr<std::string> answer = impl_->request(ask, numbers_of(**given), impl_->patience);
  if (!answer.ok()) return answer.status();
  wire::Unpacker in(*answer);
  const std::string_view message = in.text();
  if (!in.ok()) return absl::FailedPreconditionError("what the judge's process answered was cut");
  absl::StatusOr<Model> made = parse_model(message, "");
  if (!made.ok())
    return absl::FailedPreconditionError(fmt::format("what the runtime saved is not read: {}", std::string(made.status().message())));
  return made;
}

std::string judge_program() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&judge_program), &here) && here.dli_fname)
    folders.push_back(fs::path(here.dli_fname).parent_path());
  std::error_code ignored;
  folders.push_back(fs::read_symlink("/proc/self/exe", ignored).parent_path());
  for (const fs::path& folder : folders)
    for (const fs::path& path : {folder / kProgram, folder / ".." / "bin" / kProgram})
      if (!folder.empty() && is_program(path)) return path.string();
  const char* path = std::getenv("PATH");
  for (std::string_view left = path ? path : ""; !left.empty();) {
    const std::size_t end = std::min(left.find(':'), left.size());
    const fs::path program = fs::path(left.substr(0, end)) / kProgram;
    if (end > 0 && is_program(program)) return program.string();
    left.remove_prefix(std::min(left.size(), end + 1));
  }
  return "";
}

absl::StatusOr<std::string> onnxruntime_library(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return fs::absolute(path, ignored).string();
  std::string found;
  for (const char* folder : {"", "capi", "lib", "onnxruntime/capi"})
    for (const auto& entry : fs::directory_iterator(fs::path(path) / folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("libonnxruntime.so") && entry.is_regular_file(ignored))
        found = std::max(found, fs::absolute(entry.path()).string());
    }
  if (!found.empty()) return found;
  return absl::NotFoundError(
      fmt::format("{}: no shared library of ONNX Runtime; name libonnxruntime.so.VERSION, or the folder of the package "
                  "onnxruntime, which holds it in capi/",
                  path));
}

}  // namespace saturate
