// COIN-OR CBC's C interface, opened when it is first asked for: a process that never solves an integer program doesn't load it, and a
// machine without it does without exact extraction.
#pragma once

#if SATURATE_CBC
#include <coin/Cbc_C_Interface.h>

namespace saturate {

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

// nullptr if the library is not there. Loaded once, kept until the process ends.
const CbcFunctions* cbc();

}  // namespace saturate
#endif
