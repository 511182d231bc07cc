# SPDX-License-Identifier: Apache-2.0
"""Gradients of tables of which only some rows were read, and what optimizers make of them. Run by TensorFlow they write
what test_rows.py compares with."""
import sys

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def _optimizers(tf):
    new, old = tf.keras.optimizers, tf.keras.optimizers.legacy
    return {
        "SGD": new.SGD(0.1), "momentum": new.SGD(0.1, momentum=0.9), "nesterov": new.SGD(0.1, momentum=0.9, nesterov=True),
        "RMSprop": new.RMSprop(0.1), "RMSprop_momentum": new.RMSprop(0.1, momentum=0.9),
        "RMSprop_centered": new.RMSprop(0.1, centered=True, momentum=0.9), "Ftrl": new.Ftrl(0.1, l1_regularization_strength=0.01),
        "Adam": new.Adam(0.1), "AdamW": new.AdamW(0.1), "Adagrad": new.Adagrad(0.1), "Adadelta": new.Adadelta(0.1),
        "Adamax": new.Adamax(0.1), "Lion": new.Lion(0.1), "global_clipnorm": new.SGD(0.1, global_clipnorm=5.0),
        "average": new.SGD(0.1, momentum=0.9, use_ema=True, ema_overwrite_frequency=2),
        "legacy_SGD": old.SGD(0.1), "legacy_momentum": old.SGD(0.1, momentum=0.9),
        "legacy_nesterov": old.SGD(0.1, momentum=0.9, nesterov=True), "legacy_RMSprop": old.RMSprop(0.1),
        "legacy_RMSprop_centered": old.RMSprop(0.1, centered=True, momentum=0.9), "legacy_Adam": old.Adam(0.1),
        "legacy_Ftrl": old.Ftrl(0.1, l1_regularization_strength=0.01), "legacy_Adagrad": old.Adagrad(0.1),
        "legacy_Adadelta": old.Adadelta(0.1), "legacy_Adamax": old.Adamax(0.1),
    }


def _model(tf):
    model = tf.keras.Sequential([tf.keras.layers.Embedding(5, 2, input_length=2), tf.keras.layers.Flatten(),
                                 tf.keras.layers.Dense(1)])
    model.build((None, 2))
    model.set_weights([np.linspace(-1, 1, 10).reshape(5, 2).astype(np.float32),
                       np.array([[0.5], [-0.4], [0.3], [0.7]], np.float32), np.zeros(1, np.float32)])
    return model


_X = np.array([[1, 2], [1, 0], [3, 3], [0, 0], [2, 1], [2, 2]])
_Y = np.array([[1.0], [0.0], [2.0], [1.0], [0.0], [3.0]], np.float32)


def _loop(tf, optimizer, function):
    model = _model(tf)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    step = tf.function(step) if function else step
    for i in [0, 2, 4] * 2:
        step(tf.constant(_X[i:i + 2]), tf.constant(_Y[i:i + 2]))
    return model.get_weights()


@case
def embeddings_in_fit(tf):
    """A row that a batch has not moves where the optimizer has a momentum of all rows."""
    found = {}
    for name, optimizer in _optimizers(tf).items():
        model = _model(tf)
        model.compile(optimizer, "mse")
        model.fit(_X, _Y, batch_size=2, epochs=2, shuffle=False, verbose=0)
        found[name] = model.get_weights()
    model = _model(tf)
    model.compile("ftrl", "mse")
    model.fit(_X, _Y, batch_size=2, epochs=2, shuffle=False, verbose=0)
    return {**found, "ftrl": model.get_weights()}


@case
def embeddings_in_functions(tf):
    return {name: _loop(tf, optimizer, True) for name, optimizer in _optimizers(tf).items()}


@case
def embeddings_at_once(tf):
    return {name: _loop(tf, optimizer, False) for name, optimizer in _optimizers(tf).items()}


# --- what a tape gives ------------------------------------------------------------------------------------------------

_TABLE = np.arange(8, dtype=np.float32).reshape(4, 2)


def _shown(tf, gradient):
    """Rows as they are, or a tensor."""
    if isinstance(gradient, (list, tuple)):
        return [_shown(tf, item) for item in gradient]
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    shape = None if gradient.dense_shape is None else gradient.dense_shape.numpy().tolist()
    return {"values": gradient.values, "indices": gradient.indices, "kind": gradient.indices.dtype.name, "shape": shape}


def _squares(tf, x):
    return tf.reduce_sum(x * x)


def _gradient(tf, function, variable=None):
    variable = tf.Variable(_TABLE) if variable is None else variable
    with tf.GradientTape() as tape:
        loss = function(variable)
    return _shown(tf, tape.gradient(loss, variable))


