# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of canned.c: the same columns, heads and estimators, and what they must agree on."""
import collections
import glob
import logging
import os
import shutil
import sys
import warnings
from functools import partial

import interop
import numpy as np
import tensorflow as tf
from tensorflow_estimator.python.estimator.canned import head as v1_head  # heads of v1 have no public name

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
fc, v1, v2 = tf.feature_column, tf.compat.v1.estimator, tf.estimator
keras, train = tf.keras.optimizers.legacy, tf.compat.v1.train

TRAIN_ROWS, EVAL_ROWS, BATCH = 160, 70, 16  # ten batches: a run that starts again after 50 steps goes on
PIECE = 50
PREDICTED = 6  # rows

# How far apart the two may be. Losses relative to the loss: sums of float32 in another order differ by some units in
# the last place (6e-8 each), and a step starts where the one before left the difference. Variables relative to their
# largest element: what is near 0 is the rest of sums of both signs, and so are the slots of a model that has found its
# place. Metrics sum up over rows; predictions are what the variables make of one.
Tolerance = collections.namedtuple("Tolerance", "losses variables metrics predictions")
USUAL = Tolerance(2e-6, 3e-5, 2e-6, 1e-5)

# FTRL divides the difference of two square roots by the learning rate: with 0.001 an error of 6e-8 becomes 6e-5.
SLOW_FTRL = USUAL._replace(variables=1e-3)


# --- rows ------------------------------------------------------------------------------------------------------------

WORDS = ["red", "green", "blue", "pink", "", "a longer word, with a comma", "x", "yellow"]
CITIES = ["rome", "oslo", "lima", "bern", "riga", "baku"]
SPICES = ["mint", "dill", "sage"]
TAGS = ["a", "b", "c", "d"]


def feature(values):
    values = np.atleast_1d(values)
    if values.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if values.dtype.kind == "i":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[str(v).encode() for v in values]))


def row(rng):
    def some(choices, most=3):  # from none to most of them
        return rng.choice(choices, rng.randint(0, most + 1))

    vec = rng.normal(size=3)
    odds = vec.sum() + rng.normal()
    tags = np.flatnonzero(rng.normal(size=4) + vec[0] > 0.5)
    level = int(np.clip(np.floor(odds / 2 + 1.5), 0, 2))
    ids = some(range(5))
    out = {
        "age": rng.uniform(0, 4), "vec": vec, "scaled": 150 + 50 * rng.normal(),
        "id": some(range(-2, 9)), "number": some(range(-20, 20)), "word": some(WORDS), "color": some(WORDS),
        "shade": some(WORDS, 1), "city": some(CITIES), "key": some(WORDS, 2), "other": some(WORDS, 2),
        "left": some(range(7)), "right": some(range(7)), "part": ids, "parts": rng.normal(size=len(ids)) + 0.5,
        "weight": rng.choice([0.0, 0.5, 1.0, 2.0]),
        "binary": int(odds > 0), "binary_word": ["no", "yes"][int(odds > 0)],
        "level": level, "spice": SPICES[level],
        "value": odds, "pair": [odds, vec[0] - 1], "count": float(rng.poisson(np.exp(vec[1] / 2))),
        "share": 1 / (1 + np.exp(-odds)), "tags": tags, "tag_words": np.array(TAGS)[tags],
    }
    if rng.randint(4) > 0:
        out["gap"] = rng.normal()
    return tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in out.items()}))


def write_rows(folder):
    rng = np.random.RandomState(5)
    for name, n in ("train", TRAIN_ROWS), ("eval", EVAL_ROWS):
        with tf.io.TFRecordWriter(f"{folder}/{name}.tfrecord") as writer:
            for _ in range(n):
                writer.write(row(rng).SerializeToString())
    with open(f"{folder}/cities.txt", "w") as file:
        file.write("\n".join(CITIES[:4]) + "\n")


def fixed(n, dtype):
    return tf.io.FixedLenFeature((n,), dtype)


