/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a dataset stage: one est_stage descriptor, one file of data/.
 *
 * A dataset is what the user asked for: immutable, shared by its iterators, a stage's own struct with an est_dataset as
 * its first member. An iterator (est_iter) is one pass over it: it pulls elements from the iterators of the datasets
 * before it. est_iter is what stages see; the public est_iterator is one of them at the end of the chain, with its
 * est_pass.
 *
 * Passes: an iterator is opened for the number of a pass, `turn`, from which everything random is drawn. A stage that
 * goes over its input again opens it again with another turn (est_turn_mix), so that nothing needs to be carried from
 * pass to pass and a saved position stays small.
 *
 * Saving: est_iter_save stops the stage's threads (`pause`), lets the stage write what it holds, saves its open inputs,
 * and lets the threads go on (`resume`). So whatever is in no buffer is still in an input, and no element is in both.
 *
 * Bad rows are counted when the element behind them is handed out, never when it is read ahead: a stage that reads
 * ahead has its inputs count apart, and keeps with every element how many rows were left out before it. So a count, and
 * where a limit is reached, does not depend on threads, and a saved position has the count that belongs to it.
 *
 * Threading: an est_iter belongs to one thread at a time. A stage with threads hands its input to them, and takes it
 * back in pause(). Lock order: a stage's own lock, then the est_pass's. No callback of the user is called with a lock
 * held, except that calls which must not overlap are made one at a time. */
#ifndef EST_DATA_STAGE_H
#define EST_DATA_STAGE_H

#include <pthread.h>

#include "base/alloc.h"
#include "base/refcount.h"
#include "base/strbuf.h"
#include "estoc/dataset.h"
#include "format/wire.h"

#define EST_STAGE_INPUTS_MAX 2

/* --- elements ----------------------------------------------------------------------------------------------------- */

/* Where an element was read, for errors about it. */
typedef struct est_origin {
    const char *path; /* NULL: nowhere in a file; lives as long as the pass (est_pass_intern) */
    int64_t     at;   /* line, from 1, or record, from 0 */
    bool        line; /* which of the two */
} est_origin;

/* An element on its way through the stages: as many fields as its dataset has components. */
typedef struct est_element {
    est_origin origin;
    est_field  field[];
} est_element;

/* An element without values and with room for n; NULL when memory is out. Freed with est_element_free. */
est_element *est_element_new(int n);
void         est_element_free(est_element *element, int n); /* NULL is fine */

/* Moves the contents of `from` into the empty `to`. */
void est_element_move(est_element *to, est_element *from, int n);

/* Further references to the same tensors, into `to`, which holds nothing. */
void est_element_share(est_element *to, const est_element *from, int n);

/* Puts "file:line: " or "file, record n: " in front of the thread's error, if the origin is known. Returns status. */
est_status est_origin_blame(const est_origin *origin, est_status status);

/* Writes an element as field `number` of a message; reads one back from the bytes of such a field into `out`, which
 * holds nothing and does so again after a failure. `pass` may be NULL: the origin is then forgotten. */
typedef struct est_pass est_pass;

void                      est_element_put(est_wire_writer *w, uint32_t number, const est_element *element, int n);
EST_MUST_CHECK est_status est_element_parse(est_str bytes, est_pass *pass, const est_dataset *dataset,
                                            est_element *out);

/* Checks that the values of the user's code fit the components of the dataset; the error names the component. */
EST_MUST_CHECK est_status est_element_check(const est_element *element, const est_dataset *dataset);

/* --- datasets ----------------------------------------------------------------------------------------------------- */

typedef struct est_iter    est_iter;
typedef struct est_stage   est_stage;
typedef struct est_encoded est_encoded; /* data/encode.h */

struct est_stage {
    const char *name;      /* "shuffle"; in errors, in saved positions and in encoded datasets */
    int         n_inputs;  /* datasets it takes; a NULL among them is then the user's mistake */
    size_t      iter_size; /* of the stage's iterator struct, which starts with an est_iter */

    /* The iterator is zeroed but for its est_iter. It opens its inputs (est_iter_open_input) as it needs them. When it
     * fails, close() is called. May be NULL: the inputs are opened with the same turn. */
    est_status (*open)(est_iter *it);

    /* The next element into `out`, which holds nothing before and after a failure. EST_OUT_OF_RANGE at the end; it is
     * not called again after that. */
    est_status (*next)(est_iter *it, est_element *out);

    /* Stops the threads and frees the contents of the iterator; inputs are closed after it. May be NULL. */
    void (*close)(est_iter *it);

