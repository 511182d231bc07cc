# SPDX-License-Identifier: Apache-2.0
# Finds oneDNN and offers it as Dnnl::dnnl. (Its own CMake package also asks for OpenCL's and OpenMP's development files,
# which the C interface does not need.)

find_library(EST_DNNL_LIBRARY NAMES dnnl DOC "The oneDNN library")
find_path(EST_DNNL_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h DOC "The folder of oneapi/dnnl/dnnl.h")
mark_as_advanced(EST_DNNL_LIBRARY EST_DNNL_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Dnnl
    REQUIRED_VARS EST_DNNL_LIBRARY EST_DNNL_INCLUDE_DIR
    REASON_FAILURE_MESSAGE "Debian: apt-get install libdnnl-dev.")

if(Dnnl_FOUND AND NOT TARGET Dnnl::dnnl)
    add_library(Dnnl::dnnl UNKNOWN IMPORTED)
    set_target_properties(Dnnl::dnnl PROPERTIES
        IMPORTED_LOCATION "${EST_DNNL_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${EST_DNNL_INCLUDE_DIR}")
endif()
