#include <algorithm>

#include "extract/computed_twice.h"
#include "extract/extract.h"
#include "extract/onnx_problem.h"
#include "extract/optimize/stages.h"
#include "extract/optimize/variants_in_graph.h"
#include "extract/prepare/local_functions.h"
#include "extract/target/dies_of.h"
#include "extract/units/coarse_units.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

// A choice that no release of ONNX Runtime dies of where it takes the model, of which it makes no product coarser than it is spelled, and
// that computes no product twice: e-nodes that make up such a place are left out, else all that rules made.
absl::StatusOr<Selection> choose_loadable(const Grown& grown, ExtractOptions& options, bool is_raised, const Task& task) {
  constexpr int kMostRounds = 16;
  const CoarseUnits coarse(*grown.g, grown.lowered);
  const std::int64_t of_model = is_raised ? grown.model->opset("") : options.opset_limit;
  const OpsetsOfResult opsets{options.opset_limit, task.options.has_other_interface ? OpsetsOfResult::kNone : of_model};
  for (int round = 0; round < kMostRounds; ++round) {
    auto selection = extract(*grown.g, grown.lowered, task.target, task.cost, options);
    if (!selection.ok()) {
      if (round == 0) return selection;
      break;
    }
    const std::vector<DeadlyPlace> places = deadly_places(*grown.g, grown.lowered, *selection, task.target, opsets);
    const std::vector<CoarseUnits::Place> coarser = coarse.made_by(*selection);
    const std::vector<NodeId> twice = computed_twice(*grown.g, grown.lowered, *selection);
    if (places.empty() && coarser.empty() && twice.empty()) return selection;
    const std::size_t before = options.left_out.size() + options.avoided.size();
    options.left_out.insert(twice.begin(), twice.end());
    for (const DeadlyPlace& place : places)
      if (place.made.empty())
        options.avoided.insert(place.moved.begin(), place.moved.end());
      else
        options.left_out.insert(place.made.front());
    for (const CoarseUnits::Place& place : coarser)
      (place.of_model ? options.avoided : options.left_out).insert(place.nodes.begin(), place.nodes.end());
    if (options.left_out.size() + options.avoided.size() == before) break;
  }
  options.left_out.clear();
  options.avoided.clear();
  return original_selection(*grown.g, grown.lowered, &task.target, task.cost, options);
}

std::size_t constant_bytes(const OnnxEGraph& g, const Selection& selection) {
  std::size_t bytes = 0;
  for (Id id = 0; id < selection.by_class.size(); ++id) {
    const Choice& choice = selection.by_class[id];
    if (choice.folded)
      bytes += known_bytes(g.facts(id), g.dims()).value_or(0);
    else if (const OpId op = choice.node == kNone ? kNone : g.egraph().node(choice.node).op;
             op != kNone && g.key(op).op_type == kConstantOp)
      bytes += g.constant_tensor(op).bytes().size();
  }
  return bytes;
}

// The cheapest choice whose constants grow no further than asked: their bytes get a price that rises until that is so. If it never is, the
// graph stays as it came.
absl::StatusOr<Selection> choose_within_growth(const Grown& grown, ExtractOptions& options, bool is_raised, const Task& task) {
  constexpr std::size_t kAlways = 1024;  // bytes: shapes and scalars that rules make
  constexpr int kMostRounds = 8;
  constexpr double kFirst = 1e-3, kRise = 10;
  auto selection = choose_loadable(grown, options, is_raised, task);
  if (!selection.ok() || !task.options.max_growth) return selection;
  const auto original = original_selection(*grown.g, grown.lowered, &task.target, task.cost, options);
  if (!original.ok()) return original;
  const std::size_t own = constant_bytes(*grown.g, *original);
  const auto most = static_cast<std::size_t>(*task.options.max_growth * static_cast<double>(own)) + kAlways;
  double price = kFirst * original->cost / static_cast<double>(own + kAlways);
  for (int round = 0; round < kMostRounds && constant_bytes(*grown.g, *selection) > most; ++round, price *= kRise) {
    options.per_constant_byte = price;
    selection = choose_loadable(grown, options, is_raised, task);
    if (!selection.ok()) break;
    selection->cost -= price * static_cast<double>(constant_bytes(*grown.g, *selection));
    selection->cost_before -= price * static_cast<double>(own);
  }
  options.per_constant_byte = 0;
  if (!selection.ok() || constant_bytes(*grown.g, *selection) > most) return original;
  return selection;
}

