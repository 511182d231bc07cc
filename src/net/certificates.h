/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificates of a job: its own authority, made for it and discarded with it, and one certificate that all its
 * tasks present to each other. Only holders of its key can join the job. */
#ifndef EST_NET_CERTIFICATES_H
#define EST_NET_CERTIFICATES_H

#include "estoc/status.h"

/* Writes ca.pem, cert.pem and key.pem (readable by the owner alone) into a new or empty folder. The authority's key
 * is not kept. They are valid for `days` (0: 365), beginning a day ago because clocks differ. */
EST_MUST_CHECK est_status est_certificates_make(const char *folder, const char *job, int days);

#endif
