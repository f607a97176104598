// Runs extractors on e-graphs in egraph-serialize's JSON and checks each result with an evaluator of its own.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "extract/solve/extractors.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

struct SerializedEGraph {
  saturate::ExtractionProblem problem;
  std::vector<std::string> nodes, classes;  // ids in the file
};

// An e-graph, an error, or nothing where the JSON is of another kind. `subsumed` nodes are not for extraction and stay out.
absl::StatusOr<std::optional<SerializedEGraph>> read_egraph(const fs::path& path) {
  std::ifstream in(path);
  const auto file = json::parse(in, nullptr, false);
  if (file.is_discarded()) return absl::InvalidArgumentError("not JSON");
  if (!file.is_object() || !file.contains("nodes") || !file["nodes"].is_object()) return std::nullopt;
  SerializedEGraph out;
  std::map<std::string, std::uint32_t> class_number, class_of_node;
  std::vector<std::vector<std::pair<std::string, const json*>>> members;
  for (const auto& [id, node] : file["nodes"].items()) {
    if (!node.is_object() || !node.contains("eclass") || !node["eclass"].is_string())
      return absl::InvalidArgumentError(fmt::format("node {}: no eclass", id));
    const std::string name = node["eclass"];
    const auto [it, fresh] = class_number.try_emplace(name, out.classes.size());
    if (fresh) out.classes.push_back(name), members.emplace_back();
    class_of_node[id] = it->second;
    if (!node.value("subsumed", false)) members[it->second].emplace_back(id, &node);
  }
  for (const auto& nodes : members) {
    for (const auto& [id, node] : nodes) {
      const auto cost = node->value("cost", json(1.0));
      if (!cost.is_number()) return absl::InvalidArgumentError(fmt::format("node {}: the cost is not a number", id));
      if (cost.get<double>() < 0)
        return absl::InvalidArgumentError(fmt::format("node {} has the cost {}: costs must not be negative", id, cost.get<double>()));
      std::vector<std::uint32_t> children;
      if (node->contains("children"))
        for (const auto& child : (*node)["children"]) {
          const auto it = child.is_string() ? class_of_node.find(child) : class_of_node.end();
          if (it == class_of_node.end())
            return absl::InvalidArgumentError(fmt::format("node {}: the child {} is not in the file", id, child.dump()));
          children.push_back(it->second);
        }
      out.problem.add_node(saturate::Price(cost.get<double>()), children);
      out.nodes.push_back(id);
    }
    out.problem.end_class();
  }
  if (file.contains("root_eclasses"))
    for (const auto& root : file["root_eclasses"]) {
      const auto it = root.is_string() ? class_number.find(root) : class_number.end();
      if (it == class_number.end()) return absl::InvalidArgumentError(fmt::format("root class {} has no node", root.dump()));
      out.problem.roots.push_back(it->second);
    }
  if (const std::uint32_t root = saturate::root_without_term(out.problem); root != saturate::kUnchosen)
    return absl::InvalidArgumentError(fmt::format("root class {} has no finite acyclic term", out.classes[root]));
  return out;
}

struct Row {
  std::string file, extractor, error = "";
  double dag = 0, tree = 0, seconds = 0;
  bool valid = false, proved = false;
  std::map<std::string, std::string> choices = {};
};

Row run(const std::string& file, const SerializedEGraph& g, const saturate::Extractor& extractor, const saturate::ExtractorLimits& limits) {
  Row row{.file = file, .extractor = std::string(extractor.name)};
  const auto begin = std::chrono::steady_clock::now();
  const auto result = extractor.run(g.problem, limits);
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!result.ok()) {
    row.error = std::string(result.status().message());
    return row;
  }
  const auto value = saturate::evaluate_choice(g.problem, result->choice);
  row.error = value.wrong;
  row.valid = value.wrong.empty();
  row.dag = value.dag.cost;
  row.tree = value.tree.cost;
  row.proved = result->proved;
  if (row.valid) {
    const auto needed = saturate::needed_only(g.problem, result->choice);
    for (std::uint32_t c = 0; c < needed.size(); ++c)
      if (needed[c] != saturate::kUnchosen) row.choices[g.classes[c]] = g.nodes[needed[c]];
  }
  return row;
}

void print_json(const Row& row) {
  ordered_json line{{"file", row.file}, {"extractor", row.extractor}};
  if (row.valid) {
    line["dag"] = row.dag;
    line["tree"] = std::isfinite(row.tree) ? ordered_json(row.tree) : ordered_json(nullptr);
  }
  line["valid"] = row.valid;
  line["seconds"] = row.seconds;
  line["proved"] = row.proved;
  if (!row.error.empty()) line["error"] = row.error;
  std::cout << line.dump() << std::endl;
}

// best_known.json of the folder or of one above it, with the path that its keys start from.
std::pair<json, fs::path> best_known(const fs::path& dir) {
  for (fs::path at = fs::absolute(dir).lexically_normal();; at = at.parent_path()) {
    std::ifstream in(at / "best_known.json");
    if (in) {
      json file = json::parse(in, nullptr, false);
      if (file.is_object()) return {file, at};
    }
    if (at == at.parent_path()) return {json::object(), dir};
  }
}

struct Summary {
  std::size_t files = 0, failed = 0, compared = 0, at_best = 0, proved = 0;
  double log_ratio = 0, worst = 1, seconds = 0, longest = 0;
};

