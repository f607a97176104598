// How each operator of onnx_bridge/operators/op_traits.inc is called in its test: attributes, shapes, what stands behind its operands; and
// the call.
#pragma once

#include <algorithm>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "op_traits_values.h"
#include "tests/kernels/kernel_test_util.h"

namespace saturate::traits_test {

// An input: an operand that the law is about, a bool beside operands, numbers of the operands' dtype, a tensor, or none.
struct Given {
  enum class Kind { kOperand, kCondition, kNumber, kFixed, kAbsent };
  Kind kind = Kind::kOperand;
  Shape dims = {2, 3, 4};
  double number = 0;
  Tensor fixed = {};
  bool is_operand() const { return kind == Kind::kOperand || kind == Kind::kCondition; }
};

struct Form {
  std::vector<Given> inputs = {Given{}};
  std::vector<Attribute> attributes = {};
  int outputs = 1;
  std::int64_t opset = kNewestOpset;
};

inline Given operand(Shape dims) { return {.dims = std::move(dims)}; }
inline Given number(double value, Shape dims = {}) { return {Given::Kind::kNumber, std::move(dims), value}; }
inline Given fixed(Tensor t) { return {.kind = Given::Kind::kFixed, .fixed = std::move(t)}; }
inline Given indices(std::vector<std::int64_t> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return fixed(test::ints({n}, std::move(v)));
}
inline Given absent() { return {.kind = Given::Kind::kAbsent}; }
inline Attribute real(std::string name, float value) { return Attribute::of(std::move(name), value); }
inline Attribute whole(std::string name, std::int64_t value) { return Attribute::of(std::move(name), value); }
inline Attribute text(std::string name, std::string value) { return Attribute::of(std::move(name), std::move(value)); }
inline Attribute dtype(std::string name, DType value) { return whole(std::move(name), static_cast<std::int64_t>(value)); }
inline Form with(std::vector<Attribute> attributes) { return {.attributes = std::move(attributes)}; }
inline Form two(std::vector<Attribute> attributes) { return {{Given{}, Given{}}, std::move(attributes)}; }

using Forms = std::map<std::string, std::vector<Form>, std::less<>>;

// Functions of one element whose attributes change what is true of them.
inline void add_unary_forms(Forms& f) {
  for (const char* op : {"Elu", "LeakyRelu", "ThresholdedRelu", "Swish"})
    f[op] = {Form{}, with({real("alpha", 0.5f)}), with({real("alpha", -1)})};
  f["Celu"] = {Form{}, with({real("alpha", 0.5f)}), with({real("alpha", -1.5f)})};
  f["HardSigmoid"] = {Form{}, with({real("alpha", -0.5f)})};
  f["Selu"] = {Form{}, with({real("gamma", -1)})};
  f["Shrink"] = {Form{}, with({real("bias", 2)}), with({real("lambd", -1), real("bias", 1)})};
  f["Gelu"] = {Form{}, with({text("approximate", "tanh")})};
  f["IsInf"] = {Form{}, with({whole("detect_negative", 0)}), with({whole("detect_positive", 0)})};
  f["RegexFullMatch"] = {with({text("pattern", "a.*")})};
  for (const DType to : {DType::kFloat, DType::kDouble, DType::kInt32, DType::kBool, DType::kFloat16}) {
    f["Cast"].push_back(with({dtype("to", to)}));
    f["CastLike"].push_back({{Given{}, fixed(Tensor(to, {1}))}});
  }
  for (const DType to : {DType::kInt64, DType::kInt32, DType::kUint32, DType::kInt16, DType::kUint8})
    f["BitCast"].push_back(with({dtype("to", to)}));
  f["Clip"] = {Form{{Given{}, number(1), number(2)}}, Form{{Given{}, number(-1), number(2)}}, Form{{Given{}, absent(), number(1)}},
               Form{{Given{}, number(3), number(1)}}};
}

inline void add_operand_forms(Forms& f) {
  f["Mod"] = {two({}), two({whole("fmod", 1)})};
  f["BitShift"] = {two({text("direction", "LEFT")}), two({text("direction", "RIGHT")})};
  f["Where"] = {Form{{Given{Given::Kind::kCondition}, Given{}, Given{}}}};
  f["Dropout"] = {Form{}, Form{{Given{}, fixed(test::floats({}, {0.5f})), fixed(test::make<bool>({}, {true}))}}};
  f["SwiGLU"] = {two({})};
  f["com.microsoft.BiasAdd"] = {Form{{operand({2, 3, 4}), operand({4}), operand({2, 3, 4})}}};
  for (const char* op : {"com.microsoft.BiasGelu", "com.microsoft.FastGelu"}) f[op] = {Form{{operand({2, 12}), operand({12})}, {}, 1, 1}};
  f["Bernoulli"] = {Form{{operand({4})}, {dtype("dtype", DType::kInt32)}}};
  f["Multinomial"] = {Form{{operand({2, 4})}, {whole("sample_size", 3)}}};
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"}) f[op] = {Form{}, with({dtype("dtype", DType::kDouble)})};
  f["RandomUniformLike"].push_back(with({real("low", -1)}));
  f["MatMul"] = {Form{{operand({2, 3, 4}), operand({4, 2})}}};
  for (const char* op : {"com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul"})
    f[op] = {Form{{operand({3, 4}), operand({4, 2})}, {real("alpha", 0.5f)}, 1, 1}};
  f["Gemm"] = {Form{{operand({3, 4}), operand({4, 2})}},
               Form{{operand({3, 4}), operand({2, 4})}, {whole("transB", 1), real("alpha", 0.5f)}}};
  f["Einsum"] = {Form{{operand({3, 4}), operand({4, 2})}, {text("equation", "ij,jk->ik")}}};
  f["Conv"] = {Form{{operand({1, 2, 4, 4}), operand({3, 2, 2, 2})}}};
  f["ConvTranspose"] = {Form{{operand({1, 2, 3, 3}), operand({2, 1, 2, 2})}}};
}

inline void add_movement_forms(Forms& f) {
  const auto moved = [&f](const char* op, Shape dims, std::vector<Given> rest, std::vector<Attribute> attributes = {}) {
    rest.insert(rest.begin(), operand(std::move(dims)));
    f[op].push_back({std::move(rest), std::move(attributes)});
  };
  const Shape all{2, 3, 4};
  moved("Reshape", all, {indices({4, -1})});
  moved("Squeeze", {2, 1, 3}, {indices({1})});
  moved("Unsqueeze", all, {indices({1})});
  moved("Flatten", all, {});
  moved("Transpose", all, {}, {test::ints_attr("perm", {2, 0, 1})});
  moved("Expand", {3, 1}, {indices({2, 3, 4})});
  moved("Slice", all, {indices({0}), indices({2}), indices({1})});
  moved("Slice", all, {indices({-1}), indices({-9}), indices({2}), indices({-2})});
  moved("Split", all, {}, {whole("axis", 2), whole("num_outputs", 2)});
  f["Split"][0].outputs = 2;
  moved("Gather", all, {indices({2, 0, 2, -1})}, {whole("axis", 1)});
  moved("GatherElements", {2, 3}, {fixed(test::ints({1, 3}, {1, 0, -1}))});
  moved("GatherND", all, {fixed(test::ints({2, 2}, {0, 1, 1, -1}))});
  moved("Tile", {2, 3}, {indices({2, 2})});
  for (const char* mode : {"DCR", "CRD"}) moved("DepthToSpace", {1, 8, 1, 2}, {}, {whole("blocksize", 2), text("mode", mode)});
  moved("SpaceToDepth", {1, 1, 4, 4}, {}, {whole("blocksize", 2)});
  moved("ReverseSequence", {4, 2}, {indices({2, 4})});
  moved("Compress", all, {fixed(test::make<bool>({3}, {true, false, true}))}, {whole("axis", 1)});
  moved("Concat", {2, 3}, {operand({2, 2})}, {whole("axis", 1)});
  for (const std::string_view op : operators_with(Trait::kReduction)) {
    f[std::string(op)] = {Form{{operand(all), indices({1})}}, Form{{operand({2, 0, 4}), indices({1})}}};
  }
}

inline void add_other_forms(Forms& f) {
  for (const char* op : {"CumSum", "CumProd"}) f[op] = {Form{{Given{}, fixed(Tensor::scalar_int64(1))}}};
  f["GlobalAveragePool"] = f["GlobalMaxPool"] = {Form{{operand({1, 2, 1, 2})}}};
  f["MaxPool"] = {Form{{operand({1, 2, 4, 4})}, {test::ints_attr("kernel_shape", {3, 2}), test::ints_attr("pads", {1, 0, 1, 1})}},
                  Form{{operand({1, 2, 4, 4})}, {test::ints_attr("kernel_shape", {2, 2})}}};
  f["Pad"] = {Form{{operand({2, 3}), indices({1, 0, 0, 2})}}, Form{{operand({2, 3}), indices({0, 1, 1, 0})}, {text("mode", "edge")}},
              Form{{operand({2, 3}), indices({0, 1, -1, 0})}}};
  f["LRN"] = {Form{{operand({1, 4, 2, 2})}, {whole("size", 3)}}};
  f["MeanVarianceNormalization"] = {Form{{operand({2, 3, 2, 2})}}};
  f["InstanceNormalization"] = {Form{{Given{}, number(2, {3}), number(1, {3})}}};
  f["GroupNormalization"] = {Form{{operand({2, 4, 3}), number(2, {4}), number(1, {4})}, {whole("num_groups", 2)}}};
  f["com.microsoft.GroupNorm"] = {Form{{operand({2, 3, 1, 4}), number(2, {4}), number(1, {4})},
                                       {whole("groups", 2), whole("activation", 0), whole("channels_last", 1)}}};
  for (const char* reduction : {"none", "add"}) {
    f["ScatterND"].push_back({{Given{}, fixed(test::ints({1, 2}, {0, 1})), number(2, {1, 4})}, {text("reduction", reduction)}});
    f["ScatterElements"].push_back(
        {{operand({2, 3}), fixed(test::ints({1, 2}, {1, 0})), number(2, {1, 2})}, {text("reduction", reduction)}});
  }
  f["Scatter"] = {Form{{operand({2, 3}), fixed(test::ints({1, 2}, {1, 0})), number(2, {1, 2})}, {}, 1, 10}};
  f["TensorScatter"] = {Form{{operand({2, 4, 3}), number(2, {2, 1, 3}), indices({1, 3})}}};
  f["RotaryEmbedding"] = {Form{{operand({1, 2, 3, 4}), number(0.5, {1, 3, 2}), number(0.25, {1, 3, 2})}}};
  f["com.microsoft.RotaryEmbedding"] = {
      Form{{operand({1, 3, 4}), fixed(test::ints({1, 3}, {0, 1, 2})), number(0.5, {8, 2}), number(0.25, {8, 2})}, {}, 1, 1}};
}

// As many operands as it takes at least, of one shape, where nothing else is said. Without inputs: none.
inline std::vector<Form> forms_of(std::string_view full) {
  static const Forms* const kForms = [] {
    auto* f = new Forms;
    add_unary_forms(*f);
    add_operand_forms(*f);
    add_movement_forms(*f);
    add_other_forms(*f);
    return f;
  }();
  if (const auto it = kForms->find(full); it != kForms->end()) return it->second;
  const OperatorTraits& traits = *traits_of(full);
  const OpSchema& schema = *schema_versions(traits.domain(), traits.op_type()).back();
  const std::size_t operands = schema.max_inputs == INT_MAX ? 2 : static_cast<std::size_t>(schema.min_inputs);
  if (operands == 0) return {};
  return {Form{.inputs = std::vector<Given>(operands), .opset = traits.domain().empty() ? kNewestOpset : 1}};
}

inline const OpSchema& newest_schema(std::string_view full) {
  const OperatorTraits& traits = *traits_of(full);
  return *schema_versions(traits.domain(), traits.op_type()).back();
}

// Of a first input (an operand of the class).
inline std::vector<DType> dtypes_of(std::string_view full, std::size_t input) {
  const OpSchema& schema = newest_schema(full);
  std::vector<DType> out;
  if (schema.inputs.empty()) return out;
  const auto& formal = schema.inputs[std::min(input, schema.inputs.size() - 1)];
  const auto add = [&out](std::string_view type) {
    if (!type.starts_with("tensor(") || type.find("complex") != std::string_view::npos) return;
    if (const auto dtype = parse_dtype(type.substr(7, type.size() - 8))) out.push_back(*dtype);
  };
  add(formal.type);
  for (const auto& c : schema.constraints)
    if (c.name == formal.type) std::for_each(c.types.begin(), c.types.end(), add);
  return out;
}

// An operator with its attributes and what stands behind its operands; `dtype` is that of the operands.
class Applied {
 public:
  Applied(std::string_view full, const Form& form, DType dtype) : full_(full), form_(form), dtype_(dtype) {
    node_.op_type = traits_of(full)->op_type();
    node_.domain = traits_of(full)->domain();
    node_.attributes = form.attributes;
    for (int i = 0; i < form.outputs; ++i) node_.outputs.push_back("o" + std::to_string(i));
  }

