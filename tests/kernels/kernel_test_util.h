// Short hands for running one operator in a test.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/core/numeric.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/file/io.h"

namespace saturate::test {

inline Attribute ints_attr(std::string name, std::vector<std::int64_t> v) { return Attribute::of(std::move(name), std::move(v)); }
inline Attribute int_attr(std::string name, std::int64_t v) { return Attribute::of(std::move(name), v); }

inline Session session_of(const std::string& text, const SessionOptions& options = {}) {
  absl::StatusOr<Model> model = parse_model_text(text, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  absl::StatusOr<Session> session = Session::create(*model, options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

template <typename T>
Tensor make(Shape dims, std::vector<T> values) {
  if constexpr (std::is_same_v<T, bool>) {
    Tensor t(DType::kBool, std::move(dims));
    for (std::size_t i = 0; i < values.size(); ++i) t.mutable_as<bool>()[i] = values[i];
    return t;
  } else {
    return Tensor::of<T>(dtype_of<T>(), std::move(dims), std::span<const T>(values));
  }
}
inline Tensor floats(Shape dims, std::vector<float> values) { return make<float>(std::move(dims), std::move(values)); }
inline Tensor ints(Shape dims, std::vector<std::int64_t> values) { return make<std::int64_t>(std::move(dims), std::move(values)); }

// Numbers without pattern, the same on every machine.
inline std::vector<float> noise(std::size_t n, std::uint32_t seed) {
  std::vector<float> out(n);
  for (float& v : out) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return out;
}
inline Tensor noise_tensor(const Shape& dims, std::uint32_t seed) {
  return floats(dims,
                noise(static_cast<std::size_t>(std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>())), seed));
}

struct Call {
  std::string op, domain = "";
  std::int64_t opset = 21;
  std::vector<Attribute> attributes = {};
  int outputs = 1;
  bool reference = false;
};

inline absl::StatusOr<std::vector<Value>> run(const Call& call, const std::vector<Value>& inputs) {
  Node node;
  node.op_type = call.op;
  node.domain = call.domain;
  node.attributes = call.attributes;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    node.inputs.push_back(inputs[i].present() ? std::string("i").append(std::to_string(i)) : std::string());
  for (int i = 0; i < call.outputs; ++i) node.outputs.push_back(std::string("o").append(std::to_string(i)));
  return make_evaluator({.reference = call.reference})->evaluate(node, call.opset, inputs);
}

// The first output; a test failure and an empty tensor where there is none.
inline Tensor eval(const Call& call, const std::vector<Value>& inputs) {
  absl::StatusOr<std::vector<Value>> out = run(call, inputs);
  if (!out.ok() || out->empty() || !(*out)[0].is_tensor()) {
    ADD_FAILURE() << call.op << ": " << out.status().ToString();
    return Tensor();
  }
  return (*out)[0].tensor();
}

inline void expect_near(const Tensor& got, const Tensor& want, double tolerance = 1e-6) {
  ASSERT_EQ(got.dims(), want.dims());
  ASSERT_EQ(got.dtype(), want.dtype());
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double a = *element_as_double(got, i), b = *element_as_double(want, i);
    if (std::isnan(b))
      EXPECT_TRUE(std::isnan(a)) << "element " << i;
    else if (std::isinf(b))
      EXPECT_EQ(a, b) << "element " << i;
    else
      EXPECT_NEAR(a, b, tolerance) << "element " << i;
  }
}

}  // namespace saturate::test
