// Einsum of two operands as Transpose, Reshape and MatMul.
#include <algorithm>
#include <array>
#include <string>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;

// "bhqd,bhkd->bhqk" with every letter at most once an operand; dims that an ellipsis stands for have letters of their own.
struct Equation {
  std::string left, right, out;
};

std::optional<Equation> parse(const Views& v, const std::string& text, std::size_t left_rank) {
  std::string plain;
  for (char c : text)
    if (c != ' ') plain += c;
  if (const auto dots = plain.find("..."), comma = plain.find(','); dots < comma && comma != std::string::npos && left_rank + 3 >= comma) {
    std::string hidden;  // as many dims in each operand: others would be refused for their rank
    for (std::size_t i = 0; i < left_rank + 3 - comma; ++i) hidden += static_cast<char>('0' + i);
    if (hidden.size() > 6) return std::nullopt;
    for (auto at = plain.find("..."); at != std::string::npos; at = plain.find("...")) plain.replace(at, 3, hidden);
  }
  const auto comma = plain.find(','), arrow = plain.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow || plain.find('.') != std::string::npos)
    return std::nullopt;
  Equation e{plain.substr(0, comma), plain.substr(comma + 1, arrow - comma - 1), plain.substr(arrow + 2)};
  for (const std::string* s : {&e.left, &e.right, &e.out})
    for (std::size_t i = 0; i < s->size(); ++i)
      if ((*s)[i] == ',' || !v.guard("each letter stands once an operand", s->find((*s)[i], i + 1) == std::string::npos))
        return std::nullopt;
  return e;
}

bool has(const std::string& s, char c) { return s.find(c) != std::string::npos; }

// The letters by what becomes of them: in both and the result, of the left or right operand and the result, summed over.
struct Roles {
  std::string batch, rows, columns, inner;
};

std::optional<Roles> roles_of(const Views& v, const Equation& e) {
  Roles r;
  for (char c : e.out) {
    if (has(e.left, c) && has(e.right, c))
      r.batch += c;
    else if (has(e.left, c))
      r.rows += c;
    else if (has(e.right, c))
      r.columns += c;
    else
      return std::nullopt;
  }
  for (char c : e.left)
    if (!has(e.out, c)) {
      if (has(e.right, c))
        r.inner += c;
      else if (!v.guard("no sum is over the left operand alone", false))
        return std::nullopt;
    }
  for (char c : e.right)
    if (!v.guard("no sum is over the right operand alone", has(e.out, c) || has(e.left, c))) return std::nullopt;
  return r;
}

std::vector<std::int64_t> order_of(const std::string& wanted, const std::string& present) {
  std::vector<std::int64_t> perm;
  for (char c : wanted) perm.push_back(static_cast<std::int64_t>(present.find(c)));
  return perm;
}

// Rows of two letters beside columns of one, as several heads of queries that share a head of keys: "bqkgd,bskd->bkgqs". The rows stay
// apart and the other operand has a dim of 1 for the first of them, in the order of the letters given.
void einsum_by_groups(const Views& v, const Match& m, const Equation& e, const Roles& r, std::array<Id, 2> operands, Unions& unions) {
  if (!useful(r.batch.size() == 2 && r.rows.size() == 2 && r.columns.size() == 1 && r.inner.size() == 1)) return;
  const auto in_order_of = [](const std::string& letters, const std::string& order) {
    std::string out;
    for (char c : order)
      if (has(letters, c)) out += c;
    return out;
  };
  std::vector<std::string> orders{e.out};
  if (in_order_of(r.batch + r.rows, e.left) != in_order_of(r.batch + r.rows, e.out)) orders.push_back(e.left);
  for (const std::string& order : orders) {
    const std::string batch = in_order_of(r.batch, order), rows = in_order_of(r.rows, order);
    const Id x = v.transpose(operands[0], order_of(batch + rows + r.inner, e.left));
    const Id turned = v.transpose(operands[1], order_of(batch + r.columns + r.inner, e.right));
    const Dims* dims = v.shape(turned);
    if (!dims || dims->size() != 4) return;
    Dims wide = *dims;
    wide.insert(wide.begin() + 2, v.g.dims().constant(1));
    const Id apart = v.reshape(turned, wide, 0);
    const Id y = v.transpose(apart, {0, 1, 2, 4, 3});
    const Id product = v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{x, y});
    unions.emplace_back(m.root(), v.transpose(product, order_of(e.out, batch + rows + r.columns)));
  }
}

