#include <fmt/format.h>

#include "onnx_bridge/operators/op_traits.h"
#include "rules/check/check_run.h"

namespace saturate {
namespace {

void change(Attribute& a) {
  if (auto* i = std::get_if<std::int64_t>(&a.value))
    *i += *i == 0 ? 1 : -1;
  else if (auto* f = std::get_if<float>(&a.value))
    *f = *f * 1.25f + 0.3f;
  else if (auto* v = std::get_if<std::vector<std::int64_t>>(&a.value); v && !v->empty())
    v->front() += 1;
  else if (auto* w = std::get_if<std::vector<float>>(&a.value); w && !w->empty())
    w->front() += 0.5f;
}

ExprPtr plus_one(const ExprPtr& e) {
  auto one = make_expr(Expr::Kind::kInt);
  one->integer = 1;
  auto sum = make_expr(Expr::Kind::kBinary);
  sum->text.push_back('+');
  sum->arguments = {e, one};
  return sum;
}

}  // namespace

std::vector<Mutant> mutants_of(const Rule& rule) {
  std::vector<Mutant> out;
  for (std::size_t n = 0; n < rule.right.size(); ++n) {
    const RuleNode& node = rule.right[n];
    for (std::size_t i = 0; !has(Trait::kCommutative, node) && i + 1 < node.inputs.size(); ++i) {
      if (node.inputs[i] == node.inputs[i + 1] || node.inputs[i].empty() || node.inputs[i + 1].empty()) continue;
      Mutant m{rule, fmt::format("inputs {} and {} of {} on the right swapped", node.inputs[i], node.inputs[i + 1], node.op_type)};
      std::swap(m.rule.right[n].inputs[i], m.rule.right[n].inputs[i + 1]);
      out.push_back(std::move(m));
    }
    for (std::size_t a = 0; a < node.attributes.size(); ++a) {
      if (node.attributes[a].kind != RuleAttribute::Kind::kLiteral) continue;
      Mutant m{rule, fmt::format("attribute {} of {} on the right changed", node.attributes[a].literal.name, node.op_type)};
      change(m.rule.right[n].attributes[a].literal);
      if (!same_value(m.rule.right[n].attributes[a].literal, node.attributes[a].literal)) out.push_back(std::move(m));
    }
  }
  for (std::size_t n = 0; n < rule.left.size(); ++n)
    if (rule.left[n].is_constant()) {
      Mutant m{rule, fmt::format("constant {} on the left changed", rule.left[n].outputs[0])};
      change(m.rule.left[n].attributes[0].literal);
      out.push_back(std::move(m));
    }
  for (std::size_t i = 0; i < rule.lets.size(); ++i) {
    Mutant m{rule, fmt::format("`{}` of let made larger by one", rule.lets[i].first)};
    m.rule.lets[i].second = plus_one(rule.lets[i].second);
    out.push_back(std::move(m));
  }
  return out;
}

}  // namespace saturate