void add(Summary& s, const Row& row, const json& known, const std::string& key) {
  ++s.files;
  s.seconds += row.seconds;
  s.longest = std::max(s.longest, row.seconds);
  if (!row.valid) ++s.failed;
  s.proved += row.proved;
  if (!row.valid || !known.contains(key) || !known[key].contains("best_dag")) return;
  const double best = known[key]["best_dag"];
  const double ratio = best > 0 ? row.dag / best : (row.dag > 0 ? HUGE_VAL : 1);
  ++s.compared;
  s.at_best += ratio <= 1 + 1e-9;
  s.log_ratio += std::log(ratio);
  s.worst = std::max(s.worst, ratio);
  if (ratio > 1 + 1e-9 && row.extractor == "portfolio")
    fmt::print("above best known: {} {} against {} ({:.5f})\n", row.file, row.dag, best, ratio);
}

void print_table(const std::map<std::string, Summary>& summaries) {
  fmt::print("{:<12} {:>6} {:>7} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8}\n", "extractor", "files", "failed", "geomean", "max ratio", "<= best",
             "proved", "total s", "max s");
  for (const auto& [name, s] : summaries)
    fmt::print("{:<12} {:>6} {:>7} {:>9.4f} {:>9.4f} {:>5}/{:<3} {:>8} {:>9.3f} {:>8.3f}\n", name, s.files, s.failed,
               s.compared ? std::exp(s.log_ratio / static_cast<double>(s.compared)) : 1, s.worst, s.at_best, s.compared, s.proved,
               s.seconds, s.longest);
}

struct Options {
  std::string dir, which = "portfolio", choices_path;
  bool as_json = false;
  saturate::ExtractorLimits limits;
};

std::vector<fs::path> json_files(const std::string& dir) {
  std::vector<fs::path> files;
  if (fs::is_directory(dir)) {
    for (const auto& entry : fs::recursive_directory_iterator(dir))
      if (entry.is_regular_file() && entry.path().extension() == ".json") files.push_back(entry.path());
  } else {
    files.push_back(dir);
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Every e-graph below `dir` by every extractor asked for. False: something failed, and was said.
bool run_all(const Options& options) {
  const auto [known, known_from] = best_known(options.dir);
  const fs::path base = fs::is_directory(options.dir) ? fs::path(options.dir) : fs::path(options.dir).parent_path();
  std::map<std::string, Summary> summaries;
  ordered_json choices = ordered_json::object();
  std::size_t egraphs = 0;
  bool good = true;
  for (const fs::path& path : json_files(options.dir)) {
    const std::string name = path.lexically_relative(base).generic_string();
    auto egraph = read_egraph(path);
    if (egraph.ok() && !egraph->has_value()) {
      if (path.filename() != "best_known.json") std::cerr << "extraction_gym: " << name << ": no e-graph, left out\n";
      continue;
    }
    ++egraphs;
    const std::string key = fs::absolute(path).lexically_normal().lexically_relative(known_from).generic_string();
    for (const auto& extractor : saturate::extractors()) {
      if (options.which != "all" && options.which != extractor.name) continue;
      Row row = egraph.ok() ? run(name, **egraph, extractor, options.limits)
                            : Row{.file = name, .extractor = std::string(extractor.name), .error = std::string(egraph.status().message())};
      if (options.as_json) print_json(row);
      if (!row.error.empty()) {
        good = false;
        std::cerr << "extraction_gym: error: " << name << ": " << row.error << "\n";
      }
      add(summaries[row.extractor], row, options.as_json ? json::object() : known, key);
      if (!options.choices_path.empty()) choices[name] = row.choices;
    }
  }
  if (!options.as_json) print_table(summaries);
  if (options.choices_path.empty()) return good;
  std::ofstream out(options.choices_path);
  out << (egraphs == 1 ? choices.begin().value() : choices).dump(1) << "\n";
  if (!out) std::cerr << "extraction_gym: error: " << options.choices_path << ": cannot be written\n";
  return good && out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Extraction on e-graphs in egraph-serialize's JSON; costs are relative to best_known.json where that is found"};
  Options options;
  std::string names = "all";
  for (const auto& e : saturate::extractors()) names += fmt::format(", {} ({})", e.name, e.description);
  app.add_option("dir", options.dir, "Folder of e-graphs, or one file")->required()->check(CLI::ExistingPath);
  app.add_option("--extractor", options.which, names);
  app.add_option("--time-limit", options.limits.seconds, "Seconds for each file")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.limits.seed, "For the extractors that draw");
  app.add_flag("--json", options.as_json, "One object a line: file, extractor, dag, tree, valid, seconds (of extraction alone), proved");
  app.add_option("--choices", options.choices_path,
                 "Write the choices as JSON: e-class -> node id; under each file's name if there are several");
  CLI11_PARSE(app, argc, argv);
  if (options.which != "all" && !saturate::find_extractor(options.which)) {
    std::cerr << "extraction_gym: error: " << options.which << ": no such extractor; known are " << names << "\n";
    return 2;
  }
  if (options.which == "all" && !options.choices_path.empty()) {
    std::cerr << "extraction_gym: error: --choices wants one extractor\n";
    return 2;
  }
  return run_all(options) ? 0 : 1;
}
