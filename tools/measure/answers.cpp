#include "tools/measure/answers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/file/output_file.h"
#include "tools/io/files.h"

namespace saturate {
namespace {

using nlohmann::json;

bool is_answer(const json& line) {
  return line.is_object() && line.contains("question") && line["question"].is_object() && line.contains("answer") &&
         line["answer"].is_object();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Answers>> Answers::open(const std::string& path) {
  const auto out = std::make_shared<Answers>();
  out->path_ = path;
  if (path.empty()) return out;
  if (absl::Status s = check_writable(path); !s.ok()) return s;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return out;
  const absl::StatusOr<std::string> text = read_data_file(path, kMostNamedData);
  if (!text.ok()) return text.status();
  std::string_view left = *text;
  for (int number = 1; !left.empty(); ++number) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const absl::StatusOr<json> read = read_json(line, number);
    if (!read.ok())
      return absl::InvalidArgumentError(
          fmt::format("{}: not JSON: {}; name another file, or remove the line", path, std::string(read.status().message())));
    if (!is_answer(*read))
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: no line that --measured wrote; name another file, or remove the line", path, number));
    out->answers_.try_emplace((*read)["question"].dump(), (*read)["answer"]);
  }
  if (!text->empty() && !text->ends_with('\n')) out->unsaved_ = "\n";
  return out;
}

const json* Answers::find(const json& question) const {
  const auto it = answers_.find(question.dump());
  return it == answers_.end() ? nullptr : &it->second;
}

void Answers::add(const json& question, const json& answer) {
  if (!answers_.try_emplace(question.dump(), answer).second || path_.empty()) return;
  unsaved_ += json{{"question", question}, {"answer", answer}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::Status Answers::save() {
  if (path_.empty() || unsaved_.size() < 2) return absl::OkStatus();
  const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return absl::PermissionDeniedError(fmt::format("{}: {}; name another file by --measured", path_, std::strerror(errno)));
  const absl::Status written = write_fully(file, unsaved_, path_);
  if (::close(file) != 0 && written.ok()) return absl::UnavailableError(fmt::format("{}: {}", path_, std::strerror(errno)));
  if (written.ok()) unsaved_.clear();
  return written;
}

}  // namespace saturate
