#include "rules/compile/rule_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "absl/container/flat_hash_set.h"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {

bool RuleFilter::accepts(std::string_view name, Effect effect, std::span<const std::string_view> assumes) const {
  if (!std::all_of(assumes.begin(), assumes.end(), [&](std::string_view a) { return assumptions.allows(std::string(a)); })) return false;
  if (!effects.allows(effect)) return false;
  const auto named = [&](const std::string& n) { return n == name || n == law_of(name); };  // a law's name is for all its instances
  if (std::any_of(except.begin(), except.end(), named)) return false;
  return only.empty() || std::any_of(only.begin(), only.end(), named);
}

namespace {

// What a direction of a rule makes, and does not read.
template <typename Visit>
void for_each_made(const RuleHead& head, Visit visit) {
  for (const RuleDirection& direction : head.directions)
    for (const RuleOp& made : direction.makes) {
      const auto same = [&](const RuleOp& wanted) { return wanted.domain == made.domain && wanted.op_type == made.op_type; };
      if (std::none_of(direction.wants.begin(), direction.wants.end(), same)) visit(made);
    }
}

std::string full_name(const RuleOp& op) {
  return op.domain.empty() ? std::string(op.op_type) : fmt::format("{}.{}", op.domain, op.op_type);
}

}  // namespace

bool RuleFilter::spares(const RuleHead& head) const {
  bool spares = true;
  if (!not_made.empty())
    for_each_made(head, [&](const RuleOp& made) {
      spares &= std::none_of(not_made.begin(), not_made.end(),
                             [&](const std::string& name) { return name == made.op_type || name == full_name(made); });
    });
  return spares;
}

std::vector<std::string> RuleSet::made_operators() const {
  std::set<std::string> names;
  for (const auto& rule : rules_) for_each_made(rule->head(), [&](const RuleOp& made) { names.insert(full_name(made)); });
  return {names.begin(), names.end()};
}

absl::Status RuleSet::check_name(const std::string& name, const std::string& place) const {
  const auto same = [&](const auto& r) { return r->head().name == name; };
  const bool known = std::any_of(rules_.begin(), rules_.end(), same) ||
                     std::any_of(native_.begin(), native_.end(), [&](const NativeRule& n) { return n.name == name; });
  if (!known) return absl::OkStatus();
  const Rule* other = find(name);
  return absl::InvalidArgumentError(fmt::format("{}: rule `{}` is already defined in {}; give it another name", place, name,
                                                other ? other->file : std::string("the native rules")));
}

absl::Status RuleSet::add_versions(const RuleFile& file) {
  for (const auto& [domain, version] : file.opsets) {
    if (!is_of_own_domain(domain)) continue;
    const auto [known, is_new] = domain_versions_.emplace(domain, version);
    if (!is_new && known->second != version)
      return absl::InvalidArgumentError(fmt::format("{}:1:1: domain {} has version {} here and {} in another file; a model has one of them",
                                                    file.name, domain, version, known->second));
  }
  return absl::OkStatus();
}

absl::Status RuleSet::load_text(std::string_view text, const std::string& name) {
  auto file = parse_rules(text, name);
  if (!file.ok()) return file.status();
  if (auto status = add_versions(*file); !status.ok()) return status;
  cases_.insert(cases_.end(), std::move_iterator(file->natives.begin()), std::move_iterator(file->natives.end()));
  const auto operators = std::make_shared<RuleOperators>(*operators_);  // sets that are copies of this one keep theirs
  for (Rule& body : file->operators) {
    if (const std::string why = operators->why_not(body); !why.empty())
      return absl::InvalidArgumentError(fmt::format("{}:{}:{}: {}", name, body.place.line, body.place.column, why));
    operators->add(std::make_shared<const StoredRule>(std::move(body)));
  }
  operators_ = operators;
  absl::flat_hash_set<std::string> known;
  for (const auto& rule : rules_) known.emplace(rule->head().name);
  for (const NativeRule& rule : native_) known.insert(rule.name);
  for (Rule& rule : file->rules) {
    if (!known.insert(rule.name).second)
      if (auto status = check_name(rule.name, fmt::format("{}:{}:{}", name, rule.place.line, rule.place.column)); !status.ok())
        return status;
    rules_.push_back(std::make_shared<const StoredRule>(std::move(rule)));
  }
  return absl::OkStatus();
}

absl::Status RuleSet::load_file(const std::string& path) {
  const absl::StatusOr<std::string> text = read_data_file(path);
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(fmt::format("{}: the rule file cannot be read; check the path", path));
  return text.ok() ? load_text(*text, path) : text.status();
}

