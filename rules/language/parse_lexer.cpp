#include "rules/language/parse_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace saturate {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  absl::StatusOr<std::vector<Token>> run() {
    tokens_.reserve(text_.size() / 4);  // rule files have a token for every five characters
    while (true) {
      skip_space();
      Token token;
      token.place = place_;
      token.begin = at_;
      if (!comment_.empty() && comment_line_ + 1 == place_.line) token.doc = std::move(comment_);
      comment_.clear();
      if (at_ == text_.size()) {
        token.end = at_;
        tokens_.push_back(std::move(token));
        return std::move(tokens_);
      }
      if (std::string problem = read(token); !problem.empty()) return absl::InvalidArgumentError(at(file_, token.place, problem));
      token.end = at_;
      tokens_.push_back(std::move(token));
    }
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void advance() {
    if (text_[at_++] == '\n') {
      ++place_.line;
      place_.column = 1;
    } else {
      ++place_.column;
    }
  }

  void skip_to(std::size_t end) {  // of this line
    place_.column += static_cast<int>(end - at_);
    at_ = end;
  }
  void skip_line() { skip_to(std::min(text_.find('\n', at_), text_.size())); }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == ' ')
        skip_to(std::min(text_.find_first_not_of(' ', at_), text_.size()));
      else if (std::isspace(static_cast<unsigned char>(text_[at_])))
        advance();
      else if (text_[at_] == '#')
        comment();
      else
        return;
    }
  }

  // Comments that follow a token on its line are not documentation of what comes next.
  void comment() {
    const bool own_line = tokens_.empty() || tokens_.back().place.line != place_.line;
    const int line = place_.line;
    advance();
    const std::size_t begin = at_;
    skip_line();
    if (!own_line) return;
    std::string_view words = text_.substr(begin, at_ - begin);
    if (!words.empty() && words.front() == ' ') words.remove_prefix(1);
    if (!comment_.empty() && comment_line_ + 1 == line)
      comment_ += "\n";
    else
      comment_.clear();
    comment_ += words;
    comment_line_ = line;
  }

  std::string read(Token& token) {
    const char c = peek();
    if (starts_name(c)) {
      token.kind = Token::Kind::kName;
      token.text = name();
      return {};
    }
    if (digit(c)) return number(token);
    if (c == '"') return quoted(token);
    if (c == '@') {
      advance();
      if (!starts_name(peek())) return "`@` must be followed by the name of an attribute variable, or by `_`";
      token.kind = Token::Kind::kVariable;
      token.text = name();
      return {};
    }
    return punctuation(token);
  }

  std::string name() {
    const std::size_t begin = at_;
    std::size_t end = begin;
    while (end < text_.size() && in_name(text_[end])) ++end;
    skip_to(end);
    return std::string(text_.substr(begin, end - begin));
  }

  std::string number(Token& token) {
    const std::size_t begin = at_;
    bool real = false;
    while (digit(peek())) advance();
    if (peek() == '.' && digit(peek(1))) {
      real = true;
      advance();
      while (digit(peek())) advance();
    }
    if ((peek() == 'e' || peek() == 'E') && (digit(peek(1)) || ((peek(1) == '-' || peek(1) == '+') && digit(peek(2))))) {
      real = true;
      advance();
      advance();
      while (digit(peek())) advance();
    }
    token.text = std::string(text_.substr(begin, at_ - begin));
    const char* first = token.text.data();
    const char* last = first + token.text.size();
    token.kind = real ? Token::Kind::kReal : Token::Kind::kInt;
    const auto parsed = real ? std::from_chars(first, last, token.real) : std::from_chars(first, last, token.integer);
    if (parsed.ec != std::errc() || parsed.ptr != last) return fmt::format("the number {} is out of range", token.text);
    if (!real) token.real = static_cast<double>(token.integer);
    return {};
  }

  std::string quoted(Token& token) {
    token.kind = Token::Kind::kString;
    advance();
    while (peek() != '"') {
      if (at_ >= text_.size() || peek() == '\n') return "this string has no closing quote on its line; add `\"`";
      if (peek() == '\\' && at_ + 1 < text_.size()) advance();
      token.text += peek();
      advance();
    }
    advance();
    return {};
  }

  std::string punctuation(Token& token) {
    token.kind = Token::Kind::kPunctuation;
    const char second = peek(1);
    const bool longer = second == '=' || second == '>' || second == '/' || second == '*';
    for (std::string_view p : {"<=>", "=>", "<=", ">=", "==", "!=", "//", "**"})
      if (longer && text_.substr(at_, p.size()) == p) {
        for (std::size_t i = 0; i < p.size(); ++i) advance();
        token.text = p;
        return {};
      }
    const char c = peek();
    if (std::string_view("<>(){}[],:;=+-*/%.?|").find(c) == std::string_view::npos)
      return fmt::format("the character `{}` has no meaning here; remove it", c);
    token.text = std::string(1, c);
    advance();
    return {};
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  Place place_{1, 1};
  std::string comment_;
  int comment_line_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> tokenize(std::string_view text, const std::string& file_name) { return Lexer(text, file_name).run(); }

std::string at(const std::string& file_name, Place place, std::string_view message) {
  return fmt::format("{}:{}:{}: {}", file_name, place.line, place.column, message);
}

}  // namespace saturate
