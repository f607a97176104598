#include <fmt/format.h>

#include <algorithm>

#include "egraph/rewrite.h"
#include "onnx_bridge/operators/op_table.h"
#include "rules/language/embedded.h"
#include "rules/language/parse_parser.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxRuleFileBytes = 16u << 20;
constexpr std::int64_t kMaxExampleElements = 1 << 24;

// Of the built-in files: what they define every file may name, a later one of these too.
constexpr std::string_view kSharedFiles[] = {"definitions.rules", "operators.rules"};

absl::StatusOr<KnownToRules> shared_definitions(std::string_view before) {
  KnownToRules known;
  for (const std::string_view shared : kSharedFiles) {
    if (shared == before) break;
    for (const EmbeddedRules& file : embedded_rules()) {
      if (file.name != shared) continue;
      const std::string name(file.name);
      auto tokens = tokenize(file.text, name);
      if (!tokens.ok()) return tokens.status();
      RuleParser parser(file.text, name, *std::move(tokens), known);
      if (const auto parsed = parser.parse_file(); !parsed.ok()) return parsed.status();
      known = parser.known();
    }
  }
  return known;
}

constexpr std::string_view kBack = ".back";

}  // namespace

absl::StatusOr<RuleFile> parse_rules(std::string_view text, const std::string& file_name) {
  static const absl::StatusOr<KnownToRules> shared = shared_definitions("");
  if (!shared.ok()) return shared.status();
  if (text.size() > kMaxRuleFileBytes)
    return absl::InvalidArgumentError(at(file_name, {1, 1}, "the file is larger than 16 MiB; is it a rule file?"));
  auto tokens = tokenize(text, file_name);
  if (!tokens.ok()) return tokens.status();
  const bool is_shared = std::find(std::begin(kSharedFiles), std::end(kSharedFiles), file_name) != std::end(kSharedFiles);
  auto known = is_shared ? shared_definitions(file_name) : *shared;
  if (!known.ok()) return known.status();
  KnownToRules own{known->conditions, std::make_shared<RuleOperators>(*known->operators)};
  return RuleParser(text, file_name, *std::move(tokens), std::move(own)).parse_file();
}

const Token& RuleParser::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool RuleParser::accept(std::string_view punctuation) {
  if (!peek().is(punctuation)) return false;
  next();
  return true;
}

bool RuleParser::accept_word(std::string_view word) {
  if (!peek().is_word(word)) return false;
  next();
  return true;
}

bool RuleParser::expect(std::string_view punctuation, std::string_view where) {
  if (accept(punctuation)) return true;
  return fail(peek().place, fmt::format("expected `{}` {}, found {}", punctuation, where, shown(peek())));
}

bool RuleParser::expect_name(std::string& name, std::string_view what) {
  if (peek().kind != Token::Kind::kName) return fail(peek().place, fmt::format("expected {}, found {}", what, shown(peek())));
  name = next().text;
  return true;
}

bool RuleParser::fail(Place place, std::string message) {
  if (error_.empty()) error_ = at(file_, place, message);
  return false;
}

std::string RuleParser::shown(const Token& token) const {
  if (token.kind == Token::Kind::kEnd) return "the end of the file";
  return fmt::format("`{}`", text_.substr(token.begin, token.end - token.begin));
}

absl::StatusOr<RuleFile> RuleParser::parse_file() {
  RuleFile file;
  file.name = file_;
  bool ok = !peek().is_word("opset") || parse_opsets(file);
  while (ok && peek().kind != Token::Kind::kEnd) ok = peek().is_word("def") ? parse_definition() : parse_law(file);
  if (!ok) return absl::InvalidArgumentError(error_);
  return file;
}

bool RuleParser::parse_opsets(RuleFile& file) {
  next();
  do {
    if (peek().kind != Token::Kind::kString && peek().kind != Token::Kind::kName)
      return fail(peek().place, fmt::format("expected a domain, as in `opset \"\" 23, com.microsoft 1`, found {}", shown(peek())));
    std::string domain = next().text;
    while (accept(".")) {
      std::string part;
      if (!expect_name(part, "the rest of the domain")) return false;
      domain += "." + part;
    }
    if (domain == "ai.onnx") domain.clear();
    if (peek().kind != Token::Kind::kInt)
      return fail(peek().place, fmt::format("expected the version of domain \"{}\", found {}", domain, shown(peek())));
    file.opsets.emplace_back(std::move(domain), next().integer);
  } while (accept(","));
  return true;
}

