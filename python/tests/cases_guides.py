# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: what programs do that are written as TensorFlow's guides and tutorials are."""
import os
import tempfile

import numpy as np
from cases import case, data, dense_model, set_weights


@case
def pieces(tf):
    a = tf.constant([[3.0, 1.0, 2.0], [0.0, 5.0, -1.0]])
    cube = tf.reshape(tf.range(24.0), [2, 3, 4])
    x, y = tf.meshgrid([1, 2, 3], [4, 5])
    base = tf.zeros([3, 2])
    return {
        "sort": tf.sort(a), "sort_down": tf.sort(a, axis=0, direction="DESCENDING"), "argsort": tf.argsort([2, 1, 2, 0]),
        "argsort_0": tf.argsort(a, axis=0), "reverse": tf.reverse(a, [1]), "meshgrid": [x, y],
        "meshgrid_ij": tf.meshgrid([1, 2], [3, 4, 5], indexing="ij"),
        "gather_nd": tf.gather_nd(cube, [[0, 1], [1, 2]]), "gather_nd_all": tf.gather_nd(cube, [[1, 0, 3]]),
        "gather_nd_rows": tf.gather_nd(a, [[1], [0], [1]]), "scatter_nd": tf.scatter_nd([[1], [3], [1]], [5, 6, 7], [5]),
        "scatter_nd_2": tf.scatter_nd([[0, 1], [2, 0]], [1.0, 2.0], [3, 2]),
        "scatter_add": tf.tensor_scatter_nd_add(base, [[0, 1], [0, 1]], [1.0, 2.0]),
        "scatter_sub": tf.tensor_scatter_nd_sub(base, [[2, 0]], [3.0]),
        "scatter_update": tf.tensor_scatter_nd_update(base, [[1]], [[8.0, 9.0]]),
        "std": tf.math.reduce_std(a), "std_axis": tf.math.reduce_std(a, axis=0, keepdims=True),
        "variance": tf.math.reduce_variance(a, 1), "one_hot": tf.one_hot(np.float32([1, 2]), 3),
        "shuffle": tf.sort(tf.random.shuffle(tf.range(5))), "string": tf.io.decode_csv(["1,a", "2,b"], [[0], [""]])}


