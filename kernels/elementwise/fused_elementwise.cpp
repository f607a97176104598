#include "kernels/elementwise/fused_elementwise.h"

#include <algorithm>
#include <array>

#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

constexpr std::int64_t kPiece = 1024, kShortest = 16;
constexpr std::pair<ElementOp, std::string_view> kNames[] = {{ElementOp::kAdd, "Add"},
                                                             {ElementOp::kSub, "Sub"},
                                                             {ElementOp::kMul, "Mul"},
                                                             {ElementOp::kDiv, "Div"},
                                                             {ElementOp::kAtLeast, "Max"},
                                                             {ElementOp::kAtMost, "Min"},
                                                             {ElementOp::kNeg, "Neg"},
                                                             {ElementOp::kAbs, "Abs"},
                                                             {ElementOp::kSqrt, "Sqrt"},
                                                             {ElementOp::kReciprocal, "Reciprocal"},
                                                             {ElementOp::kExp, "Exp"},
                                                             {ElementOp::kErf, "Erf"},
                                                             {ElementOp::kTanh, "Tanh"},
                                                             {ElementOp::kSigmoid, "Sigmoid"},
                                                             {ElementOp::kRelu, "Relu"},
                                                             {ElementOp::kGelu, "Gelu"},
                                                             {ElementOp::kGeluTanh, "Gelu"},
                                                             {ElementOp::kSwish, "Swish"},
                                                             {ElementOp::kHardSwish, "HardSwish"}};

struct Instruction {
  ElementOp op;
  std::size_t a, b;  // inputs first, then results
};

// How an input is read along the flattened result: element i at (i / inner) % period.
struct Access {
  const float* data;
  std::int64_t inner = 1, period = 1;
};

// nullopt: broadcast in another way than over leading or over trailing dims.
std::optional<Access> access_of(const Tensor& t, const Shape& dims) {
  std::size_t first = 0, last = dims.size();  // the dims that the tensor has
  const std::size_t lead = dims.size() - t.dims().size();
  const auto dim = [&](std::size_t k) { return k < lead ? std::int64_t{1} : t.dims()[k - lead]; };
  while (first < last && dim(first) == 1) ++first;
  while (last > first && dim(last - 1) == 1) --last;
  for (std::size_t k = first; k < last; ++k)
    if (dim(k) != dims[k]) return std::nullopt;
  Access a{t.data<float>()};
  for (std::size_t k = first; k < last; ++k) a.period *= dims[k];
  for (std::size_t k = last; k < dims.size(); ++k) a.inner *= dims[k];
  return a;
}

std::vector<Instruction> program_of(const KernelContext& ctx) {
  const std::vector<std::int64_t> words = ctx.attr_ints("program");
  std::vector<Instruction> out;
  for (std::size_t i = 0; i + 2 < words.size(); i += 3)
    out.push_back({static_cast<ElementOp>(words[i]), static_cast<std::size_t>(words[i + 1]), static_cast<std::size_t>(words[i + 2])});
  return out;
}

// Operator by operator, for what the pass over pieces has no form of.
Outputs one_by_one(KernelContext& ctx, const std::vector<Instruction>& program) {
  std::vector<Value> values = ctx.inputs;
  for (const Instruction& in : program) {
    Node node{ctx.node.name, std::string(element_op_name(in.op)), "", "", {"a"}, {"y"}, {}, nullptr};
    std::vector<Value> arguments{values[in.a]};
    if (has_two_operands(in.op)) {
      node.inputs.push_back("b");
      arguments.push_back(values[in.b]);
    }
    if (in.op == ElementOp::kGeluTanh) node.attributes.push_back(Attribute::of("approximate", std::string("tanh")));
    Outputs out = ctx.host.run_node(node, std::max<std::int64_t>(24, ctx.attr_i("opset", 24)), arguments);
    if (!out.ok()) return out;
    values.push_back((*out)[0]);
  }
  return std::vector<Value>{values.back()};
}

