// One page to look at: a whole file of HTML with the data in it and the few hundred lines that draw it (app/). It asks no network, and runs
// under the content security policy that it states. Positions come from here, so that the page draws and folds only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "extract/optimize/measured.h"
#include "kernels/verify/verify.h"
#include "nlohmann/json.hpp"
#include "rules/compile/rule_set.h"
#include "tools/diff/diff.h"
#include "tools/explain/not_fused.h"
#include "tools/io/files.h"

namespace saturate {

// Before long work: whether the page can be written, and replaces none of these. `html` empty: none is asked for.
absl::Status check_page(const std::string& html, const std::vector<NamedPath>& inputs);

class Page {
 public:
  // `head`: lines that the screen prints; `command`: what made the page, for a shell.
  Page(std::string_view verb, const std::string& head, const std::string& command);

  // Both models side by side. `diff` knows nodes.
  void add_models(const Model& first, const Model& second, const std::string& first_name, const std::string& second_name,
                  const ModelDiff& diff, const RuleSet& rules);
  // One model by itself.
  void add_model(const Model& model, const std::string& name, const ModelDiff& known);
  // Places of the first model.
  void add_not_fused(const std::vector<NotFused>& places);
  void add_verification(const VerifyReport& report);
  void add_measured(const Measured& measured);
  // Seconds; `group`: points of one colour.
  struct Point {
    std::string group, label;
    double predicted = 0, measured = 0;
  };
  void add_predictions(const std::vector<Point>& points);
  // Seconds of runs, by model.
  void add_times(const std::vector<std::pair<std::string, std::vector<double>>>& runs);
  void add_table(std::string_view title, std::string_view note, std::vector<std::string> columns,
                 const std::vector<std::vector<std::string>>& rows);
  std::string text() const;

 private:
  nlohmann::json data_;
};

}  // namespace saturate
