// Tests of rewrites that are text: tests/rewrites/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>

#include "extract/optimize/target_check.h"
#include "extract/prepare/graph_stats.h"
#include "fmt/format.h"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/file/io.h"
#include "tools/pipeline/pipeline.h"

namespace saturate {
namespace {

struct RewriteCase {
  std::string name, place;  // place: file and line
  SetupOptions setup;
  std::optional<std::int64_t> opset;
  std::vector<std::pair<std::string, std::size_t>> wanted;  // operators, `|` between those that count together
  std::string text;
  std::optional<std::size_t> refused;  // operators of the result that the target refuses
  std::string unknown;                 // a line that means nothing
};

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    part.erase(0, part.find_first_not_of(' '));
    out.push_back(part.substr(0, part.find_last_not_of(' ') + 1));
  }
  return out;
}

// Takes a line that begins with "# " behind the name of the case.
void take_line(const std::string& word, const std::string& rest, RewriteCase& c) {
  const std::size_t space = rest.rfind(' ');
  if (word == "check" && space != std::string::npos)
    c.wanted.emplace_back(rest.substr(0, space), std::stoul(rest.substr(space + 1)));
  else if (word == "check-not")
    for (const std::string& op : parts_of(rest, ',')) c.wanted.emplace_back(op, 0);
  else if (word == "refused")
    c.refused = std::stoul(rest);
  else if (word == "target")
    c.setup.target = rest;
  else if (word == "cost")
    c.setup.cost = rest;
  else if (word == "assume")
    c.setup.filter.assumptions.assumed.push_back(rest);
  else if (word == "no-assume")
    c.setup.filter.assumptions.not_assumed.push_back(rest);
  else if (word == "rules")
    c.setup.rule_files.push_back(rest);
  else if (word == "opset")
    c.opset = std::stol(rest);
  else if (word == "within-one-step" && rest.empty())
    c.setup.filter.effects.within_one_step = true;
  else if (word == "approximate" && rest.empty())
    c.setup.filter.effects.approximates = true;
  else if (word == "rescale" && rest.empty())
    c.setup.filter.effects.rescales = true;
  else
    c.unknown = word;
}

std::vector<RewriteCase> cases_of(const std::filesystem::path& file) {
  std::vector<RewriteCase> out;
  const absl::StatusOr<std::string> text = read_data_file(file.string());
  if (!text.ok()) return out;
  std::istringstream in(*text);
  std::string header;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::size_t colon = line.find(": ");
    const std::string word = line.starts_with("# ") ? line.substr(2, colon == std::string::npos ? colon : colon - 2) : "";
    const std::string rest = colon == std::string::npos ? "" : line.substr(colon + 2);
    if (word == "case") {
      RewriteCase& c = out.emplace_back();
      c.name = rest;
      c.place = fmt::format("{}:{}", file.filename().string(), number);
      c.setup.target = "ort-cpu@1.31";
      c.setup.cost = "nodes";
    } else if (word == "header") {
      header = rest;
    } else if (!word.empty() && !out.empty()) {
      take_line(word, rest, out.back());
    } else if (word.empty() && !out.empty()) {
      out.back().text += (out.back().text.empty() ? header + "\n" : "") + line + "\n";
    }
  }
  return out;
}

std::vector<RewriteCase> all_cases() {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(SATURATE_SOURCE_DIR "/tests/rewrites"))
    if (entry.path().extension() == ".onnxtxt") files.insert(entry.path());
  std::vector<RewriteCase> out;
  for (const std::filesystem::path& file : files)
    for (RewriteCase& c : cases_of(file)) out.push_back(std::move(c));
  return out;
}

// The nodes in a random order in which each stands behind what it reads.
Model with_nodes_shuffled(Model model, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Node> left = std::move(model.graph.nodes), order;
  std::set<std::string> known{""};
  for (const ValueInfo& input : model.graph.inputs) known.insert(input.name);
  for (const Initializer& i : model.graph.initializers) known.insert(i.name);
  while (!left.empty()) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < left.size(); ++i)
      if (std::all_of(left[i].inputs.begin(), left[i].inputs.end(), [&](const std::string& n) { return known.contains(n); }))
        ready.push_back(i);
    if (ready.empty()) ADD_FAILURE() << "no order of the nodes";
    if (ready.empty()) break;
    const std::size_t next = ready[random() % ready.size()];
    known.insert(left[next].outputs.begin(), left[next].outputs.end());
    order.push_back(std::move(left[next]));
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
  }
  model.graph.nodes = std::move(order);
  return model;
}

// How a failed test names it.
void PrintTo(const RewriteCase& c, std::ostream* out) { *out << c.place; }

class Rewrites : public ::testing::TestWithParam<RewriteCase> {
 protected:
  void SetUp() override {
    ASSERT_EQ(GetParam().unknown, "") << GetParam().place;
    ASSERT_FALSE(GetParam().wanted.empty()) << GetParam().place << ": nothing is checked";
    absl::StatusOr<Model> model = parse_model_text(GetParam().text, GetParam().place);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    absl::StatusOr<::saturate::Setup> setup = set_up(GetParam().setup);
    ASSERT_TRUE(setup.ok()) << setup.status();
    setup_.emplace(*std::move(setup));
  }

  PipelineOptions options(int threads, bool verify) const {
    PipelineOptions out;
    out.optimize.limits.threads = threads;
    out.optimize.opset = GetParam().opset;
    out.verify = verify;
    return out;
  }
  Model run(const Model& model, const PipelineOptions& options) const {
    PipelineResult result = run_pipeline(model, *setup_, options);
    EXPECT_FALSE(result.failure.has_value()) << GetParam().place << ": " << (result.failure ? result.failure->message : "");
    EXPECT_TRUE(result.report.optimize.left_out.empty()) << GetParam().place << ": verification blames a rule";
    return std::move(result.model);
  }
  static std::string bytes_of(const Model& model) { return serialize_model(model).value_or("too large"); }
  void check(const Model& result) const {
    const auto operators = graph_stats(result).operators;
    for (const auto& [names, wanted] : GetParam().wanted) {
      std::size_t found = 0;
      for (const std::string& name : parts_of(names, '|'))
        for (const auto& [op, count] : operators) found += op == name ? count : 0;
      EXPECT_EQ(found, wanted) << GetParam().place << ": " << names;
    }
    if (!GetParam().refused) return;
    const auto refused = check_target(result, setup_->target);
    ASSERT_TRUE(refused.ok()) << refused.status();
    EXPECT_EQ(refused->size(), *GetParam().refused) << GetParam().place << ": " << (refused->empty() ? "" : refused->front().reason);
  }

  Model model_;
  std::optional<::saturate::Setup> setup_;
};

TEST_P(Rewrites, Hold) {
  const Model result = run(model_, options(1, true));
  check(result);
  const std::string bytes = bytes_of(result);
  EXPECT_EQ(bytes_of(run(model_, options(4, false))), bytes) << "on four threads";
  PipelineOptions explained = options(1, false);
  explained.optimize.observe = [](const FinishedRun&) {};
  EXPECT_EQ(bytes_of(run(model_, explained)), bytes) << "with explanations";
  SCOPED_TRACE("with shuffled nodes");
  check(run(with_nodes_shuffled(model_, 7), options(1, true)));
}

INSTANTIATE_TEST_SUITE_P(Text, Rewrites, ::testing::ValuesIn(all_cases()), [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace saturate