bool RuleParser::parse_rule(WrittenRule& written) {
  Rule& rule = written.rule;
  if (!peek().is_word("rule")) return fail(peek().place, fmt::format("expected `rule`, found {}", shown(peek())));
  rule.doc = next().doc;
  operators_ = unnamed_ = 0;
  rule.operators = defined_;
  if (!parse_header(written) || !parse_clauses(written)) return false;
  if (!rule.examples.empty() || !rule.counterexamples.empty())
    return fail(rule.place, fmt::format("the examples of `{}` stand after its right side; move them down", rule.name));
  if (!parse_side(rule, rule.left)) return false;
  if (!parse_where_and_lets(rule)) return false;
  if (accept("<=>"))
    rule.both_ways = true;
  else if (!accept("=>"))
    return fail(peek().place, fmt::format("expected `=>` or `<=>` before the right side, found {}", shown(peek())));
  if (!parse_side(rule, rule.right) || !parse_clauses(written)) return false;
  return !written.backward || rule.both_ways || fail(written.backward->place, "`backward` is for a rule that reads both ways, `<=>`");
}

bool RuleParser::parse_where_and_lets(Rule& rule) {
  if (accept_word("where")) {
    do {
      ExprPtr e = parse_expr();
      if (!e) return false;
      rule.where.push_back(std::move(e));
    } while (accept(","));
  }
  if (accept_word("let")) {
    do {
      std::string name;
      if (!expect_name(name, "a name, as in `let r = compose(p, q)`") || !expect("=", "after the name of a `let`")) return false;
      ExprPtr e = parse_expr();
      if (!e) return false;
      rule.lets.emplace_back(std::move(name), std::move(e));
    } while (accept(","));
  }
  if (peek().is_word("where")) return fail(peek().place, "`where` comes before `let`; move it up");
  return true;
}

bool RuleParser::parse_rule_or_operator(WrittenRule& written) {
  return peek().is_word("rule") ? parse_rule(written) : parse_operator(written);
}

// `operator twice <interleaved: int = 0> (X) => (Y)`, `where` and `let`, `=>` and the body; `function my.dom.F <a: float> (X) => (Y)` and
// the body in braces.
bool RuleParser::parse_operator(WrittenRule& written) {
  Rule& rule = written.rule;
  rule.function = peek().is_word("function");
  rule.doc = next().doc;
  operators_ = unnamed_ = 0;
  rule.operators = defined_;
  rule.defines = true;
  rule.place = peek().place;
  RuleNode node;
  const bool has_domain = peek(1).is(".");
  if (!parse_operator_name(node)) return false;
  if (node.domain.empty() && has_domain) return fail(rule.place, "the operators of ai.onnx are the standard's; give yours another domain");
  if (node.domain.empty()) node.domain = kInternalDomain;
  if (rule.function && !is_of_own_domain(node.domain))
    return fail(rule.place, fmt::format("domain {} is a known one; give the function a domain of its own, as in `function my.dom.{}`",
                                        node.domain, node.op_type));
  rule.name = fmt::format("{}.{}", node.domain, node.op_type);
  if (accept("<")) {
    do {
      if (!parse_operator_attribute(rule, node)) return false;
    } while (accept(","));
    if (!expect(">", "after the attributes of an operator")) return false;
  }
  if (!parse_inputs_and_outputs(rule)) return false;
  node.inputs = rule.inputs;
  node.outputs = rule.outputs;
  rule.left.push_back(std::move(node));
  if (!parse_operator_body(rule) || !parse_clauses(written)) return false;
  if (!rule.assumes.empty() || !written.assumed.empty() || rule.if_unsupported || rule.budget || rule.phase != 0)
    return fail(rule.place, "an operator is what its body says; of the clauses of rules it has examples, counterexamples and a tolerance");
  return true;
}

bool RuleParser::parse_operator_body(Rule& rule) {
  if (rule.function) {
    if (peek().is_word("where") || peek().is_word("let"))
      return fail(peek().place, "a function is its body, whatever it is given; `where` and `let` belong to `operator`");
    return parse_body(rule.right);
  }
  if (!parse_where_and_lets(rule)) return false;
  if (accept("=>")) return parse_side(rule, rule.right);
  rule.declares = is_of_own_domain(rule.left.front().domain);
  if (!rule.declares) return expect("=>", "before the body of an operator");
  return !accept_word("like") || parse_side(rule, rule.right);
}

