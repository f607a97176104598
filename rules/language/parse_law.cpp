// Laws that stand once for several rules: what comes before `rule` (`forall`, `optional`), and definitions of conditions.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rules/evaluate/functions.h"
#include "rules/language/operator_classes.h"
#include "rules/language/own_functions.h"
#include "rules/language/parse_parser.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxInstances = 2000;

bool begins_law(const Token& token) {
  for (std::string_view word : {"rule", "native", "operator", "function", "forall", "optional", "def"})
    if (token.is_word(word)) return true;
  return false;
}

std::string joined(const std::vector<Token>& tokens) {
  std::string out;
  for (const Token& token : tokens) out += token.text;
  return out;
}

// What the operator's name looks like in a body: `com.microsoft.Gelu` is five tokens.
std::vector<Token> tokens_of_operator(std::string_view name, const Token& at) {
  std::vector<Token> out;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    Token part = at;
    part.kind = Token::Kind::kName;
    part.text = std::string(name.substr(begin, end - begin));
    out.push_back(part);
    if (end == name.size()) break;
    part.kind = Token::Kind::kPunctuation;
    part.text = ".";
    out.push_back(part);
    begin = end + 1;
  }
  return out;
}

using Choices = std::map<std::string, const std::vector<Token>*, std::less<>>;

// The tokens of a law with what was chosen in place of each `@name` (also of a string that is nothing else).
std::vector<Token> with_choices(const std::vector<Token>& tokens, const Choices& chosen) {
  std::vector<Token> out;
  out.reserve(tokens.size());
  for (const Token& token : tokens) {
    const bool string = token.kind == Token::Kind::kString && token.text.starts_with("@");
    const auto it = token.kind == Token::Kind::kVariable ? chosen.find(token.text)
                    : string                             ? chosen.find(std::string_view(token.text).substr(1))
                                                         : chosen.end();
    if (it == chosen.end()) {
      out.push_back(token);
    } else if (string) {
      out.push_back(token);
      out.back().text = joined(*it->second);
    } else {
      for (Token part : *it->second) {
        part.place = token.place;
        part.begin = token.begin;
        part.end = token.end;
        out.push_back(std::move(part));
      }
    }
  }
  return out;
}

std::string first_unknown_name(const Expr& e, const std::vector<std::string>& known) {
  const bool name = e.kind == Expr::Kind::kName && e.text != "true" && e.text != "false" && !parse_dtype(e.text);
  if (name && std::find(known.begin(), known.end(), e.text) == known.end()) return e.text;
  for (const ExprPtr& a : e.arguments)
    if (std::string unknown = a ? first_unknown_name(*a, known) : ""; !unknown.empty()) return unknown;
  return {};
}

}  // namespace

bool RuleParser::parse_definition() {
  const Token word = next();
  operators_ = 0;
  std::string name;
  if (!expect_name(name, "the name of a definition")) return false;
  RuleDefinition definition;
  if (!expect("(", "before the names of a definition") || !parse_names(definition.parameters, ")", true)) return false;
  if (std::set<std::string>(definition.parameters.begin(), definition.parameters.end()).size() < definition.parameters.size())
    return fail(word.place, fmt::format("two names of `{}` are the same; give the second another", name));
  if (!expect("=", "before what a definition stands for")) return false;
  definition.body = parse_expr();
  if (!definition.body) return false;
  if (definitions_.contains(name) || find_rule_function(name))
    return fail(word.place, fmt::format("`{}` has a meaning already; give the definition another name", name));
  const std::string unknown = first_unknown_name(*definition.body, definition.parameters);
  if (!unknown.empty())
    return fail(word.place, fmt::format("`{}` is not one of the definition's names; a definition sees nothing else", unknown));
  definitions_.emplace(std::move(name), std::move(definition));
  return true;
}

bool RuleParser::parse_prelude(Prelude& prelude) {
  prelude.doc = peek().doc;
  while (peek().is_word("forall") || peek().is_word("optional")) {
    const Place place = peek().place;
    if (next().text == "forall") {
      if (!parse_quantifier(prelude.quantifiers.emplace_back())) return false;
      continue;
    }
    OptionalGroup group;
    group.place = place;
    if (!expect_name(group.name, "a name for what is optional, as in `optional past: Pk, Pv`")) return false;
    if (!expect(":", "before the optional values")) return false;
    do {
      if (!expect_name(group.values.emplace_back(), "the name of an input or output")) return false;
    } while (accept(","));
    prelude.optional.push_back(std::move(group));
  }
  return true;
}

