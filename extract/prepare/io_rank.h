// Inputs and outputs of a model at a rank that its user asks for (--io-rank): names and dtypes stay, ones stand in front of the dims.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

inline constexpr std::int64_t kMostIoRank = 64;  // what runtimes and NumPy take

struct IoRank {
  struct Changed {
    std::string name;
    ValueType before, after;
    std::size_t ones() const { return after.shape->size() - before.shape->size(); }
  };
  struct Kept {
    std::string name, because;
  };
  std::int64_t rank = 0;
  std::vector<Changed> inputs, outputs;
  std::vector<Kept> kept;  // of another rank, or of none
};

// What has to change for this rank. kInvalidArgument with one line where it can't be had: a tensor of a higher rank, a rank that is
// unknown. Three kinds stay as they are: what is no tensor, inputs that have a default, integer inputs that are only read as indices or
// shapes.
absl::StatusOr<IoRank> plan_io_rank(const Model& model, std::int64_t rank);

// A model with one of the two interfaces behind the other: Squeeze and Unsqueeze stand between, which are exact for every size.
enum class Interface : std::uint8_t { kOriginal, kAsked };
Model with_interface(Model model, const IoRank& io, Interface to);
// The model with its inputs and outputs at this rank; plan_io_rank()'s error where that can't be had.
absl::StatusOr<Model> with_io_rank(Model model, std::int64_t rank);

}  // namespace saturate
