// Einsum (ONNX spec, numpy's notation): '...', repeated letters (diagonals), implicit output. Products of matrices where every summed
// letter is in two inputs, else one walk over all letters.
#include <algorithm>
#include <map>

#include "egraph/stop.h"
#include "kernels/core/wrapping.h"
#include "kernels/linear/matmul.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

constexpr char kEllipsis = '.';  // first of the letters '.' + k that stand for broadcast dims in a term

struct Equation {
  std::vector<std::string> terms;
  std::string output;
};

absl::StatusOr<Equation> parse(const KernelContext& ctx) {
  std::string text = ctx.attr_s("equation", "");
  std::erase(text, ' ');
  Equation e;
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::size_t start = 0;
  while (true) {
    const std::size_t comma = left.find(',', start);
    e.terms.push_back(left.substr(start, comma == std::string::npos ? comma : comma - start));
    if (comma == std::string::npos) break;
    start = comma + 1;
  }
  if (e.terms.size() != ctx.inputs.size()) return ctx.invalid("the equation's terms are not as many as the inputs");
  if (arrow != std::string::npos) {
    e.output = text.substr(arrow + 2);
    return e;
  }
  std::map<char, int> seen;
  bool ellipsis = false;
  for (const std::string& term : e.terms) {
    for (char c : term) {
      if (c == kEllipsis)
        ellipsis = true;
      else
        ++seen[c];
    }
  }
  if (ellipsis) e.output = "...";
  for (const auto& [letter, times] : seen) {
    if (times == 1) e.output += letter;
  }
  return e;
}

// Labels as ints: letters as they are, broadcast dims as -1 (last), -2, ...
absl::StatusOr<std::vector<int>> labels_of(const KernelContext& ctx, const std::string& term, int rank) {
  const std::size_t dots = term.find("...");
  const int letters = static_cast<int>(term.size()) - (dots == std::string::npos ? 0 : 3);
  const int broadcast = rank - letters;
  if (broadcast < 0 || (dots == std::string::npos && broadcast != 0))
    return ctx.invalid("a term of the equation does not fit its input's rank");
  std::vector<int> labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      for (int k = broadcast; k > 0; --k) labels.push_back(-k);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels.push_back(term[i]);
    } else {
      return ctx.invalid("the equation has a character that is no letter");
    }
  }
  return labels;
}

struct Walk {
  std::vector<int> labels;  // output labels, then summed ones
  Shape sizes;
  std::size_t outputs = 0;
  std::vector<Shape> strides;  // one per input, over `labels`
};

absl::StatusOr<Walk> plan(const KernelContext& ctx) {
  absl::StatusOr<Equation> e = parse(ctx);
  if (!e.ok()) return e.status();
  std::map<int, std::int64_t> size;
  std::vector<std::vector<int>> labels;
  int most_broadcast = 0;
  for (std::size_t t = 0; t < e->terms.size(); ++t) {
    absl::StatusOr<std::vector<int>> l = labels_of(ctx, e->terms[t], ctx.tensor(t).rank());
    if (!l.ok()) return l.status();
    for (std::size_t k = 0; k < l->size(); ++k) {
      auto [it, fresh] = size.emplace((*l)[k], ctx.tensor(t).dims()[k]);
      const std::int64_t d = ctx.tensor(t).dims()[k];
      if (it->second != d && it->second != 1 && d != 1) return ctx.invalid("the inputs disagree about the size of a letter");
      if (it->second == 1) it->second = d;
      most_broadcast = std::max(most_broadcast, -(*l)[k]);
    }
    labels.push_back(*std::move(l));
  }
  const bool has_dots = e->output.find("...") != std::string::npos;
  const int letters = static_cast<int>(e->output.size()) - (has_dots ? 3 : 0);
  absl::StatusOr<std::vector<int>> out = labels_of(ctx, e->output, letters + (has_dots ? most_broadcast : 0));
  if (!out.ok()) return out.status();
  Walk w;
  w.labels = *out;
  w.outputs = out->size();
  for (int l : w.labels) {
    if (!size.contains(l)) return ctx.invalid("a letter of the output is in no input");
  }
  for (const auto& [label, n] : size) {
    if (std::find(w.labels.begin(), w.labels.end(), label) == w.labels.end()) w.labels.push_back(label);
  }
  for (int l : w.labels) w.sizes.push_back(size[l]);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    const Shape steps = strides_of(ctx.tensor(t).dims());
    Shape s(w.labels.size(), 0);
    for (std::size_t k = 0; k < labels[t].size(); ++k) {
      const auto at = std::find(w.labels.begin(), w.labels.end(), labels[t][k]) - w.labels.begin();
      if (ctx.tensor(t).dims()[k] != 1) s[static_cast<std::size_t>(at)] += steps[k];
    }
    w.strides.push_back(std::move(s));
  }
  return w;
}

