#include "rules/flat.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

#include "rules/functions.h"

namespace saturate {
namespace {

// Numbers have seven bits a byte, the highest bit of the last byte is clear. In front stand tables: strings, and expressions with those that
// they are made of before them. Rules name their places there: the same is said in many rules.
class FlatWriter {
 public:
  static constexpr bool kReads = false;
  void number(std::uint64_t& n) {
    std::uint64_t rest = n;
    for (; rest >= 128; rest >>= 7) bytes_ += static_cast<char>(rest | 128);
    bytes_ += static_cast<char>(rest);
  }
  void text(std::string& s) {
    std::uint64_t at = strings_.place(s);
    number(at);
  }
  void expr(ExprPtr& expr);
  std::string finish() {
    const std::string body = std::exchange(bytes_, {});
    std::uint64_t count = strings_.all.size();
    number(count);
    for (const std::string& s : strings_.all) {
      std::uint64_t size = s.size();
      number(size);
      bytes_ += s;
    }
    count = exprs_.all.size();
    number(count);
    for (const std::string& e : exprs_.all) bytes_ += e;
    return bytes_ + body;
  }

 private:
  struct Table {
    std::map<std::string, std::uint64_t> places;
    std::vector<std::string> all;
    std::uint64_t place(const std::string& s) {
      const auto [it, is_new] = places.try_emplace(s, all.size());
      if (is_new) all.push_back(s);
      return it->second;
    }
  };
  std::string bytes_;
  Table strings_, exprs_;
};

class FlatReader {
 public:
  static constexpr bool kReads = true;
  explicit FlatReader(std::string_view bytes);
  void number(std::uint64_t& n) {
    n = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      n |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return;
    }
  }
  void text(std::string& s) {
    std::uint64_t at = 0;
    number(at);
    s = strings_[at];
  }
  // Rules own all expressions together; these do not own one another.
  void expr(ExprPtr& expr) {
    std::uint64_t place = 0;
    number(place);
    if (place > 0) expr = {owner_, &exprs_[place - 1]};
  }

