# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: names that no program of the other files uses, by tables of names and arguments."""
import functools
import math

import numpy as np
from cases import case, set_weights

Y = np.array([[0.0, 1.0, 0.0], [0.0, 0.25, 0.75]], np.float32)
P = np.array([[0.1, 0.7, 0.2], [0.3, 0.375, 0.325]], np.float32)
SIGNS = np.array([[-1.0, 1.0, -1.0], [1.0, -1.0, 1.0]], np.float32)
SEQUENCE = np.random.RandomState(2).randn(2, 6, 4).astype(np.float32)
IMAGE = np.random.RandomState(0).randn(2, 6, 5, 3).astype(np.float32)


def resolve(tf, name):
    return functools.reduce(getattr, name.split("."), tf)


def outcome(tf, function):
    """What a function gives, or the name of the error that it raises."""
    try:
        return function()
    except (ValueError, TypeError, tf.errors.OpError) as error:
        return type(error).__name__


# --- losses and metrics that are functions ----------------------------------------------------------------------------

OF_METRICS = ("KLD MAE MAPE MSE MSLE binary_crossentropy categorical_crossentropy hinge kl_divergence kld mae mape "
              "mean_absolute_error mean_absolute_percentage_error mean_squared_error mean_squared_logarithmic_error mse "
              "msle poisson squared_hinge").split()
OF_LOSSES = OF_METRICS + ["categorical_hinge", "cosine_similarity", "huber", "log_cosh"]


@case
def functions_of_losses_and_metrics(tf):
    pairs = [(Y, P), (SIGNS, P - 0.4), (Y[None], P[None]), (Y[0], P[0]), (np.zeros((0, 3), np.float32), P[:0]),
             (Y.tolist(), P.tolist()), (Y, P * 0.0)]
    out = {}
    for module, names in (("keras.losses", OF_LOSSES), ("losses", OF_LOSSES), ("keras.metrics", OF_METRICS),
                          ("metrics", OF_METRICS)):
        for name in names:
            function = resolve(tf, f"{module}.{name}")
            values = [function(*pair) for pair in pairs]
            out[f"{module}.{name}"] = [values, [value.dtype.name for value in values],
                                       tf.function(function)(tf.constant(Y), tf.constant(P))]
    out["arguments"] = [tf.keras.losses.huber(Y, P * 4, delta=0.5), tf.keras.metrics.hinge(np.float32([[0, 1, 0]]), P[:1]),
                        tf.keras.losses.mape(np.float64([[2.0, 4.0]]), np.float64([[1.0, 5.0]]))]
    return out


@case
def gradients_of_losses(tf):
    out = {}
    for name in OF_LOSSES:
        p = tf.constant(P)
        with tf.GradientTape() as tape:
            tape.watch(p)
            loss = tf.reduce_sum(resolve(tf, f"keras.losses.{name}")(tf.constant(Y), p) * [1.0, 2.0])
        out[name] = tape.gradient(loss, p)
    return out


@case
def losses_and_metrics_by_name(tf):
    """Names that compile and get take."""
    out = {}
    for name in OF_LOSSES:
        model = tf.keras.Sequential([tf.keras.layers.Dense(3, "hard_sigmoid", input_shape=(3,))])
        set_weights(model)
        names = [] if name in ("KLD", "kld", "kl_divergence", "huber") else [name]  # Keras finds no metrics by these
        model.compile("sgd", name, metrics=names)
        out[name] = [model.evaluate(P, Y, verbose=0), tf.keras.losses.get(name)(Y, P)]
    out["serialized"] = [tf.keras.activations.serialize(tf.keras.activations.get(name)) for name in
                         "elu exponential gelu hard_sigmoid linear mish relu selu sigmoid softmax softplus softsign "
                         "swish tanh".split()]
    return out


# --- layers -----------------------------------------------------------------------------------------------------------

