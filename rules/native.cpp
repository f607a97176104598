#include "rules/native_views.h"

namespace saturate {

std::vector<NativeRule> native_rules() { return native_view_rules(); }

}  // namespace saturate
