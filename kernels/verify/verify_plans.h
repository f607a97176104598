// Which sizes and kinds of values verification tries, and in what order.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/inputs/draw_inputs.h"
#include "kernels/verify/verify.h"

namespace saturate {

// A symbol that is the sum of two others ("total" = "past" + "seq"), or the same as another.
struct Relation {
  std::string symbol, first, second;  // all empty: every symbol for itself; second empty: symbol = first
  std::string single;                 // this symbol has the size 1 (a decoder that takes one token at a time), empty: none
};

// Base b gives symbol i the size row[(i + shift) % 4].
struct Base {
  std::int64_t row[4];
};
// A way to draw inputs; the likely ones come first.
struct VerifyPlan {
  Relation relation;
  DrawStyle style;
  bool spacious = false;
  bool likely = false;  // tried until there are cases enough; the others only until there is one
  Twins twins = {};     // symbols that are the same as another
};

std::vector<VerifyPlan> plans(const InputDrawer& drawer);
// Of integers, in the order in which they are likely: those of no known role, and each constant that the model compares one with.
std::vector<DrawStyle> styles_of_integers(const InputDrawer& drawer);
// The bases of a plan.
std::span<const Base> bases_of(const VerifyPlan& plan);
// Small images leave nothing for the later convolutions to see.
inline constexpr Base kImage = {{1, 64, 64, 64}};
// Whether the model takes images of a size that it leaves open.
bool takes_images_of_any_size(const Model& model);
Sizes assign(const std::vector<std::string>& symbols, const Base& base, const Relation& relation, const Twins& twins);

// A case beyond the usual.
struct BeyondCase {
  CaseKind kind;
  Sizes sizes;
  DrawStyle style;
  bool may_have_usual_ints = false;  // where the original refuses it, it may take usual integers beside such floats
};
struct BeyondUsual {
  const Model& original;
  const InputDrawer& drawer;
  const std::optional<VerifyPlan>& taken;  // the plan that gave a case
  Sizes sizes;                             // that the original took
  unsigned excluded;                       // flags of Excluded
  DrawStyle style = taken ? taken->style : DrawStyle{};
  bool negative_ids = false;
  bool here = true;  // our runtime runs them: another keeps to no bounds of memory
};
// The cheapest that show most: more of them where the model is small.
std::vector<BeyondCase> cases_beyond(const BeyondUsual& from);

}  // namespace saturate
