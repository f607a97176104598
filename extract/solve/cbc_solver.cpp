#include "extract/solve/cbc_solver.h"

#if SATURATE_CBC
#include <coin/Cbc_C_Interface.h>
#include <dlfcn.h>

#include <optional>

#include "fmt/format.h"

namespace saturate {
namespace {

struct CbcFunctions {
  decltype(&Cbc_newModel) new_model;
  decltype(&Cbc_deleteModel) delete_model;
  decltype(&Cbc_loadProblem) load_problem;
  decltype(&Cbc_setInteger) set_integer;
  decltype(&Cbc_setLogLevel) set_log_level;
  decltype(&Cbc_setParameter) set_parameter;
  decltype(&Cbc_setMIPStartI) set_start;
  decltype(&Cbc_solve) solve;
  decltype(&Cbc_bestSolution) best_solution;
  decltype(&Cbc_status) status;
  decltype(&Cbc_secondaryStatus) secondary_status;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<CbcFunctions> load() {
  void* library = nullptr;
  for (const char* name : {"libCbcSolver.so.3", "libCbcSolver.so.3.1", "libCbcSolver.so"})  // Debian 12, Ubuntu 24.04, others
    if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
  CbcFunctions f{};
  if (!library || !find(library, "Cbc_newModel", f.new_model) || !find(library, "Cbc_deleteModel", f.delete_model) ||
      !find(library, "Cbc_loadProblem", f.load_problem) || !find(library, "Cbc_setInteger", f.set_integer) ||
      !find(library, "Cbc_setLogLevel", f.set_log_level) || !find(library, "Cbc_setParameter", f.set_parameter) ||
      !find(library, "Cbc_setMIPStartI", f.set_start) || !find(library, "Cbc_solve", f.solve) ||
      !find(library, "Cbc_bestSolution", f.best_solution) || !find(library, "Cbc_status", f.status) ||
      !find(library, "Cbc_secondaryStatus", f.secondary_status))
    return std::nullopt;
  return f;
}

// nullptr if the library is not there. Loaded once, kept until the process ends.
const CbcFunctions* cbc() {
  static const std::optional<CbcFunctions> functions = load();
  return functions ? &*functions : nullptr;
}

}  // namespace

bool has_cbc() { return cbc() != nullptr; }

IntegerSolution solve_by_cbc(const IntegerProgram& p, double seconds) {
  const CbcFunctions* f = cbc();
  if (!f) return {};
  Cbc_Model* model = f->new_model();
  f->load_problem(model, static_cast<int>(p.columns()), static_cast<int>(p.rows()), p.begin.data(), p.row.data(), p.factor.data(),
                  p.lower.data(), p.upper.data(), p.objective.data(), p.row_lower.data(), p.row_upper.data());
  for (std::size_t i = 0; i < p.whole; ++i) f->set_integer(model, static_cast<int>(i));
  f->set_log_level(model, 0);
  f->set_parameter(model, "log", "0");
  f->set_parameter(model, "slog", "0");
  f->set_parameter(model, "preprocess", "off");  // its clean-up after a time-out reads freed memory in 2.10.8
  f->set_parameter(model, "timeMode", "elapsed");
  f->set_parameter(model, "sec", fmt::format("{:.3f}", seconds).c_str());
  f->set_parameter(model, "ratioGap", "0");
  f->set_parameter(model, "allowableGap", "0");
  const std::vector<double> ones(p.start.size(), 1);
  f->set_start(model, static_cast<int>(p.start.size()), p.start.data(), ones.data());
  f->solve(model);
  IntegerSolution out;
  if (const double* solution = f->best_solution(model)) out.columns.assign(solution, solution + p.columns());
  // Secondary status 1: the relaxation is no better than the start.
  out.proved = f->status(model) == 0 && f->secondary_status(model) <= 1;
  f->delete_model(model);
  return out;
}

}  // namespace saturate
#else
namespace saturate {

bool has_cbc() { return false; }
IntegerSolution solve_by_cbc(const IntegerProgram&, double) { return {}; }

}  // namespace saturate
#endif
