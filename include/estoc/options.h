/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs that a program fills, and how they can grow without breaking programs that were compiled before.
 *
 * Options are what the parameters of a function do not say; NULL stands for all defaults:
 *
 *     est_dense(x, 10, EST_DENSE(.activation = est_relu))
 *
 * The first field of each, struct_size, says which struct it is and how long; the macro of the struct fills it. A
 * struct of another kind, one that no macro made and one of a newer header are EST_INVALID_ARGUMENT. One of an older,
 * shorter header has zeros for what it lacks. Where the macro cannot be used write .struct_size =
 * EST_STRUCT_SIZE(est_dense_options). A plain sizeof is accepted for bindings that know no kinds; then only the length
 * is checked.
 *
 * Structs of functions that a program embeds in its own (est_hook, est_saving_listener, est_exporter) have a
 * struct_size as well. Their macros are initializers, also of static objects; a cast makes a value:
 *
 *     static plateau stop = { .hook = EST_HOOK(.after_run = plateau_after_run), .best = INFINITY };
 *     own->hook = (est_hook)EST_HOOK(.after_run = plateau_after_run);
 *
 * Structs that are passed by value or are elements of lists (est_optimizer, est_initializer, est_component) have a size
 * that does not change, and `reserved` for members to come: it is all zeros, as in every struct that an initializer
 * makes. Small values that have no such member (est_node, est_shape, est_gradient, spans) do not grow. A struct that
 * the library hands out by a pointer (est_task) may grow at its end.
 *
 * Names: the macro of a struct is its name in capitals. _OPTIONS is left out, unless the shorter name has another
 * meaning: EST_TRAIN_OPTIONS, EST_EVALUATE_OPTIONS and EST_PREDICT_OPTIONS are called with modes (EST_TRAIN),
 * EST_EXPORTER_OPTIONS is beside EST_EXPORTER. The macro of a list is the name of the list: EST_COLUMN_LIST makes an
 * est_column_list. */
#ifndef ESTOC_OPTIONS_H
#define ESTOC_OPTIONS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every struct that has a struct_size, and its macro. A new one goes to the end: programs that are compiled hold the
 * numbers. */
