# SPDX-License-Identifier: Apache-2.0
# The tests: every tests/<folder>/<name>.c is one cmocka program, test_<folder>_<name>, known to CTest under that name.
# What stands in it as TEST(name) registers itself (tests/support/test.h).
#
# Labels, for ctest -L: `unit` for all but the folders below; the folder's own name for `cluster`, `fault`, `interop`,
# `e2e`; `ops` in addition for tests/ops; `threads` in addition for what runs again under ThreadSanitizer; `long` in addition
# for what takes long: `make asan SHORT=1` leaves it out, and so does CI. `interop` needs TensorFlow and is what
# `make interop` runs; `make test` and `make asan` leave it out. `far` in addition for what `make far` runs.

set(est_special_folders cluster fault interop e2e)
set(est_long_tests "^cluster/(chaos|join_and_leave|recovery|multi_worker|multi_worker_lost|unresponsive_peer|unresponsive_worker)\\.c$" "^e2e/")
set(est_thread_tests "^base/(pool|thread)" "^(runtime|kernels|data|net|cluster|collective|strategy|train|predict|coordinator)/")

# What runs again on a far device (tests/support/far_device.h), as test_<folder>_<name>_far with the label `far`; under a
# sanitizer only the second list. The third list looks at how the CPU runs a step, or at how fast it is.
set(est_far_tests "^(runtime|nn|train|estimator|strategy)/" "^(network/strategies|collective/state_transfer|coordinator/updates)\\.c$")
set(est_far_sanitized_tests "^runtime/(session|random_graphs)\\.c$" "^train/(monitored|saver)\\.c$")
set(est_cpu_tests "^runtime/(faults|layout|lazy_rows|local_devices|passes|run_ahead|trace)\\.c$" "^estimator/(ahead|evaluator|mirrored)\\.c$")

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
find_program(EST_LLD ld.lld) # links a test in half the time, and there are 450
if(EST_LLD)
    target_link_options(estoc_test_flags INTERFACE -fuse-ld=lld)
endif()

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
    if(source MATCHES "^(models/gpu|device/gpu_memory|device/gpu_queues)\\.c$")
        continue() # they need a GPU: cuda_gpu, cuda_gpu_memory and cuda_gpu_queues below run them on the stand-in
    endif()
    add_test(NAME ${test} COMMAND ${test})
    set_tests_properties(${test} PROPERTIES
        LABELS "${labels}" COST ${cost} TIMEOUT ${est_test_seconds} ENVIRONMENT "${est_test_environment}")
    set(cpu_only FALSE)
    foreach(pattern IN LISTS est_cpu_tests)
        if(source MATCHES "${pattern}")
            set(cpu_only TRUE)
        endif()
    endforeach()
    set(far_tests "${est_far_tests}")
    if(EST_SANITIZE)
        set(far_tests "${est_far_sanitized_tests}")
    endif()
    foreach(pattern IN LISTS far_tests)
        if(source MATCHES "${pattern}" AND NOT cpu_only)
            add_test(NAME ${test}_far COMMAND ${test})
            set_tests_properties(${test}_far PROPERTIES LABELS "${labels};far" COST ${cost} TIMEOUT ${est_test_seconds}
                ENVIRONMENT "${est_test_environment};ESTOC_TEST_DEVICE=far")
        endif()
    endforeach()
    if(source MATCHES "^(e2e/census|fault/full_disk|cluster/network_partition)\\.c$")
        set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77) # no data set here; no right to mount, or to make networks
    endif()
    if(folder STREQUAL "interop")
        set_tests_properties(${test} PROPERTIES TIMEOUT 1200) # a cold start of TensorFlow, and 40 estimators of it, take minutes
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

