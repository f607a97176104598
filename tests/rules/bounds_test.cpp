#include "rules/values/bounds.h"

#include <gtest/gtest.h>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/op_key.h"
#include "rules/values/quantizers.h"

namespace saturate {
namespace {

class BoundsOfClasses : public testing::Test {
 protected:
  BoundsOfClasses() : evaluator_(make_evaluator()), g_(*evaluator_) {
    x_ = input("x", DType::kFloat);
    y_ = input("y", DType::kFloat);
  }
  Id input(const std::string& name, DType dtype) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = dtype;
    f.shape = std::vector<Dim>{g_.dims().constant(3), g_.dims().constant(5)};
    return g_.input(name, f);
  }
  Id op(std::string_view type, std::vector<Id> children, std::vector<Attribute> attributes = {}) {
    return g_.add(make_key("", type, std::move(attributes), 1, 2), children);
  }
  Id number(float v) { return g_.constant(Tensor::of<float>(DType::kFloat, {}, std::span(&v, 1))); }
  void expect(Id id, double low, double high) {
    g_.egraph().rebuild();
    const Bounds found = bounds_of(g_, id);
    EXPECT_EQ(found.low, low);
    EXPECT_EQ(found.high, high);
  }

  std::unique_ptr<Evaluator> evaluator_;
  OnnxEGraph g_;
  Id x_ = kNone, y_ = kNone;
};

TEST_F(BoundsOfClasses, AreThoseOfOperators) {
  const Id sigmoid = op("Sigmoid", {x_}), erf = op("Erf", {x_});
  expect(x_, -HUGE_VAL, HUGE_VAL);
  expect(sigmoid, 0, 1);
  expect(op("Add", {erf, number(1)}), 0, 2);
  expect(op("Sub", {sigmoid, erf}), -1, 2);
  expect(op("Mul", {erf, number(-3)}), -3, 3);
  expect(op("Mul", {erf, op("Relu", {x_})}), -HUGE_VAL, HUGE_VAL);
  expect(op("Mul", {x_, x_}), 0, HUGE_VAL);
  expect(op("Mul", {x_, y_}), -HUGE_VAL, HUGE_VAL);
  expect(op("Pow", {x_, number(2)}), 0, HUGE_VAL);
  expect(op("Pow", {x_, number(3)}), -HUGE_VAL, HUGE_VAL);
  expect(op("Div", {erf, number(0.5)}), -2, 2);
  expect(op("Div", {erf, number(-0.5)}), -HUGE_VAL, HUGE_VAL);
  expect(op("Max", {x_, number(-2)}), -2, HUGE_VAL);
  expect(op("Min", {erf, number(-2)}), -2, -2);
  expect(op("Transpose", {sigmoid}, {Attribute::of("perm", std::vector<std::int64_t>{1, 0})}), 0, 1);
}

TEST_F(BoundsOfClasses, OfAClipAreItsOwnThoughTheyCross) {
  expect(op("Clip", {x_, number(-1), number(4)}), -1, 4);
  expect(op("Clip", {op("Sigmoid", {x_}), number(0.5)}), 0.5, 1);
  expect(op("Clip", {x_, number(4), number(-1)}), -1, -1);  // the upper one wins
}

TEST_F(BoundsOfClasses, OfDequantizedNumbersAreTheRangeOfTheirIntegers) {
  const std::int8_t zero = -28;
  const Id z = g_.constant(Tensor::of<std::int8_t>(DType::kInt8, {}, std::span(&zero, 1)));
  const Id d = op("DequantizeLinear", {input("q", DType::kInt8), number(0.5), z});
  expect(d, -50, 77.5);
  expect(op("DequantizeLinear", {input("u", DType::kUint8), number(2)}), 0, 510);
  expect(op("DequantizeLinear", {input("v", DType::kInt8), number(-0.5)}), -HUGE_VAL, HUGE_VAL);
  expect(op("DequantizeLinear", {input("w", DType::kInt32), number(0.5)}), -HUGE_VAL, HUGE_VAL);
}

TEST_F(BoundsOfClasses, OfOneClassAreWhatAllItsNodesSay) {
  const Id both = op("Neg", {x_});
  g_.egraph().merge(both, op("Tanh", {y_}));
  g_.egraph().merge(both, op("Relu", {y_}));
  expect(both, 0, 1);
}

TEST_F(BoundsOfClasses, AQuantizerThatAlsoReadsAClippedValueIsABound) {
  const Id scale = number(0.1F), low = number(0), q = op("QuantizeLinear", {x_, scale});
  g_.egraph().rebuild();
  EXPECT_TRUE(quantizes_one(g_, q));
  const Id again = op("QuantizeLinear", {op("DequantizeLinear", {q, scale}), scale});
  g_.egraph().merge(q, again);
  g_.egraph().rebuild();
  EXPECT_TRUE(quantizes_one(g_, q));
  g_.egraph().merge(q, op("QuantizeLinear", {op("Clip", {x_, low}), scale}));
  g_.egraph().rebuild();
  EXPECT_FALSE(quantizes_one(g_, q));
}

}  // namespace
}  // namespace saturate
