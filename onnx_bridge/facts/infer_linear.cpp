// Products: MatMul, Gemm, Einsum and their quantized and fused relatives.
#include <algorithm>
#include <map>

#include "onnx_bridge/facts/infer_call.h"

namespace saturate::inference {

namespace {

// numpy.matmul of two shapes.
std::optional<DimVector> matmul_shape(Call& c, DimVector a, DimVector b) {
  if (a.empty() || b.empty()) {
    c.fail("a factor of rank 0");
    return std::nullopt;
  }
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), c.constant(1));
  if (column) b.push_back(c.constant(1));
  if (!c.require_equal(a.back(), b[b.size() - 2], "inner dims differ")) return std::nullopt;
  const Dim m = a[a.size() - 2], n = b.back();
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  auto shape = c.broadcast(a, b);
  if (!shape) return std::nullopt;
  if (!row) shape->push_back(m);
  if (!column) shape->push_back(n);
  return shape;
}

void matmul_of(Call& c, std::size_t a, std::size_t b) {
  if (c.has_rank(a) && c.has_rank(b)) {
    if (auto shape = matmul_shape(c, c.shape(a), c.shape(b))) c.set_shape(0, std::move(shape));
  } else {
    c.set_shape(0, std::nullopt);
  }
}

void matmul(Call& c) {
  matmul_of(c, 0, 1);
  c.set_dtype(0, c.in(0).dtype != DType::kUndefined ? c.in(0).dtype : c.in(1).dtype);
}
void matmul_integer(Call& c) {
  matmul_of(c, 0, 1);
  c.set_dtype(0, DType::kInt32);
}
void matmul_integer_to_float(Call& c) {
  matmul_of(c, 0, 1);
  c.set_dtype(0, c.in(2).dtype);
}
void qlinear_matmul(Call& c) {
  matmul_of(c, 0, 3);
  c.set_dtype(0, c.in(7).dtype);
}

void gemm(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || !c.has_rank(1)) return c.set_shape(0, c.fresh_shape(0, 2));
  if (!c.require_rank(0, 2) || !c.require_rank(1, 2)) return;
  const bool ta = c.int_attribute("transA", 0) != 0, tb = c.int_attribute("transB", 0) != 0;
  if (!c.require_equal(c.dim(0, ta ? 0 : 1), c.dim(1, tb ? 1 : 0), "inner dims differ")) return;
  c.set_shape(0, DimVector{c.dim(0, ta ? 1 : 0), c.dim(1, tb ? 0 : 1)});
}

// com.microsoft.FusedMatMul: transBatchX moves the first axis next to the last, transX swaps the last two.
DimVector fused_factor(DimVector s, bool trans, bool trans_batch) {
  if (s.size() < 2) return s;
  if (trans_batch) std::rotate(s.begin(), s.begin() + 1, s.end() - 1);
  if (trans) std::swap(s[s.size() - 1], s[s.size() - 2]);
  return s;
}
void fused_matmul(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || !c.has_rank(1)) return;
  const bool batch = c.int_attribute("transBatchA", 0) != 0 || c.int_attribute("transBatchB", 0) != 0;
  if (batch && (c.rank(0) != c.rank(1) || c.rank(0) < 3))
    return c.fail("transBatchA and transBatchB want two inputs of one rank, at least 3");
  const DimVector a = fused_factor(c.shape(0), c.int_attribute("transA", 0) != 0, c.int_attribute("transBatchA", 0) != 0);
  const DimVector b = fused_factor(c.shape(1), c.int_attribute("transB", 0) != 0, c.int_attribute("transBatchB", 0) != 0);
  if (auto shape = matmul_shape(c, a, b)) c.set_shape(0, std::move(shape));
}

void matmul_nbits(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || c.rank(0) == 0 || !c.attribute("N")) return;
  DimVector shape = c.shape(0);
  shape.back() = c.constant(c.int_attribute("N", 0));
  c.set_shape(0, std::move(shape));
}

// Terms of an equation: labels of each operand, '.' for the ellipsis.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};
std::optional<Equation> parse_equation(const std::string& text) {
  std::string clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] != '.') {
      clean += text[i];
    } else {
      if (text.compare(i, 3, "...") != 0) return std::nullopt;
      clean += '.';
      i += 2;
    }
  }
  const auto arrow = clean.find("->");
  Equation e;
  std::string left = clean.substr(0, arrow);
  for (std::size_t at = 0;;) {
    const auto comma = left.find(',', at);
    e.operands.push_back(left.substr(at, comma == std::string::npos ? comma : comma - at));
    if (comma == std::string::npos) break;
    at = comma + 1;
  }
  if (arrow != std::string::npos) {
    e.result = clean.substr(arrow + 2);
    return e;
  }
  // Implicit result: the ellipsis, then labels that occur once, in alphabetical order (upper case first).
  std::map<char, int> count;
  bool dots = false;
  for (const std::string& term : e.operands)
    for (char l : term) l == '.' ? (dots = true, 0) : ++count[l];
  if (dots) e.result.push_back('.');
  for (const auto& [l, n] : count)
    if (n == 1) e.result += l;
  return e;
}

