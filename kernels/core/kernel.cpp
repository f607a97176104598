#include "kernels/core/kernel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>

#include "egraph/parallel.h"
#include "egraph/stop.h"
#include "fmt/format.h"
#include "kernels/core/team_scope.h"

namespace saturate {
namespace {

thread_local Team* current_team = nullptr;

template <typename T>
const T* attribute_value(const Node& node, std::string_view name) {
  const Attribute* a = find_attribute(node.attributes, name);
  return a == nullptr ? nullptr : std::get_if<T>(&a->value);
}

template <typename T>
T attribute_or(const Node& node, std::string_view name, T fallback) {
  const T* value = attribute_value<T>(node, name);
  return value == nullptr ? std::move(fallback) : *value;
}

std::string where(const Node& node) {
  const std::string op = qualified_name(node.domain, node.op_type);
  if (!node.name.empty()) return fmt::format("{} '{}'", op, node.name);
  return node.outputs.empty() ? op : fmt::format("{} making '{}'", op, node.outputs[0]);
}

}  // namespace

const Tensor& KernelContext::tensor(std::size_t i) const {
  static const Tensor none;
  return is_tensor(i) ? inputs[i].tensor() : none;
}

std::int64_t KernelContext::attr_i(std::string_view name, std::int64_t fallback) const { return attribute_or(node, name, fallback); }
float KernelContext::attr_f(std::string_view name, float fallback) const { return attribute_or(node, name, fallback); }
std::string KernelContext::attr_s(std::string_view name, std::string_view fallback) const {
  return attribute_or(node, name, std::string(fallback));
}
std::vector<std::int64_t> KernelContext::attr_ints(std::string_view name, std::vector<std::int64_t> fallback) const {
  return attribute_or(node, name, std::move(fallback));
}
std::vector<float> KernelContext::attr_floats(std::string_view name, std::vector<float> fallback) const {
  return attribute_or(node, name, std::move(fallback));
}
std::vector<std::string> KernelContext::attr_strings(std::string_view name, std::vector<std::string> fallback) const {
  return attribute_or(node, name, std::move(fallback));
}
const Tensor* KernelContext::attr_t(std::string_view name) const { return attribute_value<Tensor>(node, name); }
const Graph* KernelContext::attr_g(std::string_view name) const {
  const auto* graph = attribute_value<std::shared_ptr<const Graph>>(node, name);
  return graph == nullptr ? nullptr : graph->get();
}

absl::StatusOr<Tensor> KernelContext::allocate(DType dtype, const Shape& dims) const {
  const std::optional<std::size_t> bytes = checked_bytes(dtype, dims);
  if (!bytes) return invalid("an output's shape is negative or too large");
  if (*bytes > options.memory_limit) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: an output of {} bytes is above the limit of {}", where(node), *bytes, options.memory_limit));
  }
  if (dtype == DType::kString) return copies(dims, static_cast<std::size_t>(product(dims)), [](std::size_t) { return std::string_view(); });
  if (absl::Status stopped = stop_status(); !stopped.ok()) return stopped;
  std::shared_ptr<std::byte> data = host.tensor_buffer(*bytes);
  if (data == nullptr) {
    const std::string limit = options.run_memory == ~std::size_t{0}
                                  ? std::string()
                                  : fmt::format(" within the {} bytes that all tensors may take", options.run_memory);
    return absl::ResourceExhaustedError(fmt::format("{}: no memory for an output of {} bytes{}", where(node), *bytes, limit));
  }
  const std::span<const std::byte> view(data.get(), *bytes);
  return Tensor(dtype, dims, std::shared_ptr<const void>(std::move(data)), view);
}

std::size_t string_bytes(const Tensor& strings) {
  std::size_t bytes = 0;
  for (const std::string& s : strings.string_data()) bytes += string_bytes(s.size());
  return bytes;
}

absl::StatusOr<std::shared_ptr<const void>> KernelContext::room_for_strings(std::size_t bytes) const {
  if (absl::Status stopped = stop_status(); !stopped.ok()) return stopped;
  std::shared_ptr<const void> room = bytes > options.memory_limit ? nullptr : host.hold(bytes);
  if (room == nullptr)
    return absl::ResourceExhaustedError(fmt::format("{}: strings of {} bytes are above the limit of memory", where(node), bytes));
  return room;
}

Tensor KernelContext::held_strings(const Shape& dims, std::vector<std::string> values, std::shared_ptr<const void> room) {
  Tensor out(DType::kString, dims, std::move(room), {});
  out.mutable_strings() = std::move(values);
  return out;
}

absl::StatusOr<Tensor> KernelContext::allocate_zeroed(DType dtype, const Shape& dims) const {
  absl::StatusOr<Tensor> t = allocate(dtype, dims);
  if (t.ok() && !t->bytes().empty()) std::memset(write<std::byte>(*t), 0, t->bytes().size());
  return t;
}

