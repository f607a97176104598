// Sizes of a decoder's tensors in terms of its batch and its tokens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/facts/dims/dims.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// What the entries along an axis are.
enum class Axis : std::uint8_t {
  kNone,  // anything else
  kNew,   // one for each new token (and perhaps each batch)
  kAll,   // one for each position, past and new
};
using Axes = std::vector<Axis>;

// factor * batch^batches * tokens^tokens * given^given
struct Extent {
  std::int64_t factor = 1;
  int batches = 0, tokens = 0, given = 0;
  bool is_number() const { return batches == 0 && tokens == 0 && given == 0; }
  bool is_tokens() const { return factor == 1 && batches == 0 && tokens == 1 && given == 0; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// The names of dims; "" where one is a number, or there is none.
struct DimNames {
  std::string batch, tokens;
  std::string given;  // of what is given beside the tokens, as an encoder's states
};

class Extents {
 public:
  Extents(const DimTable& dims, DimNames names) : dims_(&dims), names_(std::move(names)) {}
  // nullopt: it is no such product.
  std::optional<Extent> of(Dim dim) const;
  // Whether it grows with the tokens; nullopt: not known.
  std::optional<bool> spans(Dim dim) const;
  // Of a tensor of a batch and few tokens, to tell smaller ones from larger ones.
  std::int64_t elements(const std::vector<Dim>& shape) const;

 private:
  std::optional<std::int64_t> at(Dim dim, std::int64_t batch, std::int64_t tokens, std::int64_t given) const;
  const DimTable* dims_;
  DimNames names_;
};

// Adds nodes and small constants to a graph.
class GraphWriter {
 public:
  GraphWriter(Graph& graph, FreshNames& fresh) : graph_(&graph), fresh_(&fresh) {}
  // The name of its one output, made of `hint` unless `name` is given.
  std::string node(const char* op, std::vector<std::string> inputs, const std::string& hint, std::vector<Attribute> attributes = {},
                   const std::string& name = "");
  // A copy of `node` whose outputs have new names, made of their own.
  const Node& copy(Node node);
  // Of rank 1, one initializer for equal ones.
  std::string ints(const std::vector<std::int64_t>& values);
  std::string scalar(std::int64_t value);
  Graph& graph() { return *graph_; }
  FreshNames& fresh() { return *fresh_; }

 private:
  Graph* graph_;
  FreshNames* fresh_;
  std::map<std::vector<std::int64_t>, std::string> ints_;
  std::map<std::int64_t, std::string> scalars_;
};

}  // namespace saturate
