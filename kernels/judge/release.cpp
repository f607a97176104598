#include "kernels/judge/release.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/judge/judge.h"

namespace saturate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostDigits = 6;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "1.31" of a text that begins with "1.31.1"; "" where it begins with less than two numbers.
std::string release_at(std::string_view text) {
  std::size_t at = 0;
  const auto number = [&] {
    const std::size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > begin && at - begin <= kMostDigits;
  };
  if (!number() || at == text.size() || text[at++] != '.' || !number()) return "";
  return std::string(text.substr(0, at));
}

std::string by_name(const fs::path& file) {
  constexpr std::string_view kBegin = "libonnxruntime.so.";
  const std::string name = file.filename().string();
  return name.starts_with(kBegin) ? release_at(std::string_view(name).substr(kBegin.size())) : "";
}

// The linker's script of ONNX Runtime gives all its symbols the version VERS_1.31.1.
std::string by_symbols(const fs::path& file) {
  constexpr std::string_view kBegin = "VERS_";
  constexpr std::size_t kOverlap = 32;  // a name that two blocks share
  std::ifstream in(file, std::ios::binary);
  auto block = std::make_unique<std::array<char, std::size_t{1} << 16>>();
  std::string text;
  do {
    in.read(block->data(), static_cast<std::streamsize>(block->size()));
    text.append(block->data(), static_cast<std::size_t>(in.gcount()));
    const bool is_last = !in;
    for (std::size_t at = text.find(kBegin); at != std::string::npos; at = text.find(kBegin, at + 1)) {
      if (!is_last && at + kOverlap > text.size()) break;  // the next block has it whole
      if (std::string release = release_at(std::string_view(text).substr(at + kBegin.size())); !release.empty()) return release;
    }
    text.erase(0, text.size() - std::min(text.size(), kOverlap));
  } while (in);
  return "";
}

// Of site-packages/onnxruntime/capi/libonnxruntime.so: site-packages/onnxruntime_gpu-1.31.1.dist-info. The one that there is, if all agree.
std::string by_package(const fs::path& file) {
  const fs::path package = file.parent_path().parent_path();
  if (package.filename() != "onnxruntime") return "";
  std::error_code ignored;
  std::string found;
  for (const fs::directory_entry& entry : fs::directory_iterator(package.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    const std::size_t dash = name.find('-');
    if (!name.starts_with("onnxruntime") || !name.ends_with(".dist-info") || dash == std::string::npos) continue;
    const std::string release = release_at(std::string_view(name).substr(dash + 1));
    if (!found.empty() && found != release) return "";
    found = release;
  }
  return found;
}

std::string by_child(const std::string& library) {
  JudgeSetup setup;
  setup.library = library;
  const auto judge = Judge::start(std::move(setup));
  return judge.ok() && (*judge)->ready().ok() ? release_at((*judge)->version()) : "";
}

}  // namespace

absl::StatusOr<std::string> release_of_library(const std::string& library) {
  std::error_code error;
  fs::path file = fs::canonical(library, error);
  if (error) file = library;
  for (const auto& tell : {by_name, by_symbols, by_package})
    if (std::string release = tell(file); !release.empty()) return release;
  if (std::string release = by_child(library); !release.empty()) return release;
  return absl::FailedPreconditionError(fmt::format("{} does not tell its release", library));
}

}  // namespace saturate
