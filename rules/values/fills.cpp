#include "rules/values/fills.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "egraph/once.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_questions.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/terms/literals.h"
#include "rules/values/answers.h"
#include "rules/values/known_by_depth.h"
#include "rules/values/masks.h"

namespace saturate {
namespace {

constexpr std::size_t kMostSearched = 256;
constexpr std::size_t kMostVisits = 1024;
constexpr int kDeepestFill = 24;
// A fill that is smaller by as much lies above lowest_fill(), as scores go.
constexpr double kAsDeep = 0.9;

// How much lower a number may be for its rounding.
double rounded(DType dtype, double bound) { return bound * (dtype == DType::kFloat ? 1 + 0x1p-20 : 1.001); }

// What takes elements of its first input, and zeros (Trilu).
bool is_fill_view(const OpKey& key) { return has(Trait::kMovement, key) || (key.domain.empty() && key.op_type == "Trilu"); }

bool is_sum(std::string_view op) { return op == "Add" || op == "Sub"; }

// Operators whose results are finite for finite inputs, and hold no fill.
bool is_computed(const OpKey& key) {
  if (has(Trait::kBilinear, key) && !has(Trait::kElementwise, key)) return true;
  return one_of(key.op_type,
                {"Tanh", "Sigmoid", "Softmax", "Relu", "Gelu", "Erf", "LayerNormalization", "ReduceMean", "RMSNormalization", "Softplus",
                 "HardSigmoid", "Sin", "Cos", "InstanceNormalization", "GroupNormalization", "sdpa", "repeat_heads"});
}

using MaybeFills = std::optional<Fills>;

// A choice of one part.
MaybeFills either(const MaybeFills& a, const MaybeFills& b) {
  if (!a || !b) return std::nullopt;
  return Fills{std::max(a->largest, b->largest), std::max(a->sum, b->sum), a->infinite || b->infinite};
}

MaybeFills sum_of(const MaybeFills& a, const MaybeFills& b) {
  if (!a || !b) return std::nullopt;
  return Fills{std::max(a->largest, b->largest), a->sum + b->sum, a->infinite || b->infinite};
}

MaybeFills product_of(const MaybeFills& a, const MaybeFills& b) {
  if (!a || !b) return std::nullopt;
  return Fills{std::max({a->largest, b->largest, a->largest * b->largest}), a->sum * b->sum, a->infinite || b->infinite};
}

class FillSearch {
 public:
  explicit FillSearch(Look& look) : look_(look), g_(look.graph()) {}

  MaybeFills of(Id id, int depth = kDeepestFill) {
    id = g_.egraph().find(id);
    if (const auto it = known_.find(id); it != known_.end()) return it->second;
    if (depth == 0 || known_.size() == kMostSearched || visits_ == kMostVisits) return std::nullopt;
    // Classes read each other through views that undo each other: what is not found on such a way may be found on another.
    if (!open_.insert(id).second) {
      cut_ = true;
      return std::nullopt;
    }
    ++visits_;
    const bool cut_before = std::exchange(cut_, false);
    const MaybeFills found = look_at(id, depth - 1);
    open_.erase(id);
    if (found || !cut_) known_[id] = found;
    cut_ = cut_before || (cut_ && !found);
    return found;
  }

 private:
  MaybeFills look_at(Id id, int depth) {
    const Facts& f = look_.facts(id);
    if (f.kind != Facts::Kind::kTensor) return std::nullopt;
    if (f.constant)
      return Answers<Tensor, Fills>::of(g_, id, [&](Look& look) -> MaybeFills {
        look.facts(id);
        const auto value = g_.value(id, kMostMaskBytes);
        return value ? MaybeFills(fills_of_tensor(*value)) : std::nullopt;
      });
    if (f.dtype == DType::kBool) return Fills{1, 1, false};
    for (NodeId n : look_.nodes(id))
      if (const MaybeFills found = of_node(g_.egraph().node(n), depth)) return found;
    return is_integer(f.dtype) ? MaybeFills(Fills{1, 1, false}) : std::nullopt;
  }

