// Stands for a shared library of ONNX Runtime: a model gives its first input as its output, and goes wrong as its graph's name says:
// judge_load_dies_99 ends the process when it is loaded at level 99 (all optimizations), judge_run_moves_0 gives other numbers at level 0.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/judge/ort_abi.h"

namespace saturate::ort {

struct Status {
  int code;
  std::string message;
};
struct SessionOptions {
  int level = 99;
  std::string saved = {};  // where the model is saved after it is loaded
};
struct Session {
  std::string model;
  int level;
};
struct Value {
  int dtype = 1;
  std::vector<std::int64_t> dims;
  std::string own;
  void* data = nullptr;
};
struct ShapeInfo {
  const Value* of;
};
struct Env {};
struct RunOptions {};
struct MemoryInfo {};
struct Allocator {};

namespace {

Allocator allocator;
Env env;
MemoryInfo memory;
constexpr std::size_t kBytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8};

bool asked(const Session& session, std::string_view what) {
  const std::string word = "judge_" + std::string(what) + "_";
  return session.model.find(word + std::to_string(session.level)) != std::string::npos ||
         session.model.find(word + "any") != std::string::npos;
}

Status* wrong(const Session& session, const std::string& where) {
  if (asked(session, where + "_dies")) {
    static constexpr std::string_view kWords = "terminate called: a fake abort\n";
    if (::write(STDERR_FILENO, kWords.data(), kWords.size()) > 0) std::abort();
  }
  while (asked(session, where + "_hangs")) ::usleep(1000);
  if (asked(session, where + "_works"))
    for (const std::clock_t begin = std::clock(); std::clock() - begin < CLOCKS_PER_SEC / 1000;) {
    }
  if (asked(session, where + "_refuses")) return new Status{2, "refused\nin two lines"};
  if (asked(session, where + "_no_kernel")) return new Status{kNotImplemented, "no kernel"};
  if (asked(session, where + "_fills")) return new Status{6, "Failed to allocate memory for requested buffer of size 1"};
  if (asked(session, where + "_takes_3_gb")) {
    void* const taken = ::mmap(nullptr, std::size_t{3} << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (taken == MAP_FAILED) return new Status{1, "std::bad_alloc"};
    ::munmap(taken, std::size_t{3} << 30);
  }
  return nullptr;
}

std::size_t bytes_of(const Value& value) {
  std::size_t n = kBytes[value.dtype];
  for (const std::int64_t dim : value.dims) n *= static_cast<std::size_t>(dim);
  return n;
}

Status* create_session(const Env*, const void* model, std::size_t bytes, const SessionOptions* options, Session** out) {
  *out = new Session{std::string(static_cast<const char*>(model), bytes), options->level};
  if (!options->saved.empty()) std::ofstream(options->saved) << (asked(**out, "saves_nonsense") ? "nonsense" : (*out)->model);
  return wrong(**out, "load");
}

Status* run(Session* session, const RunOptions*, const char* const*, const Value* const* inputs, std::size_t, const char* const*,
            std::size_t, Value** outputs) {
  if (Status* status = wrong(*session, "run")) return status;
  auto* out = new Value(*inputs[0]);
  out->own.assign(static_cast<const char*>(inputs[0]->data), bytes_of(*inputs[0]));
  out->data = out->own.data();
  if (asked(*session, "run_moves"))
    for (std::size_t i = 0; i < out->own.size() / sizeof(float); ++i) static_cast<float*>(out->data)[i] += 1;
  outputs[0] = out;
  return nullptr;
}

Api api() {
  Api a{};
  a.GetErrorCode = [](const Status* s) { return s->code; };
  a.GetErrorMessage = [](const Status* s) { return s->message.c_str(); };
  a.CreateEnv = [](int, const char*, Env** out) { return *out = &env, static_cast<Status*>(nullptr); };
  a.CreateSessionFromArray = create_session;
  a.Run = run;
  a.CreateSessionOptions = [](SessionOptions** out) { return *out = new SessionOptions, static_cast<Status*>(nullptr); };
  a.SetOptimizedModelFilePath = [](SessionOptions* o, const char* path) { return o->saved = path, static_cast<Status*>(nullptr); };
  a.DisableCpuMemArena = [](SessionOptions*) { return static_cast<Status*>(nullptr); };
  a.SetSessionLogSeverityLevel = [](SessionOptions*, int) { return static_cast<Status*>(nullptr); };
  a.SetSessionGraphOptimizationLevel = [](SessionOptions* o, int level) { return o->level = level, static_cast<Status*>(nullptr); };
  a.SetIntraOpNumThreads = [](SessionOptions*, int) { return static_cast<Status*>(nullptr); };
  a.SessionGetInputCount = [](const Session*, std::size_t* out) { return *out = 1, static_cast<Status*>(nullptr); };
  a.SessionGetInputName = [](const Session*, std::size_t, Allocator*, char** out) {
    return *out = ::strdup("x"), static_cast<Status*>(nullptr);
  };
  a.CreateRunOptions = [](RunOptions** out) { return *out = nullptr, static_cast<Status*>(nullptr); };
  a.RunOptionsSetRunLogSeverityLevel = [](RunOptions*, int) { return static_cast<Status*>(nullptr); };
  a.CreateTensorAsOrtValue = [](Allocator*, const std::int64_t* dims, std::size_t rank, int dtype, Value** out) {
    *out = new Value{dtype, {dims, dims + rank}, {}, nullptr};
    (*out)->own.resize(bytes_of(**out));
    (*out)->data = (*out)->own.data();
    return static_cast<Status*>(nullptr);
  };
  a.CreateTensorWithDataAsOrtValue = [](const MemoryInfo*, void* data, std::size_t, const std::int64_t* dims, std::size_t rank, int dtype,
                                        Value** out) {
    return *out = new Value{dtype, {dims, dims + rank}, {}, data}, static_cast<Status*>(nullptr);
  };
  a.GetTensorMutableData = [](Value* v, void** out) { return *out = v->data, static_cast<Status*>(nullptr); };
  a.GetTensorElementType = [](const ShapeInfo* s, int* out) { return *out = s->of->dtype, static_cast<Status*>(nullptr); };
  a.GetDimensionsCount = [](const ShapeInfo* s, std::size_t* out) { return *out = s->of->dims.size(), static_cast<Status*>(nullptr); };
  a.GetDimensions = [](const ShapeInfo* s, std::int64_t* dims, std::size_t rank) {
    for (std::size_t i = 0; i < rank; ++i) dims[i] = s->of->dims[i];
    return static_cast<Status*>(nullptr);
  };
  a.GetTensorTypeAndShape = [](const Value* v, ShapeInfo** out) { return *out = new ShapeInfo{v}, static_cast<Status*>(nullptr); };
  a.GetValueType = [](const Value*, int* out) { return *out = kTensor, static_cast<Status*>(nullptr); };
  a.CreateCpuMemoryInfo = [](int, int, MemoryInfo** out) { return *out = &memory, static_cast<Status*>(nullptr); };
  a.AllocatorFree = [](Allocator*, void* p) { return std::free(p), static_cast<Status*>(nullptr); };
  a.GetAllocatorWithDefaultOptions = [](Allocator** out) { return *out = &allocator, static_cast<Status*>(nullptr); };
  a.ReleaseStatus = [](Status* s) { delete s; };
  a.ReleaseSession = [](Session* s) { delete s; };
  a.ReleaseValue = [](Value* v) { delete v; };
  a.ReleaseTensorTypeAndShapeInfo = [](ShapeInfo* s) { delete s; };
  a.ReleaseSessionOptions = [](SessionOptions* o) { delete o; };
  a.AddSessionConfigEntry = [](SessionOptions*, const char*, const char*) { return static_cast<Status*>(nullptr); };
  a.HasValue = [](const Value*, int* out) { return *out = 1, static_cast<Status*>(nullptr); };
  a.AddExternalInitializers = [](SessionOptions*, const char* const*, const Value* const*, std::size_t) {
    return static_cast<Status*>(nullptr);
  };
  return a;
}

}  // namespace
}  // namespace saturate::ort

extern "C" const saturate::ort::ApiBase* OrtGetApiBase() {
  using namespace saturate::ort;
  static const Api all = api();
  static const ApiBase base{[](std::uint32_t version) { return version <= kApiVersion ? &all : nullptr; }, [] { return "1.99.7"; }};
  return &base;
}
