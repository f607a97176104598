#include "tools/transform/precision/ranges.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "kernels/verify/verify_plans.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

constexpr std::size_t kDrawn = 3;
constexpr std::size_t kRoom = std::size_t{256} << 20;  // bytes of drawn inputs; where the smallest take more, large ones are zeros
constexpr std::size_t kLarge = std::size_t{1} << 20;

// Queries or keys of an attention operator.
struct Rows {
  const Node* node = nullptr;
  bool are_keys = false;
};

double integer_of(const Node& node, const char* name) {
  const Attribute* a = find_attribute(node.attributes, name);
  return a ? static_cast<double>(a->i()) : 0;
}

// Products of queries and keys: no larger than those of their lengths.
class Scores {
 public:
  explicit Scores(const Model& model) {
    for (const Node& node : model.graph.nodes) {
      const bool is_standard = is_operator(node, "Attention");
      if (!is_standard && !is_operator(node, "MultiHeadAttention", kMicrosoftDomain) &&
          !is_operator(node, "GroupQueryAttention", kMicrosoftDomain))
        continue;
      if (called_function(model, node)) continue;
      const std::size_t past = is_standard ? 4 : node.op_type == "MultiHeadAttention" ? 6 : 3;
      const bool is_packed = node.inputs.size() < 2 || node.inputs[1].empty();
      add(node, 0, false), add(node, is_packed ? 0 : 1, true), add(node, past, true);
    }
  }

  void see(const std::string& name, const Tensor& tensor) {
    const auto it = read_.find(name);
    if (it == read_.end() || tensor.rank() < 3) return;
    for (const Rows& rows : it->second) {
      Lengths& lengths = lengths_[rows.node];
      const std::int64_t size = size_of_head(rows, tensor);
      double& longest = rows.are_keys ? lengths.key : lengths.query;
      longest = std::max(longest, longest_row(tensor, size));
      lengths.size = size;
    }
  }

  void tell(std::map<std::string, double>& scores) const {
    for (const auto& [node, lengths] : lengths_) {
      const Attribute* scale = find_attribute(node->attributes, "scale");
      const double factor = scale && scale->f() != 0 ? std::abs(scale->f()) : 1 / std::sqrt(static_cast<double>(lengths.size));
      scores[node->outputs.at(0)] = lengths.query * lengths.key * factor;
    }
  }

 private:
  struct Lengths {
    double query = 0, key = 0;
    std::int64_t size = 1;
  };

  void add(const Node& node, std::size_t input, bool are_keys) {
    if (input < node.inputs.size() && !node.inputs[input].empty()) read_[node.inputs[input]].push_back({&node, are_keys});
  }

  // Where heads lie side by side in the last dim, it is cut; what is packed with them has heads of the same size.
  static std::int64_t size_of_head(const Rows& rows, const Tensor& tensor) {
    const std::int64_t last = tensor.dims().back();
    if (tensor.rank() != 3) return last;
    const Node& node = *rows.node;
    const bool is_packed = node.inputs.size() < 2 || node.inputs[1].empty();
    const double queries = integer_of(node, "q_num_heads") + integer_of(node, "num_heads"), keys = integer_of(node, "kv_num_heads");
    const double heads = is_packed ? queries + 2 * (keys > 0 ? keys : queries) : rows.are_keys && keys > 0 ? keys : queries;
    return heads > 0 && last % static_cast<std::int64_t>(heads) == 0 ? last / static_cast<std::int64_t>(heads) : last;
  }

  static double longest_row(const Tensor& tensor, std::int64_t size) {
    const auto numbers = tensor.span<float>();
    double longest = 0;
    for (std::size_t at = 0; size > 0 && at < numbers.size(); at += static_cast<std::size_t>(size)) {
      double sum = 0;
      for (const float x : numbers.subspan(at, static_cast<std::size_t>(size))) sum += static_cast<double>(x) * static_cast<double>(x);
      if (std::isfinite(sum)) longest = std::max(longest, sum);
    }
    return std::sqrt(longest);
  }

  std::map<std::string, std::vector<Rows>> read_;
  std::map<const Node*, Lengths> lengths_;
};

