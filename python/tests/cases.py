# SPDX-License-Identifier: Apache-2.0
"""Programs that are the same for TensorFlow and for estoc.tf: make_golden.py writes what they give under TensorFlow
2.15, test_cases.py compares. A case takes `tf` and returns numbers, arrays, strings, and lists and dicts of them."""
import json
import os
import tempfile

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    """Numbers, strings, lists and dicts of them."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.9g}")  # all that float32 has
    return value.decode() if isinstance(value, bytes) else value


def golden(name):
    """What TensorFlow gave for the cases of a file."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"golden_{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def check(tf, function, wanted, name):
    """A case gives what TensorFlow gave."""
    found = []
    tf.keras.backend.reset_uids()
    differences(plain(function(tf)), wanted, name, found)
    assert not found, "\n".join(found[:20])


def write_golden(cases, path):
    """What TensorFlow gives for cases, to a file."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow
    tensorflow.get_logger().setLevel("ERROR")
    with open(path, "w", encoding="utf-8") as file:
        lines = [f" {json.dumps(name)}: {json.dumps(plain(function(tensorflow)))}" for name, function in cases.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def differences(got, want, where, found, atol=2e-6):
    """Appends a line to `found` for each place where a result is another one than wanted."""
    if isinstance(want, dict):
        if not isinstance(got, dict) or got.keys() != want.keys():
            found.append(f"{where}: {got!r} in place of {want!r}")
            return
        for key in want:
            differences(got[key], want[key], f"{where}.{key}", found, atol)
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            found.append(f"{where}: {got!r} in place of {want!r}")
            return
        for i, item in enumerate(want):
            differences(got[i], item, f"{where}[{i}]", found, atol)
    elif isinstance(want, float) and not isinstance(want, bool) and isinstance(got, (int, float)):
        if not np.isclose(got, want, rtol=2e-5, atol=atol, equal_nan=True):
            found.append(f"{where}: {got!r} in place of {want!r}")
    elif got != want:
        found.append(f"{where}: {got!r} in place of {want!r}")


def data(n=32, width=4):
    random = np.random.RandomState(3)
    x = random.randn(n, width).astype(np.float32)
    return x, (x @ np.arange(1, width + 1, dtype=np.float32)[:, None] * 0.5 + 0.1).astype(np.float32)


def set_weights(model):
    """Weights that depend on nothing but their shapes."""
    random = np.random.RandomState(5)
    model.set_weights([(random.randn(*w.shape) * 0.3).astype(w.dtype) if w.ndim else w for w in model.get_weights()])


def dense_model(tf, units=8, last=None):
    model = tf.keras.Sequential([tf.keras.layers.Dense(units, activation="tanh", input_shape=(4,)),
                                 tf.keras.layers.Dense(1, activation=last)])
    set_weights(model)
    return model


# --- operations -------------------------------------------------------------------------------------------------------


@case
def operations(tf):
    a = tf.constant([[1.5, -2.0, 3.0], [0.0, 4.0, -1.0]])
    b = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    values, index = tf.unique([3, 1, 3, 2])
    clipped, norm = tf.clip_by_global_norm([a, b], 2.0)
    return {
        "range": tf.range(2, 10, 3), "range_float": tf.range(0.0, 1.0, 0.25), "fill": tf.fill([2, 3], 7.0),
        "eye": tf.eye(2, 3), "linspace": tf.linspace(0.0, 1.0, 5), "norm": tf.norm(a), "norm_1": tf.norm(a, ord=1, axis=1),
        "boolean_mask": tf.boolean_mask(a, [False, True]), "broadcast_to": tf.broadcast_to([1, 2], [2, 2]),
        "rank": tf.rank(a), "unique": values, "unique_index": index, "clipped": clipped, "clip_norm": norm,
        "global_norm": tf.linalg.global_norm([a, b]), "matvec": tf.linalg.matvec(a, [1.0, 2.0, 3.0]),
        "gelu": tf.nn.gelu(a), "gelu_approximate": tf.nn.gelu(a, approximate=True), "silu": tf.nn.silu(a),
        "swish": tf.nn.swish(a), "moments": tf.nn.moments(a, [0]), "l2_normalize": tf.nn.l2_normalize(a, 1),
        "softmax_xent": tf.nn.softmax_cross_entropy_with_logits(labels=[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], logits=a),
        "sparse_xent": tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[2, 0], logits=a),
        "sigmoid_xent": tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(a), logits=a),
        "bias_add": tf.nn.bias_add(a, [1.0, 2.0, 3.0]), "in_top_k": tf.math.in_top_k([0, 1], a, 1),
        "segment_sum": tf.math.unsorted_segment_sum(a, [1, 1], 3), "embedding": tf.nn.embedding_lookup(a, [1, 0, 1]),
        "conv2d": tf.nn.conv2d(tf.reshape(tf.range(16.0), [1, 4, 4, 1]), tf.ones([2, 2, 1, 1]), 1, "SAME"),
        "max_pool": tf.nn.max_pool2d(tf.reshape(tf.range(16.0), [1, 4, 4, 1]), 2, 2, "VALID"),
        "avg_pool": tf.nn.avg_pool2d(tf.reshape(tf.range(16.0), [1, 4, 4, 1]), 2, 2, "VALID"),
        "average_loss": tf.nn.compute_average_loss(tf.constant([1.0, 2.0, 3.0])),
        "average_loss_weighted": tf.nn.compute_average_loss(tf.constant([1.0, 2.0]), [1.0, 3.0], global_batch_size=8),
        "scale_loss": tf.nn.scale_regularization_loss(tf.constant(3.0)),
        "operators": [a + b, 2 - a, a * b, a / b, -a, abs(a), a > b, a[1], a[:, 1:], a @ tf.transpose(b), b ** 2.0, b // 2.0],
        "nest": tf.nest.flatten({"b": [1, (2, 3)], "a": 0}), "map": tf.nest.map_structure(lambda x, y: x + y, [1, 2], [3, 4]),
        "uniform_shape": tf.random.uniform([3, 2], 5, 9).shape.as_list(), "normal_shape": tf.random.normal([4]).shape.as_list(),
        "uniform_in": bool(tf.reduce_all(tf.random.uniform([100], 0, 5, tf.int32) < 5)),
        "truncated": bool(tf.reduce_all(tf.abs(tf.random.truncated_normal([1000])) <= 2.0)),
        "dropout_0": tf.nn.dropout(a, 0.0)}


@case
def variables(tf):
    v = tf.Variable([1.0, 2.0])
    named = tf.Variable(3, name="count", trainable=False)
    out = {"name": v.name, "named": named.name, "dtype": named.dtype.name, "shape": list(v.shape),
           "trainable": [v.trainable, named.trainable]}
    v.assign_add([1.0, 1.0])
    v.assign_sub([0.5, 0.0])
    named.assign(7)
    out["values"] = [v.numpy(), named.numpy(), v * 2.0, 1.0 + v, v[0], tf.reduce_sum(v), float(v[1])]
    try:
        v.assign([1.0])
    except ValueError as error:
        out["wrong_shape"] = "incompatible" in str(error)
    return out


@case
def functions(tf):
    state = tf.Variable(1.0)
    traces = []

    @tf.function
    def step(x, scale=2.0):
        traces.append(1)
        before = state * x
        state.assign_add(x)
        middle = state * scale
        state.assign(middle)
        return {"before": before, "after": [state + 0.0, middle]}

    out = {"first": step(tf.constant(3.0)), "second": step(tf.constant(1.0)), "other": step(tf.constant(1.0), scale=3.0),
           "state": state.numpy(), "traces": len(traces)}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def rows(x):
        return tf.shape(x)[0], tf.reduce_sum(x, axis=1)

    out["signature"] = [rows(tf.ones([3, 2])), rows(tf.ones([5, 2]))]

    class Counter:
        def __init__(self):
            self.n = tf.Variable(0)

        @tf.function
        def add(self, k):
            self.n.assign_add(k)
            return self.n.read_value()

    first, second = Counter(), Counter()
    out["methods"] = [first.add(2), first.add(3), second.add(10), first.n.numpy()]

    @tf.function
    def two(iterator):
        return next(iterator) + next(iterator)

    iterator = iter(tf.data.Dataset.range(10))
    out["iterator"] = [two(iterator), two(iterator)]
    try:
        two(iter(tf.data.Dataset.range(1)))
    except tf.errors.OutOfRangeError:
        out["end"] = "OutOfRangeError"

    @tf.function
    def outer(x):
        return rows(x)[1] + 1.0

    out["nested"] = outer(tf.ones([2, 2]))
    out["concrete"] = rows.get_concrete_function()(tf.ones([4, 2]))[0]
    out["eagerly"] = [tf.executing_eagerly(), bool(tf.function(lambda: tf.constant(tf.executing_eagerly()))())]
    return out


@case
def gradients(tf):
    v, w, frozen = tf.Variable(3.0), tf.Variable([1.0, 2.0]), tf.Variable(1.0, trainable=False)
    x = tf.constant([1.0, -2.0])
    out = {}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = v * v + tf.reduce_sum(w * x) * frozen
        z = tf.reduce_sum(tf.exp(x) * w)
    out["eager"] = [tape.gradient(y, v), tape.gradient(y, [w, x]), tape.gradient(z, {"w": w, "x": x})]
    out["none"] = [tape.gradient(z, v) is None, tape.gradient(y, frozen) is None]
    out["zero"] = tape.gradient(z, v, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    with tf.GradientTape() as tape:
        y = w * w
    out["weighted"] = tape.gradient(y, w, output_gradients=[1.0, 10.0])
    try:
        tape.gradient(y, w)
    except RuntimeError as error:
        out["twice"] = "non-persistent" in str(error)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = v * v * v
        first = inner.gradient(y, v)
    out["second"] = [first, outer.gradient(first, v)]

    @tf.function
    def traced(a):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = tf.reduce_sum(w * w * w * a)
            first = inner.gradient(y, w)
        return first, outer.gradient(first, w)

    out["traced"] = traced(x)
    table = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))

    @tf.function
    def sparse():
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 2, 0]) ** 2.0)
        g = tape.gradient(y, table)
        return tf.convert_to_tensor(g)

    out["sparse"] = sparse()
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(v)
        y = v * w[0]
    out["watched"] = [tape.gradient(y, [v, w])[0], [item.name for item in tape.watched_variables()] == [v.name]]
    return out


# --- Keras ------------------------------------------------------------------------------------------------------------


def layers_of(tf):
    L = tf.keras.layers
    image = np.random.RandomState(0).randn(2, 6, 6, 3).astype(np.float32)
    rows = np.random.RandomState(1).randn(5, 4).astype(np.float32)
    sequence = np.random.RandomState(2).randn(2, 3, 4).astype(np.float32)
    return {
        "dense": (L.Dense(3, activation="relu"), rows), "dense_gelu": (L.Dense(3, activation="gelu", use_bias=False), rows),
        "dense_3d": (L.Dense(2), sequence), "conv": (L.Conv2D(2, 3, activation="relu"), image),
        "conv_same": (L.Conv2D(2, (3, 2), strides=2, padding="same", use_bias=False), image),
        "depthwise": (L.DepthwiseConv2D(3, depth_multiplier=2), image), "separable": (L.SeparableConv2D(4, 3), image),
        "max_pool": (L.MaxPooling2D(), image), "avg_pool": (L.AveragePooling2D(3, strides=2, padding="same"), image),
        "global_max": (L.GlobalMaxPooling2D(), image), "global_avg": (L.GlobalAveragePooling2D(), image),
        "flatten": (L.Flatten(), image), "reshape": (L.Reshape((2, 2)), rows), "activation": (L.Activation("swish"), rows),
        "relu": (L.ReLU(), rows), "softmax": (L.Softmax(), rows), "dropout": (L.Dropout(0.5), rows),
        "batch_norm": (L.BatchNormalization(), rows), "batch_norm_image": (L.BatchNormalization(scale=False), image),
        "layer_norm": (L.LayerNormalization(), rows), "lambda": (L.Lambda(lambda x: x * 2.0), rows),
        "embedding": (L.Embedding(7, 3), np.array([[0, 6], [3, 3]])), "hashing": (L.Hashing(5), np.array([["a"], ["bb"]])),
        "lookup": (L.StringLookup(vocabulary=["x", "y"], mask_token=""), np.array([["y", "z", ""]])),
        "discretization": (L.Discretization([0.0, 1.0]), rows), "normalization": (L.Normalization(mean=1.0, variance=4.0), rows),
        "category": (L.CategoryEncoding(4, "multi_hot"), np.array([[0, 2], [3, 3]])),
        "category_count": (L.CategoryEncoding(4, "count"), np.array([[0, 2], [3, 3]]))}


@case
def layers(tf):
    out = {}
    for name, (layer, x) in layers_of(tf).items():
        layer(x)
        if name not in ("normalization",):
            set_weights(layer)
        found = {"output": layer(x), "weights": [list(w.shape) for w in layer.weights],
                 "trainable": len(layer.trainable_weights)}
        if x.dtype == np.float32 and layer.trainable_weights:
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(layer(x) ** 2.0)
            found["gradients"] = tape.gradient(y, layer.trainable_variables)
        out[name] = found
    a, b = np.ones((2, 3), np.float32), np.full((2, 3), 2.0, np.float32)
    L = tf.keras.layers
    out["several"] = [L.Add()([a, b]), L.Multiply()([a, b]), L.Concatenate()([a, b]), L.concatenate([a, b], axis=0),
                      L.Dot(1)([a, b]), L.Dot(1, normalize=True)([a, b])]
    query = np.random.RandomState(4).randn(2, 3, 4).astype(np.float32)
    additive = L.AdditiveAttention()
    additive([query, query])
    set_weights(additive)
    out["attention"] = [L.Attention()([query, query]), additive([query, query])]
    norm = L.BatchNormalization(momentum=0.5)
    x = data()[0]
    out["batch_norm_training"] = [norm(x, training=True), norm.get_weights()[2], norm.get_weights()[3]]
    lookup = L.StringLookup()
    lookup.adapt(np.array(["b", "a", "b", "c", "b", "a"]))
    out["adapted"] = lookup.get_vocabulary()
    normal = L.Normalization()
    normal.adapt(x)
    out["normalized"] = normal(x[:3])
    return out


@case
def names(tf):
    tf.keras.backend.clear_session()
    model = tf.keras.Sequential([tf.keras.layers.Conv2D(2, 3, input_shape=(5, 5, 1)), tf.keras.layers.BatchNormalization(),
                                 tf.keras.layers.Flatten(), tf.keras.layers.Dense(2), tf.keras.layers.Dense(1, name="last")])

    class Own(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = tf.keras.layers.Dense(2)

        def build(self, input_shape):
            self.w = self.add_weight(name="w", shape=(input_shape[-1], 2), initializer="ones")

        def call(self, x):
            return self.inner(tf.matmul(x, self.w))

    own = Own()
    own(np.ones((1, 3), np.float32))
    return {"model": model.name, "layers": [layer.name for layer in model.layers], "weights": [w.name for w in model.weights],
            "trainable": [w.name for w in model.trainable_variables], "own": sorted(w.name for w in own.weights),
            "count": model.count_params(), "output_shape": list(model.output_shape)}


LOSSES = ["MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError", "Hinge",
          "SquaredHinge", "CategoricalHinge", "KLDivergence", "LogCosh", "Poisson", "CosineSimilarity", "Huber",
          "BinaryCrossentropy", "CategoricalCrossentropy", "BinaryFocalCrossentropy", "CategoricalFocalCrossentropy"]


@case
def losses(tf):
    y = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.float32)
    p = np.array([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]], np.float32)
    K, out = tf.keras.losses, {}
    for name in LOSSES:
        kind = getattr(K, name)
        out[name] = [kind()(y, p), kind(reduction=K.Reduction.NONE)(y, p), kind(reduction="sum")(y, p, [1.0, 3.0]),
                     kind()(y, p, sample_weight=np.array([0.5, 2.0], np.float32)), kind().name]
    out["sparse"] = [K.SparseCategoricalCrossentropy()([1, 2], p), K.SparseCategoricalCrossentropy(from_logits=True)([[1], [2]], p)]
    out["logits"] = [K.BinaryCrossentropy(from_logits=True)(y, p), K.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)(y, p),
                     K.BinaryCrossentropy(label_smoothing=0.2)(y, p), K.Huber(delta=0.3)(y, p)]
    out["functions"] = [K.mse(y, p), K.mean_absolute_error(y, p), K.binary_crossentropy(y, p), K.categorical_crossentropy(y, p),
                        K.sparse_categorical_crossentropy([1, 2], p), K.huber(y, p, 0.2), K.kld(y, p), K.hinge(y, p)]
    out["rank"] = K.BinaryCrossentropy(reduction="none")(tf.constant([[[1]], [[0]]]), tf.constant([[0.8], [0.4]]))

    class Own(K.Loss):
        def call(self, y_true, y_pred):
            return tf.reduce_mean(tf.abs(y_true - y_pred) ** 3.0, axis=-1)

    out["own"] = [Own()(y, p), Own(reduction="none")(y, p), K.get("mse")(y, p)]
    return out


METRICS = {"MeanSquaredError": {}, "MeanAbsoluteError": {}, "RootMeanSquaredError": {}, "BinaryAccuracy": {"threshold": 0.35},
           "Precision": {}, "Recall": {}, "AUC": {"num_thresholds": 50}, "TruePositives": {}, "FalseNegatives": {},
           "TrueNegatives": {}, "FalsePositives": {}, "BinaryCrossentropy": {}, "CategoricalAccuracy": {},
           "CategoricalCrossentropy": {}, "CosineSimilarity": {}, "Hinge": {}, "SquaredHinge": {}, "CategoricalHinge": {},
           "KLDivergence": {}, "LogCoshError": {}, "Poisson": {}, "MeanAbsolutePercentageError": {},
           "MeanSquaredLogarithmicError": {}, "TopKCategoricalAccuracy": {"k": 2}}


@case
def metrics(tf):
    y = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.float32)
    p = np.array([[0.1, 0.7, 0.2], [0.3, 0.36, 0.34]], np.float32)
    K, out = tf.keras.metrics, {}
    for name, options in METRICS.items():
        metric = getattr(K, name)(**options)
        found = [metric.result()]
        metric.update_state(y, p)
        found.append(metric.result())
        metric.update_state(y[:, ::-1], p)
        found.append(metric.result())
        metric.reset_state()
        metric.update_state(y[:1], p[:1])
        out[name] = found + [metric.result(), metric.name]
    sparse = K.SparseCategoricalAccuracy(), K.SparseTopKCategoricalAccuracy(k=2), K.SparseCategoricalCrossentropy()
    for metric in sparse:
        metric.update_state([1, 2], p)
    out["sparse"] = [metric.result() for metric in sparse]
    accuracy = K.Accuracy()
    accuracy.update_state([[1], [2], [3]], [[1], [2], [0]])
    out["accuracy"] = [accuracy.result(), accuracy([[1]], [[1]])]
    mean, total = K.Mean(name="loss"), K.Sum()
    mean.update_state([1.0, 3.0], [1.0, 3.0])
    mean.update_state(4.0)
    total.update_state([1.0, 2.0])
    out["mean"] = [mean.result(), mean.name, total.result()]

    @tf.function
    def step(x):
        mean.update_state(x)
        value = mean.result()
        mean.update_state(x * 2.0)
        return value, mean.result()

    mean.reset_states()
    out["traced"] = [step(tf.constant(2.0)), step(tf.constant([1.0, 5.0])), step(tf.constant([3.0, 5.0, 7.0])), mean.result()]

    class Own(K.Metric):
        def __init__(self):
            super().__init__(name="own")
            self.n = self.add_weight(name="n", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.n.assign_add(tf.reduce_sum(tf.abs(y_true - y_pred)))

        def result(self):
            return self.n * 2.0

    own = Own()
    own.update_state(tf.constant([1.0]), tf.constant([3.0]))
    own.update_state(tf.constant([1.0, 2.0]), tf.constant([3.0, 2.0]))
    out["own"] = [own.result()]
    own.reset_state()
    out["own"].append(own.result())
    return out


def optimizers_of(tf):
    K = tf.keras.optimizers
    return {"SGD": K.SGD(0.1), "momentum": K.SGD(0.05, momentum=0.9), "nesterov": K.SGD(0.05, momentum=0.9, nesterov=True),
            "Adam": K.Adam(0.02), "RMSprop": K.RMSprop(0.02), "RMSprop_momentum": K.RMSprop(0.02, momentum=0.5),
            "RMSprop_centered": K.RMSprop(0.02, centered=True), "Adagrad": K.Adagrad(0.1), "Adadelta": K.Adadelta(1.0),
            "Adamax": K.Adamax(0.02), "Ftrl": K.Ftrl(0.1), "clipnorm": K.SGD(0.1, clipnorm=0.5),
            "clipvalue": K.SGD(0.1, clipvalue=0.2), "global_clipnorm": K.SGD(0.1, global_clipnorm=0.5),
            "schedule": K.SGD(K.schedules.ExponentialDecay(0.1, 2, 0.5))}


@case
def optimizers_in_loops(tf):
    x, y = data()
    out = {}
    for name, optimizer in optimizers_of(tf).items():
        model = dense_model(tf)

        @tf.function
        def step(a, b):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(a, training=True) - b))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss

        losses = [step(x, y) for _ in range(3)] + [step(x[:10], y[:10])]
        out[name] = {"losses": losses, "weights": model.get_weights(), "iterations": optimizer.iterations.numpy()}
    return out


@case
def optimizers_in_fit(tf):
    x, y = data()
    out = {}
    for name, optimizer in optimizers_of(tf).items():
        model = dense_model(tf)
        model.compile(optimizer, "mse")
        history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        out[name] = {"history": history.history["loss"], "weights": model.get_weights()}
    return out


@case
def optimizers_eager(tf):
    v, table = tf.Variable([1.0, 2.0]), tf.Variable(np.ones((3, 2), np.float32))
    adam = tf.keras.optimizers.Adam(0.1)
    out = {"name": adam.name}
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v) + tf.reduce_sum(table * table)
        adam.apply_gradients(zip(tape.gradient(loss, [v, table]), [v, table]))
    out["values"] = [v.numpy(), table.numpy(), int(adam.iterations), float(adam.learning_rate)]
    adam.learning_rate = 0.5
    adam.minimize(lambda: tf.reduce_sum(v * v) + tf.reduce_sum(table * 0.0), [v, table])
    out["after"] = [v.numpy(), float(adam.learning_rate), adam.learning_rate.numpy()]
    S = tf.keras.optimizers.schedules
    steps = [0, 1, 3, 10]
    out["schedules"] = {name: [schedule(step) for step in steps] for name, schedule in {
        "exponential": S.ExponentialDecay(0.1, 2, 0.5), "staircase": S.ExponentialDecay(0.1, 2, 0.5, staircase=True),
        "inverse": S.InverseTimeDecay(0.1, 2, 0.5), "polynomial": S.PolynomialDecay(0.1, 5), "cosine": S.CosineDecay(0.1, 5),
        "restarts": S.CosineDecayRestarts(0.1, 4), "piecewise": S.PiecewiseConstantDecay([1, 5], [1.0, 0.5, 0.1])}.items()}
    return out


@case
def fit(tf):
    x, y = data()
    out = {}
    model = dense_model(tf)
    model.compile("sgd", "mse", metrics=["mae"])
    first = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, validation_split=0.25, verbose=0)
    out["history"], out["epoch"] = first.history, first.epoch
    out["evaluate"] = model.evaluate(x, y, verbose=0)
    out["evaluate_dict"] = model.evaluate(x, y, verbose=0, return_dict=True)
    out["predict"] = model.predict(x[:5], verbose=0)
    out["call"] = model(x[:5])
    out["names"] = model.metrics_names
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    out["dataset"] = model.fit(dataset, epochs=1, validation_data=(x[:4], y[:4]), verbose=0).history
    out["dataset_evaluate"] = model.evaluate(dataset, verbose=0)
    out["weighted"] = model.fit(x, y, sample_weight=np.linspace(0, 2, 32).astype(np.float32), batch_size=16, epochs=1,
                                shuffle=False, verbose=0).history["loss"]
    out["train_on_batch"] = model.train_on_batch(x[:8], y[:8])
    out["test_on_batch"] = model.test_on_batch(x[:8], y[:8])
    out["predict_on_batch"] = model.predict_on_batch(x[:3])
    out["steps"] = model.fit(dataset.repeat(), epochs=2, steps_per_epoch=3, verbose=0).history["loss"]
    model.optimizer.learning_rate = 0.0
    before = model.get_weights()
    model.fit(x, y, epochs=1, verbose=0)
    out["rate_0"] = all(np.array_equal(a, b) for a, b in zip(before, model.get_weights()))
    return out


@case
def fit_classes(tf):
    x, y = data()
    classes = (y[:, 0] > 0).astype(np.int64) + (y[:, 0] > 1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu", input_shape=(4,)),
                                 tf.keras.layers.Dense(3, activation="softmax")])
    set_weights(model)
    model.compile(tf.keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
    out = {"history": model.fit(x, classes, batch_size=16, epochs=3, shuffle=False, verbose=0).history}
    out["class_weight"] = model.fit(x, classes, batch_size=16, epochs=1, shuffle=False, verbose=0,
                                    class_weight={0: 1.0, 1: 2.0, 2: 0.5}).history["loss"]
    out["evaluate"] = model.evaluate(x, classes, verbose=0)
    binary = dense_model(tf, last="sigmoid")
    binary.compile("rmsprop", tf.keras.losses.BinaryCrossentropy(), metrics=[
        tf.keras.metrics.AUC(name="auc"), tf.keras.metrics.Precision(name="precision"), "accuracy"])
    out["binary"] = binary.fit(x, (y > 0).astype(np.float32), batch_size=16, epochs=2, shuffle=False, verbose=0).history
    onehot = tf.keras.utils.to_categorical(classes, 3)
    model.compile("adam", tf.keras.losses.CategoricalCrossentropy(label_smoothing=0.1), metrics=["accuracy"])
    out["onehot"] = model.evaluate(x, onehot, verbose=0)
    return out


@case
def fit_custom_loss(tf):
    x, y = data()
    model = dense_model(tf)

    def loss(y_true, y_pred):
        return tf.reduce_mean(tf.abs(y_true - y_pred) ** 3.0, axis=-1)

    def bias(y_true, y_pred):
        return tf.reduce_mean(y_pred - y_true, axis=-1)

    model.compile("sgd", loss, metrics=[bias])
    return model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history


@case
def regularized(tf):
    x, y = data()
    layer = tf.keras.layers.Dense(3, kernel_regularizer=tf.keras.regularizers.L2(0.1), input_shape=(4,))
    model = tf.keras.Sequential([layer, tf.keras.layers.Dense(1, kernel_regularizer="l1")])
    set_weights(model)
    model.compile("sgd", "mse")
    return {"losses": model.losses, "evaluate": model.evaluate(x, y, verbose=0),
            "fit": model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]}


@case
def functional(tf):
    a, b = tf.keras.Input((3,), name="a"), tf.keras.Input((2,), name="b")
    hidden = tf.keras.layers.Dense(4, activation="relu", name="first")(a)
    joined = tf.keras.layers.Concatenate()([hidden, b])
    mean = tf.reduce_mean(joined, axis=1, keepdims=True) * 2.0
    out_node = tf.keras.layers.Dense(1, name="last")(joined) + mean
    model = tf.keras.Model({"a": a, "b": b}, out_node)
    listed = tf.keras.Model([a, b], out_node)
    set_weights(model)
    random = np.random.RandomState(0)
    x = {"a": random.randn(8, 3).astype(np.float32), "b": random.randn(8, 2).astype(np.float32)}
    y = random.randn(8, 1).astype(np.float32)
    out = {"call": model(x), "listed": listed([x["a"], x["b"]]), "weights": [w.name for w in model.weights],
           "shape": list(model.output_shape)}
    model.compile("sgd", "mse")
    out["fit"] = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]
    out["dataset"] = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(4), verbose=0).history["loss"]
    out["predict"] = model.predict(x, verbose=0)
    two = tf.keras.Model(a, [hidden, tf.keras.layers.Dense(2, name="two", kernel_initializer="ones")(hidden)])
    out["two"] = two(x["a"])
    shared = tf.keras.layers.Dense(2, kernel_initializer="ones")
    siamese = tf.keras.Model([a, b], shared(tf.keras.layers.Dense(2, kernel_initializer="ones")(a)) - shared(b))
    out["siamese"] = [siamese([x["a"], x["b"]]), len(siamese.weights)]
    inner = tf.keras.Sequential([tf.keras.layers.Dense(2, kernel_initializer="ones")])
    nested = tf.keras.Model(a, inner(a))
    out["nested"] = [nested(x["a"]), len(nested.trainable_variables)]
    return out


@case
def subclassed(tf):
    class Own(tf.keras.layers.Layer):
        def __init__(self, units):
            super().__init__()
            self.units = units

        def build(self, input_shape):
            self.w = self.add_weight(name="w", shape=(input_shape[-1], self.units), initializer="ones", trainable=True)
            self.b = self.add_weight(name="b", shape=(self.units,), initializer="zeros", trainable=True)

        def call(self, inputs, training=False):
            return tf.matmul(inputs, self.w) + self.b + (1.0 if training else 0.0)

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first = tf.keras.layers.Dense(4, activation="tanh", kernel_initializer="ones")
            self.second = Own(1)

        def call(self, x, training=False):
            return self.second(self.first(x), training=training)

    x, y = data()
    net = Net()
    out = {"call": net(x[:3]), "training": net(x[:3], training=True), "count": len(net.trainable_variables)}
    net.compile("sgd", "mse", metrics=["mae"])
    out["fit"] = net.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
    out["weights"] = net.get_weights()
    out["evaluate"] = net.evaluate(x, y, verbose=0)

    class Stepped(Net):
        def __init__(self):
            super().__init__()
            self.seen = tf.keras.metrics.Mean(name="seen")

        def train_step(self, data):
            a, b = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(a, training=True) - b))
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            self.seen.update_state(loss)
            return {"loss": self.seen.result()}

        @property
        def metrics(self):
            return [self.seen]

    stepped = Stepped()
    stepped.compile(tf.keras.optimizers.SGD(0.01))
    out["stepped"] = stepped.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    return out


@case
def callbacks(tf):
    x, y = data()
    K, out = tf.keras.callbacks, {}

    def run(*given, epochs=4, rate=0.05, **options):
        model = dense_model(tf)
        model.compile(tf.keras.optimizers.SGD(rate), "mse")
        return model, model.fit(x, y, batch_size=16, epochs=epochs, shuffle=False, verbose=0, callbacks=list(given),
                                validation_data=(x[:8], y[:8]), **options)

    out["early"] = len(run(K.EarlyStopping("val_loss", min_delta=10.0, patience=1))[1].epoch)
    out["scheduler"] = run(K.LearningRateScheduler(lambda epoch, rate: rate * 0.5))[1].history["loss"]
    model, history = run(K.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=10.0))
    out["plateau"] = [history.history["loss"], float(model.optimizer.learning_rate)]
    events = []

    class Own(K.Callback):
        def on_train_begin(self, logs=None):
            events.append("train")

        def on_epoch_begin(self, epoch, logs=None):
            events.append(f"epoch {epoch}")

        def on_train_batch_end(self, batch, logs=None):
            events.append(f"batch {batch} {sorted(logs)}")

        def on_epoch_end(self, epoch, logs=None):
            events.append(f"end {epoch} {sorted(logs)}")
            if epoch == 1:
                self.model.stop_training = True

        def on_train_end(self, logs=None):
            events.append("done")

    out["stopped"] = run(Own())[1].epoch
    out["events"] = events
    seen = []
    run(K.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch)), epochs=2)
    out["lambda"] = seen
    with tempfile.TemporaryDirectory() as folder:
        run(K.CSVLogger(os.path.join(folder, "log.csv")), K.TerminateOnNaN(), epochs=2)
        with open(os.path.join(folder, "log.csv"), encoding="utf-8") as file:
            lines = file.read().split()
        out["csv"] = [lines[0], [[float(value) for value in line.split(",")] for line in lines[1:]]]
        model, _ = run(K.ModelCheckpoint(os.path.join(folder, "w{epoch}"), save_weights_only=True), epochs=2)
        out["checkpoint"] = sorted({name.split(".")[0] for name in os.listdir(folder) if name.startswith("w")})
        restored = dense_model(tf)
        restored.load_weights(os.path.join(folder, "w2"))
        out["restored"] = all(np.allclose(a, b) for a, b in zip(model.get_weights(), restored.get_weights()))
        model.save_weights(os.path.join(folder, "s"))
        restored = dense_model(tf)
        restored.load_weights(os.path.join(folder, "s"))
        out["loaded"] = restored(x[:2])
    return out


@case
def utilities(tf):
    K = tf.keras
    a = np.array([[-1.0, 0.5, 2.0]], np.float32)
    return {"categorical": K.utils.to_categorical([0, 2, 1]), "categorical_4": K.utils.to_categorical([[1], [3]], 4),
            "normalize": K.utils.normalize(a), "epsilon": K.backend.epsilon(), "floatx": K.backend.floatx(),
            "activations": {name: getattr(K.activations, name)(tf.constant(a)) for name in (
                "elu", "gelu", "hard_sigmoid", "linear", "mish", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign",
                "swish", "tanh", "exponential")},
            "initializers": [K.initializers.Zeros()((2,)), K.initializers.Ones()((2,)), K.initializers.Constant(3.0)((2,))],
            "regularizers": [K.regularizers.L1(0.1)(tf.constant(a)), K.regularizers.L2(0.1)(tf.constant(a)),
                             K.regularizers.L1L2(0.1, 0.2)(tf.constant(a))]}


@case
def mirrored(tf):
    x, y = data()
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    out = {"replicas": strategy.num_replicas_in_sync}
    with strategy.scope():
        model = dense_model(tf)
        optimizer = tf.keras.optimizers.SGD(0.05)
        mean = tf.keras.metrics.Mean()
        total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))

    def replica(inputs):
        a, b = inputs
        with tf.GradientTape() as tape:
            each = tf.reduce_mean(tf.square(model(a, training=True) - b), axis=1)
            loss = tf.nn.compute_average_loss(each, global_batch_size=8)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        mean.update_state(each)
        total.assign_add(tf.reduce_sum(b))
        context = tf.distribute.get_replica_context()
        return loss, context.all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(a))

    @tf.function
    def step(inputs):
        losses, sums = strategy.run(replica, args=(inputs,))
        return (strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None),
                strategy.reduce("MEAN", sums, axis=None))

    out["steps"] = [step(batch) for batch in dataset]
    out["mean"], out["total"] = mean.result(), total.numpy()
    out["weights"] = model.get_weights()
    with strategy.scope():
        fitted = dense_model(tf)
        fitted.compile("sgd", "mse")
    out["fit"] = fitted.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]

    def ids():
        context = tf.distribute.get_replica_context()
        return context.replica_id_in_sync_group

    @tf.function
    def replicas():
        return strategy.experimental_local_results(strategy.run(lambda: tf.constant(1.0) * float(ids())))

    out["ids"] = [float(value) for value in replicas()]
    out["contexts"] = [tf.distribute.has_strategy(), tf.distribute.get_strategy().num_replicas_in_sync,
                       tf.distribute.in_cross_replica_context()]

    def make(context):
        out["input"] = [context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync,
                        context.get_per_replica_batch_size(8)]
        return tf.data.Dataset.range(8).batch(context.get_per_replica_batch_size(4))

    parts = [strategy.experimental_local_results(item) for item in strategy.distribute_datasets_from_function(make)]
    out["parts"] = parts
    return out


from cases_estimators import *  # noqa: E402,F401,F403 - more cases
from cases_guides import *  # noqa: E402,F401,F403 - more cases
from cases_keras import *  # noqa: E402,F401,F403 - more cases
from cases_layers import *  # noqa: E402,F401,F403 - more cases
from cases_names import *  # noqa: E402,F401,F403 - more cases
from cases_pages import *  # noqa: E402,F401,F403 - more cases
from cases_types import *  # noqa: E402,F401,F403 - more cases
