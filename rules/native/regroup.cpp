#include "rules/native/regroup.h"

#include <algorithm>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/views.h"

namespace saturate::native {

std::optional<Regrouped> Regrouped::at(const Axes& axes, Ranks ranks) {
  Regrouped out;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto special = axes.free[i] ? std::nullopt : std::optional(i);
    out.runs_.push_back({i, i + 1, special, special});
  }
  const auto low = static_cast<std::size_t>(ranks.low), high = static_cast<std::size_t>(ranks.high);
  while (out.runs_.size() > high)
    if (!out.join_one(axes, true) && !out.join_one(axes, false)) return std::nullopt;
  out.lead_ = out.runs_.size() < low ? low - out.runs_.size() : 0;
  return out;
}

bool Regrouped::may_join(const Axes& axes, std::size_t run, bool free_alone) const {
  const auto &a = runs_[run].last, &b = runs_[run + 1].first;
  if (!a || !b) return true;
  return !free_alone && axes.alike(*a, *b);
}

bool Regrouped::join_one(const Axes& axes, bool free_alone) {
  for (std::size_t i = 0; i + 1 < runs_.size(); ++i) {
    if (!may_join(axes, i, free_alone)) continue;
    Run &a = runs_[i], b = runs_[i + 1];
    a.end = b.end;
    if (!a.first) a.first = b.first;
    if (b.last) a.last = b.last;
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return true;
  }
  return false;
}

std::size_t Regrouped::place(std::size_t axis) const {
  const auto run = std::find_if(runs_.begin(), runs_.end(), [&](const Run& r) { return axis < r.end; });
  return lead_ + static_cast<std::size_t>(run - runs_.begin());
}

Dims Regrouped::dims(DimTable& table, const Dims& whole) const {
  Dims out(lead_, table.constant(1));
  for (const Run& run : runs_) out.push_back(table.product(std::span(whole).subspan(run.begin, run.end - run.begin)));
  return out;
}

std::vector<std::int64_t> Regrouped::list(const std::vector<std::int64_t>& whole, std::int64_t neutral) const {
  std::vector<std::int64_t> out(rank(), neutral);
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (whole[i] != neutral) out[place(i)] = whole[i];
  return out;
}

bool Operation::has(std::size_t input) const { return input < inputs.size() && v.g.facts(inputs[input]).kind != Facts::Kind::kAbsent; }

bool Operation::is_at_refused_rank() const {
  const auto refused = [this](const Facts& f) {
    return f.kind == Facts::Kind::kTensor && !f.constant && !f.content && f.shape && !ranks.takes(f.rank());
  };
  const Facts& made = v.g.facts(result);
  return std::any_of(inputs.begin(), inputs.end(), [&](Id id) { return refused(v.g.facts(id)); }) || refused(made) ||
         std::any_of(made.elements.begin(), made.elements.end(), refused);
}

std::int64_t Operation::number(std::string_view name, std::int64_t absent) const { return int_attribute(key, name, absent); }

std::optional<std::size_t> Operation::axis(std::string_view name, std::int64_t absent, std::size_t rank) const {
  return from_front(number(name, absent), rank);
}

std::optional<std::vector<std::size_t>> Operation::axes_in(std::size_t input, std::size_t rank) const {
  return v.axes(inputs[input], rank);
}

Id with_dims(const Views& v, Id x, const Dims& dims) {
  const Dims* own = v.shape(x);
  return own && v.equal(*own, dims) ? x : v.reshape(x, dims, 0);
}

Id operand_with_dims(const Operation& op, Id x, Dims dims, std::size_t least) {
  const Dims own = *op.v.shape(x);
  const bool carried = !op.v.g.facts(x).constant;
  const std::size_t fewest = std::max({own.size(), least, carried ? static_cast<std::size_t>(op.ranks.low) : 0});
  while (dims.size() > fewest && op.is_one(dims.front())) dims.erase(dims.begin());
  return with_dims(op.v, x, dims);
}

Axes axes_of(const Operation& op, const Dims& dims, const std::function<bool(std::size_t)>& touched,
             std::function<bool(std::size_t, std::size_t)> alike) {
  Axes out;
  for (std::size_t i = 0; i < dims.size(); ++i) out.free.push_back(op.is_one(dims[i]) && !touched(i));
  out.alike = std::move(alike);
  return out;
}

