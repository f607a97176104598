#include "tools/page/folds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace saturate {
namespace {

constexpr int kLeastBlock = 3, kLeastSaved = 8, kMostPeriod = 4000, kLeastGlobal = 60;

// An order in which what one value needs stands together: depth first from the last nodes.
class Order {
 public:
  explicit Order(const FoldInput& graph) : graph_(graph), read_(graph.nodes.size(), false) {
    for (const FoldInput::Node& node : graph.nodes)
      for (const int i : node.reads) read_[i] = true;
    const std::vector<int> first = from({});
    // What is read far and wide, as a mask is by all layers, belongs to none of them and goes first.
    std::vector<int> place(first.size()), last(first.size());
    for (std::size_t i = 0; i < first.size(); ++i) place[first[i]] = last[first[i]] = static_cast<int>(i);
    for (std::size_t i = 0; i < first.size(); ++i)
      for (const int r : graph.nodes[i].reads) last[r] = std::max(last[r], place[i]);
    const int far = std::max(kLeastGlobal, static_cast<int>(first.size()) / 5);
    std::vector<int> global;
    for (const int i : first)
      if (last[i] - place[i] > far) global.push_back(i);
    order_ = global.empty() ? first : from(global);
  }
  const std::vector<int>& result() const { return order_; }

 private:
  std::vector<int> from(const std::vector<int>& begin) const {
    std::vector<int> out;
    std::vector<bool> seen(graph_.nodes.size(), false);
    for (const int i : begin) visit(i, seen, out);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (!read_[i]) visit(static_cast<int>(i), seen, out);
    return out;
  }

  void visit(int root, std::vector<bool>& seen, std::vector<int>& out) const {
    if (seen[root]) return;
    seen[root] = true;
    std::vector<std::pair<int, std::size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      const std::vector<int>& reads = graph_.nodes[node].reads;
      if (next == reads.size()) {
        out.push_back(node);
        stack.pop_back();
        continue;
      }
      const int child = reads[next++];
      if (seen[child]) continue;
      seen[child] = true;
      stack.emplace_back(child, 0);
    }
  }

  const FoldInput& graph_;
  std::vector<bool> read_;
  std::vector<int> order_;
};

class Folder {
 public:
  explicit Folder(const FoldInput& graph) : graph_(graph), order_(Order(graph).result()) {
    const std::size_t n = order_.size();
    std::vector<int> last(n);
    std::map<std::string, int> numbers;
    place_.resize(n);
    for (std::size_t i = 0; i < n; ++i) place_[order_[i]] = last[i] = static_cast<int>(i);
    for (std::size_t i = 0; i < n; ++i) {
      kind_.push_back(numbers.try_emplace(graph.nodes[order_[i]].kind, static_cast<int>(numbers.size())).first->second);
      for (const int r : graph.nodes[order_[i]].reads) last[place_[r]] = std::max(last[place_[r]], static_cast<int>(i));
    }
    cut_.assign(n + 2, 0);
    for (std::size_t i = 0; i < n; ++i) {
      ++cut_[i + 1];
      --cut_[last[i] + 1];
    }
    std::partial_sum(cut_.begin(), cut_.end(), cut_.begin());
  }

  std::vector<Fold> run() {
    const std::vector<Fold::Part> parts = parts_of(0, static_cast<int>(order_.size()));
    add(Fold::Kind::kPart, chunked(parts));
    return std::move(folds_);
  }

 private:
  struct Run {
    int begin = 0, period = 0, count = 0;
    int saved() const { return (count - 1) * period; }
  };

  // What repeats most within [a, b).
  std::optional<Run> repeated(int a, int b) const {
    Run best;
    for (int p = kLeastBlock; p <= std::min((b - a) / 2, kMostPeriod); ++p)
      for (int i = a, same = 0; i + p <= b; ++i) {
        if (i + p < b && kind_[i] == kind_[i + p]) {
          ++same;
          continue;
        }
        const int count = (same + p) / p;
        const Run run{i - same, p, count};
        if (count > 1 && run.saved() > best.saved() && !is_one_kind(run)) best = turned(run, same + p);
        same = 0;
      }
    return best.saved() >= kLeastSaved ? std::optional(best) : std::nullopt;
  }

  // A chain of one operator has no blocks.
  bool is_one_kind(const Run& run) const {
    const auto first = kind_.begin() + run.begin;
    return std::all_of(first, first + run.period, [&](int k) { return k == *first; });
  }

  // Blocks may begin anywhere in `length`; they do where the fewest values pass.
  Run turned(Run run, int length) const {
    const int first = run.begin, spare = length - run.period * run.count;
    int least = -1;
    for (int at = first; at <= first + spare; ++at) {
      int passing = 0;
      for (int k = 0; k <= run.count; ++k) passing += cut_[at + k * run.period];
      if (least >= 0 && passing >= least) continue;
      least = passing;
      run.begin = at;
    }
    return run;
  }

