#include "nlohmann/json.hpp"
#include "tools/api/saturate_impl.h"
#include "tools/generate/generate.h"
#include "tools/generate/report.h"

namespace saturate::api {
namespace {

Expected<GenerateOptions> inner_options(const Generating& given) {
  GenerateOptions out;
  out.names = {given.input_ids, given.attention_mask, given.position_ids, given.logits, given.past_names, given.present_names, {},
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

RunModel run_outside(const Generating& options) {
  return [&options](const Inputs& inputs) -> absl::StatusOr<std::vector<saturate::Value>> {
    if (options.abort != nullptr && *options.abort) return absl::CancelledError("interrupted");
    Values values;
    for (const auto& [name, value] : inputs) values[name] = to_public(value, false);
    const Expected<std::vector<Value>> made = options.run(values);
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

}  // namespace

Expected<std::string> generate(const Model& model, const std::vector<std::vector<std::int64_t>>& prompts, const Generating& options) {
  return guarded([&]() -> Expected<std::string> {
    const saturate::Model& inner = model.impl().model;
    Expected<GenerateOptions> inner_given = inner_options(options);
    if (!inner_given) return inner_given.error();
    absl::StatusOr<Decoder> decoder = find_decoder(inner, inner_given->names);
    if (!decoder.ok()) return error_of(decoder.status(), inner.path, "");
    if (const absl::Status s = check_prompts(prompts, *decoder, *inner_given); !s.ok()) {
      Error error = error_of(s, inner.path, "");
      error.code = Code::kUsage;
      return error;
    }
    std::optional<saturate::Session> session;
    if (!options.run) {
      SessionOptions session_options;
      session_options.threads = options.threads;
      session_options.cancel = options.abort;
      absl::StatusOr<saturate::Session> made = saturate::Session::create(inner, session_options);
      if (!made.ok()) return error_of(made.status(), inner.path, "run it in another runtime");
      session = *std::move(made);
    }
    absl::StatusOr<Generation> made = saturate::generate(inner, prompts, *inner_given, session ? run_by(*session) : run_outside(options));
    if (!made.ok()) return error_of(made.status(), inner.path, "check the model and its inputs");
    return to_json(*made).dump();
  });
}

}  // namespace saturate::api
