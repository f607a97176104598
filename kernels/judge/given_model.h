// A model as it is handed to the judge's child: its message, and the files in which its large weights lie.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Weights of at least so many bytes are handed over by files, of models that have at least kLargeModel bytes of them.
inline constexpr std::size_t kLargeWeight = std::size_t{64} << 10, kLargeModel = std::size_t{16} << 20;

// An open file, closed with this.
class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();
  int number() const { return file_; }

 private:
  int file_;
};

struct WeightPlace {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape dims;
  std::uint32_t file = 0;  // index of files
  std::uint64_t offset = 0, bytes = 0;
};

struct GivenModel {
  std::string message;  // of the ModelProto; large weights are external data there
  std::vector<std::shared_ptr<const OpenFile>> files;
  std::vector<WeightPlace> weights;
  std::vector<std::string> outputs;
  std::vector<ValueType> output_types;
};

// Weights that lie in files already are handed over as these files. Others are copied: to memory that is shared where they are less than 1
// GB together, else to a file without a name in the folder for temporary ones.
absl::StatusOr<std::shared_ptr<const GivenModel>> give_model(const Model& model);

}  // namespace saturate
