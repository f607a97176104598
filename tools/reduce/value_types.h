// The types of all values of a model, as inference sees them.
#pragma once

#include "onnx_bridge/graph/model_edits.h"

namespace saturate {

// Of the graph and of the bodies in it, one for a name; values without a known element type are left out, and names that stand for values
// of several types. Symbolic dims are written as text ("2*n + 1"). Empty where inference fails.
ValueTypes value_types(const Model& model);

// Types as bytes, to be sent from one process to another.
std::string pack_types(const ValueTypes& types);
ValueTypes unpack_types(std::string_view bytes);

}  // namespace saturate
