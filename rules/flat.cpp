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

// Numbers have seven bits a byte, the last byte has its highest bit clear; strings are numbers in a table that stands in front.
class FlatWriter {
 public:
  static constexpr bool kReads = false;
  void number(std::uint64_t& n) {
    std::uint64_t rest = n;
    for (; rest >= 128; rest >>= 7) bytes_ += static_cast<char>(rest | 128);
    bytes_ += static_cast<char>(rest);
  }
  void text(std::string& s) {
    std::uint64_t at = index_.try_emplace(s, index_.size()).first->second;
    if (at == strings_.size()) strings_.push_back(s);
    number(at);
  }
  std::shared_ptr<Expr> expr(const Expr* given) {
    ++exprs_;
    return std::make_shared<Expr>(*given);
  }
  std::string finish() {
    const std::string body = std::exchange(bytes_, {});
    number(exprs_);
    std::uint64_t count = strings_.size();
    number(count);
    for (const std::string& s : strings_) {
      std::uint64_t size = s.size();
      number(size);
      bytes_ += s;
    }
    return bytes_ + body;
  }

 private:
  std::string bytes_;
  std::uint64_t exprs_ = 0;
  std::map<std::string, std::uint64_t> index_;
  std::vector<std::string> strings_;
};

class FlatReader {
 public:
  static constexpr bool kReads = true;
  explicit FlatReader(std::string_view bytes) : at_(bytes.data()) {
    std::uint64_t exprs = 0, count = 0;
    number(exprs);
    exprs_ = std::make_shared<Expr[]>(exprs);
    number(count);
    for (strings_.reserve(count); count > 0; --count) {
      std::uint64_t size = 0;
      number(size);
      strings_.emplace_back(at_, size);
      at_ += size;
    }
  }
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
  std::shared_ptr<Expr> expr(const Expr*) { return {exprs_, &exprs_[static_cast<std::ptrdiff_t>(next_++)]}; }

 private:
  const char* at_;
  std::shared_ptr<Expr[]> exprs_;  // all, in one piece of memory
  std::size_t next_ = 0;
  std::vector<std::string_view> strings_;
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
  bool given = expr != nullptr;
  pass(a, given);
  if (!given) return;
  const std::shared_ptr<Expr> copy = a.expr(expr.get());
  pass(a, copy->kind);
  switch (copy->kind) {
    case Expr::Kind::kInt:
      pass(a, copy->integer);
      break;
    case Expr::Kind::kReal:
      pass(a, copy->real);
      break;
    case Expr::Kind::kCall: {
      const auto all = rule_functions();
      std::size_t at = 0;
      if constexpr (!A::kReads) at = static_cast<std::size_t>(std::find(all.begin(), all.end(), copy->function) - all.begin());
      pass(a, at);
      copy->function = all[at];
      break;
    }
    default:
      break;
  }
  pass(a, copy->text);
  pass(a, copy->arguments);
  if constexpr (A::kReads) expr = copy;
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
