/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of transports. */
#include <string.h>

#include "base/strbuf.h"
#include "net/transport.h"

const est_transport *const est_transports[] = { &est_transport_tls, &est_transport_tcp, &est_transport_ucx, NULL };

#define N_TRANSPORTS (sizeof est_transports / sizeof est_transports[0] - 1)

est_status est_transport_find(const char *name, const est_transport **out)
{
    est_strbuf names = { 0 };
    est_status status;

    for (size_t i = 0; i < N_TRANSPORTS; i++) {
        if (name != NULL && strcmp(est_transports[i]->name, name) == 0) {
            *out = est_transports[i];
            return EST_OK;
        }
    }
    for (size_t i = 0; i < N_TRANSPORTS; i++) {
        est_strbuf_printf(&names, "%s%s", i == 0 ? "" : i + 1 == N_TRANSPORTS ? " or " : ", ", est_transports[i]->name);
    }
    status = est_fail(EST_INVALID_ARGUMENT, "there is no transport \"%s\"; expected %s", name != NULL ? name : "",
                      est_strbuf_text(&names));
    est_strbuf_clear(&names);
    return status;
}
