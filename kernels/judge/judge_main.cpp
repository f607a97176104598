// The judge's child process: loads ONNX Runtime, runs the models that it is given over a socket, and may die of them.
// It opens no file but the library that it is told, writes none that has a name, and ends with its parent.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "kernels/judge/ort_abi.h"
#include "kernels/judge/wire.h"
#include "onnx_bridge/model/dtype_rows.h"

namespace saturate {
namespace {

using wire::Answer;
using wire::Ask;
using wire::Kind;
using wire::Packer;
using wire::Unpacker;

// What can't go on; the answer to what was asked.
struct Failed {
  Answer answer = Answer::kRefused;
  std::string message;
};

// ONNX Runtime has no code of its own for a lack of memory.
Answer kind_of(int code, const std::string& message) {
  if (code == ort::kNotImplemented) return Answer::kNoKernel;
  for (const char* words : {"bad_alloc", "bad allocation", "Failed to allocate memory", "std::bad_array_new_length"})
    if (message.find(words) != std::string::npos) return Answer::kNoMemory;
  return Answer::kRefused;
}

// A file mapped for reading, of which weights are views.
class Mapped {
 public:
  explicit Mapped(int file) {
    struct stat info {};
    if (::fstat(file, &info) == 0) size_ = static_cast<std::size_t>(info.st_size);
    if (size_ > 0) base_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    ::close(file);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (base_ && base_ != MAP_FAILED) ::munmap(base_, size_);
  }
  void* at(std::uint64_t offset, std::uint64_t bytes) const {
    if (!base_ || base_ == MAP_FAILED || offset > size_ || bytes > size_ - offset) throw Failed{Answer::kNotCompared, "weights are cut"};
    return static_cast<char*>(base_) + offset;
  }
  std::string_view all() const { return {static_cast<const char*>(at(0, size_)), size_}; }

