// Since when ONNX says things as it does now.
#pragma once

namespace saturate {

inline constexpr int kFirstWithAxesAsInput = 13;  // opset of Squeeze and Unsqueeze
inline constexpr int kFirstConstantOfShape = 9;   // opset
inline constexpr int kFirstWithDefaults = 4;      // version of the IR in which initializers need not be inputs
inline constexpr int kOpsetOfNone = 11;           // imported where a model has operators of other domains alone

}  // namespace saturate
