// A decoder whose cache is a window of a fixed size, without it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"
#include "tools/transform/cache/node_axes.h"

namespace saturate {

struct WindowInputs {
  std::string ids;                // [batch, tokens of the window]
  std::vector<AxisOf> positions;  // other inputs with an entry for each token of the window
  std::string mask;               // [batch, places]; "": none
  std::string before;             // how many tokens came before, as [1], or of each row what the mask showed, as [batch]; "": none
  std::vector<std::string> pasts;
};

// What has an entry for each token of the window, or for each place at whose end the window stands, gets one for each token of `ids`, whose
// dims are open in the result; nothing reads the pasts any more. All tokens are run at once then, as those of one window with nothing in
// front; what comes later is hidden. Inputs and outputs stay in their order. Of constants, in which rows of the window and of its mask have
// become what they are at the end of the places:
//   - rows of a table that other constants hold for all places become that table's, from its first one on;
//   - a row for each token and place tells how far they are from each other, and is read by that distance;
//   - what counts the tokens goes on counting, and what is the same for all of them stays.
// The result is to be compared with `model`: that a model depends on distances alone is not known from its constants. kUnimplemented, with
// the node and the reason: it is not known what an operator does along the tokens, or how a constant goes on.
absl::StatusOr<Model> without_window(const Model& model, const WindowInputs& inputs);

}  // namespace saturate
