// A model file whose large weights stay where they are: mapped, beside a message without them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_bridge/file/io.h"

namespace saturate::proto {

// Initializers of the main graph with at least so many bytes of raw_data are left in the file.
inline constexpr std::size_t kMappedFrom = 64 * 1024;

// A file mapped for reading, whole; null where the system does not map it.
struct MappedFile {
  const char* data = nullptr;
  std::size_t size = 0;
  MappedFile(const char* at, std::size_t n) : data(at), size(n) {}
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
};
std::shared_ptr<const MappedFile> map_file(int fd, std::size_t size, const std::string& path);

struct SplitModel {
  std::string skeleton;  // the ModelProto without the data of those initializers
  std::vector<DetachedData> detached;
};
// nullopt where nothing is large, or where the bytes are not written as every writer does it (several graphs, a tensor with data twice):
// read such a model as a whole. `owner` keeps `wire` alive.
std::optional<SplitModel> split_model(std::string_view wire, std::shared_ptr<const void> owner);

}  // namespace saturate::proto