bool RuleParser::parse_quantifier(Quantifier& quantifier) {
  if (accept("(")) {
    if (!parse_names(quantifier.names, ")", true)) return false;
  } else if (!expect_name(quantifier.names.emplace_back(), "a name, as in `forall op in Relu, Tanh`")) {
    return false;
  }
  if (!accept_word("in")) return fail(peek().place, fmt::format("expected `in` after the names of a `forall`, found {}", shown(peek())));
  if (!parse_choices(quantifier)) return false;
  if (quantifier.choices.empty()) return fail(peek().place, "there is nothing that this `forall` is for");
  return true;
}

// Words, classes of operators (`a and b`: what both hold), or lists in parentheses with as many parts as there are names.
bool RuleParser::parse_choices(Quantifier& quantifier) {
  do {
    const Token first = peek();
    if (accept("(")) {
      auto& choice = quantifier.choices.emplace_back(1);
      for (int depth = 0, attributes = 0; depth > 0 || !peek().is(")"); next()) {
        if (peek().kind == Token::Kind::kEnd) return fail(first.place, "this list has no closing parenthesis");
        if (depth == 0 && peek().is(",")) {
          choice.emplace_back();
          continue;
        }
        const bool begins = peek().is("<") && (peek(1).is(".") || peek(2).is("=")), ends = attributes > 0 && peek().is(">");
        attributes += begins - ends;
        depth += peek().is("(") || peek().is("[") || begins ? 1 : peek().is(")") || peek().is("]") || ends ? -1 : 0;
        choice.back().push_back(peek());
      }
      next();
      if (choice.size() != quantifier.names.size())
        return fail(first.place, fmt::format("this list has {} parts for {} names", choice.size(), quantifier.names.size()));
      continue;
    }
    if (quantifier.names.size() > 1) return fail(first.place, fmt::format("expected a list in parentheses, found {}", shown(first)));
    const auto operators = first.kind == Token::Kind::kName ? operators_of_class(first.text) : std::nullopt;
    if (!operators) {
      std::vector<Token> word{next()};
      while (peek().is(".")) {
        word.push_back(next());
        word.push_back(next());
      }
      quantifier.choices.push_back({std::move(word)});
      continue;
    }
    next();
    std::vector<std::string> names = *operators;
    while (accept_word("and")) {
      const auto also = operators_of_class(peek().text);
      if (!also) return fail(peek().place, fmt::format("{} is no class of operators; known are {}", shown(peek()), operator_classes()));
      next();
      std::erase_if(names, [&](const std::string& n) { return std::find(also->begin(), also->end(), n) == also->end(); });
    }
    for (const std::string& name : names) quantifier.choices.push_back({tokens_of_operator(name, first)});
  } while (accept(","));
  return parse_exceptions(quantifier);
}

bool RuleParser::parse_exceptions(Quantifier& quantifier) {
  if (!accept_word("except")) return true;
  do {
    std::string name;
    const Place place = peek().place;
    if (!expect_name(name, "the name of an operator")) return false;
    while (accept(".")) name += "." + next().text;
    if (std::erase_if(quantifier.choices, [&](const auto& choice) { return joined(choice[0]) == name; }) == 0)
      return fail(place, fmt::format("`{}` is none of what this `forall` is for; remove it", name));
  } while (accept(","));
  return true;
}

// From `rule` to where the next one begins, which is the first word of its line.
std::vector<Token> RuleParser::tokens_of_law() {
  std::vector<Token> out{next()};
  const auto ends = [&] {
    return peek().kind == Token::Kind::kEnd || (begins_law(peek()) && peek().place.line != tokens_[at_ - 1].place.line);
  };
  while (!ends()) out.push_back(next());
  return out;
}

bool RuleParser::parse_instance(std::vector<Token> tokens, WrittenRule& written) {
  tokens.push_back(tokens_.back());  // kEnd
  RuleParser parser(text_, file_, std::move(tokens), known());
  bool ok = parser.parse_rule_or_operator(written);
  if (ok && parser.peek().kind != Token::Kind::kEnd)
    ok = parser.fail(parser.peek().place, fmt::format("expected a clause of the rule or the next rule, found {}", shown(parser.peek())));
  if (!ok) error_ = parser.error_;
  return ok;
}

