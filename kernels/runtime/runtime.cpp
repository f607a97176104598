#include "kernels/runtime/runtime.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "egraph/parallel.h"
#include "fmt/format.h"
#include "kernels/core/registry.h"
#include "kernels/core/team_scope.h"
#include "kernels/runtime/plan.h"
#include "kernels/session/graph.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxSteps = 4'000'000;
constexpr std::size_t kMostSizes = 64;  // of inputs, whose plans are kept

absl::Status check_input(const ValueInfo& info, const Value& value) {
  if (info.type.kind != ValueType::Kind::kTensor) return absl::OkStatus();
  if (!value.is_tensor()) return absl::InvalidArgumentError(fmt::format("input '{}' must be a tensor", info.name));
  const Tensor& t = value.tensor();
  if (info.type.dtype != DType::kUndefined && info.type.dtype != t.dtype()) {
    return absl::InvalidArgumentError(
        fmt::format("input '{}' must be {}, not {}", info.name, dtype_name(info.type.dtype), dtype_name(t.dtype())));
  }
  if (!info.type.shape) return absl::OkStatus();
  if (info.type.shape->size() != t.dims().size()) {
    return absl::InvalidArgumentError(fmt::format("input '{}' must have rank {}, not {}", info.name, info.type.shape->size(), t.rank()));
  }
  for (std::size_t k = 0; k < t.dims().size(); ++k) {
    const auto* fixed = std::get_if<std::int64_t>(&(*info.type.shape)[k]);
    if (fixed != nullptr && *fixed != t.dims()[k]) {
      return absl::InvalidArgumentError(fmt::format("input '{}': dim {} must be {}, not {}", info.name, k, *fixed, t.dims()[k]));
    }
  }
  return absl::OkStatus();
}

std::size_t taken_by(const Value& value) {
  if (value.is_tensor()) {
    const Tensor& t = value.tensor();
    return t.dtype() == DType::kString ? string_bytes(t) : t.mapped() ? 0 : t.bytes().size();
  }
  std::size_t bytes = 0;
  if (const auto* sequence = std::get_if<Sequence>(&value.v))
    for (const Value& item : sequence->items) bytes += taken_by(item);
  if (const auto* optional = std::get_if<Optional>(&value.v); optional && optional->value) bytes += taken_by(*optional->value);
  return bytes;
}

class KernelEvaluator : public Evaluator {
 public:
  explicit KernelEvaluator(const EvaluatorOptions& options)
      : seconds_(options.seconds),
        cancel_(options.cancel),
        pool_(std::make_shared<BufferPool>(false, false)),
        meter_(std::make_shared<MemoryMeter>(options.memory)) {
    options_.reference = options.reference;
    options_.threads = 1;
    options_.memory_limit = options_.run_memory = options.memory;
  }

  // A node is run as a graph of one node, so that its subgraphs are planned like any other.
  Outputs evaluate(const Node& node, std::int64_t opset, const std::vector<Value>& inputs) const override {
    auto graph = std::make_shared<Graph>();
    Node copy = node;
    copy.inputs.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      copy.inputs.push_back(inputs[i].present() ? fmt::format("i{}", i) : std::string());
      graph->inputs.push_back({fmt::format("i{}", i), {}, nullptr});
    }
    for (std::size_t i = 0; i < copy.outputs.size(); ++i) {
      if (!copy.outputs[i].empty()) copy.outputs[i] = fmt::format("o{}", i);
    }
    graph->nodes.push_back(std::move(copy));
    PlanContext context;
    std::size_t steps = kMaxSteps;
    context.steps_left = &steps;
    context.opset_imports[node.domain] = opset;
    if (!node.domain.empty()) context.opset_imports[""] = 21;
    absl::StatusOr<std::shared_ptr<Plan>> plan = make_plan(graph, context, nullptr);
    if (!plan.ok()) return plan.status();
    for (int slot : (*plan)->steps[0].outputs) {
      if (slot >= 0) (*plan)->outputs.emplace_back("", slot);
    }
    (*plan)->steps[0].release.clear();
    RunMemory memory(*pool_, nullptr, nullptr, meter_);
    RunContext run{options_, memory};
    const double start = seconds_ < kNoDeadline ? steady_seconds() : 0;
    const StopSign* around = StopScope::current();
    const double most = start + std::min(seconds_, kMostEvaluations * seconds_ - taken_);
    const StopSign sign{cancel_, around == nullptr ? most : std::min(most, around->deadline)};
    const StopScope stop(sign.set() ? &sign : nullptr);
    std::vector<Value> readable = inputs;
    for (Value& value : readable)
      if (value.is_tensor() && !is_aligned(value.tensor())) value = aligned(value.tensor());
    Outputs out = run_plan(**plan, std::move(readable), {}, run);
    if (seconds_ < kNoDeadline) taken_ = taken_ + (steady_seconds() - start);
    if (!out.ok()) return out;
    std::vector<Value> all(node.outputs.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!node.outputs[i].empty()) all[i] = std::move((*out)[next++]);
    }
    return all;
  }

 private:
  KernelOptions options_;
  double seconds_;
  mutable std::atomic<double> taken_ = 0;
  const std::atomic<bool>* cancel_;
  std::shared_ptr<BufferPool> pool_;
  std::shared_ptr<MemoryMeter> meter_;
};

}  // namespace