// `sizes`: the usual ones of the graphs around it.
absl::StatusOr<std::unique_ptr<Chosen>> choose_in(const Grown& grown, std::int64_t limit, std::map<std::string, std::int64_t> sizes,
                                                  const Learned& learned, const Task& task) {
  auto chosen = std::make_unique<Chosen>();
  if (!grown.where.empty()) sizes.merge(numbers_of(sizes_of_table(*grown.model)));
  ExtractOptions& options = chosen->options;
  options.extractor = task.options.extractor;
  options.memory_slack = task.options.memory_slack;
  options.usual_sizes = sizes;
  options.opset_limit = limit;
  options.keep_quantizers = keeps_quantizers(task);
  options.lowers_opset = limit < grown.model->opset("");
  if (options.lowers_opset) options.calls_left = functions_of_other_versions(*grown.model, limit);
  options.asked = std::make_shared<AskedOfNodes>();
  if (const auto it = learned.not_computed.find(&grown); it != learned.not_computed.end()) options.not_foldable = it->second;
  task.progress("extract");
  {
    const StageTimer timer(task, "extract");
    const StageBound bound(task);
    if (task.variant) take_variant(*grown.g, grown.lowered, *task.variant, with_all_symbols(task.options.sizes, *grown.g, sizes), options);
    auto selection = task.has_rules() ? choose_within_growth(grown, options, learned.is_raised, task)
                                      : original_selection(*grown.g, grown.lowered, &task.target, task.cost, options);
    if (!selection.ok()) return selection.status();
    chosen->selection = *std::move(selection);
  }
  if (task.options.after_stage) task.options.after_stage({"extract", grown.where, *grown.g, grown.lowered, &chosen->selection});
  for (const auto& [graph, body] : grown.bodies) {
    auto of_body = choose_in(*body, limit, sizes, learned, task);
    if (!of_body.ok()) return of_body.status();
    chosen->bodies.push_back(*std::move(of_body));
  }
  return chosen;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Chosen>> choose(const Grown& grown, std::int64_t limit, const Learned& learned, const Task& task) {
  return choose_in(grown, limit, numbers_of(task.sizes), learned, task);
}

bool note_not_computed(const Grown& grown, const Chosen& chosen, Learned& learned) {
  constexpr int kOneByOne = 4;
  const bool all = learned.choices_of_not_computed >= kOneByOne;
  bool more = false;
  visit_graphs(grown, chosen, [&](const Grown& g, const Chosen& c) {
    const EGraph& e = g.g->egraph();
    const auto may_be_wanted = [&](Id id) { return all && e.find(id) == id && g.g->facts(id).constant; };
    for (Id id = 0; id < c.selection.by_class.size(); ++id)
      if ((c.selection.by_class[id].folded || may_be_wanted(id)) && !g.g->value(id, ~std::size_t{0}))
        more = learned.not_computed[&g].insert(id).second || more;
  });
  learned.choices_of_not_computed += more;
  return more;
}

std::string refused_once_raised(const Grown& grown, const Chosen& chosen, std::int64_t opset, const Target& target) {
  std::string because;
  const OpsetsOfResult opsets{opset, grown.model->opset("")};
  visit_graphs(grown, chosen, [&](const Grown& g, const Chosen& c) {
    if (!because.empty()) return;
    const std::vector<DeadlyPlace> places = deadly_places(*g.g, g.lowered, c.selection, target, opsets);
    if (!places.empty()) because = places.front().because;
  });
  return because;
}

void note_unwanted(const Grown& grown, const Chosen& chosen, const Target& target, OptimizeReport& report) {
  const OnnxEGraph& g = *grown.g;
  for (Id id = 0; id < chosen.selection.by_class.size(); ++id) {
    const Choice& choice = chosen.selection.by_class[id];
    if (choice.folded || choice.node == kNone || target.wishes.empty()) continue;
    const ENode node = g.egraph().node(choice.node);
    const OpKey& key = g.key(node.op);
    std::string why;
    if (key.domain == "#" || target.wish_price(site_of(g, node, id), &why) <= 1) continue;
    const std::string op = qualified_name(key.domain, key.op_type);
    const auto same = [&](const OptimizeReport::Unwanted& u) { return u.op == op && u.wish == why; };
    auto it = std::find_if(report.unwanted.begin(), report.unwanted.end(), same);
    if (it == report.unwanted.end()) it = report.unwanted.insert(it, {op, why, 0});
    ++it->count;
  }
}

}  // namespace saturate