@case
def modules(tf):
    class Linear(tf.Module):
        def __init__(self, width, name=None):
            super().__init__(name=name)
            self.w = tf.Variable(tf.ones([2, width]), name="w")
            self.b = tf.Variable(tf.zeros([width]), name="b")
            self.count = tf.Variable(0, trainable=False, name="count")

        @tf.function
        def __call__(self, x):
            self.count.assign_add(1)
            return x @ self.w + self.b

    class Stack(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = [Linear(3), {"last": Linear(1, name="end")}]
            with self.name_scope:
                self.scale = tf.Variable(2.0, name="scale")

    stack = Stack()
    linear = stack.parts[0]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(linear(tf.constant([[1.0, 2.0]])) ** 2)
    return {"names": [v.name for v in stack.variables], "trained": len(stack.trainable_variables),
            "modules": [module.name for module in stack.submodules], "name": stack.name, "frozen": [
                v.name for v in stack.non_trainable_variables], "loss": loss,
            "gradients": tape.gradient(loss, [linear.w, linear.b]), "count": linear.count}


@case
def jacobians(tf):
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        y = x ** 2 + tf.reduce_sum(x)
        with tape.stop_recording():
            z = y * 3.0
        w = tf.tanh(x)
    return {"jacobian": tape.jacobian(y, x), "batch": tape.batch_jacobian(w, x), "stopped": tape.gradient(z, x) is None}


@case
def datasets_of_guides(tf):
    dataset = tf.data.Dataset
    folder = tempfile.mkdtemp()
    for name, lines in (("a", "x,y,z\n1,2.5,p\n3,,q\n"), ("b", "x,y,z\n5,6.5,r\n")):
        with open(os.path.join(folder, name + ".csv"), "w") as file:
            file.write(lines)
    files = [os.path.join(folder, "a.csv"), os.path.join(folder, "b.csv")]

    def rows(given):
        return [[v.numpy() for v in tf.nest.flatten(row)] for row in given]

    table = tf.data.experimental.make_csv_dataset(files, 2, label_name="z", num_epochs=1, shuffle=False)
    features, label = next(iter(table))
    return {
        "interleave": rows(dataset.from_tensor_slices(files).interleave(tf.data.TextLineDataset, cycle_length=2)),
        "flat_map": rows(dataset.range(3).flat_map(lambda n: dataset.range(n))),
        "blocks": rows(dataset.range(1, 4).interleave(lambda n: dataset.from_tensors(n).repeat(3), 2, 2)),
        "reduce": dataset.range(5).reduce(np.int64(0), lambda state, value: state + value),
        "reduce_2": dataset.range(4).reduce((0, np.int64(1)), lambda s, v: (s[0] + 1, s[1] * (v + 1))),
        "window": [rows(window) for window in dataset.range(7).window(3)],
        "window_stride": [rows(window) for window in dataset.range(7).window(3, shift=1, stride=2, drop_remainder=True)],
        "window_flat": rows(dataset.range(6).window(3, 1, drop_remainder=True).flat_map(lambda w: w.batch(3))),
        "choose": rows(dataset.choose_from_datasets([dataset.range(3), dataset.range(10, 13)],
                                                    dataset.from_tensor_slices(np.int64([0, 1, 1, 0])))),
        "sample": len(list(dataset.sample_from_datasets([dataset.range(5), dataset.range(7)], seed=1))),
        "csv": rows(tf.data.experimental.CsvDataset(files, [tf.int32, 0.5, ""], header=True)),
        "csv_select": rows(tf.data.experimental.CsvDataset(files[1:], [[0.0]], header=True, select_cols=[1])),
        "table": {key: features[key] for key in sorted(features)}, "label": label, "keys": list(features),
        "types": {key: value.dtype.name for key, value in features.items()},
        "py": rows(dataset.range(3).map(lambda n: tf.py_function(lambda t: t * 2, [n], tf.int64))),
        "numpy": rows(dataset.range(3).map(lambda n: tf.numpy_function(lambda t: np.float32(t + 0.5), [n], tf.float32))),
        "list": rows(dataset.range(2).map(lambda n: [n, n + 1])),
        "len": len(dataset.range(7).batch(2))}


@case
def dense_features(tf):
    fc = tf.feature_column
    age = fc.numeric_column("age")
    city = fc.categorical_column_with_vocabulary_list("city", ["Bonn", "Rome"])
    buckets = fc.bucketized_column(age, [20.0, 40.0])
    rows = {"age": np.float32([15, 30, 55]), "city": np.array(["Rome", "Oslo", "Bonn"])}
    layer = tf.keras.layers.DenseFeatures([age, fc.indicator_column(city), buckets])
    crossed = fc.crossed_column(["age", "city"], 20)
    model = tf.keras.Sequential([tf.keras.layers.DenseFeatures([fc.embedding_column(city, 2), age,
                                                                fc.indicator_column(crossed)]),
                                 tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.0001), "mse")
    tensors = {key: tf.constant(value) for key, value in rows.items()}
    model(tensors)
    set_weights(model)
    dataset = tf.data.Dataset.from_tensor_slices((rows, np.float32([1, 2, 3]))).batch(2)
    return {"dense": layer(tensors), "crossed": tf.keras.layers.DenseFeatures(fc.indicator_column(crossed))(tensors),
            "lists": tf.keras.layers.DenseFeatures(age)({"age": [1.0, 2.0]}),
            "losses": model.fit(dataset, epochs=3, verbose=0).history["loss"], "predictions": model.predict(dataset),
            "shapes": [list(w.shape) for w in model.weights]}


@case
def lookups(tf):
    layers = tf.keras.layers
    ids = layers.IntegerLookup(vocabulary=[12, 36, 1138])
    adapted = layers.IntegerLookup()
    adapted.adapt(np.array([[5], [7], [5], [9], [7], [5]]))
    words = layers.StringLookup(vocabulary=["a", "b", "c"], output_mode="one_hot")
    counts = layers.StringLookup(vocabulary=["a", "b"], output_mode="count")
    return {"ids": ids(np.array([[12, 1138, 42], [36, 12, 7]])), "vocabulary": ids.get_vocabulary(),
            "adapted": adapted.get_vocabulary(), "adapted_ids": adapted(np.array([9, 5, 1])),
            "one_hot": words(np.array([["c"], ["a"], ["z"]])),
            "multi_hot": layers.IntegerLookup(vocabulary=[1, 2], output_mode="multi_hot")(np.array([[1, 2], [2, 2]])),
            "count": counts(np.array([["a", "a", "z"], ["b", "a", "b"]]))}


@case
def small_layers(tf):
    layers = tf.keras.layers
    a, b = tf.constant([[1.0, -2.0]]), tf.constant([[3.0, 0.5]])
    steps = tf.constant([[[1.0, 2.0], [3.0, -4.0]]])
    first, second = tf.keras.Input((2,)), tf.keras.Input((2,))
    merged = tf.keras.Model([first, second], layers.average([layers.subtract([first, second]), first]))
    by_name = {"x": tf.keras.Input((2,)), "y": tf.keras.Input((2,))}
    return {"leaky": layers.LeakyReLU()(a), "leaky_alpha": layers.LeakyReLU(alpha=0.1)(a),
            "rescaling": layers.Rescaling(0.5, offset=1.0)(np.uint8([[2, 4]])),
            "subtract": layers.Subtract()([a, b]), "maximum": layers.maximum([a, b]), "minimum": layers.Minimum()([a, b]),
            "average": layers.Average()([a, b, a]), "mean_1d": layers.GlobalAveragePooling1D()(steps),
            "max_1d": layers.GlobalMaxPooling1D()(steps), "merged": merged([a, b]),
            "new_axis": tf.keras.Model(first, first[:, tf.newaxis, 0])(a),
            "values": tf.keras.Model(by_name, layers.Concatenate()(by_name.values()))({"x": a, "y": b})}


@case
def wide_and_deep(tf):
    x, y = data()
    linear = tf.keras.experimental.LinearModel()
    linear.compile(tf.keras.optimizers.SGD(0.05), "mse")
    out = {"linear": linear.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history["loss"]}
    deep = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
    deep(x)
    set_weights(deep)
    both = tf.keras.experimental.WideDeepModel(linear, deep, activation="relu")
    both.compile([tf.keras.optimizers.SGD(0.05), tf.keras.optimizers.Adagrad(0.1)], "mse", metrics=["mae"])
    history = both.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history
    return {**out, "loss": history["loss"], "mae": history["mae"], "weights": len(both.weights)}


@case
def estimators_with_heads(tf):
    x, y = data(64)
    labels = (y[:, 0] > 0).astype(np.int64)
    columns = [tf.feature_column.numeric_column("x", 4)]

    def rows(target, repeat):
        dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, target))
        return (dataset.repeat() if repeat else dataset).batch(16)

    def trained(estimator, target):
        estimator.train(lambda: rows(target, True), steps=10)
        found = estimator.evaluate(lambda: rows(target, False))
        return {key: float(value) for key, value in found.items()}

    e = tf.estimator

    def sgd():
        return tf.keras.optimizers.legacy.SGD(0.1)

    return {"binary": trained(e.LinearEstimator(e.BinaryClassHead(thresholds=[0.3]), columns, tempfile.mkdtemp(),
                                                optimizer=sgd), labels),
            "classes": trained(e.LinearEstimator(e.MultiClassHead(3), columns, tempfile.mkdtemp(), optimizer=lambda: (
                tf.keras.optimizers.legacy.SGD(tf.compat.v1.train.exponential_decay(
                    0.1, tf.compat.v1.train.get_global_step(), 5, 0.5)))), labels),
            "regression": trained(e.LinearEstimator(e.RegressionHead(), columns, tempfile.mkdtemp(), optimizer=sgd), y),
            "baseline": trained(e.BaselineEstimator(e.RegressionHead(), tempfile.mkdtemp(), optimizer=sgd), y),
            "deep": sorted(trained(e.DNNEstimator(e.BinaryClassHead(), [4], columns, tempfile.mkdtemp()), labels)),
            "combined": sorted(trained(e.DNNLinearCombinedEstimator(
                e.RegressionHead(), tempfile.mkdtemp(), columns, "Ftrl", columns, "Adagrad", [4]), y))}


