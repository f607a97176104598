// The words of a command line before they are parsed: what users of other tools type, and options in places where we have none.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace saturate {

// The verb first: `--json inspect m.onnx` is `inspect --json m.onnx`, `help inspect` is `inspect --help`. A first word that is neither a
// verb nor a flag, nor looks like a file, is a mistake: gives the sentence that says so, else "".
std::string put_verb_first(std::vector<std::string>& words, const std::vector<std::string>& verbs);

// Rewrites flags of onnxsim, onnxslim, onnxoptimizer and onnxruntime.transformers.optimizer into ours, and `--skip_rules` into
// `--skip-rules`; keeps shapes from taking in the file behind them. A sentence where we have nothing of the kind, else "".
std::string take_foreign_flags(std::vector<std::string>& words, const CLI::App& verb);

// What to say of words that the verb does not take: the flag that is meant.
std::string unknown_words(const std::vector<std::string>& words, const CLI::App& verb);

}  // namespace saturate
