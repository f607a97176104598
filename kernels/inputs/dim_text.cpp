// Dims written as expressions: exporters name a dim "past_sequence + sequence" or "2*s0".
#include <cctype>

#include "kernels/inputs/draw_inputs.h"

namespace saturate {
namespace {

// sum := product (('+'|'-') product)*;  product := atom (('*'|'/'|"//") atom)*;  atom := number | name | '(' sum ')'
class Parser {
 public:
  Parser(const std::string& text, const Sizes* sizes) : text_(text), sizes_(sizes) {}

  std::optional<std::int64_t> run() {
    const auto value = sum(0);
    skip();
    ok_ = ok_ && at_ == text_.size();
    return ok_ ? value : std::nullopt;
  }
  bool ok() const { return ok_; }
  std::vector<std::string> names;

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  using Int = std::optional<std::int64_t>;
  static Int bounded(Int v) { return v && *v > -(std::int64_t{1} << 31) && *v < (std::int64_t{1} << 31) ? v : std::nullopt; }

  Int sum(int depth) {
    Int left = product(depth);
    while (ok_) {
      if (take('+')) {
        const Int right = product(depth);
        left = left && right ? bounded(*left + *right) : std::nullopt;
      } else if (take('-')) {
        const Int right = product(depth);
        left = left && right ? bounded(*left - *right) : std::nullopt;
      } else {
        break;
      }
    }
    return left;
  }
  Int product(int depth) {
    Int left = atom(depth);
    while (ok_) {
      if (take('*')) {
        const Int right = atom(depth);
        left = left && right ? bounded(*left * *right) : std::nullopt;
      } else if (take('/')) {
        take('/');
        const Int right = atom(depth);
        left = left && right && *right > 0 && *left >= 0 ? Int(*left / *right) : std::nullopt;
      } else {
        break;
      }
    }
    return left;
  }
  Int atom(int depth) {
    skip();
    if (depth > 32 || at_ >= text_.size()) return fail();
    if (take('(')) {
      const Int inner = sum(depth + 1);
      if (!take(')')) return fail();
      return inner;
    }
    const std::size_t start = at_;
    const auto word = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':' || c == '?'; };
    while (at_ < text_.size() && word(text_[at_])) ++at_;
    const std::string token = text_.substr(start, at_ - start);
    if (token.empty()) return fail();
    if (token.find_first_not_of("0123456789") == std::string::npos) return token.size() > 9 ? fail() : Int(std::stoll(token));
    names.push_back(token);
    if (!sizes_) return std::nullopt;
    const auto it = sizes_->find(token);
    return it == sizes_->end() ? std::nullopt : Int(it->second);
  }
  Int fail() {
    ok_ = false;
    return std::nullopt;
  }

  const std::string& text_;
  const Sizes* sizes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace

std::optional<std::int64_t> evaluate_dim(const std::string& text, const Sizes& sizes) {
  if (const auto it = sizes.find(text); it != sizes.end()) return it->second;
  return Parser(text, &sizes).run();
}

std::optional<std::int64_t> dim_size(const DimSpec& dim, const Sizes& sizes) {
  if (const auto* number = std::get_if<std::int64_t>(&dim)) return *number;
  const auto* text = std::get_if<std::string>(&dim);
  return text ? evaluate_dim(*text, sizes) : std::nullopt;
}

std::size_t input_bytes(const Model& model, const Sizes& sizes) {
  std::size_t bytes = 0;
  for (const ValueInfo& input : model.graph.inputs) {
    if (input.type.kind != ValueType::Kind::kTensor || !input.type.shape) continue;
    Shape dims;
    for (const DimSpec& dim : *input.type.shape) dims.push_back(dim_size(dim, sizes).value_or(1));
    bytes += checked_bytes(input.type.dtype, dims).value_or(0);
  }
  return bytes;
}

std::vector<std::string> dim_names(const std::string& text) {
  Parser parser(text, nullptr);
  parser.run();
  if (!parser.ok()) return {text};
  return parser.names;
}

}  // namespace saturate
