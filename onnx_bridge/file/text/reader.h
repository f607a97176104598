// Private to onnx_bridge: the recursive-descent reader behind parser.h and io.h. Errors travel as TextError inside this folder.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_bridge/file/data/external_data.h"
#include "onnx_bridge/file/text/parser.h"

namespace saturate::text {

struct TextError {
  std::string message;
};

std::vector<TextToken> tokenize(std::string_view text, const std::string& name);

class TextReader {
 public:
  // `files` serves initializers in data files; null: refused.
  TextReader(std::string_view text, std::string name, ExternalFiles* files)
      : name_(std::move(name)), tokens_(tokenize(text, name_)), files_(files) {}

  const TextToken& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  TextToken next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool at_punct(std::string_view p, std::size_t ahead = 0) const {
    return peek(ahead).kind == TextToken::Kind::kPunct && peek(ahead).text == p;
  }
  bool at_word(std::string_view w) const { return peek().kind == TextToken::Kind::kName && peek().text == w; }
  bool accept(std::string_view punct);
  void expect(std::string_view punct);
  void expect_end();
  [[noreturn]] void fail(const TextToken& token, const std::string& what) const;
  [[noreturn]] void fail_here(const std::string& what) const { fail(peek(), what); }

  bool at_name() const { return peek().kind == TextToken::Kind::kName || peek().kind == TextToken::Kind::kString; }
  std::string name(const char* what);
  std::string string(const char* what);
  std::int64_t integer();
  std::string hex_bytes();
  std::map<std::string, std::int64_t> opset_imports();
  std::vector<std::pair<std::string, std::string>> string_pairs();

  bool at_type() const;
  ValueType type();
  Tensor literal(const ValueType& type);
  std::vector<Attribute> attribute_list();
  std::vector<Attribute> attributes();  // after "<", up to and with ">"
  Attribute attribute();
  std::vector<Node> nodes();  // "{ ... }"
  Node node();
  Graph graph();
  Function function();
  // `key: value` pairs in angles, each handed over at its value.
  void header(const std::function<void(const TextToken& key)>& visit);

 private:
  struct Nesting {
    explicit Nesting(TextReader& reader);
    ~Nesting() { --reader.depth_; }
    TextReader& reader;
  };
  std::vector<std::string> names(std::string_view stop, const std::function<bool()>& at_stop);
  ValueType tensor_type(DType dtype);
  void element(Tensor& tensor, std::int64_t i);
  Tensor string_literal(Shape dims);
  Tensor external(const ValueType& type);
  Shape literal_dims(const ValueType& type) const;
  void attribute_value(Attribute& out);
  void list_value(Attribute& out);
  void scalar_value(Attribute& out, AttributeType wanted);
  void op_name(Node& out);
  void values(std::vector<ValueInfo>& out, std::vector<Initializer>* initializers, std::string_view close);
  float float_number();

  std::string name_;
  std::vector<TextToken> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  ExternalFiles* files_;
};

std::string hex(std::string_view bytes);
std::string quoted_text(std::string_view text);
// A name as it is where that can be read back, else in quotes.
std::string name_text(std::string_view name);
std::string print_function(const Function& function);
// The type of an attribute whose message holds one TypeProto, and such an attribute.
std::optional<ValueType> type_of(const Attribute& attribute);
Attribute type_attribute(std::string name, const ValueType& type);
// What text has no syntax for is written as the bytes of its message: attributes that `value` does not carry, sparse initializers.
std::string message_bytes(const Attribute& attribute);
std::shared_ptr<const void> attribute_message(const std::string& bytes);  // null: these are no bytes of one
std::string message_bytes(const Initializer& sparse);
std::shared_ptr<const void> sparse_message(const std::string& bytes, const std::string& name);

}  // namespace saturate::text
