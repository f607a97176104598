#include "extract/target/runtime.h"

#include <gtest/gtest.h>

#include "extract/target/target.h"

namespace saturate {
namespace {

const Runtime kRuntime{"Some Runtime", {}, {{"1.9", 15, 8, {}}, {"1.10", 17, 8, {"com.microsoft::Gelu"}}, {"2.0", 21, 10, {}}}};

TEST(Runtime, VersionsAreComparedByNumbers) {
  EXPECT_TRUE(is_before("1.9", "1.10"));
  EXPECT_TRUE(is_before("1.10", "1.10.1"));
  EXPECT_FALSE(is_before("2", "1.31.1"));
  EXPECT_FALSE(is_before("1.20", "1.20"));
}

TEST(Runtime, AReleaseThatIsNotListedIsAsTheOneBeforeIt) {
  EXPECT_EQ(kRuntime.at("1.10.3")->opset, 17);
  EXPECT_EQ(kRuntime.at("1.10.3")->version, "1.10.3");
  EXPECT_EQ(kRuntime.at("1.99")->opset, 17);
  EXPECT_EQ(kRuntime.at("7")->opset, 21);
  for (const char* none : {"1.8", "", "new", "1.", "-1", "1.x"}) EXPECT_FALSE(kRuntime.at(none).ok()) << none;
  EXPECT_FALSE(Runtime().at("1.20").ok());
}

TEST(Runtime, TheOldestThatLoadsAModel) {
  EXPECT_EQ(kRuntime.oldest_for(13, 8)->version, "1.9");
  EXPECT_EQ(kRuntime.oldest_for(16, 7)->version, "1.10");
  EXPECT_EQ(kRuntime.oldest_for(13, 9)->version, "2.0");
  EXPECT_EQ(kRuntime.oldest_for(22, 8), nullptr);
}

TEST(Runtime, ATargetIsHeldToARelease) {
  const Target usual = load_target("ort-cpu").value(), asked = load_target("ort-cpu@1.23").value();
  EXPECT_EQ(usual.release->version, "1.23");
  EXPECT_EQ(load_target("ort-cuda")->release->version, "1.24");  // which names none: the oldest
  EXPECT_FALSE(usual.release_is_asked_for);
  const Target oldest = load_target("ort-cpu@1.20").value();
  EXPECT_EQ(oldest.highest_opset(), 21);
  EXPECT_EQ(asked.highest_opset(), 23);
  EXPECT_TRUE(asked.release_is_asked_for);
  EXPECT_EQ(asked.name, "ort-cpu@1.23");
  EXPECT_FALSE(builtin_target("ort-cpu")->release);
  EXPECT_EQ(builtin_target("ort-cpu")->highest_opset(), 23);
  Target lacking = oldest;
  lacking.release->lacks = {"com.microsoft::Gelu"};
  OpKey gelu;
  gelu.domain = "com.microsoft";
  gelu.op_type = "Gelu";
  std::string why;
  EXPECT_TRUE(oldest.allows({.key = gelu}));
  EXPECT_FALSE(lacking.allows({.key = gelu}, &why));
  EXPECT_EQ(why, "ONNX Runtime 1.20 has no com.microsoft::Gelu");
}

}  // namespace
}  // namespace saturate