@case
def a_loss_of_one_element(tf):
    v1 = tf.compat.v1

    def model_fn(features, labels, mode):
        logits = v1.layers.dense(features, 2, kernel_initializer=v1.zeros_initializer())
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        rate = v1.train.exponential_decay(0.5, v1.train.get_global_step(), 2, 0.5, staircase=True)
        train_op = v1.train.GradientDescentOptimizer(rate).minimize(loss, global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, tempfile.mkdtemp())
    rows = [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5]], [0, 0, 1]
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(rows).batch(1))
    return {"kernel": estimator.get_variable_value("dense/kernel"),
            "loss": float(estimator.evaluate(lambda: tf.data.Dataset.from_tensor_slices(rows).batch(1))["loss"])}


@case
def what_fit_runs_in_python(tf):
    x, y = data()

    class Within(tf.keras.metrics.Metric):
        def __init__(self, name="within", **named):
            super().__init__(name=name, **named)
            self.hits = self.add_weight(name="hits", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.hits.assign_add(tf.reduce_sum(tf.cast(tf.abs(y_true - y_pred) < 1.0, tf.float32)))

        def result(self):
            return self.hits

        def reset_state(self):
            self.hits.assign(0.0)

    class Small(tf.keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(0.01 * tf.reduce_sum(inputs ** 2))
            return inputs

    class Own(tf.keras.Model):
        def train_step(self, pair):
            features, labels = pair
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(features, training=True) - labels) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss, "first": gradients[0][0, 0]}

    metric_model = dense_model(tf)
    metric_model.compile(tf.keras.optimizers.SGD(0.05), "mse", metrics=[Within()])
    metric = metric_model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history
    inputs = tf.keras.Input((4,))
    adding = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(Small()(tf.keras.layers.Dense(3)(inputs))))
    set_weights(adding)
    adding.compile(tf.keras.optimizers.SGD(0.05), "mse")
    added = adding.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history
    own = Own(inputs, tf.keras.layers.Dense(1)(inputs))
    set_weights(own)
    own.compile(tf.keras.optimizers.SGD(0.05))
    return {"within": metric["within"], "metric_loss": metric["loss"], "added": added["loss"],
            "evaluated": adding.evaluate(x, y, verbose=0), "functional": isinstance(own, Own),
            "own": own.fit(x, y, epochs=2, batch_size=32, shuffle=False, verbose=0).history}


