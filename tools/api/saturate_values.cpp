#include <cstring>

#include "fmt/format.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/api/saturate_impl.h"

namespace saturate::api {
namespace {

Error wrong(const std::string& name, const std::string& what) {
  return {Code::kUsage, fmt::format("value '{}': {}; see TensorProto's types and layouts", name, what)};
}

Expected<saturate::Value> tensor(const Tensor& t, const std::string& name) {
  const auto dtype = static_cast<DType>(t.dtype);
  const auto elements = checked_elements(t.shape);
  if (!elements || !checked_bytes(dtype, t.shape)) return wrong(name, "dims that are negative, or too big");
  if (dtype == DType::kString) {
    if (static_cast<std::int64_t>(t.strings.size()) != *elements)
      return wrong(name, fmt::format("{} strings for {} elements", t.strings.size(), *elements));
    return saturate::Value(saturate::Tensor::strings(t.shape, t.strings));
  }
  if (bit_width(dtype) == 0) return wrong(name, fmt::format("{} can't be run here", dtype_name(dtype)));
  if (t.data.size() != *checked_bytes(dtype, t.shape))
    return wrong(name, fmt::format("{} bytes where type and dims need {}", t.data.size(), *checked_bytes(dtype, t.shape)));
  // A tensor without an owner would count as one that nobody else sees.
  static const auto nobody = std::make_shared<const int>(0);
  return saturate::Value(with_plain_bools(saturate::Tensor(dtype, t.shape, t.owner ? t.owner : nobody, t.data)));
}

}  // namespace

Expected<saturate::Value> to_internal(const Value& value, const std::string& name) {
  if (const auto* t = std::get_if<Tensor>(&value.v)) return tensor(*t, name);
  if (const auto* s = std::get_if<Sequence>(&value.v)) {
    saturate::Sequence out;
    out.dtype = static_cast<DType>(s->dtype);
    for (const Value& item : s->items) {
      auto converted = to_internal(item, name);
      if (!converted) return converted.error();
      out.items.push_back(*std::move(converted));
    }
    return saturate::Value(std::move(out));
  }
  const auto& maybe = std::get<Maybe>(value.v);
  if (!maybe.value) return saturate::Value(saturate::Optional{});
  auto inside = to_internal(*maybe.value, name);
  if (!inside) return inside.error();
  return saturate::Value(saturate::Optional{std::make_shared<const saturate::Value>(*std::move(inside))});
}

Expected<Inputs> to_internal(const Values& values) {
  Inputs inputs;
  for (const auto& [name, value] : values) {
    auto converted = to_internal(value, name);
    if (!converted) return converted.error();
    inputs[name] = *std::move(converted);
  }
  return inputs;
}

Value to_public(const saturate::Value& value, bool writable) {
  if (const auto* t = std::get_if<saturate::Tensor>(&value.v)) {
    Tensor out;
    out.dtype = static_cast<std::int32_t>(t->dtype());
    out.shape = t->dims();
    out.strings.assign(t->string_data().begin(), t->string_data().end());
    out.writable = writable && t->unique();
    const auto owner = std::make_shared<const saturate::Tensor>(*t);
    out.data = owner->bytes();
    out.owner = owner;
    return {std::move(out)};
  }
  if (const auto* s = std::get_if<saturate::Sequence>(&value.v)) {
    Sequence out;
    out.dtype = static_cast<std::int32_t>(s->dtype);
    for (const saturate::Value& item : s->items) out.items.push_back(to_public(item, writable));
    return {std::move(out)};
  }
  const auto* o = std::get_if<saturate::Optional>(&value.v);
  if (!o || !o->value) return {Maybe{}};
  return {Maybe{std::make_shared<const Value>(to_public(*o->value, false))}};
}

namespace {

// Sessions live long, and whoever has one may write the model's file anew: weights that lie in it are read now.
saturate::Model in_memory(saturate::Model model) {
  for (Initializer& init : model.graph.initializers) {
    if (!init.tensor.mapped() || init.tensor.file_range() != nullptr) continue;
    saturate::Tensor copy(init.tensor.dtype(), init.tensor.dims());
    std::memcpy(copy.mutable_data(), init.tensor.bytes().data(), init.tensor.bytes().size());
    release_pages(init.tensor);
    init.tensor = std::move(copy);
  }
  return model;
}

}  // namespace

Expected<Session> Session::create(const Model& model, int threads, bool reference) {
  return guarded([&]() -> Expected<Session> {
    SessionOptions options;
    options.threads = threads;
    options.reference = reference;
    const saturate::Model inner = in_memory(model.impl().model);
    absl::StatusOr<saturate::Session> session = saturate::Session::create(inner, options);
    if (!session.ok()) return error_of(session.status(), inner.path, "run it in another runtime");
    return Session(std::make_shared<const Impl>(Impl{inner, *std::move(session)}));
  });
}

Expected<std::vector<std::pair<std::string, Value>>> Session::run(const Values& inputs) const {
  return guarded([&]() -> Expected<std::vector<std::pair<std::string, Value>>> {
    Expected<Inputs> converted = to_internal(inputs);
    if (!converted) return converted.error();
    for (const auto& [name, value] : *converted) {
      const auto& declared = impl_->model.graph.inputs;
      if (std::none_of(declared.begin(), declared.end(), [&, &wanted = name](const ValueInfo& v) { return v.name == wanted; })) {
        std::vector<std::string> names;
        for (const ValueInfo& v : declared) names.push_back(v.name);
        return Error{Code::kUsage, fmt::format("the model has no input '{}'; {}", name, saturate::what_instead(name, names))};
      }
    }
    absl::StatusOr<std::vector<saturate::Value>> outputs = impl_->session.run(*converted);
    if (!outputs.ok()) return error_of(outputs.status(), impl_->model.path, "check the inputs");
    converted = Inputs{};  // a result that shares an input's data must not count as its only user
    std::vector<std::pair<std::string, Value>> out;
    for (std::size_t i = 0; i < outputs->size(); ++i) out.emplace_back(impl_->model.graph.outputs[i].name, to_public((*outputs)[i], true));
    return out;
  });
}

}  // namespace saturate::api
