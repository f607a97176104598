#include "onnx_bridge/convert/flex_attention.h"

#include <array>
#include <string>

namespace saturate {
namespace {

using Body = FlexAttentionBody;

constexpr std::int64_t kShapeOfAxes = 15;  // the opset from which a Shape takes some axes alone

class BodyWriter {
 public:
  explicit BodyWriter(Body& body) : body_(body) {}

  // What made() gives a name to goes to these nodes from here on.
  void begin(std::vector<Node>& part) { part_ = &part; }

  std::string made(const std::string& op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}, std::string as = "") {
    if (as.empty()) as = " step " + std::to_string(steps_++);
    part_->push_back({"", op, "", "", std::move(inputs), {as}, std::move(attributes), nullptr});
    return as;
  }

  std::string constant(Tensor value) {
    body_.constants.emplace_back(" constant " + std::to_string(body_.constants.size()), std::move(value));
    return body_.constants.back().first;
  }

  std::string cast(const std::string& value, DType from, DType to) {
    return from == to ? value : made("Cast", {value}, {Attribute::of("to", static_cast<std::int64_t>(to))});
  }

  // One dim, as a vector.
  std::string size(const std::string& value, std::int64_t axis) {
    return made("Shape", {value}, {Attribute::of("start", axis), Attribute::of("end", axis + 1)});
  }

  // [batch, kv heads, ...] with each head so often as query heads share it.
  std::string repeated(const std::string& value) {
    const std::string batch = size(value, 0), heads = size(value, 1), tokens = size(value, 2), width = size(value, 3);
    const std::string all = size(Body::kQuery, 1), times = made("Div", {all, heads});
    const Attribute joined = Attribute::of("axis", std::int64_t{0});
    const std::string apart = made("Unsqueeze", {value, constant(Tensor::vector_int64(std::array<std::int64_t, 1>{2}))});
    const std::string spread = made("Expand", {apart, made("Concat", {batch, heads, times, tokens, width}, {joined})});
    return made("Reshape", {spread, made("Concat", {batch, all, tokens, width}, {joined})});
  }

 private:
  Body& body_;
  std::vector<Node>* part_ = nullptr;
  int steps_ = 0;
};

DType precision_of(const Node& node, DType dtype) {
  const auto usual = static_cast<std::int64_t>(dtype == DType::kDouble ? DType::kDouble : DType::kFloat);
  return static_cast<DType>(int_attribute(node, "softmax_precision", usual));
}

bool is_of_four_axes(const Facts& f) { return f.kind == Facts::Kind::kTensor && is_floating(f.dtype) && f.has_rank() && f.rank() == 4; }

// As a number, or 1 / sqrt(width of a head).
std::string scale_of(const Node& node, DType precision, BodyWriter& write) {
  const Attribute* given = find_attribute(node.attributes, "scale");
  if (given && given->type == AttributeType::kFloat)
    return write.cast(write.constant(Tensor::of<float>(DType::kFloat, {}, std::array{given->f()})), DType::kFloat, precision);
  return write.made("Reciprocal", {write.made("Sqrt", {write.cast(write.size(Body::kQuery, 3), DType::kInt64, precision)})});
}

}  // namespace

bool is_flex_attention(const Node& node) {
  return node.domain == "ai.onnx.preview" && node.op_type == "FlexAttention" && node.inputs.size() == 3 && node.outputs.size() == 1;
}

std::optional<FlexAttentionBody> flex_attention_body(const Node& node, const Facts& query, const Facts& key, const DimTable& dims,
                                                     const std::map<std::string, std::int64_t>& opsets) {
  const auto version = opsets.find("");
  if (version == opsets.end() || version->second < kShapeOfAxes) return std::nullopt;
  if (!is_of_four_axes(query) || !is_of_four_axes(key)) return std::nullopt;
  const DType dtype = query.dtype, precision = precision_of(node, dtype);
  if (!is_floating(precision) || bit_width(precision) < 16) return std::nullopt;
  const bool shared = !dims.equal((*query.shape)[1], (*key.shape)[1]);
  Body out;
  BodyWriter write(out);
  write.begin(out.scores);
  const std::string keys = shared ? write.repeated(Body::kKey) : Body::kKey;
  // In halves the sums over a head's width may lie beyond what they hold, so they are made where the probabilities are.
  const std::string turned =
      write.made("Transpose", {write.cast(keys, dtype, precision)}, {Attribute::of("perm", std::vector<std::int64_t>{0, 1, 3, 2})});
  const std::string products = write.made("MatMul", {write.cast(Body::kQuery, dtype, precision), turned});
  write.made("Mul", {products, scale_of(node, precision, write)}, {}, Body::kScores);
  write.begin(out.probabilities);
  write.made("Softmax", {Body::kScores}, {Attribute::of("axis", std::int64_t{-1})}, Body::kProbabilities);
  write.begin(out.result);
  const std::string values = shared ? write.repeated(Body::kValue) : Body::kValue;
  write.made("MatMul", {write.cast(Body::kProbabilities, precision, dtype), values}, {}, Body::kResult);
  return out;
}

}  // namespace saturate