/* clang-format off */
#define EST_OPTIONS_LIST(X)                                                                                            \
    X(est_adadelta_options, EST_ADADELTA)                                                                              \
    X(est_adagrad_options, EST_ADAGRAD)                                                                                \
    X(est_adam_options, EST_ADAM)                                                                                      \
    X(est_batch_norm_options, EST_BATCH_NORM)                                                                          \
    X(est_batch_options, EST_BATCH)                                                                                    \
    X(est_canned_options, EST_CANNED)                                                                                  \
    X(est_categorical_options, EST_CATEGORICAL)                                                                        \
    X(est_central_storage_options, EST_CENTRAL_STORAGE)                                                                \
    X(est_checkpoint_saver_options, EST_CHECKPOINT_SAVER)                                                              \
    X(est_conv2d_options, EST_CONV2D)                                                                                  \
    X(est_csv_options, EST_CSV)                                                                                        \
    X(est_dense_options, EST_DENSE)                                                                                    \
    X(est_distribute_config, EST_DISTRIBUTE_CONFIG)                                                                    \
    X(est_distributed_variable_options, EST_DISTRIBUTED_VARIABLE)                                                      \
    X(est_dynamic_options, EST_DYNAMIC)                                                                                \
    X(est_early_stopping_options, EST_EARLY_STOPPING)                                                                  \
    X(est_embedding_column_options, EST_EMBEDDING_COLUMN)                                                              \
    X(est_embedding_options, EST_EMBEDDING)                                                                            \
    X(est_estimator_options, EST_ESTIMATOR)                                                                            \
    X(est_eval_spec, EST_EVAL_SPEC)                                                                                    \
    X(est_evaluate_options, EST_EVALUATE_OPTIONS)                                                                      \
    X(est_every_options, EST_EVERY)                                                                                    \
    X(est_export_options, EST_EXPORT)                                                                                  \
    X(est_exporter_options, EST_EXPORTER_OPTIONS)                                                                      \
    X(est_ftrl_options, EST_FTRL)                                                                                      \
    X(est_head_finish_options, EST_HEAD_FINISH)                                                                        \
    X(est_head_options, EST_HEAD)                                                                                      \
    X(est_in_memory_options, EST_IN_MEMORY)                                                                            \
    X(est_input_layer_options, EST_INPUT_LAYER)                                                                        \
    X(est_interleave_options, EST_INTERLEAVE)                                                                          \
    X(est_linear_model_options, EST_LINEAR_MODEL)                                                                      \
    X(est_lines_options, EST_LINES)                                                                                    \
    X(est_logging_options, EST_LOGGING)                                                                                \
    X(est_loss_options, EST_LOSS)                                                                                      \
    X(est_map_options, EST_MAP)                                                                                        \
    X(est_metric_options, EST_METRIC)                                                                                  \
    X(est_minimize_options, EST_MINIMIZE)                                                                              \
    X(est_mirrored_options, EST_MIRRORED)                                                                              \
    X(est_momentum_options, EST_MOMENTUM)                                                                              \
    X(est_multi_worker_mirrored_options, EST_MULTI_WORKER_MIRRORED)                                                    \
    X(est_numeric_options, EST_NUMERIC)                                                                                \
    X(est_parameter_server_options, EST_PARAMETER_SERVER)                                                              \
    X(est_parse_options, EST_PARSE)                                                                                    \
    X(est_pool2d_options, EST_POOL2D)                                                                                  \
    X(est_predict_options, EST_PREDICT_OPTIONS)                                                                        \
    X(est_profiler_options, EST_PROFILER)                                                                              \
    X(est_remote_options, EST_REMOTE)                                                                                  \
    X(est_restore_options, EST_RESTORE)                                                                                \
    X(est_rms_prop_options, EST_RMS_PROP)                                                                              \
    X(est_run_config, EST_RUN_CONFIG)                                                                                  \
    X(est_save_options, EST_SAVE)                                                                                      \
    X(est_saver_options, EST_SAVER)                                                                                    \
    X(est_server_options, EST_SERVER)                                                                                  \
    X(est_session_options, EST_SESSION)                                                                                \
    X(est_slurm_options, EST_SLURM)                                                                                    \
    X(est_table_options, EST_TABLE)                                                                                    \
    X(est_task_rules, EST_TASK_RULES)                                                                                  \
    X(est_tfrecord_read_options, EST_TFRECORD_READ)                                                                    \
    X(est_tfrecord_write_options, EST_TFRECORD_WRITE)                                                                  \
    X(est_timeline_options, EST_TIMELINE)                                                                              \
    X(est_train_options, EST_TRAIN_OPTIONS)                                                                            \
    X(est_train_spec, EST_TRAIN_SPEC)                                                                                  \
    X(est_warm_start, EST_WARM_START)                                                                                  \
    X(est_weight_options, EST_WEIGHT)                                                                                  \
    X(est_workers_options, EST_WORKERS)                                                                                \
    X(est_checkpoint_write_options, EST_CHECKPOINT_WRITE)                                                              \
    X(est_hook, EST_HOOK)                                                                                              \
    X(est_saving_listener, EST_SAVING_LISTENER)                                                                        \
    X(est_exporter, EST_EXPORTER)                                                                                      \
    X(est_generator, EST_GENERATOR)                                                                                    \
    X(est_local_cluster_options, EST_LOCAL_CLUSTER)                                                                    \
    X(est_string_lookup_options, EST_STRING_LOOKUP)                                                                    \
    X(est_coordinator_options, EST_COORDINATOR)                                                                        \
    X(est_per_worker_options, EST_PER_WORKER)                                                                          \
    X(est_exact_options, EST_EXACT)                                                                                    \
    X(est_map_graph_options, EST_MAP_GRAPH)                                                                            \
    X(est_checkpoint_watch_options, EST_CHECKPOINT_WATCH)                                                              \
    X(est_device_setter_options, EST_DEVICE_SETTER)                                                                    \
    X(est_monitored_options, EST_MONITORED)                                                                            \
    X(est_call_options, EST_CALL)                                                                                      \
    X(est_separable_conv2d_options, EST_SEPARABLE_CONV2D)                                                              \
    X(est_dot_options, EST_DOT)                                                                                        \
    X(est_lambda_options, EST_LAMBDA)                                                                                  \
    X(est_layer_norm_options, EST_LAYER_NORM)                                                                          \
    X(est_adamax_options, EST_ADAMAX)                                                                                  \
    X(est_nadam_options, EST_NADAM)                                                                                    \
    X(est_saved_model_options, EST_SAVED_MODEL)                                                                        \
    X(est_network_options, EST_NETWORK)                                                                                \
    X(est_network_class, EST_NETWORK_CLASS)                                                                            \
    X(est_compile_options, EST_COMPILE)                                                                                \
    X(est_fit_options, EST_FIT)                                                                                        \
    X(est_network_evaluate_options, EST_NETWORK_EVALUATE)                                                              \
    X(est_network_predict_options, EST_NETWORK_PREDICT)                                                                \
    X(est_early_stopping_callback_options, EST_EARLY_STOPPING_CALLBACK)                                                \
    X(est_model_checkpoint_options, EST_MODEL_CHECKPOINT)                                                              \
    X(est_reduce_on_plateau_options, EST_REDUCE_ON_PLATEAU)                                                            \
    X(est_lambda_callback_options, EST_LAMBDA_CALLBACK)                                                                \
    X(est_attention_options, EST_ATTENTION)                                                                            \
    X(est_multi_head_options, EST_MULTI_HEAD)                                                                          \
    X(est_normalization_options, EST_NORMALIZATION)                                                                    \
    X(est_discretization_options, EST_DISCRETIZATION)                                                                  \
    X(est_hashing_options, EST_HASHING)                                                                                \
    X(est_category_encoding_options, EST_CATEGORY_ENCODING)                                                            \
    X(est_predictor_options, EST_PREDICTOR)                                                                            \
    X(est_load_weights_options, EST_LOAD_WEIGHTS)                                                                      \
    X(est_arrow_options, EST_ARROW)                                                                                    \
    X(est_lion_options, EST_LION)                                                                                      \
    X(est_backup_options, EST_BACKUP)                                                                                  \
    X(est_words_options, EST_WORDS)                                                                                    \
    X(est_meta_graph_options, EST_META_GRAPH)                                                                          \
    X(est_meta_graph_write_options, EST_META_GRAPH_WRITE)
/* clang-format on */

/* The kinds: EST_STRUCT_est_dense_options, ...; 0 is none. */
enum {
    EST_STRUCT_NONE = 0,
#define EST_OPTIONS_KIND(type, macro) EST_STRUCT_##type,
    EST_OPTIONS_LIST(EST_OPTIONS_KIND)
#undef EST_OPTIONS_KIND
};

/* What struct_size is: the kind above 16 bits of size. */
#define EST_STRUCT_SIZE(type) ((size_t)EST_STRUCT_##type << 16 | sizeof(type))

#ifdef __cplusplus
}
#endif
#endif
