/* A cost model of your own as a shared library: `saturate in.onnx --cost ./libmine.so`.
 *
 * Export the three functions below with C linkage; nothing else is needed (example: tests/extract/example_cost.cpp). saturate calls
 * saturate_cost_open() once, then saturate_cost() for operators as extraction asks for them (the same one may be asked for several times),
 * from one thread, then saturate_cost_close(). */
#ifndef SATURATE_COST_H
#define SATURATE_COST_H

#ifdef __cplusplus
extern "C" {
#endif

#define SATURATE_COST_VERSION 1

typedef struct {
  int dtype;          /* onnx.TensorProto.DataType; 0: no tensor, or not known */
  int rank;           /* -1: not known */
  const double* dims; /* `rank` sizes; symbolic dims have the sizes that --dim, --cost-at or the defaults give */
  int constant;       /* 1: a weight */
} saturate_cost_tensor;

typedef struct {
  const char* domain; /* "" for ai.onnx; "#" with op_type "#constant": storing a constant, its output is that constant */
  const char* op_type;
  const char* attributes; /* JSON object of numbers, strings and lists of them */
  int num_inputs, num_outputs;
  const saturate_cost_tensor* inputs; /* absent ones have dtype 0 and rank -1 */
  const saturate_cost_tensor* outputs;
} saturate_cost_operator;

/* A state of the library's own, or NULL where it does not know this version. */
void* saturate_cost_open(int version);
/* Finite and not negative; in any unit. */
double saturate_cost(void* state, const saturate_cost_operator* op);
void saturate_cost_close(void* state);

#ifdef __cplusplus
}
#endif
#endif
