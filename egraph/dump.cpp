#include "egraph/dump.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "egraph/egraph_impl.h"
#include "egraph/explain.h"

namespace saturate {
namespace {

std::string node_text(const ENode& node, const OpName& op_name) {
  if (node.children.empty()) return op_name(node.op);
  std::string out = absl::StrCat("(", op_name(node.op));
  for (const Id child : node.children) absl::StrAppend(&out, " c", child);
  return out + ")";
}

std::string quoted_text(const std::string& text, bool json) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppend(&out, json ? "\\u00" : " ",
                      json ? absl::StrCat(absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2)) : std::string());
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The shortest of the classes' terms would need extraction; the first e-node that has no way back to an open class does for printing.
NodeId first_node(const EGraph& egraph, Id id) { return egraph.class_nodes(id)[0]; }

}  // namespace

std::string summary(const EGraph& egraph, const OpName& op_name) {
  std::map<std::string, std::size_t> by_op;
  std::vector<std::pair<std::size_t, Id>> sizes;
  for (const Id c : egraph.classes()) {
    const auto nodes = egraph.class_nodes(c);
    sizes.emplace_back(nodes.size(), c);
    for (const NodeId n : nodes) ++by_op[op_name(egraph.node(n).op)];
  }
  std::string out =
      absl::StrCat(egraph.num_nodes(), " e-nodes in ", egraph.num_classes(), " e-classes, ", egraph.memory_bytes() >> 10, " KB\n");
  std::vector<std::pair<std::size_t, std::string>> ops;
  for (const auto& [name, count] : by_op) ops.emplace_back(count, name);
  const auto larger = [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; };
  std::sort(ops.begin(), ops.end(), larger);
  std::sort(sizes.begin(), sizes.end(), larger);
  absl::StrAppend(&out, "operators:");
  for (std::size_t i = 0; i < ops.size() && i < 20; ++i) absl::StrAppend(&out, " ", ops[i].second, " ", ops[i].first);
  absl::StrAppend(&out, ops.size() > 20 ? " ...\n" : "\n", "largest e-classes:");
  for (std::size_t i = 0; i < sizes.size() && i < 5; ++i) absl::StrAppend(&out, " c", sizes[i].second, " (", sizes[i].first, ")");
  return out + "\n";
}

std::string to_sexpr(const EGraph& egraph, const OpName& op_name, const DumpOptions& options) {
  std::string out;
  const auto classes = egraph.classes();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (i == options.max_classes) {
      absl::StrAppend(&out, "; ", classes.size() - i, " more e-classes\n");
      break;
    }
    const auto nodes = egraph.class_nodes(classes[i]);
    absl::StrAppend(&out, "c", classes[i], " =");
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if (k == options.max_nodes_per_class) {
        absl::StrAppend(&out, " | ... ", nodes.size() - k, " more");
        break;
      }
      absl::StrAppend(&out, k == 0 ? " " : " | ", node_text(egraph.node(nodes[k]), op_name));
    }
    out += '\n';
  }
  return out;
}

std::string term_text(const EGraph& egraph, NodeId node, const OpName& op_name, std::size_t max_nodes) {
  // Explicit stack: a node to print, or kNone for a closing bracket.
  const bool as_made = records_explanations(egraph);
  std::vector<NodeId> open{node};
  std::string out;
  std::size_t printed = 0;
  while (!open.empty()) {
    const NodeId n = open.back();
    open.pop_back();
    if (n == kNone) {
      out += ')';
      continue;
    }
    if (!out.empty() && out.back() != '(') out += ' ';
    if (printed == max_nodes) {
      out += "...";
      continue;
    }
    ++printed;
    const ENode t = as_made ? term(egraph, n) : egraph.node(n);
    if (t.children.empty()) {
      out += op_name(t.op);
      continue;
    }
    absl::StrAppend(&out, "(", op_name(t.op));
    open.push_back(kNone);
    for (std::size_t i = t.children.size(); i-- > 0;) open.push_back(as_made ? t.children[i] : first_node(egraph, t.children[i]));
  }
  return out;
}

std::string to_dot(const EGraph& egraph, const OpName& op_name, const DumpOptions& options) {
  std::string out = "digraph egraph {\n  compound=true;\n  node [shape=box, fontname=monospace];\n";
  const auto classes = egraph.classes();
  const std::size_t count = std::min(classes.size(), options.max_classes);
  std::unordered_map<Id, NodeId> first;
  for (std::size_t i = 0; i < count; ++i) first[classes[i]] = first_node(egraph, classes[i]);
  for (std::size_t i = 0; i < count; ++i) {
    absl::StrAppend(&out, "  subgraph cluster_", classes[i], " {\n    label=\"c", classes[i], "\"; style=dotted;\n");
    const auto nodes = egraph.class_nodes(classes[i]);
    for (std::size_t k = 0; k < std::min(nodes.size(), options.max_nodes_per_class); ++k) {
      absl::StrAppend(&out, "    n", nodes[k], " [label=", quoted_text(op_name(egraph.node(nodes[k]).op), false), "];\n");
    }
    absl::StrAppend(&out, "  }\n");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto nodes = egraph.class_nodes(classes[i]);
    for (std::size_t k = 0; k < std::min(nodes.size(), options.max_nodes_per_class); ++k) {
      const auto children = egraph.node(nodes[k]).children;
      for (std::size_t c = 0; c < children.size(); ++c) {
        const auto target = first.find(children[c]);
        if (target == first.end()) continue;
        absl::StrAppend(&out, "  n", nodes[k], " -> n", target->second, " [lhead=cluster_", children[c], ", label=", c, "];\n");
      }
    }
  }
  if (count < classes.size()) absl::StrAppend(&out, "  more [label=\"", classes.size() - count, " more e-classes\", shape=plaintext];\n");
  return out + "}\n";
}

std::string to_json(const EGraph& egraph, const OpName& op_name, std::span<const Id> roots, const std::function<double(NodeId)>& cost) {
  std::string out = "{\"nodes\":{";
  const auto classes = egraph.classes();
  std::unordered_map<Id, NodeId> first;
  for (const Id c : classes) first[c] = first_node(egraph, c);
  bool comma = false;
  for (const Id c : classes) {
    for (const NodeId n : egraph.class_nodes(c)) {
      const ENode node = egraph.node(n);
      absl::StrAppend(&out, comma ? ",\n" : "\n", "\"n", n, "\":{\"op\":", quoted_text(op_name(node.op), true), ",\"children\":[");
      for (std::size_t i = 0; i < node.children.size(); ++i)
        absl::StrAppend(&out, i == 0 ? "" : ",", "\"n", first.at(node.children[i]), "\"");
      absl::StrAppend(&out, "],\"eclass\":\"c", c, "\",\"cost\":", cost ? cost(n) : 1.0, ",\"subsumed\":false}");
      comma = true;
    }
  }
  absl::StrAppend(&out, "\n},\n\"root_eclasses\":[");
  for (std::size_t i = 0; i < roots.size(); ++i) absl::StrAppend(&out, i == 0 ? "" : ",", "\"c", egraph.find(roots[i]), "\"");
  absl::StrAppend(&out, "],\n\"class_data\":{}}\n");
  return out;
}

}  // namespace saturate
