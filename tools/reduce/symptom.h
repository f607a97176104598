// What a failure of `optimize` looks like from outside, and whether a run shows it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"
#include "tools/reduce/child.h"

namespace saturate {

struct Symptom {
  enum class Kind : std::uint8_t { kExit, kWrong, kSignal, kHang, kWarning, kError, kMissing };
  Kind kind = Kind::kExit;
  int number = 0;    // exit status; signal, 0: whichever it is
  std::string text;  // of a warning or an error; the operator that is missing
};
// "exit 3", "wrong", "signal", "signal 11", "hang", "warning: TEXT", "error: TEXT", "no OP"; else a sentence with what there is.
absl::StatusOr<Symptom> parse_symptom(const std::string& text);

// Words without what differs between a model and a part of it: quoted names and numbers.
std::string without_names(const std::string& text);
// The first error that was printed, without "saturate: error: ".
std::string error_of(const std::string& output);

// Whether a run shows it, as far as the run tells: whether an operator is in the result, others have to look. `first`: the run on the whole
// model; what it ended with is part of the symptom. It may be `run` itself.
bool shows(const Symptom& symptom, const ChildEnd& run, const ChildEnd& first);
// "exit status 0", "signal 11", "no end within 20 s", with the error if there is one.
std::string how_it_ended(const ChildEnd& run);

// Operators of which so many must stay: "MatMul:2".
struct KeptOperator {
  std::string op;  // with or without domain
  std::size_t count = 1;
};
absl::StatusOr<KeptOperator> parse_kept(const std::string& text);
// Whether one output is computed from all of them.
bool feed_one_output(const Model& model, const std::vector<KeptOperator>& kept);

}  // namespace saturate
