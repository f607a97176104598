// What differs between processors of what every glibc keeps.
#pragma once

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define OLDEST_FSTATAT "GLIBC_2.4"
#define JUMP_TO(name) "jmp " name "@PLT"
#define STAT_LAYOUT 1
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define OLDEST_FSTATAT OLDEST
#define JUMP_TO(name) "b " name
#define STAT_LAYOUT 0
#else
#error "the oldest version of a symbol has another name on this processor"
#endif
