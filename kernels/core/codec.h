// Number formats of at most eight bits (ONNX "Float stored in 8 bits", "4 bit integer types", OCP MX): codes to values and back.
#pragma once

#include <cstdint>

#include "onnx_bridge/model/tensor.h"

namespace saturate {

// True for float8*, float6*, float4e2m1: formats that decode_float / encode_float know.
bool is_tiny_float(DType dtype);
// True for int2, uint2, int4, uint4.
bool is_tiny_integer(DType dtype);

float decode_tiny_float(DType dtype, std::uint8_t code);
// Round to nearest, ties to even. Out of range: the largest finite value if `saturate` (formats without infinity and NaN always do so),
// infinity or NaN of the format otherwise. NaN stays NaN where the format has one.
std::uint8_t encode_tiny_float(DType dtype, float value, bool saturate);
enum class Round8e8m0 { kUp, kDown, kNearest };
// Power-of-two scales: the exponent only; the sign is dropped.
std::uint8_t encode_float8e8m0(float value, bool saturate, Round8e8m0 mode);

std::int8_t decode_tiny_integer(DType dtype, std::uint8_t code);
// Range of an integer dtype (all widths up to 64; uint64's top is clipped to the largest int64).
std::int64_t integer_min(DType dtype);
std::int64_t integer_max(DType dtype);

}  // namespace saturate