LAYERS = {
    "AvgPool1D": (SEQUENCE, [{}, {"pool_size": 3, "strides": 1}, {"pool_size": 4, "padding": "same"},
                             {"pool_size": 5, "strides": 2, "padding": "same"}]),
    "MaxPool1D": (SEQUENCE, [{}, {"pool_size": 3, "strides": 1}, {"pool_size": 4, "padding": "same"},
                             {"pool_size": (5,), "strides": 2, "padding": "same"}]),
    "AvgPool2D": (IMAGE, [{}, {"pool_size": (2, 3), "strides": 1}, {"pool_size": 3, "strides": (2, 1), "padding": "same"}]),
    "MaxPool2D": (IMAGE, [{}, {"pool_size": (2, 3), "strides": 1}, {"pool_size": 3, "strides": (2, 1), "padding": "same"}]),
    "GlobalAvgPool2D": (IMAGE, [{}, {"keepdims": True}]),
    "GlobalMaxPool2D": (IMAGE, [{}, {"keepdims": True}]),
    "Convolution1D": (SEQUENCE, [{"filters": 2, "kernel_size": 3}, {"filters": 2, "kernel_size": 2, "strides": 2, "padding": "same"},
                                 {"filters": 3, "kernel_size": (2,), "padding": "causal", "activation": "relu"},
                                 {"filters": 1, "kernel_size": 2, "use_bias": False}])}


@case
def layers_by_other_names(tf):
    out = {}
    for name, (x, options) in LAYERS.items():
        out[name] = []
        for named in options:
            layer = getattr(tf.keras.layers, name)(**named)
            layer(x)
            set_weights(layer)
            given = tf.constant(x)
            with tf.GradientTape() as tape:
                tape.watch(given)
                y = layer(given)
                total = tf.reduce_sum(y * y)
            out[name].append([y, y.shape.as_list(), tape.gradient(total, [given] + layer.trainable_weights)])
    a, b, c = np.float32([[1, -2, 3]]), np.float32([[0, 5, 3]]), np.float32([[2, 0, 4]])
    merge = tf.keras.layers.Maximum()
    out["maximum"] = [merge([a, b]), merge([a, b, b * 2 - 1]), tf.keras.layers.maximum([a, c]), tf.keras.layers.Maximum()([a[:, :1], a])]
    return out


@case
def attention_of_several_heads(tf):
    random = np.random.RandomState(8)
    query, value, key = (random.randn(2, n, width).astype(np.float32) for n, width in ((3, 4), (5, 6), (5, 7)))
    mask = np.array([[[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]],
                     [[1, 1, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]]], bool)
    L, out = tf.keras.layers, {}

    def run(layer, *given, **named):
        layer(*given, **named)
        set_weights(layer)
        tensors = [tf.constant(array) for array in given]
        with tf.GradientTape() as tape:
            for tensor in tensors:
                tape.watch(tensor)
            y = layer(*tensors, **named)
            parts = y if isinstance(y, (list, tuple)) else [y]
            total = tf.reduce_sum(parts[0] ** 2.0)
        return [y, [list(w.shape) for w in layer.weights], tape.gradient(total, tensors + layer.trainable_weights)]

    out["itself"] = run(L.MultiHeadAttention(2, 3), query, query)
    out["other"] = run(L.MultiHeadAttention(2, 3), query, value)
    out["key"] = run(L.MultiHeadAttention(2, 3, value_dim=2), query, value, key)
    out["no_bias"] = run(L.MultiHeadAttention(3, 2, use_bias=False, output_shape=5), query, value)
    out["one"] = run(L.MultiHeadAttention(num_heads=1, key_dim=4, dropout=0.5), query, value)
    out["mask"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask)
    out["mask_of_all"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask[:1])
    out["mask_of_two"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask[1].astype(np.int32))
    out["causal_and_mask"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask, use_causal_mask=True)[0]
    out["by name"] = run(L.MultiHeadAttention(2, 3), query=query, key=value, value=value[:, ::-1])[0]
    inputs = [tf.keras.Input(array.shape[1:]) for array in (query, value)] + [tf.keras.Input(mask.shape[1:], dtype=tf.bool)]
    layer = L.MultiHeadAttention(2, 3)
    model = tf.keras.Model(inputs, layer(inputs[0], inputs[1], attention_mask=inputs[2]))
    set_weights(model)
    out["model"] = [model([query, value, mask]), model.predict([query, value, mask], verbose=0)]
    out["causal"] = run(L.MultiHeadAttention(2, 3), value, value, use_causal_mask=True)
    return out


