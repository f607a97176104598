#include "kernels/verify/overflow.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "fmt/format.h"

namespace saturate {
namespace {

constexpr std::string_view kIn = "/finite";

// Names of the values that nodes of the main graph make and no body reads: those can be cut.
std::set<std::string> cuttable_values(const Graph& graph) {
  std::set<std::string> out;
  for (const Node& node : graph.nodes) out.insert(node.outputs.begin(), node.outputs.end());
  out.erase("");
  for (const Node& node : graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph && a.ref.empty())
        for (const std::string& name : captured_names(a.g())) out.erase(name);
  return out;
}

Model with_outputs(Model model, const std::vector<std::string>& names) {
  model.graph.outputs.clear();
  for (const std::string& name : names) {
    ValueInfo info;
    info.name = name;
    model.graph.outputs.push_back(std::move(info));
  }
  model.graph.origin = nullptr;
  return model;
}

// What reads one of the values reads an input in its place.
Model with_cuts(const Model& model, const Inputs& finite, const std::vector<std::string>& outputs) {
  Model out = with_outputs(model, outputs);
  for (Node& node : out.graph.nodes)
    for (std::string& input : node.inputs)
      if (const std::string cut = input + std::string(kIn); finite.contains(cut)) {
        input = cut;
        node.origin = nullptr;
      }
  for (const auto& [name, value] : finite) {
    ValueInfo info;
    info.name = name;
    info.type.kind = ValueType::Kind::kTensor;
    info.type.dtype = value.tensor().dtype();
    info.type.shape.emplace();
    for (const std::int64_t dim : value.tensor().dims()) info.type.shape->emplace_back(dim);
    out.graph.inputs.push_back(std::move(info));
  }
  return out;
}

std::optional<std::vector<Value>> outputs_of(const VerifyRun& run, const Model& model, const Inputs& inputs) {
  const absl::StatusOr<RunOnce> opened = run.open(model);
  if (!opened.ok()) return std::nullopt;
  absl::StatusOr<Ran> ran = (*opened)(inputs, run.limits(CaseKind::kUsual, true));
  if (!ran.ok()) return std::nullopt;
  return std::move(ran->outputs);
}

bool is_finite_at(const Tensor& t, std::int64_t i) { return std::isfinite(element_as_double(t, i).value_or(NAN)); }

// The tensor with numbers of a usual size where it holds none that are finite; nullopt where all are.
std::optional<Tensor> made_finite(const Tensor& t) {
  std::int64_t i = 0;
  while (i < t.size() && is_finite_at(t, i)) ++i;
  if (i == t.size()) return std::nullopt;
  Tensor out(t.dtype(), t.dims());
  Random random(static_cast<std::uint64_t>(t.size()));
  for (i = 0; i < t.size(); ++i) store_double(out, i, is_finite_at(t, i) ? *element_as_double(t, i) : random.normal());
  return out;
}

class OverflowComparison {
 public:
  OverflowComparison(const VerifyRun& run, const Inputs& inputs) : run_(run), inputs_(inputs) {}

  OverflowCheck check() {
    find_common();
    if (common_.empty()) return {};
    // One more value becomes finite in each round, and with it what is behind.
    for (std::size_t round = 0; round <= kMostRounds; ++round) {
      const auto wanted = outputs_of(run_, with_cuts(run_.original, finite_, common_), all_inputs());
      const auto got = outputs_of(run_, with_cuts(run_.optimized, finite_, common_), all_inputs());
      if (!wanted || !got) return {};
      if (!add_finite(*wanted, *got) || round == kMostRounds) return compare(*wanted, *got);
    }
    return {};
  }

 private:
  static constexpr std::size_t kMostRounds = 64;

  void find_common() {
    const std::set<std::string> mine = cuttable_values(run_.original.graph), others = cuttable_values(run_.optimized.graph);
    for (const Node& node : run_.original.graph.nodes)
      for (const std::string& output : node.outputs)
        if (mine.contains(output) && others.contains(output)) common_.push_back(output);
  }

  Inputs all_inputs() const {
    Inputs all = inputs_;
    all.insert(finite_.begin(), finite_.end());
    return all;
  }

  // The first values, in the original's order, that are not finite and are not cut yet, up to one that reads another of them.
  bool add_finite(const std::vector<Value>& wanted, const std::vector<Value>& got) {
    for (std::size_t i = 0; i < common_.size(); ++i) {
      const std::string cut = common_[i] + std::string(kIn);
      if (finite_.contains(cut) || !wanted[i].is_tensor() || !got[i].is_tensor() || !is_floating(wanted[i].tensor().dtype())) continue;
      if (wanted[i].tensor().dims() != got[i].tensor().dims() || wanted[i].tensor().dtype() != got[i].tensor().dtype()) continue;
      if (auto finite = made_finite(wanted[i].tensor())) {
        finite_[cut] = *std::move(finite);
        return true;
      }
    }
    return false;
  }

  OverflowCheck compare(const std::vector<Value>& wanted, const std::vector<Value>& got) const {
    OverflowCheck out;
    Tolerances tolerances = run_.options.tolerances;
    tolerances.coarsest = coarsest_float(run_.original, Bodies::kToo);
    for (std::size_t i = 0; i < common_.size(); ++i) {
      if (!wanted[i].is_tensor() || !is_floating(wanted[i].tensor().dtype())) continue;
      const OutputComparison o = compare_values(common_[i], wanted[i], got[i], tolerances);
      out.values += o.finite > 0;
      if (!o.ok && out.difference.empty()) out.difference = fmt::format("value '{}' on the way differs: {}", o.name, o.why);
    }
    return out;
  }

  const VerifyRun& run_;
  const Inputs& inputs_;
  std::vector<std::string> common_;
  Inputs finite_;
};

}  // namespace

OverflowCheck compare_around_overflow(const VerifyRun& run, const Inputs& inputs) { return OverflowComparison(run, inputs).check(); }

}  // namespace saturate
