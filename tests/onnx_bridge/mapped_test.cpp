// Large inline weights, which stay in the file.
#include <gtest/gtest.h>

#include <cstring>

#include "onnx_bridge/file/io.h"
#include "proto_models.h"

namespace saturate {
namespace {

using testing::small_model;
using testing::TestFolder;

onnx::ModelProto model_with_large_weights(int shift) {
  onnx::ModelProto m = small_model();
  m.set_producer_name(std::string(static_cast<std::size_t>(shift), 'p'));
  for (const char* name : {"small", "large", "larger"}) {
    const std::int64_t n = name == std::string("small") ? 3 : name == std::string("large") ? 20'000 : 40'000;
    auto* t = testing::add_initializer(m.mutable_graph(), name, onnx::TensorProto::FLOAT, {n});
    t->set_doc_string(std::string("of ") + name);
    std::string data(static_cast<std::size_t>(4 * n), '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + data.size());
    t->set_raw_data(data);
  }
  return m;
}

TEST(Mapped, LargeWeightsStayInTheFile) {
  const TestFolder folder;
  for (int shift = 0; shift < 4; ++shift) {
    const onnx::ModelProto original = model_with_large_weights(shift);
    testing::write_file(folder / "m.onnx", original.SerializeAsString());
    auto model = load_model(folder / "m.onnx");
    ASSERT_TRUE(model.ok()) << message_of(model.status());
    for (int i = 0; i < 3; ++i) {
      const Tensor& t = model->graph.initializers[static_cast<std::size_t>(i)].tensor;
      EXPECT_EQ(t.mapped(), i > 0);
      EXPECT_EQ(t.file_range(), nullptr) << "inline data is to stay inline";
      const std::string& raw = original.graph().initializer(i).raw_data();
      ASSERT_EQ(t.bytes().size(), raw.size());
      EXPECT_EQ(std::memcmp(t.bytes().data(), raw.data(), raw.size()), 0);
      const Tensor copy = aligned(t);
      EXPECT_TRUE(is_aligned(copy));
      EXPECT_TRUE(identical(copy, t));
      release_pages(t);
      EXPECT_EQ(std::memcmp(t.bytes().data(), raw.data(), raw.size()), 0) << "pages that were given back";
    }
    // Onto itself: the mapping is that of the file before.
    ASSERT_TRUE(save_model(*model, folder / "m.onnx").ok());
    EXPECT_EQ(testing::read_file(folder / "m.onnx"), original.SerializeAsString());
    EXPECT_EQ(*serialize_model(*model), original.SerializeAsString());
  }
}

TEST(Mapped, ErrorsOfLargeWeightsAreThoseOfSmallOnes) {
  const TestFolder folder;
  const auto refused = [&](const std::string& bytes) {
    testing::write_file(folder / "m.onnx", bytes);
    return message_of(load_model(folder / "m.onnx").status());
  };
  onnx::ModelProto m = model_with_large_weights(1);
  const std::string whole = m.SerializeAsString();
  m.mutable_graph()->mutable_initializer(1)->set_dims(0, 20'001);
  EXPECT_NE(refused(m.SerializeAsString()).find("initializer 'large': float with dims [20001] takes 80004 bytes, the tensor has 80000"),
            std::string::npos)
      << refused(m.SerializeAsString());
  EXPECT_NE(refused(whole.substr(0, whole.size() / 2)).find("truncated or damaged"), std::string::npos);
  m = model_with_large_weights(1);
  m.mutable_graph()->mutable_initializer(1)->set_data_type(onnx::TensorProto::STRING);
  EXPECT_FALSE(refused(m.SerializeAsString()).empty());
}

TEST(Mapped, WeightsOfSubgraphsAndTwiceGivenDataAreReadAsAWhole) {
  const TestFolder folder;
  onnx::ModelProto m = model_with_large_weights(0);
  // A function whose node has a graph with an initializer: it is not the main graph's.
  m.add_opset_import()->set_domain(std::string("local"));
  m.mutable_opset_import(1)->set_version(1);
  auto* f = m.add_functions();
  f->set_domain(std::string("local"));
  f->set_name(std::string("F"));
  f->add_input(std::string("c"));
  f->add_output(std::string("y"));
  f->add_opset_import()->set_version(17);
  auto* node = f->add_node();
  node->set_op_type(std::string("If"));
  node->add_input(std::string("c"));
  node->add_output(std::string("y"));
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* g = testing::add_attribute(node, branch, onnx::AttributeProto::GRAPH)->mutable_g();
    g->set_name(std::string(branch));
    for (const char* name : {"a", "b"}) testing::add_initializer(g, name, onnx::TensorProto::FLOAT, {1})->add_float_data(2);
    testing::add_node(g, "Add", {"a", "b"}, {"s"});
    testing::add_float(g->mutable_output(), "s", {1});
  }
  testing::write_file(folder / "m.onnx", m.SerializeAsString());
  auto model = load_model(folder / "m.onnx");
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  EXPECT_EQ(*serialize_model(*model), m.SerializeAsString());

  // A graph in two parts is one graph (protobuf encoding, "Last One Wins"): the initializers' numbers go on.
  const onnx::ModelProto base = model_with_large_weights(0);
  onnx::ModelProto more;
  testing::add_initializer(more.mutable_graph(), "late", onnx::TensorProto::FLOAT, {1})->add_float_data(2);
  testing::write_file(folder / "m.onnx", base.SerializeAsString() + more.SerializeAsString());
  model = load_model(folder / "m.onnx");
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  ASSERT_EQ(model->graph.initializers.size(), 4u);
  EXPECT_EQ(model->graph.initializers[1].tensor.bytes().size(), 80'000u);
}

}  // namespace
}  // namespace saturate
