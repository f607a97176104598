#include "onnx_bridge/file/foreign.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "fmt/format.h"
#include "onnx_bridge/file/proto/fields.h"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExportTorch = "load it in PyTorch and write the model by torch.onnx.export";
constexpr std::string_view kExportTensorFlow = "`python -m tf2onnx.convert` makes a model of it";

struct Magic {
  std::size_t at;
  std::string_view bytes, what, how;
};

constexpr std::array kMagics{
    Magic{0, "version https://git-lfs.github.com/"sv, "a git-lfs pointer, not the file that it stands for", "run `git lfs pull`"},
    Magic{0, "GGUF"sv, "a GGUF file, weights of llama.cpp without a graph", "export the original model by optimum or torch.onnx.export"},
    Magic{4, "TFL3"sv, "a TensorFlow Lite model", "`python -m tf2onnx.convert --tflite` makes a model of it"},
    Magic{4, "ORTM"sv, "a model in ONNX Runtime's own format (.ort)", "take the .onnx file that it was made of"},
    Magic{0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, such as Keras writes", kExportTensorFlow},
    Magic{0, "ptrt"sv, "a TensorRT plan, compiled for one GPU", "take the .onnx file that it was made of"},
    Magic{0, "ftrt"sv, "a TensorRT plan, compiled for one GPU", "take the .onnx file that it was made of"},
    Magic{0, "\x93NUMPY"sv, "an array of NumPy, not a model", "give it by --inputs, as .npz"},
    Magic{0, "\x1f\x8b"sv, "compressed by gzip", "unpack it by gunzip"},
    Magic{0, "\xfd\x37zXZ\0"sv, "compressed by xz", "unpack it by unxz"},
    Magic{0, "\x28\xb5\x2f\xfd"sv, "compressed by zstd", "unpack it by unzstd"},
    Magic{0, "BZh"sv, "compressed by bzip2", "unpack it by bunzip2"},
    Magic{0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "unpack it"},
    Magic{257, "ustar"sv, "a tar archive", "unpack it by tar"},
    Magic{0,
          "\x7f"
          "ELF"sv,
          "a program or a library", "name the model"},
    Magic{0, "%PDF"sv, "a PDF document", "name the model"},
};

std::string told(std::string_view what, std::string_view how) { return fmt::format("this is {}; {}", what, how); }

bool begins_with(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() && std::equal(lower_case.begin(), lower_case.end(), text.begin(),
                                                        [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

// PK: the names of the first entries stand in the head.
std::string zip_format(std::string_view head) {
  const auto holds = [&](std::string_view name) { return head.find(name) != std::string_view::npos; };
  if (holds("data.pkl") || holds("/version") || holds("archive_format") || holds("/byteorder"))
    return told("a PyTorch checkpoint or program", kExportTorch);
  if (holds("model.weights.h5") || holds("metadata.json")) return told("a Keras model", kExportTensorFlow);
  if (holds(".npy")) return told("a file of NumPy arrays, not a model", "give it by --inputs");
  return told("a zip archive, or a PyTorch checkpoint", fmt::format("unpack it, or {}", kExportTorch));
}

std::string text_format(std::string_view head) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  head.remove_prefix(static_cast<std::size_t>(std::find_if_not(head.begin(), head.end(), blank) - head.begin()));
  if (begins_with(head, "<!doctype html") || begins_with(head, "<html"))
    return told("an HTML page, such as a server sends in place of a file", "download the model again, by the address of the file itself");
  if (begins_with(head, "<?xml") && head.find("<net") != std::string_view::npos)
    return told("a model of OpenVINO", "take the .onnx file that it was made of");
  return "";
}

// A length of 8 bytes, then JSON of so many.
bool is_safetensors(std::string_view head) {
  if (head.size() < 10 || head[8] != '{') return false;
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = (length << 8) | static_cast<unsigned char>(head[static_cast<std::size_t>(i)]);
  return length < (std::uint64_t{1} << 32) && (head[9] == '"' || head[9] == '}');
}

// A pickle of protocol 2 to 5, as torch.save wrote it in its older form.
bool is_pickle(std::string_view head) { return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5; }

// GraphDef begins with a node (field 1 is a message; a ModelProto's is a number); SavedModel with its version and a MetaGraphDef, which
// begins with a message, where a ModelProto has the producer's name.
bool is_tensorflow(std::string_view head) {
  if (head.size() < 8) return false;
  if (head[0] == '\x0a') {
    std::size_t at = 1;
    while (at < head.size() && (static_cast<unsigned char>(head[at]) & 0x80) != 0) ++at;
    return at + 3 < head.size() && head[at + 1] == '\x0a' && std::isprint(static_cast<unsigned char>(head[at + 3])) != 0;
  }
  if (head[0] != '\x08' || head[1] != '\x01' || head[2] != '\x12') return false;
  std::size_t at = 3;
  while (at < head.size() && (static_cast<unsigned char>(head[at]) & 0x80) != 0) ++at;
  return at + 1 < head.size() && head[at + 1] == '\x0a';
}

std::vector<std::string> models_in(const std::filesystem::path& folder) {
  constexpr std::size_t kMostLooked = 10000;
  std::vector<std::string> out;
  std::error_code error;
  std::size_t looked = 0;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       !error && it != std::filesystem::directory_iterator() && looked < kMostLooked; it.increment(error), ++looked) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".onnx") || name.ends_with(".onnxtxt")) out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string foreign_format(std::string_view head) {
  for (const Magic& magic : kMagics)
    if (head.size() >= magic.at && head.substr(magic.at).starts_with(magic.bytes)) return told(magic.what, magic.how);
  if (head.starts_with("PK\x03\x04"sv)) return zip_format(head);
  if (is_safetensors(head))
    return told("a safetensors file, weights without a graph", "export the model that has them by optimum or torch.onnx.export");
  if (is_pickle(head)) return told("a pickle, such as an older PyTorch checkpoint", kExportTorch);
  if (is_tensorflow(head)) return told("a model of TensorFlow (.pb)", kExportTensorFlow);
  return text_format(head);
}

std::string no_file(const std::string& path, int error) {
  const std::string text = fmt::format("cannot open: {}", std::strerror(error));
  if (error != ENOENT) return text + "; check its rights";
  const std::filesystem::path given = path;
  const std::filesystem::path folder = given.has_parent_path() ? given.parent_path() : std::filesystem::path(".");
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return fmt::format("{}; there is no folder {}", text, folder.string());
  const auto beside = [&](const std::string& name) { return given.has_parent_path() ? (folder / name).string() : name; };
  std::vector<std::string> models = models_in(folder);
  if (models.empty()) return fmt::format("{}; there is no .onnx file beside it", text);
  const std::string near = nearest(given.filename().string(), models);
  if (!near.empty()) return fmt::format("{}; did you mean {}?", text, beside(near));
  return fmt::format("{}; {}", text, what_instead("", models));
}

std::string folder_for_model(const std::string& path) {
  const std::vector<std::string> models = models_in(path);
  const std::string text = "this is a folder, not a model";
  if (models.empty()) return text + "; there is no .onnx file in it";
  const auto usual = std::find(models.begin(), models.end(), "model.onnx");
  const std::string inside = (std::filesystem::path(path) / (usual == models.end() ? models.front() : *usual)).string();
  return models.size() == 1 || usual != models.end() ? fmt::format("{}; did you mean {}?", text, inside)
                                                     : fmt::format("{}; {}", text, what_instead("", models));
}

}  // namespace saturate
