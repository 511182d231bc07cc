/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificates of a job: an authority of its own, made for it and thrown away with it, and one certificate that all its
 * tasks show each other. Whoever holds the key may take part in the job, and nobody else. */
#ifndef EST_NET_CERTIFICATES_H
#define EST_NET_CERTIFICATES_H

#include "estoc/status.h"

/* Writes ca.pem, cert.pem and key.pem (readable by the owner alone) into a new folder or an empty one. The authority's key is
 * not kept. `days` that they are valid, from a day ago on for clocks that differ; 0: 365. */
EST_MUST_CHECK est_status est_certificates_make(const char *folder, const char *job, int days);

#endif
