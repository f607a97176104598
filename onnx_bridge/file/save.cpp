#include <unistd.h>

#include <climits>
#include <cstring>
#include <optional>

#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/output_file.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/file/save_files.h"
#include "onnx_bridge/file/written.h"

namespace saturate {
namespace {

using google::protobuf::MessageLite;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
constexpr int kModelGraph = 7, kModelFunctions = 25, kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5, kTensorRaw = 9;

std::size_t varint_size(std::uint64_t n) { return CodedOutputStream::VarintSize64(n); }
std::size_t field_size(int number, std::size_t payload) {
  return varint_size(static_cast<std::uint64_t>(number) << 3) + varint_size(payload) + payload;
}

void write_tag(CodedOutputStream& out, int number, std::size_t payload) {
  out.WriteTag(WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  out.WriteVarint64(payload);
}

void write_message(CodedOutputStream& out, int number, const MessageLite& message) {
  write_tag(out, number, message.ByteSizeLong());
  message.SerializeWithCachedSizes(&out);
}

void write_raw(CodedOutputStream& out, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += 1u << 30) {
    const std::size_t n = std::min<std::size_t>(bytes.size() - at, 1u << 30);
    out.WriteRaw(bytes.data() + at, static_cast<int>(n));
  }
}

// Data of at least so many bytes is left out and told in `to`.
struct Apart {
  std::size_t from = 0;
  LeftOutAs as = LeftOutAs::kNothing;
  std::vector<DetachedData>* to = nullptr;
};

// A model taken apart so that weights are written from where they lie, in the order in which protobuf writes fields.
class ModelPieces {
 public:
  ModelPieces(const Model& model, DataFilePlan* plan, const SaveOptions& options, bool inline_goes_out, const Apart& apart = {})
      : writer_(plan, options.external_threshold, inline_goes_out) {
    for (const Node& n : model.graph.nodes) nodes_.push_back(writer_.message(n));
    for (const Initializer& i : model.graph.initializers) {
      if (i.sparse) continue;
      auto without = apart.to && i.tensor.bytes().size() >= apart.from ? writer_.parts_without_data(i) : std::nullopt;
      if (without) {
        apart.to->push_back({initializers_.size(), std::exchange(without->raw, {}), std::make_shared<Tensor>(i.tensor)});
        if (apart.as == LeftOutAs::kExternal) without->message = writer_.as_external(*without->message, i.tensor.bytes().size());
      }
      initializers_.push_back(without ? *without : writer_.parts(i, true));
      tensors_.push_back(i.tensor);
    }
    for (const Function& f : model.functions) functions_.push_back(writer_.message(f));
    onnx::GraphProto graph;
    writer_.write_rest(model.graph, &graph);
    graph_rest_ = graph.SerializeAsString();
    onnx::ModelProto rest;
    writer_.write_rest(model, &rest);
    model_rest_ = rest.SerializeAsString();
    measure();
  }

  std::size_t size() const { return size_; }

  bool write(google::protobuf::io::ZeroCopyOutputStream* stream) const {
    CodedOutputStream out(stream);
    out.SetSerializationDeterministic(true);
    const std::size_t before_graph = proto::offset_after(model_rest_, kModelGraph),
                      before_functions = proto::offset_after(model_rest_, kModelFunctions);
    out.WriteRaw(model_rest_.data(), static_cast<int>(before_graph));
    write_tag(out, kModelGraph, graph_size_);
    write_graph(out);
    out.WriteRaw(model_rest_.data() + before_graph, static_cast<int>(before_functions - before_graph));
    for (const auto* f : functions_) write_message(out, kModelFunctions, *f);
    out.WriteRaw(model_rest_.data() + before_functions, static_cast<int>(model_rest_.size() - before_functions));
    out.Trim();
    return !out.HadError();
  }

 private:
  std::size_t initializer_size(const proto::Writer::InitializerParts& p) const {
    return p.message->ByteSizeLong() + (p.raw.data() ? field_size(kTensorRaw, p.raw.size()) : 0);
  }

  void measure() {
    graph_size_ = graph_rest_.size();
    for (const auto* n : nodes_) graph_size_ += field_size(kGraphNode, n->ByteSizeLong());
    for (const auto& p : initializers_) graph_size_ += field_size(kGraphInitializer, initializer_size(p));
    size_ = model_rest_.size() + field_size(kModelGraph, graph_size_);
    for (const auto* f : functions_) size_ += field_size(kModelFunctions, f->ByteSizeLong());
  }

