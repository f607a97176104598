#include "onnx_bridge/file/data/external_data.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onnx_bridge/file/io.h"
#include "proto_models.h"

namespace saturate {
namespace {

using testing::TestFolder;

// Pieces of a reference, in the order in which they are given: keys and values.
onnx::ModelProto external_model(const std::vector<std::pair<std::string, std::string>>& entries, std::int64_t elements = 4) {
  onnx::ModelProto m = testing::small_model();
  auto* t = testing::add_initializer(m.mutable_graph(), "w", 1, {elements});
  t->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) testing::add_entry(t->mutable_external_data(), key, value);
  return m;
}

class ExternalData : public ::testing::Test {
 protected:
  ExternalData() {
    bytes_.resize(64);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
    testing::write_file(folder_ / "w.bin", bytes_);
  }

  absl::StatusOr<Model> load(const onnx::ModelProto& m) {
    testing::write_file(folder_ / "m.onnx", m.SerializeAsString());
    return load_model(folder_ / "m.onnx");
  }

  void refused(const std::vector<std::pair<std::string, std::string>>& entries, const std::string& why, std::int64_t elements = 4) {
    auto model = load(external_model(entries, elements));
    ASSERT_FALSE(model.ok()) << why;
    const std::string text = message_of(model.status());
    EXPECT_NE(text.find(why), std::string::npos) << text;
    EXPECT_NE(text.find("initializer 'w'"), std::string::npos) << text;
    EXPECT_NE(text.find("m.onnx: "), std::string::npos) << text;
  }

  TestFolder folder_;
  std::string bytes_;
};

TEST_F(ExternalData, IsMapped) {
  auto model = load(external_model({{"location", "w.bin"}, {"offset", "8"}, {"length", "16"}, {"checksum", "x"}, {"__class__", "evil"}}));
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  const Tensor& w = model->graph.initializers[0].tensor;
  EXPECT_EQ(std::memcmp(w.bytes().data(), bytes_.data() + 8, 16), 0);
  ASSERT_NE(w.file_range(), nullptr);
  EXPECT_EQ(w.file_range()->offset, 8u);
  EXPECT_EQ(w.file_range()->length, 16u);
  EXPECT_EQ(w.file_range()->path, (folder_ / "w.bin").string());
  const Tensor kept = w;
  model = absl::UnknownError("gone");
  EXPECT_EQ(std::memcmp(kept.bytes().data(), bytes_.data() + 8, 16), 0);  // the mapping lives as long as a tensor of it
}

TEST_F(ExternalData, OffsetAndLengthMayBeMissing) {
  EXPECT_TRUE(load(external_model({{"location", "w.bin"}})).ok());
  EXPECT_TRUE(load(external_model({{"location", "./w.bin"}, {"offset", "48"}})).ok());
  EXPECT_TRUE(load(external_model({{"location", "w.bin"}, {"offset", "64"}, {"length", "0"}}, 0)).ok());
  testing::write_file(folder_ / "empty", "");
  EXPECT_TRUE(load(external_model({{"location", "empty"}}, 0)).ok());
  std::filesystem::create_directory(folder_ / "sub");
  testing::write_file(folder_ / "sub/w.bin", bytes_);
  EXPECT_TRUE(load(external_model({{"location", "sub/w.bin"}})).ok());
}

TEST_F(ExternalData, UnalignedOffsetsGiveAlignedTensors) {
  auto model = load(external_model({{"location", "w.bin"}, {"offset", "3"}}));
  ASSERT_TRUE(model.ok());
  const Tensor& w = model->graph.initializers[0].tensor;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w.bytes().data()) % alignof(float), 0u);
  EXPECT_EQ(std::memcmp(w.bytes().data(), bytes_.data() + 3, 16), 0);
  EXPECT_NE(w.file_range(), nullptr);
}

TEST_F(ExternalData, PathsThatLeaveTheFolder) {
  const TestFolder outside;
  testing::write_file(outside / "secret", bytes_);
  std::filesystem::create_directory(folder_ / "sub");
  refused({{"location", (outside / "secret").string()}}, "absolute");
  refused({{"location", "../secret"}}, "'..'");
  refused({{"location", "sub/../w.bin"}}, "'..'");
  refused({{"location", "sub/../../secret"}}, "'..'");
  refused({{"location", std::string("w.bin\0.x", 8)}}, "NUL");
  refused({{"location", ""}}, "empty");
  refused({{"location", "."}}, "names no file");
  refused({{"location", "missing.bin"}}, "no such file");
  refused({{"offset", "0"}}, "without a location");
  refused({{"location", "*/_ORT_MEM_ADDR_/*"}, {"offset", "94000000000000"}}, "no such file");
}