 private:
  void* base_ = nullptr;
  std::size_t size_ = 0;
};

// Without a name. While it lives, this process may write files.
class FileInMemory {
 public:
  FileInMemory() : file_(::memfd_create("saturate-after-load", MFD_CLOEXEC)) {
    if (file_ < 0) throw Failed{Answer::kNotCompared, "no file in memory can be had"};
    most_written(wire::kMostSaved);
  }
  FileInMemory(const FileInMemory&) = delete;
  FileInMemory& operator=(const FileInMemory&) = delete;
  ~FileInMemory() {
    most_written(0);
    ::close(file_);
  }
  int number() const { return file_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  static void most_written(rlim_t bytes) {
    const rlimit both{bytes, wire::kMostSaved};
    ::setrlimit(RLIMIT_FSIZE, &both);
  }
  int file_;
};

struct Weight {
  std::string name;
  int dtype = 0;
  std::vector<std::int64_t> dims;
  void* data = nullptr;
  std::uint64_t bytes = 0;
};

struct Given {
  std::string_view message;
  std::vector<std::unique_ptr<Mapped>> files;
  std::vector<Weight> weights;  // views of the files
};

// What a process has beside models: the library, threads, buffers.
constexpr rlim_t kBeside = rlim_t{2} << 30;
// So many times its own size a model takes: it is parsed, its graph is made, weights are folded and packed for kernels.
constexpr rlim_t kTimesItsSize = 5;

double seconds_by(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Child {
 public:
  // `memory`: bytes that a run may take; 0: no limit.
  explicit Child(rlim_t memory) : most_of_a_run_(memory) {}

  std::string answer(Unpacker in, std::vector<int>& files) {
    Packer out;
    try {
      Packer made;
      const Ask ask = in.number<Ask>();
      if (!api_ && ask != Ask::kStart) throw Failed{Answer::kRefused, "no library is loaded"};
      switch (ask) {
        case Ask::kStart:
          start(in, made);
          break;
        case Ask::kLoad:
          load(in, files);
          break;
        case Ask::kFree:
          sessions_.erase(in.number<std::uint64_t>());
          break;
        case Ask::kRun:
          run(in, made);
          break;
        case Ask::kTime:
          time(in, made);
          break;
        case Ask::kAfterLoad:
          after_load(in, files, made);
          break;
      }
      if (!in.ok()) throw Failed{Answer::kRefused, "a message was cut"};
      out.number(Answer::kDone);
      return out.bytes() + made.bytes();
    } catch (const Failed& failed) {
      out.number(failed.answer);
      out.text(failed.message);
    } catch (const std::bad_alloc&) {
      out.number(Answer::kNoMemory);
      out.text("not enough memory");
    } catch (const std::exception& e) {
      out.number(kind_of(0, e.what()));
      out.text(e.what());
    }
    return out.bytes();
  }

 private:
  template <typename T>
  using Owned = std::unique_ptr<T, void (*)(T*)>;
  using Value = Owned<ort::Value>;

  struct Session {
    std::uint64_t bytes = 0;                          // of the model and its weights
    std::vector<std::unique_ptr<Mapped>> files = {};  // that its weights are views of
    std::vector<Value> weights = {};
    Owned<ort::Session> session = {nullptr, nullptr};
    std::vector<std::string> inputs = {};
  };

  Value owned(ort::Value* value) const { return {value, api_->ReleaseValue}; }

  void check(ort::Status* status) const {
    if (!status) return;
    const Owned<ort::Status> owner(status, api_->ReleaseStatus);
    const std::string message = api_->GetErrorMessage(status);
    throw Failed{kind_of(api_->GetErrorCode(status), message), message};
  }

  void start(Unpacker& in, Packer& out) {
    const std::string library(in.text());
    threads_ = in.number<std::int32_t>();
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw Failed{Answer::kRefused, ::dlerror()};
    const auto base_of = reinterpret_cast<ort::GetApiBase>(::dlsym(handle, "OrtGetApiBase"));
    if (!base_of) throw Failed{Answer::kRefused, "it is no library of ONNX Runtime (it has no OrtGetApiBase)"};
    const std::string version = base_of()->GetVersionString();
    api_ = base_of()->GetApi(ort::kApiVersion);
    if (!api_) throw Failed{Answer::kRefused, "ONNX Runtime " + version + " is older than 1.20"};
    check(api_->CreateEnv(ort::kLogFatal, "saturate", &env_));
    check(api_->GetAllocatorWithDefaultOptions(&allocator_));
    check(api_->CreateCpuMemoryInfo(0, 0, &memory_));
    check(api_->CreateRunOptions(&run_options_));
    check(api_->RunOptionsSetRunLogSeverityLevel(run_options_, ort::kLogFatal));
    out.text(version);
  }

  // The message is a view of what was asked.
  static Given given_of(Unpacker& in, std::vector<int>& files) {
    Given given;
    given.message = in.text();
    for (const int file : files) given.files.push_back(std::make_unique<Mapped>(file));
    files.clear();
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) {
      Weight weight;
      weight.name = in.text();
      weight.dtype = in.number<std::int32_t>();
      weight.dims = dims_of(in);
      const auto file = in.number<std::uint32_t>();
      const auto offset = in.number<std::uint64_t>();
      weight.bytes = in.number<std::uint64_t>();
      if (file >= given.files.size()) throw Failed{Answer::kNotCompared, "a file is missing"};
      weight.data = given.files[file]->at(offset, weight.bytes);
      given.weights.push_back(std::move(weight));
    }
    if (!in.ok()) throw Failed{Answer::kRefused, "a message was cut"};
    return given;
  }

  Owned<ort::SessionOptions> options_of(wire::Level level, wire::Purpose purpose) const {
    ort::SessionOptions* made = nullptr;
    check(api_->CreateSessionOptions(&made));
    Owned<ort::SessionOptions> options(made, api_->ReleaseSessionOptions);
    check(api_->SetSessionGraphOptimizationLevel(made, static_cast<int>(level)));
    check(api_->SetIntraOpNumThreads(made, threads_));
    check(api_->SetSessionLogSeverityLevel(made, ort::kLogFatal));
    if (purpose == wire::Purpose::kComparing)
      check(api_->DisableCpuMemArena(made));     // memory goes back after each run
    else if (purpose == wire::Purpose::kTiming)  // threads of one session that wait for work would take the time of another
      check(api_->AddSessionConfigEntry(made, "session.intra_op.allow_spinning", "0"));
    else
      check(api_->AddSessionConfigEntry(made, "session.force_spinning_stop", "1"));
    return options;
  }

  Session made_of(Given given, ort::SessionOptions* options) const {
    Session session{.bytes = given.message.size(), .files = std::move(given.files)};
    for (const Weight& weight : given.weights) session.bytes += weight.bytes;
    limit_memory(session.bytes);
    std::vector<const char*> names;
    std::vector<const ort::Value*> values;
    for (const Weight& weight : given.weights) {
      session.weights.push_back(tensor(weight.dtype, weight.dims, weight.data, weight.bytes));
      names.push_back(weight.name.c_str());
      values.push_back(session.weights.back().get());
    }
    if (!names.empty()) check(api_->AddExternalInitializers(options, names.data(), values.data(), names.size()));
    ort::Session* loaded = nullptr;
    check(api_->CreateSessionFromArray(env_, given.message.data(), given.message.size(), options, &loaded));
    session.session = {loaded, api_->ReleaseSession};
    return session;
  }

  // The runtime writes to a path alone: that of a file in memory.
  void after_load(Unpacker& in, std::vector<int>& files, Packer& out) {
    const auto level = in.number<wire::Level>();
    Given given = given_of(in, files);
    const FileInMemory file;
    const Owned<ort::SessionOptions> options = options_of(level, wire::Purpose::kComparing);
    check(api_->SetOptimizedModelFilePath(options.get(), file.path().c_str()));
    made_of(std::move(given), options.get());
    out.text(Mapped(::dup(file.number())).all());
  }

  void load(Unpacker& in, std::vector<int>& files) {
    const auto id = in.number<std::uint64_t>();
    const auto level = in.number<wire::Level>();
    const auto purpose = in.number<wire::Purpose>();
    Given given = given_of(in, files);
    const Owned<ort::SessionOptions> options = options_of(level, purpose);
    Session session = made_of(std::move(given), options.get());
    ort::Session* const loaded = session.session.get();
    std::size_t count = 0;
    check(api_->SessionGetInputCount(loaded, &count));
    for (std::size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      check(api_->SessionGetInputName(loaded, i, allocator_, &name));
      session.inputs.emplace_back(name);
      check(api_->AllocatorFree(allocator_, name));
    }
    sessions_.insert_or_assign(id, std::move(session));
  }

  Session& session_of(Unpacker& in) {
    const auto found = sessions_.find(in.number<std::uint64_t>());
    if (found == sessions_.end()) throw Failed{Answer::kRefused, "no such session"};
    return found->second;
  }

  std::map<std::string, Value> inputs_of(Unpacker& in) const {
    std::map<std::string, Value> given;
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) {
      std::string name(in.text());
      given.emplace(std::move(name), value(in));
    }
    return given;
  }

