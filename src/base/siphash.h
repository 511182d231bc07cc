/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4: a hash of bytes with a key of 128 bits. TensorFlow's StringToHashBucketStrong is made of it. */
#ifndef EST_BASE_SIPHASH_H
#define EST_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t est_siphash(const uint64_t key[2], const void *bytes, size_t size);

#endif