TEST_F(ExternalData, LinksAndOddFiles) {
  const TestFolder outside;
  testing::write_file(outside / "secret", bytes_);
  std::filesystem::create_symlink(outside / "secret", folder_ / "link");
  std::filesystem::create_symlink(folder_ / "w.bin", folder_ / "inner_link");
  std::filesystem::create_directory_symlink(outside.path(), folder_ / "linked_folder");
  refused({{"location", "link"}}, "symbolic links are refused");
  refused({{"location", "inner_link"}}, "symbolic links are refused");
  refused({{"location", "linked_folder/secret"}}, "symbolic links are refused");
  std::filesystem::create_hard_link(folder_ / "w.bin", folder_ / "hard");
  refused({{"location", "hard"}}, "hard links are refused");
  refused({{"location", "w.bin"}}, "hard links are refused");
  std::filesystem::create_directory(folder_ / "sub");
  refused({{"location", "sub"}}, "no regular file");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  refused({{"location", "pipe"}}, "no regular file");
}

TEST_F(ExternalData, RangesThatDoNotFit) {
  refused({{"location", "w.bin"}, {"offset", "-8"}}, "offset '-8' is not a number");
  refused({{"location", "w.bin"}, {"offset", "0x10"}}, "is not a number");
  refused({{"location", "w.bin"}, {"offset", ""}}, "is not a number");
  refused({{"location", "w.bin"}, {"offset", "18446744073709551615"}}, "is not a number");
  refused({{"location", "w.bin"}, {"length", "-16"}}, "length '-16' is not a number");
  refused({{"location", "w.bin"}, {"length", "15"}}, "takes 16 bytes");
  refused({{"location", "w.bin"}, {"length", "9223372036854775807"}}, "is not a number");
  refused({{"location", "w.bin"}, {"offset", "56"}}, "the file ends at 64");
  refused({{"location", "w.bin"}, {"offset", "4611686018427387904"}}, "the file ends at 64");
  refused({{"location", "w.bin"}}, "the file ends at 64", 1LL << 40);
  refused({{"location", "w.bin"}, {"offset", "60"}, {"length", "16"}}, "the file ends at 64");
}

TEST_F(ExternalData, NeedsAFolder) {
  const std::string bytes = external_model({{"location", "w.bin"}}).SerializeAsString();
  EXPECT_TRUE(parse_model(bytes, folder_.path().string()).ok());
  EXPECT_NE(message_of(parse_model(bytes, "").status()).find("from memory"), std::string::npos);
}

TEST_F(ExternalData, IsCopiedToTheResultsOwnFile) {
  onnx::ModelProto m = external_model({{"location", "w.bin"}, {"offset", "8"}, {"length", "16"}, {"mine", "kept"}, {"checksum", "x"}});
  m.mutable_graph()->mutable_initializer(0)->set_doc_string("doc");
  auto* tied = m.mutable_graph()->add_initializer();
  *tied = m.graph().initializer(0);
  tied->set_name(std::string("tied"));
  auto* small = testing::add_initializer(m.mutable_graph(), "inline", 1, {1});
  small->set_raw_data("abcd");
  auto model = load(m);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  const TestFolder out;
  ASSERT_TRUE(save_model(*model, out / "o.onnx").ok());
  EXPECT_EQ(out.files(), 2);
  EXPECT_EQ(testing::read_file(out / "o.onnx.data"), bytes_.substr(8, 16));  // tied tensors once
  onnx::ModelProto after;
  ASSERT_TRUE(after.ParseFromString(testing::read_file(out / "o.onnx")));
  const auto& w = after.graph().initializer(0);
  EXPECT_EQ(w.doc_string(), "doc");
  std::map<std::string, std::string> entries;
  for (const auto& e : w.external_data()) entries[e.key()] = e.value();
  EXPECT_EQ(entries,
            (std::map<std::string, std::string>{{"location", "o.onnx.data"}, {"offset", "0"}, {"length", "16"}, {"mine", "kept"}}));
  EXPECT_EQ(after.graph().initializer(2).raw_data(), "abcd");
  auto again = load_model(out / "o.onnx");
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  EXPECT_TRUE(identical(again->graph.initializers[0].tensor, model->graph.initializers[0].tensor));
  auto bytes = serialize_model(*model);  // without a file beside it, the data goes inside
  ASSERT_TRUE(bytes.ok());
  auto inside = parse_model(*bytes, "");
  ASSERT_TRUE(inside.ok()) << message_of(inside.status());
  EXPECT_TRUE(identical(inside->graph.initializers[1].tensor, model->graph.initializers[1].tensor));
}

TEST_F(ExternalData, AResultMayReplaceItsInput) {
  testing::write_file(folder_ / "m.onnx.data", bytes_);
  onnx::ModelProto m = external_model({{"location", "m.onnx.data"}, {"offset", "32"}, {"length", "16"}});
  auto* second = m.mutable_graph()->add_initializer();
  *second = m.graph().initializer(0);
  second->set_name(std::string("v"));
  second->mutable_external_data(1)->set_value(std::string("0"));
  auto model = load(m);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(save_model(*model, folder_ / "m.onnx").ok());
    EXPECT_EQ(std::memcmp(model->graph.initializers[0].tensor.bytes().data(), bytes_.data() + 32, 16), 0);
    auto again = load_model(folder_ / "m.onnx");
    ASSERT_TRUE(again.ok()) << message_of(again.status());
    EXPECT_EQ(std::memcmp(again->graph.initializers[0].tensor.bytes().data(), bytes_.data() + 32, 16), 0);
    EXPECT_EQ(std::memcmp(again->graph.initializers[1].tensor.bytes().data(), bytes_.data(), 16), 0);
    model = std::move(again);
  }
}

