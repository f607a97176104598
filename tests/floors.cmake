# The law of docs/architecture.md, "The floors", kept by the linker: each floor is linked as a whole with what its target names and nothing
# else, so a call of a floor above, or of one that it does not name, is an undefined symbol.
if(SATURATE_SANITIZE OR NOT CMAKE_SYSTEM_NAME STREQUAL Linux)
  return()  # a sanitizer's own symbols are undefined in each library
endif()
set(nothing ${CMAKE_CURRENT_BINARY_DIR}/nothing.cpp)
file(CONFIGURE OUTPUT ${nothing} CONTENT "")
foreach(floor egraph onnx_bridge rules kernels verify decode extract optimize io pipeline passes tools command)
  add_library(floor_${floor} MODULE ${nothing})
  target_link_libraries(floor_${floor} PRIVATE saturate_${floor})
  target_link_options(floor_${floor} PRIVATE LINKER:-z,defs LINKER:--whole-archive $<TARGET_FILE:saturate_${floor}> LINKER:--no-whole-archive)
endforeach()
