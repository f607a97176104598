#include "onnx_bridge/op_table.h"

#include <array>

namespace saturate {

int ir_version_for_opset(std::int64_t opset) {
  // First opset of each IR version from 3 on.
  constexpr std::array<std::pair<int, int>, 12> kFirst = {{{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {9, 4}, {0, 3}}};
  for (const auto& [first, ir] : kFirst)
    if (opset >= first) return ir;
  return 3;
}

}  // namespace saturate