    /* Writes the state for a new iterator to continue from here, without that of inputs. May be NULL: nothing. */
    est_status (*save)(est_iter *it, est_wire_writer *w);

    /* Takes such bytes into an iterator that was just opened, and opens again those inputs that have to be at another
     * turn. The open inputs are restored after it. May be NULL exactly when save is. */
    est_status (*restore)(est_iter *it, est_str state);

    /* Returns when no thread of the stage uses its inputs, and none will until resume. May be NULL. */
    void (*pause)(est_iter *it);
    void (*resume)(est_iter *it);

    /* Fails when the files of a pass do not exist, without reading them. May be NULL: as its inputs. */
    est_status (*check)(const est_dataset *dataset);

    /* Frees the contents of the dataset's own struct; the arena and the inputs are freed after it. May be NULL. */
    void (*free)(est_dataset *dataset);

    /* Creates the same stage over another input, for est_dataset_copy. May be NULL: the struct is copied. For stages
     * whose struct must not be shared; files that they write get `suffix`. */
    est_dataset *(*copy)(const est_dataset *dataset, est_dataset *input, const char *suffix);

    /* Writes the stage's parameters, its inputs aside, for another process: est_state_put of numbers, and fields from
     * EST_ENCODED_OWN on. May be NULL: there are none. */
    est_status (*encode)(const est_dataset *dataset, est_wire_writer *w);

    /* Creates the stage of such parameters, as constructors do; takes the inputs. NULL: the stage calls a function of
     * the user and cannot be encoded. A stage that has it is a line of data/stages.def. */
    est_dataset *(*decode)(const est_encoded *from);
    const char *instead; /* of a stage without decode: the stage that has a graph as its function; NULL: none */

    /* Properties for rebuilding a chain for one of several workers (autoshard.c, rebatch.c). */
    bool passes;      /* yields unchanged elements of its inputs, all or some */
    bool reorders;    /* yields all of them in some order: it can be divided before this stage */
    bool counts;      /* its effect on an element depends on earlier ones: it must not be divided before this stage */
    bool reads_files; /* takes paths and reads the files */
    bool lists_files; /* a source of paths */
    bool last;        /* its elements are in memory that stages must not touch: none comes after it */

    /* How many elements it makes one batch of. NULL: it makes no batches. */
    int64_t (*batch_size)(const est_dataset *dataset);
};

/* What est_dataset_keep was given. */
typedef struct est_kept {
    struct est_kept *next;
    void (*release)(void *user);
    void *user;
} est_kept;

struct est_dataset {
    const est_stage *stage; /* NULL: the chain failed, and `error` says how */
    est_refcount     refs;
    est_arena       *arena;                       /* names, options and other data of the same lifetime */
    est_dataset     *input[EST_STAGE_INPUTS_MAX]; /* taken; NULL: none */
    est_component   *components;                  /* [n_components], in the arena */
    int              n_components;
    size_t           size;     /* of the stage's own struct */
    est_dataset     *original; /* of a copy: owns the data that the struct points to; NULL: not a copy */
    bool             endless;  /* as its inputs are, unless the stage's constructor says otherwise */
    bool             varies;   /* the stage's order, inputs aside, is another one in every process */
    est_error       *error;    /* in the arena */
    est_kept        *kept;     /* in the arena */
};

/* How a stage's constructor works:
 *
 *     struct take { est_dataset base; int64_t n; };
 *
 *     est_dataset *est_dataset_take(est_dataset *dataset, int64_t n)
 *     {
 *         struct take *take = est_dataset_new(&take_stage, sizeof *take, dataset, NULL);
 *
 *         if (!est_dataset_sound(&take->base)) return &take->base;
 *         if (n < 0 && n != EST_FOREVER) return est_dataset_fail(&take->base, est_fail(EST_INVALID_ARGUMENT, ...));
 *         take->n = n;
 *         return est_dataset_like(&take->base, dataset);
 *     }
 *
 * est_dataset_new takes the inputs and never returns NULL: when an input had failed, or memory is out, the result is a
 * failed dataset, which may be smaller than asked for and must only be returned. The base is the first member. */
void *est_dataset_new(const est_stage *stage, size_t size, est_dataset *first, est_dataset *second);
bool  est_dataset_sound(const est_dataset *dataset);

/* Makes the dataset a failed one with the thread's last error; returns it. */
est_dataset *est_dataset_fail(est_dataset *dataset, est_status status);

/* Gives it the components of another (shared names are copied), or these; fails the dataset when a name is missing, is
 * there twice, or memory is out. Returns it. */
