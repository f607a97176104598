#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "tools/python/core.h"

namespace saturate::python {
namespace {

api::Value tensor_from(const nb::tuple& parts) {
  api::Tensor t;
  t.dtype = nb::cast<std::int32_t>(parts[1]);
  t.shape = nb::cast<std::vector<std::int64_t>>(parts[2]);
  if (nb::isinstance<nb::list>(parts[3])) {
    t.strings = nb::cast<std::vector<std::string>>(parts[3]);
    return {std::move(t)};
  }
  const auto bytes = nb::cast<Bytes>(parts[3]);
  t.data = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  t.owner = hold(nb::borrow(parts[3]));
  return {std::move(t)};
}

nb::object bytes_to(const api::Tensor& t) {
  auto* owner = new std::shared_ptr<const void>(t.owner);
  const nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
  const std::size_t size = t.data.size();
  // An array without elements needs no memory, but NumPy wants an address.
  static std::uint8_t nothing = 0;
  auto* data = size ? const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(t.data.data())) : &nothing;
  if (t.writable) return nb::cast(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(data, {size}, capsule));
  return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(data, {size}, capsule));
}

}  // namespace

std::shared_ptr<const void> hold(nb::object object) {
  PyObject* pointer = object.release().ptr();
  return {static_cast<const void*>(pointer), [pointer](const void*) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire gil;
            Py_DECREF(pointer);
          }};
}

api::Value value_from(nb::handle object) {
  const auto parts = nb::cast<nb::tuple>(object);
  const auto kind = nb::cast<std::string>(parts[0]);
  if (kind == "tensor") return tensor_from(parts);
  if (kind == "sequence") {
    api::Sequence s;
    s.dtype = nb::cast<std::int32_t>(parts[1]);
    for (const nb::handle item : nb::cast<nb::list>(parts[2])) s.items.push_back(value_from(item));
    return {std::move(s)};
  }
  if (parts[1].is_none()) return {api::Maybe{}};
  return {api::Maybe{std::make_shared<const api::Value>(value_from(parts[1]))}};
}

nb::object value_to(const api::Value& value) {
  if (const auto* t = std::get_if<api::Tensor>(&value.v)) {
    constexpr std::int32_t kString = 8;  // TensorProto.STRING
    nb::list strings;
    if (t->dtype == kString)  // any bytes: as text where they are UTF-8
      for (const std::string& s : t->strings) {
        PyObject* text = PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "surrogateescape");
        if (!text) throw nb::python_error();
        strings.append(nb::steal(text));
      }
    return nb::make_tuple("tensor", t->dtype, nb::tuple(nb::cast(t->shape)), t->dtype == kString ? nb::object(strings) : bytes_to(*t));
  }
  if (const auto* s = std::get_if<api::Sequence>(&value.v)) {
    nb::list items;
    for (const api::Value& item : s->items) items.append(value_to(item));
    return nb::make_tuple("sequence", s->dtype, items);
  }
  const auto& maybe = std::get<api::Maybe>(value.v);
  return nb::make_tuple("optional", maybe.value ? value_to(*maybe.value) : nb::object(nb::none()));
}

api::Values values_from(const nb::dict& values) {
  api::Values out;
  for (const auto& [name, value] : values) out[nb::cast<std::string>(name)] = value_from(value);
  return out;
}

}  // namespace saturate::python
