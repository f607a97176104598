// A part of a model, and two models that become one.
#include <algorithm>
#include <tuple>

#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tools/transform/named_files.h"
#include "tools/transform/opset.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

using Types = std::map<std::string, ValueType>;

// Nodes give the value under another name, and it comes in instead.
absl::Status cut_input(Work& work, const std::string& name, const Types& types, const Arguments& args) {
  if (work.input(name)) return absl::OkStatus();
  if (const auto names = defined_names(work.graph()); !names.contains(name)) return no_value(names, "inputs", name, args);
  if (work.initializer(name)) return args.wrong("inputs", name, "it is a constant; initializers_to_inputs makes an input of it");
  if (work.ties.value_of(name).empty()) return args.wrong("inputs", name, "another pass has made this value; cut before it");
  const auto info = info_with_rank(work.graph(), name, types);
  if (!info) return args.wrong("inputs", name, "its type and rank can't be inferred; set_shapes gives inputs theirs");
  for (Node& node : work.graph().nodes)
    for (std::string& made : node.outputs)
      if (made == name) made = work.fresh(name + "_cut");
  work.graph().inputs.push_back(*info);
  work.ties.inputs[name] = {work.ties.value_of(name), {}};
  return absl::OkStatus();
}

absl::Status cut_outputs(Work& work, const std::vector<std::string>& names, const std::vector<std::string>& inputs, const Types& types,
                         const Arguments& args) {
  const auto all = defined_names(work.graph());
  std::vector<ValueInfo> outputs;
  for (const std::string& name : names) {
    if (find_named(outputs, name)) return args.wrong("outputs", name, "it is named twice; name it once");
    if (!all.contains(name)) return no_value(all, "outputs", name, args);
    if (std::find(inputs.begin(), inputs.end(), name) != inputs.end())
      return args.wrong("outputs", name, "it is an input of the part, too");
    if (!work.output(name) && work.ties.value_of(name).empty())
      return args.wrong("outputs", name, "another pass has made this value; cut before it");
    const auto info = info_with_rank(work.graph(), name, types);
    if (!info) return args.wrong("outputs", name, "its type and rank can't be inferred; set_shapes gives inputs theirs");
    outputs.push_back(*info);
  }
  std::map<std::string, Tie> ties;
  for (const ValueInfo& output : outputs) {
    const auto it = work.ties.outputs.find(output.name);
    ties[output.name] = it != work.ties.outputs.end() ? it->second : Tie{work.ties.value_of(output.name), {}};
  }
  work.graph().outputs = std::move(outputs);
  work.ties.outputs = std::move(ties);
  return absl::OkStatus();
}

void drop_unread(Work& work, const std::vector<std::string>& inputs) {
  Graph& graph = work.graph();
  erase_unread(graph, {});
  for (const ValueInfo& input : std::vector(graph.inputs)) {
    const bool read =
        work.output(input.name) || std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return reads(n, input.name); });
    const bool asked = std::find(inputs.begin(), inputs.end(), input.name) != inputs.end();
    if (!read && !asked) work.drop_input(input.name);
    if (read && !asked && !inputs.empty()) work.notes.push_back(fmt::format("input '{}' of the model is still read", input.name));
  }
  const auto left = defined_names(graph);
  std::erase_if(graph.value_info, [&](const ValueInfo& v) {
    return !left.contains(v.name) || find_named(graph.inputs, v.name) || find_named(graph.outputs, v.name);
  });
}

std::string text_of(const Function& function) {
  Model holder;
  holder.functions = {function};
  return print_model_text(holder);
}

// Of the second model, to stand beside the first.
class Merger {
 public:
  Merger(Work& work, Model second, const Arguments& args) : work_(work), second_(std::move(second)), args_(args) {}

  absl::Status run() {
    joins_ = args_.pairs("joins");
    for (const auto step : {&Merger::check_joins, &Merger::settle_opsets, &Merger::settle_functions, &Merger::name_values})
      if (absl::Status s = (this->*step)(); !s.ok()) return s;
    name_dims();
    join();
    return absl::OkStatus();
  }

  // Both models as they were, with the values of the merged model that are theirs.
  const Renaming& names() const { return names_; }
  const Model& second() const { return second_before_; }

