#include "tools/reduce/reduce.h"

#include <algorithm>
#include <set>

#include "onnx_bridge/file/io.h"
#include "tools/reduce/size_edits.h"

namespace saturate {
namespace {

constexpr std::size_t kBigTensor = 1024;  // bytes: such weights slow each trial down, and may become inputs
constexpr std::size_t kMostRounds = 20;
constexpr std::size_t kMostDetailed = 200;  // nodes of a model that is looked at attribute by attribute

std::vector<bool> all_of_them(std::size_t count) { return std::vector<bool>(count, true); }

bool same_type(const ValueType& a, const ValueType& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape && !a.element && !b.element;
}

// A name becomes absent; absent ones at the end go.
void drop_name(std::vector<std::string>& names, std::size_t i) {
  names[i].clear();
  while (!names.empty() && names.back().empty()) names.pop_back();
}

class Reducer {
 public:
  Reducer(const Model& model, const ReduceOptions& options) : options_(options), best_(model) {}

  Reduced run() {
    using Step = bool (Reducer::*)();
    const std::pair<const char*, Step> steps[] = {{"plain", &Reducer::forget},
                                                  {"outputs", &Reducer::drop_outputs},
                                                  {"weights", &Reducer::free_weights},
                                                  {"nodes", &Reducer::drop_nodes},
                                                  {"sizes of dims", &Reducer::fix_symbols},
                                                  {"calls", &Reducer::write_out},
                                                  {"nodes passed over", &Reducer::pass_over},
                                                  {"bodies", &Reducer::shrink_inside},
                                                  {"attributes", &Reducer::drop_details},
                                                  {"sizes", &Reducer::shrink_sizes}};
    bool more = true;
    for (std::size_t round = 0; more && round < kMostRounds && !stopped(); ++round) {
      more = false;
      for (const auto& [name, step] : steps) {
        step_ = name;
        more |= (this->*step)();
      }
    }
    return {std::move(best_), trials_, !stopped_};
  }

 private:
  bool stopped() {
    stopped_ = stopped_ || (options_.stop && options_.stop());
    return stopped_;
  }

  // Whether a model is valid, not tried yet, and shows the failure: then it is the best one.
  bool accept(const Model& candidate) {
    if (stopped()) return false;
    std::vector<DetachedData> detached;
    const absl::StatusOr<std::string> bytes = serialize_model(candidate, kBigTensor, detached);
    if (!bytes.ok() || !seen_.emplace(bytes->size(), std::hash<std::string>()(*bytes)).second) return false;
    const absl::StatusOr<Model> loaded = parse_model(*bytes, "", std::move(detached));
    if (!loaded.ok()) return false;
    ++trials_;
    if (options_.progress) options_.progress(step_, count_nodes(best_), trials_);
    if (!options_.fails(*loaded)) return false;
    best_ = *loaded;
    types_.reset();
    return true;
  }
  bool accept(const std::optional<Model>& candidate) { return candidate && accept(*candidate); }

  const ValueTypes& types() {
    if (!types_) types_ = options_.types(best_);
    return *types_;
  }

  // Goes on without items, many at once first. `make` gives the model with those that are kept.
  template <typename Make>
  bool shrink(std::size_t count, Make make) {
    std::vector<bool> keep = all_of_them(count);
    bool changed = false;
    for (std::size_t chunk = (count + 1) / 2; chunk > 0; chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
      std::vector<std::size_t> kept;
      for (std::size_t i = 0; i < count; ++i)
        if (keep[i]) kept.push_back(i);
      for (std::size_t end = kept.size(); end > 0 && !stopped();) {
        const std::size_t begin = end - std::min(chunk, end);
        std::vector<bool> fewer = keep;
        for (std::size_t i = begin; i < end; ++i) fewer[kept[i]] = false;
        if (accept(make(fewer))) {
          keep = std::move(fewer);
          changed = true;
        }
        end = begin;
      }
    }
    return changed;
  }

