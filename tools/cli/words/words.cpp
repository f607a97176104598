#include "tools/cli/words/words.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "CLI/CLI.hpp"
#include "extract/target/target.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/cli/words/foreign_words.h"

namespace saturate {
namespace {

using Words = std::vector<std::string>;

// What a flag of another tool is here. `becomes` are words, in which {} is the flag's value; `says` is what to do where there is nothing
// of the kind; neither: it is done anyway, or has no effect on what comes out.
enum class Takes : std::uint8_t { kNothing, kOne, kSome };
struct ForeignFlag {
  std::string_view name;
  Takes takes = Takes::kNothing;
  std::string_view becomes = "", says = "";
};

constexpr std::string_view kPrecision =
    "saturate keeps the types; `saturate transform IN.onnx -o OUT.onnx --pass precision` makes it float16";
constexpr std::string_view kQuantize =
    "saturate does not quantize; do it behind it, by onnxruntime.quantization, and optimize the result again";
constexpr std::string_view kNoLevels = "there are no levels, all rules are applied; --target says for which runtime";
constexpr std::string_view kLeaveOut = "--skip-rule NAME or --skip-fusion OPERATOR leaves rules out, --rules none all of them";
constexpr std::string_view kNotDone = "saturate does not do this; leave it out";

// In the order of the tools' own help.
constexpr std::array kForeign{
    // onnxsim
    ForeignFlag{"--enable-fuse-bn"},
    ForeignFlag{"--skip-fuse-bn", Takes::kNothing, "", kLeaveOut},
    ForeignFlag{"--enable-optimization", Takes::kSome},
    ForeignFlag{"--skip-constant-folding", Takes::kNothing, "", "constants are always folded; --max-memory bounds what that may take"},
    ForeignFlag{"--skip-optimizer", Takes::kSome, "", kLeaveOut},
    ForeignFlag{"--skip-shape-inference"},
    ForeignFlag{"--enable-onnxruntime-optimization"},
    ForeignFlag{"--dynamic-input-shape"},
    ForeignFlag{"--input-fill", Takes::kSome, "", "--inputs X.npz gives inputs, --seed draws others"},
    ForeignFlag{"--custom-lib", Takes::kOne, "", "operators of a library can't be run here; --no-verify goes on without"},
    ForeignFlag{"--include-subgraph"},
    ForeignFlag{"--unused-output", Takes::kSome, "", "`saturate transform IN.onnx -o OUT.onnx --pass remove_outputs:NAME` does it"},
    ForeignFlag{"--certify", Takes::kNothing, "", "`saturate rules check` checks the rules, and each result is run against the original"},
    ForeignFlag{"--no-certify"},
    ForeignFlag{"--no-large-tensor", Takes::kSome, "", "--max-memory bounds what folding may take"},
    ForeignFlag{"--initializers-as-non-constants", Takes::kSome, "",
                "`saturate transform IN.onnx -o OUT.onnx --pass initializers_to_inputs` does it"},
    ForeignFlag{"--inline-functions"},
    ForeignFlag{"--providers", Takes::kSome, "", "--target says for which runtime: ort-cpu, ort-cuda"},
    ForeignFlag{"--cuda", Takes::kNothing, "--target ort-cuda"},
    ForeignFlag{"--graph-diff", Takes::kSome, "", "`saturate diff IN.onnx OUT.onnx` shows what differs, and --diff adds the rules"},
    ForeignFlag{"--ort-profile", Takes::kSome, "", "`saturate bench MODEL --profile TRACE.json` measures"},
    ForeignFlag{"--dynamic-quantize", Takes::kNothing, "", kQuantize},
    ForeignFlag{"--static-quantize", Takes::kNothing, "", kQuantize},
    ForeignFlag{"--quantize", Takes::kNothing, "", kQuantize},
    ForeignFlag{"--int8", Takes::kNothing, "", kQuantize},
    ForeignFlag{"--fp16-quantize", Takes::kNothing, "", kPrecision},
    ForeignFlag{"--bf16-quantize", Takes::kNothing, "", kPrecision},
    ForeignFlag{"--fp16", Takes::kNothing, "", kPrecision},
    // onnxslim
    ForeignFlag{"--no-shape-infer"},
    ForeignFlag{"--size-threshold", Takes::kOne},
    ForeignFlag{"--dtype", Takes::kOne, "", kPrecision},
    ForeignFlag{"--outputs", Takes::kSome, "", "`saturate transform IN.onnx --cut-outputs NAMES` cuts a model"},
    ForeignFlag{"--inspect", Takes::kNothing, "", "type `saturate inspect IN.onnx`"},
    ForeignFlag{"--dump-to-disk", Takes::kNothing, "", "type `saturate inspect IN.onnx --json`"},
    // onnxoptimizer
    ForeignFlag{"--print-all-passes", Takes::kNothing, "", "type `saturate rules list`"},
    ForeignFlag{"--fixed-point"},
    // onnxruntime.transformers.optimizer, once onnxruntime_tools.optimizer_cli
    ForeignFlag{"--input", Takes::kOne, "{}"},
    ForeignFlag{"--model-type", Takes::kOne},
    ForeignFlag{"--num-heads", Takes::kOne},
    ForeignFlag{"--hidden-size", Takes::kOne},
    ForeignFlag{"--input-int32", Takes::kNothing, "", "`saturate transform IN.onnx -o OUT.onnx --pass int32_inputs` does it"},
    ForeignFlag{"--float16", Takes::kNothing, "", kPrecision},
    ForeignFlag{"--use-gpu", Takes::kNothing, "--target ort-cuda"},
    ForeignFlag{"--provider", Takes::kOne, "--target {}"},
    ForeignFlag{"--ep", Takes::kOne, "--target {}"},
    ForeignFlag{"--device", Takes::kOne, "--target {}"},
    ForeignFlag{"--only-onnxruntime", Takes::kNothing, "", "saturate applies its own rules; leave it out"},
    ForeignFlag{"--opt-level", Takes::kOne, "", kNoLevels},
    ForeignFlag{"--optlevel", Takes::kOne, "", kNoLevels},
    ForeignFlag{"-O0", Takes::kNothing, "", kNoLevels},
    ForeignFlag{"-O1", Takes::kNothing, "", kNoLevels},
    ForeignFlag{"-O2", Takes::kNothing, "", kNoLevels},
    ForeignFlag{"-O3", Takes::kNothing, "", kNoLevels},
    ForeignFlag{"--use-external-data-format", Takes::kNothing, "--external-data"},
    ForeignFlag{"--disable-symbolic-shape-infer"},
    ForeignFlag{"--disable-shape-inference"},
    ForeignFlag{"--disable-attention", Takes::kNothing, "--skip-fusion Attention --skip-fusion MultiHeadAttention"},
    ForeignFlag{"--disable-skip-layer-norm", Takes::kNothing, "--skip-fusion SkipLayerNormalization"},
    ForeignFlag{"--disable-embed-layer-norm", Takes::kNothing, "--skip-fusion EmbedLayerNormalization"},
    ForeignFlag{"--disable-bias-gelu", Takes::kNothing, "--skip-fusion BiasGelu"},
    ForeignFlag{"--disable-layer-norm", Takes::kNothing, "--skip-fusion LayerNormalization"},
    ForeignFlag{"--disable-gelu", Takes::kNothing, "--skip-fusion Gelu --skip-fusion FastGelu"},
    ForeignFlag{"--disable-rotary-embeddings", Takes::kNothing, "--skip-fusion RotaryEmbedding"},
    ForeignFlag{"--enable-gelu-approximation", Takes::kNothing, "--approximate"},
    ForeignFlag{"--use-mask-index", Takes::kNothing, "", "masks are found in the graph; leave it out"},
    ForeignFlag{"--use-raw-attention-mask", Takes::kNothing, "", "masks are found in the graph; leave it out"},
    ForeignFlag{"--no-attention-mask", Takes::kNothing, "", "masks are found in the graph; leave it out"},
    ForeignFlag{"--use-multi-head-attention", Takes::kNothing, "", "the target's costs decide; leave it out"},
    ForeignFlag{"--convert-to-packing-mode", Takes::kNothing, "", kNotDone},
};

constexpr std::array kShapeFlags{"--input-shapes",          "--input-shape",      "--overwrite-input-shape",
                                 "--override-input-shapes", "--test-input-shape", "--shapes"};

// "--name" of "--name=value".
std::string flag_name(const std::string& word) { return word.substr(0, word.find('=')); }

bool is_flag(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

bool has_option(const CLI::App& verb, const std::string& name) { return verb.get_option_no_throw(name) != nullptr; }

bool is_shape(const std::string& word) {
  if (is_flag(word) && !is_bare_shape(word)) return false;
  if (word.ends_with(".onnx") || word.ends_with(".onnxtxt")) return false;
  return word.find_first_of(":=") != std::string::npos || is_bare_shape(word);
}

// The values of the flag at `at`, which go with it; where it has one behind "=", that alone.
Words take_values(Words& words, std::size_t at, Takes takes) {
  const std::size_t equals = words[at].find('=');
  Words values;
  if (equals != std::string::npos) values.push_back(words[at].substr(equals + 1));
  std::size_t end = at + 1;
  if (equals == std::string::npos && takes == Takes::kOne) end = std::min(at + 2, words.size());
  if (equals == std::string::npos && takes == Takes::kSome)
    while (end < words.size() && !is_flag(words[end]) && !words[end].ends_with(".onnx")) ++end;
  values.insert(values.end(), words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.begin() + static_cast<std::ptrdiff_t>(end));
  words.erase(words.begin() + static_cast<std::ptrdiff_t>(at), words.begin() + static_cast<std::ptrdiff_t>(end));
  return values;
}

Words our_words(const ForeignFlag& flag, const std::string& value) {
  Words out;
  std::string_view rest = flag.becomes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    std::string word(rest.substr(0, end));
    if (const std::size_t hole = word.find("{}"); hole != std::string::npos) word.replace(hole, 2, value);
    out.push_back(std::move(word));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

// An option where a value is missing: "--report -o OUT.onnx" would write a file of that name.
bool lacks_value(const Words& words, std::size_t at, const CLI::App& verb) {
  const CLI::Option* option = verb.get_option_no_throw(words[at]);
  return option && option->get_items_expected_min() > 0 && at + 1 < words.size() && is_flag(words[at + 1]) &&
         has_option(verb, flag_name(words[at + 1]));
}

// The shapes behind a flag, each with the flag in front: what is none is an argument again.
std::size_t part_shapes(Words& words, std::size_t at) {
  const std::string name = flag_name(words[at]);
  std::size_t end = at + 1;
  if (words[at].size() > name.size()) return end;
  for (; end < words.size() && is_shape(words[end]); ++end) words[end] = name + "=" + words[end];
  if (end > at + 1) words.erase(words.begin() + static_cast<std::ptrdiff_t>(at)), --end;
  return end;
}

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> out;
  for (const CLI::Option* option : verb.get_options(nullptr))
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

}  // namespace

std::string put_verb_first(Words& words, const std::vector<std::string>& verbs) {
  std::size_t at = 0;
  while (at < words.size() && one_of(words[at], {"-v", "-vv", "--verbose", "-q", "--quiet", "--json", "--threads", "--color"}))
    at += one_of(words[at], {"--threads", "--color"}) ? 2 : 1;
  if (at >= words.size() || is_flag(words[at])) return "";
  const auto is_verb = [&](const std::string& word) { return std::find(verbs.begin(), verbs.end(), word) != verbs.end(); };
  const auto no_verb = [&](const std::string& word) {
    if (const std::string_view says = instead_of_verb(word); !says.empty()) return fmt::format("no such verb; {}", says);
    return fmt::format("no such verb or file; {}", what_instead(word, verbs, "`saturate --help` lists the verbs"));
  };
  std::string& word = words[at];
  if (word == "help" && at + 1 < words.size()) {
    if (!is_verb(words[at + 1])) return fmt::format("help {}: {}", words[at + 1], no_verb(words[at + 1]));
    words = {words[at + 1], "--help"};
    return "";
  }
  if (word == "help" || word == "version") {
    words = {"--" + word};
    return "";
  }
  if (is_verb(word)) {
    std::rotate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at), words.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    return "";
  }
  std::error_code ignored;
  if (std::string wrong = wrong_model(word); !wrong.empty()) return wrong;
  if (at > 0 || word == kPipe || word.find_first_of("./") != std::string::npos || std::filesystem::exists(word, ignored)) return "";
  return fmt::format("{}: {}", word, no_verb(word));
}

// `--verbose 2` is -vv: a number is no file.
void take_levels(Words& words) {
  for (std::size_t at = 1; at < words.size(); ++at) {
    std::error_code ignored;
    const bool is_level =
        words[at].size() == 1 && words[at][0] >= '0' && words[at][0] <= '9' && !std::filesystem::exists(words[at], ignored);
    if (!is_level || !one_of(words[at - 1], {"-v", "--verbose"})) continue;
    if (words[at] == "0")
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(at) - 1, words.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    else if (words[at] == "1")
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
    else
      words[at] = "-v";
  }
}

std::string take_foreign_flags(Words& words, const CLI::App& verb) {
  take_levels(words);
  for (std::size_t at = 0; at < words.size();) {
    if (words[at] == "--") return "";
    if (words[at].find("://") != std::string::npos && !is_flag(words[at])) return wrong_model(words[at]);
    if (!is_flag(words[at])) {
      ++at;
      continue;
    }
    if (lacks_value(words, at, verb)) return fmt::format("{} needs a value; {} is an option", words[at], words[at + 1]);
    std::string name = flag_name(words[at]);
    if (name.starts_with("--") && !has_option(verb, name)) {
      std::replace(name.begin(), name.end(), '_', '-');
      words[at].replace(0, name.size(), name);
    }
    if (std::find(kShapeFlags.begin(), kShapeFlags.end(), name) != kShapeFlags.end() && has_option(verb, name)) {
      at = part_shapes(words, at);
      continue;
    }
    const auto* flag = std::find_if(kForeign.begin(), kForeign.end(), [&](const ForeignFlag& f) { return f.name == name; });
    if (verb.get_name() == "transform" && name == "--pass" && at + 1 < words.size())
      if (const std::string_view says = instead_of_pass(words[at + 1].substr(0, words[at + 1].find(':'))); !says.empty())
        return fmt::format("pass {}: no such pass; {}", words[at + 1], says);
    const bool ours = flag != kForeign.end() && verb.get_name() == "optimize";
    if (const std::string_view says = instead_of_flag(verb.get_name(), name); !ours && !has_option(verb, name) && !says.empty())
      return fmt::format("{}: no such option; {}", name, says);
    if (!ours || has_option(verb, name)) {
      ++at;
      continue;
    }
    if (!flag->says.empty()) return fmt::format("{}: {}", words[at], flag->says);
    const Words values = take_values(words, at, flag->takes);
    std::error_code ignored;
    if (name == "--input" && !values.empty() && is_shape(values[0]) && !std::filesystem::exists(values[0], ignored))
      return fmt::format("--input {}: the model is named there; --input-shapes {} fixes shapes", values[0], values[0]);
    const bool names_target = flag->becomes == "--target {}";
    const std::string value = values.empty() ? "" : names_target ? target_of_provider(values[0]) : values[0];
    const Words made = our_words(*flag, value);
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), made.begin(), made.end());
    at += made.size();
  }
  return "";
}

std::string unknown_words(const Words& words, const CLI::App& verb) {
  const auto flag = std::find_if(words.begin(), words.end(), is_flag);
  if (flag == words.end()) {
    const std::size_t models = static_cast<std::size_t>(
        std::count_if(words.begin(), words.end(), [](const std::string& word) { return word.ends_with(".onnx"); }));
    const bool some = models > 0 && verb.get_option_no_throw("--output-dir") != nullptr;
    return fmt::format("{}: there is no place for {}{}", fmt::join(words, " "), words.size() == 1 ? "this word" : "these words",
                       some ? "; --output-dir DIR takes many models" : "");
  }
  const std::string name = flag_name(*flag), near = nearest(name, option_names(verb));
  return near.empty() ? fmt::format("{}: no such option", name) : fmt::format("{}: no such option; did you mean {}?", name, near);
}

}  // namespace saturate
