#include "tools/cli/cost_gather.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <unordered_map>

#include "extract/price/measured_on.h"
#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kFewestRuns = 5;
constexpr std::int64_t kSizesToTry[] = {16, 8, 4, 2, 1};

bool cancelled(const GatherOptions& options) { return options.cancel && *options.cancel; }

// Inputs that the model takes, with a run of it that returns all of `outputs`.
struct FirstRun {
  Inputs inputs;
  std::vector<Value> outputs;
};
absl::StatusOr<FirstRun> first_run(const Model& model, const Session& session, const GatherOptions& options) {
  const InputDrawer drawer(model, options.sizes);
  absl::Status last;
  for (const std::int64_t size : kSizesToTry) {
    Sizes sizes;
    for (const std::string& symbol : drawer.symbols()) sizes[symbol] = size;
    FirstRun run;
    auto inputs = drawer.draw(sizes, {}, options.seed);
    if (!inputs.ok()) return inputs.status();
    run.inputs = *std::move(inputs);
    auto outputs = session.run(run.inputs);
    if (outputs.ok()) {
      run.outputs = *std::move(outputs);
      return run;
    }
    last = outputs.status();
    if (drawer.symbols().empty()) break;
  }
  return absl::Status(last.code(), fmt::format("{}; give sizes by --dim", std::string(last.message())));
}

// Attributes that a row can carry.
json attributes_of(const Node& node) {
  json out = json::object();
  for (const Attribute& a : node.attributes) {
    if (a.type == AttributeType::kInt) out[a.name] = a.i();
    if (a.type == AttributeType::kFloat) out[a.name] = a.f();
    if (a.type == AttributeType::kInts) out[a.name] = a.ints();
  }
  return out;
}

class Gatherer {
 public:
  Gatherer(const Model& model, const GatherOptions& options, const std::function<void(const json&)>& emit)
      : model_(model), options_(options), emit_(emit) {}