LABELS = {
    "binary": fixed(1, tf.int64), "binary_word": fixed(1, tf.string), "level": fixed(1, tf.int64),
    "spice": fixed(1, tf.string), "value": fixed(1, tf.float32), "pair": fixed(2, tf.float32),
    "count": fixed(1, tf.float32), "share": fixed(1, tf.float32), "tags": tf.io.VarLenFeature(tf.int64),
    "tag_words": tf.io.VarLenFeature(tf.string),
}


def input_fn(folder, case, mode):
    def parse(rows):
        features = tf.io.parse_example(rows, {**spec, **LABELS})
        labels = {name: features.pop(name) for name in LABELS}
        return features, {k: labels[k] for k in case.label} if isinstance(case.label, list) else labels[case.label]

    def dataset():
        rows = tf.data.TFRecordDataset(f"{folder}/{'train' if mode == 'train' else 'eval'}.tfrecord")
        rows = rows.take(PREDICTED) if mode == "predict" else rows
        return (rows.repeat() if mode == "train" else rows).batch(BATCH).map(parse)

    weight = [fc.numeric_column("weight")] if case.weighted else []
    shared = any(hasattr(c, "shared_embedding_column_creator") for c in case.columns)  # of v2, unlike those of v1
    spec = (fc if shared else tf.compat.v1.feature_column).make_parse_example_spec(case.columns + weight)
    return dataset


# --- columns ---------------------------------------------------------------------------------------------------------

class Columns:
    def __init__(self, folder):
        age = fc.numeric_column("age")
        vec = fc.numeric_column("vec", 3)
        ages = fc.bucketized_column(age, [0.5, 1.0, 2.5])
        ident = fc.categorical_column_with_identity("id", 6, default_value=2)
        word = fc.categorical_column_with_hash_bucket("word", 10)
        number = fc.categorical_column_with_hash_bucket("number", 7, tf.int64)
        color = fc.categorical_column_with_vocabulary_list("color", WORDS[:3])
        shade = fc.categorical_column_with_vocabulary_list("shade", WORDS[:4], default_value=1)
        city = fc.categorical_column_with_vocabulary_file("city", folder + "/cities.txt", num_oov_buckets=2)
        keys = fc.crossed_column(["key", "other"], 20, hash_key=7)
        cross = fc.crossed_column(["key", ages, color], 40)
        part = fc.categorical_column_with_identity("part", 5)
        weighted = fc.weighted_categorical_column(part, "parts")
        sides = [fc.categorical_column_with_identity(k, 7) for k in ("left", "right")]
        categories = [ident, word, number, color, shade, city, keys, cross, part, weighted]
        self.numbers = [age, vec, fc.numeric_column("scaled", normalizer_fn=lambda x: (x - 150) * 0.02),
                        fc.numeric_column("gap", default_value=0.5), ages, fc.bucketized_column(vec, [-1.0, 0.0])]
        self.wide = self.numbers + categories + [fc.embedding_column(number, 2)]
        self.indicators = [fc.indicator_column(c) for c in categories]
        self.many = self.wide + self.indicators  # more than 25
        self.embeddings = [
            fc.embedding_column(ident, 3), fc.embedding_column(word, 2, "sum"), fc.embedding_column(number, 2, "sqrtn"),
            fc.embedding_column(color, 2, max_norm=0.5), fc.embedding_column(shade, 1, trainable=False),
            fc.embedding_column(city, 2, "sum", max_norm=0.7), fc.embedding_column(cross, 2),
            fc.embedding_column(part, 2, "sqrtn"), fc.embedding_column(weighted, 2)]
        self.shared = tf.compat.v1.feature_column.shared_embedding_columns(sides, 3, "sum") + [vec]
        # TensorFlow's estimators never train these, ours do: the rest is compared where both do not
        self.still = fc.shared_embeddings(sides, 3, "sum", trainable=False) + [vec]
        self.top = fc.shared_embeddings(sides, 3, "sum", shared_embedding_collection_name="sides") + [vec]
        self.deep = [vec, fc.embedding_column(word, 2)]
        self.linear = [vec, ages, word, weighted]
        self.plain = [vec]