struct Session::Impl {
  std::shared_ptr<Plan> plan;
  std::vector<Function> functions;  // keeps the bodies' subgraphs alive
  FunctionIndex functions_by_name;
  std::size_t texts = 0;  // bytes of what the file says beside graphs and tensors
  SessionOptions options;
  std::shared_ptr<BufferPool> pool = std::make_shared<BufferPool>(true, options.keep_results);
  mutable Team team;
  mutable std::mutex team_in_use;

  explicit Impl(const SessionOptions& o) : options(o), team(o.reference ? 1 : thread_count(o.threads)) {}

  // The inputs in the graph's order; those that are not given are empty.
  absl::StatusOr<std::vector<Value>> inputs_of(const std::map<std::string, Value>& given) const {
    const Graph& graph = *plan->graph;
    std::vector<Value> inputs(graph.inputs.size());
    std::optional<absl::flat_hash_set<int>> defaults;  // slots, made for the first input that is not given
    std::size_t used = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto it = given.find(graph.inputs[i].name);
      if (it == given.end()) {
        if (!defaults) {
          defaults.emplace();
          for (const auto& [slot, value] : plan->constants) defaults->insert(slot);
        }
        const bool optional = graph.inputs[i].type.kind == ValueType::Kind::kOptional;
        if (!optional && !defaults->contains(plan->inputs[i].second))
          return absl::InvalidArgumentError(fmt::format("input '{}' is missing", graph.inputs[i].name));
        continue;
      }
      ++used;
      if (absl::Status s = check_input(graph.inputs[i], it->second); !s.ok()) return s;
      inputs[i] = it->second;
    }
    if (used != given.size()) {
      absl::flat_hash_set<std::string_view> names;
      for (const ValueInfo& input : graph.inputs) names.insert(input.name);
      for (const auto& [name, value] : given)
        if (!names.contains(name)) return absl::InvalidArgumentError(fmt::format("the model has no input '{}'", name));
    }
    return inputs;
  }

  // `over`: whose tensors may be written over; null, or the same as `given`.
  Outputs run(const std::map<std::string, Value>& given, std::vector<NodeTiming>* timings, const RunLimits& limits,
              std::map<std::string, Value>* over = nullptr) const {
    absl::StatusOr<std::vector<Value>> found = inputs_of(given);
    if (!found.ok()) return found.status();
    std::vector<Value>& inputs = *found;
    // One run at a time has the team; others that come meanwhile, from other threads, have their own thread only.
    const std::unique_lock<std::mutex> lock(team_in_use, std::try_to_lock);
    const bool shared_out = team.threads() > 1 && lock.owns_lock();
    const TeamScope scope(shared_out ? &team : nullptr);
    const std::optional<std::vector<std::int64_t>> sizes = sizes_of(inputs);
    const MemoryOfSize known = sizes ? memory_of(*sizes) : MemoryOfSize{};
    const bool bounded = limits.memory != ~std::size_t{0};
    RunMemory memory(*pool, known.plan.get(), known.trace, bounded ? std::make_shared<MemoryMeter>(limits.memory) : nullptr);
    const std::size_t given_bytes = bounded ? bytes_of(inputs) : 0;
    const std::shared_ptr<const void> held = memory.hold(given_bytes);
    if (held == nullptr)
      return absl::ResourceExhaustedError(
          fmt::format("inputs and strings of the model take {} bytes, above the {} that all tensors may take", given_bytes, limits.memory));
    const KernelOptions kernel_options{options.reference, shared_out ? static_cast<int>(team.threads()) : 1,
                                       std::min(options.memory_limit, limits.memory), limits.memory};
    const StopSign sign{options.cancel, limits.deadline};
    const StopScope stop(sign.set() ? &sign : nullptr);
    const double epoch = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    RunContext context{kernel_options,
                       memory,
                       options.check_finite,
                       options.check_underflow,
                       options.after_node ? &options.after_node : nullptr,
                       timings,
                       epoch,
                       0,
                       options.most_graph_runs};
    if (over != nullptr) {
      for (const Value& input : inputs)
        if (input.is_tensor() && !input.tensor().mapped()) context.given.push_back(input.tensor().bytes().data());
      over->clear();
    }
    Outputs outputs = run_plan(*plan, std::move(inputs), {}, context);
    if (outputs.ok() && known.trace != nullptr) keep_trace(*sizes, known.trace);
    return outputs;
  }

  // What a run begins with: its inputs, and the model's strings and texts, which lie in memory (weights are read where they lie in the
  // file).
  std::size_t bytes_of(const std::vector<Value>& inputs) const {
    std::size_t bytes = texts;
    for (const Value& v : inputs) bytes += taken_by(v);
    for (const auto& [slot, value] : plan->constants)
      if (value.is_tensor() && value.tensor().dtype() == DType::kString) bytes += taken_by(value);
    return bytes;
  }

  // Of inputs of given sizes: the plan once a run was recorded, a new record where none was.
  struct MemoryOfSize {
    std::shared_ptr<MemoryTrace> trace;
    std::shared_ptr<const MemoryPlan> plan;
  };

  MemoryOfSize memory_of(const std::vector<std::int64_t>& sizes) const {
    std::lock_guard lock(memory_mutex);
    const auto it = memory_by_size.find(sizes);
    if (it == memory_by_size.end()) return {std::make_shared<MemoryTrace>(), nullptr};
    if (it->second.plan == nullptr) {
      it->second.plan = std::make_shared<const MemoryPlan>(plan_memory(it->second.trace->buffers()));
      it->second.trace = nullptr;
      pool->trim(it->second.plan->size);
    }
    return {nullptr, it->second.plan};
  }

  void keep_trace(const std::vector<std::int64_t>& sizes, std::shared_ptr<MemoryTrace> trace) const {
    std::lock_guard lock(memory_mutex);
    if (memory_by_size.size() >= kMostSizes) memory_by_size.clear();
    memory_by_size.emplace(sizes, MemoryOfSize{std::move(trace), nullptr});
  }

  // Ranks and dims one after another; nullopt where an input is no tensor.
  static std::optional<std::vector<std::int64_t>> sizes_of(const std::vector<Value>& inputs) {
    std::vector<std::int64_t> out;
    for (const Value& v : inputs) {
      if (v.present() && !v.is_tensor()) return std::nullopt;
      out.push_back(v.present() ? v.tensor().rank() : -1);
      if (v.present()) out.insert(out.end(), v.tensor().dims().begin(), v.tensor().dims().end());
    }
    return out;
  }

  mutable std::mutex memory_mutex;
  mutable std::map<std::vector<std::int64_t>, MemoryOfSize> memory_by_size;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

