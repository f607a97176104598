#include "tools/diff/evidence.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <unordered_set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/compare/compare.h"
#include "kernels/inputs/draw_inputs.h"
#include "kernels/runtime/runtime.h"
#include "kernels/verify/verify_plans.h"

namespace saturate {
namespace {

constexpr std::int64_t kMostElements = 2048;  // of one value that are looked at
constexpr std::size_t kCases = 2;
constexpr std::size_t kMostTries = 300;
constexpr double kTimesTolerance = 10;  // of a dtype's own: what rounding makes on the way through a deep model
constexpr double kHuge = 1e30;          // numbers of masks say nothing of the size of others

std::unordered_set<std::string> values_of(const Graph& graph) {
  std::unordered_set<std::string> out;
  for (const Node& node : graph.nodes) out.insert(node.outputs.begin(), node.outputs.end());
  for (const ValueInfo& input : graph.inputs) out.insert(input.name);
  out.erase("");
  return out;
}

}  // namespace

class EvidenceRuns {
 public:
  EvidenceRuns(const Model& first, const Model& second, const std::map<std::string, std::string>& input_names, const VerifyOptions& options)
      : first_(first), input_names_(input_names), options_(options), started_(steady_seconds()) {
    names_[0] = values_of(first.graph);
    names_[1] = values_of(second.graph);
    open(0, first);
    if (see_[0]) open(1, second);
  }

  Evidence run() {
    if (see_[0] && see_[1]) {
      const InputDrawer drawer(first_, options_.sizes);
      if (!drawer.has_unknown_rank()) try_plans(drawer);
      if (out_.cases_ == 0)
        for (const InputDrawer& other : drawer.alternatives())
          if (out_.cases_ == 0 && !over()) try_plans(other);
    }
    if (out_.cases_ == 0 && out_.why_not_.empty()) out_.why_not_ = "no inputs found that both models accept";
    return std::move(out_);
  }

 private:
  // Runs a model and samples its values, into `seen_`.
  using See = std::function<absl::Status(const Inputs& inputs, const RunLimits& limits)>;

  void open(int model, const Model& m) {
    absl::StatusOr<See> see = options_.runtime ? open_there(model, m) : open_here(model, m);
    if (see.ok())
      see_[model] = *std::move(see);
    else
      out_.why_not_ = std::string(see.status().message());
  }

  absl::StatusOr<See> open_here(int model, const Model& m) {
    SessionOptions options;
    options.threads = options_.threads;
    options.cancel = options_.cancel;
    options.prepare = false;
    options.after_node = [this, model](const Node& node, std::vector<Value>& made) { saw(model, node.outputs, made); };
    auto made = Session::create(m, options);
    if (!made.ok()) return made.status();
    const auto session = std::make_shared<const Session>(*std::move(made));
    return See([session](const Inputs& inputs, const RunLimits& limits) { return session->run(inputs, nullptr, limits).status(); });
  }

  // Another runtime shows outputs alone, so all values become outputs.
  absl::StatusOr<See> open_there(int model, const Model& m) {
    Model watched = m;
    std::vector<std::string> names;
    std::unordered_set<std::string> shown{""};
    for (const ValueInfo& output : m.graph.outputs) {
      names.push_back(output.name);
      shown.insert(output.name);
    }
    for (const Node& node : m.graph.nodes)
      for (const std::string& output : node.outputs)
        if (shown.insert(output).second) {
          names.push_back(output);
          watched.graph.outputs.push_back({output, {}, nullptr});
        }
    absl::StatusOr<RunOnce> run = options_.runtime.open(watched);
    if (!run.ok()) return run.status();
    return See([this, model, names = std::move(names), run = *std::move(run)](const Inputs& inputs, const RunLimits& limits) {
      const absl::StatusOr<Ran> ran = run(inputs, limits);
      if (ran.ok()) saw(model, names, ran->outputs);
      return ran.status();
    });
  }

  void saw(int model, const std::vector<std::string>& names, const std::vector<Value>& values) {
    for (std::size_t i = 0; i < std::min(values.size(), names.size()); ++i)
      if (names_[model].contains(names[i]) && values[i].is_tensor()) seen_[model][names[i]] = sample(values[i].tensor());
  }

  static Evidence::Sample sample(const Tensor& t) {
    Evidence::Sample out{t.dtype(), t.dims(), {}, {}};
    const std::int64_t count = std::min<std::int64_t>(t.size(), kMostElements);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = i * t.size() / count;
      if (t.dtype() == DType::kString)
        out.strings.push_back(t.string_data()[static_cast<std::size_t>(at)]);
      else
        out.elements.push_back(element_as_double(t, at).value_or(0));
    }
    return out;
  }