@case
def printing_in_functions(tf):
    path = os.path.join(tempfile.mkdtemp(), "lines")
    count = tf.Variable(1)

    @tf.function
    def step(x):
        count.assign_add(1)
        tf.print("x", x, "count", count, x > 1.5, {"y": [x * 2.0]}, output_stream=f"file://{path}")
        return x + 1.0

    out = [step(tf.constant([1.0, 2.0])), step(tf.constant([0.25, 3.0]))]
    tf.print(tf.range(10), tf.constant("word"), tf.constant(["a", "b"]), tf.constant(1.5), sep="|",
             output_stream=f"file://{path}")
    with open(path) as file:
        return {"out": out, "lines": file.read().split("\n")}


@case
def tables(tf):
    import pandas
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    set_weights(model)
    model.compile(tf.keras.optimizers.SGD(0.01), "mse")
    normal = tf.keras.layers.Normalization(axis=-1)
    normal.adapt(np.asarray(frame, np.float32))
    return {"tensor": tf.convert_to_tensor(frame), "cast": tf.convert_to_tensor(frame, tf.float32),
            "loss": model.fit(frame, frame["b"], epochs=2, batch_size=3, verbose=0).history["loss"],
            "predictions": model.predict(frame, verbose=0), "normal": normal(frame),
            "rows": [row.numpy() for row, _ in tf.data.Dataset.from_tensor_slices((frame, frame["a"]))]}


