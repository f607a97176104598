// RegexFullMatch (ONNX Operators; syntax of RE2). A pattern becomes a program of a nondeterministic automaton. It runs in time proportional
// to text times program (Thompson, "Regular Expression Search Algorithm", 1968): no pattern can make it hang.
#include <algorithm>
#include <memory>

#include "kernels/tensor/util.h"
#include "kernels/text/util.h"

namespace saturate {
namespace {

constexpr int kMaxNesting = 200, kMaxRepeat = 1000;
constexpr std::size_t kMaxProgram = 20000;

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

struct Expr {
  enum class Kind { kEmpty, kSet, kAssert, kSequence, kChoice, kRepeat } kind = Kind::kEmpty;
  Ranges set;
  char assertion = 0;  // ^ $ b B
  std::vector<std::unique_ptr<Expr>> parts;
  int low = 0, high = 0;  // repeats; high -1: any number
};
using ExprPtr = std::unique_ptr<Expr>;

struct RegexInstruction {
  enum class Kind { kSet, kSplit, kJump, kAssert, kMatch } kind = Kind::kMatch;
  std::size_t a = 0, b = 0;
  const Expr* expr = nullptr;
};

std::u32string decode(std::string_view text) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (n == 1 || i + n > text.size()) {
      out.push_back(lead);
      ++i;
      continue;
    }
    char32_t c = lead & (0x7fu >> n);
    for (std::size_t k = 1; k < n; ++k) c = (c << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
    out.push_back(c);
    i += n;
  }
  return out;
}

Ranges negated(Ranges set) {
  std::sort(set.begin(), set.end());
  Ranges out;
  char32_t next = 0;
  for (const auto& [low, high] : set) {
    if (low > next) out.emplace_back(next, static_cast<char32_t>(low - 1));
    next = std::max<char32_t>(next, high + 1);
  }
  if (next <= 0x10ffff) out.emplace_back(next, 0x10ffff);
  return out;
}

// The named classes \d \s \w and their complements.
std::optional<Ranges> perl_class(char32_t c) {
  Ranges set;
  switch (c | 0x20) {
    case 'd':
      set = {{'0', '9'}};
      break;
    case 's':
      set = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
      break;
    case 'w':
      set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      break;
    default:
      return std::nullopt;
  }
  return (c & 0x20) != 0 ? set : negated(set);
}

class Parser {
 public:
  explicit Parser(std::u32string pattern) : text_(std::move(pattern)) {}
  // Null where the pattern is wrong or uses what is not supported; error() says what.
  ExprPtr parse() {
    ExprPtr e = choice();
    if (e && at_ < text_.size()) return fail("an unmatched )");
    return e;
  }
  const std::string& error() const { return error_; }

 private:
  ExprPtr fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return nullptr;
  }
  bool more() const { return at_ < text_.size(); }
  bool take(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  static ExprPtr of(Expr::Kind kind) {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    return e;
  }
  ExprPtr set_of(Ranges ranges) const {
    ExprPtr e = of(Expr::Kind::kSet);
    if (fold_) {
      const Ranges plain = ranges;
      for (const auto& [low, high] : plain) {
        for (char32_t c = std::max<char32_t>(low, 'A'); c <= std::min<char32_t>(high, 'z'); ++c) {
          const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
          if (letter) ranges.emplace_back(static_cast<char32_t>(c ^ 0x20), static_cast<char32_t>(c ^ 0x20));
        }
      }
    }
    e->set = std::move(ranges);
    return e;
  }
  static ExprPtr assertion(char c) {
    ExprPtr e = of(Expr::Kind::kAssert);
    e->assertion = c;
    return e;
  }

  ExprPtr choice() {
    if (++depth_ > kMaxNesting) return fail("too deep nesting");
    ExprPtr e = of(Expr::Kind::kChoice);
    do {
      ExprPtr part = sequence();
      if (!part) return nullptr;
      e->parts.push_back(std::move(part));
    } while (take('|'));
    --depth_;
    return e;
  }

  ExprPtr sequence() {
    ExprPtr e = of(Expr::Kind::kSequence);
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      ExprPtr part = repeated();
      if (!part) return nullptr;
      e->parts.push_back(std::move(part));
    }
    return e;
  }

