#include "tools/measure/operator_timer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <type_traits>

#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "kernels/inputs/draw_inputs.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kFewCopies = 2, kMostCopies = 60;  // copies
constexpr std::size_t kFirstRounds = 5, kTimedRounds = 100000;
constexpr double kShortRun = 1e-3;           // seconds: on a busy machine no longer run goes undisturbed
constexpr double kMostBytesOfCopies = 64e6;  // bytes of all copies
constexpr std::int64_t kMostElementsOfACase = std::int64_t{1} << 28;
constexpr std::int64_t kIrOfCopies = 10;
constexpr std::size_t kDrawnNumbers = 1 << 16;  // different numbers of a tensor

// Attributes as JSON has them: a whole number is an integer, and one with a point a float.
absl::StatusOr<Attribute> attribute_of_case(const std::string& name, const json& value) {
  if (value.is_number_integer()) return Attribute::of(name, value.get<std::int64_t>());
  if (value.is_number_float()) return Attribute::of(name, value.get<float>());
  if (value.is_string()) return Attribute::of(name, value.get<std::string>());
  if (value.is_array() && std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_number_integer(); }))
    return Attribute::of(name, value.get<std::vector<std::int64_t>>());
  return absl::InvalidArgumentError(fmt::format("attribute {} is of no known kind", name));
}

template <typename T>
void fill_case(Tensor& tensor, const json& values, double scale, Random& random) {
  T* const to = reinterpret_cast<T*>(tensor.mutable_data());
  const auto n = static_cast<std::size_t>(tensor.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (values.size() == 1)
      to[i] = values[0].is_boolean() ? static_cast<T>(values[0].get<bool>()) : values[0].get<T>();
    else if (values.size() == n)
      to[i] = values[i].is_boolean() ? static_cast<T>(values[i].get<bool>()) : values[i].get<T>();
    else if (i >= kDrawnNumbers)
      to[i] = to[i - kDrawnNumbers];
    else if constexpr (std::is_floating_point_v<T>)
      to[i] = static_cast<T>(random.normal() * scale);
    else
      to[i] = static_cast<T>(random.below(sizeof(T) == 1 ? 256 : 2));
  }
}

absl::Status fill_case(Tensor& tensor, const json& values, double scale, Random& random) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      fill_case<float>(tensor, values, scale, random);
      break;
    case DType::kDouble:
      fill_case<double>(tensor, values, scale, random);
      break;
    case DType::kInt64:
      fill_case<std::int64_t>(tensor, values, scale, random);
      break;
    case DType::kInt32:
      fill_case<std::int32_t>(tensor, values, scale, random);
      break;
    case DType::kUint16:
      fill_case<std::uint16_t>(tensor, values, scale, random);
      break;
    case DType::kInt8:
      fill_case<std::int8_t>(tensor, values, scale, random);
      break;
    case DType::kUint8:
      fill_case<std::uint8_t>(tensor, values, scale, random);
      break;
    case DType::kBool:
      fill_case<bool>(tensor, values, scale, random);
      break;
    default:
      return absl::InvalidArgumentError(fmt::format("values of {} are not drawn", dtype_name(tensor.dtype())));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> tensor_of_case(const json& held, bool weight, Random& random) {
  const auto dtype = parse_dtype(held.at("dtype").get<std::string>());
  auto dims = held.at("shape").get<Shape>();
  const auto elements = checked_elements(dims);
  if (!dtype || !elements || *elements > kMostElementsOfACase) return absl::InvalidArgumentError("no such tensor");
  // Else scores of attention are so large that Softmax leaves denormal numbers.
  const double scale = weight && dims.size() == 2 && dims[0] > 0 ? 1 / std::sqrt(static_cast<double>(dims[0])) : 1;
  const json values = held.value("values", json::array());
  if (values.size() > 1 && values.size() != static_cast<std::size_t>(*elements))
    return absl::InvalidArgumentError("as many values as elements are wanted");
  Tensor out(*dtype, std::move(dims));
  if (absl::Status s = fill_case(out, values, scale, random); !s.ok()) return s;
  return out;
}

ValueInfo info_of_case(const std::string& name, const Tensor& tensor) {
  ValueInfo info{name, {}, nullptr};
  info.type.kind = ValueType::Kind::kTensor;
  info.type.dtype = tensor.dtype();
  info.type.shape.emplace();
  for (const std::int64_t d : tensor.dims()) info.type.shape->emplace_back(d);
  return info;
}

// Other numbers: equal weights would share one packed copy, and stay in the cache.
Tensor for_copy(const Tensor& weight, std::size_t copy) {
  if (weight.dtype() != DType::kFloat || weight.size() < 2) return weight;
  Tensor out = weight;
  float* const to = reinterpret_cast<float*>(out.mutable_data());
  for (std::int64_t i = 0; i < out.size(); ++i) to[i] += static_cast<float>(copy) * 1e-3f;
  return out;
}

struct Copies {
  Model model;
  Inputs inputs;
};

