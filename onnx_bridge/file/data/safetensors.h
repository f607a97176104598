// The layout of a file of weights as safetensors has it (https://github.com/huggingface/safetensors, "Format"): 8 bytes that tell how long
// the header is, the header as JSON, and the data of its tensors without a gap. An ONNX model refers to the data by offset and length, as
// to that of any other file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx_bridge/model/tensor.h"

namespace saturate {

struct SafetensorsEntry {
  std::string name;  // another one is made of it where it is "", taken, or a word of the format's own
  DType dtype = DType::kUndefined;
  Shape dims;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file; set by lay_out_safetensors()
};

// Gives each entry its place, those of larger elements first, so that each is aligned to its elements, and returns what stands in front of
// the data. Dtypes that the format has no word for, as those of 4 bits, are told as bytes.
std::string lay_out_safetensors(std::vector<SafetensorsEntry>& entries);

}  // namespace saturate
