/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between tasks over net/: request numbers, and the encoding of numbers and tensors.
 *
 * The head of a message is a list of fields in protobuf's encoding (format/wire.h); the last of them describe the
 * tensors. The elements of the tensors are the parts, sent without a copy. A tensor of strings is one part: 64-bit
 * lengths, then bytes. */
#ifndef EST_CLUSTER_PROTOCOL_H
#define EST_CLUSTER_PROTOCOL_H

#include "format/wire.h"
#include "net/net.h"
#include "runtime/remote.h"

/* name, number, and in words for errors and the status view: "ps:0 did not answer <text>" */
#define EST_METHODS(X)                                                                                                 \
    X(ENTER, 1, "the entry of a segment")                                                                              \
    X(RUN, 2, "the run of a segment")                                                                                  \
    X(VARIABLES, 3, "the list of its variables")                                                                       \
    X(READ, 4, "the value of a variable")                                                                              \
    X(WRITE, 5, "the write of a variable")                                                                             \
    X(SAVE, 6, "the save of its variables")                                                                            \
    X(RESTORE, 7, "the restore of its variables")                                                                      \
    X(TURN, 8, "a turn")                                                                                               \
    X(AWAIT_READY, 9, "its initialized variables")                                                                     \
    X(DECLARE_READY, 10, "the declaration that variables are ready")                                                   \
    X(HOLD, 11, "the hold for a checkpoint")                                                                           \
    X(DONE, 12, "the end of the job")                                                                                  \
    X(STATUS, 13, "its status")                                                                                        \
    X(LEAVE, 14, "the goodbye")                                                                                        \
    X(VERIFY, 15, "the check of a checkpoint")                                                                         \
    X(FIND_NAN, 16, "the search for NaN")                                                                              \
    X(FINISH_STEP, 17, "the end of a synchronous step")                                                                \
    X(COMMIT, 18, "the commit of a step")                                                                              \
    X(AWAIT_ALONE, 20, "the end of all other training")                                                                \
    X(COMPARE, 21, "its cluster")                                                                                      \
    X(SETUP, 22, "the setup for calls")                                                                                \
    X(FUNCTION, 23, "the entry of a function")                                                                         \
    X(DATASET, 24, "the creation of a dataset")                                                                        \
    X(ITERATOR, 25, "the creation of an iterator")                                                                     \
    X(CALL, 26, "a call")                                                                                              \
    X(SHARD, 27, "the evaluation of a shard")                                                                          \
    X(RELEASE, 28, "the release of what calls used")                                                                   \
    X(ORIGIN, 29, "the origin of calls")                                                                               \
    X(LEAVE_SEGMENT, 30, "the release of a segment")                                                                   \
    X(SEND, 40, "a tensor of a step")                                                                                  \
    X(ABORT_STEP, 41, "the end of a step that failed")                                                                 \
    X(OPEN_SESSION, 42, "a session")                                                                                   \
    X(CLOSE_SESSION, 43, "the end of a session")                                                                       \
    X(SESSION_GRAPH, 44, "the graph of a session")                                                                     \
    X(SESSION_ENTER, 45, "the plan of a step")                                                                         \
    X(SESSION_LEAVE, 46, "the end of a plan")                                                                          \
    X(SESSION_RUN, 47, "a step")                                                                                       \
    X(SESSION_VARIABLES, 48, "the variables of a session")                                                             \
    X(SESSION_READ, 49, "the value of a variable")                                                                     \
    X(SESSION_WRITE, 50, "the write of a variable")                                                                    \
    X(FAIL_STEP, 51, "the failure of a step")                                                                          \
    X(SESSION_SAVE, 52, "the save of all variables")                                                                   \
    X(SESSION_VERIFY, 53, "the check of a checkpoint")                                                                 \
    X(SESSION_RESTORE, 54, "the restore of all variables")                                                             \
    X(SESSION_FIND_NAN, 55, "the search for NaN")                                                                      \
    X(SESSION_WAITS, 56, "the waits of a session")

typedef enum est_method {
#define EST_METHOD_ENUM(name, number, text) EST_METHOD_##name = number,
    EST_METHODS(EST_METHOD_ENUM)
#undef EST_METHOD_ENUM
} est_method;

const char *est_method_text(int method); /* never NULL */

/* Fields of heads. The file that serves a method lists its fields (cluster/service*.[ch]). Those of calls are in
 * cluster/calls.h. */
