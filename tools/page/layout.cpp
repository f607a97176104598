#include "tools/page/layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace saturate {
namespace {

constexpr int kTurns = 8, kWay = 6;  // sweeps; the width of a point on the way of a long edge

// Boxes and points on the way of long edges. Every link leads to the next row.
class Layers {
 public:
  Layers(const std::vector<LayoutBox>& boxes, const std::vector<std::pair<int, int>>& edges) : boxes_(boxes) {
    std::set<std::pair<int, int>> once(edges.begin(), edges.end());
    edges_.assign(once.begin(), once.end());
    for (const LayoutBox& box : boxes) width_.push_back(box.width);
    find_rows();
    add_ways();
    for (int turn = 0; turn < kTurns; ++turn) order(turn % 2 == 0);
    place();
  }

  Layout result() const {
    Layout out;
    const auto rounded = [](double v) { return static_cast<int>(std::lround(v)); };
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      out.row.push_back(row_[i]);
      out.x.push_back(rounded(x_[i]));
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      Layout::Edge edge{edges_[e].first, edges_[e].second, {}};
      for (const int way : ways_[e]) edge.bends.push_back(rounded(x_[way]));
      out.edges.push_back(std::move(edge));
    }
    out.rows = static_cast<int>(rows_.size());
    for (std::size_t v = 0; v < x_.size(); ++v) out.width = std::max(out.width, rounded(x_[v] + width_[v] / 2.0));
    return out;
  }

 private:
  // Each box below all of its inputs, and what has none right above what reads it.
  void find_rows() {
    row_.assign(boxes_.size(), 0);
    std::vector<std::vector<int>> reads(boxes_.size());
    std::vector<int> nearest(boxes_.size(), -1);
    for (const auto& [from, to] : edges_) reads[to].push_back(from);
    std::vector<int> in_order(boxes_.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    const auto rank = [&](int i) {
      return boxes_[i].kind == LayoutBox::Kind::kFrom ? 0 : boxes_[i].kind == LayoutBox::Kind::kInside ? 1 : 2;
    };
    std::stable_sort(in_order.begin(), in_order.end(), [&](int a, int b) { return rank(a) < rank(b); });
    for (const int i : in_order)
      for (const int from : reads[i]) row_[i] = std::max(row_[i], row_[from] + 1);
    for (const auto& [from, to] : edges_)
      if (nearest[from] < 0 || row_[to] < nearest[from]) nearest[from] = row_[to];
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      if (reads[i].empty() && nearest[i] > 0) row_[i] = nearest[i] - 1;
    int most = 0;
    for (const int r : row_) most = std::max(most, r);
    rows_.resize(boxes_.empty() ? 0 : most + 1);
    for (const int i : in_order) rows_[row_[i]].push_back(i);
  }

  void add_ways() {
    ways_.resize(edges_.size());
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const auto [from, to] = edges_[e];
      int at = from;
      for (int r = row_[from] + 1; r < row_[to]; ++r) {
        const int way = static_cast<int>(width_.size());
        width_.push_back(kWay);
        rows_[r].push_back(way);
        ways_[e].push_back(way);
        links_.emplace_back(at, way);
        at = way;
      }
      links_.emplace_back(at, to);
    }
    above_.resize(width_.size());
    below_.resize(width_.size());
    for (const auto& [a, b] : links_) {
      below_[a].push_back(b);
      above_[b].push_back(a);
    }
  }

  bool is_way(int v) const { return static_cast<std::size_t>(v) >= boxes_.size(); }

  // Fewer crossings: each to the mean place of its neighbours in the row before.
  void order(bool down) {
    std::vector<double> place(width_.size(), 0), wish(width_.size(), 0);
    const auto& neighbours = down ? above_ : below_;
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      std::vector<int>& row = rows_[down ? k : rows_.size() - 1 - k];
      for (std::size_t i = 0; i < row.size(); ++i) {
        double sum = 0;
        for (const int n : neighbours[row[i]]) sum += place[n];
        const std::size_t count = neighbours[row[i]].size();
        wish[row[i]] = count > 0 ? sum / static_cast<double>(count) : (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
      }
      if (k > 0) std::stable_sort(row.begin(), row.end(), [&](int a, int b) { return wish[a] < wish[b]; });
      for (std::size_t i = 0; i < row.size(); ++i) place[row[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
    }
  }

  // Each as near to the middle of its neighbours as the order of its row allows.
  void place() {
    x_.assign(width_.size(), 0);
    for (std::vector<int>& row : rows_) settle(row, [](int) { return 0.0; });
    for (int turn = 0; turn < 2 * kTurns; ++turn)
      for (std::size_t k = 1; k < rows_.size(); ++k) {
        const bool down = turn % 2 == 0;
        const std::vector<int>& row = rows_[down ? k : rows_.size() - 1 - k];
        settle(row, [&](int v) {
          const std::vector<int>& near = down ? above_[v] : below_[v];
          double sum = 0;
          for (const int n : near) sum += x_[n];
          return near.empty() ? x_[v] : sum / static_cast<double>(near.size());
        });
      }
    double least = 0;
    for (std::size_t v = 0; v < x_.size(); ++v) least = v == 0 ? x_[v] - width_[v] / 2.0 : std::min(least, x_[v] - width_[v] / 2.0);
    for (double& x : x_) x -= least;
  }

  // The positions in one row whose distance from the wished ones is least (weighted squares): boxes that would overlap move as one.
  template <typename Wish>
  void settle(const std::vector<int>& row, const Wish& wish) {
    struct Block {
      double sum, weight;
      std::size_t count;
    };
    std::vector<Block> blocks;
    std::vector<double> offset(row.size(), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) {
        const int gap = is_way(row[i]) && is_way(row[i - 1]) ? kLayoutGap / 2 : kLayoutGap;
        offset[i] = offset[i - 1] + (width_[row[i - 1]] + width_[row[i]]) / 2.0 + gap;
      }
      const double weight = is_way(row[i]) ? 4 : 1;
      blocks.push_back({(wish(row[i]) - offset[i]) * weight, weight, 1});
      while (blocks.size() > 1) {
        Block& b = blocks[blocks.size() - 2];
        const Block& last = blocks.back();
        if (b.sum / b.weight <= last.sum / last.weight) break;
        b = {b.sum + last.sum, b.weight + last.weight, b.count + last.count};
        blocks.pop_back();
      }
    }
    std::size_t i = 0;
    for (const Block& block : blocks)
      for (std::size_t n = 0; n < block.count; ++n, ++i) x_[row[i]] = block.sum / block.weight + offset[i];
  }

  const std::vector<LayoutBox>& boxes_;
  std::vector<std::pair<int, int>> edges_, links_;
  std::vector<int> width_, row_;
  std::vector<std::vector<int>> rows_, ways_, above_, below_;
  std::vector<double> x_;
};

}  // namespace

Layout lay_out(const std::vector<LayoutBox>& boxes, const std::vector<std::pair<int, int>>& edges) { return Layers(boxes, edges).result(); }

}  // namespace saturate