// `copies` of the operator, with a reader of each output, so that its memory is used again for the next copy. The model's one output is
// tiny.
Copies model_of_copies(const TimedOperator& op, std::size_t copies, bool readers) {
  Copies out;
  Model& model = out.model;
  model.ir_version = kIrOfCopies;
  model.opset_imports = {{"", op.opset}};
  if (!op.domain.empty()) model.opset_imports[op.domain] = 1;
  model.graph.name = "one";
  const Tensor one = Tensor::vector_int64(std::vector<std::int64_t>{1});
  for (std::size_t c = 0; c < copies; ++c) {
    Node node;
    node.op_type = op.op_type, node.domain = op.domain, node.attributes = op.attributes;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto& tensor = op.inputs[i];
      node.inputs.push_back(!tensor ? "" : op.weight[i] ? fmt::format("w{}_{}", c, i) : fmt::format("x{}", i));
      if (!tensor) continue;
      if (op.weight[i]) model.graph.initializers.push_back({node.inputs.back(), for_copy(*tensor, c), nullptr});
      if (op.weight[i] || c > 0) continue;
      model.graph.inputs.push_back(info_of_case(node.inputs.back(), *tensor));
      out.inputs.emplace(node.inputs.back(), *tensor);
    }
    for (std::size_t k = 0; k < op.outputs; ++k) node.outputs.push_back(fmt::format("y{}_{}", c, k));
    const std::vector<std::string> made = node.outputs;
    model.graph.nodes.push_back(std::move(node));
    if (readers)
      for (const std::string& y : made) model.graph.nodes.push_back({"", "Shape", "", "", {y}, {"s_" + y}, {}, nullptr});
  }
  model.graph.nodes.push_back({"", "Identity", "", "", {"one"}, {"done"}, {}, nullptr});
  model.graph.inputs.push_back(info_of_case("one", one));
  out.inputs.emplace("one", one);
  model.graph.outputs.push_back(info_of_case("done", one));
  return out;
}

double bytes_of_weights(const TimedOperator& op) {
  double sum = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (op.weight[i] && op.inputs[i]) sum += static_cast<double>(op.inputs[i]->bytes().size());
  return sum;
}

// The least of each, over all rounds.
std::vector<double> least_of_rounds(const std::vector<std::vector<double>>& rounds, std::size_t n) {
  std::vector<double> out(n, std::numeric_limits<double>::infinity());
  for (const std::vector<double>& round : rounds)
    for (std::size_t i = 0; i < n; ++i) out[i] = std::min(out[i], round[i]);
  return out;
}

}  // namespace

absl::StatusOr<TimedOperator> timed_operator(const json& line) {
  try {
    const json& node = line.at("node");
    TimedOperator out;
    out.op_type = node.at("op_type");
    out.domain = node.value("domain", "");
    out.opset = node.value("opset", std::int64_t{23});
    out.outputs = node.value("outputs", std::size_t{1});
    const json attributes = node.value("attrs", json::object());
    for (const auto& [name, value] : attributes.items()) {
      auto attribute = attribute_of_case(name, value);
      if (!attribute.ok()) return attribute.status();
      out.attributes.push_back(*std::move(attribute));
    }
    const auto weights = node.value("weights", std::set<std::size_t>{});
    Random random(0);
    for (const json& held : line.at("inputs")) {
      out.weight.push_back(weights.contains(out.inputs.size()));
      if (held.is_null()) {
        out.inputs.emplace_back();
        continue;
      }
      auto tensor = tensor_of_case(held, out.weight.back(), random);
      if (!tensor.ok()) return tensor.status();
      out.inputs.emplace_back(*std::move(tensor));
    }
    return out;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("no case of bench/runtime/calibration_rows.py: {}", error.what()));
  }
}

absl::StatusOr<double> OperatorTimer::difference(const TimedOperator& op, bool readers, double seconds) {
  Turns turns = runtime_->turns({.level = JudgeLevel::kNone, .wall = threads_ > 1});
  const Copies few = model_of_copies(op, kFewCopies, readers);
  const std::vector<TimedInputs> inputs{{few.inputs, 1}};
  std::vector<std::size_t> numbers;
  const auto add = [&](const Model& model) -> absl::StatusOr<double> {
    auto number = turns.add(model);
    if (!number.ok()) return number.status();
    numbers.push_back(*number);
    const std::size_t alone[] = {*number};
    auto rounds = turns.run(alone, inputs, kFirstRounds, std::numeric_limits<double>::max());
    if (!rounds.ok()) return rounds.status();
    return least_of_rounds(*rounds, 1)[0];
  };
  const auto first = add(few.model);
  if (!first.ok()) return first.status();
  const double most = std::min({static_cast<double>(kMostCopies), static_cast<double>(kFewCopies) * kShortRun / std::max(*first, 1e-9),
                                kMostBytesOfCopies / std::max(1.0, bytes_of_weights(op))});
  const std::size_t more = std::max<std::size_t>(2, static_cast<std::size_t>(most));
  const auto second = add(model_of_copies(op, kFewCopies + more, readers).model);
  if (!second.ok()) return second.status();
  auto rounds = turns.run(numbers, inputs, kTimedRounds, seconds);
  if (!rounds.ok()) return rounds.status();
  rounds->push_back({*first, *second});
  const std::vector<double> best = least_of_rounds(*rounds, 2);
  return (best[1] - best[0]) / static_cast<double>(more);
}

absl::StatusOr<double> OperatorTimer::seconds(const TimedOperator& op, double seconds) {
  if (!reader_) {
    const TimedOperator shape{"Shape", "", op.opset, {}, {Tensor(DType::kFloat, {1, 1})}, {false}, 1};
    const auto took = difference(shape, false, seconds);
    if (!took.ok()) return took.status();
    reader_ = *took;
  }
  const auto took = difference(op, true, seconds);
  if (!took.ok()) return took.status();
  return std::max(kLeastSeconds, *took - *reader_ * static_cast<double>(op.outputs));
}

}  // namespace saturate
