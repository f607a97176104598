// A file without a name for tensors that are made, so that they take no memory: they are mapped from it, and saved from it file to file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/model/tensor.h"

namespace saturate {

// It is there as long as a tensor of it lives, or this object.
class ScratchFile {
 public:
  // In the folder of this path, which need not be there.
  explicit ScratchFile(std::string beside) : beside_(std::move(beside)) {}
  // More bytes of the next tensor. The file is made by the first; kUnavailable where the folder takes none, or is full.
  absl::Status append(std::span<const std::byte> part);
  // A view of what was appended since the last one: all bytes of such a tensor. Where `external`, it is saved beside a model, not inside.
  absl::StatusOr<Tensor> tensor(DType dtype, Shape dims, bool external);
  // Forgets what was appended since the last tensor.
  void drop() { end_ = begin_; }

 private:
  struct File;
  absl::Status open();
  std::string beside_;
  std::shared_ptr<File> file_;
  std::uint64_t begin_ = 0, end_ = 0;  // of the next tensor
};

}  // namespace saturate
