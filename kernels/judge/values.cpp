#include "kernels/judge/values.h"

#include <memory>
#include <utility>

namespace saturate {
namespace {

void pack_tensor(const Tensor& tensor, wire::Packer& out) {
  out.number(wire::Kind::kTensor);
  out.number(static_cast<std::int32_t>(tensor.dtype()));
  out.number(static_cast<std::uint32_t>(tensor.rank()));
  for (const std::int64_t dim : tensor.dims()) out.number(dim);
  if (tensor.dtype() != DType::kString) {
    out.text({reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()});
    return;
  }
  out.number(static_cast<std::uint64_t>(tensor.string_data().size()));
  for (const std::string& text : tensor.string_data()) out.text(text);
}

Value unpack_tensor(wire::Unpacker& in) {
  const auto dtype = static_cast<DType>(in.number<std::int32_t>());
  Shape dims;
  for (auto n = in.number<std::uint32_t>(); n > 0 && in.ok(); --n) dims.push_back(in.number<std::int64_t>());
  if (!in.ok()) return {};
  if (dtype == DType::kString) {
    std::vector<std::string> texts;
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) texts.emplace_back(in.text());
    return in.ok() ? Value(Tensor::strings(std::move(dims), std::move(texts))) : Value();
  }
  const std::string_view bytes = in.text();
  if (!in.ok() || checked_bytes(dtype, dims) != bytes.size()) return {};
  Tensor out(dtype, std::move(dims));
  if (!bytes.empty()) std::memcpy(out.mutable_data(), bytes.data(), bytes.size());
  return with_plain_bools(std::move(out));
}

Value unpack_any(wire::Unpacker& in, const ValueType* type) {
  switch (in.number<wire::Kind>()) {
    case wire::Kind::kTensor:
      return unpack_tensor(in);
    case wire::Kind::kSequence: {
      Sequence out;
      const ValueType* element = type ? type->element.get() : nullptr;
      for (auto n = in.number<std::uint64_t>(); n > 0 && in.ok(); --n) out.items.push_back(unpack_any(in, element));
      if (!out.items.empty() && out.items.front().is_tensor())
        out.dtype = out.items.front().tensor().dtype();
      else if (element)
        out.dtype = element->dtype;
      return out;
    }
    case wire::Kind::kOptional:
    case wire::Kind::kAbsent:
      break;
  }
  return {};
}

}  // namespace

void pack(const Value& value, wire::Packer& out) {
  if (value.is_tensor()) return pack_tensor(value.tensor(), out);
  if (const auto* sequence = std::get_if<Sequence>(&value.v)) {
    out.number(wire::Kind::kSequence);
    out.number(static_cast<std::uint64_t>(sequence->items.size()));
    for (const Value& item : sequence->items) pack(item, out);
    return;
  }
  const auto* optional = std::get_if<Optional>(&value.v);
  if (!optional) return out.number(wire::Kind::kAbsent);
  out.number(wire::Kind::kOptional);
  out.number(static_cast<std::uint8_t>(optional->value != nullptr));
  if (optional->value) pack(*optional->value, out);
}

Value unpack(wire::Unpacker& in, const ValueType& type) {
  if (type.kind != ValueType::Kind::kOptional) return unpack_any(in, &type);
  Value inner = unpack_any(in, type.element.get());
  if (!inner.present()) return Optional{};
  return Optional{std::make_shared<const Value>(std::move(inner))};
}

}  // namespace saturate
