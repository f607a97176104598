// A pass changes what a model is: its interface, names, types, or what it holds. It states how the result is verified.
//   to add one: write `absl::Status apply(Work&, const Arguments&)`, and a row of the table in registry.cpp (CONTRIBUTING.md)
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/model.h"
#include "tools/transform/fields.h"
#include "tools/transform/ties.h"

namespace saturate {

// How the verifier is told what the result of a pass computes.
enum class PassCheck : std::uint8_t {
  kTied,         // values of the result are values of what went in (Ties), within the usual tolerance
  kApproximate,  // the same, within kApproximateRtol
  kRuns,         // it computes something else, as asked: what went in was verified before, and the result runs
};
inline constexpr double kApproximateRtol = 0.05;
std::string_view to_string(PassCheck compared);

// A model that passes change. What they do to names and to inputs and outputs, the ties follow.
class Work {
 public:
  explicit Work(Model start) : model(std::move(start)), ties(Ties::identity(model)), fresh(model.graph) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  Graph& graph() { return model.graph; }
  const ValueInfo* input(const std::string& name) { return find_named(graph().inputs, name); }
  const ValueInfo* output(const std::string& name) { return find_named(graph().outputs, name); }
  const Initializer* initializer(const std::string& name) { return find_named(graph().initializers, name); }

  // Values under new names; those that have these names already make way, unless they are inputs or outputs.
  absl::Status rename(const Renaming& renaming, const char* field, const Arguments& args);
  // The input's values reach the graph through `inside`, and it takes those that `outside` makes of them: they undo each other.
  // An input that is an output as well can't be told from it, and is refused.
  absl::Status view_input(const std::string& name, const ValueType& type, const std::vector<View>& outside, const std::vector<View>& inside,
                          const char* field, const Arguments& args);
  // The output gives what the views make of its values.
  absl::Status view_output(const std::string& name, const ValueType& type, const std::vector<View>& views, const char* field,
                           const Arguments& args);
  // Whether a pass verifies what it makes of a model; a note tells where that is left out for its size.
  bool verifies(const Model& of);
  // Nodes behind the others.
  void append(std::vector<Node> nodes);
  void drop_input(const std::string& name);
  void drop_output(const std::string& name);
  // A value may be an output twice.
  template <typename Change>
  void each_output(const std::string& name, const Change& change) {
    for (ValueInfo& output : graph().outputs)
      if (output.name == name) change(output);
  }
  // The input is its initializer from now on.
  void freeze(const std::string& name);
  // A new output of this name, which exists as a value.
  void add_output(const ValueInfo& value);

  Model model;
  Ties ties;
  FreshNames fresh;
  std::vector<std::string> notes;      // for the report
  VerifyOptions allowed;               // what approximations and rules have made necessary: tolerances, moves, excluded
  bool verify = true;                  // whether passes that optimize or merge verify their own work
  VerifyOptions check;                 // for that
  std::size_t room = ~std::size_t{0};  // bytes of inputs beyond which they don't: the result is verified as a whole
  std::string beside;                  // in the folder of this path large weights that are made may lie meanwhile; "": in memory

 private:
  void rename_freely(const Renaming& renaming);
};

struct Pass {
  std::string_view name;
  std::string_view does;  // one sentence
  PassCheck compared = PassCheck::kTied;
  std::string_view verified;  // one sentence: how the result is compared with what went in
  std::vector<Field> fields;
  absl::Status (*apply)(Work& work, const Arguments& args) = nullptr;
};

const std::vector<Pass>& all_passes();
const Pass* find_pass(std::string_view name);

// A pass that somebody asked for.
struct PassCall {
  const Pass* pass = nullptr;
  Arguments args;
};
// "NAME" or "NAME:FIELDS".
absl::StatusOr<PassCall> parse_step(std::string_view text);
// A list of {"pass": NAME, FIELD: VALUE, ...} (or names alone), also as {"passes": [...]}; or what Olive takes (olive.h).
absl::StatusOr<std::vector<PassCall>> parse_steps(std::string_view json_text);

}  // namespace saturate
