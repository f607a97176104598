#include "onnx_bridge/convert/onnx_egraph.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "onnx_bridge/convert/signs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

constexpr std::size_t kEagerFoldBytes = 512;  // small constant expressions are evaluated at once, so that equal numbers are one class
constexpr std::size_t kMaxContent = 64;
constexpr int kMaxFoldDepth = 500;
constexpr std::size_t kMostSpread = 1 << 20;  // classes from which what was learnt spreads: a bound against facts that never settle

// The text of a key: in place, as most are short.
class KeyText {
 public:
  [[gnu::always_inline]] void append(const void* data, std::size_t size) {
    if (size == 0) return;  // nothing lies at null
    if (size > kShort - size_) return append_long(data, size);
    std::memcpy(short_ + size_, data, size);
    size_ += size;
  }
  absl::string_view view() const { return long_.empty() ? absl::string_view(short_, size_) : absl::string_view(long_); }

 private:
  void append_long(const void* data, std::size_t size) {
    if (long_.empty()) long_.assign(short_, size_);
    size_ = kShort;  // no room for what follows
    long_.append(static_cast<const char*>(data), size);
  }

  static constexpr std::size_t kShort = 512;
  char short_[kShort];
  std::size_t size_ = 0;
  std::string long_;
};

template <typename T>
void append_value(KeyText& out, const T& value) {
  out.append(&value, sizeof value);
}
void append_text(KeyText& out, std::string_view text) {
  append_value(out, text.size());
  out.append(text.data(), text.size());
}

// A text equal for two attributes exactly when the attributes are equal. Tensors go by their bits, graphs by identity.
void append_attribute(KeyText& out, const Attribute& a) {
  append_text(out, a.name);
  append_value(out, a.type);
  append_value(out, a.value.index());
  std::visit(
      [&out, &a](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          append_value(out, a.raw.get());
        else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::int64_t>)
          append_value(out, v);
        else if constexpr (std::is_same_v<T, std::string>)
          append_text(out, v);
        else if constexpr (std::is_same_v<T, std::vector<float>> || std::is_same_v<T, std::vector<std::int64_t>>) {
          append_value(out, v.size());
          out.append(v.data(), v.size() * sizeof v[0]);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          append_value(out, v.size());
          for (const auto& s : v) append_text(out, s);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Graph>>)
          append_value(out, v.get());
        else if constexpr (std::is_same_v<T, Tensor>) {
          append_value(out, v.dtype());
          append_value(out, v.dims().size());
          out.append(v.dims().data(), v.dims().size() * sizeof(std::int64_t));
          out.append(v.bytes().data(), v.bytes().size());
          for (const auto& s : v.string_data()) append_text(out, s);
        } else
          append_value(out, &v);  // lists of tensors or graphs: by identity
      },
      a.value);
}

KeyText serialize(const OpKey& key) {
  KeyText out;
  append_text(out, key.domain);
  append_text(out, key.op_type);
  append_text(out, key.overload);
  append_value(out, key.outputs);
  append_value(out, key.version);
  append_value(out, key.unique);
  append_value(out, key.role);
  for (const Attribute& a : key.attributes) append_attribute(out, a);
  return out;
}

// Dtype, dims and a sample of the bytes: enough to find candidates without reading gigabytes.
std::size_t sample_hash(const Tensor& t) {
  std::size_t h = absl::HashOf(static_cast<int>(t.dtype()), t.dims(), t.bytes().size());
  for (const auto& s : t.string_data()) h = absl::HashOf(h, s);
  const auto bytes = t.bytes();
  constexpr std::size_t kPiece = 64, kPieces = 64;
  if (bytes.size() <= kPiece * kPieces)
    return absl::HashOf(h, absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const std::size_t step = bytes.size() / kPieces;
  for (std::size_t i = 0; i < kPieces; ++i)
    h = absl::HashOf(h,
                     absl::string_view(reinterpret_cast<const char*>(bytes.data()) + i * step, std::min(kPiece, bytes.size() - i * step)));
  release_pages(t);  // the kernel maps whole neighbourhoods of what was touched
  return h;
}

bool fits(const Facts& facts, std::size_t max_bytes, const DimTable& dims) {
  const auto bytes = known_bytes(facts, dims);
  return bytes && *bytes <= max_bytes && facts.dtype != DType::kString;
}

constexpr std::size_t kLargeValue = std::size_t{1} << 20;

}  // namespace

