#include "kernels/decode/cache_pairs.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "fmt/format.h"
#include "kernels/decode/roles.h"
#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/operators/op_questions.h"

namespace saturate {
using namespace roles;
namespace {

// The pattern with the number for %d.
std::string filled(const std::string& pattern, std::size_t number) {
  const std::size_t at = pattern.find("%d");
  return at == std::string::npos ? pattern : pattern.substr(0, at) + std::to_string(number) + pattern.substr(at + 2);
}

class PairFinder {
 public:
  PairFinder(const CacheQuestion& question, Places& left)
      : graph_(question.graph), names_(question.names), input_ids_(question.input_ids), logits_(question.logits), left_(left) {}

  absl::StatusOr<std::vector<CachePair>> find() {
    absl::Status paired = names_.past.empty() && names_.present.empty() ? pair_alone() : pair_by_patterns();
    if (!paired.ok()) return paired;
    return std::move(pairs_);
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
          !(k == 0 && !std::holds_alternative<std::string>(*dim_of(input(input_ids_), 0))))
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

 private:
  const ValueInfo& input(std::size_t i) const { return graph_.inputs[i]; }
  void take(std::size_t place) { std::erase(left_, place); }

  Places cache_inputs() const {
    Places out;
    for (const std::size_t i : left_)
      if (is_tensor(input(i)) && rank_of(input(i)) >= 3 && !is_index(input(i))) out.push_back(i);
    return out;
  }

  Places cache_outputs() const {
    Places out;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      if (i != logits_ && is_tensor(graph_.outputs[i]) && !names_encoder(graph_.outputs[i].name) &&
          !holds(lower(graph_.outputs[i].name), {"hidden_state", "attentions"}))
        out.push_back(i);
    return out;
  }

  absl::Status pair_by_patterns() {
    if (names_.past.size() != names_.present.size())
      return no_decoder(
          fmt::format("{} patterns of past and {} of present; give as many of each", names_.past.size(), names_.present.size()));
    std::map<std::string, std::size_t> inputs, outputs;
    for (const std::size_t i : left_) inputs[input(i).name] = i;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) outputs[graph_.outputs[i].name] = i;
    for (std::size_t p = 0; p < names_.past.size(); ++p) {
      const std::size_t before = pairs_.size();
      const std::size_t most = names_.past[p].find("%d") == std::string::npos ? 1 : graph_.inputs.size();
      for (std::size_t layer = 0; layer < most; ++layer) {
        const auto past = inputs.find(filled(names_.past[p], layer));
        if (past == inputs.end()) continue;
        const std::string wanted = filled(names_.present[p], layer);
        const auto present = outputs.find(wanted);
        if (present == outputs.end()) return no_decoder(fmt::format("input '{}' has no output '{}'", past->first, wanted));
        if (!agree(past->second, present->second))
          return no_decoder(fmt::format("input '{}' and output '{}' differ in type or rank", past->first, wanted));
        pairs_.push_back({past->second, present->second});
        take(past->second);
      }
      if (pairs_.size() == before)
        return no_decoder(fmt::format("no input has a name like '{}'; its inputs are {}", names_.past[p], names_of(graph_.inputs, left_)));
    }
    std::sort(pairs_.begin(), pairs_.end(), [](const CachePair& a, const CachePair& b) { return a.past < b.past; });
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
    pairs_ = std::move(pairs);
    return absl::OkStatus();
  }

  bool agree(std::size_t past, std::size_t present) const {
    const ValueInfo &a = input(past), &b = graph_.outputs[present];
    return (b.type.dtype == DType::kUndefined || a.type.dtype == b.type.dtype) && (!b.type.shape || rank_of(a) == rank_of(b));
  }

  bool counts_batch(const DimSpec& dim) const {
    const auto* text = std::get_if<std::string>(&dim);
    const DimSpec* batch = dim_of(input(input_ids_), 0);
    const auto* symbol = batch ? std::get_if<std::string>(batch) : nullptr;
    if (!text || !symbol) return false;
    const std::vector<std::string> names = dim_names(*text);
    return std::find(names.begin(), names.end(), *symbol) != names.end();
  }

  const Graph& graph_;
  const DecoderNames& names_;
  const std::size_t input_ids_, logits_;
  Places& left_;
  std::vector<CachePair> pairs_;
};

}  // namespace

absl::StatusOr<std::vector<CachePair>> cache_pairs(const CacheQuestion& question, std::vector<std::size_t>& left) {
  return PairFinder(question, left).find();
}

absl::Status find_token_axes(const CacheQuestion& question, std::vector<CachePair>& pairs) {
  Places none;
  const PairFinder finder(question, none);
  for (CachePair& pair : pairs)
    if (absl::Status s = finder.find_axis(pair); !s.ok()) return s;
  return absl::OkStatus();
}

bool writes_into_past(const Graph& graph, const GraphView& view, const CachePair& pair) {
  std::string value = graph.outputs[pair.present].name;
  for (int steps = 0; steps < 8; ++steps) {
    const Node* producer = view.producer(value);
    if (!producer) return false;
    const Node& node = *producer;
    if (one_of(node.op_type, {"Concat", "Slice", "Pad"})) return false;
    if (updates_of(node) || one_of(node.op_type, {"GroupQueryAttention", "Where"})) return true;
    if (node.inputs.empty()) return false;
    value = node.inputs[0];
  }
  return false;
}

}  // namespace saturate