@case
def attention_with_masks(tf):
    """Masks of the queries and of the values, as lists in calls."""
    random, L, out = np.random.RandomState(8), tf.keras.layers, {}
    query, value, key = (random.randn(2, n, 4).astype(np.float32) for n in (3, 5, 5))
    rows, columns = np.array([[1, 0, 1], [1, 1, 0]], bool), np.array([[1, 0, 1, 1, 0], [0, 0, 0, 1, 1]], bool)
    for name, make in (("dot", lambda: L.Attention(use_scale=True)), ("additive", L.AdditiveAttention)):
        layer = make()
        layer([query, value])
        set_weights(layer)
        out[name] = [
            layer([query, value], mask=[None, columns]), layer([query, value, key], mask=[rows, columns]),
            layer([query, value], mask=[tf.constant(rows), None]), layer([query, value], use_causal_mask=True),
            layer([query, value, key], mask=[rows, columns, None], use_causal_mask=True),
            outcome(tf, lambda layer=layer: layer([query, value], mask=columns)),
            outcome(tf, lambda layer=layer: layer([query, value], mask=[rows]))]
    return out


@case
def arguments_of_calls(tf):
    """What layers take beside their inputs, and that they take nothing else."""
    L, x, mask = tf.keras.layers, P, np.array([[1, 0, 1], [1, 1, 0]], bool)
    ones, norm = L.Dense(2, kernel_initializer="ones"), L.BatchNormalization()
    return {"softmax": [L.Softmax()(x, mask=mask), L.Softmax()(x, mask), L.Softmax()(x)],
            "norm": [norm(x, True), norm(x, False), norm(x, training=True), norm.get_weights()],
            "dropout": [L.Dropout(0.5)(x, False), sorted(set(L.Dropout(0.5)(np.ones([1, 200], np.float32), True).numpy()[0].tolist()))],
            "inputs": ones(inputs=x),
            "wrong": [outcome(tf, call) for call in (
                lambda: ones(x, 3), lambda: ones(x, other=1), lambda: ones(x, mask=mask), lambda: L.Flatten()(x, x),
                lambda: ones(x, inputs=x), lambda: L.ReLU()(x, mask=mask))]}


@case
def cells_of_loops(tf):
    """Cells called by themselves, and in layers of RNN."""
    L, out, x = tf.keras.layers, {}, tf.constant(SEQUENCE[:, 0])
    states = tf.constant(np.random.RandomState(9).randn(2, 3).astype(np.float32))
    makes = {
        "simple": lambda: L.SimpleRNNCell(3), "simple_relu": lambda: L.SimpleRNNCell(3, activation="relu", use_bias=False),
        "gru": lambda: L.GRUCell(3), "gru_before": lambda: L.GRUCell(3, reset_after=False),
        "gru_hard": lambda: L.GRUCell(3, recurrent_activation="hard_sigmoid", use_bias=False)}
    for name, make in makes.items():
        cell = make()
        cell(x, [states])
        set_weights(cell)
        y, after = cell(x, [states])
        layer = L.RNN(cell, return_sequences=True, return_state=True)
        out[name] = [y, after, layer(SEQUENCE), cell.state_size, cell.output_size,
                     [list(w.shape) for w in cell.weights], cell.get_initial_state(batch_size=2, dtype="float32")]
    stacked = L.StackedRNNCells([L.GRUCell(3), L.SimpleRNNCell(2), L.LSTMCell(2)])
    layer = L.RNN(stacked, return_state=True)
    layer(SEQUENCE)
    set_weights(layer)
    given = [states, states[:, :2], [states[:, :2], states[:, 1:]]]
    y, after = stacked(x, given)
    with tf.GradientTape() as tape:
        result = layer(SEQUENCE)
        total = tf.reduce_sum(result[0] ** 2.0)
    out["stacked"] = [y, after, result, stacked.output_size, stacked.state_size, len(stacked.weights),
                      tape.gradient(total, layer.trainable_weights)]
    return out


