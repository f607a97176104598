#include "kernel_test_util.h"

namespace saturate::test {
namespace {

TEST(Image, ResizeNearestAndLinear) {
  const Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const auto resize = [&](const char* mode, std::vector<std::int64_t> sizes, std::vector<Attribute> more) {
    more.push_back(Attribute::of("mode", std::string(mode)));
    return eval({"Resize", "", 19, std::move(more)}, {x, Value(), Value(), ints({4}, std::move(sizes))});
  };
  expect_near(resize("nearest", {1, 1, 2, 4}, {}), floats({1, 1, 2, 4}, {1, 1, 2, 2, 3, 3, 4, 4}));
  expect_near(resize("linear", {1, 1, 1, 2}, {}), floats({1, 1, 1, 2}, {2, 3}));
  expect_near(resize("linear", {1, 1, 3, 2}, {Attribute::of("coordinate_transformation_mode", std::string("align_corners"))}),
              floats({1, 1, 3, 2}, {1, 2, 2, 3, 3, 4}));
  EXPECT_EQ(resize("cubic", {1, 1, 0, 2}, {}).dims(), (Shape{1, 1, 0, 2}));
}

TEST(Image, ResizeMovesEveryType) {
  const Attribute mode = Attribute::of("mode", std::string("nearest"));
  const Tensor y = eval({"Resize", "", 19, {mode}}, {make<std::int8_t>({2}, {-5, 7}), Value(), floats({1}, {2})});
  EXPECT_TRUE(identical(y, make<std::int8_t>({4}, {-5, -5, 7, 7})));
}

TEST(Image, ResizeRefusesImpossibleSizes) {
  const Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_FALSE(run({"Resize", "", 19}, {x, Value(), Value(), ints({4}, {1, 1, std::int64_t{1} << 62, 2})}).ok());
  EXPECT_FALSE(run({"Resize", "", 19}, {x, Value(), Value(), ints({4}, {1, 1, -1, 2})}).ok());
  EXPECT_FALSE(run({"Resize", "", 19}, {x, Value(), floats({4}, {1, 1, 0, 1})}).ok());
  EXPECT_FALSE(run({"Resize", "", 19}, {x}).ok());
  EXPECT_FALSE(run({"Resize", "", 19}, {floats({0}, {}), Value(), Value(), ints({1}, {3})}).ok());
}

// A constant stays constant wherever the weights add up to one.
TEST(Image, AntialiasedWeightsAddUp) {
  for (const char* mode : {"linear", "cubic"}) {
    const Call call{"Resize", "", 19, {Attribute::of("mode", std::string(mode)), Attribute::of("antialias", std::int64_t{1})}};
    const Tensor y = eval(call, {floats({11}, std::vector<float>(11, 2.5f)), Value(), Value(), ints({1}, {4})});
    expect_near(y, floats({4}, std::vector<float>(4, 2.5f)), 1e-5);
  }
}

TEST(Image, GridSamplePadding) {
  const Tensor x = floats({1, 1, 1, 3}, {1, 2, 4});
  const auto sample = [&](const char* padding, float at) {
    const Call call{"GridSample",
                    "",
                    20,
                    {Attribute::of("padding_mode", std::string(padding)), Attribute::of("align_corners", std::int64_t{1}),
                     Attribute::of("mode", std::string("nearest"))}};
    return *element_as_double(eval(call, {x, floats({1, 1, 1, 2}, {at, 0})}), 0);
  };
  EXPECT_EQ(sample("zeros", 2.0f), 0);
  EXPECT_EQ(sample("border", 2.0f), 4);
  EXPECT_EQ(sample("reflection", 2.0f), 2);
  EXPECT_EQ(sample("reflection", -3.0f), 4);
  EXPECT_EQ(sample("zeros", std::numeric_limits<float>::quiet_NaN()), 0);
}

TEST(Image, SuppressionKeepsTheBest) {
  const Tensor boxes = floats({1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 0.9f, 5, 5, 6, 6}), scores = floats({1, 1, 3}, {0.5f, 0.9f, 0.1f});
  const Tensor y = eval({"NonMaxSuppression", "", 11}, {boxes, scores, ints({1}, {10}), floats({1}, {0.5f}), floats({1}, {0.05f})});
  EXPECT_TRUE(identical(y, ints({2, 3}, {0, 0, 1, 0, 0, 2})));
  EXPECT_EQ(eval({"NonMaxSuppression", "", 11}, {boxes, scores}).dims(), (Shape{0, 3}));
}

TEST(Image, DecoderReadsPlainFormatsAndRefusesDamage) {
  const std::string ppm = "P6\n# note\n2 1\n255\n\x01\x02\x03\x04\x05\x06";
  const auto bytes = [](const std::string& s) {
    return make<std::uint8_t>({static_cast<std::int64_t>(s.size())}, std::vector<std::uint8_t>(s.begin(), s.end()));
  };
  EXPECT_TRUE(identical(eval({"ImageDecoder", "", 20, {Attribute::of("pixel_format", std::string("BGR"))}}, {bytes(ppm)}),
                        make<std::uint8_t>({1, 2, 3}, {3, 2, 1, 6, 5, 4})));
  EXPECT_FALSE(run({"ImageDecoder", "", 20}, {bytes(ppm.substr(0, ppm.size() - 1))}).ok());
  EXPECT_FALSE(run({"ImageDecoder", "", 20}, {bytes("P6 999999999 999999999 255 ")}).ok());
  EXPECT_FALSE(run({"ImageDecoder", "", 20}, {bytes(std::string("\x89PNG\r\n\x1a\n\xff\xff\xff\xff", 12))}).ok());
  EXPECT_FALSE(run({"ImageDecoder", "", 20}, {bytes("")}).ok());
  // Two pixels of colour, no filter, deflated.
  const std::string png(
      "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x02\x00\x00\x00\x01\x08\x02\x00\x00\x00\x7b"
      "\x40\xe8\xdd\x00\x00\x00\x0f\x49\x44\x41\x54\x78\xda\x63\xe0\x12\x91\xd3\x30\xb2\x01\x00\x02\x37\x00\xd3\xe2\x2d\xed\x9f",
      60);
  EXPECT_TRUE(identical(eval({"ImageDecoder", "", 20}, {bytes(png)}), make<std::uint8_t>({1, 2, 3}, {10, 20, 30, 40, 50, 60})));
  const auto with = [&](std::size_t at, char value) {
    std::string changed = png;
    changed[at] = value;
    return run({"ImageDecoder", "", 20}, {bytes(changed)}).ok();
  };
  EXPECT_TRUE(with(0x10, 0));                  // as it was
  EXPECT_FALSE(with(0x12, 1));                 // 258 pixels wide, of data for two
  EXPECT_FALSE(with(0x2d, '\x55'));            // damaged in the middle
  EXPECT_FALSE(with(png.size() - 5, '\x21'));  // a wrong checksum of the data
}

}  // namespace
}  // namespace saturate::test
