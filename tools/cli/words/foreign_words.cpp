#include "tools/cli/words/foreign_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <span>
#include <system_error>

#include "fmt/format.h"

namespace saturate {
namespace {

struct ForeignWord {
  std::string_view word, says;
};
struct ForeignFlagOf {
  std::string_view verb, flag, says;  // verb "": of any
};

constexpr std::string_view kOptimize = "did you mean 'optimize'? `saturate IN.onnx -o OUT.onnx` does it";
constexpr std::string_view kVerify = "did you mean 'verify'? `saturate verify A.onnx B.onnx` runs both on the same inputs";
constexpr std::string_view kBench = "did you mean 'bench'? `saturate bench A.onnx B.onnx` times models";
constexpr std::string_view kInspect = "did you mean 'inspect'? `saturate inspect IN.onnx` tells what is in a model";
constexpr std::string_view kCut = "`saturate transform IN.onnx -o OUT.onnx --cut-inputs A --cut-outputs B` cuts a model";
constexpr std::string_view kHalf = "did you mean 'precision'? `saturate transform IN.onnx -o OUT.onnx --pass precision` makes it float16";
constexpr std::string_view kQuantizing =
    "saturate does not quantize: `saturate IN.onnx --prefer quantizable`, then onnxruntime.quantization";
constexpr std::string_view kNoExport = "saturate reads .onnx: torch.onnx.export, optimum-cli export onnx or tf2onnx make one";
constexpr std::string_view kPrePost = "it is of the Python package: python3 -m onnx_saturate pre_post IN.onnx OUT.onnx --config STEPS.json";
constexpr std::string_view kText = "text is of the Python package: python3 -m onnx_saturate generate; --prompt-ids takes tokens";
constexpr std::string_view kPasses = "did you mean 'transform'? `saturate transform --list-passes` lists passes";

// clang-format off
constexpr ForeignWord kVerbsOfOthers[] = {
    {"convert", kOptimize}, {"simplify", kOptimize}, {"slim", kOptimize}, {"optimizer", kOptimize}, {"compile", kOptimize}, {"build", kOptimize},
    {"fuse", kOptimize}, {"fold", kOptimize}, {"onnxsim", kOptimize}, {"onnxslim", kOptimize},
    {"check", "did you mean 'verify'? `saturate verify A.onnx B.onnx` compares models; `saturate inspect IN.onnx` reads one"},
    {"validate", kVerify}, {"test", kVerify}, {"accuracy", kVerify},
    {"compare", "did you mean 'diff'? `saturate diff A.onnx B.onnx` shows what differs; `saturate verify A.onnx B.onnx` runs both"},
    {"equal", "did you mean 'prove'? `saturate prove A.onnx B.onnx` shows it by laws, `saturate verify` by running both"},
    {"benchmark", kBench}, {"perf", kBench}, {"time", kBench}, {"latency", kBench}, {"trtexec", kBench},
    {"profile", "did you mean 'bench'? `saturate bench IN.onnx --profile TRACE.json` writes a trace"},
    {"quantize", kQuantizing}, {"quantise", kQuantizing}, {"quant", kQuantizing}, {"int8", kQuantizing},
    {"fp16", kHalf}, {"float16", kHalf}, {"half", kHalf},
    {"info", kInspect}, {"show", kInspect}, {"summary", kInspect}, {"stats", kInspect}, {"print", kInspect}, {"dump", kInspect}, {"view", kInspect},
    {"visualize", "did you mean 'diff'? `saturate diff A.onnx B.onnx` shows what differs; Netron draws a model"},
    {"netron", "did you mean 'diff'? `saturate diff A.onnx B.onnx` shows what differs; Netron draws a model"},
    {"cut", kCut}, {"extract-model", kCut}, {"extract_model", kCut}, {"split", kCut}, {"subgraph", kCut},
    {"infer", "did you mean 'run'? `saturate run IN.onnx --random` runs a model"},
    {"predict", "did you mean 'run'? `saturate run IN.onnx --random` runs a model"},
    {"execute", "did you mean 'run'? `saturate run IN.onnx --random` runs a model"},
    {"chat", "did you mean 'generate'? `saturate generate DECODER.onnx --prompt-ids 1,2` runs a decoder"},
    {"export", kNoExport}, {"import", kNoExport},
    {"tune", "it is of the Python package: python3 -m onnx_saturate tune IN.onnx"},
    {"vet", "it is of the Python package: python3 -m onnx_saturate vet IN.onnx"},
    {"study", "it is of the Python package: python3 -m onnx_saturate study STUDY.toml"},
    {"pre_post", kPrePost}, {"pre-post", kPrePost},
    {"why", "did you mean 'explain'? `saturate explain IN.onnx` tells what was fused, what not, and why"},
    {"passes", kPasses}, {"edit", kPasses}, {"rename", kPasses}, {"surgeon", kPasses}, {"modify", kPasses},
    {"bisect", "did you mean 'reduce'? `saturate reduce IN.onnx` makes a failing model small"},
    {"minimize", "did you mean 'reduce'? `saturate reduce IN.onnx` makes a failing model small"},
};

constexpr std::string_view kBatch = "--dim batch=N fixes a symbolic dim";
constexpr std::string_view kRules = "all rules are applied; --skip-rule NAME leaves one out, `saturate rules list` names them";
constexpr std::string_view kSteps = "--iterations N says how often each model is run";
constexpr std::string_view kTarget = "--target says for which runtime: ort-cpu, ort-cuda, openvino, ... (`saturate targets list`)";
constexpr std::string_view kThreads = "--threads N";
constexpr ForeignFlagOf kFlagsOfOthers[] = {
    {"bench", "--runs", kSteps}, {"bench", "--repeat", kSteps}, {"bench", "--repeats", kSteps}, {"bench", "-n", kSteps}, {"bench", "--duration", kSteps},
    {"bench", "--seconds", "--iterations N says how often each model is run; `saturate cost gather` takes --seconds"},
    {"bench", "--ort", "--runtime onnxruntime measures there"}, {"bench", "--provider", "--runtime onnxruntime measures there, on a CPU"},
    {"verify", "--tolerance", "--check-rtol and --check-atol"}, {"verify", "--tol", "--check-rtol and --check-atol"},
    {"verify", "--ort", "--judge onnxruntime"}, {"run", "--ort", "--runtime onnxruntime runs it there"},
    {"generate", "--prompt", kText}, {"generate", "--tokenizer", kText}, {"generate", "--encoder-prompt", kText},
    {"generate", "--runtime", "another runtime is of the Python package: python3 -m onnx_saturate generate IN.onnx --runtime onnxruntime"},
    {"optimize", "--in-place", "-o with the input's own name writes in its place"}, {"optimize", "--inplace", "-o with the input's own name writes in its place"},
    {"optimize", "--overwrite", "--force replaces what is there; -o with the input's own name writes in its place"},
    {"optimize", "--config", "options are words of the command; --save-repro DIR writes a run down, --before and --after take passes of a file"},
    {"optimize", "--verify", "the result is verified without asking; --no-verify leaves it out"},
    {"optimize", "--only-rule", kRules}, {"optimize", "--enable-rule", kRules}, {"optimize", "--rule", kRules},
    {"optimize", "--external-data-name", "--external-data writes OUT.onnx.data beside OUT.onnx; -o names both"},
    {"optimize", "--dry-run", "`saturate explain IN.onnx` optimizes and writes nothing"},
    {"optimize", "--check", "the result is verified without asking; --no-verify leaves it out"},
    {"optimize", "--passes", "all rules are applied; `saturate transform --pass NAME` is for other changes"},
    {"", "--batch-size", kBatch}, {"", "--batch", kBatch},
    {"run", "--input", "--inputs X.npz gives arrays by name; --random draws them"},
    {"explain", "--why", "the question is a word: `saturate explain IN.onnx attention`"},
    {"transform", "--list", "--list-passes"},
    {"optimize", "--precision", "`saturate transform IN.onnx -o OUT.onnx --pass precision` makes it float16"},
    {"optimize", "--ort", "--target ort-cpu is the default; --judge onnxruntime names the judge"},
    {"optimize", "--level", "there are no levels, all rules are applied; --target says for which runtime"},
    {"optimize", "--summary", "the screen is one; --json and --report FILE are for programs"},
    {"", "-j", "--threads N, or --jobs N of many models"}, {"", "--jobs", kThreads}, {"", "-t", "--threads N, or --target NAME"}, {"", "--num-threads", kThreads}, {"", "--workers", kThreads},
    {"", "--log-level", "-v says more, -vv all, -q errors and warnings alone"}, {"", "--debug", "-v says more, -vv all"}, {"", "--silent", "-q"},
    {"", "--ep", kTarget}, {"", "--device", kTarget}, {"", "--backend", kTarget}, {"", "--provider", kTarget}, {"", "--gpu", kTarget},
    {"", "--output-file", "-o FILE"}, {"", "--out", "-o FILE"}, {"", "--model", "the model is a word without an option: IN.onnx"},
};

constexpr ForeignWord kPassesOfOthers[] = {
    {"fp16", kHalf}, {"float16", kHalf}, {"half", kHalf}, {"bf16", kHalf}, {"bfloat16", kHalf}, {"mixed_precision", kHalf}, {"convert_float_to_float16", kHalf},
    {"quantize", kQuantizing}, {"int8", kQuantizing}, {"dynamic_quantize", kQuantizing}, {"static_quantize", kQuantizing},
    {"simplify", kOptimize}, {"fuse", kOptimize}, {"fold", kOptimize}, {"constant_folding", kOptimize}, {"fuse_bn", kOptimize}, {"eliminate_identity", kOptimize},
    {"cut", kCut}, {"extract", kCut}, {"split", kCut},
};

constexpr ForeignWord kFormats[] = {
    {".ort", "ONNX Runtime's own format: write .onnx; python -m onnxruntime.tools.convert_onnx_models_to_ort makes .ort of it"},
    {".engine", "an engine of TensorRT: write .onnx, and give it to trtexec"}, {".plan", "an engine of TensorRT: write .onnx, and give it to trtexec"},
    {".trt", "an engine of TensorRT: write .onnx, and give it to trtexec"}, {".xml", "OpenVINO's format: write .onnx, which it reads, or ovc converts"},
    {".tflite", "TensorFlow Lite's format: write .onnx"}, {".mlmodel", "Core ML's format: write .onnx"}, {".mlpackage", "Core ML's format: write .onnx"},
    {".pt", "PyTorch's format: write .onnx"}, {".pth", "PyTorch's format: write .onnx"}, {".safetensors", "a file of weights: write .onnx"},
    {".gguf", "a format of llama.cpp: write .onnx"}, {".npz", "a file of arrays: write .onnx"}, {".html", "a page: write .onnx"}, {".csv", "a table: write .onnx"},
};

// clang-format on
std::string_view find_word(std::string_view word, std::span<const ForeignWord> list) {
  const auto it = std::find_if(list.begin(), list.end(), [&](const ForeignWord& w) { return w.word == word; });
  return it == list.end() ? std::string_view() : it->says;
}

std::string in_small_letters(std::string_view word) {
  std::string out(word);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::string_view instead_of_verb(std::string_view word) { return find_word(in_small_letters(word), kVerbsOfOthers); }

std::string_view instead_of_flag(std::string_view verb, std::string_view flag) {
  if (flag.size() > 2 && flag.starts_with("-j") && std::isdigit(static_cast<unsigned char>(flag[2]))) flag = "-j";
  for (const ForeignFlagOf& f : kFlagsOfOthers)
    if (f.flag == flag && (f.verb.empty() || f.verb == verb)) return f.says;
  return "";
}

std::string_view instead_of_pass(std::string_view pass) { return find_word(in_small_letters(pass), kPassesOfOthers); }

std::string wrong_result(const std::string& path) {
  const std::string ending = in_small_letters(std::filesystem::path(path).extension().string());
  const std::string_view says = find_word(ending, kFormats);
  return says.empty() ? "" : fmt::format("{}: {} is {}", path, ending, says);
}

std::string wrong_model(const std::string& word) {
  if (word.find("://") != std::string::npos) return fmt::format("{}: models are files; download it first (curl -LO {})", word, word);
  const std::size_t slash = word.find('/');
  std::error_code ignored;
  const bool of_hub = slash != std::string::npos && slash > 0 && slash + 1 < word.size() &&
                      word.find('/', slash + 1) == std::string::npos && word.find('.') == std::string::npos &&
                      !std::filesystem::exists(word.substr(0, slash), ignored);
  return of_hub ? fmt::format(
                      "{}: there is no such file or folder; a model of a hub is exported first (optimum-cli export onnx --model {} DIR)",
                      word, word)
                : "";
}

}  // namespace saturate
