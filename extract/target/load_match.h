// Matches of LoadPattern, in an e-graph or in a graph. A `View` says what a pattern is matched against:
//   Value, Node                      what names a value, and an operator that makes one
//   nodes_of(value)                  the operators that make it
//   bits_of(value)                   operator_bit() of each, together
//   key(node), inputs(node)          of canonical form
//   value_of(node)                   what it makes
//   output_of(node, i)               its output i, where that is a value
//   facts(value), number(value)      number: of a constant of one element
//   is_commutative(node)
//   is_shape_known(value)            to the runtime, which proves less than we do; and is_rank_known(value)
//   add_node(node, match)            notes that the match has this node
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "extract/target/load_pattern.h"
#include "extract/target/target_json.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

template <typename View>
struct LoadMatch {
  std::map<std::string, typename View::Value> values;
  std::map<std::string, typename View::Node> operators;
  std::vector<typename View::Node> nodes;          // the one whose value the spelling has first
  std::vector<typename View::Value> leaves, rest;  // what these read; of them those that stand for "..."
};

template <typename View>
class LoadMatcher {
 public:
  using Value = typename View::Value;
  using Node = typename View::Node;
  using Match = LoadMatch<View>;

  // `steps`: nodes that may be looked at, for all that is asked. Where they say the same in many ways there are more ways to look for a
  // spelling than can be gone: then it ends with what was found.
  LoadMatcher(const View& view, std::size_t steps) : view_(view), steps_(steps) {}

  // The spellings whose last node is this one, but not more than `most`.
  std::vector<Match> of_node(const LoadPattern& pattern, Node n, std::size_t most) const {
    std::vector<Match> found;
    Match m;
    const std::size_t given = std::min(steps_, kMostSteps);
    steps_left_ = given;
    node(pattern, n, m, [&] {
      found.push_back(m);
      return found.size() >= most;
    });
    steps_ -= given - steps_left_;
    return found;
  }

  bool is_one_of(const LoadPattern& pattern, Node n) const {
    const OpKey& key = view_.key(n);
    if (key.version != 0 || key.unique != 0 || (key.role != UnitRole::kNone && key.role != UnitRole::kFused)) return false;
    const auto is_it = [&](std::string_view name) {
      if (key.domain.empty()) return name == key.op_type;
      const std::size_t end = key.domain.size();
      return name.starts_with(key.domain) && name.substr(end).starts_with("::") && name.substr(end + 2) == key.op_type;
    };
    return std::any_of(pattern.operators.begin(), pattern.operators.end(), is_it) &&
           (pattern.attributes.empty() || refuse_attributes(pattern.attributes, key.attributes).empty());
  }

 private:
  static constexpr double kSameNumber = 1e-5;       // relative: what runtimes take for one
  static constexpr std::size_t kMostSteps = 20000;  // of a last node
  using Next = std::function<bool()>;               // whether to stop

  bool value(const LoadPattern& pattern, Value v, Match& m, const Next& next) const {
    switch (pattern.what) {
      case LoadPattern::What::kNumber: {
        const std::optional<double> number = view_.number(v);
        if (!number || std::abs(*number - pattern.number) > kSameNumber * std::abs(pattern.number)) return false;
        return with_leaf(v, m, next);
      }
      case LoadPattern::What::kValue: {
        if (pattern.output > 0) {
          const auto op = m.operators.find(pattern.name);
          return op != m.operators.end() && view_.output_of(op->second, pattern.output) == v && next();
        }
        if (const auto op = m.operators.find(pattern.name); op != m.operators.end()) return view_.value_of(op->second) == v && next();
        if (pattern.constant && !view_.facts(v).constant) return false;
        const auto [it, is_new] = m.values.emplace(pattern.name, v);
        if (!is_new) return it->second == v && next();
        const bool stop = with_leaf(v, m, next);
        m.values.erase(pattern.name);
        return stop;
      }
      case LoadPattern::What::kOperator:
        for (const Node n : view_.nodes_of(v)) {
          if (steps_left_ == 0) return true;
          --steps_left_;
          if (is_one_of(pattern, n) && node(pattern, n, m, next)) return true;
        }
        return false;
      case LoadPattern::What::kRest:
        break;
    }
    return false;
  }

