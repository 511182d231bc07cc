# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of feature.c; the columns are the same there."""
import logging
import os
import sys
import tempfile
import warnings

import interop
import numpy as np
import tensorflow as tf
from tensorflow.python.feature_column.sequence_feature_column import concatenate_context_input

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
fc = tf.feature_column
v1 = tf.compat.v1.feature_column


# --- columns -------------------------------------------------------------------------------------------------------------

class Lists:
    def __init__(self):
        self.dense, self.linear, self.steps = [], [], []

    def categorical(self, column, dimension, **options):
        self.linear.append(column)
        self.dense.append(fc.indicator_column(column))
        self.dense.append(fc.embedding_column(column, dimension, **options))

    def both(self, columns):
        self.dense.extend(columns)
        self.linear.extend(columns)


def numbers(lists):
    num = fc.numeric_column("num")
    square = fc.numeric_column("square", shape=(2, 2), normalizer_fn=lambda x: x * 0.5 + 1)
    flat = fc.numeric_column("flat", default_value=7.0)
    ints = fc.numeric_column("int", dtype=tf.int64)
    nans = fc.numeric_column("nans", shape=(2,))
    num_in = fc.bucketized_column(num, [-0.5, 0.0, 1.0])
    nans_in = fc.bucketized_column(nans, [0.0, 2.0])
    lists.both([num, square, flat, ints, num_in, nans_in])
    lists.categorical(fc.crossed_column([num_in, nans_in], 30), 2)


def categories(lists, folder):
    ident = fc.categorical_column_with_identity("id", 6)
    odd = fc.categorical_column_with_identity("odd_id", 6, default_value=2)
    color = fc.categorical_column_with_vocabulary_list("color", ["red", "green", "blue"])
    year = fc.categorical_column_with_vocabulary_list("year", [1993, 1990, 1999], default_value=1)
    file = fc.categorical_column_with_vocabulary_file("dense_word", os.path.join(folder, "vocabulary.txt"), 4,
                                                      num_oov_buckets=3)
    lists.categorical(ident, 3, combiner="sqrtn")
    lists.categorical(odd, 1, max_norm=0.5)
    lists.categorical(fc.categorical_column_with_hash_bucket("word", 10), 4, combiner="sum")
    lists.categorical(fc.categorical_column_with_hash_bucket("hash_int", 7, dtype=tf.int64), 2)
    lists.categorical(color, 2)
    lists.categorical(year, 2)
    lists.categorical(file, 2)
    pair = fc.crossed_column(["key", color], 50)
    lists.categorical(pair, 2)
    lists.categorical(fc.crossed_column(["dense_key", ident, year], 50, hash_key=42), 2)
    lists.categorical(fc.crossed_column([odd, pair], 50), 2)
    lists.categorical(fc.crossed_column([fc.categorical_column_with_identity("odd_id", 6), year], 50), 2)  # unchecked
    lists.categorical(fc.weighted_categorical_column(ident, "weight"), 2)


def shared(lists):
    columns = [fc.categorical_column_with_identity("odd_id", 12, default_value=0),
               fc.categorical_column_with_identity("id", 12)]
    lists.both(v1.shared_embedding_columns(columns, 3))


def sequences(lists):
    ident = fc.sequence_categorical_column_with_identity("step_id", 4)
    lists.steps.append(fc.embedding_column(ident, 3))
    lists.steps.append(fc.indicator_column(ident))
    lists.steps.append(fc.sequence_numeric_column("step_num", default_value=-3.0))


def make_columns(folder, with_shared):
    lists = Lists()
    numbers(lists)
    categories(lists, folder)
    if with_shared:
        shared(lists)
    sequences(lists)
    return lists


def features_of(told):
    """What the other side fed, as tensors and sparse tensors."""
    out = {}
    for name, values in told.items():
        if not name.startswith("feature/") or not name.endswith("/values"):
            continue
        key = name.split("/")[1]
        splits = told.get(f"feature/{key}/splits")
        if splits is None:
            out[key] = tf.constant(values)
        else:
            out[key] = tf.RaggedTensor.from_row_splits(tf.constant(values), splits).to_sparse()
    return out


# --- what the other side asks --------------------------------------------------------------------------------------------

