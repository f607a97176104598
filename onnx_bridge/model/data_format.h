// What lies in the files of external data that are written.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace saturate {

enum class DataFormat : std::uint8_t {
  kRaw,          // the bytes of tensors alone
  kSafetensors,  // with their names, dtypes and shapes in front (safetensors.h)
};

// How the names of such files end.
constexpr std::string_view suffix_of(DataFormat format) { return format == DataFormat::kSafetensors ? ".safetensors" : ".data"; }

// Of a file, by its name.
constexpr DataFormat format_of(std::string_view path) {
  return path.ends_with(suffix_of(DataFormat::kSafetensors)) ? DataFormat::kSafetensors : DataFormat::kRaw;
}

// By their names.
inline constexpr std::pair<std::string_view, DataFormat> kDataFormats[] = {{"raw", DataFormat::kRaw},
                                                                           {"safetensors", DataFormat::kSafetensors}};

}  // namespace saturate