absl::StatusOr<Session> Session::create(const Model& model, const SessionOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  impl->functions = model.functions;
  impl->texts = bytes_of_texts(model);
  PlanContext context;
  impl->functions_by_name = FunctionIndex(impl->functions);
  context.functions = &impl->functions_by_name;
  context.opset_imports = model.opset_imports;
  std::size_t steps = kMaxSteps;
  context.steps_left = &steps;
  const bool own =
      std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(), [](const Node& n) { return n.domain == kSessionDomain; });
  context.keep_prepared = options.prepare;
  context.session_nodes = options.prepare && !own && !options.reference &&
                          !options.check_finite;  // which node made the first NaN is asked of the graph as it is
  auto graph = std::make_shared<const Graph>(
      context.session_nodes ? prepare_graph(model.graph, model.opset_imports, model.functions, *make_evaluator()) : model.graph);
  absl::StatusOr<std::shared_ptr<Plan>> plan = make_plan(std::move(graph), context, nullptr);
  if (!plan.ok()) return plan.status();
  impl->plan = *std::move(plan);
  return Session(std::move(impl));
}

absl::StatusOr<std::vector<Value>> Session::run(const std::map<std::string, Value>& inputs, std::vector<NodeTiming>* timings,
                                                const RunLimits& limits) const {
  return impl_->run(inputs, timings, limits);
}

absl::StatusOr<std::vector<Value>> Session::run_over(std::map<std::string, Value> inputs, const RunLimits& limits) const {
  return impl_->run(inputs, nullptr, limits, &inputs);
}

MemoryUse Session::memory() const { return {impl_->pool->arena_bytes(), impl_->pool->system_requests()}; }

std::unique_ptr<Evaluator> make_evaluator(const EvaluatorOptions& options) { return std::make_unique<KernelEvaluator>(options); }

bool has_kernel(std::string_view domain, std::string_view op_type) {
  return domain != kSessionDomain && Registry::standard().find(domain, op_type) != nullptr;
}

}  // namespace saturate
