#include "extract/prepare/assumed_sizes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "extract/prepare/input_kinds.h"
#include "fmt/format.h"
#include "kernels/inputs/draw_inputs.h"
#include "kernels/inputs/model_sizes.h"
#include "kernels/runtime/runtime.h"

namespace saturate {
namespace {

struct Symbol {
  const InputKind* kind = nullptr;
  const AxisRole* role = nullptr;
  bool of_floats = false;  // stands in an input of floats, too
};

// As --dim calls it.
std::string unnamed_dim(const std::string& input, std::size_t axis) { return fmt::format("{}[{}]", input, axis); }

// Of the size of a symbol that stands in several places the first row tells, and the role of more of one row's two.
std::map<std::string, Symbol> symbols_of_inputs(const Model& model) {
  std::map<std::string, Symbol> out;
  const auto readings = readings_of(model.graph);
  bool steps = std::any_of(readings.begin(), readings.end(), [](const auto& read) { return read.second.contains(ReadAs::kCarried); });
  for (const ValueInfo& input : model.graph.inputs) {
    const auto read = readings.find(input.name);
    const InputKind* kind = kind_of(input.type, read == readings.end() ? std::set<ReadAs>() : read->second);
    for (std::size_t axis = 0; kind && axis < input.type.shape->size(); ++axis) {
      const DimSpec& dim = (*input.type.shape)[axis];
      if (std::holds_alternative<std::int64_t>(dim)) continue;
      const auto* name = std::get_if<std::string>(&dim);
      Symbol& symbol = out[name && !name->empty() ? *name : unnamed_dim(input.name, axis)];
      const AxisRole& role = role_of(*kind, axis);
      symbol.of_floats = symbol.of_floats || is_floating(input.type.dtype);
      if (!symbol.kind || kind < symbol.kind || (kind == symbol.kind && role.sizes[0] > symbol.role->sizes[0]))
        symbol.kind = kind, symbol.role = &role;
    }
  }
  for (const auto& [name, symbol] : out) steps = steps || symbol.role->sign == 'p';
  if (steps)
    for (auto& [name, symbol] : out) {
      if (symbol.role->sign != 't') continue;
      if (symbol.kind->read == ReadAs::kRows) symbol.role = &role_with('n');
      if (symbol.kind->types == InputKind::Types::kIds && symbol.kind->read == ReadAs::kAnything && !symbol.of_floats)
        symbol.role = &role_with('a');
    }
  return out;
}

// "past + 1" where the others are known.
void evaluate_sums(AssumedSizes& sizes, const std::map<std::string, std::int64_t>& given) {
  Sizes parts(given.begin(), given.end());
  for (const auto& [symbol, size] : sizes)
    if (const auto names = dim_names(symbol); names.size() == 1 && names[0] == symbol) parts.emplace(symbol, size.size);
  for (auto& [symbol, size] : sizes)
    if (!parts.contains(symbol))
      if (const auto sum = evaluate_dim(symbol, parts)) size = {*sum, ""};
}

// Masks over past and new tokens.
void add_up_tokens(AssumedSizes& sizes, const std::map<std::string, Symbol>& symbols, const std::map<std::string, std::int64_t>& given) {
  std::map<char, std::int64_t> most;  // by the role's sign
  for (const auto& [name, symbol] : symbols) {
    const auto it = given.find(name);
    std::int64_t& size = most[symbol.role->sign];
    size = std::max(size, it == given.end() ? sizes.at(name).size : it->second);
  }
  for (auto& [name, size] : sizes)
    if (symbols.at(name).role->sign == 'a') size.size = most['p'] + most['n'];
}

AssumedSizes by_table(const std::map<std::string, Symbol>& symbols, const std::map<std::string, std::int64_t>& given) {
  AssumedSizes out;
  for (const auto& [name, symbol] : symbols)
    if (!given.contains(name)) out[name] = {symbol.role->sizes[0], symbol.role->what};
  add_up_tokens(out, symbols, given);
  evaluate_sums(out, given);
  return out;
}

// Whether the operators of a model can run at given sizes, as far as inference tells: each is asked with numbers for its symbols.
class Fit {
 public:
  Fit(const OnnxEGraph& g, const Lowered& lowered) : g_(g), lowered_(lowered) {
    for (const Source& s : lowered.sources) nodes_.push_back(s.op == kNone ? Node() : node_of(g.key(s.op)));
  }

  // Shapes are followed in numbers from the inputs on: what the e-graph took for equal, because an operator would fail otherwise, is no
  // answer here. What runs at no size tells nothing.
  bool runs_at(const std::map<std::string, std::int64_t>& sizes) const {
    for (const auto& [symbol, size] : sizes)  // what it was taken for equal to
      if (g_.dims().evaluate(g_.dims().symbol(symbol), sizes).value_or(size) != size) return false;
    DimTable dims;
    std::map<Id, Facts> made;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!runs(i, sizes, dims, made)) {
        DimTable open;
        std::map<Id, Facts> nothing;
        if (runs(i, {}, open, nothing)) return false;
      }
    return true;
  }
  std::size_t size() const { return nodes_.size(); }