  static std::vector<std::string> names_of(Unpacker& in) {
    std::vector<std::string> names;
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) names.emplace_back(in.text());
    return names;
  }

  // A run as the runtime takes it.
  struct Call {
    ort::Session* session = nullptr;
    std::vector<const char*> names, outputs;
    std::vector<const ort::Value*> values;
  };
  static Call call_of(const Session& session, const std::map<std::string, Value>& given, const std::vector<std::string>& wanted) {
    Call call{session.session.get(), {}, {}, {}};
    for (const std::string& name : session.inputs) {
      const auto it = given.find(name);
      if (it == given.end()) continue;
      call.names.push_back(name.c_str());
      call.values.push_back(it->second.get());
    }
    for (const std::string& name : wanted) call.outputs.push_back(name.c_str());
    return call;
  }

  // Its outputs, and the seconds by this clock.
  template <typename Clock>
  std::pair<std::vector<Value>, double> made_by(const Call& call, const Clock& clock) const {
    std::vector<ort::Value*> made(call.outputs.size(), nullptr);
    const double begin = clock();
    ort::Status* const status = api_->Run(call.session, run_options_, call.names.data(), call.values.data(), call.names.size(),
                                          call.outputs.data(), call.outputs.size(), made.data());
    const double took = clock() - begin;
    std::vector<Value> owners;
    for (ort::Value* one : made) owners.push_back(owned(one));
    check(status);
    return {std::move(owners), took};
  }

