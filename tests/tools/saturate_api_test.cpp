#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/api/saturate.h"

namespace saturate::api {
namespace {

const std::string kBart = SATURATE_SOURCE_DIR "/tests/data/bart_encoder.onnx";

std::string file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Temporary, named per process.
std::string scratch(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("saturate_api_" + std::to_string(::getpid()) + "_" + name)).string();
}

Model text_model(const std::string& text) {
  const std::string path = scratch("model.onnxtxt");
  std::ofstream(path) << text;
  auto model = Model::load(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return *model;
}

Model relus() {
  return text_model(R"(<ir_version: 8, opset_import: ["" : 18]>
g (float[N,2] x) => (float[N,2] y) { a = Relu (x)
 b = Relu (a)
 y = Add (b, b) })");
}

Tensor floats(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  const auto owner = std::make_shared<const std::vector<float>>(values);
  return {1, std::move(shape), std::as_bytes(std::span(*owner)), {}, owner};
}

std::vector<float> values_of(const Value& value) {
  const Tensor& t = std::get<Tensor>(value.v);
  std::vector<float> out(t.data.size() / sizeof(float));
  std::memcpy(out.data(), t.data.data(), t.data.size());
  return out;
}

TEST(Api, OptimizesVerifiesAndSaves) {
  const auto model = Model::load(kBart);
  ASSERT_TRUE(model) << model.error().message;
  std::vector<std::string> stages;
  Options options{.cost = "nodes"};
  options.progress = [&](const Progress& p) {
    if (stages.empty() || stages.back() != p.stage) stages.push_back(p.stage);
  };
  const auto result = optimize(*model, options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(stages.front(), "lower");
  EXPECT_EQ(stages.back(), "verify");
  EXPECT_NE(result->report.json().find("\"made_by_rules\""), std::string::npos);
  EXPECT_NE(result->report.table().find("verified: "), std::string::npos);
  const auto same = verify(*model, result->model);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->equal) << same->message;
  const std::string path = scratch("out.onnx");
  ASSERT_TRUE(result->model.save(path));
  const auto bytes = result->model.serialize();
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, file(path));
  EXPECT_TRUE(Model::load(path));
  std::filesystem::remove(path);
  const auto why = explain(*model, {.op = "Gelu"}, options);
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("\"rule\""), std::string::npos);
}

TEST(Api, PrefersSingleHeads) {
  const auto model = Model::load(kBart);
  ASSERT_TRUE(model) << model.error().message;
  const auto count = [](const Result& result) {
    const std::string json = result.report.json(), word = "\"Softmax\": ";
    const std::size_t at = json.find(word, json.find("\"after\""));
    return at == std::string::npos ? 0 : std::stoi(json.substr(at + word.size()));
  };
  const auto together = optimize(*model, {.target = "onnx", .cost = "nodes"});
  const auto apart = optimize(*model, {.target = "onnx", .prefer = {"single-heads"}, .cost = "nodes"});
  ASSERT_TRUE(together && apart);
  EXPECT_GT(count(*apart), count(*together));
  EXPECT_FALSE(optimize(*model, {.prefer = {"two-heads"}}));
}

