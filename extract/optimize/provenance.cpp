#include "extract/optimize/provenance.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "egraph/explain.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

using Numbers = std::vector<std::uint32_t>;  // ascending, each once

void add_all(Numbers& into, const Numbers& more) {
  if (more.empty() || into == more) return;
  Numbers out;
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(out));
  into = std::move(out);
}

Numbers ascending(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// For each node of the model that is gone: the written ones that do its work. A node whose value is still there is replaced by what
// computes that value; one whose value is not there, by what replaces its readers.
class Replacements {
 public:
  Replacements(const Grown& grown, std::span<const WrittenNode> written)
      : facts_(*grown.g), e_(grown.g->egraph()), lowered_(grown.lowered), written_(written), replaced_(written.size()) {
    collect_sources();
    for (std::uint32_t w = 0; w < written.size(); ++w) {
      if (written[w].source) own_[written[w].source->node] = w;
      if (written[w].node == kNone) copies_[written[w].output] = w;
      for (const Id id : written[w].outputs) maker_[e_.find(id)] = w;
    }
    find_owners();
    hand_down();
  }

  // The nodes that a written one stands for, in the model's order.
  std::vector<std::shared_ptr<const Provenance::Replaced>> of(std::size_t written) {
    std::vector<std::shared_ptr<const Provenance::Replaced>> nodes;
    told_.resize(sources_.size());
    for (const std::uint32_t s : replaced_[written]) {
      if (!told_[s]) told_[s] = told(*sources_[s]->node);
      nodes.push_back(told_[s]);
    }
    return nodes;
  }

 private:
  static std::shared_ptr<const Provenance::Replaced> told(const Node& node) {
    const std::string output = first_output(node);
    return std::make_shared<Provenance::Replaced>(Provenance::Replaced{
        node.name.empty() ? output : node.name, qualified_name(node.domain, node.op_type), output, metadata_of(node), devices_of(node)});
  }

  void collect_sources() {
    auto inner = lowered_.inlined.begin();
    for (std::size_t i = 0; i <= lowered_.sources.size(); ++i) {
      for (; inner != lowered_.inlined.end() && inner->first == i; ++inner) sources_.push_back(&inner->second);
      if (i < lowered_.sources.size()) sources_.push_back(&lowered_.sources[i]);
    }
  }

  // Of a value: what replaces those that read it; those that read no more than its sizes; those that are still there.
  struct Readers {
    Numbers owners, by_shape;
    Numbers kept;  // in any order, for a value may have 100,000 readers
  };

  // From the last to the first: readers come behind what they read.
  void find_owners() {
    std::unordered_map<Id, Readers> readers;
    for (std::uint32_t s = static_cast<std::uint32_t>(sources_.size()); s-- > 0;) {
      const Source& source = *sources_[s];
      if (const auto own = own_.find(source.node); own != own_.end()) {
        if (!written_[own->second].kept) replaced_[own->second].push_back(s);
        for (const Id input : source.inputs) readers[e_.find(input)].kept.push_back(own->second);
        continue;
      }
      const Numbers owners = owners_of(source, readers);
      if (owners.empty()) continue;
      const bool reads_sizes = source.node->domain.empty() && one_of(source.node->op_type, {"Shape", "Size"});
      for (const Id input : source.inputs) {
        Readers& of_input = readers[e_.find(input)];
        add_all(reads_sizes ? of_input.by_shape : of_input.owners, owners);
      }
      for (const std::uint32_t w : owners) replaced_[w].push_back(s);
    }
    for (Numbers& sources : replaced_) std::reverse(sources.begin(), sources.end());
  }

  Numbers owners_of(const Source& source, const std::unordered_map<Id, Readers>& readers) const {
    Numbers owners = direct(source);
    if (!owners.empty()) return owners;
    Readers all;
    bool constant = false;  // computed once and stored
    for (const Id output : source.outputs) {
      if (output == kNone) continue;
      constant = constant || facts_.facts(output).constant;
      const auto it = readers.find(e_.find(output));
      if (it == readers.end()) continue;
      add_all(all.owners, it->second.owners);
      add_all(all.by_shape, it->second.by_shape);
      add_all(all.kept, ascending(it->second.kept));
    }
    if (!all.owners.empty()) return all.owners;
    if (!all.by_shape.empty()) return all.by_shape;
    return constant ? Numbers() : all.kept;  // what gives an input back as it is
  }

  Numbers direct(const Source& source) const {
    if (const auto copy = copies_.find(first_output(*source.node)); copy != copies_.end()) return {copy->second};
    Numbers makers;
    for (const Id output : source.outputs)
      if (const auto it = output == kNone ? maker_.end() : maker_.find(e_.find(output)); it != maker_.end()) add_all(makers, {it->second});
    return makers;
  }

  // What rules made on the way, of values that the model has not, stands for what its readers stand for.
  void hand_down() {
    std::unordered_map<Id, Numbers> wanted;
    for (std::size_t w = written_.size(); w-- > 0;) {
      if (written_[w].source || written_[w].node == kNone) continue;
      if (replaced_[w].empty())
        for (const Id output : written_[w].outputs) add_all(replaced_[w], wanted[e_.find(output)]);
      for (const Id input : written_[w].inputs) add_all(wanted[e_.find(input)], replaced_[w]);
    }
  }

  const OnnxEGraph& facts_;
  const EGraph& e_;
  const Lowered& lowered_;
  std::span<const WrittenNode> written_;
  std::vector<const Source*> sources_;
  std::unordered_map<const Node*, std::uint32_t> own_;     // nodes that are written, as they are or in a form of another opset
  std::unordered_map<std::string, std::uint32_t> copies_;  // by the output that is a copy
  std::unordered_map<Id, std::uint32_t> maker_;
  std::vector<Numbers> replaced_;                                  // positions in sources_
  std::vector<std::shared_ptr<const Provenance::Replaced>> told_;  // by position, once asked for
};

std::vector<std::string> rules_of(const Grown& grown, const WrittenNode& written) {
  if (written.source || written.node == kNone) return {};
  const EGraph& e = grown.g->egraph();
  std::vector<std::string> rules;
  if (records_explanations(e)) rules = rules_behind(e, written.node);
  const std::uint32_t maker = e.made_by(written.node);
  if (rules.empty() && maker < grown.rule_names.size()) rules.push_back(grown.rule_names[maker]);
  return rules;
}

// metadata_props that grow up to a size: views of texts that live elsewhere. Keys are few, so that they are looked for one after the other.
class Merged {
 public:
  explicit Merged(const Metadata& own) {
    for (const auto& [key, value] : own) take(key, value);
  }

  void add(const Metadata& more) {
    bool fits = true;
    for (const auto& [key, value] : more) fits = add(key, value) && fits;
    cut_ += !fits;
  }

  bool changed() const { return changed_ || cut(); }
  bool cut() const { return cut_ > 0; }

  Metadata all() const {
    Metadata out;
    for (const auto& [key, values] : texts_) out[std::string(key)] = fmt::format("{}", fmt::join(values, "\n"));
    if (cut()) out[std::string(kCutKey)] = fmt::format("of {} replaced nodes not all was taken", cut_);
    return out;
  }

 private:
  using Texts = std::pair<std::string_view, std::vector<std::string_view>>;

  Texts* find(std::string_view key) {
    const auto it = std::find_if(texts_.begin(), texts_.end(), [&](const Texts& t) { return t.first == key; });
    return it == texts_.end() ? nullptr : &*it;
  }

  void take(std::string_view key, std::string_view value) {
    Texts* there = find(key);
    if (!there) there = &texts_.emplace_back(key, std::vector<std::string_view>());
    bytes_ += value.size() + (there->second.empty() ? key.size() : 1);
    there->second.push_back(value);
  }

  // Whether it is there now.
  bool add(std::string_view key, std::string_view value) {
    const Texts* there = find(key);
    if (there && std::find(there->second.begin(), there->second.end(), value) != there->second.end()) return true;
    if (bytes_ + value.size() + (there ? 1 : key.size()) > kMostMetadata) return false;
    take(key, value);
    changed_ = true;
    return true;
  }

  std::vector<Texts> texts_;
  std::size_t bytes_ = 0, cut_ = 0;
  bool changed_ = false;
};

std::string names_of(const std::vector<std::shared_ptr<const Provenance::Replaced>>& nodes) {
  constexpr std::size_t kMostBytes = 1024;
  std::string out;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (out.size() + nodes[i]->name.size() > kMostBytes) return out + fmt::format(" and {} more", nodes.size() - i);
    out += fmt::format("{}{}", i == 0 ? "" : ", ", nodes[i]->name);
  }
  return out;
}