TEST_F(ExternalData, OfAttributesMovesToo) {
  onnx::ModelProto m = testing::small_model();
  auto* constant = testing::add_node(m.mutable_graph(), "Constant", {}, {"k"});
  constant->set_doc_string("doc");
  auto* t = testing::add_attribute(constant, "value", onnx::AttributeProto::TENSOR)->mutable_t();
  *t = external_model({{"location", "w.bin"}, {"offset", "16"}, {"length", "16"}}).graph().initializer(0);
  auto model = load(m);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  const TestFolder out;
  ASSERT_TRUE(save_model(*model, out / "o.onnx").ok());
  EXPECT_EQ(testing::read_file(out / "o.onnx.data"), bytes_.substr(16, 16));
  auto again = load_model(out / "o.onnx");
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  EXPECT_TRUE(identical(again->graph.nodes[1].attributes[0].t(), model->graph.nodes[1].attributes[0].t()));
  onnx::ModelProto after;
  ASSERT_TRUE(after.ParseFromString(testing::read_file(out / "o.onnx")));
  EXPECT_EQ(after.graph().node(1).doc_string(), "doc");
  EXPECT_EQ(after.graph().node(1).attribute(0).t().name(), "w");
}

TEST_F(ExternalData, InlineDataGoesOutWhenAsked) {
  onnx::ModelProto m = testing::small_model();
  testing::add_initializer(m.mutable_graph(), "big", 2, {100000})->set_raw_data(std::string(100000, 'b'));
  testing::add_initializer(m.mutable_graph(), "middle", 2, {2000})->set_raw_data(std::string(2000, 'm'));
  testing::add_initializer(m.mutable_graph(), "small", 2, {3})->set_raw_data("abc");
  auto model = load(m);
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE(save_model(*model, folder_ / "in.onnx").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "in.onnx.data"));
  SaveOptions by_size;
  by_size.max_inline_bytes = 1000;
  ASSERT_TRUE(save_model(*model, folder_ / "out.onnx", by_size).ok());
  const std::string data = testing::read_file(folder_ / "out.onnx.data");
  ASSERT_TRUE(data.size() >= 102000);
  EXPECT_EQ(data.substr(0, 100000), std::string(100000, 'b'));
  auto again = load_model(folder_ / "out.onnx");
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  EXPECT_EQ(again->graph.initializers[0].tensor.file_range()->offset % 4096, 0u);
  EXPECT_EQ(again->graph.initializers[2].tensor.file_range(), nullptr);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(identical(again->graph.initializers[i].tensor, model->graph.initializers[i].tensor));
}

TEST_F(ExternalData, NewTensorsJoinAModelThatIsExternal) {
  auto model = load(external_model({{"location", "w.bin"}}));
  ASSERT_TRUE(model.ok());
  Tensor made(DType::kFloat, {1000});
  made.mutable_as<float>()[999] = 7;
  model->graph.initializers.push_back({"made", made, nullptr, false});
  ASSERT_TRUE(save_model(*model, folder_ / "o.onnx").ok());
  auto again = load_model(folder_ / "o.onnx");
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  EXPECT_NE(again->graph.initializers[1].tensor.file_range(), nullptr);
  EXPECT_TRUE(identical(again->graph.initializers[1].tensor, made));
}

TEST_F(ExternalData, FailuresLeaveNothing) {
  auto model = load(external_model({{"location", "w.bin"}}));
  ASSERT_TRUE(model.ok());
  const TestFolder out;
  std::filesystem::create_directory(out / "o.onnx.data");  // the data file cannot be made
  const absl::Status status = save_model(*model, out / "o.onnx");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(message_of(status).find("o.onnx.data: cannot write"), std::string::npos) << message_of(status);
  EXPECT_EQ(out.files(), 1);
}

// Weights are copied file to file: memory stays far below their size. The file is sparse and takes no room.
TEST_F(ExternalData, BigWeightsTakeNoMemory) {
  constexpr std::int64_t kElements = 64LL << 20;  // 256 MB
  testing::write_file(folder_ / "w.bin", "");
  std::filesystem::resize_file(folder_ / "w.bin", static_cast<std::uintmax_t>(kElements) * 4);
  const auto peak_mb = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  const long before = peak_mb();
  auto model = load(external_model({{"location", "w.bin"}}, kElements));
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  ASSERT_TRUE(save_model(*model, folder_ / "o.onnx").ok());
  EXPECT_EQ(std::filesystem::file_size(folder_ / "o.onnx.data"), static_cast<std::uintmax_t>(kElements) * 4);
  EXPECT_LT(peak_mb() - before, 60);
}

}  // namespace
}  // namespace saturate
