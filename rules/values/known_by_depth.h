// What a search of limited depth through classes knows already: without it, classes that are made of one another are looked at again and
// again, and the time grows by a power for each level.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "egraph/egraph.h"

namespace saturate {

class KnownByDepth {
 public:
  // `look()`, unless a call for this class has answered it: what holds at a depth holds at greater ones, too.
  template <typename Look>
  bool of(Id id, int depth, const Look& look) {
    if (const auto it = known_.find(id); it != known_.end()) {
      if (depth >= it->second.holds_from) return true;
      if (depth <= it->second.fails_to) return false;
    }
    const bool found = look();
    Known& known = known_.try_emplace(id).first->second;
    (found ? known.holds_from : known.fails_to) = depth;
    return found;
  }

 private:
  struct Known {
    int holds_from = 1 << 20, fails_to = -1;
  };
  absl::flat_hash_map<Id, Known> known_;
};

}  // namespace saturate
