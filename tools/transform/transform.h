// Runs a list of passes over a model, and the verifier over what they have made.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extract/prepare/graph_stats.h"
#include "kernels/verify/verify.h"
#include "nlohmann/json.hpp"
#include "tools/pipeline/failure.h"
#include "tools/transform/pass.h"

namespace saturate {

struct TransformOptions {
  bool verify = true;
  VerifyOptions check;      // its `inputs` are those of the model that comes in
  std::string beside = {};  // in the folder of this path large weights that are made may lie meanwhile; "": in memory
  // Bytes of inputs beyond which nothing is verified here, with a note: the caller verifies the result.
  std::size_t room = ~std::size_t{0};
};

struct TransformReport {
  std::string input, output;
  struct Applied {
    std::string pass;
    nlohmann::json fields;
    std::string compared, verified;
    std::vector<std::string> notes;
    std::size_t nodes = 0, inputs = 0, outputs = 0;  // afterwards
  };
  std::vector<Applied> passes;
  // One for each run of passes that ties hold together; the last is of the result.
  std::vector<VerifyReport> checks;
  GraphStats before, after;
  double seconds = 0;
};
std::string format_report(const TransformReport& report);
nlohmann::json to_json(const TransformReport& report);

struct TransformResult {
  Model model;  // not to be used where there is a failure
  TransformReport report;
  std::optional<Failure> failure;
};
TransformResult transform(const Model& model, const std::vector<PassCall>& steps, const TransformOptions& options);

// What --list-passes prints.
std::string pass_list();
nlohmann::json pass_list_json();

}  // namespace saturate
