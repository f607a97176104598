#include "extract/solve/cbc_library.h"

#if SATURATE_CBC
#include <dlfcn.h>

#include <optional>

namespace saturate {
namespace {

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

}  // namespace

const CbcFunctions* cbc() {
  static const std::optional<CbcFunctions> functions = load();
  return functions ? &*functions : nullptr;
}

}  // namespace saturate
#endif
