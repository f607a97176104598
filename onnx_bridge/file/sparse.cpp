#include "onnx_bridge/file/sparse.h"

#include <cstring>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/file/proto/convert.h"

namespace saturate {
namespace {

const onnx::SparseTensorProto& message_of(const Initializer& i) { return *static_cast<const onnx::SparseTensorProto*>(i.origin.get()); }

std::string called(const Initializer& i) { return i.name.empty() ? "a sparse constant" : fmt::format("sparse initializer '{}'", i.name); }

// The place of each value in the flat tensor; an error where one lies outside.
absl::StatusOr<std::vector<std::int64_t>> places(const Tensor& indices, const Shape& dims, std::int64_t count) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  const bool flat = indices.dims() == Shape{count};
  if (indices.dtype() != DType::kInt64 || (!flat && indices.dims() != Shape{count, rank}))
    return absl::InvalidArgumentError("its indices do not fit its values");
  const std::int64_t all = *checked_elements(dims);
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = flat ? *element_as_int(indices, i) : 0;
    for (std::int64_t d = 0; !flat && d < rank; ++d) {
      const std::int64_t index = *element_as_int(indices, i * rank + d), size = dims[static_cast<std::size_t>(d)];
      if (index < 0 || index >= size) return absl::InvalidArgumentError(fmt::format("index {} lies outside of dim {}", index, d));
      at = at * size + index;
    }
    if (at < 0 || at >= all) return absl::InvalidArgumentError(fmt::format("index {} lies outside of its {} elements", at, all));
    out[static_cast<std::size_t>(i)] = at;
  }
  return out;
}

}  // namespace

ValueType type_of_sparse(const Initializer& initializer) {
  const onnx::SparseTensorProto& message = message_of(initializer);
  ValueType type;
  type.kind = ValueType::Kind::kTensor;
  type.dtype = static_cast<DType>(message.values().data_type());
  const Shape dims(message.dims().begin(), message.dims().end());
  if (checked_elements(dims)) type.shape.emplace(dims.begin(), dims.end());
  return type;
}

absl::StatusOr<Tensor> dense_tensor(const Initializer& initializer, std::size_t most_bytes) {
  const auto wrong = [&](std::string_view what) { return absl::InvalidArgumentError(fmt::format("{}: {}", called(initializer), what)); };
  const onnx::SparseTensorProto& message = message_of(initializer);
  const Shape dims(message.dims().begin(), message.dims().end());
  const auto dtype = static_cast<DType>(message.values().data_type());
  const int width = bit_width(dtype) / 8;
  if (dtype == DType::kString || width == 0)
    return absl::UnimplementedError(fmt::format("{} of {} cannot be run", called(initializer), dtype_name(dtype)));
  const auto bytes = checked_elements(dims) ? checked_bytes(dtype, dims) : std::nullopt;
  if (!bytes || *bytes > most_bytes) return wrong(fmt::format("dims [{}] make no tensor, or one too large", fmt::join(dims, ", ")));
  try {
    ExternalFiles none("");
    proto::Reader reader(initializer.origin, none);
    const Tensor values = reader.read(message.values()), indices = reader.read(message.indices());
    if (values.rank() != 1) return wrong("its values are no vector");
    const absl::StatusOr<std::vector<std::int64_t>> at = places(indices, dims, values.size());
    if (!at.ok()) return wrong(std::string(at.status().message()));
    auto data = std::make_shared<std::vector<std::byte>>(*bytes);
    for (std::size_t i = 0; i < at->size(); ++i)
      std::memcpy(data->data() + (*at)[i] * width, values.bytes().data() + static_cast<std::int64_t>(i) * width,
                  static_cast<std::size_t>(width));
    const std::span<const std::byte> span(*data);
    return Tensor(dtype, dims, std::move(data), span);
  } catch (const proto::LoadError& error) {
    return wrong(error.message);
  }
}

std::optional<Initializer> sparse_of(const Attribute& attribute) {
  if (attribute.type != AttributeType::kSparseTensor || !attribute.raw) return std::nullopt;
  const auto& message = *static_cast<const onnx::AttributeProto*>(attribute.raw.get());
  if (!message.has_sparse_tensor()) return std::nullopt;
  return Initializer{"", Tensor(), {attribute.raw, &message.sparse_tensor()}, true};
}

}  // namespace saturate
