// What the inputs of a model hold, as far as their types and their readers tell: one row a kind, of which the sizes of open dims are
// assumed (assumed_sizes.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "onnx_bridge/model/model.h"

namespace saturate {

// What an axis counts, and the sizes that are tried for it, the usual one first.
struct AxisRole {
  char sign;
  std::string_view what;
  std::array<std::int64_t, 8> sizes;  // 0: no more
};
inline constexpr AxisRole kAxisRoles[] = {
    {'b', "", {1}},
    {'t', "tokens", {128, 64, 32, 16, 77, 256, 512, 8}},
    {'n', "new tokens", {1}},
    {'p', "past tokens", {128, 64, 32, 16, 512, 8}},
    {'a', "past and new tokens", {129, 128, 64, 32, 16, 1}},
    {'x', "pixels", {224, 320, 256, 512, 640, 48, 32, 64}},
    {'v', "voxels", {64, 32, 16, 96, 128}},
    {'c', "channels", {3, 1, 4}},
    {'s', "samples", {16000, 8000, 512, 576, 1536, 48000, 4096, 256}},
    {'f', "frames", {100, 128, 200, 1000, 3000, 80, 64, 32}},
    {'e', "elements", {128, 64, 32, 16, 8, 4, 2, 1}},
};

// How the graph reads an input, as it is or through operators that only move or scale its elements.
enum class ReadAs : std::uint8_t { kAnything, kPast, kCarried, kState, kSteps, kWindow, kSound, kRows };  // kCarried: from call to call

// The first row that fits an input tells what its axes count. Where a symbol stands in several inputs, the one with the first row tells.
struct InputKind {
  enum class Types : std::uint8_t { kFloats, kPixels, kBytes, kIds, kAll };  // kPixels: floats and bytes
  std::string_view what;
  Types types;
  // A sign for each axis: '?' open, 'd' 1, 3 or 4, 'c' these or open, a digit itself, '#' a number, '.' any. A '*'
  // behind the last: it is for all further axes, too.
  std::string_view dims;
  ReadAs read;
  std::string_view roles;  // AxisRole::sign; its last is for all further axes
};
inline constexpr InputKind kInputKinds[] = {
    {"cached keys and values", InputKind::Types::kFloats, "2....", ReadAs::kPast, "bbppp"},
    {"cached keys and values", InputKind::Types::kFloats, "...*", ReadAs::kPast, "bpp"},
    {"state of a recurrent operator", InputKind::Types::kFloats, ".*", ReadAs::kState, "b"},
    {"steps of a recurrent operator", InputKind::Types::kFloats, "...", ReadAs::kSteps, "tbe"},
    {"ids that index a table", InputKind::Types::kIds, "?", ReadAs::kRows, "t"},
    {"ids that index a table", InputKind::Types::kIds, "..*", ReadAs::kRows, "bt"},
    {"ids, masks", InputKind::Types::kIds, "..*", ReadAs::kAnything, "bt"},
    {"pictures, channels first", InputKind::Types::kPixels, ".d..", ReadAs::kWindow, "bcx"},
    {"pictures, channels last", InputKind::Types::kPixels, "...d", ReadAs::kWindow, "bxxc"},
    {"pictures, channels first", InputKind::Types::kPixels, ".c..", ReadAs::kWindow, "bcx"},
    {"pictures, channels last", InputKind::Types::kPixels, "...c", ReadAs::kWindow, "bxxc"},
    {"pictures, channels first", InputKind::Types::kPixels, ".3..", ReadAs::kAnything, "bcx"},
    {"pictures, channels last", InputKind::Types::kPixels, "...3", ReadAs::kAnything, "bxxc"},
    {"a picture, channels last", InputKind::Types::kBytes, "??c", ReadAs::kAnything, "xxc"},
    {"a picture, channels first", InputKind::Types::kBytes, "c??", ReadAs::kAnything, "cxx"},
    {"volumes", InputKind::Types::kPixels, ".....", ReadAs::kWindow, "bcv"},
    {"feature maps", InputKind::Types::kFloats, "....", ReadAs::kWindow, "bcx"},
    {"sound", InputKind::Types::kFloats, "?", ReadAs::kSound, "s"},
    {"sound", InputKind::Types::kFloats, ".?", ReadAs::kSound, "bs"},
    {"sound", InputKind::Types::kFloats, "?", ReadAs::kWindow, "s"},
    {"sound", InputKind::Types::kFloats, ".?", ReadAs::kWindow, "bs"},
    {"sound", InputKind::Types::kFloats, ".1?", ReadAs::kWindow, "bcs"},
    {"sound, two channels", InputKind::Types::kFloats, ".2?", ReadAs::kWindow, "bcs"},
    {"features of sound", InputKind::Types::kFloats, "..?", ReadAs::kWindow, "bcf"},
    {"features of sound", InputKind::Types::kFloats, ".?#", ReadAs::kWindow, "bf"},
    {"rows for tokens", InputKind::Types::kFloats, "...*", ReadAs::kAnything, "bt"},
    {"rows", InputKind::Types::kAll, "..*", ReadAs::kAnything, "be"},
    {"ids, lengths", InputKind::Types::kIds, "?", ReadAs::kAnything, "t"},
    {"numbers", InputKind::Types::kAll, "?", ReadAs::kAnything, "e"},
};

// How each input is read, bodies included; those that are read in several ways have all of them.
std::map<std::string, std::set<ReadAs>> readings_of(const Graph& graph);
// Its row; kInputKinds has one for every input of a rank.
const InputKind* kind_of(const ValueType& type, const std::set<ReadAs>& readings);
const AxisRole& role_of(const InputKind& kind, std::size_t axis);
// One of kAxisRoles.
const AxisRole& role_with(char sign);

}  // namespace saturate
