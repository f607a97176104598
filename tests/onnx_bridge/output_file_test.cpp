#include "onnx_bridge/file/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/save_files.h"
#include "proto_models.h"

namespace saturate {
namespace {

using testing::TestFolder;

std::string why_refused(const std::string& path) { return std::string(destination_of(path).status().message()); }

void put_file(const std::string& path, const std::string& bytes) {
  const auto to = destination_of(path);
  ASSERT_TRUE(to.ok()) << to.status();
  OutputFile file;
  ASSERT_TRUE(file.open(*to, to->old ? &*to->old : nullptr).ok());
  ASSERT_TRUE(write_fully(file.fd(), bytes, path).ok());
  file.sign();
  ASSERT_TRUE(file.sync().ok());
  ASSERT_TRUE(file.put(to->name, true).ok());
}

TEST(OutputFile, IsThereWholeOrNotAtAll) {
  const TestFolder folder;
  const auto to = destination_of(folder / "x");
  ASSERT_TRUE(to.ok());
  {
    OutputFile file;
    ASSERT_TRUE(file.open(*to, nullptr).ok());
    ASSERT_TRUE(write_fully(file.fd(), "half", "x").ok());
    EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  }
  EXPECT_EQ(folder.files(), 0);
  put_file(folder / "x", "first");
  put_file(folder / "x", "second");
  EXPECT_EQ(testing::read_file(folder / "x"), "second");
  EXPECT_EQ(folder.files(), 1);
}

TEST(OutputFile, ANameThatIsTakenStaysSo) {
  const TestFolder folder;
  put_file(folder / "x", "old");
  const auto to = destination_of(folder / "x");
  OutputFile file;
  ASSERT_TRUE(file.open(*to, nullptr).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(file.put("x", false)));
  ASSERT_TRUE(file.put("y", false).ok());
  ASSERT_TRUE(file.put("z", true).ok());  // a second name of the same bytes
  EXPECT_EQ(testing::read_file(folder / "x"), "old");
  EXPECT_EQ(folder.files(), 3);
}

TEST(OutputFile, LinksAreFollowedAndModesKept) {
  const TestFolder folder, other;
  std::filesystem::create_symlink(other / "real", folder / "link");
  put_file(folder / "link", "a");
  ASSERT_EQ(::chmod((other / "real").c_str(), 0600), 0);
  put_file(folder / "link", "b");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(testing::read_file(other / "real"), "b");
  struct stat info {};
  ASSERT_EQ(::stat((other / "real").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(OutputFile, WhatIsNoPlaceForAFile) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/stdout", folder / "link");
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_NE(why_refused(folder / "pipe").find("no regular file"), std::string::npos);
  EXPECT_NE(why_refused(folder / "link").find("belongs to the system"), std::string::npos);
  EXPECT_NE(why_refused(folder / "loop").find("in a circle"), std::string::npos);
  EXPECT_NE(why_refused("/dev/null").find("belongs to the system"), std::string::npos);
  EXPECT_NE(why_refused("/proc/x").find("belongs to the system"), std::string::npos);
  EXPECT_NE(why_refused(folder / "no/such").find("No such file"), std::string::npos);
  EXPECT_NE(why_refused(folder / std::string(256, 'n')).find("256 bytes"), std::string::npos);
  EXPECT_EQ(why_refused(folder / std::string(255, 'n')), "");
  EXPECT_TRUE(is_stream("/dev/null"));
  EXPECT_TRUE(is_stream(folder / "pipe"));
  EXPECT_FALSE(is_stream(folder / "none"));
}

TEST(OutputFile, SignaturesEndWithTheNextWrite) {
  const TestFolder folder;
  put_file(folder / "x", "bytes");
  if (!is_signed(folder / "x")) GTEST_SKIP() << "no extended attributes here";
  testing::write_file(folder / "x", "others");
  EXPECT_FALSE(is_signed(folder / "x"));
  EXPECT_FALSE(is_signed(folder / "none"));
}

TEST(OutputFile, OnePlaceUnderManyNames) {
  const TestFolder folder;
  testing::write_file(folder / "x", "bytes");
  std::filesystem::create_symlink("x", folder / "link");
  std::filesystem::create_hard_link(folder / "x", folder / "hard");
  EXPECT_TRUE(same_place(folder / "x", folder / "./x"));
  EXPECT_TRUE(same_place(folder / "x", folder / "link"));
  EXPECT_TRUE(same_place(folder / "x", folder / "hard"));
  EXPECT_TRUE(same_place(folder / "new", folder / "./new"));
  EXPECT_FALSE(same_place(folder / "x", folder / "new"));
  EXPECT_FALSE(same_place("", ""));
}

// y = Relu(x) with weights outside: `rows` numbers `fill`.
Model with_weights(float fill) {
  onnx::ModelProto m = testing::small_model();
  const std::vector<float> values(1000, fill);
  testing::add_initializer(m.mutable_graph(), "w", 1, {1000})
      ->set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  auto model = parse_model(m.SerializeAsString(), "");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::string save_outside(const Model& model, const std::string& path) {
  SaveOptions options;
  std::string data;
  options.force_external = true;
  options.data_file = &data;
  const absl::Status status = save_model(model, path, options);
  EXPECT_TRUE(status.ok()) << status;
  return data;
}

float first_weight(const std::string& path) {
  const auto model = load_model(path);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return 0;
  for (const Initializer& i : model->graph.initializers)
    if (i.name == "w") return i.tensor.span<float>()[0];
  return 0;
}

TEST(DataNames, DataOfOthersStays) {
  const TestFolder folder;
  EXPECT_EQ(save_outside(with_weights(1), folder / "a.onnx"), (folder / "a.onnx.data").string());
  std::filesystem::rename(folder / "a.onnx", folder / "b.onnx");  // which refers to a.onnx.data
  EXPECT_EQ(save_outside(with_weights(2), folder / "a.onnx"), (folder / "a.onnx.2.data").string());
  EXPECT_EQ(first_weight(folder / "b.onnx"), 1);
  EXPECT_EQ(first_weight(folder / "a.onnx"), 2);
  EXPECT_EQ(save_outside(with_weights(3), folder / "a.onnx"), (folder / "a.onnx.3.data").string());
  EXPECT_EQ(first_weight(folder / "b.onnx"), 1);
  EXPECT_EQ(first_weight(folder / "a.onnx"), 3);
}

TEST(DataNames, OwnDataIsReplacedUnderItsName) {
  const TestFolder folder;
  for (int round = 1; round < 4; ++round) {
    EXPECT_EQ(save_outside(with_weights(static_cast<float>(round)), folder / "a.onnx"), (folder / "a.onnx.data").string());
    EXPECT_EQ(first_weight(folder / "a.onnx"), static_cast<float>(round));
    EXPECT_EQ(folder.files(), 2);
  }
}

// What a run leaves that is killed between the two renames of a model's second writing.
TEST(DataNames, TwoNamesOfOneModelLoad) {
  const TestFolder folder;
  save_outside(with_weights(5), folder / "a.onnx");
  std::filesystem::create_hard_link(folder / "a.onnx.data", folder / "a.onnx.2.data");
  EXPECT_EQ(first_weight(folder / "a.onnx"), 5);
  EXPECT_EQ(save_outside(with_weights(6), folder / "a.onnx"), (folder / "a.onnx.data").string());
  EXPECT_EQ(first_weight(folder / "a.onnx"), 6);
  const TestFolder other;
  std::filesystem::create_hard_link(folder / "a.onnx.data", other / "a.onnx.2.data");
  EXPECT_FALSE(load_model(folder / "a.onnx").ok()) << "a name in another folder";
}

TEST(DataNames, CancelledSavesWriteNothing) {
  const TestFolder folder;
  const std::atomic<bool> cancel = true;
  SaveOptions options;
  options.force_external = true;
  options.cancel = &cancel;
  EXPECT_TRUE(absl::IsCancelled(save_model(with_weights(1), folder / "a.onnx", options)));
  EXPECT_EQ(folder.files(), 0);
}

}  // namespace
}  // namespace saturate