  void run(Unpacker& in, Packer& out) {
    const Session& session = session_of(in);
    const std::map<std::string, Value> given = inputs_of(in);
    const std::vector<std::string> wanted = names_of(in);
    if (!in.ok()) return;
    const auto [made, seconds] = made_by(call_of(session, given, wanted), [] { return seconds_by(CLOCK_MONOTONIC); });
    out.number(seconds);
    for (const Value& one : made) write(one.get(), out);
  }

  void time(Unpacker& in, Packer& out) {
    std::vector<const Session*> sessions;
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) sessions.push_back(&session_of(in));
    const std::vector<std::string> wanted = names_of(in);
    std::vector<std::pair<double, std::map<std::string, Value>>> sets;
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) {
      const auto weight = in.number<double>();
      sets.emplace_back(weight, inputs_of(in));
    }
    const auto most = in.number<std::uint64_t>();
    const auto seconds = in.number<double>();
    const auto by = in.number<wire::Clock>();
    if (!in.ok()) return;
    const double end = seconds_by(CLOCK_MONOTONIC) + seconds;
    // Of one thread its own time: what the process does beside it is not the model's.
    const clockid_t of = threads_ == 1 ? CLOCK_THREAD_CPUTIME_ID : by == wire::Clock::kWall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    const auto clock = [of] { return seconds_by(of); };
    std::vector<std::vector<double>> rounds;
    std::vector<std::size_t> order(sessions.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (bool goes_on = !sessions.empty(); goes_on && rounds.size() < most;) {
      std::vector<double> round(sessions.size(), 0);
      std::shuffle(order.begin(), order.end(), random_);  // what ran before leaves its traces in the caches
      for (std::size_t k = 0; k < sessions.size() && goes_on; ++k) {
        const std::size_t turn = order[k];
        for (const auto& [weight, given] : sets) round[turn] += weight * made_by(call_of(*sessions[turn], given, wanted), clock).second;
        goes_on = seconds_by(CLOCK_MONOTONIC) < end || k + 1 == sessions.size();
      }
      if (goes_on) rounds.push_back(std::move(round));
      goes_on = goes_on && seconds_by(CLOCK_MONOTONIC) < end;
    }
    out.number(static_cast<std::uint64_t>(rounds.size()));
    for (const std::vector<double>& round : rounds)
      for (const double one : round) out.number(one);
  }

  static std::vector<std::int64_t> dims_of(Unpacker& in) {
    std::vector<std::int64_t> dims;
    for (auto n = in.number<std::uint32_t>(); n > 0 && in.ok(); --n) dims.push_back(in.number<std::int64_t>());
    return dims;
  }

  Value tensor(int dtype, const std::vector<std::int64_t>& dims, void* data, std::size_t bytes) const {
    static char nothing;
    ort::Value* made = nullptr;
    check(api_->CreateTensorWithDataAsOrtValue(memory_, bytes ? data : &nothing, bytes, dims.data(), dims.size(), dtype, &made));
    return owned(made);
  }

