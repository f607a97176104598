// The built-in rules: bytes that were made when the library was built or, with their examples, the files themselves.
#include "rules/compile/rule_set.h"
#include "rules/stored/flat.h"

namespace saturate {

absl::StatusOr<RuleSet> RuleSet::builtin(bool examples) {
  RuleSet set;
  if (!examples) {  // what is read with examples, as tests do, checks that names differ
    for (auto& stored : unflatten(flat_rules()))
      if (stored->head().defines)
        set.operators_->add(std::move(stored));
      else
        set.rules_.push_back(std::move(stored));
    set.native_ = saturate::native_rules();
    return set;
  }
  for (const EmbeddedRules& file : embedded_rules())
    if (auto status = set.load_text(file.text, std::string(file.name)); !status.ok()) return status;
  for (NativeRule& rule : saturate::native_rules())
    if (auto status = set.add(std::move(rule)); !status.ok()) return status;
  return set;
}

}  // namespace saturate
