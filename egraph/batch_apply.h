// Application of thousands of matches of one template at once, by one thread or several, in phases: what the matches bind; then, operator
// by operator, which e-nodes are there and which are new; then the unions. Each phase reads what the ones before have written and writes to
// places of its own, and new e-nodes are numbered in the order of matches: so the result is the same, id for id, whatever the number of
// threads.
#pragma once

#include <span>
#include <vector>

#include "egraph/egraph_impl.h"
#include "egraph/rewrite.h"

namespace saturate {

class BatchApplier {
 public:
  static constexpr std::size_t kMost = 32'768;  // matches at once: columns of a phase stay in the second cache

  // Node i is a place in a match (op kNone, `slot`) or an operator over at most three earlier ones; `root`: place of the class that the
  // last one is united with. Without an analysis and reasons, which look at each e-node when it is made. `pages_ahead`: memory may be
  // touched before it is needed.
  BatchApplier(EGraph::Impl& g, std::span<const Template::Node> nodes, std::uint32_t root, std::uint32_t rule, bool pages_ahead)
      : g_(g), nodes_(nodes), root_(root), rule_(rule), pages_ahead_(pages_ahead) {}
  // `count` <= kMost matches of `stride` numbers each.
  void apply(const std::uint32_t* words, std::size_t stride, std::size_t count);
  std::size_t bytes() const;

 private:
  static constexpr std::size_t kStretch = 2'048;                              // matches that a thread takes at a time
  static constexpr std::size_t kFound = ~std::size_t{0}, kTwin = kFound - 1;  // in place_: there before; made by an earlier match
  struct Made {
    std::size_t nodes = 0, cells = 0;
  };

  template <class Pass>
  void over(const Pass& pass) {
    over_stretches(team_, count_, kStretch, pass);
  }
  Id* column(std::size_t node) { return columns_.data() + node * kMost; }
  void bind(std::size_t first, std::size_t last);
  void add(std::size_t node);
  template <bool kShared>
  void look_up(std::size_t node, std::size_t first, std::size_t last);
  void drop_losers(Id* column);
  void write(Id* column, bool top, std::size_t first, std::size_t last);
  void link(std::size_t owner, std::size_t owners, Made end);
  void find_unions(std::size_t first, std::size_t last);
  void touch_pages();
  bool equal(NodeId id, const PackedENode& rec) const {
    return EGraph::Impl::equal_inline(id < base_ ? g_.recs[id] : recs_[id - base_], rec);
  }

  EGraph::Impl& g_;
  std::span<const Template::Node> nodes_;
  std::uint32_t root_, rule_;
  bool pages_ahead_;
  std::size_t pages_ready_ = 0;  // ids whose memory has been touched

  Team* team_ = nullptr;  // where the present matches are worth several threads
  const std::uint32_t* words_ = nullptr;
  std::size_t stride_ = 0, count_ = 0;
  // By match.
  std::vector<Id> columns_, roots_;  // what each template node is; the class of the match
  std::vector<PackedENode> recs_;    // of the present operator: the e-node that the match needs,
  std::vector<std::size_t> place_;   // and its slot in the table
  // By stretch: what one thread did in one piece, the whole where there is one thread.
  std::size_t stretch_of(std::size_t match) const { return team_ != nullptr ? match / kStretch : 0; }
  std::vector<Made> made_;                          // before this stretch
  std::vector<std::vector<std::uint32_t>> unite_;   // matches whose two sides are not one class yet
  std::vector<std::vector<std::uint32_t>> losers_;  // matches whose claim has lost
  NodeId base_ = 0;                                 // ids from here on are claims of the present operator: base_ + match
  std::size_t cells_ = 0;                           // parent cells before it
};

}  // namespace saturate