  // What a symbol can be alone, where the operators tell.
  std::optional<std::int64_t> number_of(const std::string& symbol) const { return g_.dims().value(g_.dims().symbol(symbol)); }

 private:
  static Node node_of(const OpKey& key) {
    Node node;
    node.domain = key.domain, node.op_type = key.op_type, node.attributes = key.attributes;
    return node;
  }

  static bool has_window(const Node& node) { return node.op_type.find("Conv") != std::string::npos || node.op_type.ends_with("Pool"); }

  // A table of positions has rows for so many alone: places that count from a number on end before its last row.
  static bool holds_places(const Node& node, const std::vector<Facts>& inputs, const DimTable& dims) {
    if (node.op_type != "Gather" || !node.domain.empty() || inputs.size() != 2) return true;
    const Facts &table = inputs[0], &places = inputs[1];
    if (!table.shape || !places.shape || places.shape->empty() || !places.counts_from) return true;
    const auto rank = static_cast<std::int64_t>(table.shape->size());
    const Attribute* given = find_attribute(node.attributes, "axis");
    const std::int64_t axis = given ? given->i() : 0;
    if (axis < -rank || axis >= rank) return true;
    const auto rows = dims.value((*table.shape)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
    const auto first = dims.value(*places.counts_from), count = dims.value(places.shape->back());
    return !rows || !first || !count || *count == 0 || (*first >= -*rows && *first + *count <= *rows);
  }

  bool runs(std::size_t i, const std::map<std::string, std::int64_t>& sizes, DimTable& dims, std::map<Id, Facts>& known) const {
    const Source& s = lowered_.sources[i];
    if (s.op == kNone || !s.node) return true;
    const OpKey& key = g_.key(s.op);
    if (key.version != 0 || key.unique != 0 || key.role != UnitRole::kNone || key.domain == "#") return true;
    std::vector<Facts> facts;
    for (const Id child : s.children) {
      const auto it = known.find(g_.egraph().find(child));
      facts.push_back(it != known.end() ? it->second : in_numbers(g_.facts(g_.egraph().find(child)), sizes, dims));
    }
    std::vector<const Facts*> inputs;
    for (const Facts& f : facts) inputs.push_back(&f);
    if (!sizes.empty() && !holds_places(nodes_[i], facts, dims)) return false;
    InferContext context{dims, [&](int, int) { return dims.fresh("unk"); }, nullptr, g_.defined()};
    const auto made = infer(nodes_[i], inputs, key.outputs, context);
    if (!made.ok()) return absl::IsInvalidArgument(made.status());  // of types, whatever the sizes
    const std::int64_t least = has_window(nodes_[i]) && !sizes.empty() ? 1 : 0;
    for (const Facts& f : *made)
      for (const Dim d : f.shape.value_or(std::vector<Dim>()))
        if (const auto n = dims.value(d); n && *n < least) return false;
    for (std::size_t o = 0; o < made->size() && o < s.outputs.size(); ++o)
      if (s.outputs[o] != kNone && (*made)[o].shape) known.insert_or_assign(g_.egraph().find(s.outputs[o]), (*made)[o]);
    return true;
  }

  Dim in_numbers(Dim d, const std::map<std::string, std::int64_t>& sizes, DimTable& dims) const {
    const auto number = g_.dims().evaluate(d, sizes);
    return number ? dims.constant(*number) : dims.fresh("unk");
  }

  Facts in_numbers(Facts f, const std::map<std::string, std::int64_t>& sizes, DimTable& dims) const {
    const auto all = [&](std::optional<std::vector<Dim>>& of) {
      if (of)
        for (Dim& d : *of) d = in_numbers(d, sizes, dims);
    };
    all(f.shape), all(f.content);
    if (f.counts_from) f.counts_from = in_numbers(*f.counts_from, sizes, dims);
    for (Facts& element : f.elements) element = in_numbers(element, sizes, dims);
    return f;
  }

  const OnnxEGraph& g_;
  const Lowered& lowered_;
  std::vector<Node> nodes_;
};

class Search {
 public:
  Search(const Model& model, const OnnxEGraph& g, const Lowered& lowered, const std::map<std::string, std::int64_t>& given)
      : model_(model), given_(given), fit_(g, lowered) {
    for (const std::string& s : g.dims().symbols()) declared_.emplace(declared_name(s), s);
    tries_left_ = std::clamp(kMostNodes / std::max<std::size_t>(fit_.size(), 1), kFewestTries, kMostTries);
  }

  AssumedSizes run(AssumedSizes sizes, const std::map<std::string, Symbol>& symbols) {
    for (auto& [name, size] : sizes)
      if (const auto number = demanded(name)) size = {*number, ""}, demanded_.insert(name);
    if (fits(sizes)) return sizes;
    const auto better = other(sizes, symbols);
    return better.value_or(sizes);
  }

