#include "tools/cli/repro.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/file/data/external_data.h"
#include "onnx_bridge/file/output_file.h"
#include "onnx_bridge/file/save_files.h"
#include "onnx_bridge/operators/op_table.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kReproAdvice = "name a folder that is new or empty";

absl::Status repro_error(const std::string& path, const std::string& what, const char* advice) {
  return absl::InvalidArgumentError(fmt::format("{}: {}; {}", path, what, advice));
}

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags, mode_t mode = 0) : fd(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

class ReproWriter {
 public:
  ReproWriter(const OptimizeArgs& args, const Model& model, const Setup& setup) : args_(args), model_(model), setup_(setup) {}

  absl::Status run() {
    const bool is_new = ::mkdir(args_.save_repro.c_str(), 0777) == 0;
    if (!is_new && errno != EEXIST) return repro_error(args_.save_repro, std::strerror(errno), "check the path");
    if (const absl::Status s = check_repro_folder(args_.save_repro); !s.ok()) return s;
    const absl::Status status = write();
    if (!status.ok()) remove(is_new);
    return status;
  }

 private:
  std::string inside(const std::string& name) const { return args_.save_repro + "/" + name; }

  void remove(bool folder_too) const {
    std::error_code ignored;
    if (folder_too) {
      fs::remove_all(args_.save_repro, ignored);
      return;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(args_.save_repro, ignored)) fs::remove_all(entry.path(), ignored);
  }

  absl::Status write() {
    if (const absl::Status s = copy_model(); !s.ok()) return s;
    words_ = {"optimize", "model/" + base(args_.input), "-o", "out/" + base(args_.output)};
    for (const GivenOption& option : args_.given)
      if (const absl::Status s = take(option); !s.ok()) return s;
    if (const absl::Status s = write_file(inside("repro.json"), json_text(told()) + "\n"); !s.ok()) return s;
    if (const absl::Status s = write_file(inside("run.sh"), script()); !s.ok()) return s;
    ::chmod(inside("run.sh").c_str(), 0755);
    return absl::OkStatus();
  }

  static std::string base(const std::string& path) { return fs::path(path).filename().string(); }

  absl::Status copy_model() {
    if (const absl::Status s = copy(args_.input, "model/" + base(args_.input)); !s.ok()) return s;
    std::set<std::string> data;
    for_each_file_range(model_, [&](const FileRange& range) {
      if (!same_place(range.path, args_.input)) data.insert(range.path);
    });
    const fs::path folder = fs::path(args_.input).parent_path();
    for (const std::string& path : data) {
      const fs::path relative = fs::path(path).lexically_normal().lexically_relative((folder.empty() ? "." : folder).lexically_normal());
      if (relative.empty() || *relative.begin() == "..") return repro_error(path, "lies outside of the model's folder", "move it there");
      if (const absl::Status s = copy(path, "model/" + relative.string()); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // The option as it reads in the folder, and the file that it names.
  absl::Status take(const GivenOption& option) {
    if (one_of(option.name, {"IN.onnx", "OUT.onnx", "--output", "--save-repro"})) return absl::OkStatus();
    if (!option.value) {
      words_.push_back(option.name);
      return absl::OkStatus();
    }
    std::string value = *option.value;
    if (one_of(option.name, {"--report", "--html", "--dump-egraph"})) {
      if (!is_stream(value)) value = "out/" + base(value);
    } else if (const auto [kind, path] = file_of(option); !kind.empty()) {
      const std::string place = fmt::format("{}/{}/{}", kind, ++numbers_[kind], base(path));
      if (const absl::Status s = copy(path, place); !s.ok()) return s;
      if (kind == "target")
        if (const absl::Status s = copy_costs_of_target(place); !s.ok()) return s;
      value = place + value.substr(path.size());
    }
    words_.push_back(fmt::format("{}={}", option.name, value));
    return absl::OkStatus();
  }

  // The file that an option names, and the folder that it goes to; none where it names none.
  struct NamedFile {
    std::string folder, path;
  };
  static NamedFile file_of(const GivenOption& option) {
    const std::string path = option.name == "--target" ? split_release(*option.value).name_or_path : *option.value;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};  // a built-in one
    return {folder_for(option.name, path), path};
  }
  static std::string folder_for(const std::string& option, const std::string& path) {
    if (option == "--rules") return path == "none" ? "" : "rules";
    if (option == "--cost") return "costs";
    if (option == "--custom-op-library") return "libraries";
    if (one_of(option, {"--before", "--after"})) return "passes";
    if (option == "--target") return names_a_file(path) ? "target" : "";
    return one_of(option, {"--inputs", "--model-check-inputs", "--input-data-path"}) ? "inputs" : "";
  }
  static bool names_a_file(const std::string& target) {
    for (const std::string& name : builtin_targets())
      if (name == target) return false;
    return true;
  }

  // It may name a file beside it.
  absl::Status copy_costs_of_target(const std::string& place) {
    const std::string& costs = setup_.target.cost_model;
    std::error_code ignored;
    if (!fs::is_regular_file(costs, ignored)) return absl::OkStatus();
    return copy(costs, (fs::path(place).parent_path() / base(costs)).string());
  }

  absl::Status copy(const std::string& from, const std::string& name) {
    const std::string to = inside(name);
    std::error_code error;
    fs::create_directories(fs::path(to).parent_path(), error);
    if (error) return repro_error(to, error.message(), "check the folder and its rights");
    const OpenFile in(from, O_RDONLY | O_NONBLOCK);
    struct stat info {};
    if (in.fd < 0 || ::fstat(in.fd, &info) != 0) return repro_error(from, std::strerror(errno), "check the path");
    if (!S_ISREG(info.st_mode)) return repro_error(from, "is no regular file", "--save-repro copies regular files only");
    const OpenFile out(to, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (out.fd < 0) return repro_error(to, std::strerror(errno), "check the folder and its rights");
    const FileRange all{from, 0, static_cast<std::uint64_t>(info.st_size), in.fd, nullptr};
    files_.push_back({{"path", name}, {"bytes", all.length}});
    return copy_file(all, out.fd, to, args_.common.cancel);
  }

  ordered_json told() const {
    utsname machine{};
    ::uname(&machine);
    ordered_json opsets = ordered_json::object();
    for (const auto& [domain, version] : model_.opset_imports) opsets[domain.empty() ? "ai.onnx" : domain] = version;
    ordered_json command = {"saturate"};
    for (const std::string& word : words_) command.push_back(word);
    return {{"command", command},
            {"options", ordered_json(std::vector<std::string>(words_.begin() + 4, words_.end()))},
            {"seed", args_.check.seed},
            {"versions", {{"saturate", SATURATE_VERSION}, {"compiler", __VERSION__}, {"newest_opset", kNewestOpset}}},
            {"model", {{"ir_version", model_.ir_version}, {"opsets", opsets}}},
            {"machine", {{"system", machine.sysname}, {"processor", machine.machine}, {"processors", std::thread::hardware_concurrency()}}},
            {"files", files_},
            {"exit_status", nullptr},
            {"message", nullptr}};
  }

  std::string script() const {
    std::string out =
        "#!/bin/sh\n# Repeats a run of saturate; repro.json tells how it ended. SATURATE names the program.\n"
        "cd -- \"$(dirname -- \"$0\")\" || exit 1\nmkdir -p out || exit 1\nexec \"${SATURATE:-saturate}\"";
    for (const std::string& word : words_) out += " " + shell_word(word);
    return out + "\n";
  }

  const OptimizeArgs& args_;
  const Model& model_;
  const Setup& setup_;
  std::vector<std::string> words_;  // of the command, behind `saturate`
  std::map<std::string, int> numbers_;
  ordered_json files_ = ordered_json::array();
};

}  // namespace

std::string shell_word(const std::string& word) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

absl::Status check_repro_folder(const std::string& folder) {
  std::error_code error;
  const fs::file_status found = fs::status(folder, error);
  if (found.type() == fs::file_type::not_found) return absl::OkStatus();
  if (error) return repro_error(folder, error.message(), "check the path");
  if (found.type() != fs::file_type::directory) return repro_error(folder, "is there, and is no folder", kReproAdvice);
  const bool empty = fs::is_empty(folder, error);
  if (error) return repro_error(folder, error.message(), "check its rights");
  return empty ? absl::OkStatus() : repro_error(folder, "is not empty", kReproAdvice);
}

absl::Status save_repro(const OptimizeArgs& args, const Model& model, const Setup& setup) { return ReproWriter(args, model, setup).run(); }

absl::Status end_repro(const std::string& folder, int exit_status, const std::string& message) {
  const std::string path = folder + "/repro.json";
  const absl::StatusOr<std::string> text = read_data_file(path, kMostNamedData);
  if (!text.ok()) return text.status();
  ordered_json told = read_json<ordered_json>(*text).value_or(ordered_json());
  if (!told.is_object()) return repro_error(path, "was changed while the run went on", "leave it alone until the end");
  told["exit_status"] = exit_status;
  told["message"] = message;
  return write_file(path, json_text(told) + "\n");
}

}  // namespace saturate
