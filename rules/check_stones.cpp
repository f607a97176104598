// The stepping stones of domain "saturate", run by what they are defined as.
#include <fmt/format.h>

#include "rules/check_run.h"
#include "rules/opkey.h"

namespace saturate {
namespace {

class Stone {
 public:
  Stone(const Evaluator& evaluator, const Node& node, const std::vector<Value>& inputs)
      : evaluator_(evaluator), node_(node), inputs_(inputs) {}

  absl::StatusOr<Value> run() {
    if (node_.op_type == "sdpa") return sdpa();
    if (node_.op_type == "repeat_heads") return repeated(inputs_[0], number("times", 1));
    if (node_.op_type == "activation") return activation();
    const auto& op = node_.op_type;
    if (inputs_.empty() || !inputs_[0].is_tensor() || inputs_[0].tensor().dims().empty())
      return absl::InvalidArgumentError("there is no last axis");
    const std::int64_t last = inputs_[0].tensor().dims().back();
    if (op == "part") {
      const std::int64_t offset = number("offset", 0), step = number("step", 1), count = number("count", 0);
      if (offset < 0 || step < 1 || count < 0 || (count > 0 && offset + step * (count - 1) >= last))
        return absl::InvalidArgumentError("the part is not inside");
      return part(inputs_[0], offset, step, count);
    }
    const bool interleaved = number("interleaved", 0) != 0;
    if (op == "twice") return join(interleaved, inputs_[0], inputs_[0]);
    if (op == "interleave") return join(true, inputs_[0], inputs_[1]);
    if (last % 2 != 0) return absl::InvalidArgumentError("the last axis has no halves");
    if (op == "rotate_half") return rotated(interleaved, last / 2);
    if (op == "rope") return rope(interleaved, last / 2);
    return absl::UnimplementedError(fmt::format("no kernel for saturate.{}", op));
  }

 private:
  using Result = absl::StatusOr<Value>;

  std::int64_t number(std::string_view name, std::int64_t absent) const {
    const Attribute* a = find_attribute(node_.attributes, std::string(name));
    return a ? a->i() : absent;
  }

  // An operator on what came before; the first error goes through.
  Result call(std::string op, std::vector<Attribute> attributes, std::vector<Result> in) const {
    std::vector<Value> values;
    for (Result& r : in) {
      if (!r.ok()) return r.status();
      values.push_back(*std::move(r));
    }
    Node n;
    n.op_type = std::move(op);
    n.attributes = std::move(attributes);
    n.inputs.assign(values.size(), "x");
    n.outputs = {"y"};
    auto out = evaluator_.evaluate(n, kNewestOpset, values);
    if (!out.ok()) return out.status();
    return (*out)[0];
  }

  static Value ints(std::vector<std::int64_t> values) { return Value(Tensor::vector_int64(std::move(values))); }

  Result part(const Result& x, std::int64_t offset, std::int64_t step, std::int64_t count) const {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < count; ++i) places.push_back(offset + step * i);
    return call("Gather", {Attribute::of("axis", std::int64_t{-1})}, {x, ints(std::move(places))});
  }

  Result join(bool interleaved, const Result& a, const Result& b) const {
    for (const Result* half : {&a, &b})
      if (half->ok() && (!(*half)->is_tensor() || (*half)->tensor().dims().empty()))
        return absl::InvalidArgumentError("a half has no last axis");
    if (!interleaved) return call("Concat", {Attribute::of("axis", std::int64_t{-1})}, {a, b});
    if (!a.ok()) return a.status();
    Shape joined = a->tensor().dims();
    joined.back() *= 2;
    auto both = call("Concat", {Attribute::of("axis", std::int64_t{-1})},
                     {call("Unsqueeze", {}, {a, ints({-1})}), call("Unsqueeze", {}, {b, ints({-1})})});
    return call("Reshape", {Attribute::of("allowzero", std::int64_t{1})}, {both, ints({joined.begin(), joined.end()})});
  }

  Result rotated(bool interleaved, std::int64_t half) const {
    const std::int64_t step = interleaved ? 2 : 1, second = interleaved ? 1 : half;
    return join(interleaved, call("Neg", {}, {part(inputs_[0], second, step, half)}), part(inputs_[0], 0, step, half));
  }

