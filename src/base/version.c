/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of the library, apart from that of a program's headers. */
#include "estoc/version.h"

const char *est_version(void)
{
    return EST_VERSION_TEXT;
}

int est_version_number(void)
{
    return EST_VERSION;
}