 private:
  static constexpr std::size_t kMostTries = 200, kFewestTries = 20, kMostNodes = 200'000;  // of all tries together

  std::optional<std::int64_t> demanded(const std::string& name) const {
    const auto it = declared_.find(name);
    return it == declared_.end() ? std::nullopt : fit_.number_of(it->second);
  }

  bool fits(AssumedSizes& sizes) {
    if (tries_left_ > 0) --tries_left_;
    evaluate_sums(sizes, given_);
    std::map<std::string, std::int64_t> numbers = numbers_of(sizes);
    numbers.insert(given_.begin(), given_.end());
    for (const auto& [name, symbol] : declared_)
      if (const auto it = numbers.find(name); it != numbers.end()) numbers.emplace(symbol, it->second);
    return fit_.runs_at(numbers);
  }

  // One symbol, or all of a role, at another size; then several at sizes that stand in the model.
  std::optional<AssumedSizes> other(const AssumedSizes& sizes, const std::map<std::string, Symbol>& symbols) {
    std::vector<std::vector<std::string>> together;
    std::map<const AxisRole*, std::vector<std::string>> of_role;
    std::vector<std::string> open;
    for (const auto& [name, size] : sizes)
      if (!demanded_.contains(name)) open.push_back(name), of_role[symbols.at(name).role].push_back(name);
    for (const auto& [role, names] : of_role)
      if (names.size() > 1) together.push_back(names);
    for (const std::string& name : open) together.push_back({name});
    for (const auto& names : together)
      for (const std::int64_t n : candidates(names, sizes, symbols)) {
        if (tries_left_ == 0) return std::nullopt;
        AssumedSizes next = sizes;
        for (const std::string& name : names) next[name].size = n;
        if (const char sign = symbols.at(names[0]).role->sign; sign == 'p' || sign == 'n') add_up_tokens(next, symbols, given_);
        for (const std::string& name : demanded_) next[name] = sizes.at(name);
        if (fits(next)) return next;
      }
    for (const Sizes& all : sizes_in_model(model_, open, tries_left_)) {
      AssumedSizes next = sizes;
      for (const auto& [name, n] : all) next[name].size = n;
      if (fits(next)) return next;
    }
    return std::nullopt;
  }

  std::vector<std::int64_t> candidates(const std::vector<std::string>& names, const AssumedSizes& sizes,
                                       const std::map<std::string, Symbol>& symbols) const {
    constexpr std::size_t kOfModel = 24;
    const AxisRole& role = *symbols.at(names[0]).role;
    std::vector<std::int64_t> out;
    const auto add = [&](std::int64_t n) {
      if (n > 0 && n != sizes.at(names[0]).size && std::find(out.begin(), out.end(), n) == out.end()) out.push_back(n);
    };
    for (const auto& [a, x] : sizes)  // earlier and new positions together
      for (const auto& [b, y] : sizes)
        if (symbols.at(a).role->sign == 'p' && symbols.at(b).role->sign == 'n') add(x.size + y.size);
    for (const std::int64_t n : role.sizes) add(n);
    for (const Sizes& one : sizes_in_model(model_, {names[0]}, kOfModel)) add(one.at(names[0]));
    return out;
  }

  const Model& model_;
  const std::map<std::string, std::int64_t>& given_;
  Fit fit_;
  std::multimap<std::string, std::string> declared_;
  std::set<std::string> demanded_;
  std::size_t tries_left_ = 0;
};

AssumedSizes fitting_sizes(const Model& model, const std::map<std::string, Symbol>& symbols, const OnnxEGraph& g, const Lowered& lowered,
                           const std::map<std::string, std::int64_t>& given) {
  AssumedSizes sizes = by_table(symbols, given);
  return sizes.empty() ? sizes : Search(model, g, lowered, given).run(std::move(sizes), symbols);
}

}  // namespace

AssumedSizes sizes_of_table(const Model& model) { return by_table(symbols_of_inputs(model), {}); }

AssumedSizes assumed_sizes(const Model& model, const OnnxEGraph& g, const Lowered& lowered,
                           const std::map<std::string, std::int64_t>& given) {
  return fitting_sizes(model, symbols_of_inputs(model), g, lowered, given);
}

AssumedSizes assumed_sizes(const Model& model, const std::map<std::string, std::int64_t>& given) {
  const auto symbols = symbols_of_inputs(model);
  AssumedSizes of_table = by_table(symbols, given);
  if (of_table.empty()) return of_table;
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const auto lowered = lower(model, g, {});
  return lowered.ok() ? fitting_sizes(model, symbols, g, *lowered, given) : of_table;
}

std::map<std::string, std::int64_t> numbers_of(const AssumedSizes& sizes) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [symbol, size] : sizes) out.emplace(symbol, size.size);
  return out;
}

}  // namespace saturate
