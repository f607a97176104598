#include "extract/solve/highs_solver.h"

#if SATURATE_HIGHS  // linked where the build asks for it: Debian 12 has no package of it
#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <memory>
#include <numeric>

namespace saturate {

IntegerSolution solve_by_highs(const IntegerProgram& p, double seconds) {
  const std::unique_ptr<void, decltype(&Highs_destroy)> highs(Highs_create(), Highs_destroy);
  void* model = highs.get();
  Highs_setBoolOptionValue(model, "output_flag", 0);
  Highs_setIntOptionValue(model, "threads", 1);
  Highs_setDoubleOptionValue(model, "time_limit", seconds);
  Highs_setDoubleOptionValue(model, "mip_rel_gap", 0);
  Highs_setDoubleOptionValue(model, "mip_abs_gap", 0);
  std::vector<HighsInt> kinds(p.columns(), kHighsVarTypeContinuous);
  std::fill_n(kinds.begin(), p.whole, kHighsVarTypeInteger);
  IntegerSolution out;
  if (Highs_passMip(model, static_cast<HighsInt>(p.columns()), static_cast<HighsInt>(p.rows()), static_cast<HighsInt>(p.row.size()),
                    kHighsMatrixFormatColwise, kHighsObjSenseMinimize, 0, p.objective.data(), p.lower.data(), p.upper.data(),
                    p.row_lower.data(), p.row_upper.data(), p.begin.data(), p.row.data(), p.factor.data(),
                    kinds.data()) == kHighsStatusError)
    return out;
  std::vector<HighsInt> index(p.whole);
  std::iota(index.begin(), index.end(), 0);
  std::vector<double> value(p.whole, 0);
  for (const int i : p.start) value[static_cast<std::size_t>(i)] = 1;
  Highs_setSparseSolution(model, static_cast<HighsInt>(p.whole), index.data(), value.data());
  if (Highs_run(model) == kHighsStatusError) return out;
  HighsInt has_solution = kHighsSolutionStatusNone;
  Highs_getIntInfoValue(model, "primal_solution_status", &has_solution);
  if (has_solution == kHighsSolutionStatusFeasible) {
    out.columns.resize(p.columns());
    Highs_getSolution(model, out.columns.data(), nullptr, nullptr, nullptr);
  }
  out.proved = Highs_getModelStatus(model) == kHighsModelStatusOptimal;
  return out;
}

}  // namespace saturate
#endif
