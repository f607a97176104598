#include "extract/price/plugin_cost.h"

#include <dlfcn.h>

#include <cmath>
#include <filesystem>

#include "extract/price/saturate_cost.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/target_json.h"
#include "fmt/format.h"

namespace saturate {
namespace {

struct Library {
  void* handle = nullptr;
  void* state = nullptr;
  decltype(&saturate_cost_open) open = nullptr;
  decltype(&saturate_cost) cost = nullptr;
  decltype(&saturate_cost_close) close = nullptr;
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (state) close(state);
    if (handle) dlclose(handle);
  }
};

// An operator's tensors with the buffers that the C structs point to.
struct Tensors {
  std::vector<std::vector<double>> dims;
  std::vector<saturate_cost_tensor> tensors;
  void add(const OnnxEGraph& g, const Facts& f, const CostOptions& options) {
    if (f.kind == Facts::Kind::kTuple) {
      for (const Facts& e : f.elements) add(g, e, options);
      return;
    }
    const bool tensor = f.kind == Facts::Kind::kTensor;
    dims.push_back(tensor && f.shape ? sizes_of(g, *f.shape, options) : std::vector<double>{});
    tensors.push_back({tensor ? static_cast<int>(f.dtype) : 0, tensor && f.shape ? f.rank() : -1, nullptr, f.constant ? 1 : 0});
  }
  const saturate_cost_tensor* data() {
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].dims = dims[i].data();
    return tensors.data();
  }
};

std::string attributes_text(const std::vector<Attribute>& all) {
  std::string out;
  for (const Attribute& a : all)
    if (const std::string text = attribute_text(a); !text.empty()) out += fmt::format("{}\"{}\":{}", out.empty() ? "" : ",", a.name, text);
  return fmt::format("{{{}}}", out);
}

class PluginCost : public CostModel {
 public:
  PluginCost(std::string name, std::shared_ptr<Library> library, CostOptions options)
      : name_(std::move(name)), library_(std::move(library)), options_(std::move(options)) {}
  std::string name() const override { return name_; }
  std::unique_ptr<CostModel> for_graph(const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) const override {
    return std::make_unique<PluginCost>(name_, library_, with_all_symbols(options_, g, usual));
  }
  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    Tensors inputs, outputs;
    for (const Id c : node.children) inputs.add(g, g.facts(c), options_);
    outputs.add(g, g.facts(id), options_);
    return ask(key.domain, key.op_type, attributes_text(key.attributes), inputs, outputs);
  }
  double cost_as(const OnnxEGraph& g, const OtherOperator& op, std::span<const Id> children, Id output) const override {
    Tensors inputs, outputs;
    for (const Id c : children) inputs.add(g, g.facts(c), options_);
    outputs.add(g, g.facts(output), options_);
    const std::string& name = op.name;
    const std::size_t colon = name.rfind("::");
    return ask(colon == std::string::npos ? "" : name.substr(0, colon), colon == std::string::npos ? name : name.substr(colon + 2),
               attributes_text(op.attributes), inputs, outputs);
  }
  double constant_cost(std::size_t bytes) const override {
    Tensors none, outputs;
    outputs.dims.push_back({static_cast<double>(bytes)});
    outputs.tensors.push_back({static_cast<int>(DType::kUint8), 1, nullptr, 1});
    return ask("#", std::string(kConstantOp), "{}", none, outputs);
  }

 private:
  double ask(const std::string& domain, const std::string& op_type, const std::string& attributes, Tensors& inputs,
             Tensors& outputs) const {
    const saturate_cost_operator op{domain.c_str(),
                                    op_type.c_str(),
                                    attributes.c_str(),
                                    static_cast<int>(inputs.tensors.size()),
                                    static_cast<int>(outputs.tensors.size()),
                                    inputs.data(),
                                    outputs.data()};
    return library_->cost(library_->state, &op);
  }

  std::string name_;
  std::shared_ptr<Library> library_;
  CostOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CostModel>> load_plugin_cost(const std::string& path, const CostOptions& options) {
  std::error_code error;
  const std::string full = std::filesystem::absolute(path, error).string();  // a bare name would be looked for in the system's folders
  if (!std::filesystem::exists(full, error)) return absl::NotFoundError(fmt::format("{}: no such library; compile it first", path));
  auto library = std::make_shared<Library>();
  library->handle = dlopen(full.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle) return absl::InvalidArgumentError(fmt::format("{}: can't be loaded: {}", path, dlerror()));
  const auto find = [&](const char* name) { return dlsym(library->handle, name); };
  library->open = reinterpret_cast<decltype(library->open)>(find("saturate_cost_open"));
  library->cost = reinterpret_cast<decltype(library->cost)>(find("saturate_cost"));
  library->close = reinterpret_cast<decltype(library->close)>(find("saturate_cost_close"));
  if (!library->open || !library->cost || !library->close)
    return absl::InvalidArgumentError(
        fmt::format("{}: lacks one of saturate_cost_open, saturate_cost and saturate_cost_close; see extract/price/saturate_cost.h", path));
  library->state = library->open(SATURATE_COST_VERSION);
  if (!library->state)
    return absl::InvalidArgumentError(
        fmt::format("{}: saturate_cost_open({}) gave NULL; the library is for another version", path, SATURATE_COST_VERSION));
  return std::make_unique<PluginCost>(path, std::move(library), options);
}

}  // namespace saturate