// Values that were computed, by canonical id at that time: small ones that were asked for, and the latest large ones, so that of a product
// of products each is made once.
class KeptValues {
 public:
  const Tensor* small(Id id) const {
    const auto it = small_.find(id);
    return it == small_.end() ? nullptr : &it->second;
  }
  const Tensor* large(Id id) const {
    const auto it = std::find_if(large_.begin(), large_.end(), [&](const auto& v) { return v.first == id; });
    return it == large_.end() ? nullptr : &it->second;
  }
  void keep_small(Id id, const Tensor& value) {
    if (value.bytes().size() <= kLargeValue) small_.insert_or_assign(id, value);
  }
  void keep_large(Id id, const Tensor& value) {
    const std::size_t bytes = value.bytes().size();
    if (bytes <= kLargeValue || bytes > kMost) return;
    for (; bytes_ > kMost - bytes; large_.pop_front()) bytes_ -= large_.front().second.bytes().size();
    large_.emplace_back(id, value);
    bytes_ += bytes;
  }
  // Whether there were any. They count against the memory that folding has: without them it may compute what it could not.
  bool clear() {
    const bool had = !small_.empty() || !large_.empty();
    small_.clear();
    large_.clear();
    bytes_ = 0;
    return had;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{64} << 20;
  absl::flat_hash_map<Id, Tensor> small_;
  std::deque<std::pair<Id, Tensor>> large_;
  std::size_t bytes_ = 0;  // of large_
};

struct OnnxEGraph::Impl : Analysis {
  explicit Impl(OnnxEGraph& owner_in, const Evaluator& evaluator_in) : owner(owner_in), evaluator(evaluator_in), egraph(this) {}

  OnnxEGraph& owner;
  const Evaluator& evaluator;
  mutable DimTable dims;
  EGraph egraph;
  absl::flat_hash_map<std::string, Kind> kinds;
  absl::flat_hash_map<std::string, OpId> op_ids;
  struct Operator {
    OpKey key;
    Node node;                 // for inference and evaluation
    Tensor tensor;             // #constant
    std::vector<Dim> literal;  // #literal
    bool scalar_literal = false;
    int projection = 0;  // #proj
    Facts input_facts;   // #input
    SignOf sign = SignOf::kNothing;
    enum class Role { kOperator, kInput, kConstant, kLiteral, kAbsent, kProj } role = Role::kOperator;
  };
  std::deque<Operator> ops;
  absl::flat_hash_map<std::size_t, std::vector<OpId>> constants;
  std::vector<Facts> facts;
  std::map<std::tuple<Id, int, int>, Dim> fresh_dims;
  const Facts absent_facts = [] {
    Facts f;
    f.kind = Facts::Kind::kAbsent;
    return f;
  }();
  std::string type_error;
  std::shared_ptr<const DefinedOperators> defined;
  std::shared_ptr<const Refusals> refusals;
  std::uint64_t settled = 0;  // the generation of dims in which all facts are canonical
  bool spreading = false;
  mutable std::mutex values_mutex;
  mutable KeptValues values;
  mutable std::mutex watch_mutex;
  mutable absl::flat_hash_map<Id, std::vector<Id>> watched_from;  // class -> classes whose answers depend on it
  absl::flat_hash_map<Id, std::uint32_t> changes_seen;
  mutable std::mutex notes_mutex;
  mutable std::unordered_map<std::type_index, std::shared_ptr<void>> notes;

  Facts& at(Id id) {
    if (id >= facts.size()) facts.resize(std::max<std::size_t>(id + 1, facts.size() * 2));
    return facts[id];
  }