// `softcap: float = 0.0`, or without a default, or `params?: floats`, which may be absent.
bool RuleParser::parse_operator_attribute(Rule& rule, RuleNode& node) {
  static constexpr std::pair<std::string_view, AttributeType> kTypes[] = {
      {"int", AttributeType::kInt},   {"float", AttributeType::kFloat},   {"string", AttributeType::kString},
      {"ints", AttributeType::kInts}, {"floats", AttributeType::kFloats}, {"strings", AttributeType::kStrings}};
  RuleAttribute& a = node.attributes.emplace_back();
  a.kind = RuleAttribute::Kind::kVariable;
  a.place = peek().place;
  if (!expect_name(a.variable, "the name of an attribute")) return false;
  if (accept("?")) rule.optional.push_back(a.variable);
  if (!expect(":", "before the type of an attribute")) return false;
  a.literal.name = a.variable;
  rule.attribute_variables.push_back(a.variable);
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return t.first == peek().text; });
  if (type == std::end(kTypes))
    return fail(peek().place,
                fmt::format("{} is no type of an attribute; known are int, float, string, ints, floats, strings", shown(peek())));
  next();
  const OpAttribute known{a.literal.name, type->second, false, {}};
  a.literal.type = type->second;
  if (!accept("=")) return true;
  RuleAttribute given;
  given.place = peek().place;
  given.literal.name = a.literal.name;
  if (!parse_literal(given.literal)) return false;
  OpSchema typed;
  typed.attributes.push_back(known);
  const std::string problem = complete_attribute_type(&typed, node.op_type, given);
  a.literal = std::move(given.literal);
  return problem.empty() || fail(given.place, problem);
}

bool RuleParser::parse_native(Rule& rule) {
  WrittenRule written;
  written.rule = std::move(rule);
  written.rule.doc = next().doc;
  written.rule.operators = defined_;
  operators_ = unnamed_ = 0;
  const bool ok = parse_header(written) && parse_side(written.rule, written.rule.left) && parse_clauses(written);
  rule = std::move(written.rule);
  if (ok && !written.assumed.empty()) return fail(rule.place, "a graph for a native rule assumes nothing; remove `assume`");
  return ok;
}

bool RuleParser::parse_header(WrittenRule& written) {
  Rule& rule = written.rule;
  rule.place = peek().place;
  if (!expect_name(rule.name, "the name of the rule")) return false;
  if (accept("<")) {
    if (!peek().is(".") && !parse_names(rule.attribute_variables, "", true)) return false;
    while (peek().is(".")) {
      if (!parse_rest(written.rests.emplace_back())) return false;
      if (!accept(",")) break;
    }
    if (!expect(">", "after the attribute variables")) return false;
  }
  return parse_inputs_and_outputs(rule);
}

bool RuleParser::parse_inputs_and_outputs(Rule& rule) {
  if (!expect("(", "before the inputs of the rule") || !parse_names(rule.inputs, ")", false, &rule.optional)) return false;
  if (!expect("=>", "between the inputs and outputs of the rule") || !expect("(", "before the outputs of the rule")) return false;
  return parse_names(rule.outputs, ")", false);
}

bool RuleParser::parse_names(std::vector<std::string>& names, std::string_view close, bool variables, std::vector<std::string>* optional) {
  if (!close.empty() && accept(close)) return true;
  do {
    if (close.empty() && peek().is(".")) return true;  // `..a` follows
    if (variables && peek().kind == Token::Kind::kVariable)
      names.push_back(next().text);
    else if (std::string name; expect_name(name, "a name"))
      names.push_back(std::move(name));
    else
      return false;
    if (optional && accept("?")) optional->push_back(names.back());
  } while (accept(","));
  return close.empty() || expect(close, "after a list of names");
}

std::string assumption_names() {
  std::string out;
  for (const Assumption& a : known_assumptions()) out += fmt::format("{}{}", out.empty() ? "" : ", ", a.name);
  return out;
}

