// Values as they go between the judge and its child.
#pragma once

#include "kernels/judge/wire.h"
#include "onnx_bridge/model/evaluator.h"

namespace saturate {

void pack(const Value& value, wire::Packer& out);
// `type` is the declared one: an optional comes as what it holds, and an empty sequence without its element type.
Value unpack(wire::Unpacker& in, const ValueType& type);

}  // namespace saturate
