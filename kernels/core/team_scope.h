// The threads that parallel_for shares work out to: those of the session that runs on this thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace saturate {

class Team;
struct KernelContext;

// While it lives, parallel_for on this thread shares out to `team`; null: runs alone. What helpers run has none, so one level is shared
// out.
class TeamScope {
 public:
  explicit TeamScope(Team* team);
  ~TeamScope();
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;
  static Team* current();

 private:
  Team* before_;
};

// How many threads share work out; 1 where this one is alone.
std::int64_t team_size(const KernelContext& ctx);

struct Band {
  std::int64_t begin, end;
};
// Calls f(band, begin, end) for pieces that make up all bands, of at least `least` but for the last ones. Thread i begins with band i, so
// that bands of the same rows find what they read in the cache of the core that wrote it; then threads help each other. At most team_size()
// bands.
void parallel_bands(const KernelContext& ctx, std::span<const Band> bands, std::int64_t least,
                    const std::function<void(std::size_t, std::int64_t, std::int64_t)>& f);

}  // namespace saturate
