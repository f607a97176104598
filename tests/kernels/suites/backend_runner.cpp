// Runs many small models in one process and compares their outputs with recorded ones. Reads lines from standard input:
//   <folder> <rtol> <atol> <each|scale> [reference]
// A folder holds model.onnx and test_data_set_*/{input,output}_*.pb, as onnx.backend.test writes them. `each` compares as
// numpy.testing.assert_allclose, `scale` allows rtol times the largest expected magnitude. Prints a line a case:
//   RUN <folder> then PASS | FAIL <why> | UNSUPPORTED <why>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx/onnx-data_pb.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/proto/convert.h"

namespace {

using namespace saturate;

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;
  bool by_scale = false;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Tensor tensor_of(const std::shared_ptr<const void>& owner, const onnx::TensorProto& message) {
  ExternalFiles files("");
  proto::Reader reader(owner, files);
  return reader.read(message);
}

Value sequence_of(const std::shared_ptr<const void>& owner, const onnx::SequenceProto& message) {
  Sequence s;
  for (const auto& t : message.tensor_values()) s.items.emplace_back(tensor_of(owner, t));
  for (const auto& inner : message.sequence_values()) s.items.push_back(sequence_of(owner, inner));
  if (!s.items.empty() && s.items[0].is_tensor()) s.dtype = s.items[0].tensor().dtype();
  return s;
}

Value read_value(const std::filesystem::path& path, const ValueType& type) {
  const std::string bytes = read_file(path);
  if (type.kind == ValueType::Kind::kSequence) {
    auto message = std::make_shared<onnx::SequenceProto>();
    if (!message->ParseFromString(bytes)) throw std::runtime_error("cannot parse " + path.string());
    Value v = sequence_of(message, *message);
    if (type.element != nullptr) std::get<Sequence>(v.v).dtype = type.element->dtype;
    return v;
  }
  if (type.kind == ValueType::Kind::kOptional) {
    auto message = std::make_shared<onnx::OptionalProto>();
    if (!message->ParseFromString(bytes)) throw std::runtime_error("cannot parse " + path.string());
    Optional o;
    if (message->has_tensor_value()) o.value = std::make_shared<const Value>(tensor_of(message, message->tensor_value()));
    if (message->has_sequence_value()) o.value = std::make_shared<const Value>(sequence_of(message, message->sequence_value()));
    return o;
  }
  auto message = std::make_shared<onnx::TensorProto>();
  if (!message->ParseFromString(bytes)) throw std::runtime_error("cannot parse " + path.string());
  return tensor_of(message, *message);
}

std::string dims_text(const Tensor& t) { return fmt::format("{}[{}]", dtype_name(t.dtype()), fmt::join(t.dims(), ",")); }

// The elements as doubles; complex ones as pairs.
std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  if (t.dtype() == DType::kComplex64) {
    for (std::int64_t i = 0; i < 2 * t.size(); ++i) out.push_back(t.data<float>()[i]);
  } else if (t.dtype() == DType::kComplex128) {
    for (std::int64_t i = 0; i < 2 * t.size(); ++i) out.push_back(t.data<double>()[i]);
  } else {
    for (std::int64_t i = 0; i < t.size(); ++i) out.push_back(element_as_double(t, i).value_or(NAN));
  }
  return out;
}

std::string compare(const Tensor& got, const Tensor& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) return fmt::format("is {}, expected {}", dims_text(got), dims_text(want));
  if (want.dtype() == DType::kString) {
    for (std::size_t i = 0; i < want.string_data().size(); ++i) {
      if (got.string_data()[i] != want.string_data()[i])
        return fmt::format("[{}] is '{}', expected '{}'", i, got.string_data()[i], want.string_data()[i]);
    }
    return "";
  }
  if ((want.dtype() == DType::kInt64 || want.dtype() == DType::kUint64) && !identical(got, want)) return "integers differ";
  const std::vector<double> a = numbers(got), b = numbers(want);
  double scale = 0;
  for (double v : b) scale = std::max(scale, std::isfinite(v) ? std::fabs(v) : 0.0);
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double allowed = tolerance.atol + tolerance.rtol * (tolerance.by_scale ? scale : std::fabs(b[i]));
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::fabs(a[i] - b[i]) <= allowed;
    if (!same && wrong++ == 0) first = i;
  }
  if (wrong == 0) return "";
  return fmt::format("{} of {} elements of {} differ, first [{}]: {} expected {}", wrong, a.size(), dims_text(want), first, a[first],
                     b[first]);
}

