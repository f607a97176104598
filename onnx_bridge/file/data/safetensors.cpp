#include "onnx_bridge/file/data/safetensors.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr std::size_t kHeaderAlignment = 64;  // of the data behind it

// "" where the format has none.
std::string_view word_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "BOOL";
    case DType::kUint8:
      return "U8";
    case DType::kInt8:
      return "I8";
    case DType::kUint16:
      return "U16";
    case DType::kInt16:
      return "I16";
    case DType::kUint32:
      return "U32";
    case DType::kInt32:
      return "I32";
    case DType::kUint64:
      return "U64";
    case DType::kInt64:
      return "I64";
    case DType::kFloat16:
      return "F16";
    case DType::kBfloat16:
      return "BF16";
    case DType::kFloat:
      return "F32";
    case DType::kDouble:
      return "F64";
    case DType::kFloat8e4m3fn:
      return "F8_E4M3";
    case DType::kFloat8e5m2:
      return "F8_E5M2";
    default:
      return "";
  }
}

// A name that the header does not have yet.
std::string free_name(const std::string& wanted, std::size_t place, std::set<std::string>& taken) {
  std::string name = wanted.empty() || wanted == "__metadata__" ? fmt::format("tensor_{}", place) : wanted;
  while (!taken.insert(name).second) name += fmt::format("_{}", place);
  return name;
}

}  // namespace

std::string lay_out_safetensors(std::vector<SafetensorsEntry>& entries) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bit_width(entries[a].dtype) > bit_width(entries[b].dtype); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  header["__metadata__"] = {{"format", "onnx"}};
  std::set<std::string> taken;
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    SafetensorsEntry& e = entries[i];
    const std::string_view word = word_of(e.dtype);
    e.name = free_name(e.name, i, taken);
    e.offset = at;
    at += e.bytes;
    header[e.name] = {{"dtype", word.empty() ? "U8" : word},
                      {"shape", word.empty() ? Shape{static_cast<std::int64_t>(e.bytes)} : e.dims},
                      {"data_offsets", {e.offset, at}}};
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  text.resize((text.size() + kLength + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment - kLength, ' ');
  std::string front;
  for (std::size_t i = 0; i < kLength; ++i) front += static_cast<char>(text.size() >> (8 * i) & 0xff);
  front += text;
  for (SafetensorsEntry& e : entries) e.offset += front.size();
  return front;
}

}  // namespace saturate
