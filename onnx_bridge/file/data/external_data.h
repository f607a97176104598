// Tensors that lie in files beside the model: read by mmap (never outside the model's folder), written by copying file to file.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/model/data_format.h"
#include "onnx_bridge/model/tensor.h"

namespace saturate {

// TensorProto.external_data as written; unknown keys are not looked at.
struct ExternalReference {
  std::string location;
  std::optional<std::string> offset, length;
};

// The data files of one model folder. A file is mapped once and stays open as long as a tensor of it lives.
class ExternalFiles {
 public:
  // `folder` holds the model; "." for the current one, "" if there is none: every reference is refused.
  explicit ExternalFiles(std::string folder);
  ~ExternalFiles();
  ExternalFiles(const ExternalFiles&) = delete;
  ExternalFiles& operator=(const ExternalFiles&) = delete;
  // A view of the range, which must be exactly the bytes of such a tensor. Refused: absolute paths, "..", symbolic links on any step, hard
  // links, everything but regular files, ranges outside the file. One hard link is allowed: the name that save_model gives the same data
  // while it renames.
  absl::StatusOr<Tensor> map(const ExternalReference& reference, DType dtype, Shape dims);

 private:
  struct File;
  absl::StatusOr<std::shared_ptr<File>> open(const std::string& location);
  std::string folder_;
  int folder_fd_ = -1;
  std::map<std::string, std::shared_ptr<File>> files_;
};

// All of a file that is open for reading into an empty one that is open for writing.
// Holes stay holes, and the file system shares the bytes where it can. kCancelled once `cancel` is set.
absl::Status copy_file(const FileRange& from, int to, const std::string& name_for_errors, const std::atomic<bool>* cancel = nullptr);

// `<model>.data`, `<model>.2.data`, ...: the names that save_model gives the data of a model; those of safetensors end so.
std::string data_name(const std::string& model, int number, DataFormat format);

// Collects the tensors that go to a new data file and writes them: file to file where they came from a file, else from memory.
class DataFilePlan {
 public:
  explicit DataFilePlan(std::string location, DataFormat format = DataFormat::kRaw) : location_(std::move(location)), format_(format) {}
  struct Place {
    std::uint64_t offset = 0, length = 0;
  };
  // The same data (same file range or same memory) is stored once, under its first name.
  Place place(const Tensor& tensor, const std::string& name);
  // All tensors are known: gives those of safetensors their places, and returns whether these are others now. place() then tells them;
  // after any other, write() fails.
  bool lay_out();
  const std::string& location() const { return location_; }
  bool empty() const { return chunks_.empty(); }
  std::uint64_t size() const { return end_; }
  // Holes of the input's files stay holes. kCancelled once `cancel` is set.
  absl::Status write(int fd, const std::string& name_for_errors, const std::atomic<bool>* cancel = nullptr) const;
  // Only the name in the model's references is another.
  void set_location(std::string location) { location_ = std::move(location); }

 private:
  struct Chunk {
    Tensor tensor;
    Place place;
    std::string name;
  };
  std::string location_;
  DataFormat format_;
  std::string front_;          // of the file, before the data
  bool has_no_place_ = false;  // a tensor that was placed after lay_out() and has data
  std::uint64_t end_ = 0;
  std::vector<Chunk> chunks_;
  std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, std::size_t> known_;  // number of a chunk
};

}  // namespace saturate
