#include "onnx_bridge/file/save_files.h"

#include <unistd.h>

#include <algorithm>

#include "fmt/format.h"
#include "onnx_bridge/file/data/external_data.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

using RangeVisitor = std::function<void(const FileRange&)>;
constexpr std::size_t kRoomForNumber = 19;  // ".NNNNN.safetensors"

void visit_tensor(const Tensor& t, const RangeVisitor& visit) {
  if (t.file_range()) visit(*t.file_range());
}

void visit_ranges(const Graph& graph, const RangeVisitor& visit);
void visit_ranges(const std::vector<Node>& nodes, const RangeVisitor& visit) {
  for (const Node& n : nodes)
    for (const Attribute& a : n.attributes) {
      if (const auto* t = std::get_if<Tensor>(&a.value)) visit_tensor(*t, visit);
      if (const auto* ts = std::get_if<std::vector<Tensor>>(&a.value))
        for (const Tensor& t : *ts) visit_tensor(t, visit);
      if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value); g && *g) visit_ranges(**g, visit);
      if (const auto* gs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
        for (const auto& g : *gs) visit_ranges(*g, visit);
    }
}
void visit_ranges(const Graph& graph, const RangeVisitor& visit) {
  for (const Initializer& i : graph.initializers) visit_tensor(i.tensor, visit);
  visit_ranges(graph.nodes, visit);
}

// A prefix that cuts no character of UTF-8 in two.
std::string cut_name(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

bool status_of_name(const std::string& path, struct stat& out) { return ::lstat(path.c_str(), &out) == 0; }

}  // namespace

void for_each_file_range(const Model& model, const RangeVisitor& visit) {
  visit_ranges(model.graph, visit);
  for (const Function& f : model.functions) {
    visit_ranges(f.nodes, visit);
    for (const Attribute& a : f.attribute_defaults)
      if (const auto* t = std::get_if<Tensor>(&a.value)) visit_tensor(*t, visit);
  }
}

DataNames::DataNames(const Model& model, const Destination& to, DataFormat format)
    : to_(to), format_(format), base_(cut_name(to.name, kLongestName - kRoomForNumber)), first_(data_name(base_, 1, format)) {
  struct stat now {};
  if (!status_of_name(path_of(first_), now)) return;
  if (!S_ISREG(now.st_mode) && !S_ISLNK(now.st_mode)) {
    status_ = absl::InvalidArgumentError(
        fmt::format("{}: cannot write: this is {}", path_of(first_), S_ISDIR(now.st_mode) ? "a folder" : "no regular file"));
    return;
  }
  if (to.old) find_old(model);
}

std::string DataNames::path_of(const std::string& name) const { return path_in(to_.folder, name); }

void DataNames::find_old(const Model& model) {
  const auto replaced = load_model(to_.path);
  if (!replaced.ok()) return;
  std::vector<struct stat> referred, used;
  const auto collect = [](const Model& m, std::vector<struct stat>& files) {
    int last = -1;
    for_each_file_range(m, [&](const FileRange& range) {
      struct stat info {};
      if (range.fd == last || ::fstat(range.fd, &info) != 0) return;
      last = range.fd;
      if (std::none_of(files.begin(), files.end(), [&](const struct stat& f) { return same_file(f, info); })) files.push_back(info);
    });
  };
  collect(*replaced, referred);
  struct stat own {};
  const bool in_place = !model.path.empty() && ::stat(model.path.c_str(), &own) == 0 && same_file(own, *to_.old);
  if (!in_place) collect(model, used);
  const auto has = [](const std::vector<struct stat>& files, const struct stat& f) {
    return std::any_of(files.begin(), files.end(), [&](const struct stat& other) { return same_file(f, other); });
  };
  const std::string free_name = free();
  for (int number = 1; number == 1 || data_name(base_, number, format_) != free_name; ++number) {
    Old old{data_name(base_, number, format_), {}};
    if (status_of_name(path_of(old.name), old.file) && has(referred, old.file) && !has(used, old.file)) old_.push_back(old);
    if (number > 1000) break;
  }
}

std::string DataNames::free() const {
  struct stat taken {};
  for (int number = 1;; ++number)
    if (const std::string name = data_name(base_, number, format_); !status_of_name(path_of(name), taken)) return name;
}

bool DataNames::first_is_old() const {
  struct stat now {};
  return std::any_of(old_.begin(), old_.end(),
                     [&](const Old& o) { return o.name == first_ && status_of_name(path_of(first_), now) && same_file(now, o.file); });
}

const struct stat* DataNames::like() const {
  if (!old_.empty()) return &old_.front().file;
  return to_.old ? &*to_.old : nullptr;
}

void DataNames::remove_old(const std::string& kept) const {
  struct stat now {};
  for (const Old& o : old_)
    if (o.name != kept && status_of_name(path_of(o.name), now) && same_file(now, o.file)) ::unlink(path_of(o.name).c_str());
}

}  // namespace saturate