bool RuleParser::parse_clauses(WrittenRule& written) {
  Rule& rule = written.rule;
  while (true) {
    if (accept_word("example") || peek().is_word("counterexample")) {
      const bool counterexample = accept_word("counterexample");
      do {
        RuleExample example;
        if (!parse_example(rule, example)) return false;
        (counterexample ? rule.counterexamples : rule.examples).push_back(std::move(example));
      } while (accept(";"));
    } else if (accept_word("effect")) {
      if (accept_word("exact"))
        rule.effect = Effect::kExact;
      else if (accept_word("reassociates"))
        rule.effect = Effect::kReassociates;
      else if (accept_word("within_one_step")) {
        rule.effect = Effect::kWithinOneStep;
        if (!parse_share(rule)) return false;
      } else if (accept_word("rescales"))
        rule.effect = Effect::kRescales;
      else if (accept_word("approximates"))
        rule.effect = Effect::kApproximates;
      else
        return fail(peek().place,
                    fmt::format("{} is no effect; write exact, reassociates, within_one_step, rescales or approximates", shown(peek())));
    } else if (accept_word("if_unsupported")) {
      rule.if_unsupported = true;
    } else if (accept_word("if_any_unsupported")) {
      rule.if_unsupported = rule.if_any_unsupported = true;
    } else if (accept_word("if_lacking")) {
      rule.if_unsupported = rule.if_lacking = true;
    } else if (accept_word("moves_quantizers")) {
      rule.moves_quantizers = true;
    } else if (accept_word("if_refused")) {
      rule.if_refused = true;
    } else if (accept_word("yields_to")) {
      if (!expect_name(rule.yields_to, "the name of a rule")) return false;
    } else if (peek().is_word("backward")) {
      if (!parse_backward(written)) return false;
    } else if (peek().is_word("assume")) {
      if (!parse_assumption(written)) return false;
    } else if (peek().is_word("budget") || peek().is_word("phase")) {
      if (!parse_phase(rule)) return false;
    } else if (peek().text == "tolerance" || peek().text == "rounding") {
      std::optional<double>& stated = next().text == "tolerance" ? rule.tolerance : rule.rounding;
      double real = 0;
      std::int64_t integer = 0;
      bool is_real = false;
      if (!parse_number(real, integer, is_real)) return false;
      stated = is_real ? real : static_cast<double>(integer);
    } else {
      return true;
    }
  }
}

// The number after `within_one_step`.
bool RuleParser::parse_share(Rule& rule) {
  if (peek().kind != Token::Kind::kInt && peek().kind != Token::Kind::kReal) return true;
  const Place place = peek().place;
  double real = 0;
  std::int64_t integer = 0;
  bool is_real = false;
  if (!parse_number(real, integer, is_real)) return false;
  rule.share = is_real ? real : static_cast<double>(integer);
  return (*rule.share >= 0 && *rule.share < 1) ||
         fail(place, "the share of elements that may be a step apart is a number from 0 to below 1");
}

bool RuleParser::parse_assumption(WrittenRule& written) {
  const Place place = next().place;
  std::vector<std::string> names;
  do {
    if (!expect_name(names.emplace_back(), "the name of an assumption")) return false;
    if (!find_assumption(names.back()))
      return fail(place, fmt::format("{} is no assumption; known are {}", names.back(), assumption_names()));
  } while (accept(","));
  if (!accept_word("unless")) {
    std::move(names.begin(), names.end(), std::back_inserter(written.rule.assumes));
    return true;
  }
  ExprPtr unless = parse_expr();
  if (unless) written.assumed.push_back({std::move(names), unless});
  return unless != nullptr;
}

// `backward if_unsupported`, `backward if_any_unsupported`, `backward if_refused`, `backward moves_quantizers`, `backward where CONDITION`.
bool RuleParser::parse_backward(WrittenRule& written) {
  WrittenRule::Backward back = written.backward.value_or(WrittenRule::Backward{});
  back.place = next().place;
  if (accept_word("where")) {
    ExprPtr e = parse_expr();
    if (!e) return false;
    back.where.push_back(std::move(e));
  } else if (accept_word("if_any_unsupported")) {
    back.if_unsupported = back.if_any_unsupported = true;
  } else if (accept_word("if_unsupported")) {
    back.if_unsupported = true;
  } else if (accept_word("if_refused")) {
    back.if_refused = true;
  } else if (accept_word("moves_quantizers")) {
    back.moves_quantizers = true;
  } else {
    return fail(
        peek().place,
        fmt::format(
            "expected `where`, `if_unsupported`, `if_any_unsupported`, `if_refused` or `moves_quantizers` after `backward`, found {}",
            shown(peek())));
  }
  written.backward = std::move(back);
  return true;
}

