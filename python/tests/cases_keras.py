# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: training of Keras' models as its guides do it, with every number compared."""
import os
import tempfile

import numpy as np
from cases import case, data, dense_model, set_weights


def _stepped(tf):
    """A class of models with steps of their own, as Keras writes them by default."""
    class Stepped(tf.keras.Model):
        def train_step(self, batch):
            x, y = batch
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compiled_loss(y, y_pred, regularization_losses=self.losses)
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            self.compiled_metrics.update_state(y, y_pred)
            return {metric.name: metric.result() for metric in self.metrics}

        def test_step(self, batch):
            x, y = batch
            y_pred = self(x, training=False)
            self.compiled_loss(y, y_pred, regularization_losses=self.losses)
            self.compiled_metrics.update_state(y, y_pred)
            return {metric.name: metric.result() for metric in self.metrics}

    return Stepped


@case
def metrics_that_are_functions(tf):
    def rows(y_true, y_pred):
        return tf.reduce_sum(tf.square(y_true - y_pred), -1)

    def number(y_true, y_pred):
        return tf.reduce_mean(tf.abs(y_true - y_pred))

    def classes(y_true, y_pred):
        return tf.keras.metrics.sparse_categorical_accuracy(y_true, y_pred)

    x, y = data(10)
    found = {}
    for name, labels in (("column", y), ("vector", y[:, 0]), ("float64", y[:, 0].astype(np.float64))):
        inputs = tf.keras.Input((4,))
        model = _stepped(tf)(inputs, tf.keras.layers.Dense(1)(inputs))
        plain = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
        for one in (model, plain):
            set_weights(one)
            one.compile("sgd", lambda a, b: tf.reduce_mean(tf.square(a - b), -1), metrics=[rows, number, "mae"])
        found[name] = [part for one in (model, plain) for part in (
            one.evaluate(x, labels, batch_size=4, verbose=0, return_dict=True),
            one.fit(x, labels, batch_size=4, shuffle=False, epochs=2, verbose=0).history)]
    many = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(4,))])
    set_weights(many)
    many.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=[classes, "accuracy"])
    metric = tf.keras.metrics.MeanMetricWrapper(rows)
    metric.update_state(y, x[:, :1])
    metric.update_state(y[:2], x[:2, :1], sample_weight=[2.0, 0.5])
    return {**found, "classes": many.evaluate(x, np.arange(10) % 3, batch_size=4, verbose=0), "wrapper": metric.result(),
            "name": metric.name}


@case
def costs_of_weights(tf):
    class Cost(tf.keras.regularizers.Regularizer):
        def __call__(self, weights):
            return 0.5 * tf.reduce_sum(tf.abs(weights))

    class Own(tf.keras.layers.Layer):
        def __init__(self, regularizer):
            super().__init__()
            self.regularizer = regularizer

        def build(self, shape):
            self.w = self.add_weight(name="w", shape=(4, 1), initializer="ones", regularizer=self.regularizer)

        def call(self, x):
            self.add_loss(0.01 * tf.reduce_sum(tf.square(x)))
            return tf.matmul(x, self.w)

    x, y = data(8)
    found = {}
    for name, regularizer in (("l2", tf.keras.regularizers.L2(0.1)), ("by name", "l1"), ("own", Cost()),
                              ("function", lambda weights: 0.1 * tf.reduce_sum(weights))):
        layer = Own(regularizer)
        layer(x)
        layer(x)
        model = tf.keras.Sequential([Own(regularizer), tf.keras.layers.Dense(
            1, kernel_initializer="ones", kernel_regularizer="l2")])
        model(x)
        with tf.GradientTape() as tape:
            model(x)
            total = tf.add_n(model.losses)
        gradients = tape.gradient(total, model.trainable_variables[:2])
        model.compile("sgd", "mse")
        found[name] = [layer.losses, model.losses, gradients, model.evaluate(x, y, verbose=0),
                       model.fit(x, y, batch_size=4, shuffle=False, verbose=0).history, model.get_weights()]
    return found


