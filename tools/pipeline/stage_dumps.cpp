#include "tools/pipeline/stage_dumps.h"

#include <algorithm>

#include "egraph/dump.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

constexpr std::string_view kStages[] = {"load", "lower", "saturate", "extract", "emit"};

enum class Form { kText, kDot, kJson };

Form form_of(const std::string& file) { return file.ends_with(".dot") ? Form::kDot : file.ends_with(".json") ? Form::kJson : Form::kText; }

bool is_model(std::string_view stage) { return stage == "load" || stage == "emit"; }

std::string value_text(const Attribute& a) {
  switch (a.type) {
    case AttributeType::kInt:
      return fmt::format("{}", a.i());
    case AttributeType::kFloat:
      return fmt::format("{}", a.f());
    case AttributeType::kString:
      return fmt::format("\"{}\"", a.s());
    case AttributeType::kInts:
      return fmt::format("[{}]", fmt::join(a.ints(), ", "));
    case AttributeType::kFloats:
      return fmt::format("[{}]", fmt::join(a.floats(), ", "));
    default:
      return "...";
  }
}

// "Softmax<axis=-1>", "com.microsoft.Gelu", "#input<name=\"x\">".
std::string dumped_operator(const OpKey& key) {
  std::string attributes;
  for (const Attribute& a : key.attributes) attributes += fmt::format("{}{}={}", attributes.empty() ? "" : ", ", a.name, value_text(a));
  const std::string name = key.domain.empty() || key.domain == "#" ? key.op_type : key.domain + "." + key.op_type;
  return attributes.empty() ? name : fmt::format("{}<{}>", name, attributes);
}

OpName names_of(const OnnxEGraph& g) {
  return [&g](OpId op) { return dumped_operator(g.key(op)); };
}

std::string egraph_text(const StageView& made, Form form) {
  const OnnxEGraph& g = made.g;
  if (form == Form::kDot) return to_dot(g.egraph(), names_of(g));
  if (form == Form::kJson) return to_json(g.egraph(), names_of(g), made.lowered.roots) + "\n";
  std::string out = to_sexpr(g.egraph(), names_of(g));
  out += "\n";
  for (const Id id : g.egraph().classes()) out += fmt::format("c{}: {}\n", id, to_string(g.facts(id), g.dims()));
  return out;
}

// The e-node that stands for each class, children first as far as their numbers tell.
std::string selection_text(const StageView& made, Form form) {
  const OnnxEGraph& g = made.g;
  const EGraph& e = g.egraph();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::string text;
  for (Id id = 0; id < made.selection->by_class.size(); ++id) {
    const Choice& choice = made.selection->by_class[id];
    if (choice.node == kNone && !choice.folded) continue;
    std::vector<std::string> children;
    if (!choice.folded)
      for (const Id child : e.node(choice.node).children) children.push_back(fmt::format("c{}", e.find(child)));
    const std::string op = choice.folded ? "folded" : dumped_operator(g.key(e.node(choice.node).op));
    text += fmt::format("c{} = {} ({})  # {}\n", id, op, fmt::join(children, ", "), to_string(g.facts(id), g.dims()));
    rows.push_back({{"class", fmt::format("c{}", id)}, {"op", op}, {"children", children}});
  }
  if (form == Form::kText) return text + fmt::format("cost {:g}, refused {:g}\n", made.selection->cost, made.selection->refused);
  return json_text(nlohmann::ordered_json{{"cost", made.selection->cost}, {"refused", made.selection->refused}, {"chosen", rows}}) + "\n";
}

}  // namespace

std::string not_a_stage(const std::string& stage) {
  if (std::find(std::begin(kStages), std::end(kStages), stage) != std::end(kStages)) return {};
  return fmt::format("{}: no stage; there are {}", stage, fmt::join(kStages, ", "));
}

absl::StatusOr<DumpRequest> parse_dump(const std::string& text) {
  const std::size_t equals = text.find('=');
  DumpRequest request{text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
  if (const std::string wrong = not_a_stage(request.stage); !wrong.empty()) return absl::InvalidArgumentError("--dump " + wrong);
  if (equals != std::string::npos && request.file.empty())
    return absl::InvalidArgumentError(fmt::format("--dump {}: no file after the =; leave the = out to print", text));
  const Form form = form_of(request.file);
  if (is_model(request.stage) && form != Form::kText)
    return absl::InvalidArgumentError(fmt::format("--dump {}: a model is written as ONNX text; name the file .txt or .onnxtxt", text));
  if (request.stage == "extract" && form == Form::kDot)
    return absl::InvalidArgumentError(fmt::format("--dump {}: a choice is written as text or JSON; name the file .txt or .json", text));
  return request;
}

void StageDumps::add(std::string_view stage, const Model& model) {
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (requests_[i].stage == stage) texts_[i] = print_model_text(model);
}

void StageDumps::add(const StageView& made) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].stage != made.stage) continue;
    const Form form = form_of(requests_[i].file);
    if (!made.where.empty() && form != Form::kText) continue;  // a JSON or DOT file holds the main graph
    std::string text = made.selection ? selection_text(made, form) : egraph_text(made, form);
    if (made.where.empty())
      texts_[i] = std::move(text);
    else
      texts_[i] += fmt::format("\n# {}\n{}", made.where, text);
  }
}

absl::Status StageDumps::write() const {
  for (const std::string_view stage : kStages)
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const auto text = texts_.find(i);
      if (requests_[i].stage != stage || text == texts_.end()) continue;
      if (requests_[i].file.empty())
        print_text(fmt::format("# {}\n{}", stage, text->second));
      else if (const absl::Status s = write_file(requests_[i].file, text->second); !s.ok())
        return s;
    }
  return absl::OkStatus();
}

}  // namespace saturate
