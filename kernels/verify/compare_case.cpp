#include "kernels/verify/compare_case.h"

#include <algorithm>
#include <utility>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "kernels/compare/ties.h"

namespace saturate {
namespace {

// Of cases beyond the usual: what a run may take, for a large integer may turn out to be a size or a number of turns.
constexpr std::size_t kMemoryBeyond = std::size_t{512} << 20;
constexpr double kSecondsBeyond = 5;
// Of a time that bounds all: what the first case may take where a smaller one is left, and what is kept to learn what rounding makes.
constexpr double kShareBeforeSmaller = 0.5, kShareOfNoise = 0.25;

bool has_no_floats(const Value& value) { return value.is_tensor() && !is_floating(value.tensor().dtype()); }

void keep_what_is_ok(const VerifyCase& before, VerifyCase& result) {
  for (std::size_t i = 0; i < result.outputs.size(); ++i)
    if (before.outputs[i].ok) result.outputs[i] = before.outputs[i];
}

}  // namespace

bool is_beyond(CaseKind kind) { return kind != CaseKind::kUsual && kind != CaseKind::kGiven; }

bool all_ok(const VerifyCase& c) {
  return std::all_of(c.outputs.begin(), c.outputs.end(), [](const OutputComparison& o) { return o.ok; });
}

bool has_an_empty_one(const Inputs& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const auto& input) { return input.second.is_tensor() && input.second.tensor().size() == 0; });
}

bool gives_no_number(const VerifyCase& c) {
  bool any = false;
  for (const OutputComparison& o : c.outputs) {
    if (o.random || o.elements == 0) continue;
    if (!o.of_floats || o.finite > 0) return false;
    any = true;
  }
  return any;
}

bool has_declared_sizes(const Model& model, const std::vector<Value>& outputs, const Sizes& sizes) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueType& type = model.graph.outputs[i].type;
    if (!outputs[i].is_tensor() || !type.shape || type.kind != ValueType::Kind::kTensor) continue;
    const Shape& dims = outputs[i].tensor().dims();
    for (std::size_t d = 0; d < std::min(dims.size(), type.shape->size()); ++d) {
      const auto* name = std::get_if<std::string>(&(*type.shape)[d]);
      const auto size = name ? evaluate_dim(*name, sizes) : std::nullopt;
      if (size && *size != dims[d]) return false;
    }
  }
  return true;
}

VerifyRun::VerifyRun(const Model& the_original, const Model& the_optimized, const VerifyOptions& the_options)
    : original(the_original), optimized(the_optimized), options(the_options), started(steady_seconds()) {
  open = options.runtime ? options.runtime.open : open_here(session_options());
}

SessionOptions VerifyRun::session_options() const {
  SessionOptions out;
  out.threads = options.threads;
  out.cancel = options.cancel;
  out.prepare = false;  // nothing is run often, and both models' weights would be held a second time
  out.keep_results = false;
  return out;
}

double VerifyRun::seconds(bool any_yet, bool has_smaller) const {
  if (!options.ends_in_time) return options.seconds * (any_yet || has_smaller ? 1 : kTimesForFirstCase);
  return options.seconds * (has_smaller && !any_yet ? kShareBeforeSmaller : 1);
}

RunLimits VerifyRun::limits(CaseKind kind, bool any_yet, bool has_smaller) const {
  const double deadline = started + seconds(any_yet, has_smaller);
  if (!is_beyond(kind)) return {options.memory, deadline};
  return {std::min(options.memory, kMemoryBeyond), std::min(deadline, steady_seconds() + kSecondsBeyond)};
}

CaseComparer::CaseComparer(const VerifyRun& run, VerifyNotes& notes)
    : run_(run), notes_(notes), seconds_of_noise_(run.options.seconds * (run.options.ends_in_time ? kShareOfNoise : 1)) {
  const std::vector<std::string> names = random_outputs(run.original);
  random_ = {names.begin(), names.end()};
  for (const ValueInfo& input : run.original.graph.inputs)
    if (input.type.shape)
      for (const DimSpec& dim : *input.type.shape)
        if (const auto* name = std::get_if<std::string>(&dim)) names_of_inputs_.insert(*name);
  const std::vector<ValueInfo>& outputs = run.optimized.graph.outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) places_.emplace(outputs[i].name, i);  // a value may be an output twice
  half_paths_ = half_paths(run.original);
  floats_given_ = InputDrawer(run.original).has_floats();
  if (has_quantizers(run.original)) moves_ = run.options.moves;
  if (allows_steps()) steps_ = steps_of_outputs(run.original);
}

VerifyCase CaseComparer::judged(const CaseRun& one) {
  VerifyCase result = compared(one, {});
  allow_for_peer(one, result);
  allow_for_noise(one, result);
  allow_for_ties(one, result);
  return result;
}

// To measure noise: a model that ran once on these inputs takes as long again. All cases together get as long again as the cases
// themselves.
RunLimits CaseComparer::limits_of_noise(CaseKind kind) const {
  return {run_.limits(kind, true).memory, steady_seconds() + seconds_of_noise_};
}

