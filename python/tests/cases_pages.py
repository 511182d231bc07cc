# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: what TensorFlow's guides and tutorials do, page after page, that was once missing or
gave other numbers."""
import os
import tempfile

import numpy as np
from cases import case, data, set_weights


@case
def regularizers_in_replicas(tf):
    """scale_regularization_loss divides by the replicas also where strategy.run is called outside of its scope."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_regularizer=tf.keras.regularizers.L2(0.1),
                                                           input_shape=(4,))])
        set_weights(model)
        optimizer = tf.keras.optimizers.SGD(0.1)

    def step(rows):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(rows, training=True)[:, 0])
            loss += tf.nn.scale_regularization_loss(tf.add_n(model.losses))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    run = tf.function(lambda rows: strategy.reduce("SUM", strategy.run(step, args=(rows,)), axis=None))
    rows = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data()[0]).batch(8))
    return {"losses": [run(batch) for batch in rows], "weights": model.get_weights()}


@case
def sizes_known_when_it_is_run(tf):
    @tf.function
    def made(x):
        n = tf.shape(x)[0]
        return [tf.ones((n, 2)), tf.zeros([n]), tf.fill([n, 2], 3), tf.fill((2, n), x[0, 0]), tf.eye(n), tf.eye(n, 3),
                tf.zeros(tf.shape(x)), tf.ones((tf.cast(n, tf.int64), 1)), tf.zeros((n,), tf.int64), tf.ones(n),
                tf.broadcast_to(x[:1], (n, 3))]

    ragged = tf.data.Dataset.range(3).map(lambda n: tf.fill([tf.cast(n, tf.int32)], n)).padded_batch(3)
    return {"two": made(np.float32([[1, 2, 3], [4, 5, 6]])), "one": made(np.float32([[1, 2, 3]])),
            "now": [tf.ones((tf.constant(2), 1)), tf.zeros(tf.constant([2, 1])), tf.zeros(tf.TensorShape([1, 2])),
                    tf.eye(tf.constant(2)), tf.zeros([])], "map": list(ragged.as_numpy_iterator()),
            "python": tf.py_function(lambda a: np.flip(a, 1), [tf.constant([[1.0, 2.0], [3.0, 4.0]])], [tf.float32])}


@case
def losses_of_calls(tf):
    """layer.losses outside of functions: values of the last call and of regularizers, from which a tape goes back."""
    squared, x = tf.keras.regularizers.L2(0.1), tf.constant([[1.0, 2.0], [3.0, -1.0]])

    class Inner(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(2, kernel_regularizer=squared)

        def call(self, x):
            self.add_loss(tf.reduce_sum(x ** 2))
            y = self.dense(x)
            self.add_loss(0.1 * tf.reduce_sum(y))
            return y

    class Outer(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.inner, self.last = Inner(), tf.keras.layers.Dense(1)

        def call(self, x):
            y = self.inner(x)
            self.add_loss(tf.reduce_mean(y))
            return self.last(self.inner(y))

    def step(model):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2) + tf.add_n(model.losses)
        return [loss, len(model.losses), tape.gradient(loss, model.trainable_variables)]

    outer = Outer()
    outer(x)
    set_weights(outer)
    plain = tf.keras.Sequential([tf.keras.layers.Dense(2, kernel_regularizer=squared, input_shape=(2,)),
                                 tf.keras.layers.Dense(1, bias_regularizer="l1")])
    set_weights(plain)
    first = tf.keras.Input((2,))
    middle = tf.keras.layers.Dense(2)(first)
    functional = tf.keras.Model(first, tf.keras.layers.Dense(1)(middle))
    functional.add_loss(tf.reduce_sum(middle ** 2))
    set_weights(functional)
    out = {"outer": step(outer), "plain": step(plain), "functional": step(functional), "again": step(outer),
           "inner": [len(outer.inner.losses)], "function": tf.function(lambda: step(outer))()}
    outer.compile("sgd", "mse")
    return {**out, "fit": outer.fit(x, tf.ones([2, 1]), epochs=2, verbose=0).history["loss"]}


@case
def variables_that_a_tape_has_seen(tf):
    class Scale(tf.Module):
        def __init__(self):
            super().__init__()
            self.k = tf.Variable(2.0, name="k")

        @tf.function
        def __call__(self, x):
            return self.k * x

    v, u, scale = tf.Variable(2.0, name="v"), tf.Variable(3.0, trainable=False), Scale()
    with tf.GradientTape() as tape:
        y = v * v + u
    gradient = tape.gradient(y, v)
    with tf.GradientTape() as other:
        z = scale(3.0) ** 2
    return {"after": [item.name for item in tape.watched_variables()], "gradient": gradient,
            "module": [item.name for item in other.watched_variables()],
            "of_module": other.gradient(z, other.watched_variables())}


def counts(layer):
    return [len(layer.weights), len(layer.trainable_weights), len(layer.non_trainable_weights)]


@case
def layers_that_were_frozen_first(tf):
    """Transfer learning: a base that is frozen before it has variables, and trained later."""
    keras, layers, (x, y) = tf.keras, tf.keras.layers, data(16)
    base = keras.Sequential([keras.Input((4,)), layers.Dense(2), layers.BatchNormalization()])
    base.trainable = False
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(1)(base(inputs, training=False)))
    set_weights(model)
    out = []
    for trainable in (False, True, False):
        base.trainable = trainable
        model.compile(keras.optimizers.SGD(0.05), "mse")
        out.append([counts(model), model.fit(x, y, epochs=2, shuffle=False, verbose=0).history["loss"], model.get_weights()])
    dense, norm = layers.Dense(3, trainable=False), layers.BatchNormalization()
    norm.trainable = False
    for layer in (dense, norm):
        layer.build((None, 4))
        out.append(counts(layer))
        layer.trainable = True
        out.append(counts(layer))
    with tf.GradientTape() as tape:
        z = tf.reduce_sum(dense(tf.ones([1, 4])))
    return {"out": out, "gradients": tape.gradient(z, dense.trainable_weights)}


