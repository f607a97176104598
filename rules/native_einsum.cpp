// Einsum of two operands as Transpose, Reshape and MatMul.
#include <algorithm>
#include <array>
#include <string>

#include "rules/native_kit.h"
#include "rules/native_views.h"
#include "rules/opkey.h"

namespace saturate {
namespace {

using namespace native;

// "bhqd,bhkd->bhqk" with every letter at most once an operand; dims that an ellipsis stands for have letters of their own.
struct Equation {
  std::string left, right, out;
};

std::optional<Equation> parse(const std::string& text, std::size_t left_rank) {
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
      if ((*s)[i] == ',' || s->find((*s)[i], i + 1) != std::string::npos) return std::nullopt;
  return e;
}

bool has(const std::string& s, char c) { return s.find(c) != std::string::npos; }

// The letters by what becomes of them: in both and the result, of the left or right operand and the result, summed over.
struct Roles {
  std::string batch, rows, columns, inner;
};

std::optional<Roles> roles_of(const Equation& e) {
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
      if (!has(e.right, c)) return std::nullopt;  // a sum over one operand alone
      r.inner += c;
    }
  for (char c : e.right)
    if (!has(e.out, c) && !has(e.left, c)) return std::nullopt;
  return r;
}

std::vector<std::int64_t> order_of(const std::string& wanted, const std::string& present) {
  std::vector<std::int64_t> perm;
  for (char c : wanted) perm.push_back(static_cast<std::int64_t>(present.find(c)));
  return perm;
}

void einsum_is_matmul(const Views& v, const Match& m, Unions& unions) {
  const Attribute* text = find_attribute(v.g.key(m.ops[2]).attributes, "equation");
  const Dims* first = v.shape(m.classes[0]);
  auto e = text && first ? parse(text->s(), first->size()) : std::nullopt;
  auto r = e ? roles_of(*e) : std::nullopt;
  Id operands[] = {m.classes[0], m.classes[1]};
  if (r && !r->rows.empty() && !r->columns.empty() &&
      e->out.find(r->columns[0]) < e->out.find(r->rows[0])) {  // the product comes out transposed
    std::swap(e->left, e->right);
    std::swap(r->rows, r->columns);
    std::swap(operands[0], operands[1]);
  }
  const Dims *left = v.shape(operands[0]), *right = v.shape(operands[1]);
  if (!r || !left || !right || left->size() != e->left.size() || right->size() != e->right.size() ||
      !is_floating(v.g.facts(m.classes[0]).dtype))
    return;
  DimTable& table = v.g.dims();
  const Dims a = *left, b = *right;
  const auto dim = [&](char c) { return has(e->left, c) ? a[e->left.find(c)] : b[e->right.find(c)]; };
  for (char c : r->batch + r->inner)  // sizes of 1 would broadcast
    if (!table.equal(a[e->left.find(c)], b[e->right.find(c)])) return;
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
}

}  // namespace

std::vector<NativeRule> native_einsum_rules() {
  return to_native({{"einsum_is_matmul", "Einsum(A, B) = MatMul of A and B, moved and reshaped, where each letter stands once an operand",
                     Effect::kReassociates, [](OnnxEGraph& g) { return over_two(g, "Einsum"); }, einsum_is_matmul}});
}

}  // namespace saturate