def run_layers(folder, told, combiner, scope):
    """All layers with a linear model of that combiner, whose variables have another scope on the other side: TensorFlow
    numbers the scopes of columns, too, when there are several models in a graph."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        columns = make_columns(folder, True)
        features = features_of(told)
        results = {"input_layer": v1.input_layer(features, columns.dense)}
        results["linear_" + combiner] = v1.linear_model(features, columns.linear, units=2, sparse_combiner=combiner)
        steps = tf.keras.experimental.SequenceFeatures(columns.steps, name="sequence_input_layer")
        results["steps"], results["lengths"] = steps(features)
        results["context"] = concatenate_context_input(results["input_layer"], results["steps"])
        variables = {v.op.name.replace("linear_model/", scope + "/"): v for v in tf.compat.v1.global_variables()}
        ours = {name[len("variable/"):]: value for name, value in told.items() if name.startswith("variable/")}
        ours = {name: value for name, value in ours.items()
                if name.startswith(scope + "/") or not name.startswith("linear_model")}
        assert sorted(variables) == sorted(ours), set(variables) ^ set(ours)
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        for name, variable in variables.items():
            assert variable.shape == ours[name].shape, (name, variable.shape, ours[name].shape)
            variable.load(ours[name], session)
        return session.run(results)


def layers(folder):
    told = interop.read_tensors(os.path.join(folder, "layers"))
    for combiner, scope in (("sum", "linear_model"), ("mean", "linear_model_1"), ("sqrtn", "linear_model_2")):
        for name, value in run_layers(folder, told, combiner, scope).items():
            mine = told["result/" + name]
            assert mine.dtype == value.dtype and mine.shape == value.shape, (name, mine.dtype, mine.shape, value.shape)
            np.testing.assert_allclose(mine, value, rtol=1e-6, atol=1e-6, err_msg=name)


def estimator_variables(estimator_class, columns, told):
    def input_fn():
        features = features_of(told)
        return tf.data.Dataset.from_tensors((features, tf.zeros([told["feature/num/values"].shape[0], 1], tf.int64)))

    with tempfile.TemporaryDirectory() as model_dir:
        estimator = estimator_class(model_dir=model_dir, linear_feature_columns=columns.linear,
                                    dnn_feature_columns=columns.dense, dnn_hidden_units=[2])
        estimator.train(input_fn, steps=1)
        return {name: estimator.get_variable_value(name).shape for name in estimator.get_variable_names()}


def names(folder):
    told = interop.read_tensors(os.path.join(folder, "names"))
    ours = {name[len("shape/"):]: tuple(shape) for name, shape in told.items() if name.startswith("shape/")}
    columns = make_columns(folder, False)
    for estimator_class in (tf.estimator.DNNLinearCombinedClassifier,
                            tf.compat.v1.estimator.DNNLinearCombinedClassifier):
        theirs = estimator_variables(estimator_class, columns, told)
        own = {name: shape for name, shape in theirs.items()
               if name.startswith(("dnn/input_from_feature_columns/", "linear/"))
               and name.endswith(("/weights", "/embedding_weights", "/bias_weights"))}
        assert own == ours, (set(own) ^ set(ours), [n for n in own if own[n] != ours.get(n)])


def specs(folder):
    told = interop.read_tensors(os.path.join(folder, "specs"))
    columns = make_columns(folder, False)
    theirs = fc.make_parse_example_spec(columns.dense + columns.steps)
    ours = {}
    for name, value in told.items():
        if name.endswith("/default"):
            continue
        key, dtype, rows = name.split("/")
        default = told.get(key + "/default")
        if rows == "var":
            ours[key] = tf.io.VarLenFeature(tf.as_dtype(dtype))
        else:
            ours[key] = tf.io.FixedLenFeature(tuple(value), tf.as_dtype(dtype),
                                              None if default is None else tuple(default.ravel()))
    assert ours == theirs, (ours, theirs)


def export(folder):
    told = interop.read_tensors(os.path.join(folder, "answers"))
    base = os.path.join(folder, "export")
    (version,) = os.listdir(base)
    os.remove(os.path.join(folder, "vocabulary.txt"))  # the export has its own
    loaded = tf.saved_model.load(os.path.join(base, version))
    answer = loaded.signatures["serving_default"](examples=tf.constant(told["examples"]))["logits"].numpy()
    assert len(set(told["logits"].ravel().tolist())) > 30  # rows differ
    np.testing.assert_allclose(told["logits"], answer, rtol=1e-6, atol=1e-6)


interop.serve(sys.modules[__name__])
