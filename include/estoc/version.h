/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of Estoc: of these headers, and of the library that a program runs with.
 *
 *     #if EST_VERSION >= 1002000                           these headers are of 1.2.0 or newer
 *     if (est_version_number() < EST_VERSION) ...          the library is older than these headers
 *
 * A program runs with any library of the same major version that is not older than the headers it was compiled with;
 * before 1.0.0, of the same minor version. CMake, pkg-config and `estoc version` have their number from here.
 *
 * Threading: any thread. */
#ifndef ESTOC_VERSION_H
#define ESTOC_VERSION_H

#include "estoc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EST_VERSION_MAJOR 0
#define EST_VERSION_MINOR 2
#define EST_VERSION_PATCH 0

/* One number that rises with every version: 1.2.3 is 1002003. */
#define EST_VERSION (EST_VERSION_MAJOR * 1000000 + EST_VERSION_MINOR * 1000 + EST_VERSION_PATCH)

/* "0.2.0" */
#define EST_VERSION_TEXT                                                                                               \
    EST_VERSION_QUOTE(EST_VERSION_MAJOR)                                                                               \
    "." EST_VERSION_QUOTE(EST_VERSION_MINOR) "." EST_VERSION_QUOTE(EST_VERSION_PATCH)
#define EST_VERSION_QUOTE(number)  EST_VERSION_QUOTE_(number)
#define EST_VERSION_QUOTE_(number) #number

/* EST_VERSION_TEXT and EST_VERSION of the library that runs. */
EST_API const char *est_version(void);
EST_API int         est_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