  OpId new_op(OpTraits traits, Operator op) {
    if (op.role == Operator::Role::kOperator) op.sign = sign_of(op.key);
    ops.push_back(std::move(op));
    return egraph.add_op(traits);
  }

  absl::StatusOr<Facts> infer_node(const EGraph& g, Id id, const ENode& node) {
    const Operator& op = ops[node.op];
    using Role = Operator::Role;
    switch (op.role) {
      case Role::kInput:
        return op.input_facts;
      case Role::kAbsent:
        return absent_facts;
      case Role::kConstant:
        return facts_of_tensor(op.tensor, dims);
      case Role::kLiteral:
        return literal_facts(op);
      case Role::kProj: {
        const Facts& tuple = facts[g.find(node.children[0])];
        if (tuple.kind != Facts::Kind::kTuple || op.projection >= static_cast<int>(tuple.elements.size())) return Facts{};
        return tuple.elements[op.projection];
      }
      case Role::kOperator:
        break;
    }
    return infer_operator(g, id, node, op);
  }

  absl::StatusOr<Facts> infer_operator(const EGraph& g, Id id, const ENode& node, const Operator& op) {
    std::vector<const Facts*> inputs;
    for (Id child : node.children) inputs.push_back(&facts[g.find(child)]);
    InferContext context{dims,
                         [this, id](int output, int axis) {
                           auto [it, inserted] = fresh_dims.try_emplace({id, output, axis});
                           if (inserted) it->second = dims.fresh("unk");
                           return it->second;
                         },
                         nullptr, defined.get()};
    if (op.key.version != 0 || op.key.unique != 0 ||
        op.key.role == UnitRole::kFused) {  // opaque to inference by canonical form, but outputs are still values
      if (op.key.outputs == 1) return Facts{};
      Facts tuple;
      tuple.kind = Facts::Kind::kTuple;
      tuple.elements.resize(op.key.outputs);
      return tuple;
    }
    auto outputs = infer(op.node, inputs, op.key.outputs, context);
    if (!outputs.ok()) return outputs.status();
    outputs->resize(op.key.outputs);
    if (op.key.role != UnitRole::kNone)
      for (Facts& f : *outputs) f.constant = false, f.value.reset();
    if (op.key.outputs == 1) {
      Facts& made = outputs->front();
      made.never_negative |= is_floating(made.dtype) && never_negative(op.sign, inputs);
      return std::move(made);
    }
    Facts tuple;
    tuple.kind = Facts::Kind::kTuple;
    tuple.elements = std::move(*outputs);
    return tuple;
  }

  Facts literal_facts(const Operator& op) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = DType::kInt64;
    f.shape.emplace();
    if (!op.scalar_literal) f.shape->push_back(dims.constant(static_cast<std::int64_t>(op.literal.size())));
    f.content = op.literal;
    return f;
  }

  void make(const EGraph& g, Id id, const ENode& node) override {
    auto inferred = infer_node(g, id, node);
    // Sizes that never fit are no error of types: runtimes load such a model, and fail when they come there.
    if (absl::IsInvalidArgument(inferred.status())) type_error = std::string(inferred.status().message());
    at(id) = inferred.ok() ? std::move(*inferred) : Facts{};
  }

  Join update(const EGraph& g, Id id, const ENode& node) override {
    Join result;
    auto inferred = infer_node(g, id, node);
    if (!inferred.ok()) return result;
    std::string why;
    if (!join_facts(at(id), *inferred, dims, result.first_changed, why)) result.contradiction = why;
    if (result.first_changed) tell_watchers(id);
    return result;
  }

  void tell_watchers(Id changed) {
    const auto it = watched_from.find(changed);
    if (it == watched_from.end()) return;
    const std::vector<Id> asked = std::move(it->second);
    watched_from.erase(it);
    for (const Id id : asked) {
      ++changes_seen[id];
      egraph.touch(id);
    }
  }