// A new node runs where all did whose work it does; where they differ, nobody said where it runs.
void set_devices(const Provenance& p, Node& node) {
  if (node.origin || p.replaces.empty() || p.replaces[0]->devices.empty()) return;
  const Devices& first = p.replaces[0]->devices;
  if (std::all_of(p.replaces.begin(), p.replaces.end(), [&](const auto& replaced) { return replaced->devices == first; }))
    node.devices = std::make_shared<const Devices>(first);
}

}  // namespace

std::vector<Provenance> provenance(const Grown& grown, std::span<const WrittenNode> written) {
  Replacements replacements(grown, written);
  std::vector<Provenance> out;
  out.reserve(written.size());
  for (std::size_t w = 0; w < written.size(); ++w)
    out.push_back({grown.where, written[w].op_type, written[w].output, written[w].values, written[w].kept, replacements.of(w),
                   rules_of(grown, written[w])});
  return out;
}

bool has_metadata(const Model& model) {
  const auto has = [](const auto& self, const std::vector<Node>& nodes) -> bool {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      bool found = !metadata_of(node).empty();
      for_each_body(node, [&](const Graph& body) { found = found || self(self, body.nodes); });
      return found;
    });
  };
  return has(has, model.graph.nodes) ||
         std::any_of(model.functions.begin(), model.functions.end(), [&](const Function& f) { return has(has, f.nodes); });
}

std::size_t merge_metadata(std::span<const Provenance> provenance, bool annotate, Graph& result) {
  std::unordered_map<std::string, Node*> by_value;
  for (Node& node : result.nodes) by_value[first_output(node)] = &node;
  std::size_t cut = 0;
  for (const Provenance& p : provenance) {
    if (p.replaces.empty() && !(annotate && !p.rules.empty())) continue;
    for (const std::string& value : p.values) {
      const auto node = by_value.find(value);
      if (node == by_value.end()) continue;
      set_devices(p, *node->second);
      const Metadata own = metadata_of(*node->second);
      Merged merged(own);
      for (const auto& replaced : p.replaces) merged.add(replaced->metadata);
      const bool tells_rules = annotate && !p.rules.empty(), tells_nodes = annotate && !p.replaces.empty();
      if (!merged.changed() && !tells_rules && !tells_nodes) continue;
      Metadata all = merged.all();
      if (tells_rules) all[std::string(kRulesKey)] = fmt::format("{}", fmt::join(p.rules, ", "));
      if (tells_nodes) all[std::string(kReplacesKey)] = names_of(p.replaces);
      cut += merged.cut();
      node->second->metadata = std::make_shared<const Metadata>(std::move(all));
    }
  }
  return cut;
}

}  // namespace saturate