  // ---- The steps: whether the model became smaller.

  bool forget() {
    bool changed = accept(with_constants_outside(plain(best_)));
    changed |= !changed && accept(plain(best_));
    changed |= accept(without_unread(best_));
    return changed;
  }

  bool drop_outputs() {
    const Model base = best_;
    return shrink(base.graph.outputs.size(), [&](const std::vector<bool>& keep) { return with_outputs(base, keep); });
  }

  bool free_weights() {
    const Model base = best_;
    std::vector<std::size_t> big;
    for (std::size_t i = 0; i < base.graph.initializers.size(); ++i)
      if (!base.graph.initializers[i].sparse && base.graph.initializers[i].tensor.bytes().size() >= kBigTensor) big.push_back(i);
    const auto make = [&](const std::vector<bool>& keep) {
      std::vector<bool> all = all_of_them(base.graph.initializers.size());
      for (std::size_t i = 0; i < big.size(); ++i) all[big[i]] = keep[i];
      return with_initializers(base, all);
    };
    return !big.empty() && (accept(make(std::vector<bool>(big.size(), false))) || shrink(big.size(), make));
  }

  bool drop_nodes() {
    const Model base = best_;
    const ValueTypes known = types();
    return shrink(base.graph.nodes.size(), [&](const std::vector<bool>& keep) { return induced(base, keep, known); });
  }

  bool fix_symbols() {
    const std::vector<std::string> symbols = symbols_in(best_);
    if (symbols.empty()) return false;
    constexpr std::int64_t kSizes[] = {2, 3, 5, 7};
    std::map<std::string, std::int64_t> different, alike;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      different[symbols[i]] = kSizes[i % std::size(kSizes)];
      alike[symbols[i]] = 2;
    }
    if (accept(with_symbols(best_, different)) || accept(with_symbols(best_, alike))) return true;
    bool changed = false;
    for (const auto& [symbol, size] : different)
      changed |= accept(with_symbols(best_, {{symbol, size}})) || accept(with_symbols(best_, {{symbol, 1}}));
    return changed;
  }

  // Calls and bodies, one after the other: what was written out may hold more of them.
  bool write_out() {
    bool changed = false;
    for (std::size_t at = 0; at < best_.graph.nodes.size() && !stopped();) {
      const bool here = write_out(at);
      changed |= here;
      if (!here) ++at;
    }
    return changed;
  }

  bool write_out(std::size_t at) {
    if (accept(with_call_inlined(best_, at))) return true;
    const std::vector<Attribute>& attributes = best_.graph.nodes[at].attributes;
    for (std::size_t a = 0; a < attributes.size(); ++a)
      if (attributes[a].type == AttributeType::kGraph && accept(with_body_taken_out(best_, at, a, types()))) return true;
    return false;
  }

  // Nodes of the main graph whose first output is of the type of an input.
  bool pass_over() {
    const Model base = best_;
    const ValueTypes known = types();
    std::vector<Bypass> all;
    for (std::size_t n = 0; n < base.graph.nodes.size(); ++n) {
      const Node& node = base.graph.nodes[n];
      const auto out = node.outputs.empty() ? known.end() : known.find(node.outputs[0]);
      for (std::size_t i = 0; out != known.end() && i < node.inputs.size(); ++i) {
        const auto in = known.find(node.inputs[i]);
        if (in == known.end() || !same_type(in->second, out->second)) continue;
        all.push_back({n, i});
        break;
      }
    }
    return shrink(all.size(), [&](const std::vector<bool>& keep) {
      std::vector<Bypass> gone;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (!keep[i]) gone.push_back(all[i]);
      return bypassed(base, {}, gone);
    });
  }

