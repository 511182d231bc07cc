/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of UCX that we use, found when the transport is first chosen: UCX takes over signals and memory calls
 * of a process as soon as it is loaded, which must not happen to programs that do not use it. Only in builds with
 * EST_UCX. Any thread. */
#ifndef EST_NET_UCX_LIBRARY_H
#define EST_NET_UCX_LIBRARY_H

#include <ucp/api/ucp.h>

#include "estoc/status.h"

#define EST_UCX_FUNCTIONS(F)                                                                                           \
    F(ucp_config_read)                                                                                                 \
    F(ucp_config_modify)                                                                                               \
    F(ucp_config_release)                                                                                              \
    F(ucp_init_version)                                                                                                \
    F(ucp_cleanup)                                                                                                     \
    F(ucp_worker_create)                                                                                               \
    F(ucp_worker_query)                                                                                                \
    F(ucp_worker_destroy)                                                                                              \
    F(ucp_worker_get_efd)                                                                                              \
    F(ucp_worker_arm)                                                                                                  \
    F(ucp_worker_progress)                                                                                             \
    F(ucp_worker_set_am_recv_handler)                                                                                  \
    F(ucp_listener_create)                                                                                             \
    F(ucp_listener_destroy)                                                                                            \
    F(ucp_listener_reject)                                                                                             \
    F(ucp_conn_request_query)                                                                                          \
    F(ucp_ep_create)                                                                                                   \
    F(ucp_ep_close_nbx)                                                                                                \
    F(ucp_ep_flush_nbx)                                                                                                \
    F(ucp_am_send_nbx)                                                                                                 \
    F(ucp_am_recv_data_nbx)                                                                                            \
    F(ucp_am_data_release)                                                                                             \
    F(ucp_request_free)                                                                                                \
    F(ucp_request_check_status)                                                                                        \
    F(ucs_status_string)

#define EST_UCX_POINTER(name) __typeof__(name) *name;
typedef struct est_ucx_library {
    EST_UCX_FUNCTIONS(EST_UCX_POINTER)
} est_ucx_library;
#undef EST_UCX_POINTER

/* Loads the library, once. EST_UNIMPLEMENTED: it is not installed; the error says what to install. */
EST_MUST_CHECK est_status est_ucx_load(const est_ucx_library **out);

#endif
