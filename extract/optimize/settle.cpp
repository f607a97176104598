#include "extract/optimize/settle.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "extract/target/target.h"
#include "fmt/format.h"
#include "kernels/judge/judge.h"
#include "kernels/judge/release.h"
#include "kernels/verify/choice.h"

namespace saturate {
namespace {

// Whether the files that the runtime needs lie beside the library.
bool consists_of(const Runtime& runtime, const std::string& library) {
  const std::filesystem::path folder = std::filesystem::path(library).parent_path();
  std::error_code ignored;
  return runtime.installed_with &&
         std::all_of(runtime.installed_with->begin(), runtime.installed_with->end(),
                     [&](const std::string& name) { return std::filesystem::is_regular_file(folder / name, ignored); });
}

struct FoundRelease {
  std::string version;  // "" where none is found
  std::string how;      // ", installed here"; where none is found, why
};

absl::StatusOr<FoundRelease> found_release(const Runtime& runtime, const std::string& library) {
  if (!runtime.installed_with) return FoundRelease{"", ", whatever is installed here"};
  const NamedLibrary named = named_onnxruntime(library);
  const FoundRelease none{"", ", since none is installed here"};
  if (named.path.empty()) return none;
  const absl::StatusOr<std::string> file = onnxruntime_library(named.path);
  if (!file.ok()) return named.by.empty() ? absl::StatusOr<FoundRelease>(none) : file.status();
  if (!consists_of(runtime, *file)) return FoundRelease{"", ", since what is installed here has no such provider"};
  const absl::StatusOr<std::string> release = release_of_library(*file);
  if (!release.ok()) return FoundRelease{"", fmt::format(", since {}", std::string(release.status().message()))};
  return FoundRelease{*release, named.by.empty() ? ", installed here" : fmt::format(", as {} names it", named.by)};
}

// Of a release that was named: as it is, unless it is newer than all that are known.
SettledTarget of_named_release(const std::string& given, const GivenTarget& parts) {
  if (parts.release.empty()) return {given};
  const absl::StatusOr<Target> target = load_any_release(parts.name_or_path);
  if (!target.ok() || target->runtime.releases.empty()) return {given};
  const std::string& last = target->runtime.releases.back().version;
  if (!is_before(last, parts.release)) return {given};
  return {parts.name_or_path + "@" + last,
          fmt::format("{} {}, newer than all that {} knows: taken as {}", target->runtime.name, parts.release, target->name, last), "",
          true};
}

}  // namespace

absl::StatusOr<SettledTarget> settle_target(const std::string& given, const std::string& library) {
  const GivenTarget parts = split_release(given);
  if (!parts.release.empty() || parts.name_or_path != given) return of_named_release(given, parts);
  const absl::StatusOr<Target> target = load_any_release(given);
  if (!target.ok()) return target.status();
  const Runtime& runtime = target->runtime;
  if (runtime.releases.empty()) return SettledTarget{given};
  const absl::StatusOr<FoundRelease> found = found_release(runtime, library);
  if (!found.ok()) return found.status();
  const std::string &first = runtime.releases.front().version, &last = runtime.releases.back().version;
  std::string taken = found->version.empty() ? runtime.usual().version : found->version;
  std::string said = fmt::format("{} {}{}", runtime.name, taken, found->how);
  bool is_other = found->version.empty() && runtime.installed_with;
  if (is_before(taken, first)) {
    said += fmt::format(", is older than all that {} knows: taken as {}", target->name, first);
    taken = first;
    is_other = true;
  } else if (is_before(last, taken)) {
    said += fmt::format(", is newer than all that {} knows: taken as {}", target->name, last);
    taken = last;
    is_other = true;
  }
  return SettledTarget{given + "@" + taken, said, taken == first ? "" : fmt::format("--target {}@{} for older ones", given, first),
                       is_other};
}

}  // namespace saturate
