// Operators on strings (ONNX Operators: StringConcat, StringSplit, StringNormalizer).
#include <algorithm>
#include <unordered_set>

#include "kernels/tensor/util.h"
#include "kernels/text/util.h"

namespace saturate {
namespace {

Outputs string_concat(KernelContext& ctx) {
  const Tensor& a = ctx.tensor(0);
  const Tensor& b = ctx.tensor(1);
  if (a.dtype() != DType::kString || b.dtype() != DType::kString) return ctx.invalid("the inputs must be strings");
  const std::optional<Shape> dims = broadcast_shape(a.dims(), b.dims());
  if (!dims) return ctx.invalid("the shapes do not broadcast");
  if (const auto room = ctx.allocate(DType::kUint64, *dims); !room.ok()) return room.status();
  const auto x = a.string_data(), y = b.string_data();
  const auto each_pair = [&](const auto& take) {
    for_each_run<2>(*dims, {broadcast_strides(a.dims(), *dims), broadcast_strides(b.dims(), *dims)},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i) take(x[at[0] + i * step[0]], y[at[1] + i * step[1]]);
                    });
  };
  std::size_t bytes = 0;
  each_pair([&](const std::string& s, const std::string& t) { bytes += string_bytes(s.size() + t.size()); });
  absl::StatusOr<std::shared_ptr<const void>> held = ctx.room_for_strings(bytes);
  if (!held.ok()) return held.status();
  std::vector<std::string> out;
  out.reserve(static_cast<std::size_t>(product(*dims)));
  each_pair([&](const std::string& s, const std::string& t) { out.push_back(s + t); });
  return outputs_of(KernelContext::held_strings(*dims, std::move(out), *std::move(held)));
}

// Pieces of `text`: by runs of whitespace where the delimiter is empty, else by every delimiter; at most `limit` cuts.
std::vector<std::string_view> pieces(std::string_view text, std::string_view delimiter, std::int64_t limit) {
  std::vector<std::string_view> out;
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  std::size_t at = 0;
  if (delimiter.empty()) {
    while ((at = text.find_first_not_of(kSpace, at)) != std::string::npos) {
      if (static_cast<std::int64_t>(out.size()) == limit) {
        out.push_back(text.substr(at));
        out.back() = out.back().substr(0, out.back().find_last_not_of(kSpace) + 1);
        break;
      }
      const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
      out.push_back(text.substr(at, end - at));
      at = end;
    }
    return out;
  }
  while (static_cast<std::int64_t>(out.size()) < limit) {
    const std::size_t end = text.find(delimiter, at);
    if (end == std::string::npos) break;
    out.push_back(text.substr(at, end - at));
    at = end + delimiter.size();
  }
  out.push_back(text.substr(at));
  return out;
}

Outputs string_split(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.dtype() != DType::kString) return ctx.invalid("the input must be strings");
  const std::string delimiter = ctx.attr_s("delimiter", "");
  const std::int64_t limit = ctx.attr_i("maxsplit", std::numeric_limits<std::int64_t>::max());
  std::vector<std::vector<std::string_view>> all;
  std::vector<std::int64_t> counts;
  std::size_t widest = 0, read = 0;
  for (const std::string& text : x.string_data()) read += text.size() + 1;
  // At most one piece for each character and each string, as views and then as strings.
  const auto views = ctx.room_for_strings(read * sizeof(std::string_view));
  if (!views.ok()) return views.status();
  for (const std::string& text : x.string_data()) {
    all.push_back(pieces(text, delimiter, limit));
    counts.push_back(static_cast<std::int64_t>(all.back().size()));
    widest = std::max(widest, all.back().size());
  }
  Shape dims = x.dims();
  dims.push_back(static_cast<std::int64_t>(widest));
  if (const auto room = ctx.allocate(DType::kComplex128, dims); !room.ok()) return room.status();
  const auto piece = [&](std::size_t i) {
    const auto& row = all[i / widest];
    return i % widest < row.size() ? row[i % widest] : std::string_view();
  };
  absl::StatusOr<Tensor> out = ctx.copies(dims, static_cast<std::size_t>(product(dims)), piece);
  if (!out.ok()) return out.status();
  return outputs_of(*std::move(out), Tensor::of<std::int64_t>(DType::kInt64, x.dims(), counts));
}

Outputs string_normalizer(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.dtype() != DType::kString || x.rank() < 1 || x.rank() > 2 || (x.rank() == 2 && x.dims()[0] != 1))
    return ctx.invalid("strings of shape [C] or [1, C] are expected");
  const std::string action = ctx.attr_s("case_change_action", "NONE");
  const bool sensitive = ctx.attr_i("is_case_sensitive", 0) != 0;
  std::unordered_set<std::string> stop;
  for (const std::string& word : ctx.attr_strings("stopwords")) stop.insert(sensitive ? word : change_case(word, false));
  std::vector<std::string> out;
  for (const std::string& word : x.string_data()) {
    if (stop.contains(sensitive ? word : change_case(word, false))) continue;
    out.push_back(action == "NONE" ? word : change_case(word, action == "UPPER"));
  }
  if (out.empty()) out.emplace_back();  // the spec: one empty string where nothing is left
  const auto n = static_cast<std::int64_t>(out.size());
  std::size_t bytes = 0;
  for (const std::string& word : out) bytes += string_bytes(word.size());
  absl::StatusOr<std::shared_ptr<const void>> held = ctx.room_for_strings(bytes);
  if (!held.ok()) return held.status();
  return outputs_of(KernelContext::held_strings(x.rank() == 1 ? Shape{n} : Shape{1, n}, std::move(out), *std::move(held)));
}

}  // namespace

void register_string(Registry& registry) {
  registry.add("", "StringConcat", string_concat);
  registry.add("", "StringSplit", string_split);
  registry.add("", "StringNormalizer", string_normalizer);
  register_string_regex(registry);
  register_string_tfidf(registry);
}

}  // namespace saturate
