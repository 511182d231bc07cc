# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: both libraries, the public headers, the tool with its manual pages and its completion
# for bash and zsh, a pkg-config file, and a CMake package with the target Estoc::estoc.
# The target estoc_installed builds what of that is built, and nothing else.

include(CMakePackageConfigHelpers)

add_custom_target(estoc_installed)
add_dependencies(estoc_installed estoc estoc_static)

install(TARGETS estoc EXPORT EstocTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS estoc_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/estoc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET estoc_cli)
    install(TARGETS estoc_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    add_dependencies(estoc_installed estoc_cli)
endif()

# The tool itself writes the completion scripts, so they are there where what is built can be run.
if(TARGET estoc_cli AND NOT CMAKE_CROSSCOMPILING)
    set(est_completion_dir "${CMAKE_CURRENT_BINARY_DIR}/completion")
    file(MAKE_DIRECTORY "${est_completion_dir}")
    foreach(shell IN ITEMS bash zsh)
        add_custom_command(OUTPUT "${est_completion_dir}/estoc.${shell}"
            COMMAND estoc_cli completion ${shell} > "${est_completion_dir}/estoc.${shell}"
            DEPENDS estoc_cli VERBATIM)
    endforeach()
    add_custom_target(estoc_completion ALL
        DEPENDS "${est_completion_dir}/estoc.bash" "${est_completion_dir}/estoc.zsh")
    add_dependencies(estoc_installed estoc_completion)
    install(FILES "${est_completion_dir}/estoc.bash"
            DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME estoc)
    install(FILES "${est_completion_dir}/estoc.zsh"
            DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _estoc)
endif()
foreach(section IN ITEMS 1 3 5 7)
    file(GLOB pages CONFIGURE_DEPENDS "docs/man/*.${section}")
    if(pages)
        install(FILES ${pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
    endif()
endforeach()

# The paths in estoc.pc come out absolute whether the install directories were given relative to the prefix or not.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE est_pc_libdir)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE est_pc_includedir)
list(JOIN est_pkg_modules " " est_pc_requires)
configure_file(estoc.pc.in estoc.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/estoc.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

set(est_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Estoc")
configure_package_config_file(cmake/EstocConfig.cmake.in EstocConfig.cmake INSTALL_DESTINATION "${est_cmake_dir}")
write_basic_package_version_file(EstocConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT EstocTargets NAMESPACE Estoc:: DESTINATION "${est_cmake_dir}")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/EstocConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/EstocConfigVersion.cmake"
        DESTINATION "${est_cmake_dir}")
