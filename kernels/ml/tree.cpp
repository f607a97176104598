// Tree ensembles (ONNX Operators-ml: TreeEnsemble-5, TreeEnsembleRegressor and TreeEnsembleClassifier, all versions).
#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/ml/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

enum class NodeMode { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember };

struct Branch {
  NodeMode mode = NodeMode::kLessEqual;
  std::int64_t feature = 0;
  double split = 0;
  std::vector<double> members;
  bool missing_is_true = false;
  // A branch by its number, or a leaf by -1 - its number.
  std::int64_t if_true = -1, if_false = -1;

  bool holds(double x) const {
    if (missing_is_true && std::isnan(x)) return true;
    switch (mode) {
      case NodeMode::kLessEqual:
        return x <= split;
      case NodeMode::kLess:
        return x < split;
      case NodeMode::kGreaterEqual:
        return x >= split;
      case NodeMode::kGreater:
        return x > split;
      case NodeMode::kEqual:
        return x == split;
      case NodeMode::kNotEqual:
        return x != split;
      case NodeMode::kMember:
        return std::find(members.begin(), members.end(), x) != members.end();
    }
    return false;
  }
};

struct Vote {
  std::int64_t target = 0;
  double weight = 0;
};

struct Forest {
  std::vector<Branch> branches;
  std::vector<std::vector<Vote>> leaves;
  std::vector<std::int64_t> roots;
  std::int64_t targets = 1;
  std::vector<double> base;
  std::string aggregate = "SUM", transform = "NONE";
};

// False where following a tree never reaches a leaf.
bool score(const Forest& f, const double* x, std::vector<double>& out, std::vector<std::int64_t>& votes) {
  const bool extreme = f.aggregate == "MIN" || f.aggregate == "MAX";
  std::fill(out.begin(), out.end(), 0.0);
  std::fill(votes.begin(), votes.end(), 0);
  for (std::int64_t at : f.roots) {
    for (std::size_t steps = 0; at >= 0; ++steps) {
      if (steps > f.branches.size()) return false;
      const Branch& b = f.branches[static_cast<std::size_t>(at)];
      at = b.holds(x[b.feature]) ? b.if_true : b.if_false;
    }
    for (const Vote& v : f.leaves[static_cast<std::size_t>(-1 - at)]) {
      double& y = out[static_cast<std::size_t>(v.target)];
      const bool first = votes[static_cast<std::size_t>(v.target)]++ == 0;
      if (!extreme)
        y += v.weight;
      else if (first)
        y = v.weight;
      else
        y = f.aggregate == "MIN" ? std::min(y, v.weight) : std::max(y, v.weight);
    }
  }
  for (std::size_t t = 0; t < out.size(); ++t) {
    if (f.aggregate == "AVERAGE" && !f.roots.empty()) out[t] /= static_cast<double>(f.roots.size());
    if (!f.base.empty()) out[t] += f.base[t];
  }
  return true;
}

absl::StatusOr<Scores> run_forest(const KernelContext& ctx, const Forest& f) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() != 2 || f.targets <= 0) return ctx.invalid("a matrix of samples is expected");
  const std::int64_t rows = x.dims()[0], features = x.dims()[1];
  const auto in_range = [&](std::int64_t at) {
    return at < 0 ? static_cast<std::size_t>(-1 - at) < f.leaves.size() : static_cast<std::size_t>(at) < f.branches.size();
  };
  for (const Branch& b : f.branches) {
    if (b.feature < 0 || b.feature >= features || !in_range(b.if_true) || !in_range(b.if_false))
      return ctx.invalid("a node of the trees points nowhere");
  }
  for (std::int64_t r : f.roots) {
    if (!in_range(r)) return ctx.invalid("a root of the trees points nowhere");
  }
  for (const auto& leaf : f.leaves) {
    if (std::any_of(leaf.begin(), leaf.end(), [&](const Vote& v) { return v.target < 0 || v.target >= f.targets; }))
      return ctx.invalid("a target is out of range");
  }
  if (!f.base.empty() && static_cast<std::int64_t>(f.base.size()) != f.targets) return ctx.invalid("base_values has the wrong length");
  const auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  if (const auto room = ctx.allocate(DType::kDouble, {rows, f.targets}); !room.ok()) return room.status();
  Scores y{rows, f.targets, std::vector<double>(static_cast<std::size_t>(rows * f.targets))};
  std::vector<double> one(static_cast<std::size_t>(f.targets));
  std::vector<std::int64_t> votes(one.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    if (!score(f, values->data() + r * features, one, votes)) return ctx.invalid("a tree runs in a circle");
    if (!transform_scores(f.transform, one)) return ctx.invalid("the post_transform is not known");
    std::copy(one.begin(), one.end(), y.row(r).begin());
  }
  return y;
}

