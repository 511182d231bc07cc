# SPDX-License-Identifier: Apache-2.0
# Finds the single-threaded OpenBLAS and offers it as OpenBLAS::serial.
#
# Estoc hands out slices of a matrix product from its own thread pool; an OpenBLAS with a pool of its own beside it costs
# up to three times the time. Debian installs several builds side by side under one soname, with an alternative pointing
# at one of them, so the folder of the serial build is named here and goes into the run path of what links it.
# Elsewhere, say where a serial build is: -DEST_OPENBLAS_LIBRARY=... -DEST_OPENBLAS_INCLUDE_DIR=...

find_library(EST_OPENBLAS_LIBRARY NAMES openblas
    PATHS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial" NO_DEFAULT_PATH
    DOC "The serial (single-threaded) OpenBLAS library")
find_path(EST_OPENBLAS_INCLUDE_DIR NAMES cblas.h
    PATHS "/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial" NO_DEFAULT_PATH
    DOC "The folder of the serial OpenBLAS's cblas.h")
mark_as_advanced(EST_OPENBLAS_LIBRARY EST_OPENBLAS_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLASSerial
    REQUIRED_VARS EST_OPENBLAS_LIBRARY EST_OPENBLAS_INCLUDE_DIR
    REASON_FAILURE_MESSAGE "Debian: apt-get install libopenblas-serial-dev. Elsewhere: set these two variables.")

if(OpenBLASSerial_FOUND AND NOT TARGET OpenBLAS::serial)
    add_library(OpenBLAS::serial UNKNOWN IMPORTED)
    set_target_properties(OpenBLAS::serial PROPERTIES
        IMPORTED_LOCATION "${EST_OPENBLAS_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${EST_OPENBLAS_INCLUDE_DIR}")
endif()
