#include "kernels/decode/decoder.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/inputs/input_uses.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/operators/op_questions.h"

namespace saturate {
namespace {

using Places = std::vector<std::size_t>;

absl::Status no_decoder(const std::string& what) { return absl::InvalidArgumentError(what); }

std::string lower(const std::string& text) {
  std::string out = text;
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool holds(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

std::size_t rank_of(const ValueInfo& value) { return value.type.shape ? value.type.shape->size() : 0; }

bool is_tensor(const ValueInfo& value) { return value.type.kind == ValueType::Kind::kTensor; }

bool is_index(const ValueInfo& value) {
  return is_tensor(value) && (value.type.dtype == DType::kInt64 || value.type.dtype == DType::kInt32);
}

const DimSpec* dim_of(const ValueInfo& value, std::size_t axis) { return axis < rank_of(value) ? &(*value.type.shape)[axis] : nullptr; }

std::optional<std::int64_t> fixed_dim(const ValueInfo& value, std::size_t axis) {
  const DimSpec* dim = dim_of(value, axis);
  const auto* number = dim ? std::get_if<std::int64_t>(dim) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

std::string names_of(const std::vector<ValueInfo>& values, const Places& places) {
  std::vector<std::string> out;
  for (const std::size_t i : places) out.push_back(values[i].name);
  return fmt::format("{}", fmt::join(out, ", "));
}

// The pattern with the number for %d.
std::string filled(const std::string& pattern, std::size_t number) {
  const std::size_t at = pattern.find("%d");
  return at == std::string::npos ? pattern : pattern.substr(0, at) + std::to_string(number) + pattern.substr(at + 2);
}

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
    if (found_.attention_mask) found_.mask_length = fixed_dim(input(*found_.attention_mask), 1);
    return absl::OkStatus();
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

  Places cache_inputs() const {
    Places out;
    for (const std::size_t i : left_)
      if (is_tensor(input(i)) && rank_of(input(i)) >= 3 && !is_index(input(i))) out.push_back(i);
    return out;
  }

  Places cache_outputs() const {
    Places out;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      if (i != found_.logits && is_tensor(graph_.outputs[i]) && !names_encoder(graph_.outputs[i].name) &&
          !holds(lower(graph_.outputs[i].name), {"hidden_state", "attentions"}))
        out.push_back(i);
    return out;
  }

  absl::Status find_cache() {
    absl::Status paired = names_.past.empty() && names_.present.empty() ? pair_alone() : pair_by_patterns();
    if (!paired.ok()) return paired;
    if (!left_.empty()) return refuse_left();
    for (CachePair& pair : found_.cache)
      if (absl::Status s = find_axis(pair); !s.ok()) return s;
    return absl::OkStatus();
  }

  absl::Status refuse_left() const {
    return no_decoder(
        fmt::format("nothing is known to feed input{} {} with; of a decoder are known input_ids, attention_mask, position_ids, "
                    "pairs of past and present (--past-names, --present-names), and what an encoder gives (--given)",
                    left_.size() > 1 ? "s" : "", names_of(graph_.inputs, left_)));
  }

  absl::Status pair_by_patterns() {
    if (names_.past.size() != names_.present.size())
      return no_decoder(
          fmt::format("{} patterns of past and {} of present; give as many of each", names_.past.size(), names_.present.size()));
    std::map<std::string, std::size_t> inputs, outputs;
    for (const std::size_t i : left_) inputs[input(i).name] = i;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) outputs[graph_.outputs[i].name] = i;
    for (std::size_t p = 0; p < names_.past.size(); ++p) {
      const std::size_t before = found_.cache.size();
      const std::size_t most = names_.past[p].find("%d") == std::string::npos ? 1 : graph_.inputs.size();
      for (std::size_t layer = 0; layer < most; ++layer) {
        const auto past = inputs.find(filled(names_.past[p], layer));
        if (past == inputs.end()) continue;
        const std::string wanted = filled(names_.present[p], layer);
        const auto present = outputs.find(wanted);
        if (present == outputs.end()) return no_decoder(fmt::format("input '{}' has no output '{}'", past->first, wanted));
        if (!agree(past->second, present->second))
          return no_decoder(fmt::format("input '{}' and output '{}' differ in type or rank", past->first, wanted));
        found_.cache.push_back({past->second, present->second});
        take(past->second);
      }
      if (found_.cache.size() == before)
        return no_decoder(fmt::format("no input has a name like '{}'; its inputs are {}", names_.past[p], names_of(graph_.inputs, left_)));
    }
    std::sort(found_.cache.begin(), found_.cache.end(), [](const CachePair& a, const CachePair& b) { return a.past < b.past; });
    return absl::OkStatus();
  }

  // By what names have in common; else in order, where types and ranks agree.
  absl::Status pair_alone() {
    const Places pasts = cache_inputs(), presents = cache_outputs();
    if (pasts.empty() || presents.empty()) return absl::OkStatus();
    std::map<std::string, std::size_t> by_name;
    for (const std::size_t i : presents) by_name.emplace(bare_name(graph_.outputs[i].name), i);
    std::vector<CachePair> pairs;
    for (const std::size_t i : pasts)
      if (const auto it = by_name.find(bare_name(input(i).name)); it != by_name.end() && agree(i, it->second))
        pairs.push_back({i, it->second});
    std::set<std::size_t> used;
    for (const CachePair& pair : pairs) used.insert(pair.present);
    if (pairs.size() != pasts.size() || used.size() != pairs.size()) {
      pairs.clear();
      for (std::size_t i = 0; i < pasts.size() && pasts.size() == presents.size(); ++i)
        if (agree(pasts[i], presents[i])) pairs.push_back({pasts[i], presents[i]});
    }
    if (pairs.size() != pasts.size())
      return no_decoder(
          fmt::format("which output is the present of input '{}' is not clear: {} inputs of a past, outputs {}; name them by "
                      "--past-names and --present-names",
                      input(pasts[0]).name, pasts.size(), names_of(graph_.outputs, presents)));
    for (const std::size_t i : pasts) take(i);
    found_.cache = std::move(pairs);
    return absl::OkStatus();
  }

  bool agree(std::size_t past, std::size_t present) const {
    const ValueInfo &a = input(past), &b = graph_.outputs[present];
    return (b.type.dtype == DType::kUndefined || a.type.dtype == b.type.dtype) && (!b.type.shape || rank_of(a) == rank_of(b));
  }

  bool counts_batch(const DimSpec& dim) const {
    const auto* text = std::get_if<std::string>(&dim);
    const DimSpec* batch = dim_of(input(found_.input_ids), 0);
    const auto* symbol = batch ? std::get_if<std::string>(batch) : nullptr;
    if (!text || !symbol) return false;
    const std::vector<std::string> names = dim_names(*text);
    return std::find(names.begin(), names.end(), *symbol) != names.end();
  }

  // The axis of tokens: the only open one beside the batch, or that whose dims differ.
  absl::Status find_axis(CachePair& pair) const {
    const ValueInfo &past = input(pair.past), &present = graph_.outputs[pair.present];
    std::vector<int> open, differ;
    for (std::size_t k = 0; k < rank_of(past); ++k) {
      const DimSpec& dim = (*past.type.shape)[k];
      const auto* text = std::get_if<std::string>(&dim);
      const bool given = text && names_.sizes.contains(*text);
      if (!fixed_dim(past, k) && !given && !counts_batch(dim) &&
          !(k == 0 && !std::holds_alternative<std::string>(*dim_of(input(found_.input_ids), 0))))
        open.push_back(static_cast<int>(k));
      if (present.type.shape && (*present.type.shape)[k] != dim && !counts_batch(dim)) differ.push_back(static_cast<int>(k));
    }
    const bool all_fixed = open.empty();
    if (open.size() > 1) std::erase_if(open, [&](int k) { return std::find(differ.begin(), differ.end(), k) == differ.end(); });
    if (open.size() > 1) std::erase(open, 0);
    if (open.size() == 1) {
      pair.axis = open[0];
    } else if (all_fixed) {
      std::erase_if(differ, [&](int k) { return !fixed_dim(past, static_cast<std::size_t>(k)); });
      if (differ.size() == 1) pair.axis = differ[0];
    } else {
      return no_decoder(
          fmt::format("input '{}': which of its dims counts tokens is not clear; give the others by --dim SYMBOL=SIZE", past.name));
    }
    return absl::OkStatus();
  }

  // Whether what the present is made of writes into the past, rather than appending to it.
  bool written_in_place(const CachePair& pair) const {
    std::string value = graph_.outputs[pair.present].name;
    for (int steps = 0; steps < 8; ++steps) {
      const Node* producer = view_.producer(value);
      if (!producer) return false;
      const Node& node = *producer;
      if (one_of(node.op_type, {"Concat", "Slice", "Pad"})) return false;
      if (updates_of(node) || one_of(node.op_type, {"GroupQueryAttention", "Where"})) return true;
      if (node.inputs.empty()) return false;
      value = node.inputs[0];
    }
    return false;
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
    const auto writes = [&](const CachePair& p) { return p.axis < 0 && written_in_place(p); };
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

absl::StatusOr<Decoder> find_decoder(const Model& model, const DecoderNames& names) { return Finder(model, names).find(); }

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
