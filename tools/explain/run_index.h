// What every question about one finished run looks up, found once.
#pragma once

#include <map>
#include <set>
#include <string>

#include "extract/optimize/optimize.h"
#include "tools/explain/place_tests.h"

namespace saturate {

struct RunIndex {
  explicit RunIndex(const FinishedRun& run);
  std::map<Id, std::string> names;  // of classes, as the model spells them
  std::set<Id> needed;              // classes from which an output is computed
  PlaceTests tests;
};

}  // namespace saturate
