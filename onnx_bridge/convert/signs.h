// Signs: what is known to lie at or above +0, as squares, magnitudes and exponentials do, and what is made of them.
#pragma once

#include <cstdint>
#include <span>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/facts/facts.h"

namespace saturate {

// Of which inputs the (one) output of an operator takes its sign.
enum class SignOf : std::uint8_t {
  kNothing,     // it may be negative
  kAlways,      // it is never negative
  kEvenPower,   // never where the second input is an even number
  kFirst,       // never where the first input is not
  kAll,         // never where no input is
  kSquare,      // never where both inputs are one
  kSquareOrAll  // either
};
SignOf sign_of(const OpKey& key);
// Facts::never_negative of the output. Inputs that are one value have one place.
bool never_negative(SignOf sign, std::span<const Facts* const> inputs);

}  // namespace saturate