# The op harness once more, on the GPU kernels, compiled for the CPU (EstocCuda.cmake).
if(TARGET estoc_cuda_on_cpu)
    foreach(test runtime_many_tables models_gpu device_gpu_memory device_gpu_queues)
        string(REGEX REPLACE "^[a-z]+_(.*)$" "cuda_\\1" name ${test}) # once: ^ alone matches again behind each match
        string(REGEX REPLACE "_.*" "" folder ${test})
        add_dependencies(test_${test} estoc_cuda_on_cpu)
        add_test(NAME ${name} COMMAND test_${test})
        set_tests_properties(${name} PROPERTIES LABELS "unit;${folder}" TIMEOUT ${est_test_seconds}
            ENVIRONMENT "${est_test_environment};ESTOC_CUDA_PLUGIN=$<TARGET_FILE:estoc_cuda_on_cpu>")
    endforeach()
    add_dependencies(test_strategy_equivalence estoc_cuda_on_cpu)
    add_test(NAME cuda_two_gpus COMMAND test_strategy_equivalence test_devices)
    set_tests_properties(cuda_two_gpus PROPERTIES LABELS "unit;strategy" TIMEOUT ${est_test_seconds}
        ENVIRONMENT "${est_test_environment};ESTOC_CUDA_PLUGIN=$<TARGET_FILE:estoc_cuda_on_cpu>")
    set_property(TEST cuda_two_gpus cuda_gpu_queues APPEND PROPERTY ENVIRONMENT "CUDA_VISIBLE_DEVICES=0,1")
    add_dependencies(test_collective_device_sum estoc_cuda_on_cpu estoc_nccl_on_cpu)
    add_test(NAME cuda_nccl COMMAND test_collective_device_sum)
    set_tests_properties(cuda_nccl PROPERTIES LABELS "unit;collective" TIMEOUT ${est_test_seconds}
        ENVIRONMENT "${est_test_environment};ESTOC_TEST_NCCL=1;ESTOC_CUDA_PLUGIN=$<TARGET_FILE:estoc_cuda_on_cpu>;ESTOC_CUDA_LIBRARIES=$<TARGET_FILE_DIR:estoc_nccl_on_cpu>")
    foreach(source IN LISTS est_cuda_sources)
        cmake_path(GET source STEM name)
        if(TARGET test_ops_${name})
            add_dependencies(test_ops_${name} estoc_cuda_on_cpu)
            add_test(NAME cuda_ops_${name} COMMAND test_ops_${name})
            set_tests_properties(cuda_ops_${name} PROPERTIES LABELS "unit;ops" TIMEOUT ${est_test_seconds}
                ENVIRONMENT "${est_test_environment};ESTOC_CUDA_PLUGIN=$<TARGET_FILE:estoc_cuda_on_cpu>")
        endif()
    endforeach()
    foreach(name matmul fused_matmul) # without tensor cores
        add_test(NAME cuda_ops_${name}_full COMMAND test_ops_${name})
        set_tests_properties(cuda_ops_${name}_full PROPERTIES LABELS "unit;ops" TIMEOUT ${est_test_seconds}
            ENVIRONMENT "${est_test_environment};ESTOC_NO_TF32=1;ESTOC_CUDA_PLUGIN=$<TARGET_FILE:estoc_cuda_on_cpu>")
    endforeach()
endif()

# gpu_ops: the same tables in one program, to be carried to a machine with a GPU (scripts/gpu-bundle). It runs all, or those
# whose names it is given; --names prints the names.
set(est_gpu_ops_declarations "")
set(est_gpu_ops_table "")
foreach(source IN LISTS est_cuda_sources)
    cmake_path(GET source STEM name)
    if(TARGET test_ops_${name})
        add_library(gpu_ops_${name} OBJECT EXCLUDE_FROM_ALL "tests/ops/${name}.c")
        set_target_properties(gpu_ops_${name} PROPERTIES C_EXTENSIONS OFF)
        target_compile_definitions(gpu_ops_${name} PRIVATE main=gpu_ops_${name})
        target_compile_options(gpu_ops_${name} PRIVATE -include "${CMAKE_CURRENT_BINARY_DIR}/gpu_ops.h")
        target_include_directories(gpu_ops_${name} PRIVATE tests)
        target_link_libraries(gpu_ops_${name} PRIVATE estoc_flags estoc_test_flags)
        list(APPEND est_gpu_ops_objects $<TARGET_OBJECTS:gpu_ops_${name}>)
        string(APPEND est_gpu_ops_declarations "int gpu_ops_${name}(int argc, char **argv);\n")
        string(APPEND est_gpu_ops_table "    { \"${name}\", gpu_ops_${name} },\n")
    endif()
endforeach()
file(CONFIGURE OUTPUT gpu_ops.h @ONLY CONTENT "@est_gpu_ops_declarations@")
file(CONFIGURE OUTPUT gpu_ops.c @ONLY CONTENT [[
#include <stdio.h>
#include <string.h>

#include "gpu_ops.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} tables[] = {
@est_gpu_ops_table@};

int main(int argc, char **argv)
{
    int n = sizeof tables / sizeof tables[0], names = argc == 2 && strcmp(argv[1], "--names") == 0, failed = 0;

    for (int i = 0; names && i < n; i++) puts(tables[i].name);
    if (names) return 0;
    for (int i = 0; i < n; i++) {
        int wanted = argc == 1;

        for (int a = 1; a < argc; a++) wanted |= strcmp(argv[a], tables[i].name) == 0;
        if (!wanted) continue;
        printf("%-24s ", tables[i].name);
        failed += tables[i].run(1, argv) != 0;
    }
    printf("%s\n", failed == 0 ? "gpu_ops: all passed" : "gpu_ops: FAILED");
    return failed != 0;
}
]])
est_program(gpu_ops FOLDER tests SOURCES "${CMAKE_CURRENT_BINARY_DIR}/gpu_ops.c" ${est_gpu_ops_objects}
    LINK estoc_test_support estoc_test_flags)
set_target_properties(gpu_ops PROPERTIES EXCLUDE_FROM_ALL ON)
target_include_directories(gpu_ops PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
target_link_options(gpu_ops PRIVATE -Wl,--as-needed)
