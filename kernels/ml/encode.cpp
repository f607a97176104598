// Encoders and feature operators (ONNX Operators-ml: LabelEncoder, CategoryMapper, OneHotEncoder, ArrayFeatureExtractor, FeatureVectorizer,
// Binarizer, ZipMap).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "kernels/core/codec.h"
#include "kernels/ml/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

Outputs binarizer(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const double threshold = ctx.attr_f("threshold", 0.0f);
  auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  for (double& v : *values) v = v > threshold ? 1 : 0;
  return one_output(from_doubles(ctx, x.dtype(), x.dims(), *values));
}

// Every element as bytes that are equal exactly when the elements are (all NaNs are one, as are 0 and -0).
absl::StatusOr<std::vector<std::string>> keys_of(const KernelContext& ctx, const Tensor& t) {
  if (t.dtype() == DType::kString) return std::vector<std::string>(t.string_data().begin(), t.string_data().end());
  std::vector<std::string> out;
  const auto add = [&](auto v) { out.emplace_back(reinterpret_cast<const char*>(&v), sizeof v); };
  if (is_integer(t.dtype()) || t.dtype() == DType::kBool) {
    const auto values = to_integers(ctx, t);
    if (!values.ok()) return values.status();
    for (std::int64_t v : *values) add(v);
  } else {
    const auto values = to_doubles(ctx, t);
    if (!values.ok()) return values.status();
    for (double v : *values) add(std::isnan(v) ? std::numeric_limits<double>::quiet_NaN() : v == 0 ? 0.0 : v);
  }
  return out;
}

// `name`_tensor, _strings, _int64s or _floats as a tensor; nullopt: none.
std::optional<Tensor> listed(const KernelContext& ctx, const std::string& name) {
  if (const Tensor* t = ctx.attr_t(name + "_tensor")) return t->reshaped({t->size()});
  const auto shape = [](const auto& v) { return Shape{static_cast<std::int64_t>(v.size())}; };
  if (ctx.has_attr(name + "_strings")) {
    std::vector<std::string> v = ctx.attr_strings(name + "_strings");
    const Shape dims = shape(v);
    return Tensor::strings(dims, std::move(v));
  }
  if (ctx.has_attr(name + "_int64s")) return Tensor::vector_int64(ctx.attr_ints(name + "_int64s"));
  if (ctx.has_attr(name + "_floats")) {
    const std::vector<float> v = ctx.attr_floats(name + "_floats");
    return Tensor::of<float>(DType::kFloat, shape(v), v);
  }
  return std::nullopt;
}

absl::StatusOr<Tensor> default_of(const KernelContext& ctx, DType dtype) {
  if (const Tensor* t = ctx.attr_t("default_tensor"); t != nullptr && t->size() == 1 && t->dtype() == dtype) return t->reshaped({1});
  if (dtype == DType::kString) return Tensor::strings({1}, {ctx.attr_s("default_string", "_Unused")});
  const double value =
      is_integer(dtype) ? static_cast<double>(ctx.attr_i("default_int64", -1)) : static_cast<double>(ctx.attr_f("default_float", -0.0f));
  if (dtype == DType::kInt64) {
    const std::int64_t exact = ctx.attr_i("default_int64", -1);
    return Tensor::vector_int64(std::span(&exact, 1));
  }
  return from_doubles(ctx, dtype, {1}, std::span(&value, 1));
}

