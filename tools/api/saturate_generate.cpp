#include <optional>
#include <utility>

#include "kernels/decode/encoder.h"
#include "kernels/decode/generate.h"
#include "kernels/decode/report.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/api/saturate_impl.h"

namespace saturate::api {
namespace {

Expected<GenerateOptions> inner_options(const Generating& given) {
  GenerateOptions out;
  out.names = {given.input_ids,  given.attention_mask, given.position_ids, given.logits,
               given.past_names, given.present_names,  given.given,        {},
               given.dims};
  if (!given.cache.empty() && !(out.names.cache = parse_cache_kind(given.cache)))
    return Error{Code::kUsage, "cache: \"" + given.cache + "\": give one of growing, sliding and in-place"};
  out.max_new_tokens = given.max_new_tokens;
  out.min_new_tokens = given.min_new_tokens;
  out.eos_ids = given.eos_ids;
  out.max_context = given.max_context;
  out.sampling = {given.temperature, given.top_p, given.top_k};
  out.seed = given.seed;
  if (given.max_new_tokens.value_or(1) < 1) return Error{Code::kUsage, "max_new_tokens: it is 1 or more"};
  if (given.temperature && !(*given.temperature > 0))
    return Error{Code::kUsage, "temperature: it is above 0; leave it out for the likeliest token"};
  if (given.top_p && !(*given.top_p >= 0 && *given.top_p <= 1)) return Error{Code::kUsage, "top_p: it is 0 to 1"};
  if (given.top_k && *given.top_k < 1) return Error{Code::kUsage, "top_k: it is 1 or more"};
  return out;
}

RunModel run_outside(RunElsewhere run, const std::atomic<bool>* abort) {
  return [run = std::move(run), abort](const Inputs& inputs) -> absl::StatusOr<std::vector<saturate::Value>> {
    if (abort != nullptr && *abort) return absl::CancelledError("interrupted");
    Values values;
    for (const auto& [name, value] : inputs) values[name] = to_public(value, false);
    const Expected<std::vector<Value>> made = run(values);
    if (!made) return absl::InvalidArgumentError(made.error().message);
    std::vector<saturate::Value> out;
    for (const Value& value : *made) {
      Expected<saturate::Value> inner = to_internal(value, "output");
      if (!inner) return absl::InvalidArgumentError(inner.error().message);
      out.push_back(*std::move(inner));
    }
    return out;
  };
}

// A model as it runs: in a session, which must live as long, or elsewhere.
Expected<RunModel> opened(const saturate::Model& model, const RunElsewhere& elsewhere, const Generating& options,
                          std::optional<saturate::Session>& session) {
  if (elsewhere) return run_outside(elsewhere, options.abort);
  SessionOptions session_options;
  session_options.threads = options.threads;
  session_options.cancel = options.abort;
  absl::StatusOr<saturate::Session> made = saturate::Session::create(model, session_options);
  if (!made.ok()) return error_of(made.status(), model.path, "run it in another runtime");
  return run_by(session.emplace(*std::move(made)));
}

Expected<Inputs> given_to(const saturate::Model& model, const Decoder& decoder, const Tokens& prompts, const EncoderFeed& feed,
                          const Generating& options) {
  if (!options.run_encoders.empty() && options.run_encoders.size() != options.encoders.size())
    return Error{Code::kUsage, "run_encoders: give as many as there are encoders, or none"};
  std::vector<std::optional<saturate::Session>> sessions(options.encoders.size());
  std::vector<EncoderModel> encoders;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    const saturate::Model& encoder = options.encoders[i].impl().model;
    Expected<RunModel> run = opened(encoder, options.run_encoders.empty() ? RunElsewhere() : options.run_encoders[i], options, sessions[i]);
    if (!run) return run.error();
    encoders.push_back({&encoder, *std::move(run)});
  }
  absl::StatusOr<Inputs> given = given_inputs(model, decoder, feed, encoders, prompts);
  if (!given.ok())
    return error_of(given.status(), model.path, is_wrong_usage(given.status()) ? "" : "check the encoders and what they read");
  return *std::move(given);
}

}  // namespace

Expected<std::string> generate(const Model& model, const std::vector<std::vector<std::int64_t>>& prompts, const Generating& options) {
  return guarded([&]() -> Expected<std::string> {
    const saturate::Model& inner = model.impl().model;
    Expected<GenerateOptions> inner_given = inner_options(options);
    if (!inner_given) return inner_given.error();
    absl::StatusOr<Decoder> decoder = find_decoder(inner, inner_given->names);
    if (!decoder.ok()) return error_of(decoder.status(), inner.path, "");
    Expected<Inputs> arrays = to_internal(options.encoder_inputs);
    if (!arrays) return arrays.error();
    EncoderFeed feed;
    feed.ids = options.encoder_ids;
    feed.arrays = *std::move(arrays);
    const Tokens all = prompts_for(prompts, feed);
    if (const absl::Status s = check_prompts(all, *decoder, *inner_given); !s.ok()) {
      Error error = error_of(s, inner.path, "");
      error.code = Code::kUsage;
      return error;
    }
    Expected<Inputs> given = given_to(inner, *decoder, all, feed, options);
    if (!given) return given.error();
    inner_given->given = *std::move(given);
    std::optional<saturate::Session> session;
    const Expected<RunModel> run = opened(inner, options.run, options, session);
    if (!run) return run.error();
    absl::StatusOr<Generation> made = saturate::generate(inner, all, *inner_given, *run);
    if (!made.ok()) return error_of(made.status(), inner.path, "check the model and its inputs");
    return to_json(*made).dump();
  });
}

}  // namespace saturate::api