  ExprPtr repeated() {
    ExprPtr e = atom();
    int nested = 0;
    while (e && more()) {
      int low = 0, high = -1;
      if (take('+'))
        low = 1;
      else if (take('?'))
        high = 1;
      else if (!take('*') && !counts(low, high))
        break;
      if (!error_.empty()) return nullptr;
      if (++nested > 4) return fail("too many repeats of a repeat");
      take('?');  // non-greedy: the same full matches
      ExprPtr outer = of(Expr::Kind::kRepeat);
      outer->low = low;
      outer->high = high;
      outer->parts.push_back(std::move(e));
      e = std::move(outer);
    }
    return e;
  }

  std::optional<int> number() {
    if (!more() || text_[at_] < '0' || text_[at_] > '9') return std::nullopt;
    int n = 0;
    while (more() && text_[at_] >= '0' && text_[at_] <= '9') n = std::min(n * 10 + static_cast<int>(text_[at_++] - '0'), kMaxRepeat + 1);
    return n;
  }

  // {n}, {n,}, {n,m}; anything else is a literal brace.
  bool counts(int& low, int& high) {
    const std::size_t start = at_;
    if (!take('{')) return false;
    const std::optional<int> first = number();
    if (first) {
      low = high = *first;
      if (take(',')) {
        const std::optional<int> second = number();
        high = second.value_or(-1);
      }
      if (take('}')) {
        if (low > kMaxRepeat || high > kMaxRepeat || (high >= 0 && high < low)) fail("a repeat count is out of range");
        return true;
      }
    }
    at_ = start;
    return false;
  }

  ExprPtr atom() {
    const char32_t c = text_[at_++];
    switch (c) {
      case '.':
        return set_of(dot_all_ ? Ranges{{0, 0x10ffff}} : negated({{'\n', '\n'}}));
      case '^':
        return assertion('^');
      case '$':
        return assertion('$');
      case '[':
        return bracket();
      case '(':
        return group();
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        return fail("a repeat of nothing");
      default:
        return set_of({{c, c}});
    }
  }

  ExprPtr group() {
    const bool fold = fold_, dot_all = dot_all_;
    if (take('?')) {
      if (take('P') || (more() && text_[at_] == '<')) {
        while (more() && text_[at_] != '>') ++at_;
        if (!take('>')) return fail("an unfinished group name");
      } else if (!flags()) {
        return error_.empty() ? of(Expr::Kind::kEmpty) : nullptr;  // (?i) holds up to the end of the surrounding group
      }
    }
    ExprPtr e = choice();
    if (!e) return nullptr;
    if (!take(')')) return fail("a missing )");
    fold_ = fold;
    dot_all_ = dot_all;
    return e;
  }

  // After "(?": true at ':' (a group follows), false at ')' or on error.
  bool flags() {
    bool on = true;
    while (more()) {
      const char32_t c = text_[at_++];
      if (c == ':') return true;
      if (c == ')') return false;
      if (c == '-')
        on = false;
      else if (c == 'i')
        fold_ = on;
      else if (c == 's')
        dot_all_ = on;
      else if (c != 'U')
        break;
    }
    fail("a group of a kind that is not supported");
    return false;
  }