  Result rope(bool interleaved, std::int64_t half) const {
    const auto whole = [&](std::size_t i) { return join(interleaved, inputs_[i], inputs_[i]); };
    auto sum = call("Add", {}, {call("Mul", {}, {inputs_[0], whole(1)}), call("Mul", {}, {rotated(interleaved, half), whole(2)})});
    if (sum.ok() && sum->tensor().dims() != inputs_[0].tensor().dims())
      return absl::InvalidArgumentError("the angles of saturate.rope widen X");
    return sum;
  }

  // The operator of that kind; parameters are attributes, those of Clip are inputs.
  Result activation() const {
    const Attribute *kind = find_attribute(node_.attributes, "kind"), *params = find_attribute(node_.attributes, "params");
    if (!kind || inputs_.size() != 1) return absl::InvalidArgumentError("saturate.activation takes a kind and one input");
    const std::vector<float> p = params ? params->floats() : std::vector<float>{};
    std::vector<Attribute> attributes;
    std::vector<Result> in{inputs_[0]};
    for (std::size_t i = 0; i < p.size(); ++i)
      if (kind->s() != "Clip") {
        attributes.push_back(Attribute::of(i == 0 ? "alpha" : "beta", p[i]));
      } else {
        auto bound = tensor_of_reals(inputs_[0].tensor().dtype(), {}, std::vector<double>{p[i]});
        if (!bound.ok()) return bound.status();
        in.emplace_back(Value(*std::move(bound)));
      }
    return call(kind->s(), std::move(attributes), std::move(in));
  }

  Result repeated(const Value& x, std::int64_t times) const {
    if (x.tensor().dims().size() != 4 || times < 1) return absl::InvalidArgumentError("saturate.repeat_heads takes a tensor of rank 4");
    std::vector<std::int64_t> heads;
    for (std::int64_t h = 0; h < x.tensor().dims()[1] * times; ++h) heads.push_back(h / times);
    return call("Gather", {Attribute::of("axis", std::int64_t{1})}, {x, ints(std::move(heads))});
  }

  // Softmax(cap(scale * Q K^T) + bias) V.
  Result sdpa() const {
    if (inputs_.size() < 3 || !inputs_[1].is_tensor() || !inputs_[2].is_tensor())
      return absl::InvalidArgumentError("saturate.sdpa takes Q, K and V");
    const Shape &q = inputs_[0].tensor().dims(), &k = inputs_[1].tensor().dims(), &v = inputs_[2].tensor().dims();
    if (q.size() != 4 || k.size() != 4 || v.size() != 4 || q[0] != k[0] || !std::equal(k.begin(), k.begin() + 2, v.begin()) || k[1] == 0 ||
        q[1] % k[1] != 0)
      return absl::InvalidArgumentError("saturate.sdpa takes Q, K and V of rank 4 with the same batch, and heads of Q for each of K and V");
    const Attribute *scale = find_attribute(node_.attributes, "scale"), *softcap = find_attribute(node_.attributes, "softcap");
    const auto scalar = [&](double x) -> Result {
      auto t = tensor_of_reals(inputs_[0].tensor().dtype(), {}, std::vector<double>{x});
      if (!t.ok()) return t.status();
      return Value(*std::move(t));
    };
    auto kt = call("Transpose", {Attribute::of("perm", std::vector<std::int64_t>{0, 1, 3, 2})}, {repeated(inputs_[1], q[1] / k[1])});
    auto scores = call("Mul", {}, {call("MatMul", {}, {inputs_[0], kt}), scalar(scale ? scale->f() : 1.0)});
    if (softcap != nullptr && softcap->f() > 0)
      scores = call("Mul", {}, {call("Tanh", {}, {call("Div", {}, {scores, scalar(softcap->f())})}), scalar(softcap->f())});
    if (!scores.ok()) return scores.status();
    const Shape dims = scores->tensor().dims();
    if (inputs_.size() > 3 && inputs_[3].present()) scores = call("Add", {}, {*scores, inputs_[3]});
    if (scores.ok() && scores->tensor().dims() != dims) return absl::InvalidArgumentError("the bias of saturate.sdpa widens the scores");
    return call("MatMul", {}, {call("Softmax", {Attribute::of("axis", std::int64_t{-1})}, {scores}), repeated(inputs_[2], q[1] / k[1])});
  }

  const Evaluator& evaluator_;
  const Node& node_;
  const std::vector<Value>& inputs_;
};

}  // namespace

absl::StatusOr<Value> run_stone(const Evaluator& evaluator, const Node& node, const std::vector<Value>& inputs) {
  return Stone(evaluator, node, inputs).run();
}

}  // namespace saturate
