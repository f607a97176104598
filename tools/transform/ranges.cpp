#include "tools/transform/ranges.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "tools/verify/verify_plans.h"

namespace saturate {
namespace {

constexpr std::size_t kDrawn = 3;

class Measurer {
 public:
  explicit Measurer(const Model& model) : model_(model) {}

  absl::StatusOr<Ranges> run(const std::vector<Inputs>& given) {
    SessionOptions options;
    options.threads = 0;
    options.prepare = false;
    options.after_node = [this](const Node& node, std::vector<Value>& made) {
      for (std::size_t i = 0; i < node.outputs.size() && i < made.size(); ++i) see(node.outputs[i], made[i]);
    };
    auto session = Session::create(model_, options);
    if (!session.ok()) return absl::FailedPreconditionError(session.status().message());
    session_ = &*session;
    absl::Status last = absl::OkStatus();
    for (const Inputs& inputs : given)
      if (last = one(inputs); !last.ok()) return absl::FailedPreconditionError(last.message());
    if (given.empty()) last = draw();
    if (out_.inputs.empty())
      return absl::FailedPreconditionError(fmt::format("no inputs were found that the model accepts: {}", std::string(last.message())));
    return std::move(out_);
  }

 private:
  absl::Status draw() {
    const InputDrawer drawer(model_);
    absl::Status last = absl::OkStatus();
    for (const VerifyPlan& plan : plans(drawer.symbols(), drawer.twins()))
      for (const Base& base : bases_of(plan)) {
        const auto inputs = drawer.draw(assign(drawer.symbols(), base, plan.relation, plan.twins), plan.style, out_.inputs.size());
        last = inputs.ok() ? one(*inputs) : inputs.status();
        if (out_.inputs.size() == kDrawn) return absl::OkStatus();
      }
    return last;
  }

  absl::Status one(const Inputs& inputs) {
    const Ranges before = out_;
    for (const auto& [name, value] : inputs) see(name, value);
    if (const auto outputs = session_->run(inputs); !outputs.ok()) {
      out_ = before;
      return outputs.status();
    }
    out_.inputs.push_back(inputs);
    return absl::OkStatus();
  }

  void see(const std::string& name, const Value& value) {
    if (name.empty() || !value.is_tensor() || value.tensor().dtype() != DType::kFloat) return;
    double& largest = out_.largest[name];
    const Tensor tensor = aligned(value.tensor());
    std::size_t& bytes = out_.bytes[name];
    bytes = std::max(bytes, tensor.bytes().size());
    for (const float x : tensor.span<float>())
      if (std::isfinite(x)) largest = std::max(largest, std::abs(static_cast<double>(x)));
  }

  const Model& model_;
  const Session* session_ = nullptr;
  Ranges out_;
};

}  // namespace

absl::StatusOr<Ranges> measure_ranges(const Model& model, const std::vector<Inputs>& given) { return Measurer(model).run(given); }

}  // namespace saturate
