# cmake --install gives find_package(Gradwire): the library, its headers, and where the torch it was built with is; and
# bin/gradwire.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS gradwire EXPORT GradwireTargets)
if(TARGET gradwire_program)
  install(TARGETS gradwire_program)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/gradwire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "precompiled.h" EXCLUDE)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Gradwire)
install(EXPORT GradwireTargets NAMESPACE Gradwire:: DESTINATION ${package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/GradwireConfig.cmake.in GradwireConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(GradwireConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/GradwireConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/GradwireConfigVersion.cmake
        ${CMAKE_CURRENT_LIST_DIR}/TorchLibrary.cmake
        DESTINATION ${package})