TEST(Api, InputsAndOutputsOfAnotherRank) {
  const auto result = optimize(relus(), {.io_rank = 4});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NE(result->model.text().find("(float[1,1,N,2] x) => (float[1,1,N,2] y)"), std::string::npos) << result->model.text();
  EXPECT_NE(result->report.table().find("changed as asked (--io-rank 4): input 'x' [N,2] -> [1,1,N,2]"), std::string::npos);
  const auto refused = optimize(relus(), {.io_rank = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFile);
  const auto senseless = optimize(relus(), {.io_rank = 0});
  ASSERT_FALSE(senseless);
  EXPECT_EQ(senseless.error().code, Code::kUsage);
}

TEST(Api, WeightsApartFromTheBytes) {
  const std::string bytes = file(kBart);
  const auto whole = Model::parse(bytes);
  ASSERT_TRUE(whole);
  std::vector<Model::Weight> weights;
  const auto skeleton = whole->serialize(64, &weights);
  ASSERT_TRUE(skeleton);
  ASSERT_GT(weights.size(), 10u);
  EXPECT_LT(skeleton->size(), bytes.size() / 2);
  const auto apart = Model::parse(*skeleton, "", weights);
  ASSERT_TRUE(apart) << apart.error().message;
  EXPECT_EQ(*apart->serialize(), *whole->serialize());
  EXPECT_EQ(*optimize(*apart)->model.serialize(), *optimize(*whole)->model.serialize());
  weights.pop_back();
  EXPECT_FALSE(Model::parse(*skeleton, "", weights));
}

TEST(Api, ErrorsAreOneLineWithACode) {
  const auto missing = Model::load("no/such/model.onnx");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kFile);
  EXPECT_NE(missing.error().message.find("no/such/model.onnx"), std::string::npos);
  EXPECT_FALSE(Model::parse("rubbish"));
  const Model model = relus();
  const auto code = [&](const Options& options) {
    const auto result = optimize(model, options);
    EXPECT_FALSE(result);
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
    return result.error().code;
  };
  EXPECT_EQ(code({.target = "no-such-target"}), Code::kUsage);
  EXPECT_EQ(code({.target = "no/such.json"}), Code::kFile);
  EXPECT_EQ(code({.skip_fusions = {"Attenion"}}), Code::kUsage);
  EXPECT_EQ(code({.dims = {{"batch", 2}}}), Code::kUsage);
  EXPECT_EQ(code({.cost_at = {{{{"N", 2}}, -1}}}), Code::kUsage);
  EXPECT_EQ(code({.threads = -1}), Code::kUsage);
  EXPECT_EQ(code({.opset = 18, .keep_opset = true}), Code::kUsage);
  EXPECT_EQ(code({.cost_model = [](const Operator&) { return -1.0; }}), Code::kUsage);
  EXPECT_EQ(code({.cost_model = [](const Operator&) { return std::nan(""); }}), Code::kUsage);
  EXPECT_FALSE(model.save("no/such/folder/out.onnx"));
}

TEST(Api, RuleSets) {
  const auto all = RuleSet::builtin();
  ASSERT_TRUE(all);
  EXPECT_GT(all->names().size(), 50u);
  EXPECT_TRUE(RuleSet::none().names().empty());
  EXPECT_FALSE(all->without({"no_such_rule"}));
  const auto mine = RuleSet::none().with_text(R"(opset "" 18
rule relu_relu (X) => (Y)
  { A = Relu (X)
    Y = Relu (A) }
  =>
  { Y = Relu (X) }
  example X = float[2,3]
)",
                                              "mine.rules");
  ASSERT_TRUE(mine) << mine.error().message;
  EXPECT_EQ(mine->names(), std::vector<std::string>{"relu_relu"});
  EXPECT_NE(mine->show("relu_relu").find("Relu (A)"), std::string::npos);
  const auto result = optimize(relus(), {.cost = "nodes", .rules = *mine});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NE(result->model.inspect().find("\"Relu\": 1"), std::string::npos) << result->model.inspect();
  const auto untouched = optimize(relus(), {.cost = "nodes", .rules = RuleSet::none()});
  ASSERT_TRUE(untouched);
  EXPECT_NE(untouched->model.inspect().find("\"Relu\": 2"), std::string::npos);
  const auto broken = all->with_text("rule", "broken.rules");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("broken.rules:1"), std::string::npos);
}