# --- initializers -----------------------------------------------------------------------------------------------------

KERNEL_SHAPES, FANS = [(200, 100), (3, 3, 20, 50), (9000,)], [(200, 100), (180, 450), (9000, 9000)]
CUT = 0.87962566103423978  # the standard deviation of a normal distribution that ends at two of them


def scaled(count):
    """Standard deviations by variance scaling, whose fan is given by `count`."""
    return [math.sqrt(1 / count(*fans)) for fans in FANS]


#: Arguments, the mean, the standard deviation for each shape, and the largest distance from the mean in standard
#: deviations; None where there is no largest one.
RANDOM = {"RandomNormal": ({"mean": 2.0, "stddev": 0.5}, 2.0, [0.5] * 3, None),
          "RandomUniform": ({"minval": 1.0, "maxval": 3.0}, 2.0, [1 / math.sqrt(3)] * 3, math.sqrt(3)),
          "TruncatedNormal": ({"mean": -1.0, "stddev": 0.25}, -1.0, [0.25 * CUT] * 3, 2 / CUT)}
for _name, _count in (("Glorot", lambda a, b: (a + b) / 2), ("He", lambda a, b: a / 2), ("Lecun", lambda a, b: a)):
    RANDOM[f"{_name}Normal"] = ({}, 0.0, scaled(_count), 2 / CUT)
    RANDOM[f"{_name}Uniform"] = ({}, 0.0, scaled(_count), math.sqrt(3))
ALIASES = {"GlorotNormal": "glorot_normal", "GlorotUniform": "glorot_uniform", "HeNormal": "he_normal",
           "HeUniform": "he_uniform", "LecunNormal": "lecun_normal", "LecunUniform": "lecun_uniform",
           "RandomNormal": "random_normal", "RandomUniform": "random_uniform", "TruncatedNormal": "truncated_normal"}


def moments(values, mean, deviation, largest):
    """Whether values are as distributed: of the deviation to a twentieth, up to the bound and not beyond."""
    values = np.asarray(values, np.float64)
    distance = np.abs(values - mean).max() / deviation
    return [list(values.shape), bool(abs(values.std() / deviation - 1) < 0.05),
            bool(abs(values.mean() - mean) < 0.07 * deviation),
            bool(3 < distance < 7 if largest is None else 0.97 * largest < distance < 1.0001 * largest)]


@case
def random_initializers(tf):
    out = {}
    for name, (named, mean, deviations, largest) in RANDOM.items():
        for module in (tf.initializers, tf.keras.initializers):
            assert getattr(module, ALIASES[name]) is getattr(module, name) and issubclass(
                getattr(module, name), module.Initializer)
        make = getattr(tf.initializers, name)
        out[name] = [[moments(make(**named, seed=4)(shape).numpy(), mean, deviation, largest)
                      for shape, deviation in zip(KERNEL_SHAPES, deviations)],
                     make(**named, seed=4).get_config(), make().get_config(), make.from_config(make(**named).get_config()).get_config(),
                     [make(**named)((2, 3), dtype).dtype.name for dtype in ("float32", tf.float64)],
                     bool(tf.reduce_all(make(seed=5)((4, 2)) == make(seed=5)((4, 2)))),
                     bool(tf.reduce_all(make(seed=5)((4, 2)) == make(seed=6)((4, 2)))),
                     outcome(tf, lambda: make()((2,), "string" if name == "RandomUniform" else "int32"))]
        layer = tf.keras.layers.Dense(100, kernel_initializer=ALIASES[name])
        layer.build((None, 200))
        kernel = layer.kernel.numpy().astype(np.float64)
        out[name].append([kernel.shape, bool(kernel.std() > 0)])
    return out


