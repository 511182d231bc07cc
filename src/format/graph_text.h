/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph messages as protobuf's text format, the one of graph.pbtxt and saved_model.pbtxt.
 *
 * The printer goes over the encoded message, so nothing that TensorFlow put into it is lost on the way, except: fields
 * of a later TensorFlow are left out, and the object graph of a SavedModel and debug information are only mentioned in
 * a comment. Maps are sorted by key.
 *
 * Threading: any thread, one at a time a buffer. */
#ifndef EST_FORMAT_GRAPH_TEXT_H
#define EST_FORMAT_GRAPH_TEXT_H

#include "base/strbuf.h"
#include "format/wire.h"

#define EST_GRAPH_TEXT_DEPTH_MAX 100 /* of messages in messages, as Google's parsers have it */

/* Appends the text of an encoded message. On failure the buffer has a part of it. */
EST_MUST_CHECK est_status est_graph_def_text(est_str message, est_strbuf *out);
EST_MUST_CHECK est_status est_meta_graph_def_text(est_str message, est_strbuf *out);
EST_MUST_CHECK est_status est_saved_model_text(est_str message, est_strbuf *out);

#endif
