// `saturate generate`: tokens out of a decoder, in our runtime.
#include <cstdio>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/decode/encoder.h"
#include "kernels/decode/genai_config.h"
#include "kernels/decode/generate.h"
#include "kernels/decode/report.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/cli/profile.h"
#include "tools/io/files.h"
#include "tools/io/npz.h"
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

absl::StatusOr<Tokens> parse_rows(const std::string& option, const std::vector<std::string>& texts) {
  Tokens out;
  for (const std::string& text : texts) {
    absl::StatusOr<std::vector<std::int64_t>> ids = parse_ids(option, text);
    if (!ids.ok()) return ids.status();
    out.push_back(*std::move(ids));
  }
  return out;
}

absl::StatusOr<EncoderFeed> encoder_feed(const GenerateArgs& args) {
  absl::StatusOr<Tokens> ids = parse_rows("--encoder-ids", args.encoder_ids);
  if (!ids.ok()) return wrong_usage(std::string(ids.status().message()));
  EncoderFeed out{*std::move(ids), {}};
  if (args.inputs.empty()) return out;
  absl::StatusOr<NamedTensors> arrays = load_npz(args.inputs, kMostUnpacked, within_memory(args.inputs, run_limits(args.bounds).memory));
  if (!arrays.ok()) return arrays.status();
  for (auto& [name, tensor] : *arrays) out.arrays.emplace(name, std::move(tensor));
  return out;
}

SessionOptions session_options(const GenerateArgs& args) {
  SessionOptions out;
  out.threads = args.common.threads;
  out.cancel = args.common.cancel;
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
  const absl::StatusOr<Tokens> ends = parse_rows("--eos-id", args.eos_ids);
  if (!ends.ok()) return ends.status();
  for (const auto& ids : *ends) out.eos_ids.insert(out.eos_ids.end(), ids.begin(), ids.end());
  return out;
}

// What models in front of the decoder give it. They run once, and are closed again.
absl::StatusOr<Inputs> encoded(const GenerateArgs& args, const Model& model, const Decoder& decoder, const EncoderFeed& feed,
                               const Tokens& prompts) {
  const absl::StatusOr<std::vector<Model>> models = load_encoders(args.decoder);
  if (!models.ok()) return models.status();
  std::vector<Session> sessions;
  sessions.reserve(models->size());
  std::vector<EncoderModel> encoders;
  for (const Model& encoder : *models) {
    absl::StatusOr<Session> session = Session::create(encoder, session_options(args));
    if (!session.ok())
      return absl::Status(session.status().code(), fmt::format("{}: {}", encoder.path, std::string(session.status().message())));
    sessions.push_back(*std::move(session));
    encoders.push_back({&encoder, run_by(sessions.back(), run_limits(args.bounds))});
  }
  return given_inputs(model, decoder, feed, encoders, prompts);
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
  const absl::StatusOr<Tokens> given_prompts = parse_rows("--prompt-ids", args.prompts);
  if (!given_prompts.ok()) return fail(kExitUsage, "", std::string(given_prompts.status().message()), "");
  const absl::StatusOr<EncoderFeed> feed = encoder_feed(args);
  if (!feed.ok()) return fail(feed.status(), "", "");
  const Tokens prompts = prompts_for(*given_prompts, *feed);
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
  absl::StatusOr<Inputs> given = encoded(args, *model, *decoder, *feed, prompts);
  if (!given.ok()) return fail(given.status(), args.input, is_wrong_usage(given.status()) ? "" : run_advice(given.status()));
  options->given = *std::move(given);
  absl::StatusOr<Session> session = Session::create(*model, session_options(args));
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