 private:
  absl::Status check_joins() {
    if (joins_.empty()) return args_.wrong("joins", "", "name an output of the first and an input of the second");
    for (const auto& [from, to] : joins_) {
      const ValueInfo* output = work_.output(from);
      if (!output) return args_.wrong("joins", from, "the first model has no such output");
      const ValueInfo* input = find_named(second_.graph.inputs, to);
      if (!input) return args_.wrong("joins", to, "the second model has no such input");
      if (output->type.kind != input->type.kind || output->type.dtype != input->type.dtype)
        return args_.wrong("joins", from,
                           fmt::format("it is of {}, but '{}' of {}; cast_outputs changes it", dtype_name(output->type.dtype), to,
                                       dtype_name(input->type.dtype)));
      if (!sources_.try_emplace(to, from).second) return args_.wrong("joins", to, "two outputs go into it");
    }
    return absl::OkStatus();
  }

  absl::Status settle_opsets() {
    const std::int64_t newest = std::max(work_.model.opset(""), second_.opset(""));
    for (Model* model : {&work_.model, &second_}) {
      if (model->opset("") == newest || model->opset("") == 0) continue;
      absl::StatusOr<Model> raised = at_opset(*model, newest);
      if (!raised.ok()) return args_.wrong("model", args_.text("model"), std::string(raised.status().message()));
      *model = *std::move(raised);
    }
    for (const auto& [domain, version] : second_.opset_imports) {
      const std::int64_t mine = work_.model.opset(domain);
      if (mine != 0 && mine != version)
        return args_.wrong("model", args_.text("model"), fmt::format("the models import versions {} and {} of {}", mine, version, domain));
      work_.model.opset_imports[domain] = version;
    }
    work_.model.ir_version = std::max(work_.model.ir_version, second_.ir_version);
    second_before_ = second_;
    return absl::OkStatus();
  }

  absl::Status settle_functions() {
    for (const Function& f : second_.functions) {
      const auto& mine = work_.model.functions;
      const auto it = std::find_if(mine.begin(), mine.end(), [&](const Function& g) { return same_name(f, g); });
      if (it == mine.end())
        work_.model.functions.push_back(f);
      else if (text_of(*it) != text_of(f))
        return args_.wrong("model", args_.text("model"),
                           fmt::format("both models have a function {} of domain {}, and not the same", f.name, f.domain));
    }
    return absl::OkStatus();
  }

  absl::Status name_values() {
    const std::string prefix = args_.text("prefix");
    for (const std::string& name : defined_names(second_.graph)) {
      if (const auto it = sources_.find(name); it != sources_.end()) {
        names_[name] = it->second;
        continue;
      }
      const bool outside = find_named(second_.graph.inputs, name) || find_named(second_.graph.outputs, name);
      if (outside && work_.fresh.taken(prefix + name))
        return args_.wrong("prefix", prefix, fmt::format("'{}' is a name in both models; give another prefix", prefix + name));
      names_[name] = outside ? prefix + name : work_.fresh(prefix + name);
      work_.fresh.take(names_[name]);
    }
    rename_values(second_.graph, names_, work_.fresh);
    return absl::OkStatus();
  }

  // Dims of one name are equal: where the models are joined, and nowhere else.
  void name_dims() {
    std::map<std::string, DimSpec> by;
    std::set<std::string> mine;
    const auto see = [](Graph& graph, auto visit) {
      for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
        for (ValueInfo& info : *infos)
          if (info.type.shape)
            for (DimSpec& dim : *info.type.shape) visit(dim);
    };
    see(work_.graph(), [&](const DimSpec& dim) {
      if (const auto* name = std::get_if<std::string>(&dim)) mine.insert(*name);
    });
    for (const auto& [from, to] : joins_) {
      const auto &out = work_.output(from)->type.shape, &in = find_named(second_.graph.inputs, from)->type.shape;
      if (!out || !in || out->size() != in->size()) continue;
      for (std::size_t i = 0; i < in->size(); ++i)
        if (const auto* name = std::get_if<std::string>(&(*in)[i]); name && !std::holds_alternative<std::monostate>((*out)[i]))
          by.try_emplace(*name, (*out)[i]);
    }
    const std::string prefix = args_.text("prefix").empty() ? "second_" : args_.text("prefix");
    see(second_.graph, [&](DimSpec& dim) {
      const auto* name = std::get_if<std::string>(&dim);
      if (!name) return;
      if (const auto it = by.find(*name); it != by.end())
        dim = it->second;
      else if (mine.contains(*name))
        dim = prefix + *name;
    });
  }

