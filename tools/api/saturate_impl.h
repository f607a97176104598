// Private to the library's implementation: what stands behind the handles of saturate.h.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "extract/price/cost.h"
#include "kernels/compare/other_runtime.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/model.h"
#include "rules/compile/rule_set.h"
#include "tools/api/saturate.h"
#include "tools/explain/not_fused.h"
#include "tools/pipeline/report.h"

namespace saturate::api {

struct Model::Impl {
  saturate::Model model;
};
struct RuleSet::Impl {
  saturate::RuleSet rules;
};
struct Report::Impl {
  WholeReport report;
  std::optional<std::vector<NotFused>> not_fused = {};
};
struct Session::Impl {
  saturate::Model model;
  saturate::Session session;
};

Error error_of(const absl::Status& status, const std::string& place, const std::string& advice);
// What `run` returns. No exception leaves the library: it is a lack of memory, or a mistake of ours.
template <typename F>
auto guarded(F run) -> decltype(run()) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return Error{Code::kFile, "not enough memory; give more, or take a smaller model"};
  } catch (const std::exception& e) {
    return Error{Code::kFile, std::string("internal error: ") + e.what() + "; this is a bug in saturate: please report it with the model"};
  }
}
// Sizes are checked; the tensor's data is used where it lies.
Expected<saturate::Value> to_internal(const Value& value, const std::string& name);
Value to_public(const saturate::Value& value, bool writable);
Expected<Inputs> to_internal(const Values& values);
// A runtime that the caller brings, as the tools take one.
OtherRuntime to_internal(const Runtime& runtime);
std::unique_ptr<saturate::CostModel> make_cost_model(CostModel function, double constant_cost);
// What the function said wrong, "" if nothing.
std::string cost_model_error(const saturate::CostModel& model);

}  // namespace saturate::api
