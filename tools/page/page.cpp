#include "tools/page/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "extract/optimize/prediction.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/io/dims.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/page/side.h"
#include "tools/page/words.h"
#include "tools/page_app.h"
#include "tools/pipeline/report.h"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRows = 400;  // of a table

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) out.push_back(printable(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Nothing in it ends the element that it stands in.
std::string for_script(const json& data) {
  std::string out;
  const std::string text = json_text(data, -1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (rest[0] == '<' || rest[0] == '>' || rest[0] == '&') {
      out += fmt::format("\\u{:04x}", static_cast<int>(rest[0]));
    } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
      out += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += rest[0];
    }
  }
  return out;
}

// In their order, so that each begins like the one before it.
void add_names(const Model& first, const Model& second, PageWords& words) {
  std::set<std::string> names;
  for (const Model* model : {&first, &second})
    for (const Node& node : model->graph.nodes) {
      names.insert(shown(node.name));
      names.insert(shown(first_output(node)));
    }
  for (const std::string& name : names) words.add(name);
}

// Of the nodes of both models, by graph and position.
struct NodeRegionNumbers {
  std::vector<std::vector<int>> of[2];
};

NodeRegionNumbers region_numbers(const ModelDiff& diff) {
  NodeRegionNumbers out;
  for (int side : {0, 1}) {
    for (const DiffGraph& graph : diff.graphs) out.of[side].emplace_back(graph.nodes[side].size(), -1);
    for (std::size_t r = 0; r < diff.regions.size(); ++r)
      for (const std::size_t node : diff.regions[r].nodes[side]) out.of[side][diff.regions[r].graph][node] = static_cast<int>(r);
  }
  return out;
}

std::vector<std::size_t> groups_of(const ModelDiff& diff) {
  std::vector<std::size_t> out(diff.regions.size());
  for (std::size_t g = 0; g < diff.groups.size(); ++g)
    for (const std::size_t r : diff.groups[g].regions) out[r] = g;
  return out;
}

json regions_json(const ModelDiff& diff, const PageSide& first, const PageSide& second, PageWords& words) {
  const std::vector<std::size_t> groups = groups_of(diff);
  json out = json::array();
  for (std::size_t r = 0; r < diff.regions.size(); ++r) {
    const DiffRegion& region = diff.regions[r];
    json nodes[2] = {json::array(), json::array()}, why = json::array();
    for (const std::size_t i : region.nodes[0]) nodes[0].push_back(first.node_number(region.graph, i));
    for (const std::size_t i : region.nodes[1]) nodes[1].push_back(second.node_number(region.graph, i));
    double cost[2] = {0, 0};
    for (const DiffNode& node : region.before) cost[0] += node.cost;
    for (const DiffNode& node : region.after) cost[1] += node.cost;
    for (const std::string& rule : region.why) why.push_back(words.add(shown(rule)));
    const std::string label = !region.scope.empty()     ? region.scope
                              : !region.outputs.empty() ? region.outputs[0]
                                                        : "shared by several regions";
    json one = {{"g", groups[r]}, {"l", words.add(shown(label))}, {"b", nodes[0]}, {"a", nodes[1]}, {"why", why}};
    const bool timed = diff.predicted && diff.predicted->unit != "operators";
    if (timed) one["cost"] = {cost_text(cost[0], diff.predicted->unit), cost_text(cost[1], diff.predicted->unit)};
    if (region.unproven && diff.proven) one["differs"] = true;
    out.push_back(std::move(one));
  }
  return out;
}

// Texts of the rules that are named.
json rules_json(const ModelDiff& diff, const RuleSet& rules) {
  std::set<std::string> names;
  for (const DiffRegion& region : diff.regions) names.insert(region.why.begin(), region.why.end());
  for (const DiffGraph& graph : diff.graphs)
    for (const DiffGraph::Known& node : graph.nodes[1]) names.insert(node.rules.begin(), node.rules.end());
  json out = json::object();
  for (const std::string& name : names)
    if (std::string text = rules.show(name); !text.empty()) out[shown(name)] = printable(text);
  return out;
}

// What is around the graphs: a line each.
json notes_of(const ModelDiff& diff) {
  json out = json::array();
  const auto add = [&](const char* what, const std::vector<std::string>& lines) {
    constexpr std::size_t kMost = 12;
    for (std::size_t i = 0; i < std::min(lines.size(), kMost); ++i) out.push_back(shown(what + lines[i]));
    if (lines.size() > kMost) out.push_back(fmt::format("{}... and {} more", what, lines.size() - kMost));
  };
  add("", diff.interface);
  add("opsets: ", diff.imports);
  add("function ", diff.functions);
  const DiffWeights& w = diff.weights;
  if (!w.changed.empty()) add("weight changed: ", w.changed);
  if (!w.removed.empty() || !w.added.empty())
    out.push_back(fmt::format("weights: {} equal, {} gone ({}), {} new ({})", w.equal, w.removed.size(), human_bytes(w.removed_bytes),
                              w.added.size(), human_bytes(w.added_bytes)));
  if (!diff.proven) out.push_back(shown("matched by structure only, for the models could not be run: " + diff.why_not_proven));
  return out;
}

// Costs are written in nanoseconds, which are whole numbers.
double cost_scale_of(const ModelDiff& diff) { return diff.predicted && diff.predicted->unit == "s" ? 1e9 : 1; }
std::string unit_of(const ModelDiff& diff) { return cost_scale_of(diff) > 1 ? "ns" : diff.predicted ? diff.predicted->unit : ""; }

json number_or_null(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

}  // namespace

absl::Status check_page(const std::string& html, const std::vector<NamedPath>& inputs) {
  if (html.empty()) return absl::OkStatus();
  if (const absl::Status s = check_writable(html, Into::kAnything); !s.ok()) return s;
  return check_distinct({{"--html", html}}, inputs);
}

Page::Page(std::string_view verb, const std::string& head, const std::string& command) {
  data_ = {{"verb", verb},
           {"saturate", SATURATE_VERSION},
           {"head", lines_of(head)},
           {"command", printable(command)},
           {"sides", json::array()},
           {"regions", json::array()},
           {"groups", json::array()},
           {"rules", json::object()},
           {"words", json::array()},
           {"notes", json::array()},
           {"places", json::array()},
           {"sections", json::array()},
           {"unit", ""}};
}

void Page::add_models(const Model& first, const Model& second, const std::string& first_name, const std::string& second_name,
                      const ModelDiff& diff, const RuleSet& rules) {
  PageWords words;
  add_names(first, second, words);
  const NodeRegionNumbers numbers = region_numbers(diff);
  const double cost_scale = cost_scale_of(diff);
  SideFacts facts[2];
  for (int side : {0, 1}) {
    facts[side] = {side == 0 ? first_name : second_name, side, &diff, cost_scale, numbers.of[side], {}};
    for (const DiffGraph& graph : diff.graphs) {
      facts[side].chains.emplace_back();
      for (const DiffGraph::Known& node : graph.nodes[side]) {
        std::vector<int>& chain = facts[side].chains.back().emplace_back();
        for (const std::string& rule : node.rules) chain.push_back(words.add(shown(rule)));
      }
    }
  }
  const PageSide before(first, facts[0], words), after(second, facts[1], words);
  data_["sides"] = {before.to_json(), after.to_json()};
  json stands_for = json::object();
  for (std::size_t g = 0; g < diff.graphs.size(); ++g)
    for (std::size_t i = 0; i < diff.graphs[g].nodes[1].size(); ++i) {
      json makers = json::array();
      for (const std::string& value : diff.graphs[g].nodes[1][i].replaces)
        if (const int maker = before.maker(value); maker >= 0) makers.push_back(maker);
      if (!makers.empty()) stands_for[std::to_string(after.node_number(g, i))] = makers;
    }
  data_["stands_for"] = stands_for;
  data_["regions"] = regions_json(diff, before, after, words);
  for (const DiffGroup& group : diff.groups) data_["groups"].push_back({{"l", shown(group.label)}, {"r", group.regions}});
  data_["rules"] = rules_json(diff, rules);
  data_["notes"] = notes_of(diff);
  data_["unit"] = unit_of(diff);
  data_["words"] = words.to_json();
}

void Page::add_model(const Model& model, const std::string& name, const ModelDiff& known) {
  PageWords words;
  add_names(model, model, words);
  const double scale = cost_scale_of(known);
  const std::size_t nodes = model.graph.nodes.size();
  const SideFacts facts{name, 0, &known, scale, {std::vector<int>(nodes, -1)}, {std::vector<std::vector<int>>(nodes)}};
  data_["sides"] = json::array({PageSide(model, facts, words).to_json()});
  data_["unit"] = unit_of(known);
  data_["words"] = words.to_json();
}

void Page::add_not_fused(const std::vector<NotFused>& places) {
  for (const NotFused& place : places)
    data_["places"].push_back({{"op", shown(place.op_type)},
                               {"value", shown(place.value)},
                               {"where", shown(place.where)},
                               {"rule", shown(place.rule)},
                               {"reason", shown(place.reason)},
                               {"found", place.found}});
}

void Page::add_verification(const VerifyReport& report) {
  json outputs = json::array();
  for (const VerifyCase& c : report.cases)
    for (const OutputComparison& o : c.outputs) {
      if (outputs.size() == kMostRows) break;
      outputs.push_back({{"name", shown(o.name)},
                         {"case", fmt::format("{}{}{}", to_string(c.kind), c.sizes.empty() ? "" : ", ", shown(to_string(c.sizes)))},
                         {"diff", number_or_null(o.nearest)},
                         {"max", number_or_null(o.max_abs)},
                         {"allowed", number_or_null(o.tolerance)},
                         {"scale", number_or_null(o.scale)},
                         {"elements", o.elements},
                         {"wrong", o.mismatches},
                         {"ok", o.ok},
                         {"why", shown(o.why)},
                         {"compared", !o.random}});
    }
  std::vector<std::string> notes = report.notes;
  std::transform(notes.begin(), notes.end(), notes.begin(), [](const std::string& n) { return shown(n); });
  data_["verify"] = {
      {"outputs", outputs}, {"summary", printable(summary(report))}, {"notes", notes}, {"ok", report.status == VerifyStatus::kEqual}};
}

void Page::add_measured(const Measured& measured) {
  json rows = json::array();
  for (const Measured::Graph& g : measured.graphs) {
    const bool told = g.runs > 0 && std::isfinite(g.original.high);
    rows.push_back({{"name", shown(g.name)},
                    {"nodes", g.nodes},
                    {"median", told ? json(g.original.median) : json(nullptr)},
                    {"low", told ? json(g.original.low) : json(nullptr)},
                    {"high", told ? json(g.original.high) : json(nullptr)},
                    {"why_not", shown(g.why_not)}});
  }
  data_["measured"] = {{"summary", printable(measured_text(measured))}, {"graphs", rows}};
}

void Page::add_predictions(const std::vector<Point>& points) {
  constexpr std::size_t kMostPlotted = 4000;
  json out = json::array();
  for (std::size_t i = 0; i < std::min(points.size(), kMostPlotted); ++i)
    out.push_back(
        {shown(points[i].group), shown(points[i].label), number_or_null(points[i].predicted), number_or_null(points[i].measured)});
  data_["predictions"] = {{"points", out}, {"all", points.size()}};
}

void Page::add_times(const std::vector<std::pair<std::string, std::vector<double>>>& runs) {
  json out = json::array();
  for (const auto& [name, seconds] : runs) out.push_back({{"name", shown(name)}, {"seconds", seconds}});
  data_["times"] = out;
}

void Page::add_table(std::string_view title, std::string_view note, std::vector<std::string> columns,
                     const std::vector<std::vector<std::string>>& rows) {
  json cells = json::array();
  for (std::size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) {
    json row = json::array();
    for (const std::string& cell : rows[i]) row.push_back(shown(cell));
    cells.push_back(std::move(row));
  }
  data_["sections"].push_back({{"title", title}, {"note", note}, {"columns", std::move(columns)}, {"rows", cells}, {"all", rows.size()}});
}

std::string Page::text() const {
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", kPolicy);
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>saturate</title>\n<style>\n";
  out += kPageStyle;
  out += "</style></head><body>\n<noscript>This page draws its data by JavaScript, which is off here.</noscript>\n";
  out += "<div id=\"page\"></div>\n<script type=\"application/json\" id=\"data\">";
  out += for_script(data_);
  out += "</script>\n<script>\n\"use strict\";\n(() => {\n";
  out += kPageScript;
  out += "})();\n</script></body></html>\n";
  return out;
}

}  // namespace saturate
