#include "kernels/decode/decoder.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/decode/cache_pairs.h"
#include "kernels/decode/roles.h"
#include "kernels/inputs/input_uses.h"
#include "onnx_bridge/graph/graph_view.h"

namespace saturate {
using namespace roles;
namespace {

class Finder {
 public:
  Finder(const Model& model, const DecoderNames& names) : graph_(model.graph), names_(names), view_(model.graph), uses_(model.graph) {
    std::set<std::string> defaults;
    for (const Initializer& initializer : graph_.initializers) defaults.insert(initializer.name);
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      if (!defaults.contains(graph_.inputs[i].name)) left_.push_back(i);
  }

  absl::StatusOr<Decoder> find() {
    for (const auto step : {&Finder::find_named, &Finder::find_tokens, &Finder::find_given, &Finder::find_others, &Finder::find_logits,
                            &Finder::find_cache, &Finder::find_kind})
      if (absl::Status s = (this->*step)(); !s.ok()) return s;
    find_bounds();
    return std::move(found_);
  }

 private:
  const ValueInfo& input(std::size_t i) const { return graph_.inputs[i]; }

  void take(std::size_t place) { std::erase(left_, place); }

  absl::StatusOr<std::size_t> input_of(const std::string& role, const std::string& name) {
    for (const std::size_t i : left_)
      if (input(i).name == name) return i;
    return no_decoder(fmt::format("{}: the model has no input '{}'; its inputs are {}", role, name, names_of(graph_.inputs, left_)));
  }

  absl::Status find_named() {
    for (const auto& [role, name, into] : {std::tuple("attention_mask", &names_.attention_mask, &found_.attention_mask),
                                           std::tuple("position_ids", &names_.position_ids, &found_.position_ids)}) {
      if (name->empty()) continue;
      absl::StatusOr<std::size_t> place = input_of(role, *name);
      if (!place.ok()) return place.status();
      *into = *place;
      take(*place);
    }
    return absl::OkStatus();
  }

  // By name, else the one input of indices that looks tokens up in the largest table.
  absl::Status find_tokens() {
    if (!names_.input_ids.empty()) {
      absl::StatusOr<std::size_t> place = input_of("input_ids", names_.input_ids);
      if (!place.ok()) return place.status();
      return take_tokens(*place);
    }
    std::optional<std::size_t> best;
    std::int64_t most = 0;
    const bool has_decoder_ids =
        std::any_of(left_.begin(), left_.end(), [&](std::size_t i) { return lower(input(i).name) == "decoder_input_ids"; });
    for (const std::size_t i : left_) {
      const std::string name = lower(input(i).name);
      if (!is_index(input(i)) || rank_of(input(i)) != 2 || holds(name, {"position", "mask", "token_type"})) continue;
      const bool usual = name == "decoder_input_ids" || (name == "input_ids" && !has_decoder_ids);
      const std::int64_t rows = usual ? std::numeric_limits<std::int64_t>::max() : uses_.rows(input(i).name).value_or(0);
      const bool named = holds(name, {"input_ids", "token", "ids"});
      if ((rows > most) || (!best && named)) best = i, most = rows;
    }
    if (best) return take_tokens(*best);
    for (const std::size_t i : left_)
      if (holds(lower(input(i).name), {"inputs_embeds", "input_features", "pixel_values"}))
        return no_decoder(
            fmt::format("no decoder of tokens: input '{}' is no list of tokens; give a model that reads input_ids", input(i).name));
    return no_decoder(fmt::format(
        "no decoder: it has no input_ids (int64 or int32 of rank 2) among its inputs {}; name the input of tokens by --input-ids",
        names_of(graph_.inputs, left_)));
  }

  absl::Status take_tokens(std::size_t place) {
    if (!is_index(input(place)) || rank_of(input(place)) != 2)
      return no_decoder(fmt::format("input '{}' can't be input_ids: they are int64 or int32 of rank 2", input(place).name));
    found_.input_ids = place;
    found_.batch = fixed_dim(input(place), 0);
    found_.window = fixed_dim(input(place), 1);
    take(place);
    return check_sizes(place);
  }

  // Runs are cut into windows and prompts into batches of the declared sizes.
  absl::Status check_sizes(std::size_t place) const {
    for (const std::size_t axis : {0u, 1u})
      if (const auto size = fixed_dim(input(place), axis); size && *size < 1)
        return no_decoder(fmt::format("no decoder of tokens: input '{}' is declared with {} {}; export it with at least 1, or an open size",
                                      input(place).name, *size, axis == 0 ? "rows" : "tokens"));
    return absl::OkStatus();
  }

  // Of an encoder, by name. Where tokens are called the decoder's, what does not say so is the encoder's.
  absl::Status find_given() {
    for (const std::string& name : names_.given) {
      absl::StatusOr<std::size_t> place = input_of("given", name);
      if (!place.ok()) return place.status();
      give(*place);
    }
    const bool of_both = holds(lower(input(found_.input_ids).name), {"decoder"});
    for (const std::size_t i : Places(left_)) {
      const std::string name = lower(input(i).name);
      if (names_encoder(name) || (of_both && !holds(name, {"decoder", "past", "cache"}))) give(i);
    }
    std::sort(found_.given.begin(), found_.given.end());
    return absl::OkStatus();
  }

