/* SPDX-License-Identifier: Apache-2.0
 *
 * MetaGraphDef: a graph with what is needed to use it: tags, collections, how to restore its variables, signatures,
 * assets.
 *
 * Everything lives in the arena given to init or parse (see format/def.h). The functions that add copy what they are
 * given. Maps are kept sorted by key. The list of op definitions, Any messages and the object graph stay encoded: they
 * are read and written, never looked at.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_META_GRAPH_DEF_H
#define EST_FORMAT_META_GRAPH_DEF_H

#include "format/graph_def.h"

/* --- tensors of signatures ---------------------------------------------------------------------------------------- */

typedef enum est_tensor_info_kind { /* its field number in TensorInfo */
                                    EST_TENSOR_INFO_NONE      = 0,
                                    EST_TENSOR_INFO_NAME      = 1,
                                    EST_TENSOR_INFO_SPARSE    = 4,
                                    EST_TENSOR_INFO_COMPOSITE = 5
} est_tensor_info_kind;

typedef struct est_tensor_info {
    const char          *key; /* its name in the signature; not looked at when adding */
    est_tensor_info_kind kind;
    const char          *name;      /* NAME: "softmax:0"; SPARSE: the tensor of values */
    const char          *indices;   /* SPARSE */
    const char          *sizes;     /* SPARSE: the tensor of its dense shape */
    est_str              composite; /* COMPOSITE: encoded */
    int32_t              dtype;     /* TensorFlow's number; 0: not said */
    bool                 has_shape;
    est_shape            shape;
} est_tensor_info;

typedef struct est_tensor_infos {
    est_tensor_info *items;
    int              n;
} est_tensor_infos;

typedef struct est_signature_default { /* what an input is when a request leaves it out */
    const char *key;
    est_str     tensor; /* encoded TensorProto */
} est_signature_default;

typedef struct est_signature_def {
    const char            *key;
    const char            *method_name; /* "tensorflow/serving/predict" */
    est_tensor_infos       inputs, outputs;
    est_signature_default *defaults;
    int                    n_defaults;
} est_signature_def;

/* --- the other parts ---------------------------------------------------------------------------------------------- */

typedef enum est_collection_kind { /* its field number in CollectionDef */
                                   EST_COLLECTION_NONE   = 0,
                                   EST_COLLECTION_NODES  = 1, /* names of nodes or tensors */
                                   EST_COLLECTION_BYTES  = 2, /* encoded messages, as VariableDef */
                                   EST_COLLECTION_INTS   = 3,
                                   EST_COLLECTION_FLOATS = 4,
                                   EST_COLLECTION_ANY    = 5
} est_collection_kind;

typedef struct est_collection_def {
    const char         *key;
    est_collection_kind kind;
    int                 n; /* values of kind; 0 for ANY */
    union {
        const char **nodes;
        est_str     *bytes;
        int64_t     *ints;
        float       *floats;
        est_str      any; /* encoded AnyList */
    };
} est_collection_def;

typedef struct est_saver_def {
    const char *filename_tensor_name; /* "save/Const:0" */
    const char *save_tensor_name;     /* "save/control_dependency:0" */
    const char *restore_op_name;      /* "save/restore_all": without ":0" */
    int32_t     max_to_keep;
    bool        sharded;
    float       keep_checkpoint_every_n_hours;
    int32_t     version; /* 2: checkpoints of today */
} est_saver_def;

typedef struct est_asset_file_def {
    est_tensor_info tensor;
    const char     *filename; /* within assets/ */
} est_asset_file_def;

typedef struct est_function_alias {
    const char *key;
    const char *value;
} est_function_alias;

typedef struct est_meta_graph_def {
    est_arena          *arena; /* borrowed while the struct is in use; everything here is in it */
    const char         *meta_graph_version;
    est_str             stripped_op_list; /* encoded OpList; empty: none */
    est_str             any_info;         /* encoded; empty: none */
    est_def_names       tags;
    const char         *tensorflow_version, *tensorflow_git_version;
    bool                stripped_default_attrs;
    est_function_alias *function_aliases;
    int                 n_function_aliases;
    est_graph_def       graph;
    est_saver_def      *saver; /* NULL: none */
    est_collection_def *collections;
    int                 n_collections;
    est_signature_def  *signatures;
    int                 n_signatures;
    est_asset_file_def *assets;
    int                 n_assets;
    est_str             object_graph; /* encoded SavedObjectGraph; its presence means a model of TensorFlow 2 */
} est_meta_graph_def;