@case
def layers_that_are_added_later(tf):
    model, (x, y) = tf.keras.Sequential(), data(16)
    found = []
    for layer in (tf.keras.Input((4,)), tf.keras.layers.Dense(2), tf.keras.layers.Dense(3)):
        model.add(layer)
        found.append([model.count_params(), len(model.weights), list(model(x).shape) if model.layers else []])
    model.pop()
    model.add(tf.keras.layers.Dense(1))
    set_weights(model)
    model.compile("sgd", "mse")
    found.append(model.fit(x, y, shuffle=False, verbose=0).history["loss"])
    model.add(tf.keras.layers.Dense(1, kernel_initializer="ones"))
    model.compile("sgd", "mse")
    return found + [model.fit(x, y, shuffle=False, verbose=0).history["loss"], model.count_params()]


@case
def labels_that_are_vectors(tf):
    """Losses and metrics of the program are given labels as a column."""
    keras, (x, y) = tf.keras, data(16)
    classes = (np.arange(16) % 3).astype(np.int64)

    class Hits(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="hits")
            self.hits = self.add_weight(name="hits", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            found = tf.reshape(tf.argmax(y_pred, axis=1), (-1, 1))
            self.hits.assign_add(tf.reduce_sum(tf.cast(tf.cast(y_true, "int32") == tf.cast(found, "int32"), "float32")))

        def result(self):
            return self.hits

    def first(y_true, y_pred):
        return tf.cast(y_true[:, 0], tf.float32) * 2.0

    class Own(keras.Model):
        def train_step(self, batch):
            features, labels = batch
            with tf.GradientTape() as tape:
                loss = self.compiled_loss(labels, self(features, training=True))
            self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
            return {"loss": loss}

    out = []
    for metrics in ([Hits(), "accuracy"], [first]):
        model = keras.Sequential([keras.layers.Dense(3, "softmax", input_shape=(4,))])
        set_weights(model)
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=metrics)
        out += [model.fit(x, classes, epochs=2, shuffle=False, verbose=0, batch_size=5).history,
                model.evaluate(x, classes, verbose=0)]
    inputs = keras.Input((4,))
    own = Own(inputs, keras.layers.Dense(1)(inputs))
    set_weights(own)
    own.compile("sgd", lambda y_true, y_pred: tf.square(y_true - y_pred))
    return out + [own.fit(x, y[:, 0].astype(np.float64), shuffle=False, verbose=0, batch_size=16).history["loss"]]


@case
def arguments_of_concrete_functions(tf):
    def kind(call):
        try:
            return call()
        except (TypeError, tf.errors.InvalidArgumentError) as error:
            return type(error).__name__

    power = tf.function(lambda a, b: a ** b).get_concrete_function(a=tf.TensorSpec(None, tf.float32), b=2)
    spec = tf.TensorSpec([], tf.float32)
    minus = tf.function(lambda a, b: a - b).get_concrete_function(spec, spec)
    one, five = tf.constant(1.0), tf.constant(5.0)
    return [power(five), power(a=five), kind(lambda: power(five, b=3)), kind(power), kind(lambda: power(five, c=2)),
            minus(five, one), minus(b=five, a=one), minus(five, b=one), kind(lambda: minus(tf.constant(1))),
            kind(lambda: minus(tf.constant(1), tf.constant(2)))]