  // Nodes of bodies and functions. Types are not asked for where an input takes an output's place: the trial tells.
  bool shrink_inside() {
    bool changed = false, more = true;
    while (more && !stopped()) {
      more = false;
      for (const Scope& scope : scopes(best_)) {
        if (scope.is_main()) continue;
        for (std::size_t n = nodes_of(best_, scope).size(); n-- > 0 && !more && !stopped();) more = shrink_inside(scope, n);
        if (more) break;  // scopes have changed
      }
      changed |= more;
    }
    return changed;
  }

  bool shrink_inside(const Scope& scope, std::size_t n) {
    const Node node = nodes_of(best_, scope)[n];
    if (node.op_type == "Identity" && node.domain.empty()) return false;
    if (scope.function < 0 && accept(cut_in_body(best_, scope, n, types()))) return true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Model candidate = node.inputs[i].empty() ? best_ : bypassed(best_, scope, {{n, i}});
      if (!node.inputs[i].empty() && count_nodes(candidate) < count_nodes(best_) && accept(candidate)) return true;
    }
    return false;
  }

  // Attributes, inputs from the last on, and outputs that nobody reads.
  bool drop_details() {
    if (count_nodes(best_) > kMostDetailed) return false;
    bool changed = false;
    for (const Scope& scope : scopes(best_))
      for (std::size_t n = 0; n < nodes_of(best_, scope).size() && !stopped(); ++n) {
        const Node node = nodes_of(best_, scope)[n];
        for (std::size_t a = node.attributes.size(); a-- > 0;)
          if (node.attributes[a].type != AttributeType::kGraph)
            changed |= drop_detail(scope, n, [&](Node& m) { m.attributes.erase(m.attributes.begin() + static_cast<std::ptrdiff_t>(a)); });
        for (std::size_t i = node.inputs.size(); i-- > 0;)
          if (!node.inputs[i].empty()) changed |= drop_input(scope, n, i);
        for (std::size_t o = node.outputs.size(); o-- > 1;)
          if (!node.outputs[o].empty()) changed |= drop_detail(scope, n, [&](Node& m) { drop_name(m.outputs, o); });
      }
    return changed;
  }

  template <typename Change>
  bool drop_detail(const Scope& scope, std::size_t n, Change change) {
    Model candidate = best_;
    Node& node = edit_nodes(candidate, scope)[n];
    change(node);
    node.origin = nullptr;
    // A cleaned model may have other nodes where this one stood.
    Model cleaned = without_unread(candidate);
    return accept(count_nodes(cleaned) == count_nodes(candidate) ? cleaned : candidate);
  }

  // Left out, or (of Concat and the like) taken away.
  bool drop_input(const Scope& scope, std::size_t n, std::size_t i) {
    const Model before = best_;
    if (i < nodes_of(before, scope)[n].inputs.size() && drop_detail(scope, n, [&](Node& m) { drop_name(m.inputs, i); })) return true;
    return i < nodes_of(best_, scope)[n].inputs.size() &&
           drop_detail(scope, n, [&](Node& m) { m.inputs.erase(m.inputs.begin() + static_cast<std::ptrdiff_t>(i)); });
  }

  bool shrink_sizes() {
    bool changed = false, more = true;
    while (more && !stopped()) {
      more = false;
      for (const std::int64_t size : sizes_in(best_)) {
        for (const std::int64_t to : {2, 3, 1})
          if (to < size && !more) more = accept(with_size(best_, size, to, false)) || accept(with_size(best_, size, to, true));
        if (more) break;
      }
      changed |= more;
    }
    return changed;
  }

  const ReduceOptions& options_;
  Model best_;
  std::optional<ValueTypes> types_;                     // of best_
  std::set<std::pair<std::size_t, std::size_t>> seen_;  // size and hash of what was tried
  std::string step_;
  std::size_t trials_ = 0;
  bool stopped_ = false;
};

}  // namespace

Reduced reduce_model(const Model& model, const ReduceOptions& options) { return Reducer(model, options).run(); }

}  // namespace saturate
