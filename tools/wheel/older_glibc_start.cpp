// The start of a program on glibc 2.28 and later (older_glibc.cpp): since 2.34 libc runs a program's constructors itself, before that the
// program did.
#include "older_glibc.h"

using Constructor = void (*)(int, char**, char**);
using Main = int (*)(int, char**, char**);

extern "C" {
void start_code() asm("_init");
extern Constructor early_begin[] asm("__preinit_array_start");
extern Constructor early_end[] asm("__preinit_array_end");
extern Constructor begin[] asm("__init_array_start");
extern Constructor end[] asm("__init_array_end");
int older_start(Main main, int argc, char** argv, Constructor init, void (*fini)(), void (*at_end)(), void* stack);
int own_start(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*at_end)(),
              void* stack) asm("__wrap___libc_start_main") __attribute__((visibility("hidden")));
}
asm(".symver older_start,__libc_start_main@" OLDEST);

static void run_constructors(int argc, char** argv, char** environment) {
  for (Constructor* c = early_begin; c != early_end; ++c) (*c)(argc, argv, environment);
  start_code();
  for (Constructor* c = begin; c != end; ++c) (*c)(argc, argv, environment);
}

int own_start(Main main, int argc, char** argv, void (*)(), void (*fini)(), void (*at_end)(), void* stack) {
  return older_start(main, argc, argv, run_constructors, fini, at_end, stack);
}