std::optional<Regrouped> regrouped_operands(const Operation& op, const Dims& whole, std::span<const Dims> operands, std::size_t joinable) {
  const auto alike = [&](std::size_t i, std::size_t j) {
    const auto both_or_none = [&](const Dims& d) {
      return (op.is_one(d[i]) && op.is_one(d[j])) || (op.v.equal(d[i], whole[i]) && op.v.equal(d[j], whole[j]));
    };
    return j < joinable &&
           op.v.guard("operands broadcast along both axes or none", std::all_of(operands.begin(), operands.end(), both_or_none));
  };
  const auto touched = [joinable](std::size_t i) { return i >= joinable; };
  return Regrouped::at(axes_of(op, whole, touched, alike), op.ranks);
}

void unite(const Operation& op, Id made, Unions& unions) {
  const Dims* to = op.v.shape(op.result);
  if (to) unions.emplace_back(op.result, with_dims(op.v, made, Dims(*to)));
}

OpKey with_attribute(OpKey key, Attribute a) {
  std::erase_if(key.attributes, [&](const Attribute& other) { return other.name == a.name; });
  key.attributes.push_back(std::move(a));
  OpKey out = make_key(key.domain, key.op_type, std::move(key.attributes), key.outputs, std::nullopt);
  out.overload = key.overload;
  return out;
}

Dims padded(DimTable& table, const Dims& dims, std::size_t rank) {
  Dims out(rank - std::min(rank, dims.size()), table.constant(1));
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

Dims with_places(const Views& v, const Dims& dims, std::size_t more) {
  Dims out = dims;
  out.insert(out.begin() + kPlaces, more, v.g.dims().constant(1));
  return out;
}

OpKey with_places(OpKey key, std::size_t more) {
  for (const auto& [name, neutral] : {std::pair<const char*, std::int64_t>{"kernel_shape", 1},
                                      {"strides", 1},
                                      {"dilations", 1},
                                      {"pads", 0},
                                      {"output_padding", 0},
                                      {"output_shape", 1}}) {
    const Attribute* given = find_attribute(key.attributes, name);
    if (given == nullptr || given->ints().empty()) continue;
    std::vector<std::int64_t> list = given->ints();
    if (std::string_view(name) == "pads") list.insert(list.begin() + std::ssize(list) / 2, more, neutral);
    list.insert(list.begin(), more, neutral);
    key = with_attribute(std::move(key), Attribute::of(name, std::move(list)));
  }
  return key;
}

std::optional<Taken> elementwise_of_fixed_arity(const OperatorTraits& t) {
  constexpr std::pair<Trait, std::size_t> kArities[] = {
      {Trait::kUnaryElementwise, 1}, {Trait::kBinaryElementwise, 2}, {Trait::kTernaryElementwise, 3}};
  for (const auto& [trait, operands] : kArities)
    if (t.has(trait)) return Taken{t.op_type(), operands, operands, 1, t.domain()};
  return std::nullopt;
}

std::vector<Pattern> patterns_of(OnnxEGraph& g, const std::vector<Taken>& taken) {
  std::vector<Pattern> out;
  for (const Taken& t : taken)
    for (std::size_t inputs = t.fewest; inputs <= t.most; ++inputs) out.push_back(over(g, t.op, inputs, t.domain, t.outputs));
  return out;
}

Operation operation_of(const Views& v, const Match& m) {
  const ENode found = v.g.egraph().node(m.matched.back());
  return {v, v.g.key(found.op), {found.children.begin(), found.children.end()}, m.root(), Ranks{}};
}

ViewRule regrouping(std::string name, std::string doc, Effect effect, std::vector<Taken> taken, MakeRegrouped make) {
  ViewRule rule{std::move(name), std::move(doc), effect, nullptr, nullptr};
  rule.patterns = [taken = std::move(taken)](OnnxEGraph& g) { return patterns_of(g, taken); };
  rule.apply = [make](const Views& v, const Match& m, Unions& unions) {
    if (!v.refused(m)) return;
    Operation op = operation_of(v, m);
    op.ranks = v.ranks(op.key);
    if (useful(op.is_at_refused_rank())) make(op, unions);
  };
  rule.if_refused = true;
  rule.phase = kRankPhase;
  return rule;
}

}  // namespace saturate::native
