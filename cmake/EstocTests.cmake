# SPDX-License-Identifier: Apache-2.0
# The tests: every tests/<folder>/<name>.c is one cmocka program, test_<folder>_<name>, known to CTest under that name.
# What stands in it as TEST(name) registers itself (tests/support/test.h).
#
# Labels, for ctest -L: `unit` for all but the folders below; the folder's own name for `cluster`, `fault`, `interop`,
# `e2e`; `ops` in addition for tests/ops; `threads` in addition for what runs again under ThreadSanitizer; `long` in addition
# for what takes long: `make asan SHORT=1` leaves it out, and so does CI. `interop` needs TensorFlow and is what
# `make interop` runs; `make test` and `make asan` leave it out.

set(est_special_folders cluster fault interop e2e)
set(est_long_tests "^cluster/(chaos|join_and_leave|recovery|multi_worker|multi_worker_lost|unresponsive_peer|unresponsive_worker)\\.c$" "^e2e/")
set(est_thread_tests "^base/(pool|thread)" "^(runtime|kernels|data|net|cluster|collective|strategy|train|coordinator)/")

# What takes longest on two cores begins first, so that nothing long is left for the end: each list a step of COST.
set(est_first_tests
    "^(e2e/|fault/|net/(faults|net)|kernels/gemm|collective/|cluster/(chaos|recovery|multi|network|join|unres))"
    "^(cluster/chaos|e2e/(census|examples|fashion_mnist)|fault/(estimator|train_and_evaluate|net_huge)|collective/(all_reduce|state_transfer))\\.c$"
    "^(cluster/chaos|e2e/fashion_mnist)\\.c$")

# Tests see the private headers, and where the sources and the programs are: EST_SOURCE_DIR, EST_BUILD_DIR.
if(EST_SANITIZE STREQUAL "fuzzer")
    set(est_cmocka "")
else()
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
    set(est_cmocka PkgConfig::CMOCKA)
endif()
add_library(estoc_test_flags INTERFACE)
target_compile_definitions(estoc_test_flags INTERFACE
    "EST_SOURCE_DIR=\"${CMAKE_CURRENT_SOURCE_DIR}\"" "EST_BUILD_DIR=\"${CMAKE_CURRENT_BINARY_DIR}\"")
target_link_libraries(estoc_test_flags INTERFACE estoc_internals ${est_cmocka})

