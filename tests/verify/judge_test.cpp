#include "kernels/judge/judge.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "kernels/judge/given_model.h"
#include "kernels/judge/wire.h"
#include "kernels/verify/choice.h"
#include "kernels/verify/verdict.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

// Of one number more than the identity, or of none. The name of the graph tells the fake runtime what to do (fake_onnxruntime.cpp).
Model identity(const std::string& name) {
  auto model = parse_model_text(
      fmt::format("<ir_version: 8, opset_import: [\"\" : 18]>\n{} (float[n] x) => (float[n] y) {{ y = Identity (x) }}", name), "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Model();
}

JudgeSetup setup(std::size_t memory = 0) {
  JudgeSetup out;
  out.memory = memory;
  out.program = SATURATE_JUDGE_PROGRAM;
  out.library = SATURATE_FAKE_ONNXRUNTIME;
  out.hang_seconds = 0.2;
  return out;
}

VerifyReport judged(const std::string& original, const std::string& result, bool kernels_may_be_missing = false, std::size_t memory = 0) {
  auto judge = Judge::start(setup(memory));
  EXPECT_TRUE(judge.ok()) << judge.status();
  VerifyOptions options;
  options.judges = {*judge};
  options.kernels_may_be_missing = kernels_may_be_missing;
  return verify(identity(original), identity(result), options);
}

void expect_fault(const VerifyReport& report, const std::string& part) {
  EXPECT_EQ(report.status, VerifyStatus::kDifferent);
  ASSERT_EQ(report.judged.size(), 1u);
  EXPECT_EQ(report.judged[0].verdict, JudgeVerdict::kFault);
  EXPECT_NE(report.message.find(part), std::string::npos) << report.message;
  EXPECT_EQ(report.message.find('\n'), std::string::npos) << report.message;
}

void expect_not_judged(const VerifyReport& report, const std::string& part) {
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  ASSERT_EQ(report.judged.size(), 1u);
  EXPECT_EQ(report.judged[0].verdict, JudgeVerdict::kNotJudged);
  EXPECT_NE(report.judged[0].message.find(part), std::string::npos) << report.judged[0].message;
  EXPECT_NE(judged_by(report).find("here only"), std::string::npos) << judged_by(report);
}

TEST(Judge, EqualModelsAreToldWithItsName) {
  const VerifyReport report = judged("a", "b");
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(judged_by(report), "in ONNX Runtime 1.99 and here");
  EXPECT_EQ(report.judged.at(0).version, "1.99.7");
  EXPECT_GE(report.judged.at(0).cases, 3u);
}

TEST(Judge, AResultThatItRefusesIsAtFault) {
  for (const char* level : {"0", "99", "any"}) {
    expect_fault(judged("a", fmt::format("judge_load_refuses_{}", level)), "does not load, and the original does: refused in two lines");
    expect_fault(judged("a", fmt::format("judge_run_refuses_{}", level)), "fails where the original runs");
  }
}

TEST(Judge, AResultThatEndsTheProcessIsAtFault) {
  expect_fault(judged("a", "judge_load_dies_99"),
               "with its optimizations: the result does not load, and the original does: ended its process");
  expect_fault(judged("a", "judge_run_dies_99"), "a fake abort");
  expect_fault(judged("a", "judge_run_dies_0"), "without its optimizations");
}

TEST(Judge, AResultThatHangsOrFillsMemoryIsAtFault) {
  expect_fault(judged("a", "judge_run_hangs_99"), "took more than");
  expect_fault(judged("a", "judge_run_fills_0"), "allocate memory");
}

TEST(Judge, TheProcessHasALimitOfMemory) {
  if (!wire::kLimitsMemory) GTEST_SKIP() << "a sanitizer takes terabytes of addresses";
  EXPECT_EQ(judged("a", "judge_run_takes_3_gb_any").status, VerifyStatus::kEqual);
  EXPECT_EQ(judged("a", "judge_load_takes_3_gb_any", false, std::size_t{4} << 30).status, VerifyStatus::kEqual);
  expect_fault(judged("a", "judge_load_takes_3_gb_any", false, 1), "bad_alloc");
  expect_fault(judged("a", "judge_run_takes_3_gb_any", false, 1), "bad_alloc");
  expect_not_judged(judged("judge_load_takes_3_gb_any", "judge_load_takes_3_gb_any", false, 1), "bad_alloc");
}

TEST(Judge, OtherNumbersAreAFaultUnlessTheOriginalHasThemToo) {
  expect_fault(judged("a", "judge_run_moves_0"), "without its optimizations: output 'y'");
  expect_fault(judged("a", "judge_run_moves_99"), "with its optimizations: output 'y'");
  const VerifyReport both = judged("judge_run_moves_99", "judge_run_moves_99");
  EXPECT_EQ(both.status, VerifyStatus::kEqual) << both.message;
  ASSERT_FALSE(both.notes.empty());
  EXPECT_NE(both.notes[0].find("the runtime's own optimizations"), std::string::npos) << both.notes[0];
}

TEST(Judge, WhatTheOriginalDoesTooIsNoFaultOfTheResult) {
  expect_not_judged(judged("judge_load_refuses_0", "b"), "it refuses the original: refused");
  expect_not_judged(judged("judge_load_dies_0", "judge_load_dies_0"), "ended its process");
  expect_not_judged(judged("judge_run_dies_0", "b"), "it does not run the original");
  const VerifyReport all = judged("judge_load_dies_99", "judge_load_dies_99");
  EXPECT_EQ(all.status, VerifyStatus::kEqual) << all.message;
  EXPECT_EQ(all.judged.at(0).verdict, JudgeVerdict::kEqual) << "the level without optimizations was compared";
}

TEST(Judge, AMissingKernelIsAFaultOnTargetsOfThatRuntimeAlone) {
  expect_fault(judged("a", "judge_load_no_kernel_any"), "no kernel");
  expect_not_judged(judged("a", "judge_load_no_kernel_any", true), "no kernel");
}

TEST(Judge, ADeadProcessIsFollowedByANewOne) {
  auto judge = Judge::start(setup());
  ASSERT_TRUE(judge.ok()) << judge.status();
  const auto dead = (*judge)->opener(JudgeLevel::kAll)(identity("judge_load_dies_any"));
  EXPECT_TRUE(absl::IsAborted(dead.status())) << dead.status();
  const auto alive = (*judge)->opener(JudgeLevel::kAll)(identity("a"));
  EXPECT_TRUE(alive.ok()) << alive.status();
}

TEST(Judge, TimesModelsInTurns) {
  auto judge = Judge::start(setup());
  ASSERT_TRUE(judge.ok()) << judge.status();
  Turns turns = (*judge)->turns();
  for (const char* name : {"a", "judge_run_works_any", "judge_run_refuses_any"}) ASSERT_TRUE(turns.add(identity(name)).ok());
  EXPECT_FALSE(turns.add(identity("judge_load_refuses_any")).ok());
  std::vector<TimedInputs> inputs(2);
  for (TimedInputs& set : inputs) set.inputs["x"] = Tensor(DType::kFloat, {4});
  const std::size_t both[] = {0, 1}, wrong[] = {0, 2};
  const auto rounds = turns.run(both, inputs, 5, 60);
  ASSERT_TRUE(rounds.ok()) << rounds.status();
  ASSERT_EQ(rounds->size(), 5u);
  for (const std::vector<double>& round : *rounds) EXPECT_GT(round.at(1), round.at(0)) << "one of them works for a millisecond";
  inputs[1].weight = 1000;
  const auto weighted = turns.run(both, inputs, 1, 60);
  ASSERT_TRUE(weighted.ok() && weighted->size() == 1) << weighted.status();
  EXPECT_GT(weighted->at(0).at(1), 0.5);
  const auto over = turns.run(both, inputs, 1000, 0);
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_LE(over->size(), 1u);
  EXPECT_FALSE(turns.run(wrong, inputs, 1, 60).ok());
  turns.drop(2);
  EXPECT_TRUE((*judge)->opener(JudgeLevel::kAll)(identity("judge_load_dies_any")).status().code() == absl::StatusCode::kAborted);
  EXPECT_TRUE(turns.run(both, inputs, 1, 60).ok()) << "loaded again into the process that came after";
}

TEST(Judge, GivesTheModelThatTheRuntimeMadeOfIt) {
  auto judge = Judge::start(setup());
  ASSERT_TRUE(judge.ok()) << judge.status();
  const auto made = (*judge)->after_load(identity("a"));
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->graph.nodes.size(), 1u);
  EXPECT_EQ(made->graph.nodes[0].op_type, "Identity");
  EXPECT_TRUE(absl::IsFailedPrecondition((*judge)->after_load(identity("judge_saves_nonsense_2")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument((*judge)->after_load(identity("judge_load_refuses_2")).status()));
  EXPECT_TRUE(absl::IsAborted((*judge)->after_load(identity("judge_load_dies_2")).status()));
  EXPECT_TRUE((*judge)->after_load(identity("a"), JudgeLevel::kAll).ok()) << "a new process took the place of the one that died";
}

TEST(Judge, SavesNoModelOfMoreThanTheRuntimeCanWrite) {
  auto judge = Judge::start(setup());
  ASSERT_TRUE(judge.ok()) << judge.status();
  Model model = identity("a");
  const Tensor weight(DType::kFloat, {std::int64_t{1} << 27});
  for (const char* name : {"u", "v", "w", "z"}) model.graph.initializers.push_back({name, weight, nullptr});
  const absl::Status refused = (*judge)->after_load(model).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
}

TEST(Judge, LargeWeightsGoByFilesAndAreNotInTheMessage) {
  Model model = identity("a");
  model.graph.initializers.push_back({"w", Tensor(DType::kFloat, {1 << 23}), nullptr});
  model.graph.initializers.push_back({"v", Tensor(DType::kFloat, {3}), nullptr});
  const auto given = give_model(model);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_LT((*given)->message.size(), 1000u);
  ASSERT_EQ((*given)->weights.size(), 1u);
  EXPECT_EQ((*given)->weights[0].name, "w");
  EXPECT_EQ((*given)->weights[0].bytes, std::size_t{1} << 25);
}

TEST(Judge, WhatIsNoRuntimeIsRefusedInALine) {
  JudgeSetup wrong = setup();
  wrong.library = SATURATE_JUDGE_PROGRAM;
  auto judge = Judge::start(wrong);
  ASSERT_TRUE(judge.ok()) << judge.status();
  EXPECT_TRUE(absl::IsFailedPrecondition((*judge)->ready())) << (*judge)->ready();
  wrong.program = "/no/such/program";
  EXPECT_TRUE(absl::IsNotFound(Judge::start(wrong).status()));
}

TEST(JudgeChoice, WordsAndPlaces) {
  VerifyOptions check;
  tell_installed_onnxruntime("/folder");
  EXPECT_TRUE(choose_judges({{"saturate"}, "", false}, check).ok());
  tell_installed_onnxruntime("");
  EXPECT_TRUE(check.judges.empty() && check.here);
  EXPECT_FALSE(choose_judges({{"openvino"}, "", false}, check).ok());
  EXPECT_TRUE(absl::IsUnimplemented(choose_judges({{"onnxruntime"}, "", false}, check)));
  EXPECT_TRUE(absl::IsNotFound(onnxruntime_library("/no/such/folder").status()));
  VerifyOptions none;
  EXPECT_TRUE(choose_judges({}, none).ok());
  EXPECT_TRUE(none.here && none.no_judge == "onnxruntime is not installed");
}

}  // namespace
}  // namespace saturate