# --- estimators ------------------------------------------------------------------------------------------------------

Case = collections.namedtuple("Case", "make columns label weighted tolerance")
CASES = {}


def cases(folder):
    with tf.Graph().as_default():  # shared embeddings are made in graphs only
        c = Columns(folder)
    sum_, old = tf.keras.losses.Reduction.SUM, tf.compat.v1.losses.Reduction
    adagrad = partial(keras.Adagrad, 0.1)  # optimizers are made in each graph

    def add(name, make, columns, label, weighted=True, tolerance=USUAL, **options):
        CASES[name] = Case(partial(make, **options), columns, label, weighted, tolerance)

    def deep(name, make, label, columns=c.deep, **options):
        add(name, make, columns, label, hidden_units=[5, 3], feature_columns=columns, **options)

    def linear(name, make, label, columns=c.linear, **options):
        add(name, make, columns, label, feature_columns=columns, **options)

    def both(name, make, label, **options):
        add(name, make, c.deep + c.linear, label, linear_feature_columns=c.linear, dnn_feature_columns=c.deep,
            dnn_hidden_units=[4], **options)

    # every class, with defaults and with each optimizer by name
    deep("dnn_classifier", v2.DNNClassifier, "binary")
    deep("dnn_classifier_3", v2.DNNClassifier, "spice", n_classes=3, label_vocabulary=SPICES, weight_column="weight",
         optimizer="Adam")
    deep("dnn_classifier_norm", v2.DNNClassifier, "binary_word", label_vocabulary=["no", "yes"], batch_norm=True,
         activation_fn=tf.tanh, optimizer="RMSProp")
    deep("dnn_regressor", v2.DNNRegressor, "value", optimizer="SGD")
    deep("dnn_regressor_2", v2.DNNRegressor, "pair", label_dimension=2, weight_column="weight", loss_reduction=sum_,
         optimizer="Ftrl", tolerance=SLOW_FTRL)
    linear("linear_classifier", v2.LinearClassifier, "binary")
    linear("linear_regressor", v2.LinearRegressor, "pair", label_dimension=2, optimizer="Adagrad")
    both("combined_classifier", v2.DNNLinearCombinedClassifier, "level", n_classes=3)
    both("combined_regressor", v2.DNNLinearCombinedRegressor, "value", dnn_optimizer="Adam", linear_optimizer="SGD",
         loss_reduction=sum_)
    add("combined_deep", v2.DNNLinearCombinedClassifier, c.deep, "binary", dnn_feature_columns=c.deep,
        dnn_hidden_units=[4], batch_norm=True, dnn_optimizer="RMSProp")
    add("combined_wide", v2.DNNLinearCombinedRegressor, c.linear, "value", linear_feature_columns=c.linear)
    add("baseline_classifier", v2.BaselineClassifier, c.plain, "level", n_classes=3, weight_column="weight")
    # with a feature besides the weight, the baselines of v2 compare sizes before they have a first batch, and fail
    add("baseline_regressor", v2.BaselineRegressor, c.plain, "value", weighted=False, optimizer="Adam")

    # every head
    deep("binary_head", v2.DNNEstimator, "binary_word", optimizer=adagrad, head=v2.BinaryClassHead(
        weight_column="weight", thresholds=[0.25, 0.5, 0.9], label_vocabulary=["no", "yes"], loss_reduction=sum_))
    both("multi_class_head", v2.DNNLinearCombinedEstimator, "spice", dnn_optimizer=partial(keras.Adam, 0.01),
         linear_optimizer=partial(keras.Ftrl, 0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
         head=v2.MultiClassHead(3, weight_column="weight", label_vocabulary=SPICES, name="spices"))
    linear("multi_label_head", v2.LinearEstimator, "tags",
           optimizer=partial(keras.RMSprop, 0.01, momentum=0.5, centered=True),
           head=v2.MultiLabelHead(4, weight_column="weight", thresholds=[0.3], classes_for_class_based_metrics=[0, 3]))
    deep("multi_label_words", v2.DNNEstimator, "tag_words",
         optimizer=partial(keras.SGD, 0.1, momentum=0.9, nesterov=True),
         head=v2.MultiLabelHead(4, label_vocabulary=TAGS, classes_for_class_based_metrics=["b"]))
    deep("regression_head", v2.DNNEstimator, "pair",
         optimizer=partial(keras.Adagrad, 0.05, initial_accumulator_value=0.3),
         head=v2.RegressionHead(2, weight_column="weight", inverse_link_fn=tf.tanh))
    add("poisson_head", v2.BaselineEstimator, c.plain, "count", weighted=False,
        optimizer=partial(keras.SGD, 0.1, momentum=0.9), head=v2.PoissonRegressionHead())
    linear("poisson_head_part", v2.LinearEstimator, "count", optimizer=partial(keras.SGD, 0.01, momentum=0.5),
           head=v2.PoissonRegressionHead(compute_full_loss=False, loss_reduction=sum_))
    linear("logistic_head", v2.LinearEstimator, "share", optimizer=partial(keras.Adam, 0.05, epsilon=1e-4),
           head=v2.LogisticRegressionHead(
               weight_column=fc.numeric_column("weight", normalizer_fn=lambda x: 2 * x + 0.25)))
    deep("multi_head", v2.DNNEstimator, ["value", "binary", "level"], optimizer=adagrad, head=v2.MultiHead(
        [v2.RegressionHead(name="value"), v2.BinaryClassHead(name="binary", weight_column="weight"),
         v2.MultiClassHead(3, name="level")], [0.5, 1.0, 2.0]))

    both("multi_head_combined", v2.DNNLinearCombinedEstimator, ["value", "share"], batch_norm=True, head=v2.MultiHead(
        [v2.RegressionHead(name="value"), v2.LogisticRegressionHead(name="share")]))

    # every column
    deep("numbers", v2.DNNClassifier, "binary", c.numbers, optimizer=adagrad)
    deep("indicators", v2.DNNClassifier, "binary", c.indicators, optimizer=adagrad)
    deep("embeddings", v2.DNNClassifier, "binary", c.embeddings, optimizer=partial(keras.Adam, 0.02))
    deep("shared", v2.DNNClassifier, "binary", c.still, optimizer=adagrad)
    deep("shared_trained", v2.DNNClassifier, "binary", c.top, optimizer=adagrad)
    linear("shared_linear", v2.LinearClassifier, "binary", c.still)
    linear("wide", v2.LinearClassifier, "binary", c.wide)
    linear("linear_none", v2.LinearClassifier, "binary", c.many, optimizer=None,
           weight_column=fc.numeric_column("weight", normalizer_fn=lambda x: 2 * x + 0.25))
    linear("linear_mean", v2.LinearRegressor, "value", sparse_combiner="mean",
           optimizer=partial(keras.Ftrl, 0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02))
    linear("linear_sqrtn", v2.LinearClassifier, "level", n_classes=3, sparse_combiner="sqrtn", optimizer="Adam")

    # tf.compat.v1
    deep("v1_dnn_classifier", v1.DNNClassifier, "level", n_classes=3, optimizer="Adam", batch_norm=True,
         loss_reduction=old.MEAN, weight_column="weight")
    deep("v1_dnn_regressor", v1.DNNRegressor, "pair", label_dimension=2, optimizer="RMSProp", weight_column="weight",
         loss_reduction=old.SUM_OVER_BATCH_SIZE)
    deep("v1_shared", v1.DNNClassifier, "binary", c.shared, optimizer=partial(train.GradientDescentOptimizer, 0.05))
    halves = tf.compat.v1.fixed_size_partitioner(2)
    deep("v1_dnn_halves", v1.DNNClassifier, "binary", optimizer="Adagrad", input_layer_partitioner=halves)
    linear("v1_linear_halves", v1.LinearClassifier, "binary", optimizer="Ftrl", partitioner=halves)
    linear("v1_linear_classifier", v1.LinearClassifier, "binary", sparse_combiner="mean",
           optimizer=partial(train.FtrlOptimizer, 0.05, l1_regularization_strength=0.1, l2_regularization_strength=0.2))
    linear("v1_linear_none", v1.LinearClassifier, "binary", c.many, optimizer=None)
    linear("v1_linear_regressor", v1.LinearRegressor, "value", optimizer=partial(train.AdamOptimizer, 0.02))
    both("v1_combined_classifier", v1.DNNLinearCombinedClassifier, "level", n_classes=3)
    both("v1_combined_regressor", v1.DNNLinearCombinedRegressor, "value", dnn_optimizer="RMSProp",
         linear_optimizer="Adagrad", loss_reduction=old.SUM_OVER_NONZERO_WEIGHTS, weight_column="weight")
    deep("v1_dnn_estimator", v1.DNNEstimator, "binary_word",
         head=v1_head._binary_logistic_head_with_sigmoid_cross_entropy_loss(
             weight_column="weight", thresholds=[0.25, 0.5, 0.9], label_vocabulary=["no", "yes"]))
    add("v1_baseline_classifier", v1.BaselineClassifier, c.plain, "binary", weight_column="weight")
    add("v1_baseline_regressor", v1.BaselineRegressor, c.plain, "value", optimizer="Adagrad")


# Graphs as they are: to improve them takes longer than to run them.
AS_WRITTEN = tf.compat.v1.ConfigProto()
AS_WRITTEN.graph_options.rewrite_options.disable_meta_optimizer = True


class Losses(train.SessionRunHook):
    """Keeps the losses of all steps."""

    def __init__(self, loss, keep):
        self.loss, self.keep = loss, keep

    def before_run(self, run_context):
        return train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.keep.append(run_values.results)


def estimator(case, path, keep=None):
    """The canned one, with a hook for its losses where they are wanted."""
    config = v2.RunConfig(model_dir=path, tf_random_seed=1, save_checkpoints_steps=PIECE, save_summary_steps=0,
                          log_step_count_steps=10 * PIECE, checkpoint_save_graph_def=False, session_config=AS_WRITTEN)
    canned = case.make(config=config)
    if keep is None:
        return canned

    def model_fn(features, labels, mode, config):
        spec = canned.model_fn(features, labels, mode, config)
        return spec._replace(training_hooks=tuple(spec.training_hooks) + (Losses(spec.loss, keep),))

    return v2.Estimator(model_fn, config=config)


def copy_checkpoint(source, target, step):
    os.makedirs(target)
    for file in glob.glob(f"{source}/model.ckpt-{step}.*"):
        shutil.copy(file, target)
    with open(f"{target}/checkpoint", "w") as file:
        file.write(f'model_checkpoint_path: "model.ckpt-{step}"\nall_model_checkpoint_paths: "model.ckpt-{step}"\n')


# --- what the other side asks ----------------------------------------------------------------------------------------

LOSSES, METRICS, PREDICTIONS = [], {}, []  # of the case at hand


def start(folder):
    write_rows(folder)
    cases(folder)


def specs(folder):
    told = interop.read_tensors(f"{folder}/specs")
    columns = [fc.numeric_column("counts", shape=(2,), dtype=tf.int64, default_value=7),
               fc.embedding_column(fc.categorical_column_with_hash_bucket("word", 10), 2),
               fc.categorical_column_with_hash_bucket("number", 7, tf.int64)]
    scaled = fc.numeric_column("weight", normalizer_fn=lambda x: 2 * x + 0.25, default_value=0.5)
    of_class, of_number = v2.classifier_parse_example_spec, v2.regressor_parse_example_spec
    theirs = {
        "plain": of_class(columns, "y"),
        "none": of_class([], "y"),
        "default": of_class(columns, "y", label_default=[2], weight_column="weight"),
        "words": of_class(columns, "y", label_dtype=tf.string, label_default="no", weight_column=scaled),
        "shares": of_class(columns, "y", label_dtype=tf.float32, label_default=[0.5]),
        "real": of_number(columns, "y", weight_column="weight"),
        "reals": of_number(columns, "y", label_dimension=2, label_default=[1.5, -2.0], weight_column=scaled),
        "integers": of_number(columns, "y", label_dtype=tf.int64, label_default=[2]),
    }
    ours = {name: {} for name in theirs}
    for path, value in told.items():
        if path.endswith("/default"):
            continue
        name, key, dtype, rows = path.split("/")
        default = told.get(f"{name}/{key}/default")
        ours[name][key] = tf.io.VarLenFeature(tf.as_dtype(dtype)) if rows == "var" else tf.io.FixedLenFeature(
            tuple(value), tf.as_dtype(dtype), None if default is None else default.ravel().tolist())
    for name in theirs:
        assert same_spec(ours[name], theirs[name]), (name, ours[name], theirs[name])


def same_spec(ours, theirs):
    def plain(feature):
        if not isinstance(feature, tf.io.FixedLenFeature):
            return feature
        default = feature.default_value
        if default is not None:
            default = [x.encode() if isinstance(x, str) else x for x in np.ravel(default).tolist()]
            default *= int(np.prod(feature.shape)) // len(default)
        return tuple(feature.shape), feature.dtype, default

    return {k: plain(v) for k, v in ours.items()} == {k: plain(v) for k, v in theirs.items()}


def train_case(name, folder):
    """Two pieces in a row; the other side starts from the beginning of each."""
    case, path = CASES[name], f"{folder}/{name}"
    LOSSES.clear()
    estimator(case, path, LOSSES).train(input_fn(folder, case, "train"), max_steps=2 * PIECE)
    canned = estimator(case, path)
    METRICS.clear()
    METRICS.update(canned.evaluate(input_fn(folder, case, "eval")))
    PREDICTIONS[:] = canned.predict(input_fn(folder, case, "predict"))
    copy_checkpoint(path, path + ".0", 0)
    copy_checkpoint(path, path + ".50", PIECE)


def check_case(name, folder):
    case, path = CASES[name], f"{folder}/{name}"
    told = interop.read_tensors(path + ".told")
    assert len(LOSSES) == 2 * PIECE and np.std(LOSSES) > 0, LOSSES
    check_losses(case, told[".0"], LOSSES[:PIECE])
    check_losses(case, told[".50"], LOSSES[PIECE:])
    check_variables(case, f"{path}.0/model.ckpt-50", f"{path}/model.ckpt-50")
    check_variables(case, f"{path}.50/model.ckpt-100", f"{path}/model.ckpt-100")
    check_metrics(case, {k[len("metric/"):]: v for k, v in told.items() if k.startswith("metric/")})
    check_predictions(case, told)
    check_start(f"{path}.ours/model.ckpt-0", f"{path}/model.ckpt-0")
    copy_checkpoint(path + ".ours", path + ".taken", PIECE)
    taken = []
    estimator(case, path + ".taken", taken).train(input_fn(folder, case, "train"), max_steps=2 * PIECE)
    check_losses(case, told[".ours"][PIECE:], taken)
    check_variables(case, f"{path}.ours/model.ckpt-100", f"{path}.taken/model.ckpt-100")


def check_partitioned(name, folder):
    """Slots of theirs are one for each part, of which ours has the names of the first."""
    case, path = CASES[name], f"{folder}/{name}"
    told = interop.read_tensors(path + ".told")
    check_losses(case, told[".0"], LOSSES[:PIECE])
    check_losses(case, told[".50"], LOSSES[PIECE:])
    ours, theirs = (tf.train.load_checkpoint(p) for p in (f"{path}.50/model.ckpt-100", f"{path}/model.ckpt-100"))
    names = set(theirs.get_variable_to_shape_map())
    assert any("/t_1/" in n or "/part_1/" in n for n in names), names
    assert {n for n in ours.get_variable_to_shape_map() if not n.startswith("estoc/")} == {
        n for n in names if "/t_1/" not in n and "/part_1/" not in n}
    for variable in (n for n in names if "/t_" not in n and "/part_" not in n):
        a, b = ours.get_tensor(variable), theirs.get_tensor(variable)
        np.testing.assert_allclose(a, b, rtol=0, atol=case.tolerance.variables * np.abs(b).max(), err_msg=variable)


def check_trained(name, folder):
    """A table that only they train: from our checkpoint, which has slots for it, ours goes on as it was."""
    case, path = CASES[name], f"{folder}/{name}"
    first, ours = (tf.train.load_checkpoint(p) for p in (f"{path}/model.ckpt-0", f"{path}.0/model.ckpt-50"))
    assert not interop.same(first.get_tensor("sides"), ours.get_tensor("sides"))
    assert interop.same(first.get_tensor("sides"), tf.train.load_checkpoint(f"{path}/model.ckpt-50").get_tensor("sides"))
    copy_checkpoint(path + ".0", path + ".taken", PIECE)
    estimator(case, path + ".taken").train(input_fn(folder, case, "train"), max_steps=PIECE + 1)
    taken = tf.train.load_checkpoint(f"{path}.taken/model.ckpt-51")
    assert interop.same(ours.get_tensor("sides"), taken.get_tensor("sides"))


def __getattr__(request):
    """"train <case>", "check <case>" and the like."""
    try:
        what, name = request.split()
    except ValueError:
        raise AttributeError(request) from None
    return partial({"train": train_case, "check": check_case, "check_trained": check_trained,
                        "check_partitioned": check_partitioned}[what], name)


def check_losses(case, ours, theirs):
    assert len(ours) == len(theirs) == PIECE, (len(ours), len(theirs))
    np.testing.assert_allclose(ours, theirs, rtol=case.tolerance.losses, err_msg="losses")


def variables(ours, theirs):
    """Name and both values of each; they must be the same ones."""
    ours, theirs = (tf.train.load_checkpoint(path) for path in (ours, theirs))
    names = sorted(theirs.get_variable_to_shape_map())
    mine = sorted(n for n in ours.get_variable_to_shape_map() if not n.startswith("estoc/"))
    assert names == mine, (set(names) - set(mine), set(mine) - set(names))
    for name in names:
        a, b = ours.get_tensor(name), theirs.get_tensor(name)
        assert a.shape == b.shape and a.dtype == b.dtype, (name, a.shape, a.dtype, b.shape, b.dtype)
        yield name, a, b


def check_start(ours, theirs):
    """What is not drawn starts the same, with the numbers of Keras optimizers: restored, they would hide ours."""
    for name, a, b in variables(ours, theirs):
        if not name.endswith(("/kernel", "/embedding_weights")) and name != "left_right_shared_embedding":
            assert interop.same(a, b), (name, a, b)


def check_variables(case, ours, theirs):
    for name, a, b in variables(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=0, atol=case.tolerance.variables * np.abs(b).max(), err_msg=name)


def check_metrics(case, ours):
    assert sorted(ours) == sorted(METRICS), (sorted(ours), sorted(METRICS))
    for name, value in METRICS.items():
        np.testing.assert_allclose(ours[name], value, rtol=case.tolerance.metrics, atol=1e-7, err_msg=name)


def check_predictions(case, told):
    want = {}
    for i, row in enumerate(PREDICTIONS):
        for key, value in row.items():
            want[f"prediction/{i}/" + ("/".join(key) if isinstance(key, tuple) else key)] = np.asarray(value)
    ours = {k: v for k, v in told.items() if k.startswith("prediction/")}
    assert sorted(ours) == sorted(want) and len(PREDICTIONS) == PREDICTED, (sorted(ours), sorted(want))
    for name, value in want.items():
        if value.dtype.kind == "f":
            assert ours[name].shape == value.shape, (name, ours[name].shape, value.shape)
            np.testing.assert_allclose(ours[name], value, rtol=case.tolerance.predictions, atol=1e-6, err_msg=name)
        else:
            assert interop.same(ours[name], value), (name, ours[name], value)


interop.serve(sys.modules[__name__])