@case
def cardinalities(tf):
    dataset = tf.data.Dataset
    ten = dataset.range(10)
    made = [ten, ten.batch(4), ten.batch(4, drop_remainder=True), ten.repeat(3), ten.repeat(), ten.repeat().batch(2),
            ten.take(3), ten.take(-1), ten.skip(4), ten.shard(3, 1), ten.map(lambda n: n + 1), ten.shuffle(4), ten.cache(),
            ten.prefetch(2), ten.enumerate(), ten.concatenate(ten), ten.concatenate(ten.repeat()),
            dataset.zip((ten, ten.take(2))), dataset.zip((ten.repeat(), ten)), ten.filter(lambda n: n > 1), ten.repeat(0),
            dataset.from_tensors([1, 2]), dataset.from_tensor_slices(np.zeros([7, 2])), ten.flat_map(dataset.range),
            dataset.from_tensor_slices({"a": np.arange(3), "b": np.arange(3)}), ten.repeat().take(5),
            tf.data.experimental.Counter()]
    return [int(item.cardinality()) for item in made] + [int(tf.data.experimental.cardinality(ten)), len(ten.batch(3))]


@case
def updates_of_metrics(tf):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        labels, found = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.int64, [None])
        scale = tf.Variable(2.0, name="scale")
        pairs = {"accuracy": v1.metrics.accuracy(labels, found), "mean": v1.metrics.mean(tf.cast(found, tf.float32) * scale)}
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            runs = [session.run({name: pair[1] for name, pair in pairs.items()}, {labels: a, found: b})
                    for a, b in (([1, 2], [1, 3]), ([4], [4]))]
            return {"runs": runs, "values": session.run({name: pair[0] for name, pair in pairs.items()}),
                    "variable": session.run(scale)}


@case
def layers_of_your_own(tf):
    class Scaled(tf.keras.layers.Layer):
        def __init__(self, units, **named):
            super().__init__(**named)
            self.units = units

        def build(self, shape):
            self.w = self.add_weight(name="w", shape=(shape[-1], self.units), initializer="ones")
            self.b = tf.Variable(tf.zeros([self.units]) + 0.5, name="b")

        def call(self, inputs):
            return tf.matmul(inputs, self.w) + self.b

    x, y = data()
    inputs = tf.keras.Input((4,))
    middle = Scaled(3, name="middle")
    model = tf.keras.Model(inputs, Scaled(1)(middle(inputs)))
    model.compile(tf.keras.optimizers.SGD(0.001), "mse")
    losses = model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history["loss"]
    sequence = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2, name="first"), tf.keras.layers.Dense(1)])
    set_weights(sequence)
    part = tf.keras.Model(sequence.inputs, sequence.get_layer("first").output)
    return {"losses": losses, "weights": model.get_weights(), "middle": tf.keras.Model(inputs, middle.output)(x[:2]),
            "part": part(x[:2]), "input": list(middle.input.shape), "w": middle.w.numpy().shape}