@case
def crossentropies_beyond_probabilities(tf):
    """Of outputs that are 0 or 1 in float32: Keras computes them from what the activation was given."""
    keras = tf.keras
    x, y = data(6)
    classes = np.arange(6) % 3
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(3)(inputs)
    outputs = [keras.layers.Activation("sigmoid")(hidden), keras.layers.Dense(3, activation="softmax")(inputs),
               keras.layers.Softmax()(hidden), keras.layers.Dense(3, activation=tf.nn.softmax)(inputs)]
    model = keras.Model(inputs, outputs)
    set_weights(model)
    model.set_weights([weight * 200 for weight in model.get_weights()])
    found = {}
    for number, loss, labels in (
            (0, keras.losses.BinaryCrossentropy(), (y > 0).astype(np.float32)),
            (0, keras.losses.binary_crossentropy, np.eye(3, dtype=np.float32)[classes]),
            (1, keras.losses.CategoricalCrossentropy(reduction="sum"), np.eye(3, dtype=np.float32)[classes]),
            (1, keras.losses.sparse_categorical_crossentropy, classes),
            (2, keras.losses.SparseCategoricalCrossentropy(), classes),
            (3, keras.losses.SparseCategoricalCrossentropy(), classes)):
        if number == 0 and labels.shape[1] == 1:
            labels = np.repeat(labels, 3, 1)
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss(labels, model(x)[number]))
        gradient = tape.gradient(value, model.trainable_variables[0])
        found[f"{len(found)}"] = [value, gradient]

    @tf.function
    def traced():
        return keras.losses.SparseCategoricalCrossentropy()(classes, model(x)[1])

    return {**found, "traced": traced()}


@case
def normalization_told_by_a_tensor(tf):
    v1, found = tf.compat.v1, []
    x = data(6)[0] + 3
    for value in (False, True):
        for shape in ((6, 4), (6, 1, 2, 2)):
            with v1.Graph().as_default():
                inputs, training = v1.placeholder(tf.float32, (None,) + shape[1:]), v1.placeholder(tf.bool, ())
                y = v1.layers.batch_normalization(inputs, training=training, momentum=0.5)
                updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    feed = {inputs: x.reshape(shape), training: value}
                    found += [session.run([y] + list(updates), feed)[0], session.run(v1.global_variables()[2:])]
    return found


@case
def variants_of_optimizers(tf):
    x, y = data(8)
    optimizers, legacy = tf.keras.optimizers, tf.keras.optimizers.legacy
    found = {}
    for name, make in (("amsgrad", lambda: optimizers.Adam(0.1, amsgrad=True)),
                       ("amsgrad of AdamW", lambda: optimizers.AdamW(0.1, amsgrad=True)),
                       ("legacy amsgrad", lambda: legacy.Adam(0.1, amsgrad=True)),
                       ("legacy decay", lambda: legacy.SGD(0.1, decay=0.5))):
        model = dense_model(tf)
        model.compile(make(), "mse")
        history = model.fit(x, y, batch_size=4, shuffle=False, epochs=2, verbose=0).history
        table, optimizer = tf.Variable(x), make()
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(tf.gather(table, [1, 3, 1])))
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        found[name] = [history, model.get_weights(), table, optimizer.iterations]
    return found


