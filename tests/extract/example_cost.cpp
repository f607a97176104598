// A cost model as a shared library: elements that are written, Tanh ten times as dear; a weight costs nothing.
//   c++ -shared -fPIC -I<prefix>/include/saturate example_cost.cpp -o libmine.so && saturate in.onnx --cost ./libmine.so
#include <cstring>

#include "extract/price/saturate_cost.h"

extern "C" void* saturate_cost_open(int version) {
  static int state = 0;
  return version == 1 ? &state : nullptr;
}

extern "C" double saturate_cost(void*, const saturate_cost_operator* op) {
  if (std::strcmp(op->domain, "#") == 0) return 0;
  double elements = 0;
  for (int o = 0; o < op->num_outputs; ++o) {
    double n = 1;
    for (int d = 0; d < op->outputs[o].rank; ++d) n *= op->outputs[o].dims[d];
    elements += n;
  }
  return elements * (std::strcmp(op->op_type, "Tanh") == 0 ? 10 : 1);
}

extern "C" void saturate_cost_close(void*) {}
