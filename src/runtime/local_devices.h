/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a session that run by themselves (device/device.h), beside the CPU.
 *
 * To the cut of a step (runtime/partition.c) they are tasks, after those of the cluster were cut off: what runs on a
 * device between two exchanges with the host is a segment, which is a plan of its own, and copies between host and
 * device are its borders. Unlike those of tasks, variables on a device are in the session's store. What another task
 * runs is on the CPU there, so that values of its variables come to a device, and gradients leave it, through the host.
 *
 *   D1  A variable is on a device if it holds floats, is not a dynamic embedding's, and the device has kernels for all
 *       operations that touch it; those of one operation are on the same device. It stays where it is made, but that it
 *       moves to the host when the graph has grown by what the device cannot run and no plan uses it yet.
 *   D2  An operation on a variable runs where the variable is. Any other runs on the device it is pinned to, or on the
 *       first of the session, if that has a kernel for its types; else on the host (soft placement). Without soft
 *       placement that is refused, but for what the host does for any device: random numbers, integers (D3), and
 *       whether a variable has a value. Cheap ones between operations of the host, which are not pinned, run on the
 *       host too: going to a device and back costs more.
 *   D3  The host runs what makes integers, which may be a shape, and what knows sizes only when it runs: so all shapes
 *       on a device are known before a step. Integers that are compared or cast to floats, and nothing else, are no
 *       shapes; those that follow from shapes, as Shape, are known where they are used. Sparse gradients, which shrink
 *       where ids occur twice, are padded instead, if nothing but updates on the device takes them.
 *   D4  A variable that is pinned to any device of a kind, "/device:GPU:*", as the mirrored strategy has it, is on all
 *       of the session's: on the first, and with copies on the others, which are equal after every step; after one
 *       that has failed they are filled from the first before the next. Who runs on a device reads the copy there, and
 *       what writes the variable is run for each copy with the same values (runtime/copies.c). An operation that is
 *       pinned so runs on each device that needs its result. What one operation writes has copies, or none of it. */
#ifndef EST_RUNTIME_LOCAL_DEVICES_H
#define EST_RUNTIME_LOCAL_DEVICES_H

#include "estoc/session.h"
#include "runtime/plan.h"

/* Those that the options of a session name (est_session_options.devices). *out NULL: only the CPU. */
EST_MUST_CHECK est_status est_local_devices_create(const est_session_options *options, est_local_devices **out);
/* The same devices with queues of their own, for plans that run beside those of `like`. NULL: *out is NULL. */
EST_MUST_CHECK est_status est_local_devices_again(const est_local_devices *like, est_local_devices **out);
void                      est_local_devices_free(est_local_devices *devices); /* NULL is fine; after all plans */

est_remote *est_local_devices_remote(est_local_devices *devices);

/* After a step that has failed: waits for all that was started. */
void est_local_devices_abandon(est_local_devices *devices);

/* Before a step is cut: what writes variables with copies, and what reads those (D4). */
EST_MUST_CHECK est_status est_local_devices_copies(const est_local_devices *devices, est_graph *graph, est_io *io,
                                                   const est_store *store, est_arena *arena);

/* Makes the variables of the graph that are not in the store yet, each on its device (D1). may_move: no plan uses those
 * that are. */
EST_MUST_CHECK est_status est_local_devices_variables(const est_local_devices *devices, const est_graph *graph,
                                                      est_store *store, bool may_move);

/* Says what another task of the cluster, "ps:1", runs of a step, if that is asked for (.log_device_placement). */
void est_local_devices_log(const est_local_devices *devices, const est_graph *graph, const char *task);

/* The plan of a segment on its device; options: of the step. */
EST_MUST_CHECK est_status est_local_devices_enter(est_local_devices *devices, const est_segment *segment,
                                                  est_store *store, const est_plan_options *options,
                                                  est_remote_segment **out);

/* A device by its number as a task, and its queue; the plan of a segment. */
const est_device *est_local_devices_queue(const est_local_devices *devices, int task, est_queue **out);
est_plan         *est_local_devices_plan(const est_remote_segment *segment);

/* Input `input` of the segment is a fed tensor, which is on the device *fed_on when a run starts; NULL: the host. */
void est_local_devices_feed(est_remote_segment *segment, int input, const est_device *const *fed_on);

/* --- where things run (runtime/device_place.c) -------------------------------------------------------------------- */

typedef struct est_device_choice {
    const est_device *const *devices; /* that run by themselves */
    int                      n;
    bool                     no_soft_placement;
    bool                     log_placement;
} est_device_choice;

EST_MUST_CHECK est_status est_device_place_variables(const est_device_choice *choice, const est_graph *graph,
                                                     est_store *store, bool may_move);

/* Whether a node is pinned to any device of a kind that is not the CPU (D4). */
bool est_device_is_any(const est_node_def *def);

/* Its number in the choice; EST_HERE: it is not one of them. */
int32_t est_device_number(const est_device_choice *choice, const est_device *device);

/* runtime/copies.c */
EST_MUST_CHECK est_status est_pass_copies(est_graph *graph, est_io *io, const est_store *store,
                                          const est_device_choice *choice, est_arena *arena);

struct est_partition_step;
EST_MUST_CHECK est_status est_device_place_nodes(const est_device_choice *choice, const struct est_partition_step *step,
                                                 int32_t *task);

#endif