  void write_graph(CodedOutputStream& out) const {
    auto data = tensors_.begin();
    for (const auto* n : nodes_) write_message(out, kGraphNode, *n);
    const std::size_t after_name = proto::offset_after(graph_rest_, kGraphName);
    out.WriteRaw(graph_rest_.data(), static_cast<int>(after_name));
    for (const auto& p : initializers_) {
      const Tensor& tensor = *data++;
      if (!p.raw.data()) {
        write_message(out, kGraphInitializer, *p.message);
        continue;
      }
      const std::string fields = p.message->SerializeAsString();
      const std::size_t before_raw = proto::offset_after(fields, kTensorRaw);
      write_tag(out, kGraphInitializer, initializer_size(p));
      out.WriteRaw(fields.data(), static_cast<int>(before_raw));
      write_tag(out, kTensorRaw, p.raw.size());
      write_raw(out, p.raw);
      release_pages(tensor);
      out.WriteRaw(fields.data() + before_raw, static_cast<int>(fields.size() - before_raw));
    }
    out.WriteRaw(graph_rest_.data() + after_name, static_cast<int>(graph_rest_.size() - after_name));
  }

  proto::Writer writer_;
  std::vector<const onnx::NodeProto*> nodes_;
  std::vector<proto::Writer::InitializerParts> initializers_;
  std::vector<Tensor> tensors_;  // of the initializers
  std::vector<const onnx::FunctionProto*> functions_;
  std::string graph_rest_, model_rest_;
  std::size_t graph_size_ = 0, size_ = 0;
};

bool uses_files(const Model& model) {
  bool any = false;
  for_each_file_range(model, [&](const FileRange&) { any = true; });
  return any;
}

std::size_t inline_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (const Initializer& i : graph.initializers)
    if (!i.tensor.file_range()) bytes += i.tensor.bytes().size();
  return bytes;
}

bool is_set(const std::atomic<bool>* flag) { return flag != nullptr && *flag; }

// Onto the disk, but under no name yet.
absl::Status write_pieces(const ModelPieces& pieces, OutputFile& file, const Destination& to) {
  if (absl::Status s = file.open(to, to.old ? &*to.old : nullptr); !s.ok()) return s;
  google::protobuf::io::FileOutputStream stream(file.fd(), 1 << 20);
  const bool ok = pieces.write(&stream) && stream.Flush();
  if (!ok) return absl::UnavailableError(fmt::format("{}: cannot write: {}", to.path, std::strerror(stream.GetErrno())));
  file.sign();
  return file.sync();
}

absl::Status put_model(OutputFile& file, const Destination& to, const SaveOptions& options) {
  if (is_set(options.cancel)) return absl::CancelledError(to.path + ": interrupted");
  if (absl::Status s = file.put(to.name, true); !s.ok()) return s;
  sync_folder(to.folder);
  return absl::OkStatus();
}

absl::Status put_bytes(std::string_view bytes, const Destination& to, const SaveOptions& options) {
  OutputFile file;
  if (absl::Status s = file.open(to, to.old ? &*to.old : nullptr); !s.ok()) return s;
  if (absl::Status s = write_fully(file.fd(), bytes, to.path); !s.ok()) return s;
  file.sign();
  if (absl::Status s = file.sync(); !s.ok()) return s;
  return put_model(file, to, options);
}

// Model and data change with one rename, that of the model: the new data has a name that nothing had before. Where the old data had the
// first name, the new data then gets that one as well, and the model is written again.
class Saver {
 public:
  Saver(const Model& model, const Destination& to, const SaveOptions& options) : model_(model), to_(to), options_(options) {
    all_goes_out_ = options.force_external || options.data_format || inline_bytes(model.graph) > options.max_inline_bytes;
    external_ = all_goes_out_ || model.external || uses_files(model);
  }

  absl::Status run() {
    const DataFormat format = options_.data_format.value_or(model_.external.value_or(DataFormat::kRaw));
    const DataNames names(model_, to_, format);
    plan_ = DataFilePlan(external_ ? names.free() : "", format);
    std::optional<ModelPieces> pieces(make_pieces());
    if (plan_.lay_out()) pieces.emplace(make_pieces());
    if (absl::Status s = check_size(*pieces); !s.ok()) return s;
    if (plan_.empty()) {
      OutputFile file;
      if (absl::Status s = write_pieces(*pieces, file, to_); !s.ok()) return s;
      if (absl::Status s = put_model(file, to_, options_); !s.ok()) return s;
      names.remove_old("");
      return absl::OkStatus();
    }
    if (!names.status().ok()) return names.status();
    OutputFile data;
    if (absl::Status s = data.open(to_, names.like()); !s.ok()) return s;
    if (absl::Status s = plan_.write(data.fd(), path_of(plan_.location()), options_.cancel); !s.ok()) return s;
    if (absl::Status s = data.sync(); !s.ok()) return s;
    const FolderLock lock(to_.folder);
    if (absl::Status s = put_both(data, names, pieces); !s.ok()) return s;
    if (plan_.location() != names.first() && names.first_is_old() && lock.held()) take_first_name(data, names);
    names.remove_old(plan_.location());
    if (options_.data_file) *options_.data_file = path_of(plan_.location());
    return absl::OkStatus();
  }

