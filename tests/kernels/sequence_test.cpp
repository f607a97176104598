#include "kernel_test_util.h"

namespace saturate::test {
namespace {

const Sequence& sequence(const absl::StatusOr<std::vector<Value>>& out) { return std::get<Sequence>(out->front().v); }

TEST(Sequence, GrowsAndShrinks) {
  const auto made = run({"SequenceConstruct"}, {ints({1}, {1}), ints({2}, {2, 3})});
  ASSERT_TRUE(made.ok());
  const auto longer = run({"SequenceInsert"}, {made->front(), ints({1}, {9}), ints({}, {-1})});
  ASSERT_TRUE(longer.ok());
  ASSERT_EQ(sequence(longer).items.size(), 3u);
  EXPECT_EQ(*element_as_int(sequence(longer).items[1].tensor(), 0), 9);
  const auto shorter = run({"SequenceErase"}, {longer->front(), ints({}, {0})});
  ASSERT_TRUE(shorter.ok());
  EXPECT_EQ(*element_as_int(eval({"SequenceLength"}, {shorter->front()}), 0), 2);
  EXPECT_EQ(*element_as_int(eval({"SequenceAt"}, {shorter->front(), ints({}, {-2})}), 0), 9);
  EXPECT_FALSE(run({"SequenceAt"}, {shorter->front(), ints({}, {2})}).ok());
  EXPECT_FALSE(run({"SequenceErase"}, {Sequence{}}).ok());
  EXPECT_FALSE(run({"SequenceInsert"}, {made->front(), floats({1}, {1})}).ok());
}

TEST(Sequence, SplitsAndJoins) {
  const Tensor x = ints({5}, {0, 1, 2, 3, 4});
  const auto parts = run({"SplitToSequence"}, {x, ints({}, {2})});
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(sequence(parts).items.size(), 3u);
  EXPECT_EQ(sequence(parts).items[2].tensor().dims(), Shape{1});
  EXPECT_TRUE(identical(eval({"ConcatFromSequence", "", 11, {Attribute::of("axis", std::int64_t{0})}}, {parts->front()}), x));
  const auto single = run({"SplitToSequence", "", 11, {Attribute::of("keepdims", std::int64_t{0})}}, {x});
  ASSERT_TRUE(single.ok());
  EXPECT_EQ(sequence(single).items[0].tensor().rank(), 0);
  const Tensor stacked =
      eval({"ConcatFromSequence", "", 11, {Attribute::of("axis", std::int64_t{-1}), Attribute::of("new_axis", std::int64_t{1})}},
           {single->front()});
  EXPECT_TRUE(identical(stacked, x));
  // ONNX Runtime drops the dim where the length is 1, too, and PyTorch's unbind counts on it.
  const auto one = run({"SplitToSequence", "", 11, {Attribute::of("keepdims", std::int64_t{0})}}, {x, ints({}, {1})});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(sequence(one).items[0].tensor().rank(), 0);
  EXPECT_FALSE(run({"SplitToSequence"}, {x, ints({2}, {1, 1})}).ok());
  EXPECT_FALSE(run({"SplitToSequence"}, {x, ints({}, {0})}).ok());
}

TEST(Sequence, OptionalsMayBeEmpty) {
  const auto empty = run({"Optional", "", 15}, {});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(*element_as_int(eval({"OptionalHasElement", "", 18}, {empty->front()}), 0), 0);
  EXPECT_FALSE(run({"OptionalGetElement", "", 18}, {empty->front()}).ok());
  const auto full = run({"Optional", "", 15}, {ints({1}, {4})});
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(*element_as_int(eval({"OptionalHasElement", "", 18}, {full->front()}), 0), 1);
  EXPECT_EQ(*element_as_int(eval({"OptionalGetElement", "", 18}, {full->front()}), 0), 4);
}

}  // namespace
}  // namespace saturate::test
