#include "kernels/decode/cache_pairs.h"

#include <gtest/gtest.h>

#include <string>

#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

Model decoder_of(const std::string& ports, const std::string& body) {
  auto model = parse_model_text("<ir_version: 10, opset_import: [\"\" : 20]>\ng (int64[batch,seq] input_ids, " + ports +
                                    " {\nlogits = Cast <to = 1> (input_ids)\n" + body + "\n}\n",
                                "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// "past -> present @axis", in the order of the inputs.
std::string pairs_in(const Model& model, const DecoderNames& names = {}) {
  std::vector<std::size_t> left;
  for (std::size_t i = 1; i < model.graph.inputs.size(); ++i) left.push_back(i);
  const CacheQuestion question{model.graph, names, 0, 0};
  auto pairs = cache_pairs(question, left);
  if (!pairs.ok()) return std::string(pairs.status().message());
  if (absl::Status s = find_token_axes(question, *pairs); !s.ok()) return std::string(s.message());
  std::string out;
  for (const CachePair& p : *pairs)
    out += model.graph.inputs[p.past].name + " -> " + model.graph.outputs[p.present].name + " @" + std::to_string(p.axis) + "\n";
  return out + (left.empty() ? "" : "left " + std::to_string(left.size()));
}

const std::string kTwo =
    "float[batch,2,past,4] past_0_key, float[batch,2,past,4] past_0_value) => "
    "(float[batch,seq,8] logits, float[batch,2,total,4] present_0_value, float[batch,2,total,4] present_0_key)";

const std::string kHandedOn = "present_0_key = Identity (past_0_key)\npresent_0_value = Identity (past_0_value)";

TEST(CachePairs, AreFoundByWhatNamesHaveInCommon) {
  EXPECT_EQ(pairs_in(decoder_of(kTwo, kHandedOn)), "past_0_key -> present_0_key @2\npast_0_value -> present_0_value @2\n");
}

TEST(CachePairs, AreInOrderWhereNamesTellNothing) {
  EXPECT_EQ(pairs_in(decoder_of(
                "float[batch,2,p,4] a, float[batch,2,p,4] b) => (float[batch,seq,8] logits, float[batch,2,t,4] c, float[batch,2,t,4] d)",
                "c = Identity (a)\nd = Identity (b)")),
            "a -> c @2\nb -> d @2\n");
}

TEST(CachePairs, FollowThePatternsThatAreGiven) {
  DecoderNames names;
  names.past = {"past_%d_key", "past_%d_value"};
  names.present = {"present_%d_value", "present_%d_key"};
  EXPECT_EQ(pairs_in(decoder_of(kTwo, kHandedOn), names), "past_0_key -> present_0_value @2\npast_0_value -> present_0_key @2\n");
  names.present = {"present_%d_value"};
  EXPECT_EQ(pairs_in(decoder_of(kTwo, kHandedOn), names), "2 patterns of past and 1 of present; give as many of each");
}

TEST(CachePairs, NeedAnAxisOfTokensThatIsClear) {
  const std::string found = pairs_in(
      decoder_of("float[batch,h,p,4] past) => (float[batch,seq,8] logits, float[batch,h2,t,4] present)", "present = Identity (past)"));
  EXPECT_EQ(found, "input 'past': which of its dims counts tokens is not clear; give the others by --dim SYMBOL=SIZE");
}

TEST(CachePairs, OfABufferAreWrittenInto) {
  const std::string ports = "float[1,2,8,4] past, int64[1,2,1,4] at, float[1,2,1,4] new) => (float[1,1,8] logits, float[1,2,8,4] present)";
  for (const auto& [body, writes] : {std::pair("present = ScatterElements <axis = 2> (past, at, new)", true),
                                     std::pair("c = Concat <axis = 2> (past, new)\npresent = Identity (c)", false)}) {
    const Model model = decoder_of(ports, body);
    EXPECT_EQ(writes_into_past(model.graph, GraphView(model.graph), {1, 1}), writes) << body;
  }
}

}  // namespace
}  // namespace saturate