const Value& CaseComparer::of_same_name(const std::vector<Value>& values, const std::string& name) const {
  return values[places_.at(name)];
}

// What the original differs from itself by where it is run as the second model is.
void CaseComparer::allow_for_peer(const CaseRun& one, VerifyCase& result) {
  if (all_ok(result) || !run_.options.runtime.peer) return;
  const absl::StatusOr<Ran> peer = run_.options.runtime.peer(one.inputs);
  const VerifyCase before = result;
  if (peer.ok()) {
    std::vector<Noise> noise(one.wanted.size());
    for (std::size_t i = 0; i < one.wanted.size(); ++i) noise[i].learn(one.wanted[i], peer->outputs[i]);
    // Both are the original's outputs, by its own order of them.
    VerifyCase moved;
    for (std::size_t i = 0; i < one.wanted.size(); ++i)
      moved.outputs.push_back(
          compare_values(before.outputs[i].name, one.wanted[i], peer->outputs[i], tolerances_of(before.outputs[i].name)));
    result = compared(one, {.noise = &noise});
    keep_what_is_ok(before, result);
    for (std::size_t i = 0; i < result.outputs.size(); ++i)
      result.outputs[i].ok = result.outputs[i].ok || (!moved.outputs[i].ok && moved.outputs[i].max_abs >= result.outputs[i].max_abs);
  } else {
    for (OutputComparison& o : result.outputs) o.ok = true;
  }
  note_allowed(before, result, fmt::format("by {}: the original differs from itself as much", kByItsOptimizations));
}

// A model may make much of a rounding (a softmax of scores of 10^5). The original differs from itself when it is computed in double
// precision, or when its inputs or weights move by one unit in the last place. Where outputs differ by no more than a few times that,
// nothing is wrong. Where floats are rounded to few steps (quantization) most moves change nothing and some change much.
void CaseComparer::allow_for_noise(const CaseRun& one, VerifyCase& result) {
  // With tolerances that are given nothing but steps excuses what lies beyond them, and no noise is measured.
  if (all_ok(result) || (tolerances_are_given() && run_.options.steps == 0)) return;
  const auto same_form = [](const OutputComparison& o) { return o.ok || o.mismatches > 0; };
  if (!std::all_of(result.outputs.begin(), result.outputs.end(), same_form)) return;
  const double start = steady_seconds();
  measure_and_allow(one, result);
  seconds_of_noise_ -= steady_seconds() - start;
}

void CaseComparer::measure_and_allow(const CaseRun& one, VerifyCase& result) {
  const bool given = tolerances_are_given();
  std::vector<Noise> noise(one.wanted.size());
  const bool stays = one.kind == CaseKind::kQuantized || one.kind == CaseKind::kEdges;
  NoiseOf original{run_.original, run_.first, run_.open, run_.session_options(), limits_of_noise(one.kind), one.inputs, one.wanted, stays};
  original.between_steps = one.kind == CaseKind::kQuantized;
  for (const ValueInfo& output : run_.original.graph.outputs) {
    const auto path = half_paths_.find(output.name);
    original.in_16_bits.push_back(path != half_paths_.end() && path->second == HalfPath::kComputed);
  }
  const auto is_rounding = [&] {
    const VerifyCase before = result;
    result = compared(one, {.noise = &noise});
    keep_what_is_ok(before, result);
    return all_ok(result) || run_.cancelled();
  };
  const auto told = [&](const VerifyCase& before) {
    note_allowed(before, result, "by rounding: the original computed more exactly or beside its inputs differs from itself as much");
    return all_ok(result) || run_.cancelled();
  };
  VerifyCase before = result;
  if (!given) measure_noise(original, noise, is_rounding);
  if (told(before)) return;
  std::vector<Noise> of_steps = noise;  // what steps make excuses no more than steps
  if (allows_steps() && allow_for_steps(original, one, given, of_steps, result)) return;
  if (given || run_.cancelled()) return;
  before = result;
  measure_exactly(original, {&noise, &of_steps});
  is_rounding();
  if (!told(before) && allows_steps()) allow_for_steps(original, one, true, of_steps, result);
}

// Whether nothing is left to ask. `measured`: no further runs teach the noise.
bool CaseComparer::allow_for_steps(const NoiseOf& original, const CaseRun& one, bool measured, std::vector<Noise>& noise,
                                   VerifyCase& result) {
  const VerifyCase before = result;
  const auto again = [&] {
    result = compared(one, {.noise = &noise, .in_steps = true});
    keep_what_is_ok(before, result);
    return all_ok(result) || run_.cancelled();
  };
  if (!again() && !measured) measure_steps(original, std::max(moves_, StepMoves::kSome), noise, again);
  if (all_ok(result) && moves_ == StepMoves::kLeftOut && !is_beyond(result.kind) && has_much_cut_off(original, result.kind)) {
    result = before;
    return true;
  }
  note_allowed(before, result, "by steps of quantized values: the original with such values moved by a step differs from itself as much");
  return all_ok(result) || run_.cancelled();
}