TEST(Api, CostModelOfTheCaller) {
  std::vector<Operator> asked;
  Options options;
  options.cost_model = [&](const Operator& op) {
    asked.push_back(op);
    return op.op_type == "Relu" ? 100.0 : 1.0;
  };
  const auto result = optimize(relus(), options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NE(result->report.json().find("\"cost_model\": \"function\""), std::string::npos);
  const auto add = std::find_if(asked.begin(), asked.end(), [](const Operator& op) { return op.op_type == "Add"; });
  ASSERT_NE(add, asked.end());
  ASSERT_EQ(add->inputs.size(), 2u);
  EXPECT_EQ(add->inputs[0].dtype, 1);
  EXPECT_EQ(*add->outputs[0].shape, (std::vector<Operator::Dim>{std::string("N"), std::int64_t{2}}));
}

TEST(Api, StopGivesTheBestSoFarAbortGivesUp) {
  const std::atomic<bool> yes{true};
  const auto stopped = optimize(relus(), {.stop = &yes});
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_NE(stopped->report.json().find("\"stop_reason\": \"cancelled\""), std::string::npos) << stopped->report.json();
  EXPECT_NE(stopped->report.table().find("verified: "), std::string::npos);
  const auto aborted = optimize(relus(), {.stop = &yes, .abort = &yes});
  ASSERT_FALSE(aborted);
  EXPECT_EQ(aborted.error().code, Code::kInterrupted);
}

TEST(Api, DifferentModelsAreToldApart) {
  const Model other = text_model(R"(<ir_version: 8, opset_import: ["" : 18]>
g (float[N,2] x) => (float[N,2] y) { b = Relu (x)
 y = Mul (b, b) })");
  const auto judged = verify(relus(), other);
  ASSERT_TRUE(judged);
  EXPECT_FALSE(judged->equal);
  EXPECT_NE(judged->message.find("'y'"), std::string::npos) << judged->message;
  // A wrong rule is found by verification, and the report goes with the error.
  const auto wrong = RuleSet::none().with_text(R"(opset "" 18
rule wrong (X) => (Y)
  { Y = Relu (X) }
  =>
  { Y = Abs (X) }
  example X = float[2,3]
)",
                                               "wrong.rules");
  ASSERT_TRUE(wrong) << wrong.error().message;
  Options options{.rules = *wrong};
  options.cost_model = [](const Operator& op) { return op.op_type == "Relu" ? 100.0 : 1.0; };
  const auto without = optimize(relus(), options);
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_NE(without->report.json().find("\"rule\": \"wrong\""), std::string::npos) << without->report.json();
  options.strict_verify = true;
  const auto result = optimize(relus(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kDifferent);
  EXPECT_TRUE(result.error().report);
  options.verify = false;
  EXPECT_TRUE(optimize(relus(), options));
}

TEST(Api, ARuntimeOfTheCallerRunsBoth) {
  int opened = 0, runs = 0;
  const auto own = [&](bool right) {
    return Runtime{"mine", [&, right](const Model& model) -> Expected<api::Run> {
                     ++opened;
                     const auto session = Session::create(model);
                     if (!session) return session.error();
                     return api::Run([&, right, session = *session](const Values& inputs, std::optional<double> seconds) -> Expected<Ran> {
                       EXPECT_TRUE(seconds && *seconds > 0);
                       auto outputs = session.run(inputs);
                       if (!outputs) return outputs.error();
                       Ran ran;
                       for (auto& [name, value] : *outputs) ran.outputs.push_back(std::move(value));
                       if (++runs % 2 == 0 && !right) ran.outputs[0] = Value{floats({1, 2}, {7, 8})};
                       return ran;
                     });
                   }};
  };
  Options options;
  options.runtime = own(true);
  const auto same = verify(relus(), relus(), options);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_TRUE(same->equal);
  EXPECT_NE(same->message.find("in mine, "), std::string::npos) << same->message;
  EXPECT_EQ(opened, 2);
  EXPECT_GE(runs, 4);
  runs = 0;
  options.runtime = own(false);
  const auto other = verify(relus(), relus(), options);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_FALSE(other->equal);
  options.runtime->open = [](const Model&) -> Expected<api::Run> { return Error{Code::kUnsupported, "no such operator there"}; };
  const auto refused = verify(relus(), relus(), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("no such operator there"), std::string::npos);
}

TEST(Api, SessionRunsOnTheCallersMemory) {
  const auto session = Session::create(relus());
  ASSERT_TRUE(session);
  const auto outputs = session->run({{"x", {floats({2, 2}, {1, -2, 3, -4})}}});
  ASSERT_TRUE(outputs) << outputs.error().message;
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ((*outputs)[0].first, "y");
  EXPECT_EQ(values_of((*outputs)[0].second), (std::vector<float>{2, 0, 6, 0}));
  EXPECT_FALSE(session->run({}));
  EXPECT_FALSE(session->run({{"x", {floats({2, 2}, {1})}}}));
  EXPECT_FALSE(session->run({{"x", {floats({2, 2}, {1, 2, 3, 4})}}, {"z", {floats({1}, {1})}}}));

  // A result that is an input: not copied, and not offered for writing.
  const auto passing = Session::create(text_model(R"(<ir_version: 8, opset_import: ["" : 18]>
g (float[N] x) => (float[N] y) { y = Identity (x) })"));
  ASSERT_TRUE(passing);
  const Tensor x = floats({2}, {1, 2});
  const auto same = passing->run({{"x", {x}}});
  ASSERT_TRUE(same);
  const Tensor& y = std::get<Tensor>((*same)[0].second.v);
  EXPECT_FALSE(y.writable && y.data.data() == x.data.data());
}

TEST(Api, ASessionOutlivesTheFileOfItsModel) {
  std::string text = "<ir_version: 8, opset_import: [\"\" : 18]>\ng (int64[2] i) => (float[2] y) <float[20000] w = {0";
  for (int i = 1; i < 20'000; ++i) text.append(",").append(std::to_string(i % 100));
  text.append("}> { y = Gather (w, i) }");
  const std::string path = scratch("large.onnx");
  ASSERT_TRUE(text_model(text).save(path));
  const auto loaded = Model::load(path);
  ASSERT_TRUE(loaded);
  const auto session = Session::create(*loaded);
  ASSERT_TRUE(session) << session.error().message;
  std::filesystem::resize_file(path, 0);
  std::int64_t at[2] = {7, 19'942};
  Tensor i;
  i.dtype = 7;
  i.shape = {2};
  i.data = std::as_bytes(std::span(at));
  const auto out = session->run({{"i", {i}}});
  std::filesystem::remove(path);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(values_of((*out)[0].second), (std::vector<float>{7, 42}));
}

TEST(Api, SizesOfSymbols) {
  const auto fixed = optimize(relus(), {.dims = {{"N", 3}}});
  ASSERT_TRUE(fixed) << fixed.error().message;
  EXPECT_NE(fixed->model.text().find("float[3,2] x"), std::string::npos) << fixed->model.text();
  EXPECT_FALSE(optimize(relus(), {.input_shapes = {{"nope", {3, 2}}}}));
  EXPECT_FALSE(optimize(relus(), {.dims = {{"N", 0}}}));
  EXPECT_TRUE(optimize(relus(), {.dims = {{"N", 0}}, .allow_empty = true}));
  EXPECT_EQ(optimize(relus(), {.opset = 99}).error().code, Code::kUsage);
}

TEST(Transform, RunsPassesAndSaysWhatIsWrong) {
  const auto renamed = transform(relus(), R"([{"pass": "rename_inputs", "names": {"x": "given"}}, "infer_shapes"])");
  ASSERT_TRUE(renamed) << renamed.error().message;
  EXPECT_NE(renamed->model.text().find("given"), std::string::npos);
  EXPECT_NE(renamed->json.find("\"equal\""), std::string::npos);
  const auto wrong = transform(relus(), R"([{"pass": "rename_inputs", "names": {"gone": "given"}}])");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("pass rename_inputs: names: 'gone'"), std::string::npos) << wrong.error().message;
  EXPECT_EQ(transform(relus(), "[").error().code, Code::kUsage);
  EXPECT_NE(passes().find("rename_inputs"), std::string::npos);
}

}  // namespace
}  // namespace saturate::api