@case
def constraints_and_averages(tf):
    class Own(tf.keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(name="w", shape=(4, 3), initializer="ones",
                                     constraint=tf.keras.constraints.MaxNorm(1.0))

        def call(self, x):
            return tf.matmul(x, self.w)

    x, y = data(8)
    keras, found = tf.keras, {}
    constraints, optimizers = keras.constraints, keras.optimizers

    def trained(layers, make):
        model, loop = (keras.Sequential(layers() + [keras.layers.Dense(1)]) for _ in range(2))
        model.build((None, 4))
        loop.build((None, 4))
        set_weights(model)
        set_weights(loop)
        model.compile(make(), "mse")
        history = model.fit(x, y, batch_size=4, shuffle=False, epochs=2, verbose=0).history
        model.train_on_batch(x, y)
        optimizer = make()
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(loop(x) - y))
            optimizer.apply_gradients(zip(tape.gradient(loss, loop.trainable_variables), loop.trainable_variables))
        loop_now = loop.get_weights()
        if hasattr(optimizer, "finalize_variable_values"):
            optimizer.finalize_variable_values(loop.trainable_variables)
        return [history, model.get_weights(), loop_now, loop.get_weights()]

    for name, constraint in (("max", constraints.MaxNorm(0.5)), ("positive", "non_neg"), ("unit", constraints.unit_norm()),
                             ("between", constraints.MinMaxNorm(0.2, 0.4, rate=0.5)), ("function", lambda w: w * 0.9)):
        found[name] = trained(lambda: [keras.layers.Dense(3, kernel_constraint=constraint, bias_constraint="non_neg",
                                                          input_shape=(4,))], lambda: optimizers.SGD(0.1))
    found["own"] = trained(lambda: [Own()], lambda: optimizers.legacy.SGD(0.1))
    dense = [keras.layers.Dense]
    found["averages"] = trained(lambda: [dense[0](3, input_shape=(4,))],
                                lambda: optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5))
    found["taken"] = trained(lambda: [dense[0](3, input_shape=(4,), kernel_constraint="non_neg")], lambda: optimizers.SGD(
        0.1, use_ema=True, ema_momentum=0.75, ema_overwrite_frequency=2))
    variable = tf.Variable([1.0, -1.0], constraint=tf.nn.relu)
    optimizers.SGD(0.5).apply_gradients([(tf.constant([1.0, 1.0]), variable)])
    w = np.arange(-3, 3, dtype=np.float32).reshape(3, 2)
    return {**found, "variable": variable, "configs": [constraints.get("max_norm").get_config(),
                                                       constraints.MinMaxNorm(0.1).get_config()],
            "called": [one(w) for one in (constraints.Constraint(), constraints.max_norm(1.0),
                                          constraints.min_max_norm(2, 3), constraints.non_neg(), constraints.NonNeg(),
                                          constraints.UnitNorm(axis=1))]}


@case
def callbacks_of_own_steps(tf):
    """Those of Keras around steps that are written in Python, around C's, and as base classes of own ones."""
    callbacks = tf.keras.callbacks
    x, y = data(12)
    folder = tempfile.mkdtemp()

    class Told(callbacks.EarlyStopping):
        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            seen.append([epoch, self.wait, self.best])

    class Halve(callbacks.LearningRateScheduler):
        pass

    def run(stepped, many, epochs=6, rate=0.1, **named):
        inputs = tf.keras.Input((4,))
        model = (_stepped(tf) if stepped else tf.keras.Model)(inputs, tf.keras.layers.Dense(1)(inputs))
        set_weights(model)
        model.compile(tf.keras.optimizers.SGD(rate), "mse", metrics=["mae"])
        history = model.fit(x, y, batch_size=4, shuffle=False, epochs=epochs, verbose=0, callbacks=many,
                            validation_data=(x[:5], -y[:5]), **named).history
        return [history, model.get_weights()]

    found = {}
    for stepped in (True, False):
        seen = []
        name = "stepped" if stepped else "plain"
        found[name] = [
            run(stepped, [callbacks.EarlyStopping(patience=2, restore_best_weights=True)]),
            run(stepped, [callbacks.EarlyStopping("loss", min_delta=1.0, patience=1)]),
            run(stepped, [callbacks.EarlyStopping("val_mae", baseline=0.1, patience=3, mode="min", start_from_epoch=1)]),
            run(stepped, [callbacks.ReduceLROnPlateau(factor=0.5, patience=1, cooldown=1, min_lr=0.02)]),
            run(stepped, [callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9)], 3),
            run(stepped, [Halve(lambda epoch: 0.1 / (epoch + 1))], 3), run(stepped, [Told(patience=1)]), seen,
            len(run(stepped, [callbacks.TerminateOnNaN()], rate=1e30, epochs=3)[0]["loss"])]
        for append in (False, True):
            run(stepped, [callbacks.CSVLogger(os.path.join(folder, name), append=append)], 2)
        with open(os.path.join(folder, name)) as file:
            lines = file.read().split()
        found[name] += [lines[0], len(lines), [float(cell) for cell in lines[-1].split(",")]]
    return found


