// Links what is built on a new glibc so that it runs on glibc 2.28 and later: the linker sends what changed since to the names here
// (--wrap, see older_glibc.cmake), and these go on to the older version of the same function, which every glibc keeps.
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstdint>
#include <ctime>

#include "older_glibc.h"

// A jump, so that dlopen and dlsym see who called.
#define OLDER(name) OLDER_AS("older_" #name, "__wrap_" #name, #name)
#define OLDER_AS(older, wrap, name)                                                                                      \
  asm(".symver " older "," name "@" OLDEST "\n.globl " wrap "\n.hidden " wrap "\n.type " wrap ",@function\n.text\n" wrap \
      ":\n  " JUMP_TO(older) "\n.size " wrap ",.-" wrap "\n")

// Since 2.29 these leave out what the standards before C99 wanted of errors; values are the same.
OLDER(exp);
OLDER(exp2);
OLDER(log);
OLDER(log2);
OLDER(pow);
// Since 2.34, some since 2.32, threads and dlopen are in libc itself.
OLDER(dladdr);
OLDER(dlclose);
OLDER(dlerror);
OLDER(dlopen);
OLDER(dlsym);
OLDER(pthread_attr_getstack);
OLDER(pthread_attr_setstacksize);
OLDER(pthread_create);
OLDER(pthread_detach);
OLDER(pthread_getattr_np);
OLDER(pthread_getspecific);
OLDER(pthread_join);
OLDER(pthread_key_create);
OLDER(pthread_key_delete);
OLDER(pthread_mutex_trylock);
OLDER(pthread_mutexattr_destroy);
OLDER(pthread_mutexattr_init);
OLDER(pthread_mutexattr_settype);
OLDER(pthread_once);
OLDER(pthread_rwlock_destroy);
OLDER(pthread_rwlock_init);
OLDER(pthread_rwlock_rdlock);
OLDER(pthread_rwlock_unlock);
OLDER(pthread_rwlock_wrlock);
OLDER(pthread_setspecific);
OLDER(pthread_sigmask);

#define INSTEAD_OF(name) asm("__wrap_" #name) __attribute__((visibility("hidden")))

// Until 2.33 these were calls of functions that are told the layout of struct stat.
asm(".symver older_stat,__xstat@" OLDEST);
asm(".symver older_lstat,__lxstat@" OLDEST);
asm(".symver older_fstat,__fxstat@" OLDEST);
asm(".symver older_fstatat,__fxstatat@" OLDEST_FSTATAT);
extern "C" int older_stat(int, const char*, struct stat*);
extern "C" int older_lstat(int, const char*, struct stat*);
extern "C" int older_fstat(int, int, struct stat*);
extern "C" int older_fstatat(int, int, const char*, struct stat*, int);
extern "C" {
int own_stat(const char* path, struct stat* to) INSTEAD_OF(stat);
int own_lstat(const char* path, struct stat* to) INSTEAD_OF(lstat);
int own_fstat(int file, struct stat* to) INSTEAD_OF(fstat);
int own_fstat64(int file, struct stat* to) INSTEAD_OF(fstat64);
int own_fstatat(int folder, const char* path, struct stat* to, int flags) INSTEAD_OF(fstatat);
int own_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until)
    INSTEAD_OF(pthread_cond_clockwait);
}
int own_stat(const char* path, struct stat* to) { return older_stat(STAT_LAYOUT, path, to); }
int own_lstat(const char* path, struct stat* to) { return older_lstat(STAT_LAYOUT, path, to); }
int own_fstat(int file, struct stat* to) { return older_fstat(STAT_LAYOUT, file, to); }
int own_fstat64(int file, struct stat* to) { return older_fstat(STAT_LAYOUT, file, to); }
int own_fstatat(int folder, const char* path, struct stat* to, int flags) { return older_fstatat(STAT_LAYOUT, folder, path, to, flags); }

// Of 2.30: a wait by another clock than the time of day.
int own_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  constexpr long kSecond = 1000000000;
  timespec now{}, day{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &day);
  timespec end{day.tv_sec + until->tv_sec - now.tv_sec, day.tv_nsec + until->tv_nsec - now.tv_nsec};
  if (end.tv_nsec < 0) {
    end.tv_nsec += kSecond;
    --end.tv_sec;
  } else if (end.tv_nsec >= kSecond) {
    end.tv_nsec -= kSecond;
    ++end.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}

// Of 2.32: whether counts may be changed without locks. Never is always right.
extern "C" char single_threaded asm("__libc_single_threaded") __attribute__((visibility("hidden")));
char single_threaded = 0;

// Of 2.36; std::random_device calls it. The kernel's random numbers as well, by a call of 2.25.
extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
