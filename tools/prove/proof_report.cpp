#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "tools/prove/prove.h"

namespace saturate {
namespace {

constexpr std::size_t kShownLaws = 6, kShownRegions = 8;

// "3 Mul, Add": each operator once, in the order of first use.
std::string operators_text(const std::vector<std::string>& operators) {
  std::vector<std::string> order;
  std::map<std::string, std::size_t> times;
  for (const std::string& op : operators)
    if (++times[op] == 1) order.push_back(op);
  std::vector<std::string> out;
  for (const std::string& op : order) out.push_back(times[op] == 1 ? op : fmt::format("{} {}", times[op], op));
  return out.empty() ? "nothing" : fmt::format("{}", fmt::join(out, ", "));
}

std::string labelled(const char* label, const std::string& text) { return fmt::format("  {:<10} {}\n", label, text); }

// What the proof leaves open.
std::string but_for(const ModelProof& proof) {
  Effect most = Effect::kExact;
  for (const UsedLaw& law : proof.laws) most = std::max(most, law.effect);
  std::vector<std::string> out;
  if (most == Effect::kWithinOneStep) out.push_back("a step of quantized numbers");
  if (most == Effect::kRescales) out.push_back("other scales of quantized numbers");
  if (most == Effect::kApproximates) out.push_back("approximations");
  if (!proof.rounded.empty()) out.push_back("constants in their last bits");
  if (!proof.sizes.empty()) out.push_back("sizes at which a model fails");
  if (proof.believes_types) out.push_back("types that the models declare");
  return out.empty() ? "" : fmt::format(" but for {}", fmt::join(out, " and "));
}

std::string head(const ModelProof& proof) {
  switch (proof.verdict) {
    case ModelProof::Verdict::kProven:
      return "proven equal" + but_for(proof);
    case ModelProof::Verdict::kDifferent:
      return "DIFFERENT";
    default:
      break;
  }
  if (!proof.numbers) return "not proven";
  if (proof.numbers->status != VerifyStatus::kEqual) return fmt::format("not proven, and not compared: {}", proof.numbers->message);
  return fmt::format("not proven; no difference seen with {} input{}", proof.numbers->cases.size(),
                     proof.numbers->cases.size() == 1 ? "" : "s");
}

std::string laws_text(const ModelProof& proof, bool all) {
  std::size_t uses = 0;
  std::map<Effect, std::size_t> by_effect;
  for (const UsedLaw& law : proof.laws) uses += law.times, by_effect[law.effect] += law.times;
  std::vector<std::string> effects;
  for (const auto& [effect, times] : by_effect) effects.push_back(fmt::format("{} {}", times, to_string(effect)));
  std::string out =
      labelled("laws", proof.laws.empty() ? "none: the operators are the same"
                                          : fmt::format("{} in {} places ({})", proof.laws.size(), uses, fmt::join(effects, ", ")));
  const std::size_t shown = all ? proof.laws.size() : std::min(kShownLaws, proof.laws.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shown; ++i) names.push_back(fmt::format("{} x{}", proof.laws[i].rule, proof.laws[i].times));
  for (const std::string& name : names) out += labelled("", name);
  if (shown < proof.laws.size()) out += labelled("", fmt::format("... and {} more (-v shows them)", proof.laws.size() - shown));
  return out;
}

std::vector<std::string> assumptions(const ModelProof& proof) {
  std::map<std::string, std::size_t> times;
  for (const UsedLaw& law : proof.laws)
    for (const std::string& name : law.assumes) times[name] += law.times;
  std::vector<std::string> out;
  for (const auto& [name, n] : times) out.push_back(name);
  return out;
}

// Not a list of braces: two lists of two texts each would be read as names and values.
template <typename T>
nlohmann::json both(const T (&of)[2]) {
  return nlohmann::json::array({nlohmann::json(of[0]), nlohmann::json(of[1])});
}

}  // namespace

std::string_view to_string(ModelProof::Verdict verdict) {
  switch (verdict) {
    case ModelProof::Verdict::kProven:
      return "proven";
    case ModelProof::Verdict::kDifferent:
      return "different";
    default:
      return "open";
  }
}

std::string format_proof(const ModelProof& proof, const std::string& first, const std::string& second, bool all) {
  std::string out = fmt::format("{}, {}\n  {}\n", first, second, head(proof));
  if (proof.verdict == ModelProof::Verdict::kDifferent) out += labelled("numbers", proof.numbers->message);
  for (const std::string& line : proof.interface) out += labelled("interface", line);
  const auto proven = std::count_if(proof.outputs.begin(), proof.outputs.end(), [](const auto& o) { return o.proven; });
  out += labelled("outputs", fmt::format("{} of {} proven", proven, proof.outputs.size()));
  out += labelled("operators", fmt::format("{} of {} and {} of {} make values that both models have", proof.proven_nodes[0], proof.nodes[0],
                                           proof.proven_nodes[1], proof.nodes[1]));
  if (proof.bodies > 0) out += labelled("bodies", fmt::format("{} of each model, with their laws", proof.bodies));
  if (proven > 0) out += laws_text(proof, all);
  if (proof.computed > 0) out += labelled("computed", fmt::format("{} constants and shapes", proof.computed));
  if (!proof.rounded.empty())
    out +=
        labelled("rounded", fmt::format("{} constant{} differ in the last bits: {}{}", proof.rounded.size(),
                                        proof.rounded.size() == 1 ? "" : "s", proof.rounded[0], proof.rounded.size() > 1 ? ", ..." : ""));
  if (!proof.sizes.empty()) out += labelled("sizes", fmt::format("{}: else one of the models fails", fmt::join(proof.sizes, ", ")));
  if (proven > 0) {
    const auto assumed = assumptions(proof);
    out += labelled("assumes", assumed.empty() ? "nothing" : fmt::format("{}", fmt::join(assumed, ", ")));
  }
  const std::size_t shown = all ? proof.regions.size() : std::min(kShownRegions, proof.regions.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const OpenRegion& r = proof.regions[i];
    out += fmt::format("  @@ {}{}   {} -> {}\n", r.outputs[0], r.outputs[1] == r.outputs[0] ? "" : " / " + r.outputs[1],
                       operators_text(r.operators[0]), operators_text(r.operators[1]));
  }
  if (shown < proof.regions.size()) out += fmt::format("  ... and {} more places (-v shows them)\n", proof.regions.size() - shown);
  return out;
}

nlohmann::json to_json(const ModelProof& proof) {
  nlohmann::json out = {{"verdict", to_string(proof.verdict)},
                        {"interface", proof.interface},
                        {"computed", proof.computed},
                        {"rounded", proof.rounded},
                        {"believes_types", proof.believes_types},
                        {"stop", proof.stop},
                        {"assumes", assumptions(proof)},
                        {"sizes", proof.sizes},
                        {"bodies", proof.bodies}};
  for (int side : {0, 1}) {
    out["nodes"].push_back(proof.nodes[side]);
    out["proven_nodes"].push_back(proof.proven_nodes[side]);
  }
  out["outputs"] = out["laws"] = out["regions"] = nlohmann::json::array();
  for (const auto& o : proof.outputs) out["outputs"].push_back({{"name", o.name}, {"partner", o.partner}, {"proven", o.proven}});
  for (const UsedLaw& law : proof.laws)
    out["laws"].push_back({{"rule", law.rule}, {"effect", to_string(law.effect)}, {"assumes", law.assumes}, {"times", law.times}});
  for (const OpenRegion& r : proof.regions)
    out["regions"].push_back({{"outputs", both(r.outputs)}, {"operators", both(r.operators)}, {"nodes", both(r.nodes)}});
  if (proof.numbers) out["numbers"] = {{"message", proof.numbers->message}, {"cases", proof.numbers->cases.size()}};
  return out;
}

}  // namespace saturate
