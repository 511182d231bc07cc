/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of a checkpoint's index: the header, one entry a tensor, slices of partitioned tensors and the keys
 * under which slices are stored. Bytes to structs and back, nothing else.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_BUNDLE_ENTRY_H
#define EST_FORMAT_BUNDLE_ENTRY_H

#include "base/alloc.h"
#include "base/strbuf.h"
#include "format/wire.h"

/* A box of a tensor: [start, start + length) along each axis. */
typedef struct est_bundle_slice {
    int32_t rank;
    int64_t start[EST_RANK_MAX];
    int64_t length[EST_RANK_MAX]; /* -1: the whole axis */
} est_bundle_slice;

/* The index entry of one tensor, or of one slice of it. */
typedef struct est_bundle_entry {
    const char       *name;  /* of the tensor, also for a slice */
    est_dtype         dtype; /* as in the file: it may be one that est_tensor does not know */
    est_shape         shape; /* of the slice, when it is one. Rank -1: more axes than EST_RANK_MAX */
    int32_t           shard; /* which data file */
    int64_t           offset;
    int64_t           size;     /* bytes there */
    uint32_t          crc;      /* masked */
    est_bundle_slice *slices;   /* how a partitioned tensor is cut; it has no data of its own then */
    int               n_slices; /* 0: the tensor is stored whole */
} est_bundle_entry;

typedef struct est_bundle_header {
    int32_t n_shards; /* data files */
    int32_t endianness;
    int32_t producer;
    int32_t min_consumer;
} est_bundle_header;

#define EST_BUNDLE_VERSION 1 /* of the format: what we write, and the newest min_consumer that we read */

void est_bundle_header_put(est_wire_writer *w, const est_bundle_header *header);
void est_bundle_entry_put(est_wire_writer *w, const est_bundle_entry *entry);

EST_MUST_CHECK est_status est_bundle_header_parse(est_str bytes, est_bundle_header *out);

/* The slices are made in `arena`; `name` is left to the caller. */
EST_MUST_CHECK est_status est_bundle_entry_parse(est_str bytes, est_arena *arena, est_bundle_entry *out);

/* Appends the key of a slice: it sorts after the header and before all names. */
void est_bundle_slice_key(est_strbuf *out, const char *name, const est_bundle_slice *slice);

/* The slice with every length set, checked against the tensor's shape. */
EST_MUST_CHECK est_status est_bundle_slice_resolve(const est_bundle_slice *slice, const est_shape *full,
                                                   est_bundle_slice *out);

/* The part that both have; false when that is nothing. Both resolved and of the same rank. */
bool est_bundle_slice_intersect(const est_bundle_slice *a, const est_bundle_slice *b, est_bundle_slice *out);

/* Whether any two of n boxes (resolved, not empty, of one rank) have a part in common. There may be very many. */
EST_MUST_CHECK est_status est_bundle_slices_overlap(const est_bundle_slice *const *boxes, int n, bool *out);

/* The shape of a resolved slice. */
est_shape est_bundle_slice_shape(const est_bundle_slice *slice);

/* "0,50:-" as TensorFlow writes slices; returns buf. */
#define EST_BUNDLE_SLICE_TEXT_MAX 344
const char *est_bundle_slice_text(const est_bundle_slice *slice, char buf[EST_BUNDLE_SLICE_TEXT_MAX]);

#endif