enum {
    EST_FIELD_SEGMENT = 1, /* of a host, by number */
    EST_FIELD_SEQUENCE, /* number of a run at one task; rises, and equals an earlier one only in a repeated request */
    EST_FIELD_SEED,     /* of a run */
    EST_FIELD_NAME,     /* of a variable */
    EST_FIELD_INITIALIZED,   /* follows a name */
    EST_FIELD_BYTES,         /* of a segment; of a text */
    EST_FIELD_PREFIX,        /* of a checkpoint */
    EST_FIELD_ENTRY,         /* of a checkpoint (cluster/checkpoint_entries.h) */
    EST_FIELD_STEP,          /* the global step */
    EST_FIELD_LIMIT,         /* at which training ends */
    EST_FIELD_STALENESS,     /* how old a step under way may be while another begins; 0: no bound */
    EST_FIELD_SYNC_STEP,     /* one more than the step that a push is for; 0: the run is made at once */
    EST_FIELD_SYNC_REPLICAS, /* workers per step */
    EST_FIELD_COMMIT,        /* the receiver has to commit the step */
    EST_FIELD_PHASE,         /* of a segment */
    EST_FIELD_TURN,          /* the answer includes a turn */
    EST_FIELD_FINISHED,      /* no further step may begin */
    EST_FIELD_HELD,          /* for HOLD: hold or release */
    EST_FIELD_SIZE,          /* bytes of a variable, follows its name */
    EST_FIELD_INPUTS,        /* of a segment */
    EST_FIELD_OUTPUTS,
    EST_FIELD_TIMELINE,    /* of the global step (cluster/sync_replicas.h) */
    EST_FIELD_FIRST,       /* all runs before this number have been answered; absent: all but this one */
    EST_FIELD_COUNTED,     /* the run needs a turn: a later run of its training step counts the step */
    EST_FIELD_FAILURE,     /* for COMMIT and FAIL_STEP: the status with which the step failed */
    EST_FIELD_READY,       /* the chief has declared variables ready: training may have begun */
    EST_FIELD_TENSOR = 32, /* nested: dtype, dimensions; one part each */
    EST_FIELD_SEND   = 48, /* nested: a tensor that a run sends to a task (cluster/rendezvous.h) */
    EST_FIELD_RECEIVE,     /* the transfer by which the next of the last inputs of a run comes */
    EST_FIELD_RETURNED,    /* outputs of a run that its answer has; absent: all */
    EST_FIELD_DRIVER,      /* incarnation of the process that drives a step */
    EST_FIELD_DRIVEN_STEP, /* of its steps, by number */
    EST_FIELD_TRANSFER,    /* of a step, by number */
    EST_FIELD_SESSION,     /* of a master, by number */
    EST_FIELD_CONNECT_MS,  /* how long a session waits for the tasks of the cluster */
    EST_FIELD_DEVICE,      /* of a variable, follows its name */
};

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* A message under construction; its memory is reused for the next. A zeroed struct is empty. */
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

/* Adds a tensor, whose memory is borrowed until the message is sent. */
void est_pack_view(est_packing *packing, const est_view *view);

/* The message, borrowed from the packing. EST_RESOURCE_EXHAUSTED: packing ran out of memory. */
EST_MUST_CHECK est_status est_packing_payload(const est_packing *packing, est_payload *out);

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The tensors of a message, pointing into it. A zeroed struct is empty; its memory is reused. */
typedef struct est_unpacked {
    est_view *views;
    int       n, max;
    void    **texts; /* est_str arrays of string tensors */
    int       n_texts, max_texts;
} est_unpacked;

/* Reads and checks the tensors. An inconsistent message is EST_DATA_LOSS. */
EST_MUST_CHECK est_status est_unpack_tensors(const est_message *message, est_unpacked *out);
void                      est_unpacked_clear(est_unpacked *unpacked);

/* The value of a variable, the one tensor of an answer; `from` names the sender in errors. */
EST_MUST_CHECK est_status est_unpack_variable(const est_message *message, const char *from, const char *variable,
                                              est_tensor **out);

/* The first number or bytes under a field of the head; the fallback when there is none. */
uint64_t est_head_u64(const est_message *message, uint32_t field, uint64_t fallback);
est_str  est_head_bytes(const est_message *message, uint32_t field); /* data NULL: none */

/* The precision for printing a text of a head with "%.*s": its length, which a peer chose, capped to fit an int. */
int est_text_precision(est_str text);

/* A reader over the fields of the head. */
void est_head_open(const est_message *message, est_wire_reader *out);

#endif
