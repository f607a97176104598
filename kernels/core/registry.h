// Which kernel runs an operator. One kernel serves all opset versions of an operator; it looks at KernelContext::opset.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "kernels/core/kernel.h"

namespace saturate {

class Registry {
 public:
  // `any_alignment`: bit i, input i may be a constant whose elements are not aligned (is_aligned()). The others are, always.
  void add(std::string_view domain, std::string_view op_type, KernelFn kernel, std::uint64_t any_alignment = 0);
  KernelFn find(std::string_view domain, std::string_view op_type) const;  // null: none
  std::uint64_t any_alignment(std::string_view domain, std::string_view op_type) const;
  // Every kernel of every family; built once, never changed.
  static const Registry& standard();
  std::size_t size() const { return kernels_.size(); }

 private:
  struct Entry {
    KernelFn kernel;
    std::uint64_t any_alignment;
  };
  const Entry* entry(std::string_view domain, std::string_view op_type) const;
  std::unordered_map<std::string, Entry> kernels_;  // "domain:op_type"
};

inline constexpr std::string_view kMicrosoft = "com.microsoft", kMlDomain = "ai.onnx.ml", kTrainingDomain = "ai.onnx.preview.training",
                                  kPreviewDomain = "ai.onnx.preview";

// Operators that sessions make for themselves (session/graph.h); none that a model names.
inline constexpr std::string_view kSessionDomain = "saturate.session";

// elementwise*.cpp, activation*.cpp, reduce*.cpp, matmul*.cpp, conv*.cpp, pool*.cpp, norm*.cpp, softmax*.cpp, attention*.cpp,
// contrib_*.cpp, rnn*.cpp, loss*.cpp
void register_elementwise(Registry& registry);
void register_activation(Registry& registry);
void register_reduce(Registry& registry);
void register_matmul(Registry& registry);
void register_conv(Registry& registry);
void register_pool(Registry& registry);
void register_norm(Registry& registry);
void register_softmax(Registry& registry);
void register_attention(Registry& registry);
void register_contrib(Registry& registry);
void register_rnn(Registry& registry);
void register_loss(Registry& registry);
// data_*.cpp, control_*.cpp, sequence_*.cpp, quant_*.cpp, ml_*.cpp, string_*.cpp, signal_*.cpp, image_*.cpp
void register_data(Registry& registry);
void register_control(Registry& registry);
void register_sequence(Registry& registry);
void register_quant(Registry& registry);
void register_ml(Registry& registry);
void register_string(Registry& registry);
void register_signal(Registry& registry);
void register_image(Registry& registry);
void register_channels_last(Registry& registry);
void register_session_attention(Registry& registry);

}  // namespace saturate