std::string compare(const Value& got, const Value& want, const Tolerance& tolerance) {
  if (const auto* t = std::get_if<Tensor>(&want.v)) return got.is_tensor() ? compare(got.tensor(), *t, tolerance) : "is no tensor";
  if (const auto* s = std::get_if<Sequence>(&want.v)) {
    const auto* g = std::get_if<Sequence>(&got.v);
    if (g == nullptr) return "is no sequence";
    if (g->items.size() != s->items.size()) return fmt::format("has {} items, expected {}", g->items.size(), s->items.size());
    for (std::size_t i = 0; i < s->items.size(); ++i) {
      if (std::string why = compare(g->items[i], s->items[i], tolerance); !why.empty()) return fmt::format("item {} {}", i, why);
    }
    return "";
  }
  const auto* o = std::get_if<Optional>(&want.v);
  const auto* g = std::get_if<Optional>(&got.v);
  if (o == nullptr || g == nullptr) return got.v.index() == want.v.index() ? "" : "is no optional";
  if ((o->value == nullptr) != (g->value == nullptr)) return "differs in having a value";
  return o->value == nullptr ? "" : compare(*g->value, *o->value, tolerance);
}

std::string run_case(const std::filesystem::path& folder, const Tolerance& tolerance, bool reference) {
  const auto say = [](const absl::Status& s) {
    return fmt::format("{} {}", s.code() == absl::StatusCode::kUnimplemented ? "UNSUPPORTED" : "FAIL", std::string(s.message()));
  };
  absl::StatusOr<Model> model = load_model((folder / "model.onnx").string());
  if (!model.ok()) return say(model.status());
  SessionOptions options;
  options.reference = reference;
  absl::StatusOr<Session> session = Session::create(*model, options);
  if (!session.ok()) return say(session.status());
  for (int set = 0; std::filesystem::exists(folder / fmt::format("test_data_set_{}", set)); ++set) {
    const std::filesystem::path data = folder / fmt::format("test_data_set_{}", set);
    std::map<std::string, Value> inputs;
    for (std::size_t i = 0; i < model->graph.inputs.size(); ++i) {
      const std::filesystem::path file = data / fmt::format("input_{}.pb", i);
      if (std::filesystem::exists(file)) inputs[model->graph.inputs[i].name] = read_value(file, model->graph.inputs[i].type);
    }
    absl::StatusOr<std::vector<Value>> outputs = session->run(inputs);
    if (!outputs.ok()) return say(outputs.status());
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      const std::filesystem::path file = data / fmt::format("output_{}.pb", i);
      if (!std::filesystem::exists(file)) continue;
      const std::string why = compare((*outputs)[i], read_value(file, model->graph.outputs[i].type), tolerance);
      if (!why.empty()) return fmt::format("FAIL output '{}' {}", model->graph.outputs[i].name, why);
    }
  }
  return "PASS";
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string folder, mode, level;
    Tolerance tolerance;
    words >> folder >> tolerance.rtol >> tolerance.atol >> mode >> level;
    tolerance.by_scale = mode == "scale";
    std::cout << "RUN " << folder << std::endl;
    std::string result;
    try {
      result = run_case(folder, tolerance, level == "reference");
    } catch (const std::exception& e) {
      result = fmt::format("FAIL {}", e.what());
    } catch (const saturate::proto::LoadError& e) {
      result = fmt::format("FAIL {}", e.message);
    }
    std::replace(result.begin(), result.end(), '\n', ' ');
    std::cout << result << std::endl;
  }
}