  DType dtype() const { return dtype_; }
  const Form& form() const { return form_; }
  std::size_t operands() const {
    return static_cast<std::size_t>(std::count_if(form_.inputs.begin(), form_.inputs.end(), [](const Given& g) { return g.is_operand(); }));
  }
  bool is_condition(std::size_t i) const { return form_.inputs[i].kind == Given::Kind::kCondition; }

  Tensors random_operands(Random& random, Pick pick = Pick::kAny) const {
    Tensors out;
    for (const Given& g : form_.inputs)
      if (g.is_operand()) out.push_back(random_tensor(random, g.kind == Given::Kind::kCondition ? DType::kBool : dtype_, g.dims, pick));
    return out;
  }

  // nullopt: the operator (or our kernel) does not take these.
  std::optional<Tensor> operator()(const Tensors& operands, DType dtype) const {
    std::vector<Value> inputs;
    std::size_t next = 0;
    for (const Given& g : form_.inputs) {
      if (g.is_operand()) {
        inputs.push_back(operands[next++]);
      } else if (g.kind == Given::Kind::kNumber) {
        Tensor t(dtype, g.dims);
        for (std::int64_t i = 0; i < t.size(); ++i)
          if (!can_fill(dtype) || !store_double(t, i, g.number)) return std::nullopt;
        inputs.push_back(t);
      } else {
        inputs.push_back(g.kind == Given::Kind::kFixed ? Value(g.fixed) : Value());
      }
    }
    Node node = node_;
    for (std::size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(inputs[i].present() ? "i" + std::to_string(i) : "");
    static const std::unique_ptr<Evaluator> evaluator = make_evaluator();
    const auto out = evaluator->evaluate(node, form_.opset, inputs);
    if (!out.ok() || out->empty() || !(*out)[0].is_tensor()) return std::nullopt;
    return (*out)[0].tensor();
  }
  std::optional<Tensor> operator()(const Tensors& operands) const { return (*this)(operands, dtype_); }

  const std::string& name() const { return full_; }

 private:
  std::string full_;
  const Form& form_;
  DType dtype_;
  Node node_;
};

}  // namespace saturate::traits_test
