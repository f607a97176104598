#include "tools/explain/summary.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "extract/optimize/target_check.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/graph/graph_view.h"
#include "tools/explain/quantization.h"
#include "tools/explain/run_index.h"

namespace saturate {
namespace {

using Status = WhyPlace::Status;

void add_rest(KindSummary& into, KindSummary::Rest rest) {
  const auto same = [&](const KindSummary::Rest& r) { return r.what == rest.what && r.reason == rest.reason; };
  const auto it = std::find_if(into.rest.begin(), into.rest.end(), same);
  if (it == into.rest.end())
    into.rest.push_back(std::move(rest));
  else
    it->count += rest.count;
}

KindSummary::Rest rest_of(const WhyPlace& place, const BlockKind& kind, const Setup& setup, const OptimizeOptions& options) {
  const bool found = place.status == Status::kNotChosen;
  KindSummary::Rest rest{found ? without_domain(place.fused) : std::string(kind.one), place.reason, "", place.value, 1};
  if (found && place.because == WhyPlace::Because::kOpset) {
    rest.reason = fmt::format("needs opset {}", place.opset);
    rest.help = option_for_opset(setup, options, place.opset);
  }
  if (found && place.because == WhyPlace::Because::kDearer) rest.reason = "no faster here than spelled out";
  if (!found && !place.nearest.empty()) rest.reason = place.nearest.front().reason;
  if (place.quantized) rest.reason = kBetweenQuantizers;
  if (rest.reason.empty()) rest.reason = "no rule comes near";
  return rest;
}

KindSummary summary_of(const WhyReport& report, const BlockKind& kind, const Setup& setup, const OptimizeOptions& options) {
  KindSummary out{std::string(kind.name), 0, 0, {}, {}};
  for (const WhyPlace& place : report.places) {
    if (place.status == Status::kConstant || place.status == Status::kNotNeeded) continue;
    ++out.expected;
    if (place.status == Status::kMissed || place.status == Status::kNotChosen) {
      add_rest(out, rest_of(place, kind, setup, options));
      continue;
    }
    ++out.found;
    ++out.operators[without_domain(place.fused.empty() ? place.op_type : place.fused)];
  }
  return out;
}

// ---- kinds that are counted, not asked for

const Node* only_user(const GraphView& view, const Node& node) {
  const auto uses = node.outputs.empty() ? std::span<const GraphView::Use>() : view.uses(node.outputs[0]);
  return uses.size() == 1 ? uses.front().node : nullptr;
}

// Convolutions with a BatchNormalization, which their weights take in, or an activation, which FusedConv does.
KindSummary convolutions(const Model& model, const OptimizeReport& run, const Setup& setup) {
  constexpr std::array kActivations{"Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "Tanh", "Clip"};
  const GraphView view(model.graph);
  std::size_t norms = 0, activations = 0;
  for (const Node& node : model.graph.nodes) {
    if (node.op_type != "Conv") continue;
    const Node* user = only_user(view, node);
    if (user && user->op_type == "BatchNormalization") {
      ++norms;
      user = only_user(view, *user);
    }
    activations += user && std::find(kActivations.begin(), kActivations.end(), user->op_type) != kActivations.end();
  }
  const std::string fused = "com.microsoft.FusedConv";
  const std::size_t left = std::min(norms, run.after.count("BatchNormalization"));
  const std::size_t taken = std::min(activations, run.after.count(fused) - std::min(run.after.count(fused), run.before.count(fused)));
  KindSummary out{"convolutions", norms + activations, norms - left + taken, {}, {}};
  if (norms > left) out.operators["BatchNormalization folded"] = norms - left;
  if (taken > 0) out.operators["FusedConv"] = taken;
  if (left > 0) out.rest.push_back({"BatchNormalization", "its numbers are no constants, or others read what it reads", "", "", left});
  OpKey key;
  key.domain = "com.microsoft", key.op_type = "FusedConv";
  const bool has_it = setup.target.allows(OpSite{key});
  if (activations > taken)
    out.rest.push_back(
        {"activation",
         has_it ? "no faster here: the runtime joins them when it loads the model" : fmt::format("{} has no FusedConv", run.target), "", "",
         activations - taken});
  return out;
}

// Routers: a choice of the largest of a Softmax or of Sigmoids, or one of these of what was chosen.
KindSummary experts(const Model& model, const OptimizeReport& run, const Setup& setup) {
  constexpr std::array kGates{"Softmax", "Sigmoid"};
  const auto is_gate = [&](const Node& n) { return std::find(kGates.begin(), kGates.end(), n.op_type) != kGates.end(); };
  const GraphView view(model.graph);
  KindSummary out{"experts", 0, 0, {}, {}};
  std::string first;
  std::size_t were = 0;
  for (const Node& node : model.graph.nodes) {
    if (node.op_type != "TopK" || node.inputs.empty() || node.outputs.empty()) continue;
    const Node* maker = view.producer(node.inputs[0]);
    const auto behind = view.uses(node.outputs[0]);
    if (!(maker && is_gate(*maker)) && std::ranges::none_of(behind, [&](const GraphView::Use& u) { return is_gate(*u.node); })) continue;
    ++out.expected;
    if (first.empty()) first = node.outputs[0];
  }
  for (const char* op : {"com.microsoft.MoE", "com.microsoft.QMoE"}) {
    were += run.before.count(op);
    if (const std::size_t n = run.after.count(op); n > 0) {
      out.operators[without_domain(op)] = n;
      out.found += n;
    }
  }
  out.expected = std::max(out.expected + were, out.found);
  const std::size_t left = out.expected - out.found;
  OpKey key;
  key.domain = "com.microsoft", key.op_type = "MoE";
  const bool has_it = setup.target.allows(OpSite{key});
  const auto tell = [&](std::string why, std::size_t n) {
    if (n > 0) out.rest.push_back({"router", has_it ? std::move(why) : fmt::format("{} has no MoE", run.target), "", first, n});
  };
  tell("what its experts compute is none of what MoE does, or was not recognized", left);
  return out;
}

// "3 of 4: 2 Attention, 1 MultiHeadAttention".
std::string found_text(const KindSummary& kind) {
  std::vector<std::string> parts;
  for (const auto& [op, n] : kind.operators) parts.push_back(fmt::format("{} {}", n, op));
  return fmt::format("{} of {}{}", kind.found, kind.expected, parts.empty() ? "" : fmt::format(": {}", fmt::join(parts, ", ")));
}

// Of the result: what the target computes in integers.
KindSummary quantized_units(const Model& result, const Setup& setup) {
  KindSummary out{"quantized", 0, 0, {}, {}};
  if (!is_quantized(result)) return out;
  const auto q = quantization(result, setup.target);
  if (!q.ok()) return out;
  out.expected = q->operators;
  out.found = q->integer_operators;
  for (const auto& [kernel, n] : q->kernels) out.operators[without_domain(kernel)] = n;
  for (const FloatOperator& f : q->islands) add_rest(out, {f.op_type, f.why, "", f.value, 1});
  std::stable_sort(out.rest.begin(), out.rest.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return out;
}

}  // namespace

void ask_kind(const FinishedRun& run, const RunIndex& index, const Setup& setup, const BlockKind& kind, bool brief, WhyReport& report) {
  const auto share = [](const WhyPlace& p) {
    if (p.status != Status::kMissed) return 2.0;
    return p.nearest.empty() || p.nearest[0].total == 0 ? 0.0 : static_cast<double>(p.nearest[0].matched) / p.nearest[0].total;
  };
  for (const std::string_view op : kind.asked) {
    WhyQuery query;
    query.op = std::string(op);
    query.brief = brief;
    query.family = true;
    WhyReport of_one;
    ask_places(run, index, setup, query, of_one);
    if (report.anchors.find(of_one.anchors) == std::string::npos) report.anchors += (report.anchors.empty() ? "" : "; ") + of_one.anchors;
    for (WhyPlace& place : of_one.places) {
      const auto same = [&](const WhyPlace& p) { return p.value == place.value && p.where == place.where; };
      const auto it = std::find_if(report.places.begin(), report.places.end(), same);
      if (it == report.places.end())
        report.places.push_back(std::move(place));
      else if (share(place) > share(*it))
        *it = std::move(place);
    }
  }
}

absl::StatusOr<Summary> summarize(const Model& model, const Setup& setup, OptimizeOptions options) {
  constexpr std::array kAsked{"attention", "norms", "activations", "rotary"};
  std::map<std::string_view, WhyReport> reports;
  options.observe = [&, given = options.observe](const FinishedRun& run) {
    if (given) given(run);
    if (run.where.empty()) reports.clear();
    const RunIndex index(run);
    for (const char* name : kAsked) ask_kind(run, index, setup, *find_kind(name), true, reports[name]);
  };
  auto result = optimize(model, setup.rules, setup.target, *setup.cost, options);
  if (!result.ok()) return result.status();
  count_refused(model, result->model, setup.target, result->report);
  Summary out{std::move(result->report), {}};
  for (const char* name : kAsked) out.kinds.push_back(summary_of(reports[name], *find_kind(name), setup, options));
  out.kinds.push_back(convolutions(model, out.run, setup));
  out.kinds.push_back(experts(model, out.run, setup));
  out.kinds.push_back(quantized_units(result->model, setup));
  std::erase_if(out.kinds, [](const KindSummary& k) { return k.expected == 0; });
  return out;
}

std::string format_kind(const KindSummary& kind) {
  std::string out = found_text(kind);
  constexpr std::size_t kMost = 2;  // reasons
  for (std::size_t i = 0; i < std::min(kMost, kind.rest.size()); ++i) {
    const KindSummary::Rest& r = kind.rest[i];
    out += fmt::format("; {} {} {}: {}{}{}", r.count, r.what, r.help.empty() ? "left" : "missing", r.reason,
                       r.help.empty() ? "" : ", " + r.help,
                       r.value.empty() || !r.help.empty() || r.reason.starts_with("no faster") ? "" : fmt::format(" (at '{}')", r.value));
  }
  if (kind.rest.size() > kMost) out += fmt::format("; {} other reasons: -v", kind.rest.size() - kMost);
  return out;
}

std::string format_whole(const KindSummary& kind) {
  std::string out = fmt::format("{}: {}\n", kind.kind, found_text(kind));
  for (const KindSummary::Rest& r : kind.rest)
    out += fmt::format("  {} {}: {}{}\n", r.count, r.what, r.reason, r.value.empty() ? "" : fmt::format(" (first at '{}')", r.value));
  return out;
}

std::string format_summary(const Summary& summary) {
  std::string out, none;
  for (const char* name : {"attention", "norms", "activations", "rotary", "convolutions", "experts", "quantized"}) {
    const auto it = std::find_if(summary.kinds.begin(), summary.kinds.end(), [&](const KindSummary& k) { return k.kind == name; });
    if (it == summary.kinds.end())
      none += fmt::format("{}{}", none.empty() ? "" : ", ", name);
    else
      out += fmt::format("  {:<13} {}\n", name, format_kind(*it));
  }
  return out + (none.empty() ? "" : fmt::format("  {:<13} {}\n", "none of", none));
}

nlohmann::json to_json(const std::vector<KindSummary>& kinds) {
  nlohmann::json out = nlohmann::json::array();
  for (const KindSummary& k : kinds) {
    nlohmann::json rest = nlohmann::json::array();
    for (const KindSummary::Rest& r : k.rest)
      rest.push_back({{"what", r.what},
                      {"count", r.count},
                      {"reason", r.reason},
                      {"help", r.help.empty() ? nlohmann::json(nullptr) : nlohmann::json(r.help)},
                      {"place", r.value}});
    out.push_back({{"kind", k.kind}, {"expected", k.expected}, {"found", k.found}, {"operators", k.operators}, {"rest", rest}});
  }
  return out;
}

}  // namespace saturate
