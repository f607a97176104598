// A WhyReport as text and as JSON.
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "tools/explain/why_not.h"

namespace saturate {
namespace {

std::string_view to_string(WhyPlace::Status status) {
  switch (status) {
    case WhyPlace::Status::kGiven:
      return "given";
    case WhyPlace::Status::kFused:
      return "fused";
    case WhyPlace::Status::kNotChosen:
      return "not chosen";
    case WhyPlace::Status::kMissed:
      return "missed";
    case WhyPlace::Status::kApplied:
      return "applied";
    case WhyPlace::Status::kConstant:
      return "constant";
    case WhyPlace::Status::kNotNeeded:
      return "not needed";
  }
  return "?";
}

// What the result costs, and what it would with the operator that was not chosen; for a WhyPlace or its WhyAsked.
template <typename T>
void add_costs(nlohmann::json& out, const T& of) {
  if (of.cost > 0) out["cost"] = of.cost;
  if (of.pinned_cost > 0) out["pinned_cost"] = of.pinned_cost;
}

}  // namespace

std::string format_why(const WhyReport& report) {
  std::string out;
  std::map<std::string_view, std::size_t> counts;
  for (const WhyPlace& p : report.places) ++counts[to_string(p.status)];
  std::vector<std::string> parts;
  for (const auto& [status, n] : counts) parts.push_back(fmt::format("{} {}", n, status));
  out += fmt::format("places ({}): {}\n", report.anchors, parts.empty() ? "none in the model" : fmt::format("{}", fmt::join(parts, ", ")));
  for (const WhyPlace& p : report.places) {
    out += fmt::format("\n{} {}  ({}){}\n", p.op_type, p.value, p.facts, p.where.empty() ? "" : ", " + p.where);
    if (p.status == WhyPlace::Status::kFused) out += fmt::format("  fused into {}", p.fused);
    if (p.status == WhyPlace::Status::kNotChosen) out += fmt::format("  found as {}, not chosen: {}", p.fused, p.reason);
    if (p.status == WhyPlace::Status::kGiven) out += "  as the model gives it";
    if (p.status == WhyPlace::Status::kApplied) out += "  applied";
    if (p.status == WhyPlace::Status::kConstant || p.status == WhyPlace::Status::kNotNeeded)
      out += fmt::format("  {}: {}", to_string(p.status), p.reason);
    if (p.quantized) out += fmt::format("  {}\n", kBetweenQuantizers);
    if (p.status == WhyPlace::Status::kMissed)
      out += !p.nearest.empty() ? "  nearest:" : fmt::format("  no rule comes near{}{}", p.reason.empty() ? "" : ": ", p.reason);
    if (!p.rules.empty()) out += fmt::format("\n  by {}", fmt::join(p.rules, " -> "));
    out += "\n";
    if (p.asked) out += fmt::format("  found as {}, too, not chosen: {}\n", p.asked->op_type, p.asked->reason);
    if (p.asked && !p.asked->rules.empty()) out += fmt::format("  by {}\n", fmt::join(p.asked->rules, " -> "));
    for (const WhyMiss& m : p.nearest)
      out += fmt::format("  - {} at {}: {} of {} operators are there; {}\n", m.rule, m.at, m.matched, m.total, m.reason);
    if (p.integers)
      out += p.integers->why.empty() ? fmt::format("  in integers: {}\n", p.integers->kernel)
                                     : fmt::format("  no integer kernel: {}\n", p.integers->why);
  }
  return out;
}

nlohmann::json to_json(const WhyReport& report) {
  nlohmann::json places = nlohmann::json::array();
  for (const WhyPlace& p : report.places) {
    nlohmann::json nearest = nlohmann::json::array();
    for (const WhyMiss& m : p.nearest)
      nearest.push_back({{"rule", m.rule}, {"matched", m.matched}, {"total", m.total}, {"at", m.at}, {"reason", m.reason}});
    nlohmann::json place{{"value", p.value}, {"op_type", p.op_type}, {"facts", p.facts}, {"status", std::string(to_string(p.status))},
                         {"rules", p.rules}, {"nearest", nearest}};
    if (!p.where.empty()) place["where"] = p.where;
    if (p.integers) {
      const auto text = [](const std::string& s) { return s.empty() ? nlohmann::json(nullptr) : nlohmann::json(s); };
      place["integer_kernel"] = {{"kernel", text(p.integers->kernel)}, {"why_not", text(p.integers->why)}};
    }
    if (p.quantized) place["quantized"] = true;
    if (!p.fused.empty()) place["fused"] = p.fused;
    if (!p.reason.empty()) place["reason"] = p.reason;
    if (p.status == WhyPlace::Status::kNotChosen) add_costs(place, p);
    if (p.asked) {
      place["asked"] = {{"op_type", p.asked->op_type}, {"reason", p.asked->reason}, {"rules", p.asked->rules}};
      add_costs(place["asked"], *p.asked);
    }
    places.push_back(std::move(place));
  }
  return {{"anchors", report.anchors}, {"places", places}};
}

}  // namespace saturate