template <typename T>
Accumulator<T> sum_at(const KernelContext& ctx, const Walk& w, const std::vector<std::int64_t>& base) {
  const std::size_t inputs = w.strides.size(), summed = w.sizes.size() - w.outputs;
  Accumulator<T> total = 0;
  Shape index(summed, 0);
  std::vector<std::int64_t> at = base;
  for (std::uint32_t turn = 1;; ++turn) {
    if (turn % (1u << 16) == 0) heed_stop();
    Accumulator<T> term = 1;
    for (std::size_t t = 0; t < inputs; ++t) term = multiplied(term, static_cast<Accumulator<T>>(ctx.tensor(t).data<T>()[at[t]]));
    total = added(total, term);
    std::size_t k = summed;
    while (k > 0) {
      --k;
      const std::size_t d = w.outputs + k;
      for (std::size_t t = 0; t < inputs; ++t) at[t] += w.strides[t][d];
      if (++index[k] < w.sizes[d]) break;
      for (std::size_t t = 0; t < inputs; ++t) at[t] -= w.strides[t][d] * w.sizes[d];
      index[k] = 0;
      if (k == 0) return total;
    }
    if (summed == 0) return total;
  }
}

// A tensor over the walk's letters: its step along each, 0 along those that it does not have.
struct EinsumOperand {
  Tensor tensor;
  Shape strides;
};
using Letters = std::vector<std::size_t>;

Letters joined(std::initializer_list<Letters> groups) {
  Letters all;
  for (const Letters& g : groups) all.insert(all.end(), g.begin(), g.end());
  return all;
}

std::int64_t count(const Shape& sizes, const Letters& letters) {
  std::int64_t n = 1;
  for (std::size_t l : letters) n *= sizes[l];
  return n;
}

// The operand with these letters as its axes, as `dims`; copied where it does not lie so.
absl::StatusOr<Tensor> arranged(const KernelContext& ctx, const Shape& sizes, const EinsumOperand& x, const Letters& letters, Shape dims) {
  Shape axes, strides;
  for (std::size_t l : letters) {
    if (sizes[l] == 1) continue;
    axes.push_back(sizes[l]);
    strides.push_back(x.strides[l]);
  }
  if (product(axes) == x.tensor.size() && strides == strides_of(axes)) return x.tensor.reshaped(std::move(dims));
  Outputs moved = rearrange(ctx, x.tensor, axes, strides);
  if (!moved.ok()) return moved.status();
  return (*moved)[0].tensor().reshaped(std::move(dims));
}

