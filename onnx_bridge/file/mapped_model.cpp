#include "onnx_bridge/file/mapped_model.h"

#include <sys/mman.h>

#include "onnx_bridge/file/mapped_files.h"
#include "onnx_bridge/file/proto/fields.h"

namespace saturate::proto {
namespace {

// onnx.proto3: ModelProto, GraphProto, TensorProto.
constexpr int kGraph = 7, kInitializer = 5, kRawData = 9, kDataLocation = 14;
constexpr int kTypedData[] = {4, 5, 6, 7, 10, 11};

struct Piece {
  std::string_view before, data, after;  // of an initializer's message, around its raw_data
};

// The raw_data of an initializer, where it is large and the only data.
std::optional<Piece> large_data(std::string_view tensor) {
  std::optional<WireField> raw;
  for (std::size_t at = 0; at < tensor.size();) {
    const auto field = read_field(tensor, at);
    if (!field || field->number == kDataLocation) return std::nullopt;
    for (int n : kTypedData)
      if (field->number == n) return std::nullopt;
    if (field->number == kRawData) {
      if (raw || field->type != 2) return std::nullopt;
      raw = field;
    }
    at = field->end;
  }
  if (!raw || raw->payload.size() < kMappedFrom) return std::nullopt;
  return Piece{tensor.substr(0, raw->begin), raw->payload, tensor.substr(raw->end)};
}

// The graph's message without large data; nullopt where it is damaged.
std::optional<std::string> split_graph(std::string_view graph, const std::shared_ptr<const void>& owner,
                                       std::vector<DetachedData>& detached) {
  std::string out;
  std::size_t index = 0, copied = 0;
  for (std::size_t at = 0; at < graph.size();) {
    const auto field = read_field(graph, at);
    if (!field) return std::nullopt;
    if (field->number == kInitializer) {
      if (field->type != 2) return std::nullopt;
      if (const auto piece = large_data(field->payload)) {
        out.append(graph.substr(copied, field->begin - copied));
        append_bytes_field(out, kInitializer, std::string(piece->before).append(piece->after));
        copied = field->end;
        detached.push_back({index, std::as_bytes(std::span(piece->data)), owner, true});
      }
      ++index;
    }
    at = field->end;
  }
  return out.append(graph.substr(copied));
}

}  // namespace

MappedFile::~MappedFile() {
  forget_mapping(data);
  ::munmap(const_cast<char*>(data), size);
}

std::shared_ptr<const MappedFile> map_file(int fd, std::size_t size, const std::string& path) {
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (base == MAP_FAILED) return nullptr;
  note_mapping(base, size, path, fd);
  return std::make_shared<const MappedFile>(static_cast<const char*>(base), size);
}

std::optional<SplitModel> split_model(std::string_view wire, std::shared_ptr<const void> owner) {
  std::optional<WireField> graph;
  for (std::size_t at = 0; at < wire.size();) {
    const auto field = read_field(wire, at);
    if (!field) return std::nullopt;
    if (field->number == kGraph) {
      if (graph || field->type != 2) return std::nullopt;
      graph = field;
    }
    at = field->end;
  }
  if (!graph) return std::nullopt;
  SplitModel out;
  const std::optional<std::string> rest = split_graph(graph->payload, owner, out.detached);
  if (!rest || out.detached.empty()) return std::nullopt;
  out.skeleton = wire.substr(0, graph->begin);
  append_bytes_field(out.skeleton, kGraph, *rest);
  out.skeleton.append(wire.substr(graph->end));
  return out;
}

}  // namespace saturate::proto
