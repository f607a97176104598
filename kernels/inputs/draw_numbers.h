// Numbers of drawn tensors, by what they are like.
#pragma once

#include <optional>
#include <vector>

#include "kernels/inputs/draw_inputs.h"

namespace saturate {

// What is known of the tensor that is drawn.
struct NumbersOf {
  const DrawStyle& style;
  bool mask = false;                        // floats are 0 and 1
  std::optional<QuantizerHint> quantizer;   // of floats
  bool dequantized = false;                 // integers that are quantized values
  std::int64_t limit = 0;                   // integers are below it, where it is not 0
  const std::vector<double>& compared;      // constants that the input is compared with
  const std::vector<double>& landmarks;     // others of the models
  std::optional<std::int64_t> length = {};  // the one that integers tell
};

// Scales of quantized values, whatever the style: what a scale of 0, an infinite or a negative one makes is no number that counts.
// False where the dtype is no float of 16 bits or more.
bool fill_steps(Tensor& tensor, Random& random);
// False where the dtype is no float (of 16 bits or more) or complex number.
bool fill_floats(Tensor& tensor, const NumbersOf& of, Random& random);
// False where it is no integer of 8 bits or more, nor bool.
bool fill_ints(Tensor& tensor, const NumbersOf& of, Random& random);
// Numbers beside those of a default, of the same signs: what they mean is not known. Strings and narrow types stay.
Tensor other_numbers(const Tensor& given);

}  // namespace saturate