 private:
  const char* at_;
  std::vector<std::string_view> strings_;
  Expr* exprs_ = nullptr;
  std::shared_ptr<const void> owner_;  // null while the expressions are read
};

// One pass over each type serves both directions.
template <class A, class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
void pass(A& a, T& value) {
  auto n = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  n = (n << 1) ^ (n >> 63 ? ~std::uint64_t{0} : 0);  // small numbers are short, negative ones too
  a.number(n);
  if constexpr (A::kReads) value = static_cast<T>(static_cast<std::int64_t>((n >> 1) ^ (n & 1 ? ~std::uint64_t{0} : 0)));
}
template <class A>
void pass(A& a, double& value) {
  auto n = std::bit_cast<std::uint64_t>(value);
  a.number(n);
  value = std::bit_cast<double>(n);
}
template <class A>
void pass(A& a, float& value) {
  std::uint64_t n = std::bit_cast<std::uint32_t>(value);
  a.number(n);
  value = std::bit_cast<float>(static_cast<std::uint32_t>(n));
}
template <class A>
void pass(A& a, std::string& s) {
  a.text(s);
}
template <class A, class T>
void pass(A& a, std::vector<T>& list);
template <class A, class T, class U>
void pass(A& a, std::pair<T, U>& both) {
  pass(a, both.first);
  pass(a, both.second);
}
template <class A, class T>
void pass(A& a, std::optional<T>& value) {
  bool given = value.has_value();
  pass(a, given);
  if constexpr (A::kReads)
    if (given) value.emplace();
  if (given) pass(a, *value);
}
template <class A>
void pass(A& a, Place& place) {
  pass(a, place.line);
  pass(a, place.column);
}

template <class A>
void pass(A& a, Tensor& tensor) {
  DType dtype = tensor.dtype();
  Shape dims = tensor.dims();
  pass(a, dtype);
  pass(a, dims);
  if constexpr (A::kReads) tensor = Tensor(dtype, dims);
  std::string bytes(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  pass(a, bytes);
  if constexpr (A::kReads)
    if (!bytes.empty()) std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
}

template <class T, class A>
void pass_value(A& a, Attribute& attribute) {
  if constexpr (A::kReads) attribute.value.emplace<T>();
  pass(a, std::get<T>(attribute.value));
}
template <class A>
void pass(A& a, Attribute& attribute) {
  std::size_t held = attribute.value.index();
  pass(a, attribute.name);
  pass(a, attribute.type);
  pass(a, held);
  const auto is = [&]<class T>(std::type_identity<T>) {
    static const std::size_t index = Attribute{.name = {}, .value = T(), .ref = {}, .raw = {}}.value.index();
    return held == index;
  };
  const auto each = [&]<class... T>(std::type_identity<T>... types) { ((is(types) ? pass_value<T>(a, attribute) : void()), ...); };
  each(std::type_identity<float>(), std::type_identity<std::int64_t>(), std::type_identity<std::string>(), std::type_identity<Tensor>(),
       std::type_identity<std::vector<float>>(), std::type_identity<std::vector<std::int64_t>>(),
       std::type_identity<std::vector<std::string>>());
}

template <class A>
void pass(A& a, ExprPtr& expr) {
  a.expr(expr);
}
template <class A>
void pass(A& a, Expr& expr) {
  pass(a, expr.kind);
  switch (expr.kind) {
    case Expr::Kind::kInt:
      pass(a, expr.integer);
      break;
    case Expr::Kind::kReal:
      pass(a, expr.real);
      break;
    case Expr::Kind::kCall: {
      const auto all = rule_functions();
      std::size_t at = 0;
      if constexpr (!A::kReads) at = static_cast<std::size_t>(std::find(all.begin(), all.end(), expr.function) - all.begin());
      pass(a, at);
      expr.function = all[at];
      break;
    }
    default:
      break;
  }
  pass(a, expr.text);
  pass(a, expr.arguments);
}

template <class A>
void pass(A& a, RuleAttribute& attribute) {
  pass(a, attribute.kind);
  pass(a, attribute.literal);
  pass(a, attribute.variable);
}
template <class A>
void pass(A& a, RuleNode& node) {
  pass(a, node.domain);
  pass(a, node.op_type);
  pass(a, node.attributes);
  pass(a, node.inputs);
  pass(a, node.outputs);
}
template <class A>
void pass(A& a, Rule& rule) {
  const auto all = [&](auto&... fields) { (pass(a, fields), ...); };
  all(rule.name, rule.file, rule.place, rule.attribute_variables, rule.inputs, rule.outputs, rule.optional, rule.left, rule.right, rule.where,
      rule.lets, rule.both_ways, rule.effect, rule.assumes, rule.unless_taken, rule.takes_apart, rule.budget, rule.phase, rule.tolerance);
}

template <class A, class T>
void pass(A& a, std::vector<T>& list) {
  std::size_t size = list.size();
  pass(a, size);
  list.resize(size);
  for (T& item : list) pass(a, item);
}

void FlatWriter::expr(ExprPtr& expr) {
  std::uint64_t place = 0;
  if (expr) {
    Expr copy = *expr;
    std::string before = std::exchange(bytes_, {});
    pass(*this, copy);
    place = exprs_.place(std::exchange(bytes_, std::move(before))) + 1;
  }
  number(place);
}

FlatReader::FlatReader(std::string_view bytes) : at_(bytes.data()) {
  std::uint64_t count = 0;
  number(count);
  for (strings_.reserve(count); count > 0; --count) {
    std::uint64_t size = 0;
    number(size);
    strings_.emplace_back(at_, size);
    at_ += size;
  }
  number(count);
  const auto all = std::make_shared<Expr[]>(count);
  exprs_ = all.get();
  for (std::size_t i = 0; i < count; ++i) pass(*this, exprs_[i]);
  owner_ = all;
}

}  // namespace

std::string flatten(std::span<const Rule> rules) {
  FlatWriter writer;
  std::vector<Rule> all(rules.begin(), rules.end());
  pass(writer, all);
  return writer.finish();
}

std::vector<Rule> unflatten(std::string_view bytes) {
  FlatReader reader(bytes);
  std::vector<Rule> rules;
  pass(reader, rules);
  return rules;
}

}  // namespace saturate
