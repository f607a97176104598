// Loading and saving ONNX files: binary protobuf, ONNX text (.onnxtxt), external data by mmap.
// Models are untrusted: sizes are checked before allocation, nesting is bounded, no path leaves the model's folder.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/model/data_format.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Reads a model and checks its structure: acyclic (nodes are sorted if need be), every input defined once, names unique, tensors
// consistent. Errors name the file and the place. Large weights stay in the file, mapped: while the model lives, the file may be replaced
// (by a rename, as save_model does), but not written into or cut.
absl::StatusOr<Model> load_model(const std::string& path);
// The data of the graph's dense initializer number `index` where it lies apart from the model's bytes.
struct DetachedData {
  std::size_t index = 0;
  std::span<const std::byte> bytes;  // as raw_data
  std::shared_ptr<const void> owner;
  bool mapped = false;  // see Tensor::mapped()
};
// The same from bytes; external data is looked up in `folder` ("" : refused). Initializers in `detached` hold no data in the bytes.
absl::StatusOr<Model> parse_model(std::string_view bytes, const std::string& folder, std::vector<DetachedData> detached = {});
absl::StatusOr<Model> parse_model_text(std::string_view text, const std::string& name_for_errors);
// True if the file uses ai.onnx but imports no version of it: the newest was taken then, as ONNX Runtime does.
bool opset_was_assumed(const Model& model);
// Names that several Constants of one graph of the file define. The last was taken, as ONNX Runtime does.
std::vector<std::string> names_of_repeated_constants(const Model& model);
// Of what the model's file says beside its graphs and tensors: doc strings, metadata, strings of attributes, fields that ONNX has no name
// for.
std::size_t bytes_of_texts(const Model& model);

struct SaveOptions {
  // New initializers of at least so many bytes go outside when the model has external data. Those that were inline stay so, unless
  // force_external or max_inline_bytes send everything of this size outside.
  std::size_t external_threshold = 1024;
  std::size_t max_inline_bytes = 1'800'000'000;  // more than this goes to external data
  bool force_external = false;
  std::optional<DataFormat> data_format;      // of external data, which is made then; else as the model's data has it, or raw
  const std::atomic<bool>* cancel = nullptr;  // once set, before the result is in place: kCancelled, and nothing was written
  std::string* data_file = nullptr;           // told: the path of the data file that was written; untouched where there is none
};
// A failed save leaves nothing behind and nothing overwritten; one that is cut off at any moment leaves the old model or the new one,
// whole. Symbolic links are followed, the mode of a file that is replaced is kept. A `path` that ends in .onnxtxt gets ONNX text (all data
// inside; doc strings of parts and unknown fields have no place there). Tensors that came from external files are copied file to file into
// `<path>.data` (`<path>.safetensors` in that format); a result stays external if its input was. A file of this name is left alone where
// the model that `path` replaces does not refer to it, or the model being saved does. Then `<path>.2.data` is taken. What has an `origin`
// is written as that message with changed names, types and subgraphs put in. All of these write what ready_to_write() makes of the model
// (model/written.h).
absl::Status save_model(const Model& model, const std::string& path, const SaveOptions& options = {});
// The bytes of a file of a model, as save_model() puts a model in place; it has no external data.
absl::Status save_bytes(std::string_view bytes, const std::string& path, const SaveOptions& options = {});
absl::StatusOr<std::string> serialize_model(const Model& model);
// What stands for data that is left out.
enum class LeftOutAs : std::uint8_t {
  kNothing,   // setting raw_data to what `detached` says gives the whole message
  kExternal,  // the message says that the data is external, in a file that is not there; a runtime is to be given it by name. The model
              // goes there as it is, whether it is ready to be written or not
};
// The same without the raw_data of initializers of at least `threshold` bytes.
absl::StatusOr<std::string> serialize_model(const Model& model, std::size_t threshold, std::vector<DetachedData>& detached,
                                            LeftOutAs as = LeftOutAs::kNothing);
std::string print_model_text(const Model& model);
// Sets the value of a key of the model's metadata_props.
void set_metadata(Model& model, const std::string& key, const std::string& value);
// Whether the model names devices; and those of a node.
bool names_devices(const Model& model);
Devices devices_of(const Node& node);
// metadata_props of a node, as they would be written.
Metadata metadata_of(const Node& node);

}  // namespace saturate
