# SPDX-License-Identifier: Apache-2.0
# The plug-in with the GPUs, from src/cuda/*.cu and src/ops/*.cu, twice:
#   estoc_cuda         libestoc_cuda.so, where nvcc is found. Not part of `all`: `make cuda` builds it; installed when built
#   estoc_cuda_on_cpu  the same sources for the CPU (tests/support/cuda_on_cpu), on which the op harness runs in the tests

set(EST_CUDA AUTO CACHE STRING "The plug-in with GPUs: ON, OFF, or AUTO: where nvcc is found")
set_property(CACHE EST_CUDA PROPERTY STRINGS AUTO ON OFF)

file(GLOB est_cuda_sources CONFIGURE_DEPENDS src/cuda/*.cu src/ops/*.cu)
set(est_cuda_definitions "EST_PLUGIN_BUILD=\"${PROJECT_VERSION}-${est_plugin_build}\"")

if(EST_CUDA AND NOT EST_SANITIZE)
    find_program(EST_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin)
    if(EST_NVCC)
        set(CMAKE_CUDA_COMPILER "${EST_NVCC}")
        set(CMAKE_CUDA_ARCHITECTURES 90a-real)
        set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
        if(EST_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
            set(CMAKE_CUDA_COMPILER_LAUNCHER "${EST_CCACHE}")
        endif()
        enable_language(CUDA)
        set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
        add_library(estoc_cuda MODULE EXCLUDE_FROM_ALL ${est_cuda_sources})
        set_target_properties(estoc_cuda PROPERTIES
            OUTPUT_NAME estoc_cuda CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
        target_compile_definitions(estoc_cuda PRIVATE ${est_cuda_definitions})
        target_compile_options(estoc_cuda PRIVATE -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers
            $<$<BOOL:${EST_WERROR}>:-Werror=all-warnings -Xcompiler=-Werror>)
        target_include_directories(estoc_cuda PRIVATE src include)
        target_link_options(estoc_cuda PRIVATE -Wl,--no-undefined)
        target_link_libraries(estoc_cuda PRIVATE ${CMAKE_DL_LIBS})
        add_executable(gpu_gemm EXCLUDE_FROM_ALL bench/gpu_gemm.cu src/cuda/gemm.cu src/cuda/gemm_tf32.cu
            src/cuda/gemm_tiles.cu src/cuda/cublaslt.cu src/cuda/batch.cu)
        set_target_properties(gpu_gemm PROPERTIES CUDA_STANDARD 17)
        target_include_directories(gpu_gemm PRIVATE src include)
        target_link_libraries(gpu_gemm PRIVATE ${CMAKE_DL_LIBS})
        install(FILES "$<TARGET_FILE:estoc_cuda>" DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
    elseif(EST_CUDA STREQUAL "ON")
        message(FATAL_ERROR "EST_CUDA is ON, but nvcc is not in PATH, in CUDA_HOME or in /usr/local/cuda/bin")
    endif()
endif()
if(NOT TARGET estoc_cuda)
    add_custom_target(estoc_cuda COMMAND ${CMAKE_COMMAND} -E echo
        "cuda: skipped, nvcc is not in PATH, in CUDA_HOME or in /usr/local/cuda/bin")
endif()

if(EST_TESTS AND NOT EST_SANITIZE MATCHES "thread|fuzzer")
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND NOT CMAKE_CXX_COMPILER)
        set(CMAKE_CXX_COMPILER clang++)
    endif()
    if(EST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
        set(CMAKE_CXX_COMPILER_LAUNCHER "${EST_CCACHE}")
    endif()
    enable_language(CXX)
    set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g")
    # Each .cu is included by a .cc: to CMake it stays a file for nvcc.
    set(est_shim_sources tests/support/cuda_on_cpu/cuda_on_cpu.cc)
    foreach(source IN LISTS est_cuda_sources)
        cmake_path(GET source STEM name)
        if(NOT name STREQUAL "cublaslt")
            file(CONFIGURE OUTPUT "cuda_on_cpu/${name}.cc" CONTENT "#include \"${source}\"\n")
            list(APPEND est_shim_sources "${CMAKE_CURRENT_BINARY_DIR}/cuda_on_cpu/${name}.cc")
        endif()
    endforeach()
    add_library(estoc_cuda_on_cpu MODULE ${est_shim_sources})
    set_target_properties(estoc_cuda_on_cpu PROPERTIES
        CXX_STANDARD 17 CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(estoc_cuda_on_cpu PRIVATE ${est_cuda_definitions})
    target_compile_options(estoc_cuda_on_cpu PRIVATE -Wall -Wextra -Wno-missing-field-initializers -Wno-unused-function
        -fno-rtti -ffp-contract=fast $<$<BOOL:${EST_WERROR}>:-Werror> ${est_sanitize_flags})
    if(EST_SANITIZE)
        # its checks need the C++ runtime of UBSan, which a C program that opens the module does not have
        target_compile_options(estoc_cuda_on_cpu PRIVATE -fno-sanitize=function,vptr)
    endif()
    if(EST_ARCH)
        target_compile_options(estoc_cuda_on_cpu PRIVATE "-march=${EST_ARCH}")
    endif()
    target_include_directories(estoc_cuda_on_cpu PRIVATE tests/support/cuda_on_cpu src include)
    target_link_options(estoc_cuda_on_cpu PRIVATE ${est_sanitize_flags})

    # What stands for NCCL, in a folder of its own: the name is the library's.
    add_library(estoc_nccl_on_cpu MODULE tests/support/cuda_on_cpu/nccl.cc)
    set_target_properties(estoc_nccl_on_cpu PROPERTIES CXX_STANDARD 17 CXX_VISIBILITY_PRESET hidden
        PREFIX "" OUTPUT_NAME "libnccl.so" SUFFIX ".2" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/nccl_on_cpu")
    target_compile_options(estoc_nccl_on_cpu PRIVATE -Wall -Wextra $<$<BOOL:${EST_WERROR}>:-Werror> ${est_sanitize_flags})
    target_include_directories(estoc_nccl_on_cpu PRIVATE src)
    target_link_options(estoc_nccl_on_cpu PRIVATE ${est_sanitize_flags})
endif()
