#include "rules/stored/flat.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

#include "rules/evaluate/functions.h"

namespace saturate {
namespace {

// Numbers have seven bits a byte, the highest bit of the last byte is clear.
void put_number(std::string& bytes, std::uint64_t n) {
  for (; n >= 128; n >>= 7) bytes += static_cast<char>(n | 128);
  bytes += static_cast<char>(n);
}
std::uint64_t take_number(const char*& at) {
  std::uint64_t n = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    n |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return n;
  }
}

// A table: how many, their sizes, and then all of them.
void put_table(std::string& bytes, const std::vector<std::string>& all) {
  put_number(bytes, all.size());
  for (const std::string& s : all) put_number(bytes, s.size());
  for (const std::string& s : all) bytes += s;
}
std::vector<std::string_view> take_table(const char*& at) {
  std::vector<std::string_view> out(take_number(at));
  std::vector<std::size_t> sizes(out.size());
  for (std::size_t& size : sizes) size = take_number(at);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = {at, sizes[i]};
    at += sizes[i];
  }
  return out;
}

// Strings, expressions and rules stand in tables, and name one another by their places there: the same is said in many rules.
class FlatWriter {
 public:
  static constexpr bool kReads = false;
  void number(std::uint64_t& n) { put_number(bytes_, n); }
  void text(std::string_view& s) { put_number(bytes_, texts_.place(std::string(s))); }
  void text(std::string& s) { put_number(bytes_, texts_.place(s)); }
  void expr(ExprPtr& expr);
  std::string take() { return std::exchange(bytes_, {}); }
  std::string finish(const std::vector<std::string>& rules) {
    const std::string heads = take();
    put_table(bytes_, texts_.all);
    put_table(bytes_, exprs_.all);
    put_table(bytes_, rules);
    return bytes_ + heads;
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
  Table texts_, exprs_;
};

class FlatReader {
 public:
  static constexpr bool kReads = true;
  FlatReader(const FlatRules& flat, const char* at) : flat_(flat), at_(at) {}
  void number(std::uint64_t& n) { n = take_number(at_); }
  void text(std::string_view& s) { s = flat_.text(take_number(at_)); }
  void text(std::string& s) { s = flat_.text(take_number(at_)); }
  void expr(ExprPtr& expr);

 private:
  const FlatRules& flat_;
  const char* at_;
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
template <class A>
void pass(A& a, std::string_view& s) {
  a.text(s);
}
template <class A, class T>
void pass(A& a, std::vector<T>& list);
template <class A, class T, std::size_t N>
void pass(A& a, absl::InlinedVector<T, N>& list);
template <class A, class... Fields>
void pass_all(A& a, Fields&... fields) {
  (pass(a, fields), ...);
}
template <class A, class T, class U>
void pass(A& a, std::pair<T, U>& both) {
  pass_all(a, both.first, both.second);
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
  pass_all(a, place.line, place.column);
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
  pass_all(a, attribute.kind, attribute.literal, attribute.variable);
}
template <class A>
void pass(A& a, RuleNode& node) {
  pass_all(a, node.domain, node.op_type, node.attributes, node.inputs, node.outputs);
}
template <class A>
void pass(A& a, Rule& rule) {
  pass_all(a, rule.name, rule.file, rule.place, rule.attribute_variables, rule.inputs, rule.outputs, rule.optional, rule.left, rule.right,
           rule.where, rule.lets, rule.both_ways, rule.effect, rule.assumes, rule.if_unsupported, rule.if_any_unsupported, rule.defines,
           rule.if_lacking, rule.if_refused, rule.moves_quantizers, rule.yields_to, rule.budget, rule.phase, rule.tolerance);
}

template <class A>
void pass(A& a, RuleOp& op) {
  pass_all(a, op.domain, op.op_type, op.outputs);
}
template <class A>
void pass(A& a, RuleDirection& direction) {
  pass_all(a, direction.wants, direction.below, direction.forms, direction.makes);
}
template <class A>
void pass(A& a, RuleHead& head) {
  pass_all(a, head.name, head.effect, head.assumes, head.if_unsupported, head.if_any_unsupported, head.defines, head.if_lacking,
           head.if_refused, head.moves_quantizers, head.yields_to, head.budget, head.phase, head.ends_in, head.directions);
}

template <class A, class List>
void pass_list(A& a, List& list) {
  std::size_t size = list.size();
  pass(a, size);
  list.resize(size);
  for (auto& item : list) pass(a, item);
}
template <class A, class T>
void pass(A& a, std::vector<T>& list) {
  pass_list(a, list);
}
template <class A, class T, std::size_t N>
void pass(A& a, absl::InlinedVector<T, N>& list) {
  pass_list(a, list);
}

void FlatWriter::expr(ExprPtr& expr) {
  std::uint64_t place = 0;
  if (expr) {
    Expr copy = *expr;
    std::string before = take();
    pass(*this, copy);
    place = exprs_.place(std::exchange(bytes_, std::move(before))) + 1;
  }
  number(place);
}

void FlatReader::expr(ExprPtr& expr) {
  const std::uint64_t place = take_number(at_);
  if (place == 0) return;
  const auto read = std::make_shared<Expr>();
  FlatReader reader(flat_, flat_.expr(place - 1));
  pass(reader, *read);
  expr = read;
}

}  // namespace

FlatRules::FlatRules(std::string_view bytes) {
  const char* at = bytes.data();
  texts_ = take_table(at);
  exprs_ = take_table(at);
  rules_ = take_table(at);
  heads_ = at;
}

Rule FlatRules::rule(std::size_t place) const {
  Rule rule;
  FlatReader reader(*this, rules_[place].data());
  pass(reader, rule);
  return rule;
}

std::string flatten(const StoredRules& rules) {
  FlatWriter writer;
  std::vector<std::string> bodies;
  for (const auto& stored : rules) {
    Rule rule = stored->rule();
    pass(writer, rule);
    bodies.push_back(writer.take());
  }
  for (const auto& stored : rules) {
    RuleHead head = stored->head();
    pass(writer, head);
  }
  return writer.finish(bodies);
}

StoredRules unflatten(std::string_view bytes) {
  const auto flat = std::make_shared<const FlatRules>(bytes);
  FlatReader heads(*flat, flat->heads());
  StoredRules rules;
  for (std::size_t place = 0; place < flat->size(); ++place) {
    RuleHead head;
    pass(heads, head);
    rules.push_back(std::make_shared<const StoredRule>(std::move(head), flat, place));
  }
  return rules;
}

}  // namespace saturate