  std::uint64_t knowledge() const override { return dims.knowledge(); }
  Join join(Id winner, Id loser) override {
    Join result;
    at(std::max(winner, loser));
    tell_watchers(winner);
    tell_watchers(loser);
    std::string why;
    bool changed = false;
    Facts old_loser = facts[loser];
    if (!join_facts(facts[winner], old_loser, dims, result.first_changed, why)) {
      result.contradiction = why;
      return result;
    }
    if (!join_facts(old_loser, facts[winner], dims, changed, why)) result.contradiction = why;
    result.second_changed = changed;
    return result;
  }

  bool passes_over_empty = false;
  const Dim zero = dims.constant(0);
  bool is_passed_over(const Facts& f) const {
    return passes_over_empty && f.kind == Facts::Kind::kTensor && f.shape && !f.content &&
           std::find(f.shape->begin(), f.shape->end(), zero) != f.shape->end();
  }

  void modify(EGraph& g, Id id) override {
    const Facts& f = at(id);
    if (f.kind != Facts::Kind::kTensor) return;
    if (is_passed_over(f)) {
      // Empty constants stay apart.
    } else if (f.constant && !f.value && fits(f, kEagerFoldBytes, dims)) {
      if (auto t = owner.value(id, kEagerFoldBytes)) merge_leaf(g, id, owner.constant(*t));
    } else if (f.constant && f.value && f.value->bytes().size() <= kEagerFoldBytes && f.dtype != DType::kString) {
      merge_leaf(g, id, owner.constant(*f.value));
    }
    const Facts& now = at(g.find(id));
    if (now.content && now.shape && now.content->size() <= kMaxContent) {
      const std::vector<Dim> content = *now.content;
      // New leaves move the facts.
      const bool scalar = now.shape->empty(), narrow = now.dtype == DType::kInt32, constant = now.constant;
      const Id leaf = owner.literal(content, scalar);
      if (!narrow || !constant) merge_leaf(g, id, narrow ? owner.narrowed(leaf) : leaf);
    }
    spread_learnt(g);
  }

  // What a merge proves of dims holds in the facts of all classes: sizes that are numbers now make constants, and say more of what is
  // computed of them. The engine tells only users of the classes that were merged.
  void spread_learnt(EGraph& g) {
    if (spreading || settled == dims.generation()) return;
    spreading = true;
    settled = dims.generation();
    std::set<Id> learnt;
    for (Id id = 0; id < facts.size() && id < g.num_ids(); ++id)
      if (g.find(id) == id && canonicalize(facts[id])) learnt.insert(id);
    std::set<Id> spelt = learnt;
    for (std::size_t left = kMostSpread; !learnt.empty() && left > 0; --left) {
      const Id id = learnt.extract(learnt.begin()).value();
      for (NodeId user : g.class_users(id)) {
        const Id made = g.find(g.class_of(user));
        if (update(g, made, g.node(user)).first_changed) learnt.insert(made), spelt.insert(made);
      }
    }
    for (Id id : spelt) modify(g, g.find(id));
    spreading = false;
  }

  bool canonicalize(Facts& f) {
    bool changed = false;
    const auto renew = [&](Dim& d) { changed |= std::exchange(d, dims.canonical(d)) != d; };
    for (auto* list : {&f.shape, &f.content})
      if (*list) std::for_each((*list)->begin(), (*list)->end(), renew);
    if (f.counts_from) renew(*f.counts_from);
    for (Facts& e : f.elements) changed |= canonicalize(e);
    return changed;
  }

  static void merge_leaf(EGraph& g, Id id, Id leaf) {
    if (g.find(id) != g.find(leaf)) g.merge(id, leaf);
  }
};

