#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "onnx_bridge/file/foreign.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/mapped_model.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/file/save_files.h"
#include "onnx_bridge/file/text/model.h"

namespace saturate {
namespace {

// A subgraph takes three protobuf messages (node, attribute, graph); types, tensors and entries lie below the deepest.
constexpr int kRecursionLimit = 3 * proto::kMaxNesting + proto::kMaxNesting + 16;

absl::Status invalid(const std::string& file, const std::string& what) {
  return absl::InvalidArgumentError(file.empty() ? what : file + ": " + what);
}

bool looks_like_text(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, 512);
  return !head.empty() &&
         std::all_of(head.begin(), head.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t' || (c >= ' ' && c != 127); });
}

// Why bytes are no model, in words.
std::string diagnose(std::string_view bytes) {
  if (looks_like_text(bytes)) return "this is text, not a binary ONNX model; ONNX text must have the file ending .onnxtxt";
  std::size_t at = 0;
  int fields = 0;
  while (at < bytes.size()) {
    const auto field = proto::read_field(bytes, at);
    if (!field && fields > 0)
      return fmt::format("the model is truncated or damaged: byte {} of {} starts no complete protobuf field; copy or download it again",
                         at, bytes.size());
    if (!field) return "this is no ONNX model: it does not start with a protobuf field; name a file that ends in .onnx";
    ++fields;
    at = field->end;
  }
  return fmt::format("this is no ONNX model, or a damaged one, or one with subgraphs nested more than {} deep", proto::kMaxNesting);
}

bool parse(google::protobuf::io::CodedInputStream& stream, onnx::ModelProto& message) {
  stream.SetTotalBytesLimit(INT_MAX);
  stream.SetRecursionLimit(kRecursionLimit);
  return message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

bool parse(std::string_view bytes, onnx::ModelProto& message) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  return parse(stream, message);
}

absl::StatusOr<Model> convert(const std::shared_ptr<const onnx::ModelProto>& message, const std::string& folder, const std::string& file,
                              std::vector<DetachedData> detached = {}) {
  ExternalFiles files(folder);
  proto::Reader reader(message, files, std::move(detached));
  try {
    Model model = reader.read(*message);
    model.path = file;
    for_each_file_range(model, [&](const FileRange& range) {
      if (range.path != file) model.external = format_of(range.path);
    });
    return model;
  } catch (const proto::LoadError& e) {
    return invalid(file, e.message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(file + ": not enough memory for the model");
  }
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string read_some(int fd, std::size_t limit) {
  std::string bytes(limit, '\0');
  std::size_t have = 0;
  while (have < limit) {
    const ssize_t n = ::pread(fd, bytes.data() + have, limit - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

absl::Status check_size(std::uint64_t size, const std::string& file) {
  if (size == 0) return invalid(file, "the file is empty; write or download it again");
  if (size > INT_MAX)
    return invalid(file, fmt::format("the file has {} bytes, but protobuf messages end at 2 GB: save the model with external data", size));
  return absl::OkStatus();
}

absl::StatusOr<Model> load_text(int fd, std::size_t size, const std::string& path) {
  auto model = parse_model_text_in(read_some(fd, size), path, folder_of(path));
  if (model.ok()) model->path = path;
  return model;
}

absl::StatusOr<Model> load(const std::string& path) {
  Descriptor file;
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0) {
    const int error = errno;
    const std::string text = fmt::format("{}: {}", path, no_file(path, error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
  }
  struct stat info {};
  if (::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode))
    return invalid(path, S_ISDIR(info.st_mode) ? folder_for_model(path) : "this is no regular file; name a model");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (absl::Status s = check_size(size, path); !s.ok()) return s;
  if (const std::string foreign = foreign_format(read_some(file.fd, kHeadBytes)); !foreign.empty()) return invalid(path, foreign);
  if (path.ends_with(".onnxtxt")) return load_text(file.fd, size, path);
  if (size >= proto::kMappedFrom) {
    if (const auto whole = proto::map_file(file.fd, size, path)) {
      if (auto split = proto::split_model({whole->data, whole->size}, whole)) {
        auto message = std::make_shared<onnx::ModelProto>();
        if (parse(split->skeleton, *message)) return convert(std::move(message), folder_of(path), path, std::move(split->detached));
      }
    }
  }
  auto message = std::make_shared<onnx::ModelProto>();
  bool ok = false;
  {
    google::protobuf::io::FileInputStream bytes(file.fd, static_cast<int>(std::min<std::uint64_t>(size, 1u << 20)));
    google::protobuf::io::CodedInputStream stream(&bytes);
    ok = parse(stream, *message);
  }
  if (!ok) return invalid(path, diagnose(read_some(file.fd, size)));
  if (!message->has_graph() && looks_like_text(read_some(file.fd, 512))) return invalid(path, diagnose(read_some(file.fd, 512)));
  return convert(std::move(message), folder_of(path), path);
}

}  // namespace

absl::StatusOr<Model> load_model(const std::string& path) {
  try {
    return load(path);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(path + ": not enough memory to read the model");
  }
}

absl::StatusOr<Model> parse_model(std::string_view bytes, const std::string& folder, std::vector<DetachedData> detached) {
  if (absl::Status s = check_size(bytes.size(), "model from memory"); !s.ok()) return s;
  if (const std::string foreign = foreign_format(bytes.substr(0, kHeadBytes)); !foreign.empty())
    return invalid("model from memory", foreign);
  auto message = std::make_shared<onnx::ModelProto>();
  if (!parse(bytes, *message)) return invalid("model from memory", diagnose(bytes));
  auto model = convert(std::move(message), folder, "", std::move(detached));
  if (!model.ok()) return invalid("model from memory", std::string(model.status().message()));
  return model;
}

}  // namespace saturate