if(EST_SANITIZE STREQUAL "fuzzer")
    file(GLOB est_fuzz_sources CONFIGURE_DEPENDS tests/fuzz/*.c)
    foreach(source IN LISTS est_fuzz_sources)
        cmake_path(GET source STEM name)
        est_program(fuzz_${name} FOLDER fuzz SOURCES ${source} LINK estoc_test_flags)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        if(name STREQUAL "job")
            target_link_libraries(fuzz_${name} PRIVATE estoc_tool)
        endif()
    endforeach()
    return()
endif()

est_support(estoc_test_support tests estoc_test_flags)
if(EST_SANITIZE)
    # Compares all values of a plan with each other, after the run and in one thread: slow, and nothing for a sanitizer.
    set_source_files_properties(tests/support/plan_check.c PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
endif()

# intercept_tls_get_addr: clang 14 guesses where glibc keeps the thread-local blocks of libraries opened at run time (ucx);
# a wrong guess crashes the leak checker at exit. Without the guess it still finds these blocks, since malloc made them.
set(est_test_environment
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:intercept_tls_get_addr=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1")

if(EST_SANITIZE)
    set(est_test_seconds 600)
else()
    set(est_test_seconds 400) # a quiet machine needs a tenth of it
endif()

file(GLOB est_test_sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/tests" CONFIGURE_DEPENDS tests/*/*.c)
list(FILTER est_test_sources EXCLUDE REGEX "^(support|fuzz)/")
foreach(source IN LISTS est_test_sources)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET source STEM name)
    set(test "test_${folder}_${name}")

    set(labels unit)
    if(folder IN_LIST est_special_folders)
        set(labels ${folder})
    elseif(folder STREQUAL "ops")
        list(APPEND labels ops)
    endif()
    foreach(pattern IN LISTS est_thread_tests)
        if(source MATCHES "${pattern}")
            list(APPEND labels threads)
        endif()
    endforeach()
    foreach(pattern IN LISTS est_long_tests)
        if(source MATCHES "${pattern}")
            list(APPEND labels long)
        endif()
    endforeach()
    set(cost 0)
    foreach(pattern IN LISTS est_first_tests)
        if(source MATCHES "${pattern}")
            math(EXPR cost "${cost} + 100")
        endif()
    endforeach()
    if(EST_SANITIZE STREQUAL "thread" AND NOT "threads" IN_LIST labels)
        continue()
    endif()
    if(EST_SANITIZE STREQUAL "thread" AND source STREQUAL "cluster/slow_disk.c")
        continue() # it opens a folder when a network has ended, whose descriptors libuv closes by system calls that TSan does not see
    endif()

    if((folder STREQUAL "e2e" AND NOT (est_examples AND EST_BENCH)) OR (folder STREQUAL "bench" AND NOT EST_BENCH))
        continue() # they run the examples and bench/synth
    endif()

    est_program(${test} FOLDER tests SOURCES "tests/${source}" LINK estoc_test_support estoc_test_flags)
    add_test(NAME ${test} COMMAND ${test})
    set_tests_properties(${test} PROPERTIES
        LABELS "${labels}" COST ${cost} TIMEOUT ${est_test_seconds} ENVIRONMENT "${est_test_environment}")
    if(source MATCHES "^(e2e/census|fault/full_disk|cluster/network_partition)\\.c$")
        set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77) # no data set here; no right to mount, or to make networks
    endif()
    if(folder STREQUAL "interop")
        set_tests_properties(${test} PROPERTIES TIMEOUT 600) # a cold start of TensorFlow, and 40 estimators of it, take minutes
    endif()
    if(folder STREQUAL "cli")
        target_compile_definitions(${test} PRIVATE "EST_TOOL=\"$<TARGET_FILE:estoc_cli>\"")
        add_dependencies(${test} estoc_cli)
    endif()
    if(folder STREQUAL "bench")
        target_compile_definitions(${test} PRIVATE "EST_TOOL=\"$<TARGET_FILE:bench_${name}>\"")
        target_link_libraries(${test} PRIVATE estoc_bench_support)
        add_dependencies(${test} bench_${name})
    endif()
    if(source STREQUAL "cli/job.c")
        target_link_libraries(${test} PRIVATE estoc_tool) # what reads job files is also tested from within
    endif()
    if(source STREQUAL "models/misuse.c")
        file(GLOB est_public_headers CONFIGURE_DEPENDS include/estoc/*.h)
        set(est_misuse_dir "${CMAKE_CURRENT_BINARY_DIR}/misuse")
        file(MAKE_DIRECTORY "${est_misuse_dir}")
        add_custom_command(OUTPUT "${est_misuse_dir}/misuse_calls.h"
            COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/scripts/make-misuse" "${est_misuse_dir}/misuse_calls.h"
            DEPENDS scripts/make-misuse tests/models/misuse.c ${est_public_headers} VERBATIM)
        target_sources(${test} PRIVATE "${est_misuse_dir}/misuse_calls.h")
        target_include_directories(${test} PRIVATE "${est_misuse_dir}")
    endif()
    if(folder STREQUAL "e2e")
        add_dependencies(${test} ${est_examples} estoc_cli bench_synth)
    endif()
    if(source STREQUAL "e2e/fashion_mnist.c")
        set_tests_properties(${test} PROPERTIES PROCESSORS 2) # it computes with both threads
    endif()
    if(folder STREQUAL "cluster")
        if(TARGET estoc_cli)
            add_dependencies(${test} estoc_cli)
        endif()
    endif()
endforeach()
