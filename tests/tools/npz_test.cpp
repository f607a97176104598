#include "tools/io/npz.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "onnx_bridge/file/data_file.h"
#include "tools/io/files.h"

namespace saturate {
namespace {

class NpzTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "saturate_npz_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

Tensor floats(Shape dims, std::vector<float> values) { return Tensor::of<float>(DType::kFloat, std::move(dims), values); }

// A version 1.0 header around `data`, as numpy writes it.
std::string npy(const std::string& dict, const std::string& data) {
  std::string header = dict;
  header += std::string(63 - (10 + header.size()) % 64, ' ') + '\n';
  std::string out = "\x93NUMPY";
  out += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return out + header + data;
}

TEST_F(NpzTest, EveryDtypeComesBack) {
  NamedTensors tensors;
  for (DType dtype :
       {DType::kBool, DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16, DType::kInt32, DType::kUint32, DType::kInt64,
        DType::kUint64, DType::kFloat16, DType::kFloat, DType::kDouble, DType::kComplex64, DType::kComplex128, DType::kBfloat16}) {
    Tensor t(dtype, {2, 3});
    for (std::size_t i = 0; i < t.bytes().size(); ++i) t.mutable_data()[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : i * 7);
    tensors.emplace_back("a/" + dtype_name(dtype), t);
  }
  tensors.emplace_back("scalar", Tensor::scalar_int64(-5));
  tensors.emplace_back("empty", floats({0, 4}, {}));
  tensors.emplace_back("text", Tensor::strings({3}, {"", "grün", "\xf0\x9f\x90\x8d!"}));
  ASSERT_TRUE(save_npz(tensors, path("x.npz")).ok());
  const auto loaded = load_npz(path("x.npz"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*loaded)[i].first, tensors[i].first);
    EXPECT_TRUE(identical((*loaded)[i].second, tensors[i].second)) << tensors[i].first;
  }
}

TEST_F(NpzTest, SameTensorsSameBytes) {
  const NamedTensors tensors{{"x", floats({2}, {1, 2})}};
  ASSERT_TRUE(save_npz(tensors, path("a.npz")).ok());
  ASSERT_TRUE(save_npz(tensors, path("b.npz")).ok());
  EXPECT_EQ(*read_data_file(path("a.npz")), *read_data_file(path("b.npz")));
}

TEST_F(NpzTest, DamageIsSeen) {
  ASSERT_TRUE(save_npz({{"x", floats({4}, {1, 2, 3, 4})}}, path("x.npz")).ok());
  const std::string good = *read_data_file(path("x.npz"));
  for (std::size_t cut = 0; cut < good.size(); cut += 7) {
    ASSERT_TRUE(write_file(path("cut.npz"), good.substr(0, cut)).ok());
    EXPECT_FALSE(load_npz(path("cut.npz")).ok()) << cut;
  }
  std::string flipped = good;
  flipped[good.find("NUMPY") + 130] ^= 1;  // inside the data: the checksum tells
  ASSERT_TRUE(write_file(path("flipped.npz"), flipped).ok());
  EXPECT_FALSE(load_npz(path("flipped.npz")).ok());
}

TEST_F(NpzTest, NothingCountsTwice) {
  ASSERT_TRUE(save_npz({{"x", floats({4}, {1, 2, 3, 4})}, {"y", floats({4}, {1, 2, 3, 4})}}, path("x.npz")).ok());
  EXPECT_TRUE(load_npz(path("x.npz"), 400).ok());
  EXPECT_FALSE(load_npz(path("x.npz"), 200).ok()) << "each is smaller, both together are not";
  std::string bytes = *read_data_file(path("x.npz"));
  const std::size_t second = bytes.rfind("y.npy");  // in the directory; its place in the file stands last in the field behind it
  for (std::size_t i = 0; i < 8; ++i) bytes[second + 5 + 4 + 16 + i] = 0;
  ASSERT_TRUE(write_file(path("twice.npz"), bytes).ok());
  const auto loaded = load_npz(path("twice.npz"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(std::string(loaded.status().message()).find("lie over each other"), std::string::npos) << loaded.status();
}

TEST(Npy, StringsWithoutBytes) {
  const auto refused = [](const std::string& dict) { return !parse_npy(npy(dict, ""), "place").ok(); };
  EXPECT_TRUE(refused("{'descr': '<U0', 'fortran_order': False, 'shape': (300000000,), }"));
  EXPECT_TRUE(refused("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000000,), }"));
  EXPECT_FALSE(refused("{'descr': '<U0', 'fortran_order': False, 'shape': (3,), }"));
}

TEST_F(NpzTest, MissingFileSaysSo) {
  const auto loaded = load_npz(path("none.npz"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_TRUE(std::string(loaded.status().message()).starts_with(path("none.npz")));
}

TEST_F(NpzTest, UnwritableFolderLeavesNothing) {
  EXPECT_FALSE(save_npz({{"x", floats({1}, {1})}}, path("no/such/folder/x.npz")).ok());
  EXPECT_FALSE(write_file(folder_.string(), "x").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST(Npy, FortranOrderBecomesC) {
  const std::int32_t columns[] = {1, 4, 2, 5, 3, 6};
  const auto t = parse_npy(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                               std::string(reinterpret_cast<const char*>(columns), sizeof columns)),
                           "x");
  ASSERT_TRUE(t.ok()) << t.status();
  const std::int32_t rows[] = {1, 2, 3, 4, 5, 6};
  EXPECT_TRUE(std::equal(std::begin(rows), std::end(rows), t->data<std::int32_t>()));
}

TEST(Npy, BigEndianIsSwapped) {
  const auto t = parse_npy(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", std::string("\x01\x02\x03\x04", 4)), "x");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->data<std::int16_t>()[0], 0x0102);
  EXPECT_EQ(t->data<std::int16_t>()[1], 0x0304);
}

TEST(Npy, RefusesWhatItCantHold) {
  const auto message = [](const std::string& dict, const std::string& data) {
    const auto t = parse_npy(npy(dict, data), "place");
    return t.ok() ? std::string("ok") : std::string(t.status().message());
  };
  EXPECT_NE(message("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "x").find("Python objects"), std::string::npos);
  EXPECT_NE(message("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "12345678").find("cut off"), std::string::npos);
  EXPECT_NE(
      message("{'descr': '<f4', 'fortran_order': False, 'shape': (461168601842738790, 461168601842738790), }", "1234").find("cut off"),
      std::string::npos);
  EXPECT_NE(message("{'descr': '<f4', 'shape': (3,), }", "").find("header"), std::string::npos);
  EXPECT_NE(message("{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", std::string(16, 0)).find("f16"), std::string::npos);
}

TEST_F(NpzTest, ReadsWhatNumpyPacked) {
  const std::string data = SATURATE_SOURCE_DIR "/tests/data/";
  const auto packed = load_npz(data + "numpy_compressed.npz");
  ASSERT_TRUE(packed.ok()) << packed.status();
  ASSERT_EQ(packed->size(), 4u);
  for (const auto& [name, tensor] : *packed) {
    if (name == "ramp") {
      EXPECT_EQ(tensor.dims(), (Shape{1000}));
      for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(element_as_double(tensor, i), static_cast<double>(i) / 8);
    } else if (name == "words") {
      EXPECT_EQ(tensor.string_data()[1], "zwölf");
    } else if (name == "bytes") {
      EXPECT_EQ(tensor.string_data()[0], "ab");
    } else {
      EXPECT_EQ(name, "flags");
      EXPECT_EQ(tensor.dtype(), DType::kBool);
    }
  }
  EXPECT_FALSE(load_npz(data + "numpy_compressed.npz", 100).ok());  // members may unpack to 100 bytes only
}

}  // namespace
}  // namespace saturate