absl::Status RuleSet::add(NativeRule rule) {
  if (auto status = check_name(rule.name, "native rules"); !status.ok()) return status;
  native_.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status RuleSet::add(const RuleSet& other) {
  for (const Rule& rule : other.rules())
    if (auto status = check_name(rule.name, fmt::format("{}:{}:{}", rule.file, rule.place.line, rule.place.column)); !status.ok())
      return status;
  for (const NativeRule& rule : other.native_)
    if (auto status = check_name(rule.name, "native rules"); !status.ok()) return status;
  rules_.insert(rules_.end(), other.rules_.begin(), other.rules_.end());
  const auto operators = std::make_shared<RuleOperators>(*operators_);
  for (const auto& body : other.operators_->all())
    if (std::find(operators->all().begin(), operators->all().end(), body) == operators->all().end()) operators->add(body);
  operators_ = operators;
  domain_versions_.insert(other.domain_versions_.begin(), other.domain_versions_.end());
  native_.insert(native_.end(), other.native_.begin(), other.native_.end());
  cases_.insert(cases_.end(), other.cases_.begin(), other.cases_.end());
  return absl::OkStatus();
}

const Rule* RuleSet::find(std::string_view name) const {
  const auto first = [&](auto named) {
    return std::find_if(rules_.begin(), rules_.end(), [&](const auto& rule) { return named(rule->head().name) == name; });
  };
  auto it = first([](std::string_view rule) { return rule; });
  if (it == rules_.end()) it = first(law_of);
  return it == rules_.end() ? nullptr : &(*it)->rule();
}

StoredRules RuleSet::all_stored() const {
  StoredRules all = operators_->all();
  all.insert(all.end(), rules_.begin(), rules_.end());
  return all;
}

std::vector<std::vector<const Rule*>> RuleSet::laws() const {
  std::vector<std::vector<const Rule*>> out;
  for (const Rule& rule : rules()) {
    if (out.empty() || law_of(out.back().front()->name) != law_of(rule.name)) out.emplace_back();
    out.back().push_back(&rule);
  }
  return out;
}

std::vector<const Rule*> RuleSet::cases_of(std::string_view native) const {
  std::vector<const Rule*> out;
  for (const Rule& graph : cases_)
    if (graph.name == native) out.push_back(&graph);
  return out;
}

RuleSet RuleSet::filtered(const RuleFilter& filter) const& { return RuleSet(*this).filtered(filter); }

RuleSet RuleSet::filtered(const RuleFilter& filter) && {
  if (!filter.readers.empty()) {
    const Hiding hiding(all_stored(), filter.readers);
    std::erase_if(rules_, [&](const auto& r) { return hiding.hides(r->head()); });
    std::erase_if(native_, [&](const NativeRule& r) { return !r.makes.op_type.empty() && hiding.hides(r.makes); });
  }
  std::erase_if(rules_, [&](const auto& r) {
    return !filter.accepts(r->head().name, r->head().effect, r->head().assumes) || !filter.spares(r->head());
  });
  std::erase_if(native_, [&](const NativeRule& r) {
    return !filter.accepts(r.name, r.effect, std::vector<std::string_view>(r.assumes.begin(), r.assumes.end()));
  });
  return std::move(*this);
}

std::string RuleSet::show(std::string_view name) const {
  std::string out;
  if (const Rule* r = find(name)) {
    if (!r->doc.empty()) {
      std::istringstream lines(r->doc);
      for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
    }
    return out + r->source + "\n";
  }
  for (const auto& body : operators_->all())
    if (law_of(body->rule().name) == name && !out.ends_with(body->rule().source + "\n"))
      out += (body->rule().doc.empty() ? "" : "# " + body->rule().doc + "\n") + body->rule().source + "\n";
  for (const NativeRule& r : native_)
    if (r.name == name) out = fmt::format("# {}\n# native, {}\n{}\n", r.doc, to_string(r.effect), r.example);
  for (const Rule* graph : cases_of(name)) out += graph->source + "\n";
  return out;
}

namespace {

bool some_are_refused(const OnnxEGraph& g) { return g.refusals() != nullptr && g.refusals()->of_any_operator(); }
bool may_fire(const NativeRule& rule, const OnnxEGraph& g) { return !rule.if_refused || some_are_refused(g); }
bool may_fire(const RuleHead& rule, const OnnxEGraph& g) {
  if (!rule.if_refused || g.refusals() == nullptr) return !rule.if_refused;
  OpKey key;
  key.domain = rule.ends_in.domain;
  key.op_type = rule.ends_in.op_type;
  return some_are_refused(g) || g.refusals()->by_place(key);
}

}  // namespace

void RuleSet::add_native(OnnxEGraph& g, const std::shared_ptr<RuleLog>& log, std::vector<Rewrite>& out) const {
  for (const NativeRule& rule : native_)
    if (may_fire(rule, g))
      for (Rewrite& r : rule.make(g, log)) out.push_back(std::move(r));
}

std::vector<Rewrite> RuleSet::compile(OnnxEGraph& g, const std::shared_ptr<RuleLog>& log,
                                      const std::function<bool(const RuleHead&)>& wanted) const {
  define_operators(g);
  std::vector<Rewrite> out;
  for (const auto& rule : rules_)
    if (may_fire(rule->head(), g) && (!wanted || wanted(rule->head())))
      for (Rewrite& r : compile_rule(rule->rule(), g, log)) out.push_back(std::move(r));
  add_native(g, log, out);
  return out;
}

std::vector<Rewrite> RuleSet::compile_when_wanted(OnnxEGraph& g, const std::function<bool(const RuleHead&)>& wanted) const {
  define_operators(g);
  std::vector<Rewrite> out;
  out.reserve(2 * rules_.size());
  KnownKinds kinds(g);
  for (const auto& rule : rules_)
    if (may_fire(rule->head(), g) && wanted(rule->head())) saturate::compile_when_wanted(rule, g, kinds, out);
  add_native(g, nullptr, out);
  return out;
}

}  // namespace saturate