@case
def unknown_numbers_of_steps(tf):
    layers, keras = tf.keras.layers, tf.keras
    random = np.random.RandomState(2)
    words, y = random.randint(0, 6, (8, 5)), random.randn(8, 2).astype(np.float32)

    def made():
        inputs = keras.Input((None,))
        hidden = layers.Embedding(6, 3, mask_zero=True, name="words")(inputs)
        hidden = layers.Bidirectional(layers.GRU(2, return_sequences=True), name="both")(hidden)
        hidden = layers.TimeDistributed(layers.Dense(3), name="each")(hidden)
        sequence, state, cell = layers.LSTM(2, return_sequences=True, return_state=True, name="states")(
            hidden)
        return keras.Model(inputs, [layers.SimpleRNN(2, name="last")(sequence), state])

    model, lines = made(), []
    shapes = [model.layers[1].input_shape, [layer.output_shape for layer in model.layers[1:3]],
              [list(output.shape) for output in model.outputs]]
    set_weights(model)
    model.summary(print_fn=lambda line, *rest: lines.append(line))
    found = [model.predict(words, verbose=0), model(words[:, :3]), model.predict(words[:, :4], verbose=0)]
    model.compile("sgd", "mse")
    found += [model.fit(words, [y, y], batch_size=4, shuffle=False, verbose=0).history, model.get_weights(),
              model.predict(words[:, :3], verbose=0), model(words[:3], True)]
    sequential = keras.Sequential([layers.LSTM(2, input_shape=(None, 1), return_sequences=True), layers.GRU(2)])
    set_weights(sequential)
    batches = tf.data.Dataset.from_tensor_slices((words[:, :, None].astype(np.float32), y)).batch(4)
    sequential.compile("sgd", "mse")
    return {"shapes": shapes, "found": found, "sequential": [sequential.fit(batches, verbose=0).history,
                                                             sequential.get_weights()],
            "unknown": [line for line in lines if "None, None" in line and "LSTM" not in line and "Input" not in line]}


@case
def transposed_convolutions(tf):
    layers = tf.keras.layers
    random = np.random.RandomState(4)
    x = random.randn(2, 4, 3, 2).astype(np.float32)
    filters = random.randn(3, 2, 5, 2).astype(np.float32)
    found = [tf.nn.conv2d_transpose(x, filters, [2, 8, 6, 5], 2), tf.nn.conv2d_transpose(
        x, filters, tf.constant([2, 6, 4, 5]), [1, 1], padding="VALID")]
    with tf.GradientTape() as tape:
        kernel = tf.Variable(filters)
        loss = tf.reduce_sum(tf.square(tf.nn.conv2d_transpose(x, kernel, [2, 8, 6, 5], 2)))
    found.append(tape.gradient(loss, kernel))
    for named in ({"strides": 2, "padding": "same"}, {"strides": (2, 1), "activation": "relu", "use_bias": False},
                  {"strides": 2, "padding": "same", "output_padding": 1}, {"strides": 2, "output_padding": (1, 0)}):
        for size in (4, None):
            inputs = tf.keras.Input((size, None if size is None else 3, 2))
            layer = layers.Conv2DTranspose if size else layers.Convolution2DTranspose
            outputs = layer(3, 3, kernel_regularizer="l2", **named)(inputs)
            model = tf.keras.Model(inputs, outputs)
            set_weights(model)
            found += [[weight.name.split("/")[-1] for weight in model.weights], model(x), list(model.output_shape)]
        y = model.predict(x, verbose=0)
        model.compile("sgd", "mse")
        found += [y, model.fit(x, y * 2, verbose=0).history, model.get_weights()]
    return found