  absl::Status run() {
    Model all = model_;  // with every value as an output
    all.graph.outputs.clear();
    for (const Node& node : model_.graph.nodes)
      for (const std::string& o : node.outputs)
        if (!o.empty()) all.graph.outputs.push_back({o, {}, nullptr});
    auto session = Session::create(all, {.threads = options_.threads, .prepare = false});
    if (!session.ok()) return session.status();
    auto first = first_run(all, *session, options_);
    if (!first.ok()) return first.status();
    for (std::size_t i = 0; i < first->outputs.size(); ++i) values_[all.graph.outputs[i].name] = std::move(first->outputs[i]);
    for (auto& [name, value] : first->inputs) values_[name] = value;
    for (const Initializer& i : model_.graph.initializers) {
      if (!first->inputs.contains(i.name)) constants_.insert(i.name);
      values_.try_emplace(i.name, i.tensor);
    }
    for (const Node& node : model_.graph.nodes) {
      if (cancelled(options_)) return absl::OkStatus();
      if (node.op_type == "Constant" && node.domain.empty()) constants_.insert(node.outputs[0]);
      if (absl::Status s = node_row(node); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  // A node whose tensors are all there, unless one like it was timed.
  absl::Status node_row(const Node& node) {
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) return absl::OkStatus();
    json row{{"op", operator_name(node.domain, node.op_type)}, {"in", json::array()}, {"out", json::array()}, {"const", json::array()}};
    Model one;
    one.ir_version = model_.ir_version;
    one.opset_imports = model_.opset_imports;
    one.functions = model_.functions;
    one.graph.name = "one";
    one.graph.nodes = {node};
    Inputs inputs;
    std::string dtypes;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::string& name = node.inputs[i];
      const auto it = values_.find(name);
      if (name.empty()) {
        row["in"].push_back(nullptr);
        continue;
      }
      if (it == values_.end() || !it->second.is_tensor()) return absl::OkStatus();
      const Tensor& t = it->second.tensor();
      row["in"].push_back(t.dims());
      if (i == 0) row["dtype"] = dtype_name(t.dtype());
      dtypes += dtype_name(t.dtype()) + ' ';
      if (constants_.contains(name)) {
        row["const"].push_back(i);
        if (std::none_of(one.graph.initializers.begin(), one.graph.initializers.end(),
                         [&](const Initializer& k) { return k.name == name; }))
          one.graph.initializers.push_back({name, t, nullptr});
      } else if (inputs.emplace(name, it->second).second) {
        ValueInfo info{name, {}, nullptr};
        info.type.kind = ValueType::Kind::kTensor;
        info.type.dtype = t.dtype();
        info.type.shape.emplace();
        for (const std::int64_t d : t.dims()) info.type.shape->emplace_back(d);
        one.graph.inputs.push_back(std::move(info));
      }
    }
    for (const std::string& o : node.outputs) {
      if (o.empty()) continue;
      const auto it = values_.find(o);
      if (it == values_.end() || !it->second.is_tensor()) return absl::OkStatus();
      row["out"].push_back(it->second.tensor().dims());
      one.graph.outputs.push_back({o, {}, nullptr});
    }
    if (inputs.empty()) return absl::OkStatus();  // a constant: nobody waits for it
    row["attrs"] = attributes_of(node);
    if (!seen_.insert(json_text(row, -1) + dtypes).second) return absl::OkStatus();
    auto session = Session::create(one, {.threads = options_.threads});
    if (!session.ok()) return session.status();
    const auto seconds = least_seconds(*session, inputs);
    if (!seconds.ok()) return seconds.status();
    row["threads"] = options_.threads;
    row["seconds"] = *seconds;
    emit_(row);
    return absl::OkStatus();
  }

  // Of the steps of a run, so that what a run costs by itself drops out.
  absl::StatusOr<double> least_seconds(const Session& session, const Inputs& inputs) const {
    double least = 1e9;
    const double end = steady_seconds() + options_.seconds;
    for (std::size_t i = 0; i < kFewestRuns || steady_seconds() < end; ++i) {
      std::vector<NodeTiming> timings;
      if (auto out = session.run(inputs, &timings); !out.ok()) return out.status();
      double sum = 0;
      for (const NodeTiming& t : timings) sum += t.seconds;
      least = std::min(least, sum);
    }
    return least;
  }

  const Model& model_;
  const GatherOptions& options_;
  const std::function<void(const json&)>& emit_;
  std::unordered_map<std::string, Value> values_;
  std::set<std::string> constants_, seen_;
};

}  // namespace

json machine_row(int threads) {
  json machine = to_json(this_machine());
  return {{"machine", std::move(machine)},
          {"cache_bytes", std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE))},
          {"runtime", fmt::format("saturate {}", SATURATE_VERSION)},
          {"threads", threads},
          {"date", today()}};
}

absl::Status gather_operators(const Model& model, const GatherOptions& options, const std::function<void(const json&)>& emit) {
  return Gatherer(model, options, emit).run();
}

absl::StatusOr<json> time_graph(const Model& model, const std::string& name, const GatherOptions& options) {
  auto session = Session::create(model, {.threads = options.threads});
  if (!session.ok()) return session.status();
  const auto first = first_run(model, *session, options);
  if (!first.ok()) return first.status();
  std::vector<double> whole, steps;
  const double end = steady_seconds() + options.seconds;
  for (std::size_t i = 0; (i < kFewestRuns || steady_seconds() < end) && !cancelled(options); ++i) {
    const double start = steady_seconds();
    if (auto out = session->run(first->inputs); !out.ok()) return out.status();
    whole.push_back(steady_seconds() - start);
    std::vector<NodeTiming> timings;
    if (auto out = session->run(first->inputs, &timings); !out.ok()) return out.status();
    steps.push_back(0);
    for (const NodeTiming& t : timings) steps.back() += t.seconds;
  }
  if (whole.empty()) return absl::CancelledError("interrupted");
  const auto least = [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); };
  return json{{"graph", name}, {"seconds", least(whole)}, {"operators_seconds", least(steps)}, {"threads", options.threads}};
}

}  // namespace saturate