  MaybeFills of_node(const ENode& node, int depth) {
    const OpKey& key = g_.key(node.op);
    const std::string_view op = key.op_type;
    if (op == kProjOp) return of_split(node.children[0], depth);
    if (key.domain == "#" || node.children.empty()) return std::nullopt;
    if (key.domain.empty() && op == "ConstantOfShape") {
      const Attribute* value = find_attribute(key.attributes, "value");
      return value ? fills_of_tensor(value->t()) : Fills{};
    }
    if (is_computed(key)) return Fills{1, 1, false};
    if (!key.domain.empty()) return std::nullopt;
    const auto child = [&](std::size_t i) { return of(node.children[i], depth); };
    if (is_fill_view(key) || op == "Cast" || has(Trait::kKeepsMagnitude, key)) return child(0);
    if (op == "Where") return is_halved(node) ? MaybeFills(Fills{0, std::numeric_limits<double>::max(), true}) : either(child(1), child(2));
    if (op == "Pad") return node.children.size() > 2 && !is_absent(node.children[2]) ? either(child(0), child(2)) : child(0);
    if (op == "Add") return sum_of(child(0), child(1));
    if (op == "Sub") return is_complement(node) ? complement(node.children[1], depth) : sum_of(child(0), child(1));
    if (op == "Mul") return product_of(child(0), child(1));
    if (op == "Div") return quotient(node, depth);
    if (!has(Trait::kSelection, key)) return std::nullopt;
    MaybeFills out = Fills{};
    for (std::size_t i = 0; i < node.children.size() && out; ++i) out = either(out, child(i));
    return !out && op == "Max" && is_bounded(node) ? MaybeFills(Fills{0, std::numeric_limits<double>::max(), true}) : out;
  }

  std::optional<double> number(Id id) {
    look_.facts(id);
    return number_of(g_, id);
  }

  bool is_absent(Id id) { return look_.facts(id).kind == Facts::Kind::kAbsent; }

  MaybeFills of_split(Id tuple, int depth) {
    for (NodeId n : look_.nodes(tuple)) {
      const ENode split = g_.egraph().node(n);
      const OpKey& key = g_.key(split.op);
      if (key.domain.empty() && key.op_type == "Split") return of(split.children[0], depth);
    }
    return std::nullopt;
  }

  // What FillRaiser makes of a value of which nothing is known: Where(Less(x, lowest), x / 2 + lowest / 2, x).
  bool is_halved(const ENode& choice) {
    const EGraph& e = g_.egraph();
    const Id kept = e.find(choice.children[2]);
    const double low = lowest_fill(g_.facts(kept).dtype);
    for (NodeId n : look_.nodes(choice.children[0])) {
      const ENode less = e.node(n);
      const OpKey& key = g_.key(less.op);
      if (!key.domain.empty() || key.op_type != "Less" || e.find(less.children[0]) != kept) continue;
      const auto bound = number(less.children[1]);
      if (bound && std::abs(*bound / low - 1) < 1e-2) return true;
    }
    return false;
  }

  MaybeFills quotient(const ENode& node, int depth) {
    const Facts& f = look_.facts(node.children[1]);
    const auto divisor = f.constant ? g_.value(node.children[1], kMostMaskBytes) : std::nullopt;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; divisor && i < divisor->size(); ++i)
      least = std::min(least, std::abs(element_as_double(*divisor, i).value_or(0)));
    const MaybeFills whole = divisor && least > 0 ? of(node.children[0], depth) : std::nullopt;
    if (!whole) return std::nullopt;
    return Fills{whole->largest / least, whole->sum / least, whole->infinite};
  }

  // ... or Max(x, lowest).
  bool is_bounded(const ENode& node) {
    return std::any_of(node.children.begin(), node.children.end(), [&](Id id) {
      const auto bound = number(id);
      return bound && *bound >= rounded(g_.facts(id).dtype, lowest_result(g_.facts(id).dtype));
    });
  }

  // 1 - m.
  bool is_complement(const ENode& node) { return number(node.children[0]) == 1; }

  // A mask that a model is given as floats goes from 0 to 1 by its interface, but nothing proves it.
  MaybeFills complement(Id mask, int depth) {
    const MaybeFills inner = of(mask, depth);
    if (!inner) return Fills{1, 1, true};
    return Fills{std::max(inner->largest, 1.0), inner->sum <= 1 ? 1.0 : inner->sum + 1, inner->infinite};
  }

