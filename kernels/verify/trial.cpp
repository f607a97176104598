#include "kernels/verify/trial.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/inputs/model_sizes.h"
#include "kernels/verify/verify_plans.h"

namespace saturate {
namespace {

constexpr std::size_t kMostShapes = 300;
constexpr double kTrialSeconds = 10;
constexpr std::size_t kSizesOfModel = 64;  // of those that stand in the model

bool has_open_dim(const ValueInfo& input) {
  const auto open = [](const DimSpec& dim) { return !std::holds_alternative<std::int64_t>(dim); };
  return has_no_rank(input) || (input.type.shape && std::any_of(input.type.shape->begin(), input.type.shape->end(), open));
}

class ShapeTrials {
 public:
  ShapeTrials(const Model& model, std::uint64_t seed, const std::function<absl::Status(const Inputs&)>& run)
      : model_(model), seed_(seed), run_(run), end_(steady_seconds() + kTrialSeconds) {}

  absl::StatusOr<Trial> of(const InputDrawer& drawer) {
    const bool ranked = !drawer.has_unknown_rank();
    if (ranked) attempt(drawer, ones(drawer), {}, true);
    const std::vector<InputDrawer> others = over() ? std::vector<InputDrawer>() : drawer.alternatives();
    for (const InputDrawer& other : others) attempt(other, ones(other), {});
    if (ranked) follow(drawer);
    for (const InputDrawer& other : others) follow(other);
    if (found_) return *std::move(found_);
    if (tries_ < 2) return first_;
    return absl::Status(first_.code(), fmt::format("{} ({} shapes of its inputs were tried)", std::string(first_.message()), tries_));
  }

 private:
  static Sizes ones(const InputDrawer& drawer) {
    Sizes sizes;
    for (const std::string& symbol : drawer.symbols()) sizes[symbol] = 1;
    return sizes;
  }

  bool over() const { return found_ || ended_ || tries_ >= kMostShapes || (tries_ > 0 && steady_seconds() > end_); }

  void follow(const InputDrawer& drawer) {
    for (const Sizes& sizes : sizes_in_model(model_, drawer.symbols(), kSizesOfModel)) attempt(drawer, sizes, {});
    for (const VerifyPlan& plan : plans(drawer))
      for (const Base& base : bases_of(plan)) {
        if (over()) return;
        const Sizes sizes = assign(drawer.symbols(), base, plan.relation, plan.twins);
        DrawStyle style = plan.style;
        for (const std::int64_t length : style.ints == IntStyle::kLength ? drawer.lengths(sizes) : std::vector<std::int64_t>{1}) {
          style.length = length;
          attempt(drawer, sizes, style);
        }
      }
  }

  void attempt(const InputDrawer& drawer, const Sizes& sizes, const DrawStyle& style, bool usual = false) {
    if (over()) return;
    absl::StatusOr<Inputs> inputs = drawer.draw(sizes, style, seed_);
    const absl::Status status = inputs.ok() ? run_(*inputs) : inputs.status();
    const bool is_first = tries_++ == 0;
    if (is_first) first_ = status;
    // Of the first try, what is wrong with the model itself is told; of further ones it may be the try's own.
    ended_ = absl::IsCancelled(status) || (is_first && inputs.ok() && !absl::IsInvalidArgument(status)) || absl::IsUnimplemented(status);
    if (ended_) first_ = status;
    if (!status.ok()) return;
    found_ = Trial{*std::move(inputs), usual ? drawer.symbols() : std::vector<std::string>(), {}};
    if (!usual) found_->taken = shapes_taken(model_, found_->inputs, has_open_dim);
  }

  const Model& model_;
  std::uint64_t seed_;
  const std::function<absl::Status(const Inputs&)>& run_;
  double end_;
  std::size_t tries_ = 0;
  bool ended_ = false;  // by what other shapes can't mend
  absl::Status first_;
  std::optional<Trial> found_;
};

}  // namespace

bool has_no_rank(const ValueInfo& input) { return input.type.kind == ValueType::Kind::kTensor && !input.type.shape; }

std::vector<std::string> shapes_taken(const Model& model, const Inputs& inputs, const std::function<bool(const ValueInfo&)>& wanted) {
  std::vector<std::string> out;
  for (const ValueInfo& input : model.graph.inputs)
    if (const auto it = inputs.find(input.name); it != inputs.end() && it->second.is_tensor() && wanted(input))
      out.push_back(fmt::format("{} [{}]", input.name, fmt::join(it->second.tensor().dims(), ", ")));
  return out;
}

absl::StatusOr<Trial> try_shapes(const Model& model, const InputDrawer& drawer, std::uint64_t seed,
                                 const std::function<absl::Status(const Inputs&)>& run) {
  return ShapeTrials(model, seed, run).of(drawer);
}

}  // namespace saturate