  void give(std::size_t place) {
    found_.given.push_back(place);
    take(place);
  }

  absl::Status find_others() {
    for (const std::size_t i : Places(left_)) {
      const std::string name = lower(input(i).name);
      std::optional<std::size_t>* role = nullptr;
      if (holds(name, {"mask"}))
        role = &found_.attention_mask;
      else if (holds(name, {"cache_position"}))
        role = &found_.cache_position;
      else if (holds(name, {"position"}))
        role = &found_.position_ids;
      else if (is_index(input(i)) && holds(name, {"past_seq", "past_len"}))
        role = &found_.past_length;
      else if (is_index(input(i)) && holds(name, {"total_seq", "total_len"}))
        role = &found_.total_length;
      if (role == nullptr || *role) continue;
      *role = i;
      take(i);
    }
    if (found_.attention_mask && rank_of(input(*found_.attention_mask)) != 2)
      return no_decoder(
          fmt::format("input '{}' has rank {}; a mask of tokens has rank 2 (batch and tokens): export the model with such a one",
                      input(*found_.attention_mask).name, rank_of(input(*found_.attention_mask))));
    if (!found_.attention_mask) return absl::OkStatus();
    found_.mask_length = fixed_dim(input(*found_.attention_mask), 1);
    return check_sizes(*found_.attention_mask);
  }

  absl::Status find_logits() {
    std::optional<std::size_t> best;
    const std::optional<std::int64_t> known = uses_.rows(input(found_.input_ids).name);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueInfo& output = graph_.outputs[i];
      const std::string name = lower(output.name);
      if (!names_.logits.empty() ? output.name == names_.logits : name == "logits") {
        best = i;
        break;
      }
      const auto scores = rank_of(output) > 0 ? fixed_dim(output, rank_of(output) - 1) : std::nullopt;
      const bool other = scores && known && *scores != *known;  // not one for each token
      const bool may_be = is_tensor(output) && is_floating(output.type.dtype) && !holds(name, {"present", "past", "hidden", "cache"}) &&
                          (rank_of(output) == 3 || rank_of(output) == 2) && !other;
      if (names_.logits.empty() && !best && may_be) best = i;
    }
    if (!best && !names_.logits.empty()) return no_decoder(fmt::format("logits: the model has no output '{}'", names_.logits));
    if (!best)
      return no_decoder(
          "no decoder: none of its outputs are logits, a float for each token of the vocabulary (batch, tokens, vocabulary); name them by "
          "--logits");
    found_.logits = *best;
    return absl::OkStatus();
  }

  absl::Status find_cache() {
    const CacheQuestion question{graph_, names_, found_.input_ids, found_.logits};
    absl::StatusOr<std::vector<CachePair>> pairs = cache_pairs(question, left_);
    if (!pairs.ok()) return pairs.status();
    found_.cache = *std::move(pairs);
    return left_.empty() ? find_token_axes(question, found_.cache) : refuse_left();
  }

  absl::Status refuse_left() const {
    return no_decoder(
        fmt::format("nothing is known to feed input{} {} with; of a decoder are known input_ids, attention_mask, position_ids, "
                    "pairs of past and present (--past-names, --present-names), and what an encoder gives (--given)",
                    left_.size() > 1 ? "s" : "", names_of(graph_.inputs, left_)));
  }

  absl::Status find_kind() {
    for (const Node& node : graph_.nodes) found_.counts_tokens = found_.counts_tokens || node.op_type == "GroupQueryAttention";
    if (found_.cache.empty()) {
      if (names_.cache.value_or(CacheKind::kNone) != CacheKind::kNone)
        return no_decoder(fmt::format("the model has no cache, so that it can't be {}", to_string(*names_.cache)));
      return absl::OkStatus();
    }
    const auto any = [&](auto is) { return std::any_of(found_.cache.begin(), found_.cache.end(), is); };
    const auto grows = [&](const CachePair& p) { return p.axis >= 0 && !fixed_dim(input(p.past), static_cast<std::size_t>(p.axis)); };
    const auto writes = [&](const CachePair& p) { return p.axis < 0 && writes_into_past(graph_, view_, p); };
    found_.kind = any(grows) ? CacheKind::kGrowing : any(writes) ? CacheKind::kInPlace : CacheKind::kSliding;
    if (names_.cache) found_.kind = *names_.cache;
    if (found_.kind == CacheKind::kNone) return no_decoder("the model has a cache, and needs it; leave --cache none out");
    return absl::OkStatus();
  }

  void bound(std::optional<std::int64_t> tokens, const std::string& holder) {
    if (!tokens || (found_.most_tokens && *found_.most_tokens <= *tokens)) return;
    found_.most_tokens = tokens;
    found_.holds_most = holder;
  }