/* An empty one with an empty graph. It must stay where it is. There is nothing to clear but the arena. */
void est_meta_graph_def_init(est_meta_graph_def *meta, est_arena *arena);

/* --- building ----------------------------------------------------------------------------------------------------- */

EST_MUST_CHECK est_status est_meta_graph_def_add_tag(est_meta_graph_def *meta, const char *tag);
EST_MUST_CHECK est_status est_meta_graph_def_set_saver(est_meta_graph_def *meta, const est_saver_def *saver);
EST_MUST_CHECK est_status est_meta_graph_def_add_asset(est_meta_graph_def *meta, const char *tensor,
                                                       const char *filename);

/* A signature with nothing in it yet, instead of one of the same key. */
EST_MUST_CHECK est_status est_meta_graph_def_add_signature(est_meta_graph_def *meta, const char *key,
                                                           const char *method_name);

/* Adds to a signature that was added; EST_NOT_FOUND when it was not. */
EST_MUST_CHECK est_status est_meta_graph_def_add_input(est_meta_graph_def *meta, const char *signature, const char *key,
                                                       const est_tensor_info *info);
EST_MUST_CHECK est_status est_meta_graph_def_add_output(est_meta_graph_def *meta, const char *signature,
                                                        const char *key, const est_tensor_info *info);

/* Adds one value to a collection, which begins with it; EST_INVALID_ARGUMENT when the collection has another kind. */
EST_MUST_CHECK est_status est_meta_graph_def_add_node(est_meta_graph_def *meta, const char *collection,
                                                      const char *name);
EST_MUST_CHECK est_status est_meta_graph_def_add_bytes(est_meta_graph_def *meta, const char *collection, est_str bytes);
EST_MUST_CHECK est_status est_meta_graph_def_add_int(est_meta_graph_def *meta, const char *collection, int64_t value);
EST_MUST_CHECK est_status est_meta_graph_def_add_float(est_meta_graph_def *meta, const char *collection, float value);

/* --- looking ------------------------------------------------------------------------------------------------------ */

/* NULL when there is none of that key; borrowed until one is added. */
const est_signature_def  *est_meta_graph_def_signature(const est_meta_graph_def *meta, const char *key);
const est_collection_def *est_meta_graph_def_collection(const est_meta_graph_def *meta, const char *key);
const est_tensor_info    *est_tensor_infos_find(const est_tensor_infos *infos, const char *key);

/* The constant that holds the path of an asset, or the placeholder that it is fed to; EST_INVALID_ARGUMENT when the
 * graph has no such one. */
EST_MUST_CHECK est_status est_meta_graph_def_asset_node(const est_meta_graph_def *meta, const est_asset_file_def *asset,
                                                        est_graph_def_node **out);

/* Points the graph at the files of the SavedModel in `dir`, as a loader does: the constant of every asset becomes
 * "<dir>/assets/<filename>". TensorFlow's Estimator lists assets in the collection saved_model_assets instead: those
 * are added when there are no others. */
EST_MUST_CHECK est_status est_meta_graph_def_place_assets(est_meta_graph_def *meta, const char *dir);

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* Appends the fields of the message; the same contents give the same bytes. */
EST_MUST_CHECK est_status est_meta_graph_def_put(est_wire_writer *w, const est_meta_graph_def *meta);

/* Reads a message to its end into `arena`. */
EST_MUST_CHECK est_status est_meta_graph_def_parse(est_wire_reader *r, est_arena *arena, est_meta_graph_def *out);
EST_MUST_CHECK est_status est_meta_graph_def_parse_bytes(est_str message, est_arena *arena, est_meta_graph_def *out);

#endif