@case
def certain_initializers(tf):
    out, I = {}, tf.initializers
    for module in (tf.initializers, tf.keras.initializers):
        assert module.identity is module.Identity and module.orthogonal is module.Orthogonal
    for name, named in (("Identity", {"gain": 3.0}), ("Constant", {"value": 4.0}), ("Ones", {}), ("Zeros", {})):
        make = getattr(I, name)
        out[name] = [make(**named)((2, 3)), make(**named)(shape=(3, 2), dtype="float64"), make(**named)((2, 2), dtype="float64").dtype.name,
                     make(**named).get_config(), make(**named).from_config(make(**named).get_config())((2, 2))]
    out["wrong"] = [outcome(tf, lambda: I.Identity()((2, 2, 2))), outcome(tf, lambda: I.Identity()((3,))),
                    outcome(tf, lambda: I.Orthogonal()((3,))), outcome(tf, lambda: I.Identity()((2, 2), "int32")),
                    outcome(tf, lambda: I.Ones()((2, 2), "int32"))]
    for shape in ((6, 4), (4, 6), (2, 3, 5)):
        made = I.Orthogonal(gain=2.0, seed=3)
        rows = made(shape).numpy().reshape(-1, shape[-1])
        product = rows.T @ rows if rows.shape[0] >= rows.shape[1] else rows @ rows.T
        out[f"orthogonal {shape}"] = [np.round(product, 4) + 0.0, made.get_config()]

    class Own(I.Initializer):
        def __init__(self, top):
            self.top = top

        def __call__(self, shape, dtype=None, **named):
            return tf.reshape(tf.range(float(np.prod(shape))), shape) * self.top

        def get_config(self):
            return {"top": self.top}

    layer = tf.keras.layers.Dense(2, kernel_initializer=Own(0.5))
    layer.build((None, 3))
    out["own"] = [layer.kernel, Own.from_config({"top": 2.0}).get_config()]
    return out


@case
def initializers_of_1(tf):
    v1, out = tf.compat.v1, {}
    deviation = math.sqrt(2 / 300)
    table = {
        "glorot_normal_initializer": ({}, 0.0, deviation, 2 / CUT), "glorot_uniform_initializer": ({}, 0.0, deviation, math.sqrt(3)),
        "random_normal_initializer": ({"mean": 2.0, "stddev": 0.5}, 2.0, 0.5, None),
        "random_uniform_initializer": ({"minval": 1.0, "maxval": 3.0}, 2.0, 1 / math.sqrt(3), math.sqrt(3)),
        "truncated_normal_initializer": ({"mean": -1.0, "stddev": 0.25}, -1.0, 0.25 * CUT, 2 / CUT)}
    with v1.Graph().as_default(), v1.Session() as session:
        made = {name: v1.get_variable(name, [200, 100], initializer=getattr(v1, name)(seed=3, **row[0]))
                for name, row in table.items()}
        double = v1.get_variable("double", [2], tf.float64, v1.random_normal_initializer(dtype=tf.float64))
        plain = v1.get_variable("plain", [3000], initializer=v1.random_uniform_initializer())
        session.run(v1.initialize_all_variables())
        for name, row in table.items():
            out[name] = [made[name].dtype.base_dtype.name, moments(session.run(made[name]), *row[1:])]
        out["double"] = [double.dtype.base_dtype.name, list(session.run(double).shape)]
        out["plain"] = moments(session.run(plain), 0.5, 1 / math.sqrt(12), math.sqrt(3))
    out["eager"] = {name: [moments(getattr(tf, name)(seed=2, **table[name][0])([200, 100]).numpy(), *table[name][1:]),
                           getattr(tf, name)(**table[name][0])([2], tf.float64).dtype.name]
                    for name in ("random_normal_initializer", "random_uniform_initializer")}
    return out


# --- the backend and assertions ---------------------------------------------------------------------------------------


@case
def names_of_the_backend(tf):
    K, v = tf.keras.backend, tf.keras.backend.variable([[1.0, 2.0]])
    K.set_value(v, [[5.0, -1.0]])
    uniform = K.random_uniform((50, 60), 2.0, 5.0, seed=1)
    inputs = tf.keras.Input((2,))
    return {"format": K.image_data_format(), "set": [v, K.get_value(v)], "wrong": outcome(tf, lambda: K.set_value(v, [1.0])),
            "uniform": [uniform.dtype.name, moments(uniform, 3.5, 3 / math.sqrt(12), math.sqrt(3)),
                        K.random_uniform((2,), dtype="float64").dtype.name],
            "phase": [int(K.learning_phase())],
            "is_keras": [K.is_keras_tensor(x) for x in (inputs, tf.keras.layers.Dense(2)(inputs))],
            "is_not": [K.is_keras_tensor(x) for x in (tf.constant(1.0), v)]}