  bool over() const {
    return (options_.cancel && *options_.cancel) || steady_seconds() - started_ > options_.seconds || tries_ > kMostTries;
  }

  void try_plans(const InputDrawer& drawer) {
    for (const VerifyPlan& plan : plans(drawer)) {
      for (const Base& base : bases_of(plan)) {
        if (out_.cases_ >= kCases || over()) return;
        DrawStyle style = plan.style;
        const auto inputs = drawer.draw(assign(drawer.symbols(), base, plan.relation, plan.twins), style, options_.seed + 1 + out_.cases_);
        if (!inputs.ok()) {
          if (out_.why_not_.empty()) out_.why_not_ = std::string(inputs.status().message());
          break;
        }
        if (!attempt(*inputs) && !plan.spacious) break;
      }
      if (out_.cases_ > 0 && !plan.likely) return;
    }
  }

  bool attempt(const Inputs& inputs) {
    ++tries_;
    for (int model : {0, 1}) {
      seen_[model].clear();
      Inputs renamed;
      for (const auto& [name, value] : inputs) {
        const auto it = input_names_.find(name);
        if (model == 0)
          renamed[name] = value;
        else if (it != input_names_.end())
          renamed[it->second] = value;
      }
      for (const auto& [name, value] : renamed)
        if (value.is_tensor()) seen_[model][name] = sample(value.tensor());
      const absl::Status ran = see_[model](renamed, {options_.memory, started_ + options_.seconds});
      if (ran.ok()) continue;
      if (out_.why_not_.empty() || model == 1)
        out_.why_not_ = fmt::format("the {} model: {}", model == 0 ? "first" : "second", std::string(ran.message()));
      return false;
    }
    for (int model : {0, 1}) out_.samples_[model].push_back(std::move(seen_[model]));
    ++out_.cases_;
    return true;
  }

  const Model& first_;
  const std::map<std::string, std::string>& input_names_;
  const VerifyOptions& options_;
  double started_;
  std::size_t tries_ = 0;
  std::unordered_set<std::string> names_[2];
  Evidence::Samples seen_[2];
  See see_[2];
  Evidence out_;
};

Evidence Evidence::collect(const Model& first, const Model& second, const std::map<std::string, std::string>& input_names,
                           const VerifyOptions& options) {
  return EvidenceRuns(first, second, input_names, options).run();
}

bool Evidence::same(const Sample& a, const Sample& b) {
  if (a.dtype != b.dtype || a.dims != b.dims || a.strings != b.strings || a.elements.size() != b.elements.size()) return false;
  double squares = 0;
  std::size_t finite = 0;
  for (const double x : a.elements)
    if (std::isfinite(x) && std::abs(x) < kHuge) squares += x * x, ++finite;
  const double scale = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0,
               tolerance = kTimesTolerance * dtype_tolerance(a.dtype);
  for (std::size_t i = 0; i < a.elements.size(); ++i) {
    const double x = a.elements[i], y = b.elements[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= tolerance * std::max({scale, std::abs(x), std::abs(y)}))) return false;
  }
  return true;
}

std::optional<bool> Evidence::same(const std::string& first, const std::string& second) const {
  bool any = false;
  for (std::size_t c = 0; c < cases_; ++c) {
    const auto a = samples_[0][c].find(first);
    const auto b = samples_[1][c].find(second);
    if (a == samples_[0][c].end() || b == samples_[1][c].end()) continue;
    if (!same(a->second, b->second)) return false;
    any = true;
  }
  return any ? std::optional(true) : std::nullopt;
}

std::string Evidence::kind(int model, const std::string& value) const {
  if (cases_ == 0) return "";
  const auto it = samples_[model][0].find(value);
  return it == samples_[model][0].end() ? "" : fmt::format("{}[{}]", dtype_name(it->second.dtype), fmt::join(it->second.dims, ","));
}

bool Evidence::is_telling(int model, const std::string& value) const {
  constexpr std::size_t kFewest = 8;
  if (cases_ == 0) return false;
  const auto it = samples_[model][0].find(value);
  if (it == samples_[model][0].end() || !is_floating(it->second.dtype)) return false;
  std::set<double> numbers;
  for (const double x : it->second.elements) {
    if (std::isfinite(x)) numbers.insert(x);
    if (numbers.size() >= kFewest) return true;
  }
  return false;
}

}  // namespace saturate
