// The recursive-descent parser of rule files. Methods return false (or null) after fail(): the first error wins.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rules/language/expand.h"
#include "rules/language/operators.h"
#include "rules/language/parse_lexer.h"

namespace saturate {

// `def name(a, b) = expression`.
struct RuleDefinition {
  std::vector<std::string> parameters;
  ExprPtr body;
};
using RuleDefinitions = std::map<std::string, RuleDefinition, std::less<>>;

// What a rule file may name beside the standard's operators and the functions of expressions.
struct KnownToRules {
  RuleDefinitions conditions;
  std::shared_ptr<RuleOperators> operators = std::make_shared<RuleOperators>();
};

inline constexpr int kMaxDepth = 100;  // of expressions, and of operators, within one another

class RuleParser {
 public:
  // `known`: what the file may call beside its own.
  RuleParser(std::string_view text, std::string file, std::vector<Token> tokens, KnownToRules known)
      : text_(text),
        file_(std::move(file)),
        tokens_(std::move(tokens)),
        definitions_(std::move(known.conditions)),
        defined_(known.operators) {}
  absl::StatusOr<RuleFile> parse_file();
  // What the file may call, and what it defines itself.
  KnownToRules known() const { return {definitions_, defined_}; }

 private:
  // `forall`: names, and for each choice what stands for each of them.
  struct Quantifier {
    std::vector<std::string> names;
    std::vector<std::vector<std::vector<Token>>> choices;
  };
  // What stands before a rule.
  struct Prelude {
    std::string doc;
    std::vector<Quantifier> quantifiers;
    std::vector<OptionalGroup> optional;
  };

  // parse_law.cpp
  bool parse_definition();
  bool parse_prelude(Prelude& prelude);
  bool parse_quantifier(Quantifier& quantifier);
  bool parse_choices(Quantifier& quantifier);
  bool parse_exceptions(Quantifier& quantifier);
  bool parse_law(RuleFile& file);
  bool parse_instances(const std::vector<Token>& tokens, const Prelude& prelude, std::vector<Rule>& out);
  bool parse_instance(std::vector<Token> tokens, WrittenRule& written);
  bool share_examples(std::vector<WrittenRule>& instances);
  bool add_expanded(WrittenRule written, const Prelude& prelude, std::vector<Rule>& out);
  bool holds(const absl::Status& status);  // else it is the error
  bool add(RuleFile& file, std::vector<Rule> instances);
  std::vector<Token> tokens_of_law();

  // parse_rule.cpp
  bool parse_opsets(RuleFile& file);
  bool parse_rule(WrittenRule& written);
  bool parse_native(Rule& rule);
  bool parse_where_and_lets(Rule& rule);
  bool parse_rule_or_operator(WrittenRule& written);
  bool parse_operator(WrittenRule& written);
  bool parse_operator_body(Rule& rule);
  bool parse_operator_attribute(Rule& rule, RuleNode& node);
  bool parse_header(WrittenRule& written);
  bool parse_inputs_and_outputs(Rule& rule);
  // `optional`: takes the names that a `?` follows.
  bool parse_names(std::vector<std::string>& names, std::string_view close, bool variables, std::vector<std::string>* optional = nullptr);
  bool parse_clauses(WrittenRule& written);
  bool parse_assumption(WrittenRule& written);
  bool parse_share(Rule& rule);
  bool parse_backward(WrittenRule& written);
  bool parse_phase(Rule& rule);
  bool parse_example(const Rule& rule, RuleExample& example);
  bool parse_example_value(ExampleValue& value);
  bool parse_tensor_spec(ExampleValue& value, DType dtype);
  // parse_body.cpp
  bool parse_side(const Rule& rule, std::vector<RuleNode>& nodes);
  bool parse_body(std::vector<RuleNode>& nodes);
  bool parse_node(std::vector<RuleNode>& nodes);
  bool parse_call(RuleNode node, std::vector<RuleNode>& nodes);
  bool parse_operator_name(RuleNode& node);
  static void add_defaults_of_defined(const OpSchema& schema, RuleNode& node);
  bool parse_arguments(RuleNode& node, std::vector<RuleNode>& nodes);
  bool parse_argument(std::string& name, std::vector<RuleNode>& nodes);
  bool parse_constant(RuleNode node, std::vector<RuleNode>& nodes);
  bool parse_attributes(RuleNode& node);
  bool parse_attribute(std::vector<RuleAttribute>& attributes);
  bool parse_rest(std::string& name);
  bool parse_attribute_value(RuleAttribute& attribute);
  bool parse_literal(Attribute& attribute);
  bool parse_literal_list(Attribute& attribute);
  bool parse_tensor_literal(Attribute& attribute, DType dtype);
  bool parse_number(double& real, std::int64_t& integer, bool& is_real);
  bool parse_dims(Shape& dims);
  bool parse_elements(std::vector<double>& values);
  // parse_expr.cpp; null after fail()
  ExprPtr parse_expr() { return parse_or(); }
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  ExprPtr parse_sum();
  ExprPtr parse_product();
  ExprPtr parse_unary();
  ExprPtr parse_power();
  ExprPtr parse_postfix();
  ExprPtr parse_subscript(ExprPtr base);
  ExprPtr parse_primary();
  ExprPtr parse_call(const Token& name);
  ExprPtr called(const Token& name, const RuleDefinition& definition, std::vector<ExprPtr> arguments);
  bool parse_expr_list(std::vector<ExprPtr>& out, std::string_view close);
  ExprPtr binary(const Token& op, ExprPtr left, ExprPtr right);

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next();
  bool accept(std::string_view punctuation);
  bool accept_word(std::string_view word);
  bool expect(std::string_view punctuation, std::string_view where);
  bool expect_name(std::string& name, std::string_view what);
  bool fail(Place place, std::string message);
  std::string shown(const Token& token) const;

  std::string_view text_;
  std::string file_;
  std::vector<Token> tokens_;
  RuleDefinitions definitions_;
  std::shared_ptr<RuleOperators> defined_;  // the parsers of the instances of a law share it
  std::size_t at_ = 0;
  int depth_ = 0;      // of nested expressions
  int operators_ = 0;  // of one rule
  int unnamed_ = 0;    // values of one rule that have no name
  std::string error_;
};

}  // namespace saturate