// Elements of `table`, or of `otherwise` for -1, in the shape given.
Outputs look_up(const KernelContext& ctx, const Tensor& table, const Tensor& otherwise, std::span<const std::int64_t> at,
                const Shape& dims) {
  Moving moving(ctx, table.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(table);
  const std::byte* none = moving.units(otherwise);
  const auto unit = static_cast<std::size_t>(moving.unit());
  for (std::size_t i = 0; i < at.size(); ++i)
    std::memcpy(*to + i * unit, at[i] < 0 ? none : from + static_cast<std::size_t>(at[i]) * unit, unit);
  return one_output(moving.take());
}

Outputs map_values(const KernelContext& ctx, const Tensor& x, const Tensor& keys, const Tensor& values) {
  if (keys.size() != values.size()) return ctx.invalid("keys and values differ in length");
  const auto names = keys_of(ctx, keys), wanted = keys_of(ctx, x);
  if (!names.ok()) return names.status();
  if (!wanted.ok()) return wanted.status();
  std::map<std::string, std::int64_t> index;
  for (std::size_t i = 0; i < names->size(); ++i) index[(*names)[i]] = static_cast<std::int64_t>(i);  // the last of equal keys counts
  std::vector<std::int64_t> at;
  for (const std::string& w : *wanted) {
    const auto it = index.find(w);
    at.push_back(it == index.end() ? -1 : it->second);
  }
  const auto otherwise = default_of(ctx, values.dtype());
  if (!otherwise.ok()) return otherwise.status();
  return look_up(ctx, values, *otherwise, at, x.dims());
}

Outputs label_encoder(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (ctx.opset < 2) {  // names of 0, 1, ... both ways
    std::vector<std::string> classes = ctx.attr_strings("classes_strings");
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < classes.size(); ++i) numbers.push_back(static_cast<std::int64_t>(i));
    const auto n = static_cast<std::int64_t>(classes.size());
    const Tensor ids = Tensor::vector_int64(numbers), names = Tensor::strings({n}, std::move(classes));
    return x.dtype() == DType::kString ? map_values(ctx, x, names, ids) : map_values(ctx, x, ids, names);
  }
  const std::optional<Tensor> keys = listed(ctx, "keys"), values = listed(ctx, "values");
  if (!keys || !values) return ctx.invalid("keys or values are missing");
  return map_values(ctx, x, *keys, *values);
}

Outputs category_mapper(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor ids = Tensor::vector_int64(ctx.attr_ints("cats_int64s"));
  std::vector<std::string> v = ctx.attr_strings("cats_strings");
  const auto n = static_cast<std::int64_t>(v.size());
  const Tensor names = Tensor::strings({n}, std::move(v));
  return x.dtype() == DType::kString ? map_values(ctx, x, names, ids) : map_values(ctx, x, ids, names);
}

Outputs one_hot_encoder(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const bool strings = ctx.has_attr("cats_strings");
  std::vector<std::string> v = ctx.attr_strings("cats_strings");
  const auto n = static_cast<std::int64_t>(v.size());
  const Tensor categories = strings ? Tensor::strings({n}, std::move(v)) : Tensor::vector_int64(ctx.attr_ints("cats_int64s"));
  const auto names = keys_of(ctx, categories);
  absl::StatusOr<std::vector<std::string>> wanted = keys_of(ctx, x);
  if (!strings && x.dtype() != DType::kString && !is_integer(x.dtype())) {  // numbers count as integers
    const auto numbers = to_doubles(ctx, x);
    if (!numbers.ok()) return numbers.status();
    std::vector<std::int64_t> whole;
    for (double d : *numbers)
      whole.push_back(std::fabs(d) < 9e18 ? static_cast<std::int64_t>(d) : std::numeric_limits<std::int64_t>::min());
    wanted = keys_of(ctx, Tensor::vector_int64(whole));
  }
  if (!names.ok()) return names.status();
  if (!wanted.ok()) return wanted.status();
  Shape dims = x.dims();
  dims.push_back(static_cast<std::int64_t>(names->size()));
  auto out = ctx.allocate_zeroed(DType::kFloat, dims);
  if (!out.ok()) return out.status();
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    const auto it = std::find(names->begin(), names->end(), (*wanted)[i]);
    if (it == names->end() && ctx.attr_i("zeros", 1) == 0) return ctx.invalid("a category is not known");
    if (it != names->end()) write<float>(*out)[i * names->size() + static_cast<std::size_t>(it - names->begin())] = 1;
  }
  return outputs_of(*std::move(out));
}

