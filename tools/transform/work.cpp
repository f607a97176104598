#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "tools/transform/pass.h"

namespace saturate {

std::string_view to_string(PassCheck compared) {
  switch (compared) {
    case PassCheck::kTied:
      return "equal";
    case PassCheck::kApproximate:
      return "approximate";
    case PassCheck::kRuns:
      return "runs";
  }
  return "?";
}

absl::Status Work::rename(const Renaming& renaming, const char* field, const Arguments& args) {
  Renaming all = renaming;
  std::set<std::string> targets;
  const auto names = defined_names(graph());
  for (const auto& [from, to] : renaming) {
    if (to.empty()) return args.wrong(field, from, "the new name is empty; give one");
    if (!targets.insert(to).second) return args.wrong(field, to, "two values would have this name; give each its own");
    if (renaming.contains(to) || from == to || !names.contains(to)) continue;
    if (input(to) || output(to)) return args.wrong(field, to, "an input or output has this name; rename that one, too");
    all[to] = fresh(to);
  }
  rename_freely(all);
  return absl::OkStatus();
}

void Work::rename_freely(const Renaming& renaming) {
  Ties before = ties;
  for (const auto& [from, to] : renaming) {
    ties.values.erase(from);
    for (auto* list : {&ties.inputs, &ties.outputs}) list->erase(from);
  }
  for (const auto& [from, to] : renaming) {
    if (const std::string original = before.value_of(from); !original.empty()) ties.values[to] = original;
    if (const auto it = before.inputs.find(from); it != before.inputs.end()) ties.inputs[to] = it->second;
    if (const auto it = before.outputs.find(from); it != before.outputs.end()) ties.outputs[to] = it->second;
    fresh.take(to);
  }
  rename_values(graph(), renaming, fresh);
}

namespace {

absl::Status not_apart(const char* field, const std::string& name, const Arguments& args) {
  return args.wrong(field, name, "it is an input and an output, so that one name can't have two types; put an Identity between");
}

}  // namespace

absl::Status Work::view_input(const std::string& name, const ValueType& type, const std::vector<View>& outside,
                              const std::vector<View>& inside, const char* field, const Arguments& args) {
  if (output(name)) return not_apart(field, name, args);
  ensure_standard_opset(model);
  const std::string within = fresh(name + "_inside");
  Tie tie = ties.inputs.at(name);
  rename_freely({{name, within}});
  find_named(graph().inputs, within)->type = type;
  find_named(graph().inputs, within)->name = name;
  ties.inputs.erase(within);
  tie.views.insert(tie.views.end(), outside.begin(), outside.end());
  ties.inputs[name] = std::move(tie);
  std::vector<Node> nodes;
  add_views(model, inside, name, within, fresh, nodes);
  graph().nodes.insert(graph().nodes.begin(), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
  return absl::OkStatus();
}

absl::Status Work::view_output(const std::string& name, const ValueType& type, const std::vector<View>& views, const char* field,
                               const Arguments& args) {
  if (input(name)) return not_apart(field, name, args);
  ensure_standard_opset(model);
  const std::string within = fresh(name + "_inside");
  Tie tie = ties.outputs.at(name);
  rename_freely({{name, within}});
  each_output(within, [&](ValueInfo& info) { info.type = type, info.name = name; });
  ties.outputs.erase(within);
  tie.views.insert(tie.views.end(), views.begin(), views.end());
  ties.outputs[name] = std::move(tie);
  std::vector<Node> nodes;
  add_views(model, views, within, name, fresh, nodes);
  append(std::move(nodes));
  return absl::OkStatus();
}

bool Work::verifies(const Model& of) {
  const std::size_t bytes = verify ? input_bytes(of, {}) : 0;
  if (bytes > room) notes.push_back(fmt::format("not verified by itself, for inputs take {} MiB; the result as a whole is", bytes >> 20));
  return verify && bytes <= room;
}

void Work::append(std::vector<Node> nodes) {
  graph().nodes.insert(graph().nodes.end(), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
}

void Work::drop_input(const std::string& name) {
  std::erase_if(graph().inputs, [&](const ValueInfo& v) { return v.name == name; });
  ties.inputs.erase(name);
}

void Work::freeze(const std::string& name) {
  ties.frozen.insert(ties.inputs.at(name).original);
  drop_input(name);
}

void Work::drop_output(const std::string& name) {
  std::erase_if(graph().outputs, [&](const ValueInfo& v) { return v.name == name; });
  ties.outputs.erase(name);
}

void Work::add_output(const ValueInfo& value) {
  graph().outputs.push_back(value);
  std::erase_if(graph().value_info, [&](const ValueInfo& v) { return v.name == value.name; });
  ties.outputs[value.name] = {ties.value_of(value.name), {}};
}

}  // namespace saturate