// Whether the user's inputs break the assumption that quantizers hold their values, where rules have left quantizers out. Of drawn inputs
// that says little: no calibration saw them.
bool CaseComparer::has_much_cut_off(const NoiseOf& original, CaseKind kind) {
  const std::optional<CutOff> cut = most_cut_off(original);
  if (!cut) return false;
  if (kind == CaseKind::kGiven) cut_off_ = kBeyondQuantizers;
  if (cut_off_ == 0 && std::exchange(told_of_cut_off_, true) == false)
    notes_.add(
        fmt::format("of the numbers that were drawn, quantizer '{}' cuts off {:.0f} %, and it may be left out; --inputs FILE asks with "
                    "numbers of yours",
                    cut->quantizer, 100 * cut->share));
  return cut_off_ != 0;
}

void CaseComparer::note_allowed(const VerifyCase& before, const VerifyCase& after, std::string_view why) {
  for (std::size_t i = 0; i < after.outputs.size(); ++i)
    if (!before.outputs[i].ok && after.outputs[i].ok) notes_.allow(after.outputs[i], after.kind, why);
}

// How an output may differ by steps of quantized values.
StepRule CaseComparer::step_rule(const std::string& output) const {
  const auto it = steps_.find(output);
  if (it == steps_.end()) return {};
  if (run_.options.steps > 0) return {it->second, static_cast<double>(run_.options.steps), 1};
  return {it->second, 1, kShareMoved};
}

// Where several elements are the largest but for rounding, ArgMax and TopK may name any of them.
void CaseComparer::allow_for_ties(const CaseRun& one, VerifyCase& result) {
  for (std::size_t i = 0; i < one.wanted.size(); ++i) {
    OutputComparison& o = result.outputs[i];
    if (o.ok || o.mismatches == 0 || !one.wanted[i].is_tensor() || !has_no_floats(one.wanted[i])) continue;
    if (one.kind == CaseKind::kEdges && searches_an_input(run_.original, o.name)) continue;  // ties were drawn, and have an order
    const Tensor& other = of_same_name(one.got, o.name).tensor();
    if (!differs_by_ties(run_.original, o.name, one.inputs, run_.session_options(), one.wanted[i].tensor(), other)) continue;
    o.ok = true;
    notes_.tell(o.name, "names other elements than the original, as large but for rounding");
  }
}

Tolerances CaseComparer::tolerances_of(const std::string& output) const {
  Tolerances out = run_.options.tolerances;
  const auto path = half_paths_.find(output);
  if (path == half_paths_.end() || path->second == HalfPath::kNone) return out;
  (path->second == HalfPath::kComputed ? out.coarsest : out.rounded) = DType::kFloat16;  // bfloat16 has the same tolerance
  return out;
}

// Whether two draws may differ so: in sizes that neither the model nor its inputs tell, as the length of what a model of speech says.
bool CaseComparer::differ_by_chance(std::size_t output, const Value& wanted, const Value& other) const {
  if (!wanted.is_tensor() || !other.is_tensor() || wanted.tensor().dtype() != other.tensor().dtype()) return false;
  const Shape &a = wanted.tensor().dims(), &b = other.tensor().dims();
  if (a.size() != b.size()) return false;
  const auto& told = run_.original.graph.outputs[output].type.shape;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || !told || i >= told->size()) continue;
    const auto* name = std::get_if<std::string>(&(*told)[i]);
    if (std::holds_alternative<std::int64_t>((*told)[i]) || (name && names_of_inputs_.contains(*name))) return false;
  }
  return true;
}

OutputComparison CaseComparer::compared_output(const CaseRun& one, const How& how, std::size_t output) const {
  const std::string& name = run_.original.graph.outputs[output].name;
  const Value &wanted = one.wanted[output], &other = of_same_name(one.got, name);
  const bool of_specials = one.kind == CaseKind::kSpecial && floats_given_ && has_no_floats(wanted);  // ArgMax of NaN is anything
  if (random_.contains(name) || of_specials) {
    OutputComparison result = compare_kinds(name, wanted, other);
    result.random = random_.contains(name);
    if (!result.ok && result.random && differ_by_chance(output, wanted, other)) result.ok = true, result.why.clear();
    return result;
  }
  Tolerances tolerances = tolerances_of(name);
  tolerances.only_finite = how.only_finite || one.kind == CaseKind::kSpecial;
  const StepRule steps = step_rule(name);
  return compare_values(name, wanted, other, tolerances, how.noise ? &(*how.noise)[output] : nullptr, how.in_steps ? &steps : nullptr);
}

VerifyCase CaseComparer::compared(const CaseRun& one, const How& how) const {
  VerifyCase result;
  result.sizes = one.sizes;
  result.kind = one.kind;
  for (std::size_t i = 0; i < one.wanted.size(); ++i) result.outputs.push_back(compared_output(one, how, i));
  return result;
}

}  // namespace saturate
