/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies from the host: cuda/sends.cuh. Their bytes lie in one of a few slots until the kernel is done. */
#include "cuda/sends.cuh"

#include <stdlib.h>

#include "cuda/loops.cuh"

#define SLOTS       8 /* more than runs that are under way at a time */
#define SLOT_BYTES  ((size_t)1 << 20)
#define PIECE_BYTES ((size_t)16 << 10) /* of a block */
#define PIECES_MAX  256
#define LARGE       ((size_t)256 << 10) /* copied by themselves */

struct send_piece {
    void    *to;
    uint32_t from, bytes; /* in the slot */
};

/* Of the host, where the GPU reads it. */
struct send_slot {
    alignas(16) unsigned char bytes[SLOT_BYTES];
    send_piece piece[PIECES_MAX];
};

struct est_sends {
    cudaStream_t stream;
    send_slot   *slots, *mapped; /* [SLOTS]; NULL until the first copy */
    cudaEvent_t  done[SLOTS];
    bool         used[SLOTS];
    int          now, n_pieces;
    size_t       n_bytes;
};

static __global__ void take_pieces(const send_slot *slot)
{
    send_piece           p     = slot->piece[blockIdx.x];
    unsigned char       *to    = (unsigned char *)p.to;
    const unsigned char *from  = slot->bytes + p.from;
    uint32_t             whole = (uintptr_t)to % 16 == 0 ? p.bytes / 16 * 16 : 0;

    for (uint32_t i = threadIdx.x * 16; i < whole; i += blockDim.x * 16) {
        *(est_pack<uint32_t, 4> *)(to + i) = *(const est_pack<uint32_t, 4> *)(from + i);
    }
    for (uint32_t i = whole + threadIdx.x; i < p.bytes; i += blockDim.x) to[i] = from[i];
}

static int make_slots(est_sends *s)
{
    void *host = NULL, *mapped = NULL;
    int   error = (int)cudaHostAlloc(&host, SLOTS * sizeof *s->slots, cudaHostAllocMapped);

    if (error == 0) error = (int)cudaHostGetDevicePointer(&mapped, host, 0);
    for (int i = 0; i < SLOTS && error == 0; i++) {
        error = (int)cudaEventCreateWithFlags(&s->done[i], cudaEventDisableTiming);
    }
    if (error != 0) {
        (void)cudaFreeHost(host);
        return error;
    }
    s->slots  = (send_slot *)host;
    s->mapped = (send_slot *)mapped;
    return 0;
}

est_sends *est_sends_create(cudaStream_t stream)
{
    est_sends *s = (est_sends *)calloc(1, sizeof *s);

    if (s != NULL) s->stream = stream;
    return s;
}

void est_sends_free(est_sends *s)
{
    if (s == NULL) return;
    for (int i = 0; i < SLOTS; i++) {
        if (s->done[i] != NULL) (void)cudaEventDestroy(s->done[i]);
    }
    if (s->slots != NULL) (void)cudaFreeHost(s->slots);
    free(s);
}

/* Begins the next slot when the one under way lacks room; what was in it long ago has been taken. */
static int make_room(est_sends *s, size_t bytes, size_t pieces)
{
    int error = 0;

    if (s->slots == NULL) error = make_slots(s);
    if (error == 0 && (s->n_bytes + bytes > SLOT_BYTES || s->n_pieces + pieces > PIECES_MAX))
        error = est_sends_flush(s);
    if (error == 0 && s->n_pieces == 0 && s->used[s->now]) {
        error           = (int)cudaEventSynchronize(s->done[s->now]);
        s->used[s->now] = false;
    }
    return error;
}

int est_sends_add(est_sends *s, void *to, const void *from, size_t bytes)
{
    send_slot *slot;
    int        error;

    if (bytes > LARGE) return (int)cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s->stream);
    error = make_room(s, bytes, bytes / PIECE_BYTES + 1);
    if (error != 0) return error;
    slot = &s->slots[s->now];
    memcpy(slot->bytes + s->n_bytes, from, bytes);
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t left = bytes - at;

        slot->piece[s->n_pieces++] = send_piece{ (char *)to + at, (uint32_t)(s->n_bytes + at),
                                                 (uint32_t)(left < PIECE_BYTES ? left : PIECE_BYTES) };
    }
    s->n_bytes += (bytes + 15) / 16 * 16;
    return 0;
}

int est_sends_flush(est_sends *s)
{
    est_call c = {};
    int      error;

    if (s->n_pieces == 0) return 0;
    c.stream = s->stream;
    error = est_launch(&c, take_pieces, dim3((unsigned)s->n_pieces), EST_BLOCK, (const send_slot *)&s->mapped[s->now]);
    if (error == 0) error = (int)cudaEventRecord(s->done[s->now], s->stream);
    s->used[s->now] = true;
    s->now          = (s->now + 1) % SLOTS;
    s->n_pieces     = 0;
    s->n_bytes      = 0;
    return error;
}
