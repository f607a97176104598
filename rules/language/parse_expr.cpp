#include <fmt/format.h>

#include "rules/evaluate/functions.h"
#include "rules/language/parse_parser.h"

namespace saturate {
namespace {

constexpr int kMaxOperators = 1000;  // a chain of them is as deep as it is long

// Of whatever kind: definitions of definitions double in lists and calls as well. Stops once it is beyond the limit.
int size_of(const Expr& e) {
  int n = 1;
  for (const ExprPtr& a : e.arguments)
    if (n <= kMaxOperators && a) n += size_of(*a);
  return n;
}

}  // namespace

std::shared_ptr<Expr> make_expr(Expr::Kind kind, Place place) {
  auto e = std::make_shared<Expr>();
  e->kind = kind;
  e->place = place;
  return e;
}

ExprPtr RuleParser::binary(const Token& op, ExprPtr left, ExprPtr right) {
  if (++operators_ > kMaxOperators) {
    fail(op.place, "the expressions of this rule have too many operators; split the rule");
    return nullptr;
  }
  auto e = make_expr(Expr::Kind::kBinary, op.place);
  e->text = op.text;
  e->arguments = {std::move(left), std::move(right)};
  return e;
}

ExprPtr RuleParser::parse_or() {
  ExprPtr left = parse_and();
  while (left && peek().is_word("or")) {
    const Token op = next();
    ExprPtr right = parse_and();
    if (!right) return nullptr;
    left = binary(op, left, right);
  }
  return left;
}

ExprPtr RuleParser::parse_and() {
  ExprPtr left = parse_not();
  while (left && peek().is_word("and")) {
    const Token op = next();
    ExprPtr right = parse_not();
    if (!right) return nullptr;
    left = binary(op, left, right);
  }
  return left;
}

ExprPtr RuleParser::parse_not() {
  if (!peek().is_word("not")) return parse_comparison();
  auto e = make_expr(Expr::Kind::kNot, next().place);
  if (++depth_ > kMaxDepth) {
    fail(e->place, "the expression is nested too deeply; split it with `let`");
    return nullptr;
  }
  ExprPtr operand = parse_not();
  --depth_;
  if (!operand) return nullptr;
  e->arguments = {operand};
  return e;
}

ExprPtr RuleParser::parse_comparison() {
  ExprPtr left = parse_sum();
  if (!left) return nullptr;
  for (std::string_view op : {"==", "!=", "<", "<=", ">", ">="})
    if (peek().is(op)) {
      const Token token = next();
      ExprPtr right = parse_sum();
      return right ? binary(token, left, right) : nullptr;
    }
  return left;
}

ExprPtr RuleParser::parse_sum() {
  ExprPtr left = parse_product();
  while (left && (peek().is("+") || peek().is("-"))) {
    const Token op = next();
    ExprPtr right = parse_product();
    if (!right) return nullptr;
    left = binary(op, left, right);
  }
  return left;
}

ExprPtr RuleParser::parse_product() {
  ExprPtr left = parse_unary();
  while (left && (peek().is("*") || peek().is("/") || peek().is("//") || peek().is("%"))) {
    const Token op = next();
    ExprPtr right = parse_unary();
    if (!right) return nullptr;
    left = binary(op, left, right);
  }
  return left;
}

ExprPtr RuleParser::parse_unary() {
  if (++depth_ > kMaxDepth) {
    fail(peek().place, "the expression is nested too deeply; split it with `let`");
    return nullptr;
  }
  ExprPtr result;
  if (peek().is("-")) {
    auto e = make_expr(Expr::Kind::kNegate, next().place);
    ExprPtr operand = parse_unary();
    if (operand) {
      e->arguments = {operand};
      result = e;
    }
  } else {
    result = parse_power();
  }
  --depth_;
  return result;
}

ExprPtr RuleParser::parse_power() {
  ExprPtr base = parse_postfix();
  if (!base || !peek().is("**")) return base;
  const Token op = next();
  ExprPtr exponent = parse_unary();
  return exponent ? binary(op, base, exponent) : nullptr;
}

ExprPtr RuleParser::parse_postfix() {
  ExprPtr base = parse_primary();
  while (base && peek().is("[")) base = parse_subscript(base);
  return base;
}

ExprPtr RuleParser::parse_subscript(ExprPtr base) {
  const Place place = next().place;
  ExprPtr first, last;
  if (!peek().is(":") && !(first = parse_expr())) return nullptr;
  if (accept("]")) {
    auto e = make_expr(Expr::Kind::kIndex, place);
    e->arguments = {base, first};
    return e;
  }
  if (!expect(":", "in a subscript, or `]` after it")) return nullptr;
  if (!peek().is("]") && !(last = parse_expr())) return nullptr;
  if (!expect("]", "after a subscript")) return nullptr;
  auto e = make_expr(Expr::Kind::kSlice, place);
  e->arguments = {base, first, last};
  return e;
}

ExprPtr RuleParser::parse_primary() {
  const Token token = next();
  switch (token.kind) {
    case Token::Kind::kInt: {
      auto e = make_expr(Expr::Kind::kInt, token.place);
      e->integer = token.integer;
      return e;
    }
    case Token::Kind::kReal: {
      auto e = make_expr(Expr::Kind::kReal, token.place);
      e->real = token.real;
      return e;
    }
    case Token::Kind::kString:
    case Token::Kind::kVariable: {
      auto e = make_expr(token.kind == Token::Kind::kString ? Expr::Kind::kString : Expr::Kind::kName, token.place);
      e->text = token.text;
      return e;
    }
    case Token::Kind::kName: {
      if (peek().is("(")) return parse_call(token);
      auto e = make_expr(Expr::Kind::kName, token.place);
      e->text = token.text;
      return e;
    }
    default:
      break;
  }
  if (token.is("(")) {
    ExprPtr inner = parse_expr();
    return inner && expect(")", "after an expression in parentheses") ? inner : nullptr;
  }
  if (token.is("[")) {
    auto e = make_expr(Expr::Kind::kList, token.place);
    return parse_expr_list(e->arguments, "]") ? ExprPtr(e) : nullptr;
  }
  fail(token.place, fmt::format("expected an expression, found {}", shown(token)));
  return nullptr;
}

ExprPtr RuleParser::parse_call(const Token& name) {
  auto e = make_expr(Expr::Kind::kCall, name.place);
  e->text = name.text;
  next();
  if (!parse_expr_list(e->arguments, ")")) return nullptr;
  if (const auto it = definitions_.find(name.text); it != definitions_.end()) return called(name, it->second, std::move(e->arguments));
  e->function = find_rule_function(name.text);
  if (e->function == nullptr) {
    fail(name.place, fmt::format("there is no function `{}`; did you mean `{}`? (`saturate rules list --functions` names them all)",
                                 name.text, nearest_rule_function(name.text)));
    return nullptr;
  }
  const int n = static_cast<int>(e->arguments.size());
  if (n < e->function->min_arguments || n > e->function->max_arguments) {
    fail(name.place, fmt::format("`{}` takes {}, not {} argument{}", name.text, e->function->signature, n, n == 1 ? "" : "s"));
    return nullptr;
  }
  return e;
}

ExprPtr RuleParser::called(const Token& name, const RuleDefinition& definition, std::vector<ExprPtr> arguments) {
  if (arguments.size() != definition.parameters.size()) {
    fail(name.place, fmt::format("`{}` takes {}, not {} argument{}", name.text, definition.parameters.size(), arguments.size(),
                                 arguments.size() == 1 ? "" : "s"));
    return nullptr;
  }
  std::map<std::string, ExprPtr, std::less<>> given;
  for (std::size_t i = 0; i < arguments.size(); ++i) given.emplace(definition.parameters[i], std::move(arguments[i]));
  ExprPtr result = with_names(definition.body, given, &name.place);
  if (operators_ + size_of(*result) <= kMaxOperators) return result;
  fail(name.place, "the expressions of this rule have too many operators; split the rule");
  return nullptr;
}

bool RuleParser::parse_expr_list(std::vector<ExprPtr>& out, std::string_view close) {
  if (accept(close)) return true;
  do {
    ExprPtr e = parse_expr();
    if (!e) return false;
    out.push_back(std::move(e));
  } while (accept(","));
  return expect(close, "after a list of expressions");
}

namespace {

int precedence(const Expr& e) {
  if (e.kind == Expr::Kind::kNot) return 3;
  if (e.kind == Expr::Kind::kNegate) return 7;
  if (e.kind != Expr::Kind::kBinary) return 9;
  if (e.text == "or") return 1;
  if (e.text == "and") return 2;
  if (e.text == "+" || e.text == "-") return 5;
  if (e.text == "*" || e.text == "/" || e.text == "//" || e.text == "%") return 6;
  return e.text == "**" ? 8 : 4;
}

std::string operand(const Expr& e, int above) { return precedence(e) < above ? fmt::format("({})", to_string(e)) : to_string(e); }

std::string joined(std::span<const ExprPtr> list) {
  std::string out;
  for (const ExprPtr& e : list) out += (out.empty() ? "" : ", ") + to_string(*e);
  return out;
}

}  // namespace

std::string to_string(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::kInt:
      return fmt::format("{}", e.integer);
    case Expr::Kind::kReal:
      return fmt::format("{}", e.real);
    case Expr::Kind::kString:
      return fmt::format("\"{}\"", e.text);
    case Expr::Kind::kName:
      return e.text;
    case Expr::Kind::kList:
      return fmt::format("[{}]", joined(e.arguments));
    case Expr::Kind::kCall:
      return fmt::format("{}({})", e.text, joined(e.arguments));
    case Expr::Kind::kIndex:
      return fmt::format("{}[{}]", operand(*e.arguments[0], 9), to_string(*e.arguments[1]));
    case Expr::Kind::kSlice:
      return fmt::format("{}[{}:{}]", operand(*e.arguments[0], 9), e.arguments[1] ? to_string(*e.arguments[1]) : "",
                         e.arguments[2] ? to_string(*e.arguments[2]) : "");
    case Expr::Kind::kNot:
      return fmt::format("not {}", operand(*e.arguments[0], 3));
    case Expr::Kind::kNegate:
      return fmt::format("-{}", operand(*e.arguments[0], 7));
    case Expr::Kind::kBinary: {
      const int p = precedence(e);
      return fmt::format("{} {} {}", operand(*e.arguments[0], p), e.text, operand(*e.arguments[1], p + 1));
    }
  }
  return {};
}

}  // namespace saturate