  bool with_leaf(Value v, Match& m, const Next& next) const {
    m.leaves.push_back(v);
    const bool stop = next();
    m.leaves.pop_back();
    return stop;
  }

  bool node(const LoadPattern& pattern, Node n, Match& m, const Next& next) const {
    auto inputs = view_.inputs(n);
    const bool as_it_is = may_be(pattern, inputs);
    const bool turns = !pattern.in_order && inputs.size() == 2 && inputs[0] != inputs[1] && view_.is_commutative(n);
    if (!as_it_is && !turns) return false;
    const bool named = !pattern.name.empty() && m.operators.emplace(pattern.name, n).second;
    const std::size_t nodes = m.nodes.size(), leaves = m.leaves.size();
    view_.add_node(n, m);
    bool stop = as_it_is && all_inputs(pattern, inputs, 0, m, next);
    if (!stop && turns) {
      std::swap(inputs[0], inputs[1]);
      stop = may_be(pattern, inputs) && all_inputs(pattern, inputs, 0, m, next);
    }
    m.nodes.resize(nodes);
    m.leaves.resize(leaves);
    if (named) m.operators.erase(pattern.name);
    return stop;
  }

  // Whether operators that the pattern has make the inputs.
  bool may_be(const LoadPattern& pattern, std::span<const Value> inputs) const {
    for (std::size_t i = 0; i < std::min(inputs.size(), pattern.children.size()); ++i)
      if (const LoadPattern& wanted = pattern.children[i];
          wanted.what == LoadPattern::What::kOperator && (view_.bits_of(inputs[i]) & wanted.operator_bits) == 0)
        return false;
    return true;
  }

  bool all_inputs(const LoadPattern& pattern, std::span<const Value> inputs, std::size_t i, Match& m, const Next& next) const {
    if (i == pattern.children.size()) return i == inputs.size() && next();
    const LoadPattern& wanted = pattern.children[i];
    if (wanted.what == LoadPattern::What::kRest) {
      const std::size_t leaves = m.leaves.size();
      m.rest.assign(inputs.begin() + static_cast<std::ptrdiff_t>(std::min(i, inputs.size())), inputs.end());
      m.leaves.insert(m.leaves.end(), m.rest.begin(), m.rest.end());
      const bool stop = next();
      m.leaves.resize(leaves);
      m.rest.clear();
      return stop;
    }
    return i < inputs.size() && value(wanted, inputs[i], m, [&] { return all_inputs(pattern, inputs, i + 1, m, next); });
  }

  const View& view_;
  mutable std::size_t steps_, steps_left_ = 0;
};

// What a fusion asks of the values of a spelling.
template <typename View>
class LoadGuards {
 public:
  LoadGuards(const View& view, const DimTable& dims, const LoadFusion& fusion) : view_(view), dims_(dims), fusion_(fusion) {}

  bool hold(const LoadMatch<View>& m) const {
    const auto facts = [&](const std::string& name) -> const Facts& { return view_.facts(m.values.at(name)); };
    for (const auto& [name, ranks] : fusion_.ranks)
      if (!facts(name).shape || !view_.is_rank_known(m.values.at(name)) ||
          std::find(ranks.begin(), ranks.end(), facts(name).rank()) == ranks.end())
        return false;
    for (const auto& [axes, of] : fusion_.last_axis)
      if (!is_last_axis(view_.number(m.values.at(axes)), facts(of))) return false;
    for (const std::string& name : fusion_.one_element)
      if (!all_sizes(facts(name), [](std::optional<std::int64_t> size) { return size == 1; })) return false;
    for (const std::string& name : fusion_.all_sizes_known)
      if (!view_.is_shape_known(m.values.at(name)) || !all_sizes(facts(name), [](auto size) { return size.has_value(); })) return false;
    for (const std::string& name : fusion_.swaps_last_two)
      if (!swaps_last_two(view_.key(m.operators.at(name)))) return false;
    for (const auto& [name, least] : fusion_.at_least)
      if (!(view_.number(m.values.at(name)).value_or(-1) >= least)) return false;
    for (const auto& [name, weights] : fusion_.per_filter)
      if (!is_per_filter(facts(name), facts(weights))) return false;
    for (const auto& [name, other] : fusion_.same_type)
      if (facts_of(name, m).dtype != facts_of(other, m).dtype) return false;
    for (const auto& [name, other] : fusion_.same_rank)
      if (!facts_of(name, m).shape || !facts_of(other, m).shape || facts_of(name, m).rank() != facts_of(other, m).rank()) return false;
    for (const std::string& name : fusion_.same_shape)
      if (!facts(name).shape || facts(name).shape != facts(fusion_.same_shape.front()).shape || !view_.is_shape_known(m.values.at(name)))
        return false;
    return true;
  }