bool einsum_operand(Call& c, std::size_t i, const std::string& term, std::map<char, Dim>& labels, DimVector& dots) {
  const auto named = static_cast<int>(term.size()) - static_cast<int>(std::count(term.begin(), term.end(), '.'));
  const auto dot = std::count(term.begin(), term.end(), '.');
  const bool has_dots = dot > 0;
  if (dot > 1) {
    c.fail("a term with two ellipses");
    return false;
  }
  if (has_dots ? c.rank(i) < named : c.rank(i) != named) {
    c.fail("an operand's rank does not fit the equation");
    return false;
  }
  int axis = 0;
  for (char l : term) {
    if (l == '.') {
      const int n = c.rank(i) - named;
      auto joined = c.broadcast(dots, DimVector(c.shape(i).begin() + axis, c.shape(i).begin() + axis + n));
      if (!joined) return false;
      dots = *joined;
      axis += n;
      continue;
    }
    const Dim d = c.dim(i, axis++);
    auto [it, added] = labels.try_emplace(l, d);
    if (added) continue;
    auto joined = c.dims.broadcast(it->second, d);
    if (!joined) {
      c.fail("dims of one label differ");
      return false;
    }
    it->second = *joined;
  }
  return true;
}

void einsum(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  auto e = parse_equation(c.string_attribute("equation", ""));
  if (!e || e->operands.size() != c.inputs.size()) return;
  std::map<char, Dim> labels;
  DimVector dots, shape;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has_rank(i)) {
      if (e->result.find('.') == std::string::npos) c.set_shape(0, c.fresh_shape(0, static_cast<int>(e->result.size())));
      return;
    }
    if (!einsum_operand(c, i, e->operands[i], labels, dots)) return;
  }
  for (char l : e->result) {
    if (l == '.') {
      shape.insert(shape.end(), dots.begin(), dots.end());
      continue;
    }
    auto it = labels.find(l);
    if (it == labels.end()) return;
    shape.push_back(it->second);
  }
  c.set_shape(0, std::move(shape));
}

void quantize(Call& c) {
  DType dtype = c.has(2) ? c.in(2).dtype : static_cast<DType>(c.int_attribute("output_dtype", 0));
  if (!c.has(2) && dtype == DType::kUndefined) dtype = DType::kUint8;
  c.set(0, dtype, c.has_rank(0) ? c.in(0).shape : std::nullopt);
}
void dequantize(Call& c) {
  const auto dtype = static_cast<DType>(c.int_attribute("output_dtype", 0));
  c.set(0, dtype != DType::kUndefined ? dtype : c.in(1).dtype, c.has_rank(0) ? c.in(0).shape : std::nullopt);
}
void dynamic_quantize(Call& c) {
  c.set(0, DType::kUint8, c.has_rank(0) ? c.in(0).shape : std::nullopt);
  c.set(1, DType::kFloat, DimVector{});
  c.set(2, DType::kUint8, DimVector{});
}
// A, A_scale, A_zero, B, ...: A and B broadcast.
void qlinear_binary(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  constexpr std::size_t both[] = {0, 3};
  c.set_shape(0, c.broadcast_inputs(both));
}
void det(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  if (c.rank(0) < 2) return c.fail("a matrix is wanted");
  if (!c.require_equal(c.dim(0, -1), c.dim(0, -2), "a square matrix is wanted")) return;
  c.set_shape(0, DimVector(c.shape(0).begin(), c.shape(0).end() - 2));
}

}  // namespace

void add_linear_rules(Rules& rules) {
  rules[":MatMul"] = matmul;
  rules[":MatMulInteger"] = matmul_integer;
  rules[":QLinearMatMul"] = qlinear_matmul;
  rules[":Gemm"] = rules["com.microsoft:FusedGemm"] = gemm;
  rules[":Einsum"] = einsum;
  rules[":Det"] = det;
  rules[":QuantizeLinear"] = rules["com.microsoft:QuantizeLinear"] = quantize;
  rules[":DequantizeLinear"] = rules["com.microsoft:DequantizeLinear"] = dequantize;
  rules[":DynamicQuantizeLinear"] = dynamic_quantize;
  rules["com.microsoft:FusedMatMul"] = rules["com.microsoft:FusedMatMulActivation"] = fused_matmul;
  rules["com.microsoft:MatMulNBits"] = matmul_nbits;
  rules["com.microsoft:MatMulIntegerToFloat"] = matmul_integer_to_float;
  rules["com.microsoft:DynamicQuantizeMatMul"] = matmul;
  rules["com.microsoft:QLinearAdd"] = rules["com.microsoft:QLinearMul"] = qlinear_binary;
  rules["com.microsoft:QLinearSigmoid"] = rules["com.microsoft:QLinearLeakyRelu"] = rules["com.microsoft:QLinearSoftmax"] = same_as_first;
}

}  // namespace saturate::inference
