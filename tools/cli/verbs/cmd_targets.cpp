#include <cstdio>

#include "egraph/text/read_json.h"
#include "extract/target/target.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/target_forms.h"

namespace saturate {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

int list(const TargetsArgs& args) {
  ordered_json all = ordered_json::array();
  std::vector<std::vector<std::string>> rows{{"target", "opsets", "cost", "description"}};
  for (const std::string& name : builtin_targets()) {
    absl::StatusOr<Target> target = load_target(name);
    if (!target.ok()) return fail(target.status(), name, "");
    rows.push_back(
        {target->name, fmt::format("{}-{}", target->min_opset, target->highest_opset()), target->cost_model, target->description});
    all.push_back(*read_json<ordered_json>(target_text(*target)));
  }
  if (args.common.json)
    print_json(all);
  else if (!args.common.quiet())
    print_text(format_table(rows, 4, args.common.look().width));
  return kExitOk;
}

// Exit status 1 where the target can't express some node.
int check(const TargetsArgs& args) {
  SetupOptions options;
  options.target = args.target;
  absl::StatusOr<Setup> setup = set_up(options);
  if (!setup.ok()) return fail(setup.status(), "", "`saturate targets list` names the built-in ones");
  const Target& target = setup->target;
  absl::StatusOr<Model> model = load_given(args.name);
  if (!model.ok()) return fail(kExitFile, args.name, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = fix_shapes(*model, args.shapes); !status.ok()) return fail(status, args.name, "");
  const auto found = args.forms ? check_target_with_forms(*model, *setup) : check_target(*model, target);
  if (!found.ok()) return fail(kExitFile, args.name, std::string(found.status().message()), kModelAdvice);
  if (args.common.json) {
    json out = json::array();
    for (const Inexpressible& i : *found) {
      out.push_back({{"node", i.node}, {"op_type", i.op}, {"reason", i.reason}});
      if (!i.instead.empty()) out.back()["instead"] = i.instead;
      if (!i.obstacle.empty()) out.back()["obstacle"] = i.obstacle;
    }
    print_json(json{{"model", args.name}, {"target", target.name}, {"inexpressible", out}});
  } else if (!args.common.quiet()) {
    std::vector<std::vector<std::string>> rows{{"node", "operator", "why not", "instead"}};
    for (const Inexpressible& i : *found)
      rows.push_back({i.node, i.op, i.reason, i.obstacle.empty() ? fmt::format("{}", fmt::join(i.instead, ", ")) : "none: " + i.obstacle});
    if (found->empty())
      print_text(target.name + " takes every node\n");
    else
      print_text(format_table(rows, 4, args.common.look().width));
  }
  if (found->empty()) return kExitOk;
  return fail(kExitFile, args.name,
              fmt::format("{} node{} can't be expressed on {}, the first is {} '{}'", found->size(), found->size() == 1 ? "" : "s",
                          target.name, found->front().op, found->front().node),
              "`saturate optimize --target` rewrites what rules can");
}

}  // namespace

int targets_command(const TargetsArgs& args) {
  if (args.action == "list") return list(args);
  if (args.action == "check") return check(args);
  absl::StatusOr<Target> target = split_release(args.name).release.empty() ? load_any_release(args.name) : load_target(args.name);
  if (!target.ok()) return fail(target.status(), "", "`saturate targets list` names the built-in ones");
  if (!args.common.quiet()) print_text(target_text(*target) + "\n");
  return kExitOk;
}

}  // namespace saturate
