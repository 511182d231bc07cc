/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificates of a job: its own authority, made for it and discarded with it, and one certificate that all its
 * tasks present to each other. Only holders of its key can join the job. */
#ifndef EST_NET_CERTIFICATES_H
#define EST_NET_CERTIFICATES_H

#include <stddef.h>

#include "estoc/status.h"

/* Writes ca.pem, cert.pem and key.pem (readable by the owner alone) into a new or empty folder. The authority's key
 * is not kept. They are valid for `days` (0: 365), beginning a day ago because clocks differ. */
EST_MUST_CHECK est_status est_certificates_make(const char *folder, const char *job, int days);

/* The folder of the user's own certificates, for jobs whose tasks are all on this machine: processes of other users
 * cannot read the key. Made once, and again when they have expired or are damaged, in $XDG_STATE_HOME/estoc
 * (~/.local/state/estoc), which must belong to the user with mode 0700; any number of processes may ask at once. An
 * XDG_STATE_HOME that does not exist is made with mode 0700; a variable that names no directory of the user is ignored;
 * without a home they are in $TMPDIR/estoc-<uid>. Writes the path to `out`, of PATH_MAX bytes. */
EST_MUST_CHECK est_status est_certificates_of_user(char *out, size_t size);

#endif