Outputs array_feature_extractor(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto at = int_values(ctx, ctx.tensor(1));
  if (!at.ok()) return at.status();
  if (x.rank() == 0 || at->empty()) return ctx.invalid("the input has no last axis or there are no indices");
  const std::int64_t width = x.dims().back(), rows = width == 0 ? 0 : x.size() / width, n = static_cast<std::int64_t>(at->size());
  if (std::any_of(at->begin(), at->end(), [&](std::int64_t i) { return i < 0 || i >= width; }))
    return ctx.invalid("an index is out of range");
  std::vector<std::int64_t> from;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i : *at) from.push_back(r * width + i);
  }
  Shape dims(x.dims().begin(), x.dims().end() - 1);
  dims.push_back(n);
  if (x.rank() == 1) dims = {1, n};
  return look_up(ctx, x, x, from, dims);
}

Outputs feature_vectorizer(KernelContext& ctx) {
  if (ctx.inputs.empty()) return ctx.invalid("there is no input");
  const std::vector<std::int64_t> widths = ctx.attr_ints("inputdimensions");
  const Tensor& first = ctx.tensor(0);
  const std::int64_t rows = first.rank() == 0 ? 1 : first.dims()[0];
  std::vector<std::vector<double>> parts;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    const Tensor& t = ctx.tensor(i);
    if (rows == 0 || t.size() % rows != 0 || (t.rank() > 0 && t.dims()[0] != rows)) return ctx.invalid("the inputs differ in rows");
    auto values = to_doubles(ctx, t);
    if (!values.ok()) return values.status();
    const std::int64_t width = i < widths.size() ? widths[i] : t.size() / rows;
    if (width < 0 || width > (std::int64_t{1} << 40)) return ctx.invalid("an input dimension is out of range");
    total += width;
    parts.push_back(*std::move(values));
  }
  auto out = ctx.allocate_zeroed(DType::kFloat, {rows, total});
  if (!out.ok()) return out.status();
  std::int64_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t have = static_cast<std::int64_t>(parts[i].size()) / rows, width = i < widths.size() ? widths[i] : have;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < std::min(have, width); ++k)
        write<float>(*out)[r * total + at + k] = static_cast<float>(parts[i][static_cast<std::size_t>(r * have + k)]);
    }
    at += width;
  }
  return outputs_of(*std::move(out));
}

// A map is a sequence of two tensors, its keys and their values.
Outputs zip_map(KernelContext& ctx) {
  auto x = matrix_of(ctx, ctx.tensor(0));
  if (!x.ok()) return x.status();
  const ClassLabels labels(ctx);
  if (static_cast<std::int64_t>(labels.size()) != x->cols) return ctx.invalid("labels and columns differ in number");
  std::vector<std::size_t> all(labels.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const Tensor keys = labels.tensor(all);
  Sequence maps;
  for (std::int64_t r = 0; r < x->rows; ++r) {
    auto values = from_doubles(ctx, DType::kFloat, {x->cols}, std::vector<double>(x->row(r).begin(), x->row(r).end()));
    if (!values.ok()) return values.status();
    Sequence map;
    map.items = {Value(keys), Value(*std::move(values))};
    maps.items.push_back(Value(std::move(map)));
  }
  return outputs_of(Value(std::move(maps)));
}

}  // namespace

void register_ml_encode(Registry& registry) {
  registry.add(kMlDomain, "Binarizer", binarizer);
  registry.add(kMlDomain, "LabelEncoder", label_encoder);
  registry.add(kMlDomain, "CategoryMapper", category_mapper);
  registry.add(kMlDomain, "OneHotEncoder", one_hot_encoder);
  registry.add(kMlDomain, "ArrayFeatureExtractor", array_feature_extractor);
  registry.add(kMlDomain, "FeatureVectorizer", feature_vectorizer);
  registry.add(kMlDomain, "ZipMap", zip_map);
}

}  // namespace saturate
