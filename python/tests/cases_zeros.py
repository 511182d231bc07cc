# SPDX-License-Identifier: Apache-2.0
"""Cases of keras_cases.py: arguments of 0, which are not the defaults."""
import numpy as np

from keras_cases import case

X = np.random.RandomState(0).randn(64, 4).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.float32)


def model_of(tf, layers=(), **compiled):
    dense = tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.Constant([[1.0], [2.0], [3.0], [4.0]]))
    model = tf.keras.Sequential([tf.keras.Input((4,)), *layers, dense])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **compiled})
    return model


def fitted(tf, layers=(), callbacks=(), epochs=2, given=(), **compiled):
    model = model_of(tf, layers, **compiled)
    history = model.fit(X, Y, epochs=epochs, batch_size=32, shuffle=False, verbose=0, callbacks=list(callbacks),
                        **dict(given)).history
    return [{name: [float(value) for value in values] for name, values in history.items()}, model.get_weights()]


def kind_of_error(call):
    try:
        call()
    except (ValueError, ZeroDivisionError) as error:
        return [type(error).__name__ != "ZeroDivisionError"]
    return "no error"


@case
def zeros_of_optimizers(tf):
    kinds, found = tf.keras.optimizers, {}
    for where in (kinds, kinds.legacy):
        for name, named in {"Adagrad": {"initial_accumulator_value": 0.0}, "Adadelta": {"epsilon": 0.0}}.items():
            found[f"{where.__name__[-6:]} {name}"] = fitted(tf, optimizer=getattr(where, name)(0.1, **named))
    restarts = kinds.schedules.CosineDecayRestarts(0.1, 4, m_mul=0.0)
    return found | {"restarts": [restarts(i) for i in (0, 3, 5, 9)]}


@case
def zeros_of_callbacks(tf):
    plateau = tf.keras.callbacks.ReduceLROnPlateau
    return [fitted(tf, callbacks=[plateau("loss", min_delta=1e4, **named)], epochs=5) for named in (
        {"patience": 0}, {"patience": 1, "factor": 0.0}, {"patience": 0, "factor": 0.0}, {"patience": 0, "cooldown": 2},
        {"patience": 1, "factor": 0.0, "min_lr": 0.001})]


@case
def zeros_of_layers(tf):
    layers, constant = tf.keras.layers, tf.keras.initializers.Constant
    normal = layers.BatchNormalization(epsilon=0.0, moving_variance_initializer=constant(0.01))
    return [normal(X[:3]), fitted(tf, [layers.BatchNormalization(epsilon=0.0)]),
            fitted(tf, [layers.LayerNormalization(epsilon=0.0)])]


@case
def zeros_of_losses(tf):
    losses, labels, predictions = tf.keras.losses, [[0.0, 1.0]], [[0.3, 0.7]]
    found = [losses.Huber(0.0)(labels, predictions), losses.huber(labels, predictions, delta=0.0)]
    for alpha in (0.0, 0.25):
        found += [losses.BinaryFocalCrossentropy(balanced, alpha=alpha, gamma=gamma)(labels, predictions)
                  for balanced in (False, True) for gamma in (0.0, 2.0)]
        found += [losses.CategoricalFocalCrossentropy(alpha=alpha, gamma=gamma)(labels, predictions) for gamma in (0.0, 2.0)]
    v1 = tf.compat.v1.losses
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found += session.run([v1.huber_loss([0.0, 3.0], tf.constant([1.0, 1.0]), delta=0.0),
                              v1.log_loss([1.0, 0.0], tf.constant([0.5, 1e-9]), epsilon=0.0)])
    return found


@case
def zeros_of_metrics(tf):
    metrics = tf.keras.metrics

    def measured(metric, labels=(0.0, 1.0, 1.0), predictions=(0.1, 0.2, 0.9)):
        metric.update_state(np.array(labels), np.array(predictions))
        return metric.result()

    rows = {"labels": [[0.0, 1.0]], "predictions": [[0.3, 0.7]]}
    return [measured(metrics.Precision(thresholds=0.0)), measured(metrics.Recall(thresholds=0.0)),
            measured(metrics.BinaryAccuracy(threshold=0.0)), measured(metrics.TopKCategoricalAccuracy(k=0), **rows),
            measured(metrics.SparseTopKCategoricalAccuracy(k=0), [1], [[0.3, 0.7]]),
            kind_of_error(lambda: metrics.AUC(num_thresholds=0)), kind_of_error(lambda: metrics.AUC(num_thresholds=1))]