// The product of two, summed over the letters of both that are not `kept`.
absl::StatusOr<EinsumOperand> contract(const KernelContext& ctx, const Shape& sizes, const EinsumOperand& a, const EinsumOperand& b,
                                       const std::vector<bool>& kept) {
  Letters batch, rows, columns, inner;
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    const bool in_a = a.strides[l] != 0, in_b = b.strides[l] != 0;
    if (sizes[l] == 1 || (!in_a && !in_b)) continue;
    (!kept[l] ? inner : in_a && in_b ? batch : in_a ? rows : columns).push_back(l);
  }
  const std::int64_t n = count(sizes, batch), m = count(sizes, rows), k = count(sizes, inner), c = count(sizes, columns);
  const auto left = arranged(ctx, sizes, a, joined({batch, rows, inner}), {n, m, k});
  const auto right = arranged(ctx, sizes, b, joined({batch, inner, columns}), {n, k, c});
  if (!left.ok()) return left.status();
  if (!right.ok()) return right.status();
  absl::StatusOr<Tensor> y = matmul(ctx, *left, *right);
  if (!y.ok()) return y.status();
  EinsumOperand result{*std::move(y), Shape(sizes.size(), 0)};
  const Letters letters = joined({batch, rows, columns});
  std::int64_t step = 1;
  for (auto l = letters.rbegin(); l != letters.rend(); ++l) {
    result.strides[*l] = step;
    step *= sizes[*l];
  }
  return result;
}

// Whether every summed letter is in two inputs at least, so that products of matrices sum it.
bool sums_in_pairs(const Walk& w) {
  for (std::size_t l = w.outputs; l < w.sizes.size(); ++l) {
    const auto has = [l](const Shape& strides) { return strides[l] != 0; };
    if (w.sizes[l] != 1 && std::count_if(w.strides.begin(), w.strides.end(), has) < 2) return false;
  }
  return true;
}

Outputs einsum_by_products(const KernelContext& ctx, const Walk& w, const Shape& dims) {
  EinsumOperand all{ctx.tensor(0), w.strides[0]};
  for (std::size_t t = 1; t < w.strides.size(); ++t) {
    std::vector<bool> kept(w.sizes.size());
    for (std::size_t l = 0; l < kept.size(); ++l) {
      kept[l] = l < w.outputs;
      for (std::size_t later = t + 1; later < w.strides.size(); ++later) kept[l] = kept[l] || w.strides[later][l] != 0;
    }
    absl::StatusOr<EinsumOperand> product = contract(ctx, w.sizes, all, {ctx.tensor(t), w.strides[t]}, kept);
    if (!product.ok()) return product.status();
    all = *std::move(product);
  }
  Letters letters(w.outputs);
  for (std::size_t l = 0; l < letters.size(); ++l) letters[l] = l;
  return one_output(arranged(ctx, w.sizes, all, letters, dims));
}

Outputs einsum(KernelContext& ctx) {
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    if (!ctx.is_tensor(i) || ctx.tensor(i).dtype() != ctx.tensor(0).dtype())
      return ctx.invalid("the inputs must be tensors of one element type");
  }
  absl::StatusOr<Walk> w = plan(ctx);
  if (!w.ok()) return w.status();
  const Shape dims(w->sizes.begin(), w->sizes.begin() + static_cast<std::ptrdiff_t>(w->outputs));
  const DType dtype = ctx.tensor(0).dtype();
  const bool empty = std::find(w->sizes.begin(), w->sizes.end(), 0) != w->sizes.end();
  if (!empty && !ctx.options.reference && (dtype == DType::kFloat || dtype == DType::kDouble) && sums_in_pairs(*w))
    return einsum_by_products(ctx, *w, dims);
  absl::StatusOr<Tensor> y = ctx.allocate_zeroed(dtype, dims);
  if (!y.ok()) return y.status();
  if (empty) return outputs_of(*std::move(y));
  return dispatch(NumericTypes{}, ctx, y->dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    T* out = write<T>(*y);
    const Shape steps = strides_of(dims);
    parallel_for(ctx, y->size(), 64, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> base(w->strides.size());
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::size_t t = 0; t < base.size(); ++t) {
          base[t] = 0;
          std::int64_t rest = i;
          for (std::size_t d = 0; d < steps.size(); ++d) {
            base[t] += rest / steps[d] * w->strides[t][d];
            rest %= steps[d];
          }
        }
        out[i] = static_cast<T>(sum_at<T>(ctx, *w, base));
      }
    });
    return outputs_of(*std::move(y));
  });
}

}  // namespace

void register_matmul_einsum(Registry& registry) { registry.add("", "Einsum", einsum); }

}  // namespace saturate
