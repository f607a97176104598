// `saturate generate`: tokens out of a decoder-only model, in our runtime.
#include <cstdio>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/cli/profile.h"
#include "tools/generate/generate.h"
#include "tools/generate/genai_config.h"
#include "tools/generate/report.h"
#include "tools/io/files.h"
#include "tools/io/option_checks.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

absl::StatusOr<std::vector<std::int64_t>> parse_ids(const std::string& option, const std::string& text) {
  std::vector<std::int64_t> out;
  for (std::size_t at = 0; at <= text.size() && text.find_first_not_of(' ') != std::string::npos;) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::size_t first = text.find_first_not_of(' ', at), last = text.find_last_not_of(' ', end == 0 ? 0 : end - 1);
    const std::string word = first < end ? text.substr(first, last + 1 - first) : "";
    const auto id = parse_int(word);
    if (!id)
      return absl::InvalidArgumentError(fmt::format("{} {}: '{}' is no token's number; write e.g. {} 1,2,3", option, text, word, option));
    out.push_back(*id);
    at = end + 1;
  }
  return out;
}

absl::StatusOr<GenerateOptions> generate_options(const GenerateArgs& args) {
  absl::StatusOr<DecoderNames> names = decoder_names(args.decoder, args.shapes);
  if (!names.ok()) return names.status();
  GenerateOptions out;
  out.names = *std::move(names);
  out.max_new_tokens = args.max_new_tokens;
  out.min_new_tokens = args.min_new_tokens;
  out.max_context = args.max_context;
  out.sampling = {args.temperature, args.top_p, args.top_k};
  out.seed = args.seed;
  for (const std::string& text : args.eos_ids) {
    absl::StatusOr<std::vector<std::int64_t>> ids = parse_ids("--eos-id", text);
    if (!ids.ok()) return ids.status();
    out.eos_ids.insert(out.eos_ids.end(), ids->begin(), ids->end());
  }
  return out;
}

void print_tables(const Generation& made) {
  std::vector<std::vector<std::string>> rows{{"prompt", "tokens", "ended by", "ids"}};
  for (std::size_t i = 0; i < made.rows.size(); ++i)
    rows.push_back({fmt::format("{}", i), fmt::format("{}", made.rows[i].tokens.size()), std::string(to_string(made.rows[i].end)),
                    fmt::format("{}", fmt::join(made.rows[i].tokens, ","))});
  print_text(format_table(rows, 3));
  const auto rate = [](std::int64_t tokens, double seconds) {
    return tokens > 0 && seconds > 0 ? fmt::format("{:.1f}", static_cast<double>(tokens) / seconds) : "-";
  };
  print_text("\n" + format_table({{"phase", "tokens", "time", "tokens/s"},
                                  {"prefill", fmt::format("{}", made.prompt_tokens), human_seconds(made.prefill_seconds),
                                   rate(made.prompt_tokens, made.prefill_seconds)},
                                  {"decode", fmt::format("{}", made.decoded_tokens), human_seconds(made.decode_seconds),
                                   rate(made.decoded_tokens, made.decode_seconds)}}));
  print_text(fmt::format("\ncache: {}{}; peak memory: {}\n", to_string(made.cache),
                         made.cache_bytes > 0 ? fmt::format(", {}", human_bytes(made.cache_bytes)) : "", human_bytes(peak_bytes())));
  for (const std::string& note : made.notes) print_text(fmt::format("note: {}\n", note));
}

int write_config(const GenerateArgs& args, const Model& model, const Decoder& decoder, const GenerateOptions& options) {
  absl::StatusOr<std::string> config =
      genai_config(model, decoder, {args.input, args.genai_config, options.eos_ids, options.max_context, args.bos_id, args.genai_type});
  if (!config.ok()) return fail(config.status(), args.input, "");
  if (const absl::Status status = write_file(args.genai_config, *config); !status.ok()) return fail(status, args.genai_config, "");
  return kExitOk;
}

}  // namespace

int generate_command(const GenerateArgs& args) {
  absl::StatusOr<GenerateOptions> options = generate_options(args);
  if (!options.ok()) return fail(kExitUsage, "", std::string(options.status().message()), "");
  std::vector<std::vector<std::int64_t>> prompts;
  for (const std::string& text : args.prompts) {
    absl::StatusOr<std::vector<std::int64_t>> ids = parse_ids("--prompt-ids", text);
    if (!ids.ok()) return fail(kExitUsage, "", std::string(ids.status().message()), "");
    prompts.push_back(*std::move(ids));
  }
  if (!args.genai_config.empty())
    if (const absl::Status status = check_writable(args.genai_config, Into::kAnything); !status.ok())
      return fail(status, args.genai_config, "");
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  absl::StatusOr<Decoder> decoder = find_decoder(*model, options->names);
  if (!decoder.ok()) return fail(decoder.status(), args.input, "");
  if (!args.genai_config.empty())
    if (const int code = write_config(args, *model, *decoder, *options); code != kExitOk || prompts.empty()) return code;
  if (const absl::Status status = check_prompts(prompts, *decoder, *options); !status.ok())
    return fail(kExitUsage, args.input, std::string(status.message()), "");
  SessionOptions session_options;
  session_options.threads = args.common.threads;
  session_options.cancel = args.common.cancel;
  absl::StatusOr<Session> session = Session::create(*model, session_options);
  if (!session.ok())
    return fail(session.status(), args.input, "run it in another runtime: python -m onnx_saturate.generate --runtime onnxruntime");
  absl::StatusOr<Generation> made = generate(*model, prompts, *options, run_by(*session, run_limits(args.bounds)));
  if (!made.ok()) return fail(made.status(), args.input, run_advice(made.status()));
  if (args.common.json) {
    nlohmann::json out = to_json(*made);
    out["peak_bytes"] = peak_bytes();
    print_json(out);
  } else if (!args.common.quiet()) {
    print_tables(*made);
  }
  return kExitOk;
}

}  // namespace saturate