@case
def assertions(tf):
    a, b, nan = np.int32([1, 2, 3]), np.int32([1, 2, 4]), np.float32([1.0, np.nan])
    pairs = [(a, a), (a, b), (b, a), (a, 1), (a, 0), (0, a), (np.int32([]), a[:0]), (1.5, 1.5), (nan, nan * 1), (a, a[:2])]
    out = {}
    for name in ("equal", "none_equal", "greater", "greater_equal", "less", "less_equal"):
        check = getattr(tf.debugging, f"assert_{name}")
        out[name] = [outcome(tf, lambda pair=pair, check=check: check(*pair, message="told")) for pair in pairs]
    out["all_finite"] = [outcome(tf, lambda x=x: tf.debugging.assert_all_finite(x, "told"))
                         for x in (nan, [1.0, np.inf], np.float64([-np.inf]), [], np.float32([[1.0, -2.0]]), a)]
    try:
        tf.debugging.assert_all_finite(nan, message="the rate")
    except tf.errors.InvalidArgumentError as error:
        out["message"] = "the rate" in str(error)
    try:
        tf.debugging.assert_less_equal(b, a, message="the order")
    except tf.errors.InvalidArgumentError as error:
        out["message_of_less_equal"] = "the order" in str(error)
    return out


# --- tf.compat.v1 -----------------------------------------------------------------------------------------------------


@case
def operations_of_1(tf):
    v1 = tf.compat.v1
    words = ["a", "Bern", "", "Zürich"]
    with v1.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(3)
        given = v1.placeholder(tf.float32, [None, 2])
        made = {"int32": v1.to_int32([1.9, -1.9, 3.0]), "int64": v1.to_int64([1.9, -1.9, 3.0]), "fed": v1.to_int64(given),
                "truth": v1.to_int32([True, False]), "float": v1.to_float([1, -2]),
                "hash": v1.string_to_hash_bucket_fast(words, 1000), "one": v1.string_to_hash_bucket_fast(words, 1)}
        numbers = {"uniform": v1.random_uniform([200, 50], -1, 3), "normal": v1.random_normal([200, 50], 2.0, 0.5),
                   "truncated": v1.truncated_normal([200, 50], stddev=0.1)}
        order, whole = v1.random_shuffle(np.arange(10)), v1.random_uniform([1000], 2, 5, tf.int32)
        found = session.run(made, {given: [[1.5, -2.5]]})
        drawn = session.run(numbers)
        out = {"values": found, "dtypes": {name: [value.dtype.name, value.shape.as_list() if value.shape.rank else None]
                                           for name, value in made.items() if name != "fed"},
               "uniform": moments(drawn["uniform"], 1.0, 4 / math.sqrt(12), math.sqrt(3)),
               "normal": moments(drawn["normal"], 2.0, 0.5, None),
               "truncated": moments(drawn["truncated"], 0.0, 0.1 * CUT, 2 / CUT),
               "random dtypes": [value.dtype.name for value in [*numbers.values(), whole, order]],
               "shuffled": sorted(session.run(order).tolist()), "whole": sorted(set(session.run(whole).tolist())),
               "again": [bool((session.run(numbers["normal"]) == drawn["normal"]).all())]}
    out["eager"] = [v1.to_int32([2.7]), v1.to_int64(3), v1.to_int64([2]).dtype.name, v1.string_to_hash_bucket_fast("Bern", 7),
                    sorted(v1.random_shuffle([3, 1, 2]).numpy().tolist()), v1.random_uniform([2, 3]).shape.as_list(),
                    v1.random_uniform([2], dtype=tf.float64).dtype.name]
    rows = [tf.train.Example(features=tf.train.Features(feature={"n": tf.train.Feature(
        int64_list=tf.train.Int64List(value=value))})).SerializeToString() for value in ([5, 6], [], [7])]
    sparse = v1.parse_example(rows, {"n": v1.VarLenFeature(tf.int64)})["n"]
    out["dense"] = [v1.sparse_tensor_to_dense(sparse), v1.sparse_tensor_to_dense(sparse, -1),
                    v1.sparse_tensor_to_dense(sparse, default_value=9)]
    return out


