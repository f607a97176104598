// What an optimization did, on one screen for those who have never seen a report.
#pragma once

#include <string>

#include "tools/io/style.h"
#include "tools/pipeline/report.h"

namespace saturate {

// Safe to print: names are made printable, and colours stand around them where the look has any.
std::string screen(const WholeReport& report, const Look& look);
// The same in a line: "bart.onnx -> out/bart.onnx: 125 -> 55 operators, verified, 196.0 ms".
std::string screen_line(const WholeReport& report);
// "ONNX Runtime 1.23 or newer (opset 18 -> 23, IR 10 -> 11; --keep-opset stays at 18)".
std::string needs_text(const OptimizeReport& report);

}  // namespace saturate
