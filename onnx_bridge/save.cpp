#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "onnx_bridge/io.h"
#include "onnx_bridge/proto_convert.h"

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

// A model taken apart so that weights are written from where they lie, in the order in which protobuf writes fields.
class ModelPieces {
 public:
  // `detached`: data of at least `detach_from` bytes is left out and told there.
  ModelPieces(const Model& model, DataFilePlan* plan, const SaveOptions& options, bool inline_goes_out,
              std::vector<DetachedData>* detached = nullptr, std::size_t detach_from = 0)
      : writer_(plan, options.external_threshold, inline_goes_out) {
    for (const Node& n : model.graph.nodes) nodes_.push_back(writer_.message(n));
    for (const Initializer& i : model.graph.initializers) {
      if (i.sparse) continue;
      auto apart = detached && i.tensor.bytes().size() >= detach_from ? writer_.parts_without_data(i) : std::nullopt;
      if (apart) detached->push_back({initializers_.size(), std::exchange(apart->raw, {}), std::make_shared<Tensor>(i.tensor)});
      initializers_.push_back(apart ? *apart : writer_.parts(i, true));
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

bool uses_files(const Graph& graph);
bool uses_files(const std::vector<Node>& nodes) {
  for (const Node& n : nodes)
    for (const Attribute& a : n.attributes) {
      if (const auto* t = std::get_if<Tensor>(&a.value); t && t->file_range()) return true;
      if (const auto* ts = std::get_if<std::vector<Tensor>>(&a.value))
        for (const Tensor& t : *ts)
          if (t.file_range()) return true;
      if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value); g && uses_files(**g)) return true;
      if (const auto* gs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
        for (const auto& g : *gs)
          if (uses_files(*g)) return true;
    }
  return false;
}
bool uses_files(const Graph& graph) {
  for (const Initializer& i : graph.initializers)
    if (i.tensor.file_range()) return true;
  return uses_files(graph.nodes);
}

std::size_t inline_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (const Initializer& i : graph.initializers)
    if (!i.tensor.file_range()) bytes += i.tensor.bytes().size();
  return bytes;
}

// A file being written beside its target: renamed when whole, removed otherwise.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  absl::Status open(const std::string& target) {
    static std::atomic<unsigned> counter{0};
    target_ = target;
    struct stat info {};
    if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
      return absl::InvalidArgumentError(
          fmt::format("{}: cannot write: this is {}", target, S_ISDIR(info.st_mode) ? "a folder" : "no regular file"));
    const std::size_t slash = target.rfind('/') + 1;  // npos + 1 == 0
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::string name = fmt::format("{}.{}.{}-{}.tmp", target.substr(0, slash), target.substr(slash), ::getpid(), counter++);
      fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
      if (fd_ >= 0) {
        name_ = name;
        return absl::OkStatus();
      }
      if (errno != EEXIST) break;
    }
    return absl::PermissionDeniedError(fmt::format("{}: cannot write: {}", target, std::strerror(errno)));
  }

  absl::Status close() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) return absl::UnavailableError(fmt::format("{}: cannot write: {}", target_, std::strerror(errno)));
    return absl::OkStatus();
  }

  absl::Status commit() {
    if (::rename(name_.c_str(), target_.c_str()) != 0)
      return absl::UnavailableError(fmt::format("{}: cannot write: {}", target_, std::strerror(errno)));
    name_.clear();
    return absl::OkStatus();
  }

  int fd() const { return fd_; }

 private:
  std::string target_, name_;
  int fd_ = -1;
};

absl::Status write_pieces(const ModelPieces& pieces, TemporaryFile& file, const std::string& path) {
  google::protobuf::io::FileOutputStream stream(file.fd(), 1 << 20);
  const bool ok = pieces.write(&stream) && stream.Flush();
  if (!ok) return absl::UnavailableError(fmt::format("{}: cannot write: {}", path, std::strerror(stream.GetErrno())));
  return file.close();
}

absl::Status save_text(const Model& model, const std::string& path) {
  TemporaryFile file;
  if (absl::Status s = file.open(path); !s.ok()) return s;
  const std::string text = print_model_text(model);
  {
    google::protobuf::io::FileOutputStream stream(file.fd(), 1 << 20);
    {
      CodedOutputStream out(&stream);
      write_raw(out, std::as_bytes(std::span(text)));
    }
    if (!stream.Flush()) return absl::UnavailableError(fmt::format("{}: cannot write: {}", path, std::strerror(stream.GetErrno())));
  }
  if (absl::Status s = file.close(); !s.ok()) return s;
  return file.commit();
}

absl::Status save(const Model& model, const std::string& path, const SaveOptions& options) {
  if (path.ends_with(".onnxtxt")) return save_text(model, path);
  const bool too_big = inline_bytes(model.graph) > options.max_inline_bytes;
  bool from_files = uses_files(model.graph);
  for (const Function& f : model.functions) from_files |= uses_files(f.nodes);
  const bool external = options.force_external || too_big || from_files;
  const std::string data_path = path + ".data";
  DataFilePlan plan(data_path.substr(data_path.rfind('/') + 1));
  const ModelPieces pieces(model, external ? &plan : nullptr, options, options.force_external || too_big);
  if (pieces.size() > INT_MAX)
    return absl::InvalidArgumentError(
        fmt::format("{}: the model takes {} bytes without its external data, but protobuf messages end at 2 GB", path, pieces.size()));
  TemporaryFile model_file, data_file;
  if (absl::Status s = model_file.open(path); !s.ok()) return s;
  if (!plan.empty()) {
    if (absl::Status s = data_file.open(data_path); !s.ok()) return s;
    if (absl::Status s = plan.write(data_file.fd(), data_path); !s.ok()) return s;
    if (absl::Status s = data_file.close(); !s.ok()) return s;
  }
  if (absl::Status s = write_pieces(pieces, model_file, path); !s.ok()) return s;
  if (!plan.empty())
    if (absl::Status s = data_file.commit(); !s.ok()) return s;
  return model_file.commit();
}

}  // namespace

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

absl::StatusOr<std::string> serialize_model(const Model& model) { return serialize(ModelPieces(model, nullptr, {}, false)); }

absl::StatusOr<std::string> serialize_model(const Model& model, std::size_t threshold, std::vector<DetachedData>& detached) {
  return serialize(ModelPieces(model, nullptr, {}, false, &detached, threshold));
}

}  // namespace saturate
