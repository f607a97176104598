#include "kernels/verify/verify_notes.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace saturate {
namespace {

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

// "output 'y'", "outputs 'y', 'z'", "12 outputs, 'y' most of all,"
std::string subject(const std::vector<std::string>& outputs, const std::string& first) {
  constexpr std::size_t kMostNames = 3;
  if (outputs.size() == 1) return fmt::format("output '{}'", outputs[0]);
  if (outputs.size() <= kMostNames) return fmt::format("outputs '{}'", fmt::join(outputs, "', '"));
  return fmt::format("{} outputs, '{}' {},", outputs.size(), first.empty() ? outputs[0] : first,
                     first.empty() ? "among them" : "most of all");
}

// What is said of one, said of several.
std::string of_several(const std::string& what) {
  const std::size_t end = what.find(' ');
  const std::string verb = what.substr(0, end), rest = what.substr(end);
  return (verb == "was" ? "were" : verb.ends_with('s') ? verb.substr(0, verb.size() - 1) : verb) + rest;
}

}  // namespace

void VerifyNotes::allow(const OutputComparison& output, CaseKind kind, std::string_view why) {
  const auto same = [&](const auto& known) { return known.first == why; };
  auto it = std::find_if(allowed_.begin(), allowed_.end(), same);
  if (it == allowed_.end()) it = allowed_.insert(it, {std::string(why), Of{}});
  Of& of = it->second;
  if (of.outputs.empty() || (output.step > 0 ? output.steps > of.most.steps : output.max_abs > of.most.max_abs)) of.most = output;
  of.name(output.name);
  if (kind != CaseKind::kUsual && kind != CaseKind::kGiven) add_once(of.kinds, std::string(to_string(kind)));
}

void VerifyNotes::tell(const std::string& output, std::string_view what) {
  const auto same = [&](const auto& known) { return known.first == what; };
  auto it = std::find_if(told_.begin(), told_.end(), same);
  if (it == told_.end()) it = told_.insert(it, {std::string(what), Of{}});
  it->second.name(output);
}

std::string VerifyNotes::allowed_line(const Of& of, const std::string& why) {
  const OutputComparison& o = of.most;
  const std::string who = subject(of.outputs, o.name), kinds = of.kinds.empty() ? "" : fmt::format(" ({})", fmt::join(of.kinds, ", "));
  const char* differ = of.outputs.size() == 1 ? "differs" : "differ";
  if (o.step > 0)
    return fmt::format("{} {} by up to {:.3g} step{} of {:.3g}, in {} of {} elements{}", who, differ, o.steps, o.steps > 1.02 ? "s" : "",
                       o.step, o.moved, o.elements, kinds);
  return fmt::format("{} {} by up to {:.2e}{} {}", who, differ, o.max_abs, kinds, why);
}

std::vector<std::string> VerifyNotes::lines() const {
  std::vector<std::string> out;
  for (const auto& [why, of] : allowed_) out.push_back(allowed_line(of, why));
  for (const auto& [what, of] : told_)
    out.push_back(fmt::format("{} {}", subject(of.outputs, ""), of.outputs.size() == 1 ? what : of_several(what)));
  out.insert(out.end(), texts_.begin(), texts_.end());
  return out;
}

}  // namespace saturate