  void find_bounds() {
    const ValueInfo& logits = graph_.outputs[found_.logits];
    found_.vocabulary = uses_.rows(input(found_.input_ids).name);
    const auto scores = rank_of(logits) > 0 ? fixed_dim(logits, rank_of(logits) - 1) : std::nullopt;
    if (!found_.vocabulary) found_.vocabulary = scores;
    for (const auto& place : {found_.position_ids, found_.cache_position})
      if (place) bound(uses_.rows(input(*place).name), fmt::format("the table that {} reads", input(*place).name));
    if (found_.kind == CacheKind::kNone) bound(found_.window, fmt::format("its fixed {}", input(found_.input_ids).name));
    if (found_.attention_mask && found_.kind != CacheKind::kSliding)
      bound(found_.mask_length, fmt::format("its fixed {}", input(*found_.attention_mask).name));
    if (found_.kind == CacheKind::kInPlace) {
      // Tokens stand behind or before the heads, of which there are fewer.
      const ValueInfo& past = input(found_.cache[0].past);
      bound(std::max(fixed_dim(past, 1), fixed_dim(past, rank_of(past) - 2)), fmt::format("the buffer {}", past.name));
    }
  }

  const Graph& graph_;
  const DecoderNames& names_;
  GraphView view_;
  InputUses uses_;
  Places left_;  // inputs without a role so far
  Decoder found_;
};

}  // namespace

std::string_view to_string(CacheKind kind) {
  switch (kind) {
    case CacheKind::kNone:
      return "none";
    case CacheKind::kGrowing:
      return "growing";
    case CacheKind::kSliding:
      return "sliding";
    case CacheKind::kInPlace:
      return "in place";
  }
  return "?";
}

bool names_encoder(const std::string& name) { return holds(lower(name), {"encoder", "cross"}); }

std::string bare_name(const std::string& name) {
  std::string out = lower(name);
  for (const std::string_view word : {"past_key_values", "present_key_values", "past_key_value", "present_key_value", "past", "present",
                                      "new", "updated", "_in", "_out", "input", "output"})
    for (std::size_t at = out.find(word); at != std::string::npos; at = out.find(word)) out.erase(at, word.size());
  return out;
}

std::optional<CacheKind> parse_cache_kind(std::string_view name) {
  for (const CacheKind kind : {CacheKind::kNone, CacheKind::kGrowing, CacheKind::kSliding, CacheKind::kInPlace})
    if (to_string(kind) == name || (kind == CacheKind::kInPlace && name == "in-place")) return kind;
  return std::nullopt;
}

absl::Status check_room(const Model& model, const Decoder& decoder, std::int64_t rows) {
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 28, kMostRows = std::int64_t{1} << 20;
  const std::int64_t longest = std::max({std::int64_t{1}, decoder.window.value_or(1), decoder.mask_length.value_or(1)});
  if (rows <= kMostRows && longest <= kMostTokens / std::max<std::int64_t>(rows, 1)) return absl::OkStatus();
  return no_decoder(fmt::format("input '{}' or its mask has {} rows of {} tokens, and a run takes {} rows and {} tokens at most",
                                model.graph.inputs[decoder.input_ids].name, rows, longest, kMostRows, kMostTokens));
}

absl::StatusOr<Decoder> find_decoder(const Model& model, const DecoderNames& names) {
  absl::StatusOr<Decoder> found = Finder(model, names).find();
  if (!found.ok()) return found;
  if (absl::Status s = check_room(model, *found, found->batch.value_or(1)); !s.ok()) return s;
  return found;
}

absl::StatusOr<Shape> first_past(const Model& model, const Decoder& decoder, const CachePair& pair, std::int64_t batch,
                                 const Sizes& sizes) {
  const ValueInfo& past = model.graph.inputs[pair.past];
  const DimSpec& batch_dim = (*model.graph.inputs[decoder.input_ids].type.shape)[0];
  Sizes known = sizes;
  if (const auto* symbol = std::get_if<std::string>(&batch_dim)) known[*symbol] = batch;
  Shape dims;
  for (std::size_t k = 0; k < rank_of(past); ++k) {
    const DimSpec& dim = (*past.type.shape)[k];
    const auto* text = std::get_if<std::string>(&dim);
    const auto fixed = fixed_dim(past, k);
    const auto of_present = fixed_dim(model.graph.outputs[pair.present], k);
    const auto evaluated = text ? evaluate_dim(*text, known) : std::nullopt;
    if (fixed)
      dims.push_back(*fixed);
    else if (static_cast<int>(k) == pair.axis)
      dims.push_back(0);
    else if (evaluated || of_present)
      dims.push_back(evaluated ? *evaluated : *of_present);
    else if (k == 0)
      dims.push_back(batch);
    else
      return absl::InvalidArgumentError(fmt::format("input '{}': the size of its dim {} ({}) is not known; give it by --dim", past.name, k,
                                                    text ? *text : "without a name"));
  }
  return dims;
}

}  // namespace saturate
