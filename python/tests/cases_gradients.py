# SPDX-License-Identifier: Apache-2.0
"""Cases of keras_cases.py: functions that give their gradients themselves, and gradients of gradients."""
import numpy as np

from keras_cases import case


def _clipped(tf, norm=0.5):
    @tf.custom_gradient
    def clipped(y):
        return y, lambda dy: tf.clip_by_norm(dy, norm)

    return clipped


def _softplus(tf):
    @tf.custom_gradient
    def softplus(x):
        e = tf.exp(x)
        return tf.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    return softplus


def _scaled(tf, variable, called):
    """Two arguments, two results and a variable, with gradients that are not theirs."""
    @tf.custom_gradient
    def scaled(x, scale):
        def grad(dy, dz, variables=None):
            called.append([len(variables), variables[0] is variable])
            return (dy * scale + dz, None), [dy * 3]

        return (x * variable, x + 1.0), grad

    return scaled


@case
def gradients_of_your_own(tf):
    clipped, softplus = _clipped(tf), _softplus(tf)
    v, x = tf.Variable(2.0), tf.constant([1.0, 100.0])
    found = {}

    def of_variable():
        with tf.GradientTape() as tape:
            y = clipped(v * v) * 3.0
        return [y, tape.gradient(y, v)]

    def of_tensor(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = softplus(x) * x
            first = tape.gradient(y, x)
        return [y, first, outer.gradient(first, x)]

    found["variable"] = [of_variable(), tf.function(of_variable)()]
    small = tf.constant([1.0, -2.0])
    found["second"] = [of_tensor(small), tf.function(of_tensor)(small)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = softplus(x)
    found["large"] = [tape.gradient(y, x)]
    inner = tf.function(lambda x: clipped(x * x))
    with tf.GradientTape() as tape:
        y = inner(v)
    found["function"] = [y, tape.gradient(y, v)]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(small)
        y = tf.reduce_sum(clipped(small * 2.0) ** 2.0)
    found["jacobian"] = [tape.gradient(y, small), tape.gradient(y, small, output_gradients=0.001)]
    with tf.GradientTape() as tape:
        tape.watch(small)
        y = clipped(small * small)
    found["rows"] = tape.jacobian(y, small)
    return found


@case
def gradients_of_your_own_with_variables(tf):
    w, x = tf.Variable([1.0, 2.0]), tf.constant([3.0, 4.0])
    called = []
    scaled = _scaled(tf, w, called)

    def run(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            h = x * 2.0
            a, b = scaled(h, 5.0)
            total = tf.reduce_sum(a * a) + tf.reduce_sum(b * 10.0) + tf.reduce_sum(h)
        return [total, *tape.gradient(total, [x, w, h, a]), tape.gradient(a, w), tape.gradient(b, x)]

    found = {"eager": run(x), "function": tf.function(run)(x), "called": called}
    for name, bad in (("count", lambda y: (y, lambda dy: (dy, dy))), ("variables", lambda y: (y * w, lambda dy: dy))):
        try:
            with tf.GradientTape() as tape:
                y = tf.custom_gradient(bad)(w * 1.0)
            tape.gradient(y, w)
        except (TypeError, ValueError) as error:
            found[name] = [type(error).__name__, str(error)[:40]]
    return found


@case
def gradients_of_your_own_in_models(tf):
    clipped = _clipped(tf)

    class Clipped(tf.keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(name="w", shape=(shape[-1], 2), initializer="ones")

        def call(self, x):
            return clipped(tf.matmul(x, self.w))

    x, y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)
    model = tf.keras.Sequential([Clipped()])
    model.compile(tf.keras.optimizers.SGD(1.0), "mse")
    history = model.fit(x, y, epochs=2, verbose=0, batch_size=4).history
    layer = Clipped()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x) ** 2)
    inputs = tf.keras.Input((3,))
    hidden = tf.keras.layers.Dense(1, kernel_initializer="ones")(inputs)
    functional = tf.keras.Model(inputs, tf.keras.layers.Lambda(clipped)(hidden))
    functional.compile(tf.keras.optimizers.SGD(1.0), "mse")
    functional.fit(x, y[:, :1], verbose=0)
    return {"fit": [history, model.get_weights()], "layer": tape.gradient(loss, layer.trainable_variables),
            "functional": functional.get_weights()}


@case
def gradients_passed_through(tf):
    dense = tf.keras.layers.Dense(2, kernel_initializer="ones")
    x = tf.constant([[1.0, -2.0], [0.5, 0.25]])
    dense(x)
    again = tf.recompute_grad(lambda x: tf.nn.tanh(dense(x)))
    rounded = tf.grad_pass_through(tf.round)
    z = tf.Variable(1.7)

    def run(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, passed = tf.reduce_sum(again(x) ** 2), rounded(z * 2.0) * 3.0
        return [y, passed, tape.gradient(y, [x] + dense.trainable_variables), tape.gradient(passed, z)]

    return [run(x), tf.function(run)(x)]


@case
def gradients_towards_targets(tf):
    """What output_gradients are is differentiated too."""
    def run(x, w):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([x, w])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x * x * x
            first = tape.gradient(y, x, output_gradients=w)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x * x
            own = tape.gradient(y, x, output_gradients=x)
        return [first, outer.gradient(first, [x, w]), own, outer.gradient(own, x)]

    x, w = tf.constant([1.0, 2.0]), tf.constant([0.5, -3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        several = [x * 2.0, tf.reduce_sum(x * x)]
    return [run(x, w), tf.function(run)(x, w), tape.gradient(several, x, output_gradients=[w, tf.constant(4.0)])]
