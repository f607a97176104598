// Chains of operators and what ONNX Runtime takes for one after a rewriting over one before it: as timed end to end, and by the table.
#pragma once

#include <string>
#include <vector>

#include "extract/price/op_times.h"
#include "gtest/gtest.h"

namespace saturate::flips {

using Shape = Sizes1D;

inline OpUse use(std::string op, std::vector<Shape> inputs, Shape output, const std::vector<std::size_t>& constants = {},
                 std::vector<Attribute> attributes = {}) {
  OpUse u;
  u.op = std::move(op);
  u.constant.assign(inputs.size(), 0);
  for (const std::size_t i : constants) u.constant[i] = 1;
  u.inputs = std::move(inputs);
  u.outputs = {std::move(output)};
  u.attributes = std::move(attributes);
  return u;
}

inline OpUse unary(const std::string& op, const Shape& x) { return use(op, {x}, x); }
inline OpUse same(const std::string& op, const Shape& x) { return use(op, {x, x}, x); }
inline OpUse scalar(const std::string& op, const Shape& x) { return use(op, {x, {1}}, x, {1}); }
inline OpUse by_weight(const std::string& op, const Shape& x) { return use(op, {x, {x.back()}}, x, {1}); }
inline OpUse by_row(const std::string& op, Shape x) {
  Shape one = x;
  one.back() = 1;
  return use(op, {x, one}, x);
}
inline OpUse reduce(const std::string& op, const Shape& x) {
  Shape one = x;
  one.back() = 1;
  return use(op, {x, {1}}, one, {1}, {Attribute::of("keepdims", std::int64_t{1})});
}
inline OpUse product(const Shape& x, double columns) {
  Shape y = x;
  y.back() = columns;
  return use("MatMul", {x, {x.back(), columns}}, y, {1});
}
inline OpUse moved(const Shape& x, const std::vector<std::int64_t>& perm) {
  Shape y;
  for (const std::int64_t p : perm) y.push_back(x[static_cast<std::size_t>(p)]);
  return use("Transpose", {x}, y, {}, {Attribute::of("perm", perm)});
}

struct Flip {
  std::string name;
  double rows, measured;  // after / before
  std::vector<OpUse> before, after;
};

inline std::vector<OpUse> operator+(std::vector<OpUse> a, const std::vector<OpUse>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What clearly pays or loses must do so by the shipped table; the rest comes out about as measured.
inline void expect_as_timed(const std::vector<Flip>& flips) {
  const auto times = load_op_times("measured");
  ASSERT_TRUE(times.ok()) << times.status();
  const auto sum = [&](const std::vector<OpUse>& uses) {
    double s = 0;
    for (const OpUse& u : uses) s += (*times)->seconds(u);
    return s;
  };
  for (const Flip& f : flips) {
    const double predicted = sum(f.after) / sum(f.before);
    testing::Test::RecordProperty(f.name + " " + std::to_string(static_cast<int>(f.rows)), std::to_string(predicted));
    if (f.measured > 1.25) {
      EXPECT_GT(predicted, 1.05) << f.name << " at " << f.rows << " rows, measured " << f.measured;
    } else if (f.measured < 0.85) {
      EXPECT_LT(predicted, 0.95) << f.name << " at " << f.rows << " rows, measured " << f.measured;
    } else {
      EXPECT_NEAR(predicted, f.measured, 0.25) << f.name << " at " << f.rows << " rows";
    }
  }
}

}  // namespace saturate::flips
