# What is linked with saturate_command runs on glibc 2.28 and later. libgcc stays shared: its static unwinder asks for _dl_find_object of glibc
# 2.35, and every Linux has the shared one.
add_library(saturate_older_glibc OBJECT tools/wheel/older_glibc.cpp)
add_library(saturate_older_start OBJECT tools/wheel/older_glibc_start.cpp)
file(STRINGS ${PROJECT_SOURCE_DIR}/tools/wheel/older_glibc.cpp lines REGEX "^OLDER|^[^#].* INSTEAD_OF")
set(portable_link_options -static-libstdc++)
foreach(line ${lines})
  if(line MATCHES "(OLDER|INSTEAD_OF)\\(([a-z0-9_]+)")
    list(APPEND portable_link_options LINKER:--wrap=${CMAKE_MATCH_2})
  endif()
endforeach()
# Before 2.34 these hold what the older versions name.
list(APPEND portable_link_options LINKER:--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 LINKER:--pop-state)