  Look& look_;
  const OnnxEGraph& g_;
  absl::flat_hash_map<Id, MaybeFills> known_;
  absl::flat_hash_set<Id> open_;  // those that are being looked at
  bool cut_ = false;              // one of them was met again
  std::size_t visits_ = 0;
};

Id fill_node(OnnxEGraph& g, std::string_view op, std::vector<Id> children) {
  return g.add(make_key("", op, {}, 1, std::nullopt), children);
}

// The magnitude of a dtype's lowest number.
double lowest_of(DType dtype) {
  if (dtype == DType::kFloat16) return 65504;
  if (dtype == DType::kBfloat16) return 0x1.fep127;
  return dtype == DType::kDouble ? std::numeric_limits<double>::max() : static_cast<double>(std::numeric_limits<float>::max());
}

Id fill_number(OnnxEGraph& g, DType dtype, double number) {
  const auto t = tensor_of_reals(dtype, {}, std::array{number});
  return g.constant(*t);
}

class FillRaiser {
 public:
  FillRaiser(OnnxEGraph& g, DType dtype, UnknownFills unknown, double lowest) : g_(g), dtype_(dtype), unknown_(unknown), lowest_(lowest) {}

  // nullopt: there is a part of which nothing is known, and such are refused; or fills that differ would become one.
  std::optional<Id> of(Id id) {
    std::optional<Id> raised = part(id, kDeepestFill);
    if (!raised && unknown_ != UnknownFills::kRefused) {
      bounds_ = true;
      open_.clear();
      raised = part(id, kDeepestFill);
    }
    return least_ < deepest_ ? std::nullopt : raised;
  }

 private:
  // The value by the first of its nodes of which all parts can be raised. Parts of which nothing is known stand in the way, or are bounded
  // in the end; as does a class that is being looked at, which is met again through views that undo each other.
  std::optional<Id> part(Id id, int depth) {
    id = g_.egraph().find(id);
    if (const auto it = known_.find(id); it != known_.end()) return it->second;
    if (g_.facts(id).dtype != dtype_) return known_[id] = id;
    if (const MaybeFills held = fills_of(g_, id); held && held->largest <= -rounded(dtype_, lowest_)) {
      if (held->largest > as_deep()) meets(-lowest_);
      return known_[id] = id;
    }
    std::optional<Id> raised;
    if (g_.facts(id).constant) {
      raised = constant(id);
    } else if (depth > 0 && visits_ < kMostVisits && open_.insert(id).second) {
      ++visits_;
      const std::vector<NodeId> nodes = g_.egraph().class_nodes(id);
      for (std::size_t i = 0; i < nodes.size() && !raised; ++i)
        if (raised = node(nodes[i], depth - 1); raised && g_.egraph().find(*raised) == id) raised.reset();
      open_.erase(id);
    } else if (open_.contains(id)) {
      return std::nullopt;
    }
    if (!raised && bounds_) raised = bounded(id);
    if (raised) known_[id] = *raised;
    return raised;
  }

  // Scores bridge no gap above it, nor one between lowest_result() and the next number.
  double as_deep() const { return -lowest_ * (lowest_ == lowest_fill(dtype_) ? kAsDeep : 1); }

  // A fill that becomes the lowest, or is it.
  void meets(double magnitude) {
    least_ = std::min(least_, magnitude);
    deepest_ = std::max(deepest_, magnitude);
  }

  double raised_number(double x) {
    if (!std::isfinite(x)) return x;
    if (std::abs(x) > as_deep()) meets(std::max(std::abs(x), -lowest_));
    return std::clamp(x, lowest_, -lowest_);
  }

  std::optional<Id> constant(Id id) {
    const auto value = g_.value(id, kMostMaskBytes);
    if (!value) return std::nullopt;
    std::vector<double> numbers(static_cast<std::size_t>(value->size()));
    for (std::int64_t i = 0; i < value->size(); ++i)
      numbers[static_cast<std::size_t>(i)] = raised_number(element_as_double(*value, i).value_or(0));
    const auto made = tensor_of_reals(dtype_, value->dims(), numbers);
    return made.ok() ? std::optional(g_.constant(*made)) : std::nullopt;
  }

