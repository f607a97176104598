#include "rules/native_views.h"

namespace saturate {

std::vector<NativeRule> native_rules() {
  std::vector<NativeRule> out = native_view_rules();
  for (NativeRule& rule : native_rope_rules()) out.push_back(std::move(rule));
  return out;
}

}  // namespace saturate
