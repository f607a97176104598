// Constants in half precision. Each is looked at once and converted once, part by part; large ones lie in a file, not in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onnx_bridge/file/data/scratch_file.h"
#include "onnx_bridge/model/tensor.h"

namespace saturate {

double largest_number(DType dtype);  // of float16 and bfloat16
double least_number(DType dtype);    // above 0; a number nearer to 0 loses bits, and is 0 in the end

class HalfWeights {
 public:
  // The file lies in the folder of the path `beside`; where that takes none, and for "", they are in memory.
  HalfWeights(DType to, const std::string& beside) : to_(to) {
    if (!beside.empty()) file_.emplace(beside);
  }
  // A float tensor in the type.
  Tensor half_of(const Tensor& tensor);
  // Whether the type has all numbers of a float tensor as they are.
  bool holds(const Tensor& tensor) const;
  // The largest number above 0 and below it that is finite, without their signs, of a float tensor.
  struct Reach {
    double above = 0, below = 0;
  };
  Reach reach_of(const Tensor& tensor);

 private:
  struct Known {
    Tensor tensor;  // whose bytes stay where they are
    std::optional<Tensor> half;
    std::optional<Reach> reach;
  };
  Known& known(const Tensor& tensor);
  void convert(const Tensor& tensor, std::int64_t begin, std::span<std::uint16_t> halves) const;
  std::optional<Tensor> in_file(const Tensor& tensor);

  DType to_;
  std::optional<ScratchFile> file_;
  std::vector<std::uint16_t> part_;
  std::map<std::pair<const std::byte*, std::size_t>, Known> known_;  // by place
};

}  // namespace saturate