@case
def files_of_models_of_the_program(tf):
    """Weights of subclasses are found by attributes, whatever their layers are called, also before the first call."""
    keras, x = tf.keras, data(4)[0]

    class Block(keras.layers.Layer):
        def __init__(self, units, **named):
            super().__init__(**named)
            self.units = units
            self.inner = keras.Sequential([keras.layers.Dense(units), keras.layers.Dense(units)])

        def call(self, x):
            return self.inner(x)

        def get_config(self):
            return {**super().get_config(), "units": self.units}

    class Net(keras.Model):
        def __init__(self, widths, **named):
            super().__init__(**named)
            self.widths = widths
            self.dense = [keras.layers.Dense(width) for width in widths]
            self.block = Block(3)

        def call(self, x):
            for layer in self.dense:
                x = layer(x)
            return self.block(x)

        def get_config(self):
            return {"widths": self.widths}

    folder = tempfile.mkdtemp()
    paths = [os.path.join(folder, name) for name in ("weights", "saved", "more", "part")]
    net = Net([5, 2])
    net(x)
    set_weights(net)
    net.compile("sgd", "mse")
    net.save_weights(paths[0])
    net.save(paths[1])
    loaded = keras.models.load_model(paths[1], custom_objects={"Net": Net, "Block": Block})
    built, waiting = Net([5, 2]), Net([5, 2])
    built(x)
    built.load_weights(paths[0]).assert_existing_objects_matched()
    waiting.load_weights(paths[0]).expect_partial()
    late = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
    early = keras.Sequential([keras.layers.Dense(2, input_shape=(4,)), keras.layers.Dense(1)])
    set_weights(early)
    early.save_weights(paths[2])
    late.load_weights(paths[2])
    larger = keras.Sequential([keras.layers.Dense(2, input_shape=(4,)), keras.layers.Dense(1), keras.layers.Dense(1)])
    status = larger.load_weights(paths[2])
    try:
        missing = status.assert_existing_objects_matched()
    except AssertionError:
        missing = "missing"
    names = [name for name, _ in tf.train.list_variables(paths[0]) if name.startswith(("dense", "block"))]
    waits = tf.train.Checkpoint()
    waits.read(paths[0])
    waits.dense = [tf.train.Checkpoint(bias=tf.Variable(tf.ones([5])))]
    waits.dense[0].kernel = tf.Variable(tf.zeros([4, 5]))
    return {"out": [model(x) for model in (net, loaded, built, waiting, late)], "missing": missing,
            "larger": larger.get_weights()[:4], "names": sorted(names), "late": waits.dense[0].kernel}


@case
def events_of_callbacks(tf):
    """What callbacks are told of a fit with validation, an evaluation and a prediction, in loops of C and of Python."""
    keras, (x, y) = tf.keras, data(20)
    numbered = ("epoch_begin", "epoch_end", "train_batch_begin", "train_batch_end", "test_batch_begin", "test_batch_end",
                "predict_batch_begin", "predict_batch_end")

    def teller(name):
        return lambda self, *args: self.events.append([name, *args[:-1], sorted(args[-1] or ())])

    All = type("All", (keras.callbacks.Callback,), {f"on_{name}": teller(name) for name in (
        *numbered, "train_begin", "train_end", "test_begin", "test_end", "predict_begin", "predict_end")})

    class Own(keras.Model):
        def train_step(self, batch):
            return super().train_step(batch)

        def test_step(self, batch):
            return super().test_step(batch)

    found = []
    for kind in (keras.Model, Own):
        inputs = keras.Input((4,))
        model, told = kind(inputs, keras.layers.Dense(1)(inputs)), All()
        model.compile("sgd", "mse")
        told.events = []
        model.fit(x, y, epochs=2, batch_size=8, verbose=0, validation_data=(x, y), callbacks=[told])
        model.evaluate(x, y, batch_size=8, verbose=0, callbacks=[told])
        shapes = [list(model.predict(rows, verbose=0, callbacks=[told]).shape) for rows in (
            x, tf.data.Dataset.from_tensor_slices((x, y)).batch(8))]
        found.append([told.events, shapes])
    return found