class Pieces {
 public:
  Pieces(const std::vector<Instruction>& program, std::vector<Access> inputs, std::int64_t size, float* out)
      : program_(program), inputs_(std::move(inputs)), size_(size), out_(out) {
    for (const Access& a : inputs_) {
      if (a.inner < size_ && a.period > 1 && a.inner > 1) bounds_.push_back(a.inner);
      if (a.inner == 1 && a.period < size_ && a.period > 1) bounds_.push_back(a.period);
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  }
  // Elements that are surely together in one piece.
  std::int64_t shortest() const { return bounds_.empty() ? size_ : bounds_[0]; }

  void run(std::int64_t begin, std::int64_t end) const {
    std::vector<float> scratch(program_.size() * kPiece);
    std::vector<Piece> values(inputs_.size() + program_.size());
    for (std::int64_t at = begin; at < end;) {
      std::int64_t stop = std::min(end, at + kPiece);
      for (std::int64_t b : bounds_) stop = std::min(stop, (at / b + 1) * b);
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const Access& a = inputs_[i];
        values[i] = {a.data + at / a.inner % a.period, a.period == 1 || a.inner > 1};
      }
      for (std::size_t i = 0; i < program_.size(); ++i) {
        const Instruction& in = program_[i];
        const Piece &a = values[in.a], &b = values[in.b];
        const bool uniform = a.uniform && (!has_two_operands(in.op) || b.uniform);
        float* to = i + 1 == program_.size() ? out_ + at : scratch.data() + i * kPiece;
        run_element_op(in.op, a, b, stop - at, to);
        if (uniform && i + 1 == program_.size()) std::fill_n(to + 1, stop - at - 1, *to);
        values[inputs_.size() + i] = {to, uniform};
      }
      at = stop;
    }
  }

 private:
  const std::vector<Instruction>& program_;
  std::vector<Access> inputs_;
  std::int64_t size_;
  float* out_;
  std::vector<std::int64_t> bounds_;  // a piece crosses no multiple of these
};

Outputs fused_elementwise(KernelContext& ctx) {
  const std::vector<Instruction> program = program_of(ctx);
  std::vector<const Tensor*> tensors;
  bool floats = true;
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    tensors.push_back(&ctx.tensor(i));
    floats = floats && ctx.is_tensor(i) && ctx.tensor(i).dtype() == DType::kFloat;
  }
  if (!floats) return one_by_one(ctx, program);
  const std::optional<Shape> dims = broadcast_shape(tensors);
  if (!dims) return one_by_one(ctx, program);  // says which operator refuses
  std::vector<Access> inputs;
  for (const Tensor* t : tensors) {
    const std::optional<Access> a = access_of(*t, *dims);
    if (!a) return one_by_one(ctx, program);
    inputs.push_back(*a);
  }
  absl::StatusOr<Tensor> y = ctx.allocate_over(tensors, DType::kFloat, *dims);
  if (!y.ok()) return y.status();
  const Pieces pieces(program, std::move(inputs), y->size(), write<float>(*y));
  if (pieces.shortest() < kShortest && pieces.shortest() < y->size()) return one_by_one(ctx, program);
  parallel_for(ctx, y->size(), kElementGrain / 4, [&](std::int64_t begin, std::int64_t end) { pieces.run(begin, end); });
  return outputs_of(*std::move(y));
}

}  // namespace

std::string_view element_op_name(ElementOp op) {
  return std::find_if(std::begin(kNames), std::end(kNames), [op](const auto& entry) { return entry.first == op; })->second;
}

std::optional<ElementOp> element_op_named(std::string_view op_type) {
  if (op_type == "Max" || op_type == "Min") return std::nullopt;  // theirs is another treatment of NaN
  for (const auto& [op, name] : kNames)
    if (name == op_type) return op;
  return std::nullopt;
}

void register_fused_elementwise(Registry& registry) { registry.add(kSessionDomain, "Elementwise", fused_elementwise); }

}  // namespace saturate
