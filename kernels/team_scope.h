// The threads that parallel_for shares work out to: those of the session that runs on this thread.
#pragma once

namespace saturate {

class Team;

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

}  // namespace saturate
