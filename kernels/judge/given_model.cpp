#include "kernels/judge/given_model.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "fmt/format.h"
#include "kernels/judge/wire.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/mapped_files.h"
#include "onnx_bridge/file/output_file.h"

namespace saturate {
namespace {

constexpr std::uint64_t kMostShared = std::uint64_t{1} << 30;
constexpr std::uint64_t kPlaceAlignment = 64;

std::uint64_t aligned_end(std::uint64_t end) { return (end + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment; }

int file_without_name(std::uint64_t bytes) {
  if (bytes <= kMostShared) return ::memfd_create("saturate-weights", MFD_CLOEXEC);
  const char* folder = std::getenv("TMPDIR");
  return ::open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

// Collects where weights lie.
class Places {
 public:
  explicit Places(GivenModel& to) : to_(to) {}

  // False: it is to be copied, or more files would be needed than a message takes.
  bool in_its_file(WeightPlace place, const Tensor& tensor) {
    FilePlace at;
    if (const FileRange* range = tensor.file_range().get(); range && range->fd >= 0)
      at = {range->fd, range->offset};
    else if (tensor.mapped())
      at = mapped_place(tensor.bytes().data());
    if (at.file < 0) return false;
    const auto number = number_of(at.file);
    if (!number) return false;
    place.file = *number;
    place.offset = at.offset;
    to_.weights.push_back(std::move(place));
    return true;
  }

  absl::Status copied(const std::vector<std::pair<WeightPlace, Tensor>>& weights) {
    if (weights.empty()) return absl::OkStatus();
    std::uint64_t end = 0;
    for (const auto& [place, tensor] : weights) end = aligned_end(end) + place.bytes;
    const auto file = std::make_shared<const OpenFile>(file_without_name(end));
    if (file->number() < 0) return absl::UnavailableError(fmt::format("no file for {} bytes of weights: {}", end, std::strerror(errno)));
    const auto number = static_cast<std::uint32_t>(to_.files.size());
    to_.files.push_back(file);
    end = 0;
    for (const auto& [place, tensor] : weights) {
      end = aligned_end(end);
      if (::lseek(file->number(), static_cast<off_t>(end), SEEK_SET) < 0) return absl::UnavailableError(std::strerror(errno));
      const std::span<const std::byte> bytes = tensor.bytes();
      if (absl::Status s = write_fully(file->number(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "weights"); !s.ok())
        return s;
      to_.weights.push_back(place);
      to_.weights.back().file = number;
      to_.weights.back().offset = end;
      end += place.bytes;
    }
    return absl::OkStatus();
  }

 private:
  std::optional<std::uint32_t> number_of(int file) {
    if (const auto it = known_.find(file); it != known_.end()) return it->second;
    if (to_.files.size() + 1 >= wire::kMostFiles) return std::nullopt;
    const int own = ::fcntl(file, F_DUPFD_CLOEXEC, 3);
    if (own < 0) return std::nullopt;
    to_.files.push_back(std::make_shared<const OpenFile>(own));
    return known_[file] = static_cast<std::uint32_t>(to_.files.size() - 1);
  }

  GivenModel& to_;
  std::map<int, std::uint32_t> known_;
};

}  // namespace

OpenFile::~OpenFile() {
  if (file_ >= 0) ::close(file_);
}

absl::StatusOr<std::shared_ptr<const GivenModel>> give_model(const Model& model) {
  const auto given = std::make_shared<GivenModel>();
  GivenModel& out = *given;
  for (const ValueInfo& output : model.graph.outputs) {
    out.outputs.push_back(output.name);
    out.output_types.push_back(output.type);
  }
  std::vector<DetachedData> apart;
  auto message =
      serialize_model(model, initializer_bytes(model.graph) >= kLargeModel ? kLargeWeight : SIZE_MAX, apart, LeftOutAs::kExternal);
  if (!message.ok()) return message.status();
  out.message = *std::move(message);
  std::vector<const Initializer*> dense;
  for (const Initializer& i : model.graph.initializers)
    if (!i.sparse) dense.push_back(&i);
  Places places(out);
  std::vector<std::pair<WeightPlace, Tensor>> to_copy;
  for (const DetachedData& data : apart) {
    const Initializer& weight = *dense[data.index];
    const Tensor& t = weight.tensor;
    const WeightPlace place{weight.name, t.dtype(), t.dims(), 0, 0, t.bytes().size()};
    if (!places.in_its_file(place, t)) to_copy.emplace_back(place, t);
  }
  if (absl::Status s = places.copied(to_copy); !s.ok()) return s;
  return given;
}

}  // namespace saturate