  // The character that an escape stands for.
  std::optional<char32_t> escaped_character(char32_t c) {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'x': {
        const bool braces = take('{');
        char32_t value = 0;
        int digits = 0;
        for (; more() && digits < (braces ? 6 : 2); ++digits) {
          const char32_t h = text_[at_];
          const int digit = h >= '0' && h <= '9'                     ? static_cast<int>(h - '0')
                            : (h | 0x20) >= 'a' && (h | 0x20) <= 'f' ? static_cast<int>((h | 0x20) - 'a') + 10
                                                                     : -1;
          if (digit < 0) break;
          value = value * 16 + static_cast<char32_t>(digit);
          ++at_;
        }
        if (digits == 0 || (braces && !take('}'))) return std::nullopt;
        return value;
      }
      default:
        if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) return std::nullopt;
        return c;
    }
  }

  ExprPtr escape() {
    if (!more()) return fail("a \\ at the end");
    const char32_t c = text_[at_++];
    if (c == 'b' || c == 'B') return assertion(static_cast<char>(c));
    if (c == 'A') return assertion('^');
    if (c == 'z') return assertion('$');
    if (std::optional<Ranges> set = perl_class(c)) return set_of(*std::move(set));
    const std::optional<char32_t> literal = escaped_character(c);
    return literal ? set_of({{*literal, *literal}}) : fail("an escape that is not supported");
  }

  static std::optional<Ranges> posix_class(const std::string& name) {
    if (name == "alpha") return Ranges{{'A', 'Z'}, {'a', 'z'}};
    if (name == "digit") return Ranges{{'0', '9'}};
    if (name == "alnum") return Ranges{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    if (name == "upper") return Ranges{{'A', 'Z'}};
    if (name == "lower") return Ranges{{'a', 'z'}};
    if (name == "space") return Ranges{{'\t', '\r'}, {' ', ' '}};
    if (name == "punct") return Ranges{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
    if (name == "xdigit") return Ranges{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    if (name == "word") return perl_class('w');
    return std::nullopt;
  }

  ExprPtr bracket() {
    const bool negate = take('^');
    Ranges set;
    bool first = true;
    while (true) {
      if (!more()) return fail("a missing ]");
      char32_t c = text_[at_++];
      if (c == ']' && !first) break;
      first = false;
      if (c == '[' && take(':')) {
        std::string name;
        while (more() && text_[at_] != ':') name.push_back(static_cast<char>(text_[at_++]));
        const std::optional<Ranges> named = posix_class(name);
        if (!named || !take(':') || !take(']')) return fail("a character class that is not known");
        set.insert(set.end(), named->begin(), named->end());
        continue;
      }
      if (c == '\\') {
        if (!more()) return fail("a \\ at the end");
        c = text_[at_++];
        if (const std::optional<Ranges> named = perl_class(c)) {
          set.insert(set.end(), named->begin(), named->end());
          continue;
        }
        const std::optional<char32_t> literal = escaped_character(c);
        if (!literal) return fail("an escape that is not supported");
        c = *literal;
      }
      char32_t high = c;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        high = text_[at_++];
        if (high == '\\') {
          if (!more()) return fail("a \\ at the end");
          const std::optional<char32_t> literal = escaped_character(text_[at_++]);
          if (!literal) return fail("a range that is not supported");
          high = *literal;
        }
        if (high < c) return fail("a range that runs backwards");
      }
      set.emplace_back(c, high);
    }
    ExprPtr e = set_of(std::move(set));
    if (negate) e->set = negated(std::move(e->set));
    return e;
  }

  std::u32string text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool fold_ = false, dot_all_ = false;
  std::string error_;
};

class Program {
 public:
  // False where the pattern grows too large.
  bool compile(const Expr& e) {
    const bool fits = emit(e);
    add(RegexInstruction::Kind::kMatch);
    return fits && code_.size() <= kMaxProgram;
  }

  bool matches(const std::u32string& text) const {
    std::vector<std::size_t> current, next;
    std::vector<std::size_t> seen(code_.size(), ~std::size_t{0});
    follow(0, 0, text, current, seen);
    for (std::size_t i = 0; i < text.size(); ++i) {
      next.clear();
      for (std::size_t at : current) {
        if (code_[at].kind == RegexInstruction::Kind::kSet && contains(code_[at].expr->set, text[i]))
          follow(at + 1, i + 1, text, next, seen);
      }
      current.swap(next);
      if (current.empty()) return false;
    }
    return std::any_of(current.begin(), current.end(), [&](std::size_t at) { return code_[at].kind == RegexInstruction::Kind::kMatch; });
  }

 private:
  std::size_t add(RegexInstruction::Kind kind, const Expr* expr = nullptr) {
    code_.push_back({kind, 0, 0, expr});
    return code_.size() - 1;
  }

  bool emit(const Expr& e) {
    if (code_.size() > kMaxProgram) return false;
    switch (e.kind) {
      case Expr::Kind::kEmpty:
        return true;
      case Expr::Kind::kSet:
        add(RegexInstruction::Kind::kSet, &e);
        return true;
      case Expr::Kind::kAssert:
        add(RegexInstruction::Kind::kAssert, &e);
        return true;
      case Expr::Kind::kSequence:
        return std::all_of(e.parts.begin(), e.parts.end(), [&](const ExprPtr& p) { return emit(*p); });
      case Expr::Kind::kChoice:
        return emit_choice(e);
      case Expr::Kind::kRepeat:
        return emit_repeat(e);
    }
    return false;
  }

  bool emit_choice(const Expr& e) {
    std::vector<std::size_t> exits;
    for (std::size_t k = 0; k < e.parts.size(); ++k) {
      const bool last = k + 1 == e.parts.size();
      const std::size_t split = last ? 0 : add(RegexInstruction::Kind::kSplit);
      if (!last) code_[split].a = code_.size();
      if (!emit(*e.parts[k])) return false;
      if (last) break;
      exits.push_back(add(RegexInstruction::Kind::kJump));
      code_[split].b = code_.size();
    }
    for (std::size_t j : exits) code_[j].a = code_.size();
    return true;
  }

  bool emit_repeat(const Expr& e) {
    const Expr& part = *e.parts[0];
    for (int k = 0; k < e.low; ++k) {
      if (!emit(part)) return false;
    }
    if (e.high < 0) {
      const std::size_t split = add(RegexInstruction::Kind::kSplit);
      code_[split].a = code_.size();
      if (!emit(part)) return false;
      const std::size_t back = add(RegexInstruction::Kind::kJump);
      code_[back].a = split;
      code_[split].b = code_.size();
      return true;
    }
    std::vector<std::size_t> splits;
    for (int k = e.low; k < e.high; ++k) {
      splits.push_back(add(RegexInstruction::Kind::kSplit));
      code_[splits.back()].a = code_.size();
      if (!emit(part)) return false;
    }
    for (std::size_t s : splits) code_[s].b = code_.size();
    return true;
  }

  static bool contains(const Ranges& set, char32_t c) {
    return std::any_of(set.begin(), set.end(), [c](const auto& r) { return c >= r.first && c <= r.second; });
  }
  static bool is_word(const std::u32string& text, std::size_t i) { return i < text.size() && contains(*perl_class('w'), text[i]); }
  static bool holds(char assertion, std::size_t at, const std::u32string& text) {
    if (assertion == '^') return at == 0;
    if (assertion == '$') return at == text.size();
    const bool boundary = (at > 0 && is_word(text, at - 1)) != is_word(text, at);
    return boundary == (assertion == 'b');
  }

  // Adds the instructions that can run at text position `at` without reading.
  void follow(std::size_t start, std::size_t at, const std::u32string& text, std::vector<std::size_t>& out,
              std::vector<std::size_t>& seen) const {
    std::vector<std::size_t> stack = {start};
    while (!stack.empty()) {
      const std::size_t i = stack.back();
      stack.pop_back();
      if (seen[i] == at) continue;
      seen[i] = at;
      const RegexInstruction& in = code_[i];
      switch (in.kind) {
        case RegexInstruction::Kind::kJump:
          stack.push_back(in.a);
          break;
        case RegexInstruction::Kind::kSplit:
          stack.push_back(in.b);
          stack.push_back(in.a);
          break;
        case RegexInstruction::Kind::kAssert:
          if (holds(in.expr->assertion, at, text)) stack.push_back(i + 1);
          break;
        default:
          out.push_back(i);
      }
    }
  }

  std::vector<RegexInstruction> code_;
};

Outputs regex_full_match(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.dtype() != DType::kString) return ctx.invalid("the input must be strings");
  Parser parser(decode(ctx.attr_s("pattern", "")));
  const ExprPtr pattern = parser.parse();
  if (!pattern) return ctx.invalid("the pattern has " + parser.error());
  Program program;
  if (!program.compile(*pattern)) return ctx.unsupported("a pattern of this size");
  auto out = ctx.allocate(DType::kBool, x.dims());
  if (!out.ok()) return out.status();
  for (std::int64_t i = 0; i < x.size(); ++i) write<bool>(*out)[i] = program.matches(decode(x.string_data()[static_cast<std::size_t>(i)]));
  return outputs_of(*std::move(out));
}

}  // namespace

void register_string_regex(Registry& registry) { registry.add("", "RegexFullMatch", regex_full_match); }

}  // namespace saturate
