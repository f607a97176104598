#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "nlohmann/json.hpp"
#include "tools/page/folds.h"
#include "tools/page/layout.h"
#include "tools/page/words.h"

namespace saturate {
namespace {

// Each node of the graph stands in one place, behind those that it reads, and no picture is too large.
void expect_whole(const FoldInput& graph, const std::vector<Fold>& folds) {
  ASSERT_FALSE(folds.empty());
  std::vector<int> all = folds.back().nodes;
  std::set<int> seen;
  for (const int node : all) {
    for (const int read : graph.nodes[node].reads) EXPECT_TRUE(seen.contains(read)) << node << " reads " << read;
    seen.insert(node);
  }
  EXPECT_EQ(seen.size(), graph.nodes.size());
  EXPECT_EQ(all.size(), graph.nodes.size());
  for (const Fold& fold : folds)
    EXPECT_TRUE(fold.kind == Fold::Kind::kRepeats || fold.parts.size() <= static_cast<std::size_t>(kMostParts));
}

FoldInput chain_of(const std::vector<std::string>& kinds) {
  FoldInput out;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    out.nodes.push_back({kinds[i], "", i == 0 ? std::vector<int>() : std::vector<int>{static_cast<int>(i) - 1}});
  return out;
}

std::size_t repeats(const std::vector<Fold>& folds) {
  std::size_t most = 0;
  for (const Fold& fold : folds)
    if (fold.kind == Fold::Kind::kRepeats) most = std::max(most, fold.parts.size());
  return most;
}

TEST(Folds, OfNothingAndOfOne) {
  EXPECT_EQ(fold({}).size(), 1u);
  expect_whole(chain_of({"a"}), fold(chain_of({"a"})));
}

TEST(Folds, RepeatedBlocksAreFound) {
  std::vector<std::string> kinds{"begin", "first"};
  for (int i = 0; i < 12; ++i) kinds.insert(kinds.end(), {"a", "b", "c", "d", "a"});
  kinds.emplace_back("end");
  const FoldInput graph = chain_of(kinds);
  const std::vector<Fold> folds = fold(graph);
  expect_whole(graph, folds);
  EXPECT_EQ(repeats(folds), 12u);
}

TEST(Folds, ABlockReadsWhatAllRead) {
  // A mask is computed once, and each layer reads it.
  FoldInput graph;
  graph.nodes = {{"mask", "", {}}, {"mask2", "", {0}}, {"begin", "", {}}};
  for (int i = 0; i < 20; ++i) {
    const int last = static_cast<int>(graph.nodes.size()) - 1;
    for (int k = 0; k < 6; ++k) {
      std::vector<int> reads{last + k};
      if (k == 3) reads.push_back(1);
      graph.nodes.push_back({"op" + std::to_string(k), "", reads});
    }
  }
  const std::vector<Fold> folds = fold(graph);
  expect_whole(graph, folds);
  EXPECT_EQ(repeats(folds), 20u);
}

TEST(Folds, WithoutRepeatsNoPictureIsLarge) {
  std::vector<std::string> kinds;
  unsigned state = 1;
  for (int i = 0; i < 3000; ++i) kinds.push_back(std::to_string((state = state * 1103515245u + 12345u) >> 24));
  const FoldInput graph = chain_of(kinds);
  expect_whole(graph, fold(graph));
  const FoldInput alike = chain_of(std::vector<std::string>(1000, "a"));
  expect_whole(alike, fold(alike));
}

TEST(Layout, RowsFollowEdgesAndBoxesStandApart) {
  std::vector<LayoutBox> boxes(6, LayoutBox{80, LayoutBox::Kind::kInside});
  boxes.push_back({60, LayoutBox::Kind::kFrom});
  boxes.push_back({60, LayoutBox::Kind::kTo});
  const std::vector<std::pair<int, int>> edges{{0, 1}, {0, 2}, {1, 3}, {2, 3}, {0, 3}, {3, 4}, {5, 4}, {6, 0}, {6, 4}, {4, 7}};
  const Layout layout = lay_out(boxes, edges);
  for (const auto& [from, to] : edges) EXPECT_LT(layout.row[from], layout.row[to]);
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      EXPECT_TRUE(layout.row[i] != layout.row[k] || std::abs(layout.x[i] - layout.x[k]) >= (boxes[i].width + boxes[k].width) / 2);
  for (const Layout::Edge& edge : layout.edges)
    EXPECT_EQ(edge.bends.size(), static_cast<std::size_t>(layout.row[edge.to] - layout.row[edge.from] - 1));
  EXPECT_EQ(layout.edges.size(), edges.size());
  EXPECT_EQ(lay_out({}, {}).rows, 0);
}

TEST(PageWords, NamesAreCutAndHarmless) {
  EXPECT_EQ(shown("a\tb\nc"), "a b c");
  EXPECT_LT(shown(std::string(10'000, 'x')).size(), 300u);
  EXPECT_EQ(shown("\u202e\x1b").find('\x1b'), std::string::npos);
  PageWords words;
  EXPECT_EQ(words.add("layer.0"), 0);
  EXPECT_EQ(words.add("layer.1"), 1);
  EXPECT_EQ(words.add("layer.0"), 0);
  EXPECT_EQ(words.to_json().dump(), R"(["0layer.0","61"])");
}

}  // namespace
}  // namespace saturate
