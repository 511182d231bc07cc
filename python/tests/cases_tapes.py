# SPDX-License-Identifier: Apache-2.0
"""Programs that take gradients outside of functions, with what a tape must keep for them: values of variables, numbers
that were drawn, what calls have written. Run by TensorFlow they write what test_tapes.py compares with."""
import sys

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def _gradient(tf, x, function, watch=()):
    with tf.GradientTape() as tape:
        tape.watch(list(watch))
        y = function(x)
    return tape.gradient(y, x)


@case
def reads_of_variables(tf):
    """A variable counts however it was read."""
    x, one = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(3.0)
    total, square = tf.reduce_sum, tf.square
    several = {
        "value": lambda x: total(x.value() * x.value()),
        "read_value": lambda x: total(x.read_value() * 2.0) + total(x * x),
        "convert_to_tensor": lambda x: total(tf.convert_to_tensor(x) ** 2),
        "iteration": lambda x: sum(square(row) for row in x),
        "map_fn": lambda x: total(x * x) + total(tf.map_fn(lambda a: a * a, x)),
        "vectorized_map": lambda x: total(tf.vectorized_map(lambda a: a * a, x)),
        "foldl": lambda x: tf.foldl(lambda a, b: a * b, x),
        "scan": lambda x: total(tf.scan(lambda a, b: a * b, x)),
        "unstack": lambda x: total(tf.TensorArray(tf.float32, 3).unstack(x).stack() ** 2),
        "normal": lambda x: total(tf.random.stateless_normal([3], [1, 2], mean=x)),
        "py_function": lambda x: total(tf.py_function(lambda a: a * a, [x], tf.float32)),
        "stack_of_rows": lambda x: total(tf.convert_to_tensor([x[0], x[1]]) ** 2),
    }
    of_one = {
        "write": lambda x: total(tf.TensorArray(tf.float32, 1).write(0, x).stack() ** 2),
        "while_loop": lambda x: tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * v), (0, x))[1],
        "fill": lambda x: total(tf.fill([3], x) ** 2),
        "linspace": lambda x: total(tf.linspace(0.0, x, 3) ** 2),
    }
    return [{name: _gradient(tf, x, function) for name, function in several.items()},
            {name: _gradient(tf, one, function) for name, function in of_one.items()}]


@case
def variables_written_since(tf):
    """A gradient is of the values that a variable had."""
    x = tf.Variable([1.0, 2.0])
    dense = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    dense(tf.ones([1, 2]))
    with tf.GradientTape(persistent=True) as tape:
        first = tf.reduce_sum(x * x) * tf.reduce_sum(dense(tf.reshape(x, [1, 2])))
        x.assign([5.0, 6.0])
        second = tf.reduce_sum(x * x)
        both = first + second + tf.reduce_sum(dense(tf.reshape(x, [1, 2])))
    found = [tape.gradient(both, x)]
    x.assign([7.0, 7.0])
    dense.kernel.assign_add([[1.0], [2.0]])
    found += [tape.gradient(first, x), tape.gradient(second, x), tape.gradient(both, [x, dense.kernel])]
    return found + [x, dense.kernel]


@case
def persistent_tapes_around_updates(tf):
    w = tf.Variable([1.0, -1.0])
    optimizer = tf.keras.optimizers.SGD(0.5)
    with tf.GradientTape(persistent=True) as tape:
        a, b = tf.reduce_sum(w ** 3), tf.reduce_sum(tf.exp(w))
    found = []
    for loss in (a, b, a):
        gradient = tape.gradient(loss, w)
        optimizer.apply_gradients([(gradient, w)])
        found += [gradient, tf.identity(w)]
    return found


@case
def functions_that_write(tf):
    """What a call has written is not written again."""
    x, v = tf.Variable(3.0), tf.Variable(0.0)

    @tf.function
    def counted(x):
        v.assign_add(1.0)
        return x * v

    with tf.GradientTape() as tape:
        y = counted(x) + counted(x) * x
    return [y, tape.gradient(y, x), v]


@case
def moving_averages(tf):
    """They move once, and calls before and after do not disturb each other."""
    layer = tf.keras.layers.BatchNormalization()
    data = tf.constant([[1.0, 2.0], [3.0, 5.0], [4.0, -1.0]])
    layer(data)
    found = []
    for _ in range(2):
        with tf.GradientTape() as tape:
            at_first = layer(data, training=False)
            y = layer(data, training=True) * [[1.0, 2.0]] + layer(data, training=False) * at_first
            loss = tf.reduce_sum(y ** 2)
        found += [loss, tape.gradient(loss, layer.trainable_variables), layer.moving_mean, layer.moving_variance]
    return found


@case
def metrics_within(tf):
    """Metrics that are updated under a tape change nothing for it."""
    mean, dense = tf.keras.metrics.Mean(), tf.keras.layers.Dense(2, kernel_initializer="ones")
    optimizer, losses = tf.keras.optimizers.SGD(0.1), []
    for step in range(3):
        with tf.GradientTape() as tape:
            out = dense(tf.constant([[1.0, 2.0]]))
            mean.update_state(out)
            loss = tf.reduce_sum((out - [[1.0, 0.0]]) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, dense.trainable_variables), dense.trainable_variables))
        losses.append(loss)
    return [losses, mean.result(), dense.get_weights()]


@case
def penalties_of_gradients(tf):
    """A persistent tape sees its own gradients within its block."""
    v, x = tf.Variable(2.0), tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
        first = tape.gradient(y, v)
        loss = y + first * first
        whole = tape.jacobian(x * x * x, x)
    cube = tf.reduce_sum(x ** 3)
    with tf.GradientTape(persistent=True) as again:
        cube = tf.reduce_sum(x ** 3)
        slope = again.gradient(cube, x)
    return [tape.gradient(loss, v), tape.gradient(whole, x), again.gradient(slope, x)]


@case
def watched_late(tf):
    x, c = tf.constant(3.0), tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        k = c * 2.0
        tape.watch(x)
        z = y * x * k
    return [tape.gradient(z, x), tape.gradient(z, y), tape.gradient(z, c), tape.gradient(z, k)]


@case
def writes_of_others(tf):
    """Variables that a call has not read may be written between nested tapes."""
    v, c = tf.Variable(3.0), tf.Variable(0.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = v ** 3
            c.assign_add(1.0)
        slope = inner.gradient(y, v)
    return [slope, outer.gradient(slope, v), c]


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