void einsum_is_matmul(const Views& v, const Match& m, Unions& unions) {
  const Attribute* text = find_attribute(v.g.key(m.ops[2]).attributes, "equation");
  const Dims* first = v.shape(m.classes[0]);
  auto e = text && first ? parse(v, text->s(), first->size()) : std::nullopt;
  auto r = e ? roles_of(v, *e) : std::nullopt;
  Id operands[] = {m.classes[0], m.classes[1]};
  if (r && !r->rows.empty() && !r->columns.empty() &&
      e->out.find(r->columns[0]) < e->out.find(r->rows[0])) {  // the product comes out transposed
    std::swap(e->left, e->right);
    std::swap(r->rows, r->columns);
    std::swap(operands[0], operands[1]);
  }
  const Dims *left = v.shape(operands[0]), *right = v.shape(operands[1]);
  if (!r || !left || !right || left->size() != e->left.size() || right->size() != e->right.size()) return;
  if (!v.guard("MatMul takes the type", is_floating(v.g.facts(m.classes[0]).dtype))) return;
  DimTable& table = v.g.dims();
  const Dims a = *left, b = *right;
  const auto dim = [&](char c) { return has(e->left, c) ? a[e->left.find(c)] : b[e->right.find(c)]; };
  for (char c : r->batch + r->inner)  // sizes of 1 would broadcast
    if (!v.guard("what both have is as long in both", table.equal(a[e->left.find(c)], b[e->right.find(c)]))) return;
  const auto joined = [&](const std::string& letters) {
    Dim n = table.constant(1);
    for (char c : letters) n = table.mul(n, dim(c));
    return n;
  };
  Dims batch;
  for (char c : r->batch) batch.push_back(dim(c));
  const bool rows_apart = r->batch.empty() && !r->rows.empty();  // a product with one matrix leaves the rows as they are
  const auto matrix = [&](Id x, const std::string& letters, const std::string& first, const std::string& second, bool apart) {
    const std::string wanted = r->batch + first + second;
    const Id moved = v.transpose(x, order_of(wanted, letters));
    if ((first.size() == 1 || apart) && second.size() == 1) return moved;
    Dims to = batch;
    if (apart)
      for (char c : first) to.push_back(dim(c));
    else
      to.push_back(joined(first));
    to.push_back(joined(second));
    return v.reshape(moved, to, 0);
  };
  const Id x = matrix(operands[0], e->left, r->rows, r->inner, rows_apart), y = matrix(operands[1], e->right, r->inner, r->columns, false);
  Id product = v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{x, y});
  if ((r->rows.size() != 1 && !rows_apart) || r->columns.size() != 1) {
    Dims to = batch;
    for (char c : r->rows + r->columns) to.push_back(dim(c));
    product = v.reshape(product, to, 0);
  }
  unions.emplace_back(m.root(), v.transpose(product, order_of(e->out, r->batch + r->rows + r->columns)));
  einsum_by_groups(v, m, *e, *r, {operands[0], operands[1]}, unions);
}

// A sum over two terms, where one operand has a matrix for each place of the other: "tdij,bhtdj->bhtdi", as rotations of pairs are written.
void einsum_over_two(const Views& v, const Match& m, Unions& unions) {
  const Attribute* text = find_attribute(v.g.key(m.ops[2]).attributes, "equation");
  const Dims *left = v.shape(m.classes[0]), *right = v.shape(m.classes[1]);
  const auto e = text && left ? parse(v, text->s(), left->size()) : std::nullopt;
  if (!e || !right || left->size() != e->left.size() || right->size() != e->right.size() ||
      !useful(is_floating(v.g.facts(m.classes[0]).dtype)))
    return;
  const Dims first = *left, second = *right;  // what is added below moves the facts
  std::string inner;
  for (char c : e->left + e->right)
    if (!has(e->out, c) && !has(inner, c)) inner += c;
  const auto size = [&](const std::string& letters, const Dims& dims, char c) { return v.g.dims().value(dims[letters.find(c)]); };
  if (inner.size() != 1 || !has(e->left, inner[0]) || !has(e->right, inner[0])) return;
  if (!v.guard("the sum is over two", size(e->left, *left, inner[0]) == 2 && size(e->right, *right, inner[0]) == 2)) return;
  bool pairs = false, shared = false;
  for (char c : e->out) {
    const bool l = has(e->left, c), r = has(e->right, c);
    if (!l && !r) return;
    if (l != r) pairs = pairs || (l ? size(e->left, *left, c) : size(e->right, *right, c)) == 2;
    if (l && r) shared = true;
    if (l && r && !useful(v.equal((*left)[e->left.find(c)], (*right)[e->right.find(c)]))) return;
  }
  if (!useful(pairs && shared)) return;
  const auto term = [&](Id x, const std::string& letters, const Dims& dims, std::int64_t at) {
    const auto axis = static_cast<std::int64_t>(letters.find(inner[0]));
    const Id taken = v.g.add(make_key("", "Gather", {Attribute::of("axis", axis)}, 1, static_cast<int>(letters.size())),
                             std::array{x, v.g.constant(Tensor::scalar_int64(at))});
    std::string rest = letters, moved;
    rest.erase(static_cast<std::size_t>(axis), 1);
    Dims wide;
    for (char c : e->out) {
      if (has(rest, c)) moved += c;
      if (has(rest, c) || !moved.empty()) wide.push_back(has(rest, c) ? dims[letters.find(c)] : v.g.dims().constant(1));
    }
    const Id ordered = v.transpose(taken, order_of(moved, rest));
    return wide.size() == moved.size() ? ordered : v.reshape(ordered, wide, 0);
  };
  const auto binary = [&](const char* op, Id a, Id b) { return v.g.add(make_key("", op, {}, 1, std::nullopt), std::array{a, b}); };
  Id products[2];
  for (std::int64_t k : {0, 1}) products[k] = binary("Mul", term(m.classes[0], e->left, first, k), term(m.classes[1], e->right, second, k));
  unions.emplace_back(m.root(), binary("Add", products[0], products[1]));
}

}  // namespace

std::vector<NativeRule> native_einsum_rules() {
  return to_native({{"einsum_is_matmul", "Einsum(A, B) = MatMul of A and B, moved and reshaped, where each letter stands once an operand",
                     Effect::kReassociates, [](OnnxEGraph& g) { return over_two(g, "Einsum"); }, einsum_is_matmul},
                    {"einsum_over_two", "Einsum(A, B) that sums over two = the sum of two products", Effect::kReassociates,
                     [](OnnxEGraph& g) { return over_two(g, "Einsum"); }, einsum_over_two}});
}

}  // namespace saturate