  std::vector<Fold::Part> parts_of(int a, int b) {
    std::vector<Fold::Part> out;
    const std::optional<Run> run = repeated(a, b);
    if (!run) {
      for (int i = a; i < b; ++i) out.push_back({false, order_[i]});
      return out;
    }
    out = parts_of(a, run->begin);
    std::vector<Fold::Part> blocks;
    for (int k = 0; k < run->count; ++k) {
      const int begin = run->begin + k * run->period;
      blocks.push_back({true, add(Fold::Kind::kBlock, chunked(parts_of(begin, begin + run->period)))});
    }
    out.push_back({true, add(Fold::Kind::kRepeats, blocks)});
    const std::vector<Fold::Part> rest = parts_of(run->begin + run->period * run->count, b);
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }

  int add(Fold::Kind kind, const std::vector<Fold::Part>& parts) {
    Fold fold{kind, parts, {}};
    for (const Fold::Part& part : parts) {
      if (!part.is_fold) {
        fold.nodes.push_back(part.index);
        continue;
      }
      const std::vector<int>& inner = folds_[part.index].nodes;
      fold.nodes.insert(fold.nodes.end(), inner.begin(), inner.end());
    }
    folds_.push_back(std::move(fold));
    return static_cast<int>(folds_.size()) - 1;
  }

  int last_node(const Fold::Part& part) const { return part.is_fold ? folds_[part.index].nodes.back() : part.index; }
  int first_node(const Fold::Part& part) const { return part.is_fold ? folds_[part.index].nodes.front() : part.index; }

  // How bad it is to part a list before `at`: values that pass, and a module that is torn.
  int badness(const std::vector<Fold::Part>& parts, std::size_t at) const {
    const int before = last_node(parts[at - 1]), behind = first_node(parts[at]);
    const std::string& scope = graph_.nodes[before].scope;
    return 2 * cut_[place_[behind]] + (scope == graph_.nodes[behind].scope && !scope.empty() ? 3 : 0);
  }

  bool is_repeats(const Fold::Part& part) const { return part.is_fold && folds_[part.index].kind == Fold::Kind::kRepeats; }

  // Repeats stand for themselves; what lies between them is parted.
  std::vector<Fold::Part> chunked(const std::vector<Fold::Part>& parts) {
    if (parts.size() <= kMostParts) return parts;
    std::vector<Fold::Part> out, stretch;
    for (const Fold::Part& part : parts) {
      if (!is_repeats(part)) {
        stretch.push_back(part);
        continue;
      }
      append_chunks(stretch, out);
      stretch.clear();
      out.push_back(part);
    }
    append_chunks(stretch, out);
    if (out.size() <= kMostParts) return out;
    std::vector<Fold::Part> fewer;
    append_chunks(out, fewer);
    return fewer;
  }

  void append_chunks(const std::vector<Fold::Part>& parts, std::vector<Fold::Part>& out) {
    constexpr std::size_t kUsual = 14, kMostChunks = 24, kFew = 3;
    if (parts.size() <= kFew) {
      out.insert(out.end(), parts.begin(), parts.end());
      return;
    }
    const std::size_t chunks = std::min(kMostChunks, (parts.size() + kUsual - 1) / kUsual), step = parts.size() / chunks;
    std::size_t from = 0;
    for (std::size_t k = 1; k <= chunks; ++k) {
      std::size_t to = parts.size();
      if (k < chunks) {
        const std::size_t usual = k * parts.size() / chunks, low = std::max(from + 1, usual - step / 3);
        const std::size_t high = std::min(parts.size() - 1, usual + step / 3);
        to = std::max(usual, low);
        for (std::size_t at = low; at <= high; ++at)
          if (badness(parts, at) < badness(parts, to)) to = at;
      }
      if (to <= from) continue;
      const std::vector<Fold::Part> chunk(parts.begin() + static_cast<std::ptrdiff_t>(from),
                                          parts.begin() + static_cast<std::ptrdiff_t>(to));
      out.push_back(chunk.size() == 1 ? chunk[0] : Fold::Part{true, add(Fold::Kind::kPart, chunked(chunk))});
      from = to;
    }
  }

  const FoldInput& graph_;
  std::vector<int> order_, place_, kind_, cut_;  // cut_[i]: values that pass from before place i to behind it
  std::vector<Fold> folds_;
};

}  // namespace

std::vector<Fold> fold(const FoldInput& graph) { return Folder(graph).run(); }

}  // namespace saturate