absl::StatusOr<std::vector<double>> numbers(const KernelContext& ctx, const std::string& name) {
  if (const Tensor* t = ctx.attr_t(name)) return to_doubles(ctx, *t);
  if (const Tensor* t = ctx.attr_t(name + "_as_tensor")) return to_doubles(ctx, *t);
  const std::vector<float> f = ctx.attr_floats(name);
  return std::vector<double>(f.begin(), f.end());
}

Outputs tree_ensemble(KernelContext& ctx) {
  Forest f;
  const auto modes = numbers(ctx, "nodes_modes"), splits = numbers(ctx, "nodes_splits"), weights = numbers(ctx, "leaf_weights"),
             members = numbers(ctx, "membership_values");
  for (const auto* v : {&modes, &splits, &weights, &members}) {
    if (!v->ok()) return v->status();
  }
  const auto features = ctx.attr_ints("nodes_featureids"), true_at = ctx.attr_ints("nodes_truenodeids"),
             false_at = ctx.attr_ints("nodes_falsenodeids"), true_leaf = ctx.attr_ints("nodes_trueleafs"),
             false_leaf = ctx.attr_ints("nodes_falseleafs"), missing = ctx.attr_ints("nodes_missing_value_tracks_true"),
             targets = ctx.attr_ints("leaf_targetids");
  const std::size_t n = features.size();
  for (std::size_t size : {modes->size(), splits->size(), true_at.size(), false_at.size(), true_leaf.size(), false_leaf.size()}) {
    if (size != n) return ctx.invalid("the attributes of the nodes differ in length");
  }
  if (weights->size() != targets.size()) return ctx.invalid("the attributes of the leaves differ in length");
  std::size_t next_member = 0;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  for (std::size_t i = 0; i < n; ++i) {
    if ((*modes)[i] < 0 || (*modes)[i] > 6 || std::abs(true_at[i]) > kMost || std::abs(false_at[i]) > kMost)
      return ctx.invalid("a node's mode or branch is not known");
    Branch b{static_cast<NodeMode>(static_cast<int>((*modes)[i])),
             features[i],
             (*splits)[i],
             {},
             i < missing.size() && missing[i] != 0,
             true_at[i],
             false_at[i]};
    if (b.if_true < 0 || b.if_false < 0) return ctx.invalid("a node of the trees points nowhere");
    if (true_leaf[i] != 0) b.if_true = -1 - b.if_true;
    if (false_leaf[i] != 0) b.if_false = -1 - b.if_false;
    if (b.mode == NodeMode::kMember) {  // sets follow each other, NaN between them
      for (; next_member < members->size() && !std::isnan((*members)[next_member]); ++next_member)
        b.members.push_back((*members)[next_member]);
      ++next_member;
    }
    f.branches.push_back(std::move(b));
  }
  for (std::size_t i = 0; i < targets.size(); ++i) f.leaves.push_back({{targets[i], (*weights)[i]}});
  f.roots = ctx.attr_ints("tree_roots");
  f.targets = ctx.attr_i("n_targets", 1);
  constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::int64_t aggregate = ctx.attr_i("aggregate_function", 1), transform = ctx.attr_i("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4)
    return ctx.invalid("aggregate_function or post_transform is not known");
  f.aggregate = kAggregates[aggregate];
  f.transform = kTransforms[transform];
  auto scores = run_forest(ctx, f);
  if (!scores.ok()) return scores.status();
  return one_output(scores_tensor(ctx, ctx.tensor(0).dtype(), *scores));
}

std::optional<NodeMode> mode_of(const std::string& name) {
  constexpr const char* kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  for (int k = 0; k < 6; ++k) {
    if (name == kNames[k]) return static_cast<NodeMode>(k);
  }
  return std::nullopt;
}

// The older form: nodes with tree and node numbers, votes (of "target" or "class") that name them.
absl::StatusOr<Forest> numbered_forest(const KernelContext& ctx, const std::string& votes) {
  Forest f;
  const auto splits = numbers(ctx, "nodes_values"), weights = numbers(ctx, votes + "_weights"), base = numbers(ctx, "base_values");
  for (const auto* v : {&splits, &weights, &base}) {
    if (!v->ok()) return v->status();
  }
  const auto trees = ctx.attr_ints("nodes_treeids"), ids = ctx.attr_ints("nodes_nodeids"), features = ctx.attr_ints("nodes_featureids"),
             true_at = ctx.attr_ints("nodes_truenodeids"), false_at = ctx.attr_ints("nodes_falsenodeids"),
             missing = ctx.attr_ints("nodes_missing_value_tracks_true"), vote_trees = ctx.attr_ints(votes + "_treeids"),
             vote_nodes = ctx.attr_ints(votes + "_nodeids"), targets = ctx.attr_ints(votes + "_ids");
  const auto modes = ctx.attr_strings("nodes_modes");
  const std::size_t n = ids.size();
  for (std::size_t size : {trees.size(), features.size(), true_at.size(), false_at.size(), modes.size(), splits->size()}) {
    if (size != n) return ctx.invalid("the attributes of the nodes differ in length");
  }
  if (vote_nodes.size() != vote_trees.size() || targets.size() != vote_trees.size() || weights->size() != vote_trees.size())
    return ctx.invalid("the attributes of the votes differ in length");
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> place;  // (tree, node) -> branch or leaf
  std::int64_t branches = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool leaf = modes[i] == "LEAF";
    const std::int64_t at = leaf ? -1 - static_cast<std::int64_t>(f.leaves.size()) : branches;
    if (!place.emplace(std::pair(trees[i], ids[i]), at).second) return ctx.invalid("a node is given twice");
    if (leaf)
      f.leaves.emplace_back();
    else
      ++branches;
    if (i == 0 || trees[i] != trees[i - 1]) f.roots.push_back(at);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (modes[i] == "LEAF") continue;
    const std::optional<NodeMode> mode = mode_of(modes[i]);
    const auto if_true = place.find({trees[i], true_at[i]}), if_false = place.find({trees[i], false_at[i]});
    if (!mode || if_true == place.end() || if_false == place.end()) return ctx.invalid("a node's mode or branch is not known");
    f.branches.push_back({*mode, features[i], (*splits)[i], {}, i < missing.size() && missing[i] != 0, if_true->second, if_false->second});
  }
  for (std::size_t i = 0; i < vote_trees.size(); ++i) {
    const auto leaf = place.find({vote_trees[i], vote_nodes[i]});
    if (leaf == place.end() || leaf->second >= 0) return ctx.invalid("a vote belongs to no leaf");
    f.leaves[static_cast<std::size_t>(-1 - leaf->second)].push_back({targets[i], (*weights)[i]});
  }
  f.base = *base;
  f.aggregate = ctx.attr_s("aggregate_function", "SUM");
  f.transform = ctx.attr_s("post_transform", "NONE");
  return f;
}