OnnxEGraph::OnnxEGraph(const Evaluator& evaluator) : impl_(std::make_unique<Impl>(*this, evaluator)) {}
OnnxEGraph::~OnnxEGraph() = default;
EGraph& OnnxEGraph::egraph() { return impl_->egraph; }
const EGraph& OnnxEGraph::egraph() const { return impl_->egraph; }
DimTable& OnnxEGraph::dims() const { return impl_->dims; }
const Evaluator& OnnxEGraph::evaluator() const { return impl_->evaluator; }
OnnxEGraph::Impl& OnnxEGraph::impl() { return *impl_; }
const OnnxEGraph::Impl& OnnxEGraph::impl() const { return *impl_; }

Kind OnnxEGraph::kind(std::string_view domain, std::string_view op_type, int outputs) {
  const std::string name = fmt::format("{}::{}/{}", domain, op_type, outputs);
  return impl_->kinds.try_emplace(name, static_cast<Kind>(impl_->kinds.size())).first->second;
}

std::string OnnxEGraph::kind_name(Kind kind) const {
  for (const auto& [name, k] : impl_->kinds) {
    if (k != kind) continue;
    const std::size_t colons = name.find("::"), slash = name.rfind('/');
    const std::string domain = name.substr(0, colons), op_type = name.substr(colons + 2, slash - colons - 2);
    return domain.empty() || domain == "#" ? op_type : fmt::format("{}.{}", domain, op_type);
  }
  return "an unknown operator";
}

OpId OnnxEGraph::op(const OpKey& key) {
  const KeyText text = serialize(key);
  if (auto it = impl_->op_ids.find(text.view()); it != impl_->op_ids.end()) return it->second;
  Impl::Operator op;
  op.key = key;
  op.node.op_type = key.op_type;
  op.node.domain = key.domain;
  op.node.overload = key.overload;
  op.node.attributes = key.attributes;
  const bool plain = key.version == 0 && key.unique == 0 && key.role == UnitRole::kNone;
  const std::string kind_name =
      plain ? key.op_type : fmt::format("{}@{}#{}/{}", key.op_type, key.version, key.unique, static_cast<int>(key.role));
  const OpId id =
      impl_->new_op({kind(key.domain, kind_name, key.outputs), plain && key.outputs == 1 && has(Trait::kCommutative, key)}, std::move(op));
  impl_->op_ids.emplace(text.view(), id);
  return id;
}

std::optional<OpId> OnnxEGraph::find_op(const OpKey& key) const {
  const KeyText text = serialize(key);
  const auto it = impl_->op_ids.find(text.view());
  return it == impl_->op_ids.end() ? std::nullopt : std::optional(it->second);
}

const OpKey& OnnxEGraph::key(OpId op) const { return impl_->ops[op].key; }

Id OnnxEGraph::input(const std::string& name, const Facts& facts) {
  OpKey key{"#", std::string(kInputOp), "", {Attribute::of("name", name)}};
  const OpId id = op(key);
  impl_->ops[id].role = Impl::Operator::Role::kInput;
  impl_->ops[id].input_facts = facts;
  return impl_->egraph.add(id, {});
}

Id OnnxEGraph::constant(const Tensor& tensor) {
  auto& candidates = impl_->constants[sample_hash(tensor)];
  for (OpId c : candidates)
    if (identical(impl_->ops[c].tensor, tensor)) return impl_->egraph.add(c, {});
  OpKey key{"#", std::string(kConstantOp), "", {Attribute::of("id", static_cast<std::int64_t>(impl_->ops.size()))}};
  const OpId id = op(key);
  impl_->ops[id].role = Impl::Operator::Role::kConstant;
  impl_->ops[id].tensor = tensor;
  impl_->constants[sample_hash(tensor)].push_back(id);
  return impl_->egraph.add(id, {});
}

Id OnnxEGraph::literal(std::span<const Dim> literal_dims, bool scalar) {
  std::vector<std::int64_t> numbers, ids;
  std::vector<Dim> canonical;
  for (Dim d : literal_dims) {
    canonical.push_back(impl_->dims.canonical(d));
    ids.push_back(canonical.back().id);
    if (const auto v = impl_->dims.value(canonical.back())) numbers.push_back(*v);
  }
  if (numbers.size() == canonical.size()) return constant(scalar ? Tensor::scalar_int64(numbers[0]) : Tensor::vector_int64(numbers));
  ids.push_back(scalar);
  OpKey key{"#", std::string(kLiteralOp), "", {Attribute::of("dims", ids)}};
  const OpId id = op(key);
  impl_->ops[id].role = Impl::Operator::Role::kLiteral;
  impl_->ops[id].literal = std::move(canonical);
  impl_->ops[id].scalar_literal = scalar;
  return impl_->egraph.add(id, {});
}

