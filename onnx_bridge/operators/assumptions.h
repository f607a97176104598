// What rules may take for granted that no fact can prove: `assume NAME`. docs/assumptions.md argues the class of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saturate {

enum class AssumptionClass : std::uint8_t {
  kKinder,        // results differ only where the original gives NaN or infinity, or the specification leaves the value open
  kConventional,  // the documented interface of an operator or an exporter
  kRisky,         // may change finite numbers of a model that meets its interface: off unless asked for by name
};
std::string_view to_string(AssumptionClass c);

// Inputs that an assumption excludes: drawn or met, they would only show that it was made.
enum Excluded : unsigned {
  kExcludesNothing = 0,
  kInfiniteRows = 1,        // a row of scores is hidden as a whole by -inf
  kHiddenRows = 2,          // ... by whatever number
  kLowScores = 4,           // scores far from 0 lie below the number that hides others
  kNotFinite = 8,           // NaN or infinity
  kEmptySizes = 16,         // a size is 0
  kOtherTruths = 32,        // floats used as truth values are not 0 and 1
  kLargeIntegers = 64,      // integers are larger than counts and masks are
  kBeyondQuantizers = 128,  // floats lie beyond the range of the quantizer that reads them
  kShortRows = 256,         // rows that are normalized are near 0
  kOverflows = 512          // an output is not finite for what overflows on the way
};

struct Assumption {
  std::string_view name;
  std::string_view brief;  // in two or three words
  AssumptionClass kind;
  std::string_view what;     // what is taken for granted
  std::string_view example;  // what goes wrong where it does not hold
  unsigned excludes;         // flags of Excluded
};
// All of them, by name.
std::span<const Assumption> known_assumptions();
const Assumption* find_assumption(std::string_view name);

// What a user says of assumptions.
struct AssumptionChoice {
  std::vector<std::string> assumed;      // risky ones to make, by name
  std::vector<std::string> not_assumed;  // names, or "all"; these win
  bool allows(std::string_view assumption) const;
  // The first name that is none, as an error of one line; nullopt: all are known.
  std::optional<std::string> unknown() const;
  // The risky assumptions that are made.
  std::vector<std::string> risks() const;
};

}  // namespace saturate
