#include "onnx_bridge/operators/assumptions.h"

#include <fmt/format.h>

#include <algorithm>

#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

constexpr Assumption kAssumptions[] = {
    {"attention_not_empty", "no empty batch", AssumptionClass::kConventional,
     "attention has at least one batch entry, one query and one key (ONNX Runtime refuses the standard's Attention of none)",
     "an empty batch is an error of the runtime instead of an empty result", kEmptySizes},
    {"causal_rows", "no row hidden by two masks", AssumptionClass::kRisky,
     "where one mask hides what comes later and another what is padding, no row is hidden as a whole by both",
     "left padding hides the only key that a first row may see: its numbers differ", kHiddenRows},
    {"finite_attention", "finite scores of Attention", AssumptionClass::kKinder,
     "where an Attention operator must be written in parts, no row of its scores is -inf throughout but for the mask",
     "the zeros of such a row are NaN, as in ONNX Runtime's own operator", kNotFinite},
    {"finite_clips", "finite clips", AssumptionClass::kKinder, "what goes into a Clip of floats without bounds is finite",
     "ONNX Runtime made the largest finite number of an infinity there, and the infinity stays now", kNotFinite},
    {"finite_experts", "finite tokens of experts", AssumptionClass::kKinder,
     "tokens that go to experts and the scores of their router are finite",
     "a token with NaN or infinity gave NaN, and gives what experts make of numbers now", kNotFinite | kOverflows},
    {"finite_recurrence", "finite states", AssumptionClass::kKinder, "what a recurrence that is unrolled computes on the way is finite",
     "where growing states or decays of a chunk overflow, NaN was there and numbers are now, or an infinity", kNotFinite | kOverflows},
    {"finite_scores", "finite scores", AssumptionClass::kConventional,
     "scores are finite where a mask hides them, too, and those that it shows lie above the number that it fills in (-1000 or less)",
     "a NaN or infinity among hidden keys reaches every row", kNotFinite | kLowScores},
    {"finite_values", "finite values", AssumptionClass::kKinder, "values that a model hides by a product with 0 are finite",
     "0 times infinity was NaN and is a number now", kNotFinite},
    {"ids_in_range", "ids in range", AssumptionClass::kConventional,
     "ids that look up a row of a table are not negative (Gather counts negative ones from the end)",
     "an id of -1, meant as the last row, is an error of the runtime", kLargeIntegers},
    {"mask_of_zeros_and_ones", "masks of 0 and 1", AssumptionClass::kConventional,
     "integers, and floats that the model uses as truth values, are 0 or 1 where they hide scores of attention",
     "a mask that holds 2 for a second segment hides nothing of it, where (1 - m) * -10000 shows it above all",
     kOtherTruths | kLargeIntegers},
    {"no_empty_row", "no row masked whole", AssumptionClass::kKinder,
     "no row of scores is hidden as a whole by -inf, of which Softmax makes NaN", "the row was NaN and is zeros or numbers now",
     kInfiniteRows},
    {"quantizer_holds_inputs", "inputs in range", AssumptionClass::kConventional,
     "where approximations are allowed, inputs lie in the range of the quantizer that they pass first",
     "what lies outside was cut off and is not any more", kNotFinite},
    {"quantizer_holds_values", "values in range", AssumptionClass::kConventional,
     "where approximations are allowed, values lie in the range of the quantizer that they pass, and half of its step is little",
     "what lies outside was cut off and is not any more", kNotFinite | kBeyondQuantizers},
    {"rows_not_near_zero", "no rows near 0", AssumptionClass::kRisky,
     "rows that are normalized are far longer than the epsilon that keeps their length from 0",
     "a row as short as the epsilon was made shorter than others, and is as long as they are now", kNotFinite | kShortRows},
    {"small_counts", "sizes below 2^24", AssumptionClass::kConventional,
     "dims, and positions that are counted from them, are below 2^24, up to which float is exact",
     "at 2^24 positions float rounds, whole numbers do not", kLargeIntegers},
    {"small_scores", "scores of one size", AssumptionClass::kRisky,
     "scores of attention that one row shows and hides are within 150 of each other, and no row is hidden as a whole",
     "a hidden key with a score far above the others is seen, and a row that is hidden as a whole is not even any more",
     kNotFinite | kHiddenRows | kLowScores},
};

std::vector<std::string> names_of_assumptions() {
  std::vector<std::string> out;
  for (const Assumption& a : kAssumptions) out.emplace_back(a.name);
  return out;
}

}  // namespace

std::string_view to_string(AssumptionClass c) {
  return c == AssumptionClass::kKinder ? "kinder" : c == AssumptionClass::kConventional ? "conventional" : "risky";
}

std::span<const Assumption> known_assumptions() { return kAssumptions; }

const Assumption* find_assumption(std::string_view name) {
  for (const Assumption& a : kAssumptions)
    if (a.name == name) return &a;
  return nullptr;
}

bool AssumptionChoice::allows(std::string_view assumption) const {
  const auto lists = [](const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (lists(not_assumed, assumption) || lists(not_assumed, "all")) return false;
  const Assumption* known = find_assumption(assumption);
  return !known || known->kind != AssumptionClass::kRisky || lists(assumed, assumption);
}

std::optional<std::string> AssumptionChoice::unknown() const {
  for (const auto* names : {&assumed, &not_assumed})
    for (const std::string& name : *names)
      if (!find_assumption(name) && !(names == &not_assumed && name == "all"))
        return fmt::format("{}: no such assumption; {}", name,
                           what_instead(name, names_of_assumptions(), "`saturate optimize --help` names them"));
  return std::nullopt;
}

std::vector<std::string> AssumptionChoice::risks() const {
  std::vector<std::string> out;
  for (const Assumption& a : kAssumptions)
    if (a.kind == AssumptionClass::kRisky && allows(a.name)) out.emplace_back(a.name);
  return out;
}

}  // namespace saturate
