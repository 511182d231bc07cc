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
