#include "tools/reduce/symptom.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <set>

#include "fmt/format.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/graph/model_edits.h"
#include "tools/io/option_checks.h"

namespace saturate {
namespace {

constexpr std::string_view kErrorMark = "saturate: error: ";
constexpr int kShellSignal = 128;  // a shell says 128 + N where signal N ended what it ran

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The signal that ended a run, whether a shell stands between or not; 0: none.
int signal_of(const ChildEnd& run) {
  if (run.signal != 0) return run.signal;
  constexpr int kCrashes[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV};
  const int behind = run.status - kShellSignal;
  return run.exited() && std::find(std::begin(kCrashes), std::end(kCrashes), behind) != std::end(kCrashes) ? behind : 0;
}

bool has_line(const std::string& output, std::string_view mark, const std::string& text) {
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    const std::string_view line = std::string_view(output).substr(at, end - at);
    const std::size_t marked = line.find(mark);
    if (marked != std::string_view::npos && line.find(text, marked) != std::string_view::npos) return true;
    at = end + 1;
  }
  return false;
}

bool is_named(const Node& node, const std::string& op) {
  return node.op_type == op || (!node.domain.empty() && fmt::format("{}.{}", node.domain, node.op_type) == op);
}

// Operators of a node, of its bodies and of the function that it calls.
std::size_t count_op(const Model& model, const Node& node, const std::string& op) {
  std::size_t count = is_named(node, op) ? 1 : 0;
  for (const Attribute& a : node.attributes)
    if (a.type == AttributeType::kGraph)
      for (const Node& inside : a.g().nodes) count += count_op(model, inside, op);
  if (const Function* f = called_function(model, node))
    for (const Node& inside : f->nodes) count += count_op(model, inside, op);
  return count;
}

}  // namespace

absl::StatusOr<Symptom> parse_symptom(const std::string& text) {
  const auto behind = [&](std::string_view word) {
    std::string rest = text.substr(word.size());
    rest.erase(0, rest.find_first_not_of(' '));
    return rest;
  };
  const auto number = [&](std::string_view word) { return parse_int(behind(word)).value_or(-1); };
  if (text == "wrong") return Symptom{Symptom::Kind::kWrong, 0, ""};
  if (text == "hang") return Symptom{Symptom::Kind::kHang, 0, ""};
  if (text == "signal") return Symptom{Symptom::Kind::kSignal, 0, ""};
  if (text.starts_with("signal ") && number("signal ") > 0 && number("signal ") < 128)
    return Symptom{Symptom::Kind::kSignal, static_cast<int>(number("signal ")), ""};
  if (text.starts_with("exit ") && number("exit ") > 0 && number("exit ") < 256)
    return Symptom{Symptom::Kind::kExit, static_cast<int>(number("exit ")), ""};
  if (text.starts_with("warning:") && !behind("warning:").empty()) return Symptom{Symptom::Kind::kWarning, 0, behind("warning:")};
  if (text.starts_with("error:") && !behind("error:").empty()) return Symptom{Symptom::Kind::kError, 0, behind("error:")};
  if (text.starts_with("no ") && !behind("no ").empty() && behind("no ").find(' ') == std::string::npos)
    return Symptom{Symptom::Kind::kMissing, 0, behind("no ")};
  return absl::InvalidArgumentError(
      fmt::format("--because '{}': not one of wrong, exit N (1 to 255), signal, hang, 'warning: TEXT', 'error: TEXT', 'no OP'", text));
}

std::string without_names(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool opens = text[i] == '\'' && (i == 0 || !is_word(text[i - 1]));
    std::size_t close = opens ? text.find('\'', i + 1) : std::string::npos;
    while (close != std::string::npos && close + 1 < text.size() && is_word(text[close + 1])) close = text.find('\'', close + 1);
    if (close != std::string::npos) {
      out += "''";
      i = close;
    } else if (std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
      if (out.empty() || out.back() != '#') out += '#';
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string error_of(const std::string& output) {
  const std::size_t at = output.find(kErrorMark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kErrorMark.size();
  return output.substr(begin, output.find('\n', begin) - begin);
}

bool shows(const Symptom& symptom, const ChildEnd& run, const ChildEnd& first) {
  const bool ended_alike = run.exited() && first.exited() && run.status == first.status;
  switch (symptom.kind) {
    case Symptom::Kind::kWrong:
      return run.exited() && run.status == 3;
    case Symptom::Kind::kExit: {
      if (!run.exited() || run.status != symptom.number) return false;
      const bool says_much = symptom.number == 1 || symptom.number == 5;  // which of many things went wrong
      return !says_much || without_names(error_of(run.output)) == without_names(error_of(first.output));
    }
    case Symptom::Kind::kSignal:
      return signal_of(run) != 0 && signal_of(run) == (symptom.number != 0 ? symptom.number : signal_of(first));
    case Symptom::Kind::kHang:
      return run.timed_out;
    case Symptom::Kind::kWarning:
      return ended_alike && has_line(run.output, "warning: ", symptom.text);
    case Symptom::Kind::kError:
      return ended_alike && has_line(run.output, kErrorMark, symptom.text);
    case Symptom::Kind::kMissing:
      return run.exited() && run.status == 0;
  }
  return false;
}

std::string how_it_ended(const ChildEnd& run) {
  if (!run.error.empty()) return run.error;
  if (run.timed_out) return fmt::format("no end within {:.3g} s", run.seconds);
  if (run.signal != 0) return fmt::format("signal {}", run.signal);
  const std::string error = error_of(run.output);
  return fmt::format("exit status {}{}{}", run.status, error.empty() ? "" : ": ", error);
}

absl::StatusOr<KeptOperator> parse_kept(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos && !text.empty()) return KeptOperator{text, 1};
  const auto count = colon == std::string::npos ? std::nullopt : parse_int(std::string_view(text).substr(colon + 1));
  if (!count || *count < 1 || colon == 0)
    return absl::InvalidArgumentError(fmt::format("--keep {}: not OP[:N]; write e.g. MatMul:2", text));
  return KeptOperator{text.substr(0, colon), static_cast<std::size_t>(*count)};
}

bool feed_one_output(const Model& model, const std::vector<KeptOperator>& kept) {
  const GraphView view(model.graph);
  return std::any_of(model.graph.outputs.begin(), model.graph.outputs.end(), [&](const ValueInfo& output) {
    std::set<const Node*> above;
    std::vector<std::string> todo{output.name};
    while (!todo.empty()) {
      const Node* producer = view.producer(todo.back());
      todo.pop_back();
      if (!producer || !above.insert(producer).second) continue;
      for (const std::string& name : names_read(*producer)) todo.push_back(name);
    }
    return std::all_of(kept.begin(), kept.end(), [&](const KeptOperator& k) {
      std::size_t count = 0;
      for (const Node* node : above) count += count_op(model, *node, k.op);
      return count >= k.count;
    });
  });
}

}  // namespace saturate