Outputs tree_ensemble_regressor(KernelContext& ctx) {
  auto f = numbered_forest(ctx, "target");
  if (!f.ok()) return f.status();
  f->targets = ctx.attr_i("n_targets", 1);
  auto scores = run_forest(ctx, *f);
  if (!scores.ok()) return scores.status();
  return one_output(scores_tensor(ctx, DType::kFloat, *scores));
}

// Votes for a single one of two classes are its probability where none is negative, else a margin around 0; the score of the other class is
// derived where the votes name class 0 (as older exporters number the one they vote for), else it stays 0.
Outputs tree_ensemble_classifier(KernelContext& ctx) {
  auto f = numbered_forest(ctx, "class");
  if (!f.ok()) return f.status();
  const ClassLabels labels(ctx);
  f->targets = static_cast<std::int64_t>(labels.size());
  std::int64_t only = -1;
  bool one_class = true, positive = true;
  for (const auto& leaf : f->leaves) {
    for (const Vote& v : leaf) {
      one_class = one_class && (only < 0 || v.target == only);
      only = v.target;
      positive = positive && v.weight >= 0;
    }
  }
  const bool margin = labels.size() == 2 && one_class && only >= 0;
  const std::string transform = f->transform;
  f->transform = "NONE";
  double base = 0;
  if (margin) base = f->base.empty() ? 0 : f->base.back(), f->base.clear();
  auto scores = run_forest(ctx, *f);
  if (!scores.ok()) return scores.status();
  std::vector<std::size_t> chosen;
  for (std::int64_t r = 0; r < scores->rows; ++r) {
    const std::span<double> row = scores->row(r);
    if (!margin) {
      chosen.push_back(static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin()));
      if (!transform_scores(transform, row)) return ctx.invalid("the post_transform is not known");
      continue;
    }
    const double s = row[static_cast<std::size_t>(only)] + base;
    chosen.push_back(s > (positive ? 0.5 : 0.0) ? 1 : 0);
    row[1] = s;
    if (only == 0) row[0] = positive ? 1 - s : -s;
    const bool transformed = only == 1 || (!positive && transform == "LOGISTIC");
    if (transformed && !transform_scores(transform, row)) return ctx.invalid("the post_transform is not known");
  }
  return classified(ctx, labels, chosen, *scores);
}

}  // namespace

void register_ml_tree(Registry& registry) {
  registry.add(kMlDomain, "TreeEnsemble", tree_ensemble);
  registry.add(kMlDomain, "TreeEnsembleRegressor", tree_ensemble_regressor);
  registry.add(kMlDomain, "TreeEnsembleClassifier", tree_ensemble_classifier);
}

}  // namespace saturate
