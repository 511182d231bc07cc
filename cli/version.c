/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc version`, the same as `estoc --version`. */
#include <stdio.h>

#include "command.h"
#include "estoc/version.h"

static const tool_option options[] = { TOOL_COMMON_OPTIONS };

static tool_exit version_run(int argc, char **argv)
{
    bool      json;
    tool_exit code = tool_read_common(&tool_version, argc, argv, 0, "no arguments", &json);

    if (code == TOOL_OK) printf(json ? "{\"version\": \"%s\"}\n" : "estoc %s\n", est_version());
    return code;
}

const tool_command tool_version = {
    .name        = "version",
    .summary     = "print the version",
    .arguments   = "[options]",
    .description = "The same as estoc --version. `estoc doctor` says more.\n",
    .options     = options,
    .examples    = "  estoc version --json\n",
    .run         = version_run,
};
