# `cmake --install`: the command, the library, its header saturate/saturate.h, the engine's headers saturate/egraph/*.h, and a package config:
# find_package(saturate) gives saturate::saturate.
include(CMakePackageConfigHelpers)
set(folders egraph onnx_bridge rules extract kernels tools)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/saturate)

add_library(saturate_all INTERFACE)
target_link_libraries(saturate_all INTERFACE saturate_tools)
target_include_directories(saturate_all INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(saturate_all PROPERTIES EXPORT_NAME saturate)
set_target_properties(saturate_common PROPERTIES EXPORT_NAME common)
install(TARGETS saturate_all saturate_common EXPORT saturateTargets)
foreach(folder ${folders})
  set_target_properties(saturate_${folder} PROPERTIES EXPORT_NAME ${folder})
  install(TARGETS saturate_${folder} EXPORT saturateTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
# These include nothing but the standard library and each other.
install(FILES ${PROJECT_SOURCE_DIR}/tools/api/saturate.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/saturate)
install(FILES ${PROJECT_SOURCE_DIR}/extract/saturate_cost.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/saturate)  # a cost model as a shared library
install(FILES ${PROJECT_SOURCE_DIR}/egraph/egraph.h ${PROJECT_SOURCE_DIR}/egraph/rewrite.h ${PROJECT_SOURCE_DIR}/egraph/scheduler.h ${PROJECT_SOURCE_DIR}/egraph/explain.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/saturate/egraph)
target_compile_features(saturate_common INTERFACE cxx_std_20)
install(TARGETS saturate RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT saturateTargets NAMESPACE saturate:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/saturateConfig.cmake.in ${PROJECT_BINARY_DIR}/saturateConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/saturateConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/saturateConfig.cmake ${PROJECT_BINARY_DIR}/saturateConfigVersion.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