@case
def gradients_of_gathers(tf):
    """Rows where only rows were read, whatever is between the variable and the gather; else a tensor."""
    ones = np.ones([4, 2], np.float32)
    found = {
        "gather": lambda v: _squares(tf, tf.gather(v, [1, 1, 3])),
        "of_a_matrix": lambda v: _squares(tf, tf.gather(v, [[1, 1], [3, 0]])),
        "int64": lambda v: _squares(tf, tf.gather(v, tf.constant([1, 2], tf.int64))),
        "embedding_lookup": lambda v: _squares(tf, tf.nn.embedding_lookup(v, [1, 1, 3])),
        "of_its_value": lambda v: _squares(tf, tf.gather(v.value(), [1, 3])),
        "of_a_copy": lambda v: _squares(tf, tf.gather(tf.identity(v), [1, 3])),
        "columns": lambda v: _squares(tf, tf.gather(v, [1, 1], axis=1)),
        "twice": lambda v: _squares(tf, tf.gather(v, [1, 1, 3])) + _squares(tf, tf.gather(v, [0])),
        "and_whole": lambda v: _squares(tf, tf.gather(v, [1])) + tf.reduce_sum(v * ones),
        "of_a_product": lambda v: _squares(tf, tf.gather(v * 2.0, [1, 1])),
    }
    found = {name: _gradient(tf, function) for name, function in found.items()}
    found["vector"] = _gradient(tf, lambda v: _squares(tf, tf.gather(v, [1, 1, 2])), tf.Variable([1.0, 2.0, 3.0]))
    tensor = tf.constant(_TABLE)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        loss = _squares(tf, tf.gather(tensor, [1, 1]))
    found["tensor"] = _shown(tf, tape.gradient(loss, tensor))
    return found


@case
def gradients_of_rows_in_functions(tf):
    table = tf.Variable(_TABLE)

    @tf.function
    def gradient(v):
        with tf.GradientTape() as tape:
            loss = _squares(tf, tf.gather(v, [1, 1, 3]))
        return tape.gradient(loss, v)

    @tf.function
    def total():
        return _squares(tf, tf.gather(table, [1, 1, 3]))

    with tf.GradientTape() as tape:
        loss = total()
    return [_shown(tf, gradient(table)), _shown(tf, tape.gradient(loss, table))]


@case
def gradients_of_embeddings(tf):
    model = _model(tf)
    with tf.GradientTape() as tape:
        loss = _squares(tf, model(tf.constant(_X)))
    table, *others = _shown(tf, tape.gradient(loss, model.trainable_variables))
    table.pop("kind")  # Keras casts ids by the dtype of its placeholder
    return [table, others]


def _slices(tf, with_shape=True):
    shape = [tf.constant([4, 2])] if with_shape else []
    return tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.constant([1, 1, 3]), *shape)


@case
def rows_as_tensors(tf):
    """Operations take the tensor that they stand for, or keep the rows."""
    rows, ones = _slices(tf), tf.ones([4, 2])
    found = [
        tf.convert_to_tensor(rows), -rows, rows + ones, ones + rows, ones * rows, tf.multiply(rows, 2.0),
        tf.reduce_sum(rows), tf.norm(rows), tf.add_n([rows, ones]), tf.square(rows), tf.zeros_like(rows),
        tf.identity(rows), tf.clip_by_norm(rows, 1.0), tf.clip_by_value(rows, -2.0, 2.0), tf.linalg.global_norm([rows, None]),
        *tf.clip_by_global_norm([rows, tf.constant([3.0, 4.0])], 1.0)[0], tf.concat([rows, tf.ones([1, 2])], 0),
        tf.function(lambda s: tf.convert_to_tensor(s) * 2.0)(rows), tf.function(lambda s: s)(rows),
    ]
    return [[_shown(tf, item) for item in found], str(rows.shape), rows.dtype.name, tf.is_tensor(rows),
            isinstance(rows, tf.Tensor), len(tf.nest.flatten([rows])),
            [_raised(lambda: rows * 2.0), _raised(lambda: tf.convert_to_tensor(rows, tf.float64)),
             _raised(lambda: tf.convert_to_tensor(_slices(tf, False)))], str(rows)]


def _raised(function):
    try:
        return ["nothing", repr(function())]
    except Exception as error:
        return type(error).__name__


@case
def updates_by_rows(tf):
    """Optimizers given rows, and those of a tape over gather; clipped by the program."""
    found = {}
    for name, optimizer in _optimizers(tf).items():
        table = tf.Variable(_TABLE)
        for rows in ([1, 1, 3], [0], [1, 3]):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(tf.gather(table, rows)))
            gradient = tape.gradient(loss, table)
            if name != "global_clipnorm":
                gradient = tf.clip_by_global_norm([gradient], 2.0)[0][0]
                optimizer.apply_gradients([(gradient, table)])
        if name == "SGD":
            optimizer.apply_gradients([(_slices(tf, False), table)])
        found[name] = table
    return found


@case
def rows_in_graphs(tf):
    """Optimizers of TensorFlow 1 move the rows of tf.gather."""
    v1, found = tf.compat.v1, {}
    for name, make in {"momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
                       "adam": lambda: v1.train.AdamOptimizer(0.1), "ftrl": lambda: v1.train.FtrlOptimizer(0.1)}.items():
        with tf.Graph().as_default():
            table = v1.get_variable("table", initializer=_TABLE)
            ids = v1.placeholder(tf.int32, [None])
            loss = tf.reduce_sum(tf.sin(tf.gather(table, ids)))
            optimizer = make()
            pairs = optimizer.compute_gradients(loss)
            clipped, norm = tf.clip_by_global_norm([pairs[0][0]], 1.0)
            step = optimizer.apply_gradients([(clipped[0], table)])
            slope = tf.convert_to_tensor(v1.gradients(loss, [table])[0])
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                norms = [session.run([norm, slope, step], {ids: rows})[:2] for rows in ([1, 1, 3], [0], [1, 3])]
                found[name] = [norms, session.run(table)]
    return found


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
