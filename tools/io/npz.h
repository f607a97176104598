// NumPy's .npy and .npz files as tensors, both ways (numpy/lib/format.py, format versions 1.0 to 3.0; ZIP as in PKWARE's APPNOTE 6.3,
// stored and deflated).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/model/tensor.h"

namespace saturate {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;  // in the file's order

// One array: bool, ints, floats (f2 f4 f8), complex, U (as UTF-8) and S strings; V2 is read as bfloat16 (what ml_dtypes writes).
// Big-endian and Fortran-ordered arrays are brought to C order. Object arrays are refused: they'd need unpickling.
absl::StatusOr<Tensor> parse_npy(std::string_view bytes, const std::string& place);
absl::StatusOr<std::string> print_npy(const Tensor& tensor);

// What an array's header tells. `bytes`: of all its elements, as they lie in the file.
struct NpyHead {
  DType dtype = DType::kUndefined;
  Shape dims;
  std::uint64_t bytes = 0;
};
// `bytes`: the beginning of an array; the header must end in it.
absl::StatusOr<NpyHead> parse_npy_head(std::string_view bytes, const std::string& place);

// Asked of each array before any is unpacked. An error ends the reading.
using AdmitArray = std::function<absl::Status(const std::string& name, const NpyHead& head)>;

// That all arrays together take at most so many bytes, `most` being what --max-memory gives.
AdmitArray within_memory(const std::string& path, std::uint64_t most);

inline constexpr std::uint64_t kMostUnpacked = std::uint64_t{1} << 36;

// The arrays of a .npz (member names without `.npy`). Errors begin with the path. All members together may unpack to at most `max_bytes`,
// and to no more than the machine has; each byte of the file belongs to one member.
absl::StatusOr<NamedTensors> load_npz(const std::string& path, std::uint64_t max_bytes = kMostUnpacked, const AdmitArray& admit = nullptr,
                                      Pipes pipes = Pipes::kTaken);
// Stored, not compressed, with fixed time stamps: the same tensors give the same bytes. Written beside `path` and renamed.
absl::Status save_npz(const NamedTensors& tensors, const std::string& path);

}  // namespace saturate
