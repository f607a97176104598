// The recursive-descent parser of rule files. Methods return false (or null) after fail(): the first error wins.
#pragma once

#include <string>
#include <vector>

#include "rules/parse_lexer.h"

namespace saturate {

class RuleParser {
 public:
  RuleParser(std::string_view text, std::string file, std::vector<Token> tokens)
      : text_(text), file_(std::move(file)), tokens_(std::move(tokens)) {}
  absl::StatusOr<RuleFile> parse_file();

 private:
  // parse_rule.cpp
  bool parse_opsets(RuleFile& file);
  bool parse_rule(Rule& rule);
  bool parse_native(Rule& rule);
  bool parse_header(Rule& rule);
  // `optional`: takes the names that a `?` follows.
  bool parse_names(std::vector<std::string>& names, std::string_view close, bool variables, std::vector<std::string>* optional = nullptr);
  bool parse_clauses(Rule& rule);
  bool parse_example(RuleExample& example);
  bool parse_example_value(ExampleValue& value);
  bool parse_tensor_spec(ExampleValue& value, DType dtype);
  // parse_body.cpp
  bool parse_body(std::vector<RuleNode>& nodes);
  bool parse_node(RuleNode& node);
  bool parse_operator_name(RuleNode& node);
  bool parse_arguments(std::vector<std::string>& names);
  bool parse_attributes(std::vector<RuleAttribute>& attributes);
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
  std::size_t at_ = 0;
  int depth_ = 0;      // of nested expressions
  int operators_ = 0;  // of one rule
  std::string error_;
};

}  // namespace saturate