class Measurer {
 public:
  // `keep`: inputs; `outputs`: whether runs give them.
  Measurer(const Model& model, bool keep, bool outputs) : model_(model), keep_(keep), outputs_(outputs), scores_(model) {}

  // `all` calls the functions below.
  absl::StatusOr<Ranges> run(const std::function<absl::Status()>& all) {
    SessionOptions options;
    options.threads = 0;
    options.prepare = false;
    options.keep_results = false;
    options.after_node = [this](const Node& node, std::vector<Value>& made) {
      for (std::size_t i = 0; i < node.outputs.size() && i < made.size(); ++i) see(node.outputs[i], made[i]);
    };
    Model model = model_;
    if (!outputs_) model.graph.outputs.clear();  // each value is freed where it was read last
    auto session = Session::create(model, options);
    if (!session.ok()) return absl::FailedPreconditionError(session.status().message());
    session_ = &*session;
    if (const absl::Status s = all(); !s.ok()) return absl::FailedPreconditionError(s.message());
    scores_.tell(out_.scores);
    return std::move(out_);
  }

  absl::Status given(const std::vector<Inputs>& inputs) {
    for (const Inputs& each : inputs)
      if (const auto outputs = one(each); !outputs.ok()) return outputs.status();
    return absl::OkStatus();
  }

  absl::Status draw() {
    const InputDrawer drawer(model_);
    const std::size_t least = input_bytes(model_, {}), room = std::max(kRoom, least);
    absl::Status last = absl::OkStatus();
    for (const VerifyPlan& plan : plans(drawer))
      for (const Base& base : bases_of(plan)) {
        const Sizes sizes = assign(drawer.symbols(), base, plan.relation, plan.twins);
        if (input_bytes(model_, sizes) > room) continue;
        DrawStyle style = plan.style;
        if (least > kRoom) style.zeros_from = kLarge;
        auto inputs = drawer.draw(sizes, style, runs_);
        if (inputs.ok() && style.zeros_from == kLarge) tell_zeros(*inputs);
        last = inputs.ok() ? one(*std::move(inputs)).status() : inputs.status();
        if (runs_ == kDrawn) return absl::OkStatus();
      }
    if (runs_ > 0) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format("no inputs were found that the model accepts: {}", std::string(last.message())));
  }

  absl::StatusOr<std::vector<Value>> one(Inputs inputs) {
    Ranges before = out_;
    for (const auto& [name, value] : inputs) see(name, value);
    if (keep_) out_.inputs.push_back(inputs);
    auto outputs = session_->run_over(std::move(inputs));
    if (outputs.ok())
      ++runs_;
    else
      out_ = std::move(before);
    return outputs;
  }

 private:
  void tell_zeros(const Inputs& inputs) {
    out_.zeros.clear();
    for (const auto& [name, value] : inputs)
      if (value.is_tensor() && is_floating(value.tensor().dtype()) && value.tensor().bytes().size() >= kLarge) out_.zeros.push_back(name);
  }

  void see(const std::string& name, const Value& value) {
    if (name.empty() || !value.is_tensor() || value.tensor().dtype() != DType::kFloat) return;
    double& largest = out_.largest[name];
    const Tensor tensor = aligned(value.tensor());
    std::size_t& bytes = out_.bytes[name];
    bytes = std::max(bytes, tensor.bytes().size());
    scores_.see(name, tensor);
    for (const float x : tensor.span<float>())
      if (std::isfinite(x)) largest = std::max(largest, std::abs(static_cast<double>(x)));
  }

  const Model& model_;
  const bool keep_, outputs_;
  const Session* session_ = nullptr;
  Scores scores_;
  std::size_t runs_ = 0;
  Ranges out_;
};

}  // namespace

absl::StatusOr<Ranges> measure_ranges(const Model& model, const std::vector<Inputs>& given, bool keep) {
  Measurer measurer(model, keep, false);
  return measurer.run([&] { return given.empty() ? measurer.draw() : measurer.given(given); });
}

absl::StatusOr<Ranges> ranges_of_runs(const Model& model, const std::function<absl::Status(const RunModel& run)>& drive, bool keep) {
  Measurer measurer(model, keep, true);
  return measurer.run([&] { return drive([&](Inputs inputs) { return measurer.one(std::move(inputs)); }); });
}

}  // namespace saturate