  void join() {
    Graph &to = work_.graph(), &from = second_.graph;
    std::erase_if(from.inputs, [&](const ValueInfo& v) { return joins_.contains(v.name); });
    std::erase_if(from.initializers, [&](const Initializer& i) { return joins_.contains(i.name); });  // defaults that nothing reads now
    if (!args_.flag("keep"))
      for (const auto& [output, input] : joins_)
        std::erase_if(to.outputs, [&, &gone = output](const ValueInfo& v) { return v.name == gone; });
    const auto move = [](auto& what, auto& where) { std::move(what.begin(), what.end(), std::back_inserter(where)); };
    move(from.inputs, to.inputs);
    move(from.outputs, to.outputs);
    move(from.value_info, to.value_info);
    move(from.initializers, to.initializers);
    move(from.nodes, to.nodes);
  }

  Work& work_;
  Model second_, second_before_;
  const Arguments& args_;
  std::map<std::string, std::string> joins_, sources_;
  Renaming names_;  // of the second's values in the merged model
};

// Cut out of `whole`, a part computes what `alone` does; `names`: the part's values by those of `alone`.
absl::Status check_part(const Model& whole, const Model& alone, const Renaming& names, const VerifyOptions& check, const Arguments& args) {
  const auto renamed = [&](const std::string& name) {
    const auto it = names.find(name);
    return it == names.end() ? name : it->second;
  };
  Ties ties;
  Work part(whole);
  const auto types = inferred_types(whole);
  if (!types.ok()) return types.status();
  std::vector<std::string> inputs, outputs;
  for (const ValueInfo& v : alone.graph.inputs) inputs.push_back(renamed(v.name));
  for (const ValueInfo& v : alone.graph.outputs) outputs.push_back(renamed(v.name));
  for (const std::string& name : inputs)
    if (absl::Status s = cut_input(part, name, *types, args); !s.ok()) return s;
  if (absl::Status s = cut_outputs(part, outputs, {}, *types, args); !s.ok()) return s;
  drop_unread(part, inputs);
  for (const ValueInfo& v : alone.graph.inputs)
    if (part.input(renamed(v.name))) ties.inputs[renamed(v.name)] = {v.name, {}};
  for (const ValueInfo& v : alone.graph.outputs) ties.outputs[renamed(v.name)] = {v.name, {}};
  const Comparable pair = comparable(alone, part.model, ties);
  const VerifyReport report = saturate::verify(pair.original, pair.result, check);
  if (report.status == VerifyStatus::kEqual) return absl::OkStatus();
  const absl::Status said =
      args.wrong("model", args.text("model"), fmt::format("a part of the merged model can't be verified: {}", report.message));
  return absl::Status(report.status == VerifyStatus::kDifferent ? absl::StatusCode::kDataLoss : absl::StatusCode::kUnimplemented,
                      said.message());
}

}  // namespace

absl::Status cut(Work& work, const Arguments& args) {
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  const std::vector<std::string> inputs = args.texts("inputs");
  std::vector<std::string> outputs = args.texts("outputs");
  if (outputs.empty())
    for (const ValueInfo& v : work.graph().outputs) outputs.push_back(v.name);
  for (const std::string& name : inputs)
    if (absl::Status s = cut_input(work, name, *types, args); !s.ok()) return s;
  if (absl::Status s = cut_outputs(work, outputs, inputs, *types, args); !s.ok()) return s;
  drop_unread(work, inputs);
  return absl::OkStatus();
}

absl::Status merge(Work& work, const Arguments& args) {
  const std::string path = args.text("model");
  if (absl::Status s = check_named_file(args, "model", path, kMostNamedData); !s.ok()) return s;
  absl::StatusOr<Model> second = load_model(path);
  if (!second.ok()) return without_contents(args, second.status(), {{"model", path, "saturate inspect"}});
  const Model first = work.model;
  Merger merger(work, *std::move(second), args);
  if (absl::Status s = merger.run(); !s.ok()) return s;
  if (!work.verify) return absl::OkStatus();
  if (absl::Status s = check_part(work.model, first, {}, work.check, args); !s.ok()) return s;
  return check_part(work.model, merger.second(), merger.names(), work.check, args);
}

}  // namespace saturate::passes
