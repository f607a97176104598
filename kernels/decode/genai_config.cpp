#include "kernels/decode/genai_config.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

using nlohmann::json;

absl::Status wrong_for_genai(const std::string& what) { return absl::InvalidArgumentError("--genai-config: " + what); }

// Begin and length of each number in a name.
std::vector<std::pair<std::size_t, std::size_t>> numbers_in(const std::string& name) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(name[i]))) continue;
    const std::size_t begin = i;
    while (i < name.size() && std::isdigit(static_cast<unsigned char>(name[i]))) ++i;
    out.emplace_back(begin, i - begin);
  }
  return out;
}

std::optional<std::string> pattern_of(const std::string& name, std::size_t which) {
  const auto numbers = numbers_in(name);
  if (which >= numbers.size()) return std::nullopt;
  return name.substr(0, numbers[which].first) + "%d" + name.substr(numbers[which].first + numbers[which].second);
}

struct CachePatterns {
  std::vector<std::string> past, present;  // of keys, of values
};

// The number that counts layers is the one without which two names are left, of keys and of values.
std::optional<CachePatterns> patterns_of(const Model& model, const Decoder& decoder) {
  for (std::size_t which = 0; which < 4; ++which) {
    CachePatterns out;
    std::map<std::string, std::string> presents;
    for (const CachePair& pair : decoder.cache) {
      const std::optional<std::string> past = pattern_of(model.graph.inputs[pair.past].name, which);
      std::optional<std::string> present;
      for (std::size_t k = 0; past && k < 4; ++k) {
        present = pattern_of(model.graph.outputs[pair.present].name, k);
        if (present && (!presents.contains(*past) || presents[*past] == *present)) break;
      }
      if (!past || !present) return std::nullopt;
      if (presents.emplace(*past, *present).second) out.past.push_back(*past), out.present.push_back(*present);
    }
    if (out.past.size() != 2 || decoder.cache.size() % 2 != 0) continue;
    const auto is_key = [](const std::string& name) {
      return name.find("key") != std::string::npos && name.find("value") == std::string::npos;
    };
    const auto last_word = [](const std::string& name) { return name.substr(name.find("%d")); };
    if (is_key(last_word(out.past[1])) && !is_key(last_word(out.past[0])))
      std::swap(out.past[0], out.past[1]), std::swap(out.present[0], out.present[1]);
    return out;
  }
  return std::nullopt;
}

// Columns of the table in which tokens are looked up.
std::optional<std::int64_t> width_of(const Model& model, const std::string& ids) {
  for (const Node& node : model.graph.nodes)
    if (node.op_type == "Gather" && node.inputs.size() == 2 && node.inputs[1] == ids)
      for (const Initializer& table : model.graph.initializers)
        if (table.name == node.inputs[0] && table.tensor.rank() == 2) return table.tensor.dims()[1];
  return std::nullopt;
}

std::optional<std::int64_t> query_heads(const Model& model) {
  for (const Node& node : model.graph.nodes)
    for (const char* name : {"q_num_heads", "num_heads"})
      if (const Attribute* a = find_attribute(node.attributes, name); a && a->type == AttributeType::kInt && a->i() > 0) return a->i();
  return std::nullopt;
}

std::optional<std::int64_t> most_context(const Decoder& decoder, const GenaiOptions& options) {
  return options.max_context ? options.max_context : decoder.most_tokens;
}

absl::Status check_token(const char* option, std::int64_t id, const Decoder& decoder) {
  if (id >= 0 && (!decoder.vocabulary || id < *decoder.vocabulary)) return absl::OkStatus();
  return wrong_for_genai(fmt::format("{} {}: the model knows {} tokens, from 0 on", option, id, decoder.vocabulary.value_or(0)));
}

absl::Status check_for_genai(const Decoder& decoder, const GenaiOptions& options) {
  const bool shared = decoder.kind == CacheKind::kInPlace && decoder.counts_tokens;
  if (decoder.kind != CacheKind::kGrowing && !shared)
    return wrong_for_genai(fmt::format(
        "onnxruntime-genai runs models with a growing cache, or GroupQueryAttention's buffers; this one's is {}", to_string(decoder.kind)));
  if (!decoder.given.empty())
    return wrong_for_genai("an encoder gives the model something; onnxruntime-genai has types of their own for such models");
  if (!decoder.attention_mask) return wrong_for_genai("onnxruntime-genai wants an attention_mask, and the model has none");
  if (decoder.cache_position || decoder.past_length || decoder.total_length)
    return wrong_for_genai("onnxruntime-genai gives no lengths or cache_position; remove these inputs");
  if (!most_context(decoder, options)) return wrong_for_genai("how many tokens the model may take is not known; give --max-context");
  if (options.eos_ids.empty()) return wrong_for_genai("which token ends a text is not known; give --eos-id");
  for (const std::int64_t id : options.eos_ids)
    if (absl::Status s = check_token("--eos-id", id, decoder); !s.ok()) return s;
  return options.bos_id ? check_token("--bos-id", *options.bos_id, decoder) : absl::OkStatus();
}