  std::optional<Id> node(NodeId n, int depth) {
    const OpKey key = g_.key(g_.egraph().node(n).op);
    const auto span = g_.egraph().node(n).children;
    std::vector<Id> children(span.begin(), span.end());
    const std::string_view op = key.op_type;
    if (!key.domain.empty() || children.empty()) return std::nullopt;
    if (is_fill_view(key)) {
      if (!raise(children[0], depth)) return std::nullopt;
    } else if (has(Trait::kSelection, key) || op == "Add") {
      for (std::size_t i = op == "Where" ? 1 : 0; i < children.size(); ++i)
        if (!raise(children[i], depth)) return std::nullopt;
    } else if (op == "Mul") {
      if (!factor(children, depth)) return std::nullopt;
    } else if (op == "Pad") {  // by 0, if no number is given
      const bool filled = children.size() > 2 && g_.facts(children[2]).kind == Facts::Kind::kTensor;
      if (!raise(children[0], depth) || (filled && !raise(children[2], depth))) return std::nullopt;
    } else if (op == "ConstantOfShape") {
      return filled(key, children[0]);
    } else {
      return std::nullopt;
    }
    return g_.add(key, children);
  }

  bool raise(Id& child, int depth) {
    const auto raised = part(child, depth);
    if (raised) child = *raised;
    return raised.has_value();
  }

  // A formula times a lower number than runtimes want: times one that they take. The order of what is hidden stays, and so do gaps that no
  // score bridges.
  bool factor(std::vector<Id>& children, int depth) {
    for (std::size_t side : {0u, 1u}) {
      const MaybeFills rest = fills_of(g_, children[1 - side]);
      if (!rest || rest->largest > kNearZero) continue;
      const Id before = g_.egraph().find(children[side]);
      if (raise(children[side], depth) && children[side] != before) return true;
    }
    return false;
  }

  std::optional<Id> filled(OpKey key, Id shape) {
    for (Attribute& a : key.attributes)
      if (a.name == "value") {
        const auto made = tensor_of_reals(dtype_, a.t().dims(), std::array{raised_number(element_as_double(a.t(), 0).value_or(0))});
        if (!made.ok()) return std::nullopt;
        a = Attribute::of("value", *made);
        return g_.add(key, std::array{shape});
      }
    return std::nullopt;
  }

  // A mask that the model is given most likely holds the lowest float.
  Id bounded(Id id) {
    meets(lowest_of(dtype_) * (unknown_ == UnknownFills::kHalved ? 0.5 : 1));
    if (unknown_ == UnknownFills::kBounded) return fill_node(g_, "Max", {id, fill_number(g_, dtype_, lowest_)});
    const Id low = fill_node(g_, "Less", {id, fill_number(g_, dtype_, lowest_fill(dtype_))});
    const Id half = fill_node(g_, "Mul", {id, fill_number(g_, dtype_, 0.5)});
    const Id raised = fill_node(g_, "Add", {half, fill_number(g_, dtype_, lowest_fill(dtype_) / 2)});
    return fill_node(g_, "Where", {low, raised, id});
  }

  OnnxEGraph& g_;
  DType dtype_;
  UnknownFills unknown_;
  double lowest_;
  double least_ = std::numeric_limits<double>::infinity(), deepest_ = 0;  // magnitudes of the fills that become the lowest
  bool bounds_ = false;                                                   // parts of which nothing is known
  absl::flat_hash_map<Id, Id> known_;
  absl::flat_hash_set<Id> open_;
  std::size_t visits_ = 0;
};

bool is_scalar_constant(const OnnxEGraph& g, Id id) {
  const Facts& f = g.facts(id);
  if (!f.constant || !f.shape) return false;
  return std::all_of(f.shape->begin(), f.shape->end(), [&](Dim d) { return g.dims().value(d) == 1; });
}

// The input of an operator that Softmax sees as scores, or as a mask beside them.
bool reads_scores(const OpKey& key, std::size_t input) {
  const std::string_view op = key.op_type;
  if (key.domain.empty() && (op == "Softmax" || op == "LogSoftmax")) return input == 0;
  if (key.domain == "saturate") return op == "sdpa" && input == 3;
  const OpSchema* schema = newest_schema(key.domain, op);
  return schema && input < schema->inputs.size() &&
         one_of(schema->inputs[input].name, {"attn_mask", "attention_bias", "key_padding_mask", "mask_index"});
}

// What hands scores or a mask of theirs on.
bool hands_scores_on(const OnnxEGraph& g, const OpKey& key, const ENode& node, std::size_t input) {
  const std::string_view op = key.op_type;
  if (!key.domain.empty()) return false;
  if (is_fill_view(key)) return input == 0;
  if (op == "Where") return input > 0;
  if (op == "Mul" || op == "Div") return node.children.size() == 2 && is_scalar_constant(g, node.children[1 - input]);
  return has(Trait::kSelection, key) || is_sum(op) || op == "Neg" || op == "Cast";
}

class CountSearch {
 public:
  explicit CountSearch(Look& look) : look_(look), g_(look.graph()) {}