est_dataset *est_dataset_like(est_dataset *dataset, const est_dataset *other);
est_dataset *est_dataset_with(est_dataset *dataset, const est_component *components, int n);

/* Appends the names of its components, as "x, y". */
void est_dataset_list(const est_dataset *dataset, est_strbuf *out);

/* Fails unless component 0 is a string scalar, as `stage` needs; `what` is the expected input: "paths of files". */
EST_MUST_CHECK est_status est_dataset_need_strings(const est_dataset *dataset, const char *what);

/* The first stage whose order differs between processes; NULL: none. */
const est_dataset *est_dataset_varying(const est_dataset *dataset);

/* The same stage over other inputs of the same components, which are taken; as constructors do. `suffix` is appended to
 * the name of a file that it writes: copies for several workers must not share one. */
est_dataset *est_dataset_copy(const est_dataset *dataset, est_dataset *first, est_dataset *second, const char *suffix);

/* Fails as opening an iterator would when files are missing; calls no function of the user and starts nothing. */
EST_MUST_CHECK est_status est_dataset_check(const est_dataset *dataset);

/* Fails as the first batch of a pass would because of its files: none has a row, or a decoder rejects the first row.
 * Reads that row and calls no function of the user except the check of a decoder's rows (data/peek.c). For datasets
 * that passed est_dataset_check. */
EST_MUST_CHECK est_status est_dataset_peek(const est_dataset *dataset);

/* est_iterator_create for pass number `turn`, whose random order is its own; 0 is the first. */
EST_MUST_CHECK est_status est_iterator_open_turn(const est_dataset *dataset, uint64_t turn, est_iterator **out);

/* --- iterators ---------------------------------------------------------------------------------------------------- */

/* State shared by all iterators of one est_iterator. Any thread. */
struct est_pass {
    pthread_mutex_t lock; /* guards all below */
    est_arena      *arena;
    struct est_map *paths; /* interned */
};

EST_MUST_CHECK est_status est_pass_create(est_pass **out);
void                      est_pass_free(est_pass *pass); /* NULL is fine */

/* A copy of the path that lives as long as the pass, the same for the same text; NULL when memory is out. */
const char *est_pass_intern(est_pass *pass, const char *path, size_t size);

struct est_iter {
    const est_stage   *stage;
    const est_dataset *dataset; /* a reference */
    est_pass          *pass;
    /* counts rows skipped here and in the inputs; owned by the reader of this iterator */
    int64_t  *bad_rows;
    int64_t  *input_bad_rows; /* counter of the inputs: the same, unless they are read ahead */
    uint64_t  turn;
    est_iter *input[EST_STAGE_INPUTS_MAX]; /* open ones */
    bool      ended;
};

/* An iterator of a dataset that is not failed. Pass and counter outlive it. */
EST_MUST_CHECK est_status est_iter_open(const est_dataset *dataset, est_pass *pass, int64_t *bad_rows, uint64_t turn,
                                        est_iter **out);
void                      est_iter_close(est_iter *it); /* NULL is fine */

/* Opens input i of the stage's dataset, in place of the one that is open, if any. */
EST_MUST_CHECK est_status est_iter_open_input(est_iter *it, int i, uint64_t turn);

/* The next element, as est_stage.next; may be called again after the end. NULL (a damaged position) is an error. */
EST_MUST_CHECK est_status est_iter_next(est_iter *it, est_element *out);

/* A row was bad: counts it in *it->bad_rows and in *seen, and returns EST_OK with a warning that has the thread's error
 * text as long as *seen is within `max` (EST_FOREVER: always); else returns `status` with the error as it was, the
 * limit added. Only EST_INVALID_ARGUMENT and EST_DATA_LOSS are about rows: any other status is returned as it is. */
EST_MUST_CHECK est_status est_iter_bad_row(est_iter *it, int64_t *seen, int64_t max, est_status status);

/* The position of an iterator as field `number` of a message; an iterator just opened is put there by its bytes. */
EST_MUST_CHECK est_status est_iter_save(est_iter *it, est_wire_writer *w, uint32_t number);
EST_MUST_CHECK est_status est_iter_restore(est_iter *it, est_str bytes);

/* The turn of pass `i` over an input of an iterator that is itself in turn `turn`. Turn 0, pass 0 is 0. */
uint64_t est_turn_mix(uint64_t turn, uint64_t i);

/* A seed in place of 0, which stands for none; never 0 itself. */
uint64_t est_seed_draw(void);

#endif
