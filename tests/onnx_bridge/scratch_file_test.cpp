#include "onnx_bridge/file/data/scratch_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "onnx_bridge/file/data/external_data.h"
#include "proto_models.h"

namespace saturate {
namespace {

using testing::TestFolder;

Tensor held(ScratchFile& file, std::uint8_t first, bool external) {
  const std::vector<std::uint8_t> bytes{first, 1, 2, 3};
  EXPECT_TRUE(file.append(std::as_bytes(std::span(bytes).first(1))).ok());
  EXPECT_TRUE(file.append(std::as_bytes(std::span(bytes).subspan(1))).ok());
  auto made = file.tensor(DType::kUint8, {2, 2}, external);
  EXPECT_TRUE(made.ok());
  return *made;
}

TEST(ScratchFile, TensorsHoldWhatWasAppendedLongerThanTheFileIsWritten) {
  TestFolder folder;
  std::vector<Tensor> tensors;
  {
    ScratchFile file(folder / "out.onnx");
    for (std::uint8_t i = 10; i < 13; ++i) tensors.push_back(held(file, i, i == 11));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].span<std::uint8_t>()[0], 10 + i);
    EXPECT_EQ(tensors[i].span<std::uint8_t>()[3], 3);
    EXPECT_TRUE(tensors[i].mapped());
    EXPECT_EQ(tensors[i].file_range() != nullptr, i == 1);
  }
  EXPECT_EQ(folder.files(), 0);
}

// A plan stores the same range of the same file once.
TEST(ScratchFile, TwoFilesAreNotTakenForOne) {
  TestFolder folder;
  ScratchFile one(folder / "out.onnx"), other(folder / "out.onnx");
  const Tensor a = held(one, 10, true), b = held(other, 20, true);
  DataFilePlan plan("out.onnx.data");
  EXPECT_EQ(plan.place(a, "a").offset, plan.place(a, "a").offset);
  EXPECT_NE(plan.place(a, "a").offset, plan.place(b, "b").offset);
}

TEST(ScratchFile, WhatIsDroppedIsNotInTheNextTensor) {
  TestFolder folder;
  ScratchFile file(folder / "out.onnx");
  const std::vector<std::byte> bytes(3);
  ASSERT_TRUE(file.append(bytes).ok());
  file.drop();
  EXPECT_EQ(held(file, 9, true).span<std::uint8_t>()[0], 9);
}

TEST(ScratchFile, AFolderThatIsNotThereTakesNone) {
  TestFolder folder;
  ScratchFile file(folder / "no/such/out.onnx");
  EXPECT_FALSE(file.append(std::vector<std::byte>(3)).ok());
}

}  // namespace
}  // namespace saturate