  Value strings(Unpacker& in, const std::vector<std::int64_t>& dims) const {
    ort::Value* made = nullptr;
    check(api_->CreateTensorAsOrtValue(allocator_, dims.data(), dims.size(), ort::kString, &made));
    Value owner = owned(made);
    std::vector<std::string> texts;
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) texts.emplace_back(in.text());
    std::vector<const char*> pointers;
    for (const std::string& text : texts) {
      if (text.find('\0') != std::string::npos) throw Failed{Answer::kNotCompared, "a text with a NUL in it is not sent"};
      pointers.push_back(text.c_str());
    }
    check(api_->FillStringTensor(made, pointers.data(), pointers.size()));
    return owner;
  }

  Value value(Unpacker& in) const {
    switch (in.number<Kind>()) {
      case Kind::kTensor: {
        const auto dtype = in.number<std::int32_t>();
        const std::vector<std::int64_t> dims = dims_of(in);
        if (dtype == ort::kString) return strings(in, dims);
        const std::string_view bytes = in.text();
        ort::Value* made = nullptr;  // of its own memory, which is aligned
        check(api_->CreateTensorAsOrtValue(allocator_, dims.data(), dims.size(), dtype, &made));
        Value owner = owned(made);
        void* to = nullptr;
        check(api_->GetTensorMutableData(made, &to));
        if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
        return owner;
      }
      case Kind::kSequence: {
        std::vector<Value> parts;
        std::vector<const ort::Value*> pointers;
        for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) {
          parts.push_back(value(in));
          pointers.push_back(parts.back().get());
        }
        if (parts.empty()) throw Failed{Answer::kNotCompared, "an empty sequence can't be given to ONNX Runtime"};
        ort::Value* made = nullptr;
        check(api_->CreateValue(pointers.data(), pointers.size(), ort::kSequence, &made));
        return owned(made);
      }
      case Kind::kOptional:
        if (in.number<std::uint8_t>() != 0) return value(in);
        [[fallthrough]];
      case Kind::kAbsent:
        break;
    }
    throw Failed{Answer::kNotCompared, "an input that is absent can't be given to ONNX Runtime"};
  }

  void write(ort::Value* value, Packer& out) const {
    int has = value != nullptr, kind = ort::kTensor;
    if (value) check(api_->HasValue(value, &has));
    if (!has) return out.number(Kind::kAbsent);
    check(api_->GetValueType(value, &kind));
    if (kind == ort::kTensor) return write_tensor(value, out);
    if (kind != ort::kSequence && kind != ort::kMap) throw Failed{Answer::kNotCompared, "an output is of a kind that is not compared"};
    std::size_t count = 2;  // keys and values
    if (kind == ort::kSequence) check(api_->GetValueCount(value, &count));
    out.number(Kind::kSequence);
    out.number(static_cast<std::uint64_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      ort::Value* part = nullptr;
      check(api_->GetValue(value, static_cast<int>(i), allocator_, &part));
      const Value owner = owned(part);
      write(part, out);
    }
  }

  void write_tensor(ort::Value* value, Packer& out) const {
    ort::ShapeInfo* made = nullptr;
    check(api_->GetTensorTypeAndShape(value, &made));
    const Owned<ort::ShapeInfo> info(made, api_->ReleaseTensorTypeAndShapeInfo);
    int dtype = 0;
    std::size_t rank = 0;
    check(api_->GetTensorElementType(made, &dtype));
    check(api_->GetDimensionsCount(made, &rank));
    std::vector<std::int64_t> dims(rank);
    check(api_->GetDimensions(made, dims.data(), rank));
    std::size_t elements = 1;
    for (const std::int64_t dim : dims) elements *= static_cast<std::size_t>(dim);
    out.number(Kind::kTensor);
    out.number(static_cast<std::int32_t>(dtype));
    out.number(static_cast<std::uint32_t>(rank));
    for (const std::int64_t dim : dims) out.number(dim);
    if (dtype == ort::kString) return write_texts(value, elements, out);
    const std::size_t bits = dtype >= 0 && dtype < static_cast<int>(kDtypes.size())
                                 ? static_cast<std::size_t>(kDtypes[static_cast<std::size_t>(dtype)].bits)
                                 : 0;
    if (bits == 0) throw Failed{Answer::kNotCompared, "an output has an element type that is not compared"};
    void* data = nullptr;
    check(api_->GetTensorMutableData(value, &data));
    out.text({static_cast<const char*>(data), (elements * bits + 7) / 8});
  }

  void write_texts(const ort::Value* value, std::size_t elements, Packer& out) const {
    std::size_t bytes = 0;
    check(api_->GetStringTensorDataLength(value, &bytes));
    std::string all(bytes, '\0');
    std::vector<std::size_t> begins(elements);
    if (elements > 0) check(api_->GetStringTensorContent(value, all.data(), bytes, begins.data(), elements));
    out.number(static_cast<std::uint64_t>(elements));
    for (std::size_t i = 0; i < elements; ++i)
      out.text(std::string_view(all).substr(begins[i], (i + 1 < elements ? begins[i + 1] : bytes) - begins[i]));
  }

  // Of loaded models, one more of so many bytes, and a run.
  void limit_memory(std::uint64_t bytes) const {
    if (!wire::kLimitsMemory || most_of_a_run_ == 0) return;
    for (const auto& [id, session] : sessions_) bytes += session.bytes;
    rlimit data{};
    if (::getrlimit(RLIMIT_DATA, &data) != 0) return;
    data.rlim_cur = std::min(data.rlim_max, kBeside + most_of_a_run_ + kTimesItsSize * bytes);
    ::setrlimit(RLIMIT_DATA, &data);
  }

  const ort::Api* api_ = nullptr;
  ort::Env* env_ = nullptr;
  ort::Allocator* allocator_ = nullptr;
  ort::MemoryInfo* memory_ = nullptr;
  ort::RunOptions* run_options_ = nullptr;
  std::int32_t threads_ = 1;
  rlim_t most_of_a_run_;
  std::map<std::uint64_t, Session> sessions_;
  std::minstd_rand random_;  // of the order of turns
};