Id OnnxEGraph::narrowed(Id whole) {
  OpKey key{"", "Cast", "", {Attribute::of("to", static_cast<std::int64_t>(DType::kInt32))}};
  if (const OpSchema* schema = find_schema("", "Cast", kNewestOpset)) add_defaults(*schema, key.attributes);
  std::sort(key.attributes.begin(), key.attributes.end(), [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
  return add(key, std::span(&whole, 1));
}

Id OnnxEGraph::absent() {
  const OpId id = op({"#", std::string(kAbsentOp), "", {}});
  impl_->ops[id].role = Impl::Operator::Role::kAbsent;
  return impl_->egraph.add(id, {});
}

Id OnnxEGraph::project(Id tuple, int index) {
  const OpId id = op({"#", std::string(kProjOp), "", {Attribute::of("index", static_cast<std::int64_t>(index))}});
  impl_->ops[id].role = Impl::Operator::Role::kProj;
  impl_->ops[id].projection = index;
  return impl_->egraph.add(id, std::span(&tuple, 1));
}

Id OnnxEGraph::add(const OpKey& key, std::span<const Id> children) {
  while (!children.empty() && facts(children.back()).kind == Facts::Kind::kAbsent) children = children.first(children.size() - 1);
  return impl_->egraph.add(op(key), children);
}

void OnnxEGraph::define(std::shared_ptr<const DefinedOperators> operators) { impl_->defined = std::move(operators); }

const DefinedOperators* OnnxEGraph::defined() const { return impl_->defined.get(); }

std::string OnnxEGraph::take_type_error() { return std::exchange(impl_->type_error, std::string()); }

void OnnxEGraph::assume(Id id, const Facts& facts) {
  bool changed = false;
  std::string why;
  Facts joined = impl_->facts[impl_->egraph.find(id)];
  if (join_facts(joined, facts, impl_->dims, changed, why)) impl_->facts[impl_->egraph.find(id)] = std::move(joined);
}

bool OnnxEGraph::is_passed_over(Id id) const { return impl_->is_passed_over(facts(id)); }

void OnnxEGraph::pass_over_empty_tensors() { impl_->passes_over_empty = true; }

void OnnxEGraph::refuse_by(std::shared_ptr<const Refusals> refusals) { impl_->refusals = std::move(refusals); }
const Refusals* OnnxEGraph::refusals() const { return impl_->refusals.get(); }
bool OnnxEGraph::is_refused(NodeId node, Id id) const {
  return !impl_->refusals || impl_->refusals->refuses(*this, egraph().node(node), id);
}

const Facts& OnnxEGraph::facts(Id id) const { return impl_->facts[impl_->egraph.find(id)]; }
const Tensor& OnnxEGraph::constant_tensor(OpId constant_op) const { return impl_->ops[constant_op].tensor; }
std::span<const Dim> OnnxEGraph::literal_dims(OpId literal_op) const { return impl_->ops[literal_op].literal; }

namespace {

// Evaluates the class by the first of its e-nodes that can be; `visiting` guards against cycles.
std::optional<Tensor> evaluate_class(const OnnxEGraph& g, Id id, std::size_t max_bytes, std::vector<Id>& visiting, KeptValues& values) {
  const Facts& f = g.facts(id);
  if (f.value) return f.value;
  const EGraph& e = g.egraph();
  id = e.find(id);
  if (const Tensor* kept = values.large(id)) return *kept;
  if (!f.constant || visiting.size() > kMaxFoldDepth || std::find(visiting.begin(), visiting.end(), id) != visiting.end())
    return std::nullopt;
  visiting.push_back(id);
  std::optional<Tensor> result;
  for (NodeId n : e.class_nodes(id)) {
    const ENode node = e.node(n);
    const OpKey* key = &g.key(node.op);
    std::span<const Id> children = node.children;
    std::size_t output = 0;
    ENode tuple{};
    if (key->op_type == kProjOp) {
      output = static_cast<std::size_t>(key->attributes[0].i());
      const auto members = e.class_nodes(children[0]);
      if (members.empty()) continue;
      tuple = e.node(members.front());
      key = &g.key(tuple.op);
      children = tuple.children;
    }
    if (key->domain == "#" || key->version != 0 || key->unique != 0 || key->role != UnitRole::kNone) continue;
    std::vector<Value> inputs;
    bool ok = true;
    for (Id c : children) {
      if (g.facts(c).kind == Facts::Kind::kAbsent) {
        inputs.emplace_back();
        continue;
      }
      auto v = evaluate_class(g, c, ~std::size_t{0}, visiting, values);
      if (!(ok = v.has_value())) break;
      inputs.emplace_back(std::move(*v));
    }
    if (!ok) continue;
    Node call;
    call.op_type = key->op_type;
    call.domain = key->domain;
    call.attributes = key->attributes;
    call.inputs.assign(inputs.size(), "x");
    call.outputs.assign(static_cast<std::size_t>(key->outputs), "y");
    const std::int64_t opset = key->domain.empty() ? 28 : 1;
    auto outputs = g.evaluator().evaluate(call, opset, inputs);
    if (absl::IsResourceExhausted(outputs.status()) && values.clear()) outputs = g.evaluator().evaluate(call, opset, inputs);
    if (!outputs.ok() || outputs->size() <= output || !(*outputs)[output].is_tensor()) continue;
    if ((*outputs)[output].tensor().bytes().size() > max_bytes) continue;
    result = (*outputs)[output].tensor();
    values.keep_large(id, *result);
    break;
  }
  visiting.pop_back();
  return result;
}

}  // namespace

void OnnxEGraph::watch_from(Id asked, std::span<const Id> classes) const {
  const std::lock_guard lock(impl_->watch_mutex);
  for (const Id id : classes) {
    std::vector<Id>& all = impl_->watched_from[id];
    if (std::find(all.begin(), all.end(), asked) == all.end()) all.push_back(asked);
  }
}

std::uint32_t OnnxEGraph::changes_seen_from(Id asked) const {
  const auto it = impl_->changes_seen.find(asked);
  return it == impl_->changes_seen.end() ? 0 : it->second;
}

void* OnnxEGraph::notes_of(std::type_index type, std::shared_ptr<void> (*make)()) const {
  const std::lock_guard lock(impl_->notes_mutex);
  std::shared_ptr<void>& note = impl_->notes[type];
  if (note == nullptr) note = make();
  return note.get();
}

std::optional<Tensor> OnnxEGraph::value(Id id, std::size_t max_bytes) const {
  id = impl_->egraph.find(id);
  const Facts& f = impl_->facts[id];
  if (f.value) return f.value->bytes().size() <= max_bytes ? f.value : std::nullopt;
  if (!f.constant || (max_bytes != ~std::size_t{0} && !fits(f, max_bytes, impl_->dims))) return std::nullopt;
  const std::lock_guard lock(impl_->values_mutex);
  if (const Tensor* kept = impl_->values.small(id)) return *kept;
  std::vector<Id> visiting;
  auto result = evaluate_class(*this, id, max_bytes, visiting, impl_->values);
  if (result) impl_->values.keep_small(id, *result);
  return result;
}

std::optional<double> number_of(const OnnxEGraph& g, Id id) {
  const auto value = g.facts(id).constant ? g.value(id, 64) : std::nullopt;
  return value && value->size() == 1 ? element_as_double(*value, 0) : std::nullopt;
}

}  // namespace saturate