@case
def batches_by_their_number(tf):
    """keras.utils.Sequence and generators of batches."""
    keras, (x, y) = tf.keras, data(20)

    class Batches(keras.utils.Sequence):
        ends = 0

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return x[i * 8:(i + 1) * 8], y[i * 8:(i + 1) * 8].astype(np.float64)

        def on_epoch_end(self):
            self.ends += 1

    def rows():
        while True:
            for i in range(2):
                yield x[i * 10:(i + 1) * 10], y[i * 10:(i + 1) * 10]

    model = keras.Sequential([keras.layers.Dense(1, input_shape=(4,))])
    set_weights(model)
    model.compile("sgd", "mse", metrics=["mae"])
    batches = Batches()
    first = model.fit(batches, epochs=2, shuffle=False, verbose=0, validation_data=Batches()).history
    return {"first": first, "ends": batches.ends, "evaluated": model.evaluate(Batches(), verbose=0),
            "second": model.fit(rows(), steps_per_epoch=3, epochs=2, verbose=0).history,
            "predicted": [model.predict(Batches(), verbose=0), model.predict(rows(), steps=2, verbose=0)]}


@case
def functions_of_the_backend(tf):
    K, t = tf.keras.backend, tf.constant([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    a, b = tf.constant([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]]), tf.constant([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
    unary = ("sum", "mean", "max", "min", "prod", "std", "var", "abs", "argmax", "square", "sqrt", "exp", "round", "sign",
             "flatten", "expand_dims", "softmax", "l2_normalize", "relu", "elu", "sigmoid", "tanh", "softplus",
             "softsign", "ndim", "int_shape", "shape", "zeros_like", "ones_like", "sin", "cos", "transpose", "eval",
             "cast_to_floatx", "stop_gradient")
    binary = ("maximum", "minimum", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
    v = K.variable([1.0, 2.0])
    K.update_add(v, [1.0, 1.0])
    added = K.get_value(v)
    K.update(v, [5.0, 5.0])
    K.update_sub(v, [1.0, 0.0])
    return {
        "unary": {name: getattr(K, name)(a) for name in unary},
        "binary": {name: getattr(K, name)(a, b) for name in binary},
        "axes": [K.mean(a, axis=-1), K.sum(a, axis=0, keepdims=True), K.any(a > 0, axis=0), K.all(a > 0), K.argmin(a, axis=0),
                 K.std(a, axis=0), K.var(a, axis=1), K.squeeze(K.expand_dims(a, 1), 1), K.concatenate([a, b]),
                 K.stack([a, b]), K.permute_dimensions(a, (1, 0)), K.one_hot(tf.constant([0, 2]), 3), K.pow(a, 2.0),
                 K.dot(a, tf.transpose(b)), K.relu(a, alpha=0.1, max_value=2.0), K.log(b), K.clip(a, -1.0, 2.0),
                 K.batch_flatten(tf.ones([2, 2, 2])), K.reshape(a, (3, 2)), K.tile(a, [1, 2]), K.cast(a, "int32"),
                 K.gather(a, tf.constant([1, 0]))],
        "made": [K.constant([1, 2]), K.eye(2), K.zeros((2,)), K.ones((1, 2)), added, v],
        "losses": [K.binary_crossentropy(t, b), K.binary_crossentropy(t, a, from_logits=True),
                   K.categorical_crossentropy(t, b), K.categorical_crossentropy(t, a, from_logits=True),
                   K.sparse_categorical_crossentropy(tf.constant([1, 0]), b)]}


@case
def weights_of_outputs(tf):
    """Sample weights of each of several outputs, in every form."""
    keras, layers = tf.keras, tf.keras.layers
    (x, y), more = data(20), data(20, 3)[0]
    kinds, weights = keras.utils.to_categorical(np.arange(20) % 3), (np.arange(20.0) / 10, np.arange(20.0)[::-1] / 10)
    named = [{"a": x, "b": more}, {"score": y, "kind": kinds}, {"score": weights[0], "kind": weights[1]}]

    def fitted(*args, **arguments):
        first, second = keras.Input((4,), name="a"), keras.Input((3,), name="b")
        both = layers.concatenate([first, second])
        model = keras.Model([first, second], [layers.Dense(1, name="score")(both),
                                              layers.Dense(3, "softmax", name="kind")(both)])
        set_weights(model)
        model.compile("sgd", ["mse", "categorical_crossentropy"], weighted_metrics=[["mae"], ["accuracy"]],
                      loss_weights=[1.0, 0.5])
        return model.fit(*args, epochs=2, shuffle=False, verbose=0, **arguments).history

    rows = ([x, more], [y, kinds])
    return {"list": fitted(*rows, batch_size=8, sample_weight=list(weights)),
            "dict": fitted(*named[:2], batch_size=8, sample_weight=named[2]),
            "some": fitted(*rows, batch_size=8, sample_weight={"kind": weights[1]}),
            "dataset": fitted(tf.data.Dataset.from_tensor_slices(tuple(named)).batch(8)),
            "held": fitted(*rows, batch_size=8, validation_data=(*rows, list(weights)))}


@case
def layers_in_lists_and_dicts(tf):
    """Layers and variables that attributes get after they were set, and a model with a build of its own."""
    keras, (x, y) = tf.keras, data(8)

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks, self.named = [], {}
            self.last = keras.layers.Dense(1)
            for _ in range(2):
                self.blocks.append(keras.layers.Dense(2))
            self.blocks += [keras.layers.Dense(2)]
            self.named["x"] = keras.layers.Dense(3)
            self.named["a"] = [keras.layers.Dense(2)]

        def build(self, shape):
            self.scale = self.add_weight("scale", (int(shape[-1]),), initializer="ones")

        def call(self, x):
            x = x * self.scale
            for layer in [*self.blocks, self.named["x"], self.named["a"][0], self.last]:
                x = layer(x)
            return x

    net = Net()
    net(x)
    names = {layer.name: i for i, layer in enumerate([*net.blocks, net.named["x"], net.named["a"][0], net.last])}
    set_weights(net)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(x) - y) ** 2)
    gradients = tape.gradient(loss, net.trainable_variables)
    folder = tempfile.mkdtemp()
    net.save_weights(os.path.join(folder, "w"))
    other = Net()
    other(x)
    other.load_weights(os.path.join(folder, "w"))
    net.compile("sgd", "mse")
    return {"order": [names[layer.name] for layer in net.layers], "shapes": [list(w.shape) for w in net.weights],
            "gradients": gradients, "loaded": other(x), "losses": net.fit(x, y, epochs=2, verbose=0).history["loss"],
            "trained": net.get_weights()}


@case
def two_towers(tf):
    """Models over texts of candidates: called with lists, mapped over datasets, looked up and exported."""
    layers = tf.keras.layers

    class Ranking(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.users, self.items = (tf.keras.Sequential([
                layers.StringLookup(vocabulary=words, mask_token=None), layers.Embedding(4, 2)])
                for words in (["u1", "u2", "u3"], ["m1", "m2", "m3"]))
            self.age = tf.keras.Sequential([layers.IntegerLookup(vocabulary=[1, 2], mask_value=None), layers.Embedding(4, 2)])
            self.score = layers.Dense(1)

        def call(self, inputs):
            user, item = inputs
            return self.score(tf.concat([self.users(user), self.items(item)], axis=1))

    model = Ranking()
    model((tf.constant(["u1"]), tf.constant(["m1"])))
    model.age(np.array([1]))
    set_weights(model)
    items = tf.data.Dataset.from_tensor_slices(["m1", "m2", "m3"])
    every = tf.concat(list(items.batch(2).map(model.items)), axis=0)
    top = tf.math.top_k(tf.matmul(model.users(tf.constant(["u3"])), every, transpose_b=True), k=2)
    folder = tempfile.mkdtemp()
    tf.saved_model.save(model, folder)
    loaded = tf.saved_model.load(folder)
    given = {name: tf.constant([word]) for name, word in zip(("input_1", "input_2"), ("u2", "m9"))}
    (served,) = loaded.signatures["serving_default"](**given).values()
    first = tf.keras.Sequential([layers.Dense(2, input_shape=(3,)), layers.Dense(1, bias_initializer=tf.keras.initializers.
                                                                                 Constant(0.5))])
    return {"lists": list(Ranking()((["u2"], ["m3"])).shape), "every": every, "values": top.values, "indices": top.indices,
            "served": served, "age": model.age(np.array([2, 7])), "bias": first.layers[-1].bias}


@case
def masks_weigh_losses(tf):
    """mask_zero with a loss for each step: in fit, in steps of Python, in functions and outside of them."""
    keras, layers, random = tf.keras, tf.keras.layers, np.random.RandomState(4)
    x, t, w = random.randint(0, 6, (24, 5)), random.rand(24, 5, 1).astype(np.float32), np.arange(24.0)
    x[0] = 0

    class Own(keras.Model):
        def train_step(self, batch):
            return super().train_step(batch)

    def made(kind=keras.Model, several=False):
        inputs = keras.Input((5,), dtype="int32")
        steps = layers.Embedding(6, 4, mask_zero=True)(inputs)
        whole = layers.Dense(1)(layers.GlobalAveragePooling1D()(steps))
        model = kind(inputs, [layers.Dense(1)(steps), whole] if several else layers.Dense(1)(steps))
        set_weights(model)
        model.compile("sgd", "mse", **({} if kind is Own else {"metrics": ["mae"], "weighted_metrics": ["mse"]}))
        return model

    def losses(model, y=t, **named):
        return list(model.fit(x, y, epochs=2, shuffle=False, verbose=0, batch_size=8, **named).history.values())

    loss, model = keras.losses.MeanSquaredError(), made()

    def step(features, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, model(features, training=True))
        return [value, tape.gradient(value, model.layers[2].trainable_variables)]

    embedding, lstm = layers.Embedding(6, 4, mask_zero=True), layers.LSTM(3)
    for _ in range(2):
        embedded = embedding(x)
        embedding.set_weights([np.arange(24.0).reshape(6, 4) / 10])
        last = lstm(embedded)
        set_weights(lstm)
    return {"fit": losses(made()), "weighted": losses(made(), sample_weight=w), "own": losses(made(Own)),
            "own_weighted": losses(made(Own), sample_weight=w), "evaluated": made().evaluate(x, t, verbose=0),
            "several": losses(made(several=True), [t, t[:, 0]]), "function": tf.function(step)(tf.constant(x, tf.int32), t),
            "now": step(x, t), "mask": np.asarray(embedded._keras_mask), "last": last}


@case
def preprocessing_of_guides(tf):
    layers, words = tf.keras.layers, np.array([["a"], ["b"], ["long word"], [""]])
    texts = tf.constant(["The Brain is wider than the Sky", "With ease and You beside"])
    bags = layers.TextVectorization(output_mode="tf-idf", ngrams=2)
    bags.adapt(texts)
    return {"salt": layers.Hashing(64, salt=1337)(np.array([[3], [99999]])), "words": layers.Hashing(9, salt=[1, 2])(words),
            "plain": layers.Hashing(9)(words), "bags": bags(["The Brain is deeper than the sea"])}


@case
def pieces_of_pages(tf):
    """Small names of the pages on datasets, records and evaluation."""
    dataset, matrix, feature = tf.data.Dataset, tf.math.confusion_matrix, tf.train.Feature

    def rows(given):
        return [[v.numpy() for v in tf.nest.flatten(row)] for row in given]

    def error(call):
        try:
            return call()
        except tf.errors.InvalidArgumentError as found:
            return type(found).__name__

    features = [feature(int64_list=tf.train.Int64List(value=[1, -3])), feature(),
                feature(float_list=tf.train.FloatList(value=[2.718281828, 1e-8, 1.5])),
                feature(bytes_list=tf.train.BytesList(value=[b"a\"b\n\xff", b"text"]))]
    pairs = dataset.from_tensor_slices(([1, 2, 3], [3.0, 1.0, 0.0]))
    return {
        "while": rows(dataset.range(10).take_while(lambda n: n < 5)) + rows(pairs.take_while(lambda a, b: b > 0)),
        "scan": rows(dataset.range(5).scan(np.int64(0), lambda s, n: (s + n, s + n))),
        "scan_2": rows(dataset.range(3).scan((0, 1.0), lambda s, n: (
            (s[0] + 1, s[1] * 2), (s[0], tf.cast(n, tf.float32) * s[1])))),
        "unique": rows(dataset.from_tensor_slices([1, 1, 2, 3, 3]).unique()) + rows(
            dataset.from_tensor_slices(["a", "b", "a"]).unique()),
        "single": [dataset.from_tensors(5).get_single_element(), error(lambda: dataset.range(2).get_single_element()),
                   error(lambda: dataset.range(0).get_single_element())],
        "matrix": [matrix([1, 2, 4], [2, 2, 4]), matrix([0, 1], [1, 1], num_classes=3),
                   matrix([[0], [1]], [1, 1], weights=[0.5, 2.0], dtype=tf.float32),
                   tf.function(lambda a, b: matrix(a, b, 3))(tf.constant([0, 2]), tf.constant([1, 2]))],
        "features": [[str(item), item.WhichOneof("kind")] for item in features]}
