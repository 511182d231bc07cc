/* SPDX-License-Identifier: Apache-2.0
 *
 * What tasks say to each other over net/: the requests by number, and how tensors and numbers travel in them.
 *
 * The head of a message is a list of fields in the manner of protobuf (format/wire.h), the last of which describes the tensors;
 * their elements are the parts, sent from where they lie. Strings are one part for each tensor: 64-bit lengths, then bytes. */
#ifndef EST_CLUSTER_PROTOCOL_H
#define EST_CLUSTER_PROTOCOL_H

#include "format/wire.h"
#include "net/net.h"
#include "runtime/remote.h"

/* name, number, in words for errors and the status view */
#define EST_METHODS(X)                                                                                                 \
    X(ENTER, 1, "enter a segment")                                                                                     \
    X(RUN, 2, "run a segment")                                                                                         \
    X(VARIABLES, 3, "list variables")                                                                                  \
    X(READ, 4, "read a variable")                                                                                      \
    X(WRITE, 5, "write a variable")                                                                                    \
    X(SAVE, 6, "save variables")                                                                                       \
    X(RESTORE, 7, "restore variables")                                                                                 \
    X(TURN, 8, "begin a step")                                                                                         \
    X(AWAIT_READY, 9, "wait until variables have values")                                                              \
    X(DECLARE_READY, 10, "say that variables have values")                                                             \
    X(HOLD, 11, "hold steps for a consistent checkpoint")                                                              \
    X(DONE, 12, "end the job")                                                                                         \
    X(STATUS, 13, "tell how things are")                                                                               \
    X(LEAVE, 14, "leave")                                                                                              \
    X(VERIFY, 15, "check a checkpoint")                                                                                \
    X(FIND_NAN, 16, "look for NaN")                                                                                    \
    X(FINISH_STEP, 17, "finish a step with others")                                                                    \
    X(COMMIT, 18, "do what was collected")                                                                             \
    X(AWAIT_ALONE, 20, "wait until nobody else trains")                                                                \
    X(COMPARE, 21, "compare clusters")

typedef enum est_method {
#define EST_METHOD_ENUM(name, number, text) EST_METHOD_##name = number,
    EST_METHODS(EST_METHOD_ENUM)
#undef EST_METHOD_ENUM
} est_method;

const char *est_method_text(int method); /* never NULL */

/* Fields of heads; which of them a method has is said where it is served (cluster/service.c). */
enum {
    EST_FIELD_SEGMENT = 1,   /* of a host, by number */
    EST_FIELD_SEQUENCE,      /* of a client's runs at one task: rises, and comes again only when a run is repeated */
    EST_FIELD_SEED,          /* of a run */
    EST_FIELD_NAME,          /* of a variable */
    EST_FIELD_INITIALIZED,   /* follows a name */
    EST_FIELD_BYTES,         /* of a segment; of a text */
    EST_FIELD_PREFIX,        /* of a checkpoint */
    EST_FIELD_ENTRY,         /* of a checkpoint (cluster/checkpoint_entries.h) */
    EST_FIELD_STEP,          /* the global step */
    EST_FIELD_LIMIT,         /* at which training ends */
    EST_FIELD_STALENESS,     /* how old a step under way may be while others begin; 0: no bound */
    EST_FIELD_SYNC_STEP,     /* one more than the step that a run is collected for; 0: it is run at once */
    EST_FIELD_SYNC_REPLICAS, /* how many workers make a step */
    EST_FIELD_COMMIT,        /* whoever is answered has to */
    EST_FIELD_PHASE,         /* of a segment */
    EST_FIELD_TURN,          /* another step may begin */
    EST_FIELD_FINISHED,      /* there are no steps left to begin */
    EST_FIELD_HELD,          /* for HOLD: begin or end */
    EST_FIELD_SIZE,          /* bytes of a variable, follows its name */
    EST_FIELD_INPUTS,        /* of a part */
    EST_FIELD_OUTPUTS,
    EST_FIELD_TIMELINE, /* of the global step (cluster/sync_replicas.h) */
    EST_FIELD_FIRST,    /* of a client's runs at one task: all before have been answered; not there: all but this one */
    EST_FIELD_COUNTED,  /* a run of a training step that a later one counts: to be done in a turn */
    EST_FIELD_FAILURE,  /* a status; for COMMIT: the step cannot be made */
    EST_FIELD_READY,    /* the chief has said that variables have values: training may have begun */
    EST_FIELD_TENSOR = 32, /* a message: dtype, dimensions; one part each */
};

/* --- writing --------------------------------------------------------------------------------------------------------- */

/* A message that is being put together; its memory is used again for the next. A zeroed struct is empty. */
typedef struct est_packing {
    est_wire_writer head;
    est_part       *parts;
    int             n_parts, max_parts;
    void          **texts; /* memory of string parts */
    int             n_texts, max_texts;
    bool            failed;
} est_packing;

void est_packing_reset(est_packing *packing); /* empties it */
void est_packing_clear(est_packing *packing); /* frees it */

/* Adds a tensor, whose memory is borrowed until the message was sent. */
void est_pack_view(est_packing *packing, const est_view *view);

/* The message; EST_RESOURCE_EXHAUSTED when memory ran out on the way. Borrowed from the packing. */
EST_MUST_CHECK est_status est_packing_payload(const est_packing *packing, est_payload *out);

/* --- reading --------------------------------------------------------------------------------------------------------- */

/* The tensors of a message, pointing into it. A zeroed struct is empty; its memory is used again. */
typedef struct est_unpacked {
    est_view *views;
    int       n, max;
    void    **texts; /* est_str arrays of string tensors */
    int       n_texts, max_texts;
} est_unpacked;

/* Reads the tensors; everything is checked: a message that does not add up is EST_DATA_LOSS. */
EST_MUST_CHECK est_status est_unpack_tensors(const est_message *message, est_unpacked *out);
void                      est_unpacked_clear(est_unpacked *unpacked);

/* The first number or bytes under a field of the head; the fallback when there is none. */
uint64_t est_head_u64(const est_message *message, uint32_t field, uint64_t fallback);
est_str  est_head_bytes(const est_message *message, uint32_t field); /* data NULL: none */

/* The precision that prints a text of a head by "%.*s". A peer says how long it is, and that may be more than an int: what is longer
 * than any name or path is cut. */
int est_text_precision(est_str text);

/* A reader over the fields of the head. */
void est_head_open(const est_message *message, est_wire_reader *out);

#endif