// Instances may differ in their inputs: each example is for those that have all the tensors it gives, and no other input that they need.
bool RuleParser::share_examples(std::vector<WrittenRule>& instances) {
  const auto& first = instances.front().rule;
  if (std::all_of(instances.begin(), instances.end(), [&](const WrittenRule& w) { return w.rule.inputs == first.inputs; })) return true;
  const auto among = [](const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto is_for = [&](const RuleExample& e, const Rule& rule) {
    std::vector<std::string> given;
    for (const ExampleValue& v : e.values) given.push_back(v.name);
    const auto known = [&](const ExampleValue& v) { return v.attribute || among(rule.inputs, v.name); };
    const auto there = [&](const std::string& input) { return among(given, input) || among(rule.optional, input); };
    return std::all_of(e.values.begin(), e.values.end(), known) && std::all_of(rule.inputs.begin(), rule.inputs.end(), there);
  };
  for (auto list : {&Rule::examples, &Rule::counterexamples}) {
    for (const RuleExample& e : first.*list)
      if (std::none_of(instances.begin(), instances.end(), [&](const WrittenRule& w) { return is_for(e, w.rule); }))
        return fail(e.place, "this is for no instance of the law: none has just the inputs that it gives");
    for (WrittenRule& w : instances) std::erase_if(w.rule.*list, [&](const RuleExample& e) { return !is_for(e, w.rule); });
  }
  return true;
}

bool RuleParser::add_expanded(WrittenRule written, const Prelude& prelude, std::vector<Rule>& out) {
  written.rule.file = file_;
  written.optional = prelude.optional;
  if (!prelude.doc.empty()) written.rule.doc = prelude.doc;
  auto rules = expand(written);
  if (!rules.ok()) {
    error_ = std::string(rules.status().message());
    return false;
  }
  std::move(rules->begin(), rules->end(), std::back_inserter(out));
  return true;
}

bool RuleParser::parse_law(RuleFile& file) {
  const std::size_t begin = peek().begin;
  Prelude prelude;
  if (!parse_prelude(prelude)) return false;
  std::vector<Rule> rules;
  const Place place = peek().place;
  if (peek().is_word("native")) {
    Rule graph;
    graph.file = file_;
    graph.native = true;
    if (!parse_native(graph)) return false;
    rules.push_back(std::move(graph));
    if (!prelude.quantifiers.empty() || !prelude.optional.empty())
      return fail(place, "a graph for a native rule stands alone; remove what is before it");
  } else if (!peek().is_word("rule") && !peek().is_word("operator") && !peek().is_word("function")) {
    return fail(place, fmt::format("expected `rule`, found {}", shown(peek())));
  } else if (prelude.quantifiers.empty()) {
    WrittenRule written;
    if (!parse_rule_or_operator(written) || !add_expanded(std::move(written), prelude, rules)) return false;
  } else if (!parse_instances(tokens_of_law(), prelude, rules)) {
    return false;
  }
  const std::string source(text_.substr(begin, tokens_[at_ - 1].end - begin));
  for (Rule& rule : rules) rule.source = source;
  return add(file, std::move(rules));
}

bool RuleParser::parse_instances(const std::vector<Token>& tokens, const Prelude& prelude, std::vector<Rule>& out) {
  std::size_t instances = 1;
  for (const Quantifier& q : prelude.quantifiers)
    if ((instances *= q.choices.size()) > kMaxInstances)
      return fail(tokens.front().place, fmt::format("this law has more than {} instances; split it", kMaxInstances));
  std::vector<WrittenRule> written(instances);
  for (std::size_t k = 0; k < instances; ++k) {
    Choices chosen;
    std::string& label = written[k].labels.emplace_back();
    std::size_t rest = k, among = instances;
    for (const Quantifier& q : prelude.quantifiers) {
      among /= q.choices.size();
      const auto& choice = q.choices[rest / among];
      rest %= among;
      label += (label.empty() ? "" : ",") + joined(choice[0]);
      for (std::size_t i = 0; i < q.names.size(); ++i) chosen[q.names[i]] = &choice[i];
    }
    if (!parse_instance(with_choices(tokens, chosen), written[k])) return false;
  }
  return share_examples(written) &&
         std::all_of(written.begin(), written.end(), [&](WrittenRule& w) { return add_expanded(std::move(w), prelude, out); });
}

bool RuleParser::holds(const absl::Status& status) {
  if (!status.ok()) error_ = std::string(status.message());
  return status.ok();
}

bool RuleParser::add(RuleFile& file, std::vector<Rule> rules) {
  for (Rule& rule : rules) {
    if (rule.function && !holds(complete_function(rule, *defined_))) return false;
    if (!holds(check_rule(rule, file.opsets))) return false;
    if (rule.defines) {
      if (const std::string why = defined_->why_not(rule); !why.empty()) return fail(rule.place, why);
      Rule body = rule;
      body.operators = nullptr;  // they will hold it
      defined_->add(std::make_shared<const StoredRule>(std::move(body)));
      if (rule.function && !add(file, rules_of_function(rule))) return false;
      file.operators.push_back(std::move(rule));
      continue;
    }
    if (rule.native) {
      file.natives.push_back(std::move(rule));
      continue;
    }
    for (const Rule& other : file.rules)
      if (other.name == rule.name)
        return fail(rule.place, fmt::format("rule `{}` is already defined in line {}; give it another name", rule.name, other.place.line));
    file.rules.push_back(std::move(rule));
  }
  return true;
}

}  // namespace saturate
