// Private to onnx_bridge: protobuf messages <-> plain values. Errors travel as LoadError inside this folder and never leave it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onnx_bridge/file/data/external_data.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/proto/fields.h"
#include "onnx_bridge/model/model.h"

namespace saturate::proto {

inline constexpr std::int64_t kMaxVersion = 1000;  // of the IR and of opsets
inline constexpr std::size_t kMaxName = 65'535;    // bytes of a name: many texts are made of one, and messages show it
inline constexpr int kMaxNesting = 64;             // subgraphs in subgraphs, types in types, functions calling functions

struct LoadError {
  std::string message;
};

// Where in the model we are, for messages: "graph 'main', node 3 (MatMul 'mm'), attribute 'body'".
class Places {
 public:
  class Step {
   public:
    explicit Step(Places& places) : places_(places) {}
    ~Step() { places_.steps_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Places& places_;
  };
  // The strings must outlive the step.
  [[nodiscard]] Step enter(const char* what, std::string_view name, std::int64_t index = -1, std::string_view type = {});
  std::string describe() const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Entry {
    const char* what;
    std::string_view name, type;
    std::int64_t index;
  };
  std::vector<Entry> steps_;
};

// Reads messages that `owner` keeps alive: the values made are views into them.
class Reader {
 public:
  // `detached`: data of the outermost graph's initializers.
  Reader(std::shared_ptr<const void> owner, ExternalFiles& files, std::vector<DetachedData> detached = {})
      : owner_(std::move(owner)), files_(files), detached_(std::move(detached)) {}
  Model read(const onnx::ModelProto& message);
  ValueType read(const onnx::TypeProto& message);
  ValueInfo read(const onnx::ValueInfoProto& message);
  Tensor read(const onnx::TensorProto& message);
  Attribute read(const onnx::AttributeProto& message);
  Node read(const onnx::NodeProto& message);
  Graph read(const onnx::GraphProto& message);
  Function read(const onnx::FunctionProto& message);
  Places& places() { return places_; }

 private:
  std::shared_ptr<const void> alias(const void* part) const { return {owner_, part}; }
  Shape dims_of(const onnx::TensorProto& message) const;
  void check_copied_parts(const onnx::ModelProto& message);
  Tensor inline_tensor(const onnx::TensorProto& message, Shape dims);
  Tensor detached_tensor(const onnx::TensorProto& message, const DetachedData& data);
  Tensor typed_tensor(const onnx::TensorProto& message, Shape dims);
  Attribute read_value(const onnx::AttributeProto& message, AttributeType type);
  std::map<std::string, std::int64_t> read_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

  std::shared_ptr<const void> owner_;
  ExternalFiles& files_;
  std::vector<DetachedData> detached_;
  Places places_;
  int depth_ = 0;
};

std::string normalized_domain(const std::string& domain);  // "ai.onnx" -> ""
bool same_type(const ValueType& a, const ValueType& b);

// Values to messages. `plan` collects tensors for the data file; null: everything inline.
class Writer {
 public:
  Writer(DataFilePlan* plan, std::size_t external_threshold, bool inline_goes_out)
      : plan_(plan), threshold_(external_threshold), inline_goes_out_(inline_goes_out) {}
  void write(const ValueType& type, onnx::TypeProto* out) const;
  void write(const Tensor& tensor, const std::string& name, onnx::TensorProto* out);
  void write(const Attribute& attribute, onnx::AttributeProto* out);
  void write(const Graph& graph, onnx::GraphProto* out);
  void write(const Function& function, onnx::FunctionProto* out);

  // The message to write for a value: its origin where nothing differs, else one of our own (owned by the writer).
  const onnx::NodeProto* message(const Node& node);
  const onnx::ValueInfoProto* message(const ValueInfo& value);
  const onnx::FunctionProto* message(const Function& function);
  // Message of an initializer and the bytes that follow it as raw_data without having been copied into it.
  struct InitializerParts {
    const onnx::TensorProto* message = nullptr;
    std::span<const std::byte> raw;
  };
  InitializerParts parts(const Initializer& initializer, bool keep_raw_apart);
  // The same with the data always apart; nullopt where it isn't written as raw_data.
  std::optional<InitializerParts> parts_without_data(const Initializer& initializer);
  // A message without data that says that so many bytes of it lie in a file.
  const onnx::TensorProto* as_external(const onnx::TensorProto& message, std::size_t bytes);
  const onnx::SparseTensorProto* sparse_message(const Initializer& initializer);
  // Everything of a graph but nodes and initializers.
  void write_rest(const Graph& graph, onnx::GraphProto* out);
  // Everything of a model but graph and functions.
  void write_rest(const Model& model, onnx::ModelProto* out);

 private:
  template <typename M>
  M* own() {
    auto held = std::make_shared<M>();
    M* message = held.get();
    owned_.push_back(std::move(held));
    return message;
  }
  bool goes_out(const Tensor& tensor, bool has_origin) const;
  void write_external(const Tensor& tensor, onnx::TensorProto* out);
  bool unchanged(const Node& node) const;
  bool unchanged(const Attribute& attribute, const onnx::AttributeProto& origin) const;
  bool unchanged(const Graph& graph, const onnx::GraphProto& origin) const;
  bool unchanged(const Initializer& initializer, const onnx::TensorProto& origin) const;
  bool unchanged(const ValueInfo& value, const void* origin) const;
  bool unchanged(const Function& function) const;

  DataFilePlan* plan_;
  std::size_t threshold_;
  bool inline_goes_out_;
  std::vector<std::shared_ptr<void>> owned_;
};

// Checks names and order of a graph that has just been read (subgraphs before the graphs around them); nodes are sorted stably if they must
// be.
void check_and_sort(Graph& graph, const Places& places);
void check_and_sort(Function& function, const Places& places);
// Names that no scope defines, recursive functions.
void check_model(const Model& model, Places& places);
// A model that uses ai.onnx and imports no version of it is taken to mean the newest, as ONNX Runtime takes it.
void assume_opset(Model& model);

}  // namespace saturate::proto
