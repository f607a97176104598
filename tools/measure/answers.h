// What was measured, for later runs: a file of JSON lines, or memory alone.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace saturate {

// Whoever has them may be several models of one command, one after the other.
class Answers {
 public:
  // "" : none is read or kept. A file that is not there yet is an empty one. Errors begin with the path and are one line.
  static absl::StatusOr<std::shared_ptr<Answers>> open(const std::string& path);
  // What was found for this question; null where it was not asked. Questions are equal where their JSON is.
  const nlohmann::json* find(const nlohmann::json& question) const;
  // The first answer holds.
  void add(const nlohmann::json& question, const nlohmann::json& answer);
  // Appends what was added to the file.
  absl::Status save();
  const std::string& path() const { return path_; }

 private:
  std::string path_, unsaved_;
  std::map<std::string, nlohmann::json> answers_;  // by the question's text
};

}  // namespace saturate