@case
def printed(tf):
    """What print shows of tensors, variables and values of replicas."""
    matrix, row = tf.constant([[1.5, 2.0], [3.0, 4.0]]), tf.constant([1, 2])
    variable = tf.Variable([[1.0], [2.0]], name="v")
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    values = strategy.experimental_distribute_values_from_function(lambda c: tf.constant([[c.replica_id_in_sync_group]] * 2))
    shown = [matrix, row, tf.constant(2.5), tf.constant("a"), tf.constant([True, False]), values]
    return {"str": [str(value) for value in shown], "repr": [repr(value) for value in shown + [variable]]}


@case
def checkpoints_of_states(tf):
    """Metrics of all kinds and the position of an iterator, restored into those that have gone on and into new ones."""
    class Total(tf.keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="own")
            self.total = self.add_weight(name="total", initializer="zeros")

        def update_state(self, values):
            self.total.assign_add(tf.reduce_sum(values))

        def result(self):
            return self.total

    def objects():
        return {"mean": tf.keras.metrics.Mean(), "own": Total(), "iterator": iter(dataset),
                "more": [tf.keras.metrics.Precision(), tf.keras.metrics.SparseCategoricalAccuracy()]}

    def update(o, value):
        o["mean"].update_state(value)
        o["own"].update_state(tf.constant([value]))
        o["more"][0].update_state([1.0, 0.0], [value, 1.0])
        o["more"][1].update_state([1, 0], [[0.1, value], [0.2, 0.8]])

    def results(o):
        return [float(metric.result()) for metric in (o["mean"], o["own"], *o["more"])]

    dataset = tf.data.Dataset.range(8).batch(3)
    prefix = os.path.join(tempfile.mkdtemp(), "states")
    first = objects()
    update(first, 1.0)
    next(first["iterator"])
    tf.train.Checkpoint(**first).write(prefix)
    update(first, 5.0)
    rest = [row.numpy() for row in first["iterator"]]
    tf.train.Checkpoint(**first).read(prefix).assert_consumed()
    second = objects()
    waiting = tf.train.Checkpoint(**second).read(prefix)
    update(second, 3.0)
    waiting.assert_consumed()
    return {"first": results(first), "second": results(second), "rest": rest,
            "again": [row.numpy() for row in first["iterator"]], "other": [row.numpy() for row in second["iterator"]],
            "names": sorted(name for name, _ in tf.train.list_variables(prefix) if "mean" in name or "iterator" in name)}


@case
def weights_of_layers_that_were_called(tf):
    """Layers have their weights as soon as a functional model calls them; a loss broadcasts labels."""
    class Scale(tf.keras.layers.Layer):
        def build(self, shape):
            self.factor = self.add_weight(name="factor", shape=(shape[-1],), initializer="ones")

        def call(self, x):
            return x * self.factor

    x = tf.keras.Input((3,))
    dense, scale, embedding = tf.keras.layers.Dense(4), Scale(), tf.keras.layers.Embedding(5, 2)
    y = scale(dense(x))
    embedding(tf.keras.Input((2,), dtype="int64"))
    shapes = [[tuple(w.shape) for w in layer.weights] for layer in (dense, scale, embedding)]
    model = tf.keras.Model(x, y)
    set_weights(model)
    losses = {}
    for name in ("mse", "mae", "hinge", "huber"):
        model.compile("sgd", name)
        losses[name] = model.evaluate(data(8, 3)[0], np.float32([1, 0, 2, 1, 0, 1, 2, 0]), verbose=0)
    return {"shapes": shapes, "losses": losses, "same": model.weights[0] is dense.weights[0]}


@case
def parts_of_batches(tf):
    """What replicas of one process get of batches that are full and of the last one, in structures."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    parts = []
    for rows, batch in ((4, 8), (5, 8), (1, 8), (7, 7), (10, 4)):
        pairs = tf.data.Dataset.range(rows).map(lambda n: ({"x": n}, n + 1)).batch(batch)
        for features, labels in strategy.experimental_distribute_dataset(pairs):
            parts.append([[v.numpy() for v in strategy.experimental_local_results(part)]
                          for part in (features["x"], labels)])
    return parts
