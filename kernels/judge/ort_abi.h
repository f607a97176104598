// The part of ONNX Runtime's C interface that the judge uses, by the place of each function in its table. The table only ever grows at
// its end, so that one of version 20 (ONNX Runtime 1.20) is in all later releases. Source: the header of the C interface (MIT); names are
// theirs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saturate::ort {

struct Status;
struct Env;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct MemoryInfo;
struct Allocator;
struct ShapeInfo;  // OrtTensorTypeAndShapeInfo

inline constexpr std::uint32_t kApiVersion = 20;
inline constexpr int kLogFatal = 4;
inline constexpr int kNotImplemented = 9;                  // OrtErrorCode
enum Kind : int { kTensor = 1, kSequence = 2, kMap = 3 };  // of ONNXType
// ONNXTensorElementDataType has the numbers of onnx.TensorProto.DataType.
inline constexpr int kString = 8;

// Places that are not used.
template <std::size_t N>
struct Gap {
  void* functions[N];
};

struct Api {
  Gap<1> to_1;
  int (*GetErrorCode)(const Status*);
  const char* (*GetErrorMessage)(const Status*);
  Status* (*CreateEnv)(int severity, const char* name, Env** out);
  Gap<4> to_8;
  Status* (*CreateSessionFromArray)(const Env*, const void* model, std::size_t bytes, const SessionOptions*, Session** out);
  Status* (*Run)(Session*, const RunOptions*, const char* const* input_names, const Value* const* inputs, std::size_t n_inputs,
                 const char* const* output_names, std::size_t n_outputs, Value** outputs);
  Status* (*CreateSessionOptions)(SessionOptions** out);
  Status* (*SetOptimizedModelFilePath)(SessionOptions*, const char* path);
  Gap<7> to_19;
  Status* (*DisableCpuMemArena)(SessionOptions*);
  Gap<2> to_22;
  Status* (*SetSessionLogSeverityLevel)(SessionOptions*, int severity);
  Status* (*SetSessionGraphOptimizationLevel)(SessionOptions*, int level);
  Status* (*SetIntraOpNumThreads)(SessionOptions*, int threads);
  Gap<5> to_30;
  Status* (*SessionGetInputCount)(const Session*, std::size_t* out);
  Gap<5> to_36;
  Status* (*SessionGetInputName)(const Session*, std::size_t index, Allocator*, char** out);
  Gap<2> to_39;
  Status* (*CreateRunOptions)(RunOptions** out);
  Gap<1> to_41;
  Status* (*RunOptionsSetRunLogSeverityLevel)(RunOptions*, int severity);
  Gap<6> to_48;
  Status* (*CreateTensorAsOrtValue)(Allocator*, const std::int64_t* dims, std::size_t rank, int dtype, Value** out);
  Status* (*CreateTensorWithDataAsOrtValue)(const MemoryInfo*, void* data, std::size_t bytes, const std::int64_t* dims, std::size_t rank,
                                            int dtype, Value** out);
  Gap<1> to_51;
  Status* (*GetTensorMutableData)(Value*, void** out);
  Status* (*FillStringTensor)(Value*, const char* const* texts, std::size_t n);
  Status* (*GetStringTensorDataLength)(const Value*, std::size_t* out);
  Status* (*GetStringTensorContent)(const Value*, void* bytes, std::size_t n_bytes, std::size_t* offsets, std::size_t n_offsets);
  Gap<5> to_60;
  Status* (*GetTensorElementType)(const ShapeInfo*, int* out);
  Status* (*GetDimensionsCount)(const ShapeInfo*, std::size_t* out);
  Status* (*GetDimensions)(const ShapeInfo*, std::int64_t* dims, std::size_t rank);
  Gap<2> to_65;
  Status* (*GetTensorTypeAndShape)(const Value*, ShapeInfo** out);
  Gap<1> to_67;
  Status* (*GetValueType)(const Value*, int* out);
  Gap<1> to_69;
  Status* (*CreateCpuMemoryInfo)(int allocator_type, int memory_type, MemoryInfo** out);
  Gap<6> to_76;
  Status* (*AllocatorFree)(Allocator*, void*);
  Gap<1> to_78;
  Status* (*GetAllocatorWithDefaultOptions)(Allocator** out);
  Gap<1> to_80;
  Status* (*GetValue)(const Value*, int index, Allocator*, Value** out);
  Status* (*GetValueCount)(const Value*, std::size_t* out);
  Status* (*CreateValue)(const Value* const* parts, std::size_t n, int kind, Value** out);
  Gap<10> to_93;
  void (*ReleaseStatus)(Status*);
  Gap<1> to_95;
  void (*ReleaseSession)(Session*);
  void (*ReleaseValue)(Value*);
  Gap<2> to_99;
  void (*ReleaseTensorTypeAndShapeInfo)(ShapeInfo*);
  void (*ReleaseSessionOptions)(SessionOptions*);
  Gap<29> to_130;
  Status* (*AddSessionConfigEntry)(SessionOptions*, const char* key, const char* value);
  Gap<61> to_192;
  Status* (*HasValue)(const Value*, int* out);
  Gap<17> to_210;
  Status* (*AddExternalInitializers)(SessionOptions*, const char* const* names, const Value* const* values, std::size_t n);
};

constexpr std::size_t place(std::size_t offset) { return offset / sizeof(void*); }
static_assert(place(offsetof(Api, Run)) == 9 && place(offsetof(Api, SetOptimizedModelFilePath)) == 11);
static_assert(place(offsetof(Api, DisableCpuMemArena)) == 19);
static_assert(place(offsetof(Api, SessionGetInputName)) == 36 && place(offsetof(Api, CreateTensorAsOrtValue)) == 48);
static_assert(place(offsetof(Api, GetTensorTypeAndShape)) == 65 && place(offsetof(Api, GetValue)) == 80);
static_assert(place(offsetof(Api, ReleaseSessionOptions)) == 100 && place(offsetof(Api, HasValue)) == 192);
static_assert(place(offsetof(Api, AddSessionConfigEntry)) == 130 && place(offsetof(Api, AddExternalInitializers)) == 210);

struct ApiBase {
  const Api* (*GetApi)(std::uint32_t version);
  const char* (*GetVersionString)();
};
using GetApiBase = const ApiBase* (*)();

}  // namespace saturate::ort
