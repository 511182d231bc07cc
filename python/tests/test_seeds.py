# SPDX-License-Identifier: Apache-2.0
"""What has a seed, of its own or that of the program, is the same in every process; 0 is a seed as any other."""
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import estoc
import estoc.tf as tf

PROGRAM = """
import hashlib, tempfile
import numpy as np
import estoc, estoc.tf as tf

v1 = tf.compat.v1
x = np.random.RandomState(0).randn(64, 3).astype(np.float32)
numbers = tf.data.Dataset.range(20)


def show(name, *values):
    print(name, *[hashlib.md5(np.ascontiguousarray(value).tobytes()).hexdigest()[:8] for value in values])


def read(dataset):
    return np.array([float(value) for value in dataset])


for seed in (0, 3):
    show("a call", *[tf.random.uniform([4], seed=seed).numpy() for _ in range(2)])
    show("an order", tf.random.shuffle(tf.range(20), seed=seed).numpy())
    show("initial values", tf.keras.initializers.GlorotUniform(seed=seed)((3, 3)).numpy())
    show("a dropout", tf.nn.dropout(x, 0.5, seed=seed).numpy())
    show("a shuffle", read(numbers.shuffle(20, seed=seed)), read(estoc.Dataset.range(20).shuffle(20, seed)))
    show("one shuffle", read(numbers.shuffle(20, seed=seed, reshuffle_each_iteration=False)))
    show("a choice", read(tf.data.Dataset.sample_from_datasets([numbers, numbers], seed=seed)))
    layer = tf.keras.layers.Dense(2, kernel_initializer=tf.keras.initializers.HeNormal(seed=seed))
    layer.build((None, 3))
    show("a layer", layer.get_weights()[0])
    drawn = tf.function(lambda: tf.random.uniform([2], seed=seed))
    show("a function", drawn().numpy(), drawn().numpy())
    with tf.Graph().as_default(), v1.Session() as session:
        node = v1.random_normal([2], seed=seed)
        show("a node", session.run(node), session.run(node))

    tf.random.set_seed(seed)
    show("of the program", tf.random.uniform([4]).numpy(), tf.random.uniform([4]).numpy())
    show("its shuffles", read(numbers.shuffle(20)), read(numbers.shuffle(20)))
    show("its maps", read(numbers.map(lambda n: tf.random.uniform([]))))
    show("its choices", read(tf.data.Dataset.sample_from_datasets([numbers, numbers])))
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(3,)), tf.keras.layers.Dropout(0.5),
                                 tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, x[:, :1], verbose=0)
    show("its models", *model.get_weights()[::2])
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(seed)
        w, node = v1.get_variable("w", [2, 2]), v1.random_normal([2])
    with v1.Session(graph=w.graph) as session:
        session.run(w.initializer)
        show("of a graph", session.run(w), session.run(node))
    with tempfile.TemporaryDirectory() as folder:
        estimator = tf.estimator.DNNClassifier([4], [tf.feature_column.numeric_column("x", shape=(3,))], folder,
                                               config=tf.estimator.RunConfig(tf_random_seed=seed))
        rows = tf.data.Dataset.from_tensor_slices(({"x": x}, (x[:, 0] > 0).astype(int))).batch(8)
        estimator.train(lambda: rows, steps=2)
        show("an estimator", estimator.get_variable_value("dnn/hiddenlayer_0/kernel"))
"""


def test_seeds():
    first, second = (subprocess.run([sys.executable, "-c", PROGRAM], text=True, stdout=subprocess.PIPE, check=True,
                                    timeout=120).stdout.splitlines() for _ in range(2))
    assert first == second
    n = len(first) // 2
    for zero, three in zip(first[:n], first[n:]):
        name = zero.rpartition(" ")[0]
        assert zero.split()[0] == three.split()[0] and zero != three, name  # another seed, other numbers
    for line in first:
        values = [word for word in line.split() if len(word) == 8 and set(word) <= set("0123456789abcdef")]
        if not line.startswith("a shuffle"):
            assert len(set(values)) == len(values), line  # another call, other numbers


def test_a_choice_of_another_order_in_each_pass():
    import estoc.tf as tf
    numbers = tf.data.Dataset.range(20)
    for again in (False, True):
        rows = tf.data.Dataset.sample_from_datasets([numbers, numbers], seed=1, rerandomize_each_iteration=again)
        first, second = ([int(value) for value in rows] for _ in range(2))
        assert (first != second) == again


def test_a_seed_that_is_set_again_draws_the_same():
    import estoc.tf as tf
    tf.Variable(1.0).assign_add(1.0)  # a session is open
    found = []
    for _ in range(2):
        tf.random.set_seed(5)
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        found.append((model.get_weights()[0].tolist(), tf.random.uniform([2]).numpy().tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("program", [0, 5])
def test_the_seed_of_a_config_is_that_of_the_input(program):
    import estoc.tf as tf
    found = []

    def input_fn(params, mode):
        rows = tf.data.Dataset.range(50).shuffle(50).map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64))
        return rows.map(lambda x: {"x": x}).batch(50)

    def model_fn(features, mode, params):
        return tf.estimator.EstimatorSpec(mode, predictions=features["x"] + tf.compat.v1.train.get_or_create_global_step())

    for seed in (1, 1, 2):
        tf.random.set_seed(program)
        before = tf.random.uniform([]).numpy()
        config = tf.estimator.RunConfig(tf_random_seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            estimator = tf.estimator.Estimator(model_fn, folder, config, params={})
            found.append([int(value) for value in estimator.predict(input_fn)])
        tf.random.set_seed(program)
        assert program == 0 or tf.random.uniform([]).numpy() == before
    assert found[0] == found[1] != found[2]


def test_functions_that_are_called_take_no_pass_of_a_shuffle():
    """What they return is learned from elements, which are read again: the first pass is still the first."""
    def orders(change):
        dataset = change(tf.data.Dataset.range(6).shuffle(6, seed=3))
        return [[int(x) for x in dataset.as_numpy_iterator()] for _ in range(3)]

    plain = orders(lambda dataset: dataset)
    assert len({tuple(order) for order in plain}) == 3
    for change in (lambda d: d.map(lambda x: tf.numpy_function(lambda v: v, [x], tf.int64)),
                   lambda d: d.map(lambda x: x if x >= 0 else -x),
                   lambda d: d.flat_map(tf.data.Dataset.from_tensors),
                   lambda d: d.interleave(tf.data.Dataset.from_tensors, 2)):
        assert orders(change) == plain


def test_functions_of_estoc_take_no_pass_of_a_shuffle():
    plain = estoc.Dataset.from_tensor_slices(np.arange(6)).shuffle(6, seed=3)
    called = estoc.Dataset.from_tensor_slices(np.arange(6)).shuffle(6, seed=3).map(lambda x: x)
    for _ in range(3):
        assert [int(x) for x in called] == [int(x) for x in plain]
