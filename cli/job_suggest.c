/* SPDX-License-Identifier: Apache-2.0
 *
 * What users of TensorFlow, or with a typing error, meant. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "job.h"

/* TensorFlow's name of a key or a word, and ours. */
typedef struct alias {
    const char *theirs, *ours;
    const char *why; /* theirs does not exist here; NULL: ours is only another name */
} alias;

/* clang-format off */
static const alias aliases[] = {
    { "feature_columns", "columns" }, { "dnn_feature_columns", "dnn_columns" },
    { "linear_feature_columns", "linear_columns" },
    { "dnn_hidden_units", "hidden_units" }, { "activation_fn", "activation" }, { "dnn_activation_fn", "activation" },
    { "dnn_dropout", "dropout" }, { "linear_sparse_combiner", "sparse_combiner" },
    { "initial_accumulator_value", "initial_accumulator" },
    { "l1_regularization_strength", "l1" }, { "l2_regularization_strength", "l2" },
    { "l2_shrinkage_regularization_strength", "l2_shrinkage" }, { "rho", "decay" },

    { "DNNClassifier", "dnn_classifier" }, { "DNNRegressor", "dnn_regressor" },
    { "LinearClassifier", "linear_classifier" },
    { "LinearRegressor", "linear_regressor" }, { "DNNLinearCombinedClassifier", "dnn_linear_combined_classifier" },
    { "DNNLinearCombinedRegressor", "dnn_linear_combined_regressor" },
    { "wide_and_deep", "dnn_linear_combined_classifier" },
    { "BaselineClassifier", "baseline_classifier" }, { "BaselineRegressor", "baseline_regressor" },

    { "numeric_column", "numeric" }, { "bucketized_column", "bucketized" },
    { "categorical_column_with_identity", "identity" },
    { "categorical_column_with_hash_bucket", "hash" }, { "categorical_column_with_vocabulary_list", "vocabulary" },
    { "categorical_column_with_vocabulary_file", "vocabulary" }, { "crossed_column", "cross" },
    { "weighted_categorical_column", "weighted" }, { "indicator_column", "indicator" },
    { "embedding_column", "embedding" },
    { "shared_embeddings", "shared" },

    { "DNNEstimator", "dnn_estimator" }, { "LinearEstimator", "linear_estimator" },
    { "DNNLinearCombinedEstimator", "dnn_linear_combined_estimator" }, { "BaselineEstimator", "baseline_estimator" },
    { "BinaryClassHead", "binary" },
    { "MultiClassHead", "multi_class" }, { "MultiLabelHead", "multi_label" }, { "RegressionHead", "regression" },
    { "LogisticRegressionHead", "logistic_regression" }, { "PoissonRegressionHead", "poisson" },
    { "MultiHead", "multi" },
    { "classes_for_class_based_metrics", "metric_classes" }, { "inverse_link_fn", "inverse_link" },
    { "compute_full_loss", "full_loss" }, { "head_weights", "loss_weight" },

    { "ExponentialDecay", "exponential_decay" }, { "PolynomialDecay", "polynomial_decay" },
    { "CosineDecay", "cosine_decay" },
    { "CosineDecayRestarts", "cosine_decay_restarts" }, { "InverseTimeDecay", "inverse_time_decay" },
    { "PiecewiseConstantDecay", "piecewise_constant" }, { "initial_learning_rate", "learning_rate" },
    { "end_learning_rate", "end" }, { "first_decay_steps", "decay_steps" },

    { "ckpt_to_load_from", "checkpoint" }, { "tensor_name_in_ckpt", "tensor_name" }, { "trainable", "frozen" },
    { "shared_embedding_collection_name", "collection_name" }, { "normalizer_fn", "transform" },
    { "compare_fn", "metric" }, { "metric_name", "metric" }, { "max_steps_without_decrease", "steps" },
    { "max_steps_without_increase", "steps" }, { "eval_metric", "metric" },

    { "hash_bucket_size", "buckets" }, { "num_buckets", "buckets" }, { "vocabulary_list", "values" },
    { "vocabulary_file", "file" },
    { "vocabulary_size", "size" }, { "num_oov_buckets", "oov_buckets" }, { "default_value", "default" },
    { "default_value", "default_id" }, { "source_column", "source" }, { "categorical_column", "source" },
    { "categorical_columns", "sources" }, { "keys", "sources" }, { "weight_feature_key", "weight" },

    { "batch_size", "batch" }, { "num_epochs", "epochs" }, { "shuffle_buffer_size", "shuffle" },
    { "field_delim", "delimiter" },
    { "na_value", "na" }, { "column_names", "fields" }, { "tf_random_seed", "seed" }, { "exports_to_keep", "keep" },
    { "train_distribute", "strategy" }, { "experimental_distribute", "strategy" },
    { "eval_distribute", "eval_strategy" },
    { "ParameterServerStrategy", "parameter_server" }, { "MirroredStrategy", "mirrored" },
    { "CentralStorageStrategy", "central_storage" },
    { "OneDeviceStrategy", "one_device" }, { "MultiWorkerMirroredStrategy", "multi_worker_mirrored" },
    { "CollectiveAllReduceStrategy", "multi_worker_mirrored" }, { "implementation", "communication" },
    { "AUTO", "auto" }, { "RING", "ring" }, { "NCCL", "nccl" },
    { "timeout_seconds", "timeout_secs" }, { "auto_shard_policy", "autoshard" }, { "FILE", "file" }, { "DATA", "data" },
    { "OFF", "off" },
    { "replicas_to_aggregate", "sync_replicas" },
    { "variable_partitioner", "partitioner" }, { "FixedShardsPartitioner", "fixed_shards" },
    { "fixed_size_partitioner", "fixed_shards" },
    { "MinSizePartitioner", "min_size" }, { "min_max_variable_partitioner", "min_size" },
    { "MaxSizePartitioner", "max_size" },
    { "variable_axis_size_partitioner", "max_size" }, { "num_shards", "shards" },
    { "ckpt_to_initialize_from", "path" }, { "vars_to_warm_start", "variables" },
    { "var_name_to_prev_var_name", "renames" }, { "var_name_to_vocab_info", "vocabularies" }, { "new_vocab", "file" },
    { "old_vocab", "old_file" }, { "new_vocab_size", "size" }, { "old_vocab_size", "old_size" }, { NULL }
};
/* clang-format on */

/* The alias of a word of TensorFlow whose name is among n names; NULL: none. */
static const alias *suggest_translate(const char *word, const char *const *names, size_t n)
{
    for (const alias *a = aliases; a->theirs != NULL; a++) {
        if (strcmp(a->theirs, word) != 0) continue;
        for (size_t i = 0; i < n; i++) {
            if (strcmp(a->ours, names[i]) == 0) return a;
        }
    }
    return NULL;
}

const char *job_suggestion(const char *word, const char *const *names, size_t n)
{
    static char  text[128];
    const alias *known   = suggest_translate(word, names, n);
    const char  *nearest = known != NULL ? known->ours : est_nearest(word, names, n);
    const char  *why     = known != NULL ? known->why : NULL;

    text[0] = '\0';
    if (nearest != NULL) {
        snprintf(text, sizeof text, "%s%s; did you mean \"%s\"?", why != NULL ? ": " : "", why != NULL ? why : "",
                 nearest);
    }
    return text;
}