// Of a past of [batch, heads, tokens, size].
struct HeadsOfPast {
  std::int64_t heads = 0, size = 0;
  bool operator==(const HeadsOfPast&) const = default;
};

absl::StatusOr<HeadsOfPast> heads_of(const ValueInfo& past, int axis) {
  const auto dim = [&](std::size_t k) -> std::int64_t {
    const auto* fixed = past.type.shape && past.type.shape->size() == 4 ? std::get_if<std::int64_t>(&(*past.type.shape)[k]) : nullptr;
    return fixed ? *fixed : 0;
  };
  if (dim(1) < 1 || dim(3) < 1 || axis == 1)
    return wrong_for_genai(fmt::format("input '{}' is not [batch, heads, tokens, size] with fixed heads and size", past.name));
  return HeadsOfPast{dim(1), dim(3)};
}

// It allots keys and values of all layers alike.
absl::StatusOr<HeadsOfPast> common_heads(const Model& model, const Decoder& decoder) {
  const ValueInfo& first = model.graph.inputs[decoder.cache[0].past];
  const absl::StatusOr<HeadsOfPast> common = heads_of(first, decoder.cache[0].axis);
  for (const CachePair& pair : decoder.cache) {
    const ValueInfo& past = model.graph.inputs[pair.past];
    const absl::StatusOr<HeadsOfPast> own = heads_of(past, pair.axis);
    if (!common.ok() || !own.ok()) return own;
    if (*own != *common)
      return wrong_for_genai(fmt::format("input '{}' has {} heads of {}, and '{}' has {} of {}; onnxruntime-genai gives all the same",
                                         past.name, own->heads, own->size, first.name, common->heads, common->size));
  }
  return common;
}

json search_json(std::int64_t context, bool shared) {
  return {{"do_sample", false},
          {"num_beams", 1},
          {"num_return_sequences", 1},
          {"max_length", context},
          {"min_length", 0},
          {"past_present_share_buffer", shared},
          {"repetition_penalty", 1.0},
          {"temperature", 1.0},
          {"top_k", 1},
          {"top_p", 1.0}};
}

json decoder_json(const Model& model, const Decoder& decoder, const CachePatterns& names, const HeadsOfPast& past) {
  const auto& inputs = model.graph.inputs;
  const std::string& ids = inputs[decoder.input_ids].name;
  const std::int64_t width = width_of(model, ids).value_or(past.heads * past.size);
  json reads{{"input_ids", ids},
             {"attention_mask", inputs[*decoder.attention_mask].name},
             {"past_key_names", names.past[0]},
             {"past_value_names", names.past[1]}};
  if (decoder.position_ids) reads["position_ids"] = inputs[*decoder.position_ids].name;
  json writes{{"logits", model.graph.outputs[decoder.logits].name},
              {"present_key_names", names.present[0]},
              {"present_value_names", names.present[1]}};
  return {{"session_options", {{"provider_options", json::array()}}},
          {"inputs", std::move(reads)},
          {"outputs", std::move(writes)},
          {"head_size", past.size},
          {"hidden_size", width},
          {"num_attention_heads", query_heads(model).value_or(std::max(past.heads, width / past.size))},
          {"num_hidden_layers", static_cast<std::int64_t>(decoder.cache.size() / 2)},
          {"num_key_value_heads", past.heads}};
}

}  // namespace

absl::StatusOr<std::string> genai_config(const Model& model, const Decoder& decoder, const GenaiOptions& options) {
  if (absl::Status s = check_for_genai(decoder, options); !s.ok()) return s;
  const std::optional<CachePatterns> names = patterns_of(model, decoder);
  if (!names)
    return wrong_for_genai("the inputs of the past have no names with the layer's number in them, for keys and values apart; rename them");
  const absl::StatusOr<HeadsOfPast> past = common_heads(model, decoder);
  if (!past.ok()) return past.status();
  const std::int64_t context = *most_context(decoder, options);
  const std::filesystem::path folder = std::filesystem::absolute(options.config_path).parent_path();
  json inner = decoder_json(model, decoder, *names, *past);
  inner["filename"] = std::filesystem::absolute(options.model_path).lexically_relative(folder).string();
  const json eos = options.eos_ids.size() == 1 ? json(options.eos_ids[0]) : json(options.eos_ids);
  json told{{"type", options.type.empty() ? "llama" : options.type},
            {"context_length", context},
            {"vocab_size", decoder.vocabulary.value_or(0)},
            {"eos_token_id", eos},
            {"pad_token_id", options.eos_ids[0]},
            {"decoder", std::move(inner)}};
  if (options.bos_id) told["bos_token_id"] = *options.bos_id;
  const json config{{"model", std::move(told)}, {"search", search_json(context, decoder.kind == CacheKind::kInPlace)}};
  return config.dump(4) + "\n";
}

}  // namespace saturate