// No core file, no file at all unless FileInMemory allows one, few open ones; and an end where the parent ends. From 1.30 on ONNX Runtime
// tells its makers what it runs, over the network and by way of a file in the user's cache, unless this variable is set when it is loaded.
void take_limits() {
  ::setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto limit = [](auto what, rlim_t now, rlim_t most) {
    const rlimit both{now, most};
    ::setrlimit(what, &both);
  };
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_FSIZE, 0, wire::kMostSaved);
  limit(RLIMIT_NOFILE, 256, 256);
  for (const int signal : {SIGINT, SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
}

}  // namespace
}  // namespace saturate

int main(int argc, char** argv) {
  using namespace saturate;
  // saturate-judge PARENT MEMORY
  if (argc != 3) {
    static constexpr std::string_view kUsage = "saturate-judge: a part of saturate, which starts it; see `saturate --help`\n";
    return ::write(STDERR_FILENO, kUsage.data(), kUsage.size()) < 0 ? 1 : 2;
  }
  take_limits();
  if (::getppid() != std::atoi(argv[1])) return 1;
  Child child(std::strtoull(argv[2], nullptr, 10));
  for (wire::Message message;;) {
    if (wire::receive_message(wire::kSocket, message, [] { return true; }) != wire::Got::kMessage) ::_exit(0);
    const std::string answer = child.answer(Unpacker(message.bytes), message.files);
    for (const int file : message.files) ::close(file);
    if (!wire::send_message(wire::kSocket, answer)) ::_exit(0);
  }
}