absl::StatusOr<Tensor> KernelContext::allocate_over(std::span<const Tensor* const> over, DType dtype, const Shape& dims) const {
  for (std::size_t i = 0; i < inputs.size() && i < 64 && last_uses >> i != 0; ++i) {
    if (((last_uses >> i) & 1u) == 0 || !is_tensor(i)) continue;
    const Tensor& t = inputs[i].tensor();
    if (std::find(over.begin(), over.end(), &t) == over.end() || !t.unique() || t.bytes().empty()) continue;
    if (t.dtype() == dtype && t.dims() == dims && host.owns(t.bytes().data())) return t;
  }
  return allocate(dtype, dims);
}

absl::Status KernelContext::invalid(std::string_view what) const {
  return absl::InvalidArgumentError(fmt::format("{}: {}", where(node), what));
}
absl::Status KernelContext::unsupported(std::string_view what) const {
  return absl::UnimplementedError(fmt::format("{}: {} is not supported", where(node), what));
}
absl::Status KernelContext::unsupported_dtype(DType dtype) const { return unsupported("element type " + dtype_name(dtype)); }

std::optional<Shape> broadcast_shape(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t k = 1; k <= out.size(); ++k) {
    const std::int64_t x = k <= a.size() ? a[a.size() - k] : 1, y = k <= b.size() ? b[b.size() - k] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - k] = x == 1 ? y : x;
  }
  return out;
}

std::optional<Shape> broadcast_shape(std::span<const Tensor* const> tensors) {
  Shape out;
  for (const Tensor* t : tensors) {
    std::optional<Shape> next = broadcast_shape(out, t->dims());
    if (!next) return std::nullopt;
    out = *std::move(next);
  }
  return out;
}

Shape strides_of(std::span<const std::int64_t> dims) {
  Shape strides(dims.size(), 1);
  for (int k = static_cast<int>(dims.size()) - 2; k >= 0; --k) strides[k] = strides[k + 1] * dims[k + 1];
  return strides;
}

Shape broadcast_strides(std::span<const std::int64_t> from, std::span<const std::int64_t> to) {
  Shape strides(to.size(), 0);
  std::int64_t step = 1;
  for (std::size_t k = 1; k <= from.size(); ++k) {
    if (from[from.size() - k] != 1) strides[to.size() - k] = step;
    step *= from[from.size() - k];
  }
  return strides;
}

std::int64_t product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (std::int64_t d : dims) n *= d;
  return n;
}

std::optional<int> normalize_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return std::nullopt;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<std::vector<std::int64_t>> int_values(const KernelContext& ctx, const Tensor& tensor) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(tensor.size()));
  if (tensor.dtype() == DType::kInt64) {
    if (!out.empty()) std::memcpy(out.data(), tensor.bytes().data(), out.size() * sizeof(std::int64_t));
  } else if (tensor.dtype() == DType::kInt32) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = tensor.data<std::int32_t>()[i];
  } else {
    return ctx.unsupported_dtype(tensor.dtype());
  }
  return out;
}

TeamScope::TeamScope(Team* team) : before_(current_team) { current_team = team; }
TeamScope::~TeamScope() { current_team = before_; }
Team* TeamScope::current() { return current_team; }

namespace {

// What is left of a band: its thread takes from the front, others from the back, half of it each time.
class Queue {
 public:
  void fill(const Band& band) {
    band_ = band;
    left_.store(static_cast<std::uint64_t>(band.end - band.begin), std::memory_order_relaxed);
  }
  bool take(bool front, std::int64_t least, Band& piece) {
    std::uint64_t left = left_.load(std::memory_order_relaxed);
    while (true) {
      const std::int64_t begin = band_.begin + static_cast<std::int64_t>(left >> 32),
                         end = band_.begin + static_cast<std::int64_t>(left & 0xffffffffu), rest = end - begin;
      if (rest <= 0) return false;
      const std::int64_t count = std::min(rest, std::max(least, (rest + 1) / 2));
      piece = front ? Band{begin, begin + count} : Band{end - count, end};
      const std::uint64_t taken = static_cast<std::uint64_t>(count);
      if (left_.compare_exchange_weak(left, front ? left + (taken << 32) : left - taken, std::memory_order_relaxed)) return true;
    }
  }

 private:
  Band band_{};
  std::atomic<std::uint64_t> left_ = 0;  // counted from the band's begin: the first one left above, the end below
};
constexpr std::int64_t kMostOfBand = 0x7fffffff;

// Of this thread, where the context shares work out; null: none.
Team* team_of(const KernelContext& ctx) { return ctx.options.threads == 1 || ctx.options.reference ? nullptr : TeamScope::current(); }

}  // namespace

std::int64_t team_size(const KernelContext& ctx) {
  const Team* team = team_of(ctx);
  return team == nullptr ? 1 : static_cast<std::int64_t>(team->threads());
}

