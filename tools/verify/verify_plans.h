// Which sizes and kinds of values verification tries, and in what order.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/verify/draw_inputs.h"

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

std::vector<VerifyPlan> plans(const std::vector<std::string>& symbols, const Twins& twins);
// The bases of a plan.
std::span<const Base> bases_of(const VerifyPlan& plan);
// Small images leave nothing for the later convolutions to see.
inline constexpr Base kImage = {{1, 64, 64, 64}};
// Whether the model takes images of a size that it leaves open.
bool takes_images_of_any_size(const Model& model);
Sizes assign(const std::vector<std::string>& symbols, const Base& base, const Relation& relation, const Twins& twins);

// The first sizes of a plan, with each of the first symbols at 0.
std::vector<Sizes> sizes_with_zero(const std::vector<std::string>& symbols, const VerifyPlan& plan);
// Sizes beyond the blocks of rows and columns in which kernels work, where the model is small enough for them to be cheap.
std::optional<Sizes> long_sizes(const Model& model, const std::vector<std::string>& symbols, const VerifyPlan& plan);

}  // namespace saturate