 private:
  const Facts& facts_of(const std::string& name, const LoadMatch<View>& m) const {
    const auto op = m.operators.find(name);
    return view_.facts(op == m.operators.end() ? m.values.at(name) : view_.value_of(op->second));
  }

  template <typename Test>
  bool all_sizes(const Facts& f, const Test& test) const {
    return f.shape && std::all_of(f.shape->begin(), f.shape->end(), [&](Dim d) { return test(dims_.value(d)); });
  }

  // A number for each filter, along the axis of channels.
  bool is_per_filter(const Facts& f, const Facts& weights) const {
    if (!f.shape || !weights.shape || (f.rank() != weights.rank() && f.rank() != weights.rank() - 1)) return false;
    const std::size_t channels = f.rank() == weights.rank() ? 1 : 0;
    for (std::size_t i = 0; i < f.shape->size(); ++i)
      if (i == channels ? (*f.shape)[i] != (*weights.shape)[0] : dims_.value((*f.shape)[i]) != 1) return false;
    return true;
  }

  static bool is_last_axis(std::optional<double> axis, const Facts& of) {
    return axis && (*axis == -1 || (of.shape && *axis == of.rank() - 1));
  }

  static bool swaps_last_two(const OpKey& key) {
    const Attribute* perm = find_attribute(key.attributes, "perm");
    if (!perm || perm->ints().size() < 2) return false;
    const auto& p = perm->ints();
    for (std::size_t i = 0; i + 2 < p.size(); ++i)
      if (p[i] != static_cast<std::int64_t>(i)) return false;
    const auto last = static_cast<std::int64_t>(p.size()) - 1;
    return p[p.size() - 2] == last && p.back() == last - 1;
  }

  const View& view_;
  const DimTable& dims_;
  const LoadFusion& fusion_;
};

// What a fusion makes of a spelling: the operator, in canonical form, and its inputs.
template <typename View>
struct MadeAtLoad {
  OpKey key;
  std::vector<typename View::Value> inputs;
};

// `nested`: what is made for an operator among the inputs, as a value.
template <typename View, typename Nested>
MadeAtLoad<View> made_at_load(const View& view, const LoadPattern& becomes, const LoadMatch<View>& m, const Nested& nested) {
  MadeAtLoad<View> out;
  for (const LoadPattern& input : becomes.children) {
    if (input.what == LoadPattern::What::kRest) {
      out.inputs.insert(out.inputs.end(), m.rest.begin(), m.rest.end());
      continue;
    }
    if (input.what == LoadPattern::What::kOperator) {
      out.inputs.push_back(nested(made_at_load(view, input, m, nested)));
      continue;
    }
    const auto op = m.operators.find(input.name);
    out.inputs.push_back(op == m.operators.end() ? m.values.at(input.name) : view.value_of(op->second));
  }
  const Facts& first = view.facts(out.inputs.front());
  const std::vector<Attribute>* others =
      becomes.attributes_of.empty() ? nullptr : &view.key(m.operators.at(becomes.attributes_of)).attributes;
  out.key = fused_key(becomes, others, first.shape ? std::optional(first.rank()) : std::nullopt);
  return out;
}

}  // namespace saturate