bool RuleParser::parse_phase(Rule& rule) {
  const bool budget = next().text == "budget";
  if (!budget && accept_word("last")) {
    rule.phase = Rewrite::kLastPhase;
    return true;
  }
  if (peek().kind != Token::Kind::kInt || peek().integer > 1'000'000'000)
    return fail(peek().place, fmt::format("expected a number from 0 to 1000000000, found {}", shown(peek())));
  const std::int64_t n = next().integer;
  if (budget)
    rule.budget = static_cast<std::uint64_t>(n);
  else
    rule.phase = static_cast<int>(n);
  return true;
}

// `but X = ...`: the first example with other values.
bool RuleParser::parse_example(const Rule& rule, RuleExample& example) {
  example.place = peek().place;
  const bool differs = !peek(1).is("=") && accept_word("but");
  if (differs && rule.examples.empty())
    return fail(example.place, "there is no example before this one that it could differ from; write all values");
  do {
    ExampleValue value;
    value.place = peek().place;
    if (peek().kind == Token::Kind::kVariable)
      value.name = next().text;
    else if (!expect_name(value.name, "the name of an input or attribute variable"))
      return false;
    if (!expect("=", "after the name of an example's value") || !parse_example_value(value)) return false;
    example.values.push_back(std::move(value));
  } while (accept(","));
  if (!differs) return true;
  const std::size_t written = example.values.size();
  for (const ExampleValue& v : rule.examples.front().values) {
    const auto end = example.values.begin() + static_cast<std::ptrdiff_t>(written);
    if (std::none_of(example.values.begin(), end, [&](const ExampleValue& w) { return w.name == v.name; })) example.values.push_back(v);
  }
  return true;
}

bool RuleParser::parse_example_value(ExampleValue& value) {
  if (peek().kind == Token::Kind::kName && !peek().is_word("inf") && !peek().is_word("nan")) {
    const Token token = next();
    const auto dtype = parse_dtype(token.text);
    if (!dtype) return fail(token.place, fmt::format("`{}` is no type; write a tensor as `float[2,3]` or `int64[1] {{-1}}`", token.text));
    return parse_tensor_spec(value, *dtype);
  }
  value.attribute.emplace();
  value.attribute->name = value.name;
  return parse_literal(*value.attribute);
}

bool RuleParser::parse_tensor_spec(ExampleValue& value, DType dtype) {
  value.dtype = dtype;
  if (!parse_dims(value.dims)) return false;
  const auto elements = checked_elements(value.dims);
  if (!elements || *elements > kMaxExampleElements)
    return fail(value.place, "an example's tensor has at most 16777216 elements; use smaller dims");
  if (!peek().is("{")) return true;
  value.values.emplace();
  if (!parse_elements(*value.values)) return false;
  const auto given = static_cast<std::int64_t>(value.values->size());
  if (given == 1 && *elements > 1)
    value.values->resize(static_cast<std::size_t>(*elements), value.values->front());
  else if (given != *elements)
    return fail(value.place, fmt::format("{} elements are given for a tensor of {}; give all, or one to fill it", given, *elements));
  return true;
}

const RuleAttribute* RuleNode::attribute(std::string_view name) const {
  for (const RuleAttribute& a : attributes)
    if (a.literal.name == name) return &a;
  return nullptr;
}

std::optional<RuleConstant> rule_constant(const RuleNode& node) {
  if (!node.is_constant() || node.attributes.size() != 1 || node.attributes[0].kind != RuleAttribute::Kind::kLiteral) return std::nullopt;
  const Attribute& a = node.attributes[0].literal;
  RuleConstant c;
  if (a.name == "value_float" && a.type == AttributeType::kFloat)
    c.reals = {a.f()};
  else if (a.name == "value_floats" && a.type == AttributeType::kFloats)
    c.reals.assign(a.floats().begin(), a.floats().end());
  else if (a.name == "value_int" && a.type == AttributeType::kInt)
    c.ints = {a.i()};
  else if (a.name == "value_ints" && a.type == AttributeType::kInts)
    c.ints = a.ints();
  else
    return std::nullopt;
  c.integers = a.name.starts_with("value_int");
  c.list = a.name.ends_with("s");
  return c;
}

bool EffectChoice::allows(Effect effect) const {
  switch (effect) {
    case Effect::kExact:
    case Effect::kReassociates:
      return true;
    case Effect::kWithinOneStep:
      return within_one_step.value_or(false);
    case Effect::kRescales:
      return rescales;
    case Effect::kApproximates:
      return approximates;
  }
  return false;
}

std::string_view to_string(Effect effect) {
  switch (effect) {
    case Effect::kExact:
      return "exact";
    case Effect::kReassociates:
      return "reassociates";
    case Effect::kWithinOneStep:
      return "within_one_step";
    case Effect::kRescales:
      return "rescales";
    case Effect::kApproximates:
      return "approximates";
  }
  return "";
}

std::string_view law_of(std::string_view name) { return name.substr(0, name.find('[')); }

std::string back_of(std::string_view rule) { return std::string(rule).append(kBack); }

std::string_view rule_of_rewrite(std::string_view rewrite) {
  return rewrite.ends_with(kBack) ? rewrite.substr(0, rewrite.size() - kBack.size()) : rewrite;
}

Rule reversed(const Rule& rule) {
  Rule back = rule;
  back.name = back_of(rule.name);
  std::swap(back.left, back.right);
  back.both_ways = false;
  return back;
}

}  // namespace saturate
