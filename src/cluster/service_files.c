/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/service_files.h"

void est_service_save(est_server *server, est_request *request)
{
    (void)server;
    est_request_fail(request, EST_UNIMPLEMENTED, "saving");
}

est_status est_service_restore(est_server *server, est_request *request)
{
    (void)server;
    (void)request;
    return est_fail(EST_UNIMPLEMENTED, "restoring");
}
