// Einsum (ONNX spec, numpy's notation): '...', repeated letters (diagonals), implicit output. One walk over all letters.
#include <algorithm>
#include <map>

#include "kernels/matmul.h"

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
  while (true) {
    Accumulator<T> term = 1;
    for (std::size_t t = 0; t < inputs; ++t) term *= static_cast<Accumulator<T>>(ctx.tensor(t).data<T>()[at[t]]);
    total += term;
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

Outputs einsum(KernelContext& ctx) {
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    if (!ctx.is_tensor(i) || ctx.tensor(i).dtype() != ctx.tensor(0).dtype())
      return ctx.invalid("the inputs must be tensors of one element type");
  }
  absl::StatusOr<Walk> w = plan(ctx);
  if (!w.ok()) return w.status();
  const Shape dims(w->sizes.begin(), w->sizes.begin() + static_cast<std::ptrdiff_t>(w->outputs));
  absl::StatusOr<Tensor> y = ctx.allocate_zeroed(ctx.tensor(0).dtype(), dims);
  if (!y.ok()) return y.status();
  if (std::find(w->sizes.begin(), w->sizes.end(), 0) != w->sizes.end()) return outputs_of(*std::move(y));
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