  bool of(Id id, int depth) {
    return known_.of(g_.egraph().find(id), depth, [&] { return looked_at(id, depth); });
  }

 private:
  bool looked_at(Id id, int depth) {
    const Facts& f = look_.facts(id);
    if (f.kind != Facts::Kind::kTensor || !is_integer(f.dtype)) return false;
    if (f.content || f.counts_from) return !f.constant || of_constant(id);
    if (f.constant) return of_constant(id);
    if (depth == 0) return false;
    for (NodeId n : look_.nodes(id))
      if (of_node(g_.egraph().node(n), depth - 1)) return true;
    return false;
  }

  bool of_constant(Id id) const {
    const auto value = g_.value(id, kMostMaskBytes);
    if (!value) return false;
    for (std::int64_t i = 0; i < value->size(); ++i)
      if (const auto x = element_as_double(*value, i); !x || std::abs(*x) > kMostCounted) return false;
    return true;
  }

  bool of_node(const ENode& node, int depth) {
    const OpKey& key = g_.key(node.op);
    const std::string_view op = key.op_type;
    if (!key.domain.empty() || node.children.empty()) return false;
    if (gives_places(key)) return true;
    if (op == "Cast" && look_.facts(node.children[0]).dtype == DType::kBool) return true;
    if (is_fill_view(key) || op == "Cast") return of(node.children[0], depth);
    const std::size_t first = op == "Where" ? 1 : 0;
    if (!has(Trait::kSelection, key) && !is_sum(op) && op != "Range") return false;
    return std::all_of(node.children.begin() + static_cast<std::ptrdiff_t>(first), node.children.end(),
                       [&](Id child) { return of(child, depth); });
  }

  Look& look_;
  const OnnxEGraph& g_;
  KnownByDepth known_;
};

// Most graphs hold no IsNaN at all: operators are looked at once, as they come.
struct NanTests {
  std::mutex mutex;
  std::size_t seen = 0;  // operators
  bool any = false;
};

bool holds_nan_tests(const OnnxEGraph& g) {
  auto& note = g.notes<NanTests>();
  const std::lock_guard lock(note.mutex);
  for (; note.seen < g.egraph().num_ops(); ++note.seen) note.any = note.any || g.key(static_cast<OpId>(note.seen)).op_type == "IsNaN";
  return note.any;
}

// What the model holds is there before the first rule asks, and stays.
struct HeldAttention {
  Once asked;
  bool standard = false;  // ONNX's, with a mask
  bool any = false;       // of any domain
};

void look_for_attention(const OnnxEGraph& g, HeldAttention& held) {
  const EGraph& e = g.egraph();
  for (const Id id : e.classes())
    for (const NodeId n : e.class_nodes(id)) {
      if (e.made_by(n) != kNone) continue;
      const ENode node = e.node(n);
      const OpKey& key = g.key(node.op);
      if (key.op_type.ends_with("Attention")) held.any = true;
      if (key.domain.empty() && key.op_type == "Attention" && node.children.size() > 3) held.standard = true;
    }
}

const HeldAttention& held_attention(const OnnxEGraph& g) {
  auto& note = g.notes<HeldAttention>();
  note.asked.call([&] { look_for_attention(g, note); });
  return note;
}

}  // namespace

bool is_above_lowest(const OnnxEGraph& g, Id id) { return is_above_lowest(fills_of(g, id), g.facts(id).dtype); }

bool is_above_lowest(const std::optional<Fills>& fills, DType dtype) {
  return fills && fills->largest <= -rounded(dtype, lowest_result(dtype));
}

double lowest_fill(DType dtype) { return dtype == DType::kFloat16 ? -6e4 : -1e30; }

