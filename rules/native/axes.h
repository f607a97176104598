// What op_axes.inc says of operators in an e-graph.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "onnx_bridge/operators/op_axes.h"
#include "rules/native/kit.h"

namespace saturate::native {

// Of an operator of one result, as it stands on these inputs. The shapes of all of them must be known where the table asks for them.
class ViewOfOperator : public OpView {
 public:
  ViewOfOperator(const Views& views, const OpKey& key, std::span<const Id> inputs, const Dims& result)
      : views_(views), key_(key), inputs_(inputs), result_(result) {}
  std::string_view domain() const override { return key_.domain; }
  std::string_view op_type() const override { return key_.op_type; }
  const Attribute* attribute(std::string_view name) const override { return find_attribute(key_.attributes, name); }
  std::int64_t opset() const override;
  int inputs() const override { return static_cast<int>(inputs_.size()); }
  int outputs() const override { return 1; }
  bool has(Port port) const override;
  std::optional<int> rank(Port port) const override;
  std::optional<std::int64_t> size(Port port, int axis) const override;
  bool same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const override;
  std::optional<std::vector<std::int64_t>> ints(int input) const override;

 private:
  bool is_absent(int input) const;
  const Dims* dims(Port port) const;
  Dim product(Port port, int first, int last) const;
  const Views& views_;
  const OpKey& key_;
  std::span<const Id> inputs_;
  const Dims& result_;
};

}  // namespace saturate::native
