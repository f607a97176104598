// A region of the e-graph run on given numbers, in double: what exporters spell in floats is compared without their rounding.
#include <algorithm>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "rules/recurrence/recurrence.h"

namespace saturate::native {
namespace {

constexpr std::size_t kMostNodes = 60'000, kMostBytes = std::size_t{1} << 28;

bool is_real(DType dtype) { return dtype == DType::kFloat || dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

std::optional<Tensor> in_double(const Tensor& t) {
  if (!is_real(t.dtype())) return t;
  Tensor out(DType::kDouble, t.dims());
  double* to = out.mutable_as<double>();
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const auto x = element_as_double(t, i);
    if (!x) return std::nullopt;
    to[i] = *x;
  }
  return out;
}

class Runner {
 public:
  Runner(const OnnxEGraph& g, Run& run) : g_(g), e_(g.egraph()), run_(run) {}

  bool to(const std::vector<Id>& wanted) {
    for (const Id id : wanted)
      if (!plan(e_.find(id))) return false;
    std::set<Id> kept;
    for (const Id id : wanted) kept.insert(e_.find(id));
    for (const auto& [id, made] : steps_) {
      if (!step(id, made)) return false;
      for (const Id c : made.children)
        if (const auto it = uses_.find(e_.find(c)); it != uses_.end() && --it->second == 0 && !kept.contains(it->first))
          values_.erase(it->first);
    }
    for (const Id id : kept)
      if (const auto it = values_.find(id); it != values_.end() && it->second[0].is_tensor()) run_.values[id] = it->second[0].tensor();
    return true;
  }

 private:
  // Adds the steps to a class, in their order; without recursion, for chains are long.
  bool plan(Id target) {
    std::vector<std::pair<Id, bool>> open{{target, false}};
    while (!open.empty()) {
      const auto [id, ready] = open.back();
      open.pop_back();
      if (ready) {
        steps_.emplace_back(id, makers_.at(id));
        continue;
      }
      if (known(id) || !planned_.insert(id).second) continue;
      const auto made = maker_of(g_, id);
      if (!made || made->key->domain == "#" || made->key->unique != 0 || planned_.size() > kMostNodes) return false;
      makers_[id] = *made;
      open.emplace_back(id, true);
      for (const Id c : made->children) {
        ++uses_[e_.find(c)];
        open.emplace_back(e_.find(c), false);
      }
    }
    return true;
  }

  // Values that need no run: given ones, constants, and integers that sizes tell.
  bool known(Id id) {
    if (values_.contains(id)) return true;
    std::optional<Tensor> value;
    const Facts& f = g_.facts(id);
    if (const auto it = run_.given.find(id); it != run_.given.end()) {
      value = it->second;
    } else if (f.kind == Facts::Kind::kAbsent) {
      values_[id] = {Value()};
      return true;
    } else if (f.content) {
      value = of_content(f);
    } else if (f.constant) {
      value = g_.value(id, kMostBytes);
      if (value) value = in_double(*value);
    }
    if (!value) return false;
    values_[id] = {Value(*std::move(value))};
    return true;
  }

  std::optional<Tensor> of_content(const Facts& f) const {
    std::vector<std::int64_t> numbers;
    for (const Dim d : *f.content) {
      const auto n = g_.dims().evaluate(d, run_.sizes);
      if (!n) return std::nullopt;
      numbers.push_back(*n);
    }
    const Shape dims = f.shape && f.shape->empty() ? Shape{} : Shape{static_cast<std::int64_t>(numbers.size())};
    if (f.dtype == DType::kInt64) return Tensor::of<std::int64_t>(f.dtype, dims, numbers);
    const std::vector<std::int32_t> narrow(numbers.begin(), numbers.end());
    return f.dtype == DType::kInt32 ? std::optional(Tensor::of<std::int32_t>(f.dtype, dims, narrow)) : std::nullopt;
  }

  // Attributes that name a float type, or hold floats, in double.
  static std::optional<std::vector<Attribute>> attributes_of(const OpKey& key) {
    std::vector<Attribute> out = key.attributes;
    for (Attribute& a : out) {
      if (a.type == AttributeType::kTensor) {
        const auto value = in_double(a.t());
        if (!value) return std::nullopt;
        a = Attribute::of(a.name, *value);
      } else if ((a.name == "to" || a.name == "dtype") && a.type == AttributeType::kInt && is_real(static_cast<DType>(a.i()))) {
        a = Attribute::of(a.name, static_cast<std::int64_t>(DType::kDouble));
      }
    }
    return out;
  }

  bool step(Id id, const Maker& made) {
    const OpKey& key = *made.key;
    std::vector<Value> inputs;
    for (const Id c : made.children) {
      const auto it = values_.find(e_.find(c));
      if (it == values_.end()) return false;
      inputs.push_back(it->second[0]);
    }
    auto attributes = attributes_of(key);
    if (!attributes) return false;
    Node call;
    call.op_type = key.op_type;
    call.domain = key.domain;
    call.attributes = *std::move(attributes);
    call.inputs.assign(inputs.size(), "x");
    call.outputs.assign(static_cast<std::size_t>(key.outputs), "y");
    const std::int64_t opset = key.version != 0 ? key.version : key.domain.empty() ? 28 : 1;
    auto outputs = g_.evaluator().evaluate(call, opset, inputs);
    if (!outputs.ok() || static_cast<int>(outputs->size()) <= made.output) return false;
    values_[id] = {std::move((*outputs)[static_cast<std::size_t>(made.output)])};
    return true;
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  Run& run_;
  std::map<Id, std::vector<Value>> values_;
  std::map<Id, Maker> makers_;
  std::map<Id, std::size_t> uses_;
  std::set<Id> planned_;
  std::vector<std::pair<Id, Maker>> steps_;
};

}  // namespace

bool run_region(const OnnxEGraph& g, const std::vector<Id>& wanted, Run& run) { return Runner(g, run).to(wanted); }

}  // namespace saturate::native