double lowest_result(DType dtype) {
  return dtype == DType::kFloat ? std::numeric_limits<float>::lowest() * (1 - 0x1p-16) : lowest_fill(dtype);
}

Fills fills_of_tensor(const Tensor& t) {
  Fills out;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const auto x = element_as_double(t, i);
    if (!x || !std::isfinite(*x))
      out.infinite = true;
    else
      out.largest = std::max(out.largest, std::abs(*x));
  }
  out.sum = out.largest;
  return out;
}

std::optional<Fills> fills_of(const OnnxEGraph& g, Id id) {
  return Answers<FillSearch, Fills>::of(g, id, [id](Look& look) { return FillSearch(look).of(id); });
}

std::optional<Id> with_raised_fills(OnnxEGraph& g, Id id, UnknownFills unknown) {
  const DType dtype = g.facts(id).dtype;
  const auto raised = FillRaiser(g, dtype, unknown, lowest_fill(dtype)).of(id);
  return raised || lowest_result(dtype) == lowest_fill(dtype) ? raised : FillRaiser(g, dtype, unknown, lowest_result(dtype)).of(id);
}

bool reaches_scores(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  std::vector<Id> seen{e.find(id)};
  for (std::size_t i = 0; i < seen.size() && seen.size() < kMostSearched; ++i)
    for (const NodeId user : e.class_users(seen[i])) {
      const ENode node = e.node(user);
      const OpKey& key = g.key(node.op);
      for (std::size_t input = 0; input < node.children.size(); ++input) {
        if (e.find(node.children[input]) != seen[i]) continue;
        if (reads_scores(key, input)) return true;
        if (!hands_scores_on(g, key, node, input)) continue;
        const Id made = e.find(e.class_of(user));
        if (std::find(seen.begin(), seen.end(), made) == seen.end()) seen.push_back(made);
      }
    }
  return false;
}

bool hides_by_numbers(const std::optional<Fills>& fills, DType dtype) {
  const double most = dtype == DType::kDouble    ? std::numeric_limits<double>::max()
                      : dtype == DType::kFloat16 ? -lowest_fill(dtype)
                                                 : static_cast<double>(std::numeric_limits<float>::max());
  return is_floating(dtype) && fills && !fills->infinite && fills->sum <= most;
}

bool hides_by_numbers(const OnnxEGraph& g, Id id) { return hides_by_numbers(fills_of(g, id), g.facts(id).dtype); }

namespace {

// Answers to told_as_nan, of one state of the e-graph.
struct ToldAsNan {
  std::mutex mutex;
  std::uint64_t version = 0;
  absl::flat_hash_map<Id, bool> known;
};

bool is_read_by_nan_test(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  std::vector<Id> to_look_at{e.find(id)};
  absl::flat_hash_set<Id> seen(to_look_at.begin(), to_look_at.end());
  for (std::size_t i = 0; i < to_look_at.size() && to_look_at.size() < kMostSearched; ++i)
    for (const NodeId user : e.class_users(to_look_at[i])) {
      const std::string_view op = g.key(e.node(user).op).op_type;
      if (op == "IsNaN") return true;
      if (op == "Softmax") continue;
      if (const Id made = e.find(e.class_of(user)); seen.insert(made).second) to_look_at.push_back(made);
    }
  return false;
}

}  // namespace

bool told_as_nan(const OnnxEGraph& g, Id id) {
  if (!holds_nan_tests(g)) return false;
  id = g.egraph().find(id);
  auto& note = g.notes<ToldAsNan>();
  const std::lock_guard lock(note.mutex);
  if (note.version != g.egraph().version()) note.known.clear();
  note.version = g.egraph().version();
  const auto [it, is_new] = note.known.try_emplace(id, false);
  if (is_new) it->second = is_read_by_nan_test(g, id);
  return it->second;
}

bool holds_attention(const OnnxEGraph& g) { return held_attention(g).standard; }

bool attention_is_made(const OnnxEGraph& g) { return !held_attention(g).any; }

bool is_count(const OnnxEGraph& g, Id id) {
  return Answers<CountSearch, Proven>::of(g, id, [id](Look& look) { return proven_if(CountSearch(look).of(id, kDeepestFill)); })
      .has_value();
}

}  // namespace saturate