@case
def zeros_of_fit(tf):
    found = [fitted(tf, epochs=0), fitted(tf, epochs=-1), fitted(tf, epochs=3, given={"initial_epoch": 3})]
    heard = []
    called = tf.keras.callbacks.LambdaCallback(on_train_begin=lambda logs: heard.append("begin"),
                                               on_train_end=lambda logs: heard.append("end"))
    fitted(tf, epochs=0, callbacks=[called])
    model = model_of(tf)
    return found + [heard] + [kind_of_error(call) for call in (
        lambda: model.fit(X, Y, steps_per_epoch=0, verbose=0), lambda: model.evaluate(X, Y, steps=0, verbose=0),
        lambda: model.predict(X, steps=0, verbose=0),
        lambda: model.fit(X, Y, validation_data=(X, Y), validation_steps=0, verbose=0))]


@case
def zeros_of_loss_weights(tf):
    def two(weights, **compiled):
        inputs = tf.keras.Input((4,))
        outputs = [tf.keras.layers.Dense(1, kernel_initializer="ones", name=name)(inputs) for name in ("a", "b")]
        model = tf.keras.Model(inputs, outputs)
        model.compile("sgd", "mse", loss_weights=weights, **compiled)
        history = model.fit(X, [Y, Y], epochs=2, verbose=0, shuffle=False, batch_size=64).history
        return [{name: [float(value) for value in values] for name, values in history.items()}, model.get_weights()]

    return [two([0.0, 1.0]), two({"a": 0.0, "b": 0.5}, metrics=["mae"]), two([0.0, 0.0]),
            fitted(tf, loss_weights=[0.0]), fitted(tf, loss_weights=0.0)]


@case
def zeros_that_are_refused(tf):
    layers, columns, v1 = tf.keras.layers, tf.feature_column, tf.compat.v1
    images, steps = np.ones((1, 6, 6, 2), np.float32), np.ones((1, 6, 2), np.float32)
    made = [lambda: layers.Conv2D(2, 3, strides=0)(images), lambda: layers.Conv2D(2, (3, 0))(images),
            lambda: layers.Conv2D(2, 3, dilation_rate=0)(images), lambda: layers.DepthwiseConv2D(3, strides=0)(images),
            lambda: layers.SeparableConv2D(2, 3, strides=0)(images), lambda: layers.MaxPool2D((2, 0))(images),
            lambda: layers.Conv1D(2, 3, strides=0)(steps), lambda: layers.StringLookup(max_tokens=0),
            lambda: layers.IntegerLookup(max_tokens=0), lambda: layers.TextVectorization(max_tokens=0),
            lambda: tf.keras.callbacks.BackupAndRestore("backup", save_freq=0),
            lambda: v1.train.AdagradOptimizer(0.1, initial_accumulator_value=0.0).minimize(1),
            lambda: tf.estimator.RunConfig(keep_checkpoint_every_n_hours=0),
            lambda: tf.estimator.RunConfig(session_creation_timeout_secs=0),
            lambda: tf.estimator.RunConfig(log_step_count_steps=0),
            lambda: tf.estimator.RegressionHead(label_dimension=0),
            lambda: tf.estimator.LinearRegressor([columns.numeric_column("x")], label_dimension=0),
            lambda: tf.distribute.experimental.partitioners.MinSizePartitioner(1, max_shards=0)]
    return [kind_of_error(call) for call in made]


@case
def momentum_of_zero_in_v1(tf):
    v1, found = tf.compat.v1, []
    for nesterov in (False, True):
        with tf.Graph().as_default(), v1.Session() as session:
            variable = v1.get_variable("w", initializer=[1.0, 2.0])
            step = v1.train.MomentumOptimizer(0.1, 0.0, use_nesterov=nesterov).minimize(tf.reduce_sum(variable * variable))
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(step)
            found.append({item.name: session.run(item) for item in v1.global_variables()})
    return found


@case
def batches_of_validation(tf):
    found = []
    for named in ({"validation_data": (X, Y), "validation_batch_size": 10}, {"validation_split": 0.25, "validation_batch_size": 7},
                  {"validation_data": (X, Y), "validation_batch_size": 10, "validation_steps": 2},
                  {"validation_data": (X, Y), "validation_batch_size": 0}):
        seen = []
        counts = type("Counts", (tf.keras.callbacks.Callback,), {
            "on_test_batch_end": lambda self, batch, logs=None, seen=seen: seen.append(batch)})()
        found.append([fitted(tf, callbacks=[counts], given=named)[0], len(seen)])
    return found