void parallel_bands(const KernelContext& ctx, std::span<const Band> bands, std::int64_t least,
                    const std::function<void(std::size_t, std::int64_t, std::int64_t)>& f) {
  Team* team = team_of(ctx);
  const bool fit = std::all_of(bands.begin(), bands.end(), [](const Band& b) { return b.end - b.begin <= kMostOfBand; });
  if (team == nullptr || !fit || bands.size() < 2) {
    for (std::size_t b = 0; b < bands.size(); ++b) {
      heed_stop();
      if (bands[b].begin < bands[b].end) f(b, bands[b].begin, bands[b].end);
    }
    return;
  }
  std::vector<Queue> queues(bands.size());
  for (std::size_t b = 0; b < bands.size(); ++b) queues[b].fill(bands[b]);
  std::mutex mutex;
  std::exception_ptr thrown;  // no exception may leave a helper
  const StopSign* const sign = StopScope::current();
  team->run(bands.size(), [&](std::size_t, std::size_t worker) {
    const TeamScope alone(nullptr);
    const StopScope stop(sign);
    try {
      Band piece;
      for (std::size_t i = 0; i < queues.size(); ++i) {
        const std::size_t b = (worker + i) % queues.size();
        while (queues[b].take(i == 0, least, piece)) {
          heed_stop();
          f(b, piece.begin, piece.end);
        }
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      thrown = std::current_exception();
    }
  });
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

template <std::size_t N>
void for_each_run(const Shape& dims, const std::array<Shape, N>& strides, RunBody<N> f) {
  Shape d;
  std::array<Shape, N> s;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == 0) return;
    if (dims[k] == 1) continue;
    bool merge = !d.empty();
    for (std::size_t n = 0; n < N && merge; ++n) merge = s[n].back() == strides[n][k] * dims[k];
    if (merge) {
      d.back() *= dims[k];
      for (std::size_t n = 0; n < N; ++n) s[n].back() = strides[n][k];
    } else {
      d.push_back(dims[k]);
      for (std::size_t n = 0; n < N; ++n) s[n].push_back(strides[n][k]);
    }
  }
  std::array<std::int64_t, N> offset{}, inner{};
  if (d.empty()) return f(offset, std::int64_t{1}, inner);
  for (std::size_t n = 0; n < N; ++n) inner[n] = s[n].back();
  const int outer = static_cast<int>(d.size()) - 1;
  Shape index(d.size(), 0);
  constexpr std::int64_t kBetweenLooks = std::int64_t{1} << 16;  // elements
  std::int64_t done = 0;
  while (true) {
    if ((done += d.back()) > kBetweenLooks) {
      heed_stop();
      done = 0;
    }
    f(offset, d.back(), inner);
    int k = outer - 1;
    for (; k >= 0; --k) {
      for (std::size_t n = 0; n < N; ++n) offset[n] += s[n][k];
      if (++index[k] < d[k]) break;
      for (std::size_t n = 0; n < N; ++n) offset[n] -= s[n][k] * d[k];
      index[k] = 0;
    }
    if (k < 0) return;
  }
}
template void for_each_run<1>(const Shape&, const std::array<Shape, 1>&, RunBody<1>);
template void for_each_run<2>(const Shape&, const std::array<Shape, 2>&, RunBody<2>);
template void for_each_run<3>(const Shape&, const std::array<Shape, 3>&, RunBody<3>);
template void for_each_run<4>(const Shape&, const std::array<Shape, 4>&, RunBody<4>);

namespace {

// On this thread; in pieces where something may end the run meanwhile.
void alone_in_pieces(std::int64_t n, std::int64_t grain, absl::FunctionRef<void(std::int64_t, std::int64_t)> f) {
  constexpr std::int64_t kPieces = 16;
  if (StopScope::current() == nullptr) return f(0, n);
  const std::int64_t step = std::max(grain, (n + kPieces - 1) / kPieces);
  for (std::int64_t begin = 0; begin < n; begin += step) {
    heed_stop();
    f(begin, std::min(begin + step, n));
  }
}

}  // namespace

void parallel_for(const KernelContext& ctx, std::int64_t n, std::int64_t grain, absl::FunctionRef<void(std::int64_t, std::int64_t)> f) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(1, grain);
  const std::int64_t pieces = std::min(team_size(ctx), (n + grain - 1) / grain);
  if (pieces <= 1) return alone_in_pieces(n, grain, f);
  constexpr std::int64_t kShare = 16;  // of what falls to a thread: smaller pieces do not pay
  std::vector<Band> bands;
  for (std::int64_t i = 0; i < pieces; ++i) bands.push_back({n * i / pieces, n * (i + 1) / pieces});
  parallel_bands(ctx, bands, std::max(grain, n / (kShare * pieces)),
                 [f](std::size_t, std::int64_t begin, std::int64_t end) { f(begin, end); });
}

}  // namespace saturate
