#include "fmt/format.h"
#include "onnx_bridge/file/text/reader.h"

namespace saturate::text {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  std::vector<TextToken> run() {
    std::vector<TextToken> tokens;
    do {
      skip_blanks();
      tokens.push_back(token());
    } while (tokens.back().kind != TextToken::Kind::kEnd);
    return tokens;
  }

 private:
  char at(std::size_t ahead = 0) const { return i_ + ahead < text_.size() ? text_[i_ + ahead] : '\0'; }
  void advance() {
    if (text_[i_] == '\n') {
      ++line_;
      line_start_ = i_ + 1;
    }
    ++i_;
  }

  void skip_blanks() {
    while (i_ < text_.size()) {
      if (at() == '#') {
        while (i_ < text_.size() && at() != '\n') ++i_;
      } else if (at() == ' ' || at() == '\n' || at() == '\t' || at() == '\r') {
        advance();
      } else {
        return;
      }
    }
  }

  TextToken token() {
    TextToken t;
    t.line = line_;
    t.column = static_cast<int>(i_ - line_start_) + 1;
    if (i_ >= text_.size()) return t;
    const char c = at();
    if (is_letter(c))
      word(t);
    else if (c == '"')
      string(t);
    else if (is_digit(c) || (c == '.' && is_digit(at(1))) ||
             ((c == '-' || c == '+') && (is_digit(at(1)) || at(1) == '.' || at(1) == 'i' || at(1) == 'n')))
      number(t);
    else
      punct(t);
    return t;
  }

  void word(TextToken& t) {
    t.kind = TextToken::Kind::kName;
    while (is_letter(at()) || is_digit(at())) t.text += text_[i_++];
  }

  // A backslash takes the next character as it is (onnx/defs/parser.cc); line breaks may stand in a string.
  void string(TextToken& t) {
    t.kind = TextToken::Kind::kString;
    for (advance(); i_ < text_.size() && at() != '"'; advance()) {
      if (at() == '\\') advance();
      if (i_ >= text_.size()) break;
      t.text += at();
    }
    if (i_ >= text_.size()) fail(t, "this string has no closing quote");
    advance();
  }

  void number(TextToken& t) {
    t.kind = TextToken::Kind::kInt;
    if (at() == '0' && (at(1) == 'x' || at(1) == 'X')) {
      t.kind = TextToken::Kind::kHex;
      for (i_ += 2; is_hex(at()); ++i_) t.text += at();
      return;
    }
    if (at() == '-') t.text += '-';
    if (at() == '-' || at() == '+') ++i_;
    if (is_letter(at())) {  // -inf, -nan
      std::string letters;
      while (is_letter(at()) || is_digit(at())) letters += text_[i_++];
      t.kind = TextToken::Kind::kFloat;
      t.text += letters;
      if (letters != "inf" && letters != "infinity" && letters != "nan") fail(t, fmt::format("'{}' is no number", t.text));
      return;
    }
    while (is_digit(at())) t.text += text_[i_++];
    if (at() == '.') {
      t.kind = TextToken::Kind::kFloat;
      t.text += text_[i_++];
      while (is_digit(at())) t.text += text_[i_++];
    }
    if ((at() == 'e' || at() == 'E') && (is_digit(at(1)) || ((at(1) == '-' || at(1) == '+') && is_digit(at(2))))) {
      t.kind = TextToken::Kind::kFloat;
      t.text += text_[i_++];
      if (!is_digit(at())) t.text += text_[i_++];
      while (is_digit(at())) t.text += text_[i_++];
    }
  }

  void punct(TextToken& t) {
    t.kind = TextToken::Kind::kPunct;
    for (std::string_view longer : {"<=>", "=>", "==", "<=", ">=", "!="})
      if (text_.substr(i_, longer.size()) == longer) {
        t.text = longer;
        i_ += longer.size();
        return;
      }
    if (std::string_view("<>(){}[],=:@.?*+-/;|!&").find(at()) == std::string_view::npos)
      fail(t, fmt::format("unexpected character {}", at() > ' ' && at() < 127 ? fmt::format("'{}'", at())
                                                                              : fmt::format("0x{:02x}", static_cast<unsigned char>(at()))));
    t.text = text_[i_++];
  }

  [[noreturn]] void fail(const TextToken& t, const std::string& what) const {
    throw TextError{fmt::format("{}:{}:{}: {}", name_, t.line, t.column, what)};
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t i_ = 0, line_start_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<TextToken> tokenize(std::string_view text, const std::string& name) { return Lexer(text, name).run(); }

}  // namespace saturate::text