@case
def decays_of_1(tf):
    v1 = tf.compat.v1
    D = v1.train
    with v1.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, [])
        made = {
            "cosine": [D.cosine_decay(0.1, step, 10), D.cosine_decay(0.1, step, 7, alpha=0.25)],
            "inverse": [D.inverse_time_decay(0.1, step, 10, 0.5), D.inverse_time_decay(0.1, step, 4, 2.0, staircase=True)],
            "polynomial": [D.polynomial_decay(0.1, step, 10), D.polynomial_decay(0.1, step, 10, 0.01, power=0.5),
                           D.polynomial_decay(0.1, step, 6, 0.02, 2.0, cycle=True)],
            "piecewise": [D.piecewise_constant(step, [3, 12], [0.5, 0.25, 0.125]),
                          D.piecewise_constant(step, boundaries=[5], values=[2.0, 1.0])]}
        out = {str(n): session.run(made, {step: n}) for n in (0, 1, 3, 4, 5, 6, 10, 12, 13, 40)}
        out["dtypes"] = {name: [rate.dtype.name for rate in rates] for name, rates in made.items()}
    at_once = D.polynomial_decay(1.0, 3, 10), D.cosine_decay(1.0, 3, 10), D.inverse_time_decay(1.0, 3, 10, 0.5), \
        D.piecewise_constant(3, [2], [1.0, 0.5])
    out["eager"] = [rate() if callable(rate) else rate for rate in at_once]
    out["wrong"] = [outcome(tf, lambda: D.piecewise_constant(1, [2, 3], [1.0, 2.0]))]
    return out


@case
def losses_and_metrics_of_1(tf):
    v1 = tf.compat.v1
    weights, classes = np.float32([[1.0], [0.5]]), np.int64([0, 1, 2, 1, 1, 3])
    found = np.int64([0, 2, 2, 1, 1, 0])
    with v1.Graph().as_default(), v1.Session() as session:
        y, p = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.float32, [None, 3])
        L, N = v1.losses, v1.losses.Reduction
        made = {"huber": [L.huber_loss(y, p), L.huber_loss(y, p, delta=0.1), L.huber_loss(y, p, weights, 0.2),
                          L.huber_loss(y, p, 2.0, reduction=N.SUM), L.huber_loss(y, p, reduction=N.NONE)],
                "log": [L.log_loss(y, p), L.log_loss(y, p, weights), L.log_loss(y, p, epsilon=0.01),
                        L.log_loss(y, p, reduction=N.NONE), L.log_loss(y, p, weights, reduction=N.SUM_OVER_BATCH_SIZE)]}
        out = {"losses": session.run(made, {y: Y, p: P}), "collected": len(L.get_losses())}
        value, update = v1.metrics.mean_per_class_accuracy(v1.constant(classes), v1.constant(found), 4)
        of, more = v1.metrics.mean_per_class_accuracy(v1.constant(classes), v1.constant(found), 5, weights=v1.constant([1, 2, 0, 0.5, 1, 0]))
        session.run(v1.local_variables_initializer())
        out["metric"] = [session.run([value, of])]
        for _ in range(2):
            session.run([update, more])
            out["metric"].append(session.run([value, of]))
    return out


@case
def layers_of_1(tf):
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 6, 5, 3])
        made = [v1.layers.average_pooling2d(x, 2, 2), v1.layers.average_pooling2d(x, (3, 2), (1, 2), padding="same"),
                v1.layers.average_pooling2d(inputs=x, pool_size=[2, 2], strides=1, padding="VALID"),
                v1.layers.max_pooling2d(x, 3, 2, "same")]
        return {"values": session.run(made, {x: IMAGE}), "shapes": [y.shape.as_list() for y in made]}