 private:
  ModelPieces make_pieces() { return ModelPieces(model_, external_ ? &plan_ : nullptr, options_, all_goes_out_); }

  std::string path_of(const std::string& name) const { return path_in(to_.folder, name); }

  absl::Status check_size(const ModelPieces& pieces) const {
    if (pieces.size() <= INT_MAX) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: the model takes {} bytes without its external data, but protobuf messages end at 2 GB", to_.path, pieces.size()));
  }

  absl::Status put_both(OutputFile& data, const DataNames& names, std::optional<ModelPieces>& pieces) {
    for (;;) {
      OutputFile file;
      if (absl::Status s = write_pieces(*pieces, file, to_); !s.ok()) return s;
      const absl::Status placed = data.put(plan_.location(), false);
      if (absl::IsAlreadyExists(placed)) {  // another program was faster
        plan_.set_location(names.free());
        pieces.emplace(make_pieces());
        continue;
      }
      if (!placed.ok()) return placed;
      sync_folder(to_.folder);
      const absl::Status s = put_model(file, to_, options_);
      if (!s.ok()) ::unlink(path_of(plan_.location()).c_str());
      return s;
    }
  }

  // Whatever fails here leaves a whole model behind.
  void take_first_name(OutputFile& data, const DataNames& names) {
    const std::string before = plan_.location();
    ::unlink(path_of(names.first()).c_str());  // the old data, which nothing refers to any longer
    if (!data.put(names.first(), false).ok()) return;
    sync_folder(to_.folder);
    plan_.set_location(names.first());
    OutputFile file;
    if (write_pieces(make_pieces(), file, to_).ok() && file.put(to_.name, true).ok()) {
      sync_folder(to_.folder);
      ::unlink(path_of(before).c_str());
    } else {
      plan_.set_location(before);
      ::unlink(path_of(names.first()).c_str());
    }
  }

  const Model& model_;
  const Destination& to_;
  const SaveOptions& options_;
  bool all_goes_out_ = false, external_ = false;
  DataFilePlan plan_{""};
};

absl::Status save(const Model& model, const std::string& path, const SaveOptions& options) {
  const absl::StatusOr<Destination> to = destination_of(path);
  if (!to.ok()) return to.status();
  const absl::StatusOr<std::optional<Model>> ready = ready_to_write(model);
  if (!ready.ok()) return absl::Status(ready.status().code(), fmt::format("{}: {}", path, std::string(ready.status().message())));
  const Model& written = *ready ? **ready : model;
  if (path.ends_with(".onnxtxt")) return put_bytes(print_model_text(written), *to, options);
  return Saver(written, *to, options).run();
}

}  // namespace

absl::Status save_bytes(std::string_view bytes, const std::string& path, const SaveOptions& options) {
  const absl::StatusOr<Destination> to = destination_of(path);
  return to.ok() ? put_bytes(bytes, *to, options) : to.status();
}

absl::Status save_model(const Model& model, const std::string& path, const SaveOptions& options) {
  try {
    return save(model, path, options);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(path + ": not enough memory to write the model");
  }
}

namespace {

absl::StatusOr<std::string> serialize(const ModelPieces& pieces) {
  if (pieces.size() > INT_MAX)
    return absl::InvalidArgumentError(
        fmt::format("the model takes {} bytes, but protobuf messages end at 2 GB: save it to a file with external data", pieces.size()));
  std::string bytes;
  bytes.reserve(pieces.size());
  google::protobuf::io::StringOutputStream stream(&bytes);
  if (!pieces.write(&stream)) return absl::InternalError("the model could not be serialized");
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> serialize_model(const Model& model) {
  const absl::StatusOr<std::optional<Model>> ready = ready_to_write(model);
  if (!ready.ok()) return ready.status();
  return serialize(ModelPieces(*ready ? **ready : model, nullptr, {}, false));
}

absl::StatusOr<std::string> serialize_model(const Model& model, std::size_t threshold, std::vector<DetachedData>& detached, LeftOutAs as) {
  const Apart apart{threshold, as, &detached};
  if (as == LeftOutAs::kExternal) return serialize(ModelPieces(model, nullptr, {}, false, apart));
  const absl::StatusOr<std::optional<Model>> ready = ready_to_write(model);
  if (!ready.ok()) return ready.status();
  return serialize(ModelPieces(*ready ? **ready : model, nullptr, {}, false, apart));
}

}  // namespace saturate
