# SPDX-License-Identifier: Apache-2.0
"""Layers whose methods make variables as TensorFlow 1 does, templates, and random numbers of both kinds of programs."""
import numpy as np
import pytest

tf = pytest.importorskip("estoc.tf")
v1 = tf.compat.v1
track = v1.keras.utils.track_tf1_style_variables
X = np.arange(8, dtype=np.float32).reshape(2, 4)


class Tower(tf.keras.layers.Layer):
    """x kernel + bias, and more by functions of tf.compat.v1.layers."""

    def __init__(self, units, **named):
        super().__init__(**named)
        self.units = units

    @track
    def call(self, inputs, training=None):
        with v1.variable_scope("tower"):
            kernel = v1.get_variable("kernel", [inputs.shape[-1], self.units], initializer=v1.ones_initializer(),
                                     regularizer=tf.keras.regularizers.L2(0.5))
            bias = v1.get_variable("bias", initializer=[1.0] * self.units)
            frozen = v1.get_variable("frozen", [], trainable=False, initializer=v1.constant_initializer(2.0))
            hidden = (tf.matmul(inputs, kernel) + bias) * frozen
            return v1.layers.dense(hidden, 1, kernel_initializer=v1.ones_initializer(), kernel_regularizer="l2")


def names(variables):
    return [variable.name for variable in variables]


def test_variables_belong_to_the_layer_and_are_found_again():
    layer = Tower(3)
    first = layer(X).numpy()
    expected = 6 * (X.sum(1, keepdims=True) + 1)
    assert np.array_equal(first, expected)
    assert names(layer.trainable_weights) == ["tower/bias:0", "tower/dense/bias:0", "tower/dense/kernel:0",
                                              "tower/kernel:0"]
    assert names(layer.non_trainable_weights) == ["tower/frozen:0"]
    assert np.allclose([float(loss) for loss in layer.losses], [0.5 * 12, 0.01 * 3])
    known = list(layer.weights)
    layer.trainable_weights[0].assign([0.0] * 3)
    assert np.array_equal(layer(X).numpy(), 6 * X.sum(1, keepdims=True))
    assert np.array_equal(layer(X[:1]).numpy(), 6 * X[:1].sum(1, keepdims=True))
    assert all(a is b for a, b in zip(known, layer.weights)) and len(layer.weights) == 5
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(X)) + tf.add_n(layer.losses)
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert np.allclose(gradients[3], np.repeat(2 * X.sum(0)[:, None], 3, 1) + 1.0)


def test_a_model_of_such_layers_is_fitted():
    inputs = tf.keras.Input((4,))
    model = tf.keras.Model(inputs, Tower(3)(inputs))
    assert names(model.weights)[:2] == ["tower/bias:0", "tower/dense/bias:0"]
    model.compile(tf.keras.optimizers.SGD(0.0001), "mse")
    before = [weight.numpy().copy() for weight in model.weights]
    history = model.fit(X, X[:, :1], epochs=3, verbose=0).history["loss"]
    assert history[2] < history[0]
    changed = [not np.array_equal(a, b.numpy()) for a, b in zip(before, model.weights)]
    assert changed == [True, True, True, True, False]


def test_scopes_of_methods_within_methods_and_layers_of_their_own():
    class Inner(tf.keras.layers.Layer):
        @track
        def call(self, inputs):
            return v1.layers.dense(inputs, 2, name="inner")

    class Outer(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.within = Inner()
            self.conv = v1.layers.Dense(3)

        @track
        def call(self, inputs, training=None):
            with v1.variable_scope("outer"):
                more = v1.keras.utils.get_or_create_layer("more", lambda: tf.keras.layers.Dense(5, name="more"))
                y = v1.layers.dense(self.conv(inputs), 4)
                y = v1.layers.batch_normalization(y, training=training)
                return self.within(more(v1.layers.dense(y, 2, reuse=None)))

    model = Outer()
    model(X)
    shown = {name.split("/", 1)[-1] if "more" in name else name for name in names(model.weights)}
    assert shown == {"outer/inner/kernel:0", "outer/inner/bias:0", "outer/dense/kernel:0", "outer/dense/bias:0",
                     "outer/dense_1/kernel:0", "outer/dense_1/bias:0", "outer/dense_2/kernel:0", "outer/dense_2/bias:0",
                     "outer/batch_normalization/gamma:0", "outer/batch_normalization/beta:0",
                     "outer/batch_normalization/moving_mean:0", "outer/batch_normalization/moving_variance:0",
                     "more/kernel:0", "more/bias:0"}
    by_name = {variable.name: variable for variable in model.weights}
    assert by_name["outer/dense/kernel:0"] is model.conv.kernel
    model(X, training=True)
    assert by_name["outer/batch_normalization/moving_mean:0"].numpy().any()
    assert len(model.weights) == 14
    with pytest.raises(ValueError, match="must be applied to a method"):
        track(lambda x: x)(3)
    with pytest.raises(ValueError, match="eager mode"):
        v1.keras.utils.get_or_create_layer("more", lambda: tf.keras.layers.Dense(5))


def test_modules_track_their_variables_and_shapes_have_to_agree():
    class Scale(tf.Module):
        size = 4

        @track
        def __call__(self, x):
            return x * v1.get_variable("scale", [self.size], initializer=v1.ones_initializer())

    module = Scale()
    assert np.array_equal(module(X).numpy(), X) and names(module.variables) == ["scale:0"]
    module.size = 2
    with pytest.raises(ValueError, match=r"shape \(2,\) and found shape \(4,\)"):
        module(X)


def test_templates_share_the_variables_of_their_first_call():
    def scaled(x, name):
        return x * v1.get_variable(name, [], initializer=v1.constant_initializer(1.5))

    template = v1.make_template("scaled", scaled, name="y")
    assert [float(template(2.0)), float(template(4.0))] == [3.0, 6.0]
    assert names(template.variables) == ["scaled/y:0"] and template.variable_scope_name == "scaled/"
    with tf.Graph().as_default(), v1.Session() as session:
        a, b = (v1.make_template("scaled", scaled, name="y") for _ in range(2))
        results = [a(2.0), a(4.0), b(1.0)]
        session.run(v1.global_variables_initializer())
        assert session.run(results) == [3.0, 6.0, 1.5]
        assert names(v1.global_variables()) == ["scaled/y:0", "scaled_1/y:0"]
        assert names(a.trainable_variables) == ["scaled/y:0"]


@pytest.mark.parametrize("mode", ["constant", "num_random_ops"])
def test_a_graph_and_a_program_that_computes_at_once_draw_the_same(mode):
    tool = v1.keras.utils.DeterministicRandomTestTool(mode=mode)
    with tool.scope(), tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        a = tf.random.uniform((3, 3))
        y = v1.layers.dense(v1.layers.dense(tf.constant(X), 4), 4)
        b = tf.random.normal((3, 3))
        session.run(v1.global_variables_initializer())
        ones = session.run([a, y, b, tf.random.uniform((3, 3))])
    tool = v1.keras.utils.DeterministicRandomTestTool(mode=mode)
    with tool.scope():
        tf.keras.utils.set_random_seed(5)
        a = tf.random.uniform((3, 3))
        y = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(4)])(X)
        b = tf.random.normal((3, 3))
        twos = [a, y, b, tf.random.uniform((3, 3))]
        assert tool.operation_seed == (0 if mode == "constant" else 5)
    for one, two in zip(ones, twos):
        assert np.array_equal(one, two.numpy())
    assert np.array_equal(twos[0], twos[3]) == (mode == "constant")


def test_numbers_of_random_operations():
    def tool():
        return v1.keras.utils.DeterministicRandomTestTool(mode="num_random_ops")

    first = tool()
    with first.scope():
        assert first.operation_seed == 0
        a, b = tf.random.uniform((3,)).numpy(), tf.random.uniform((3,)).numpy()
        assert first.operation_seed == 2 and not np.array_equal(a, b)
        first.operation_seed = 1
        with pytest.raises(ValueError, match="operation seed 1 .* used twice"):
            tf.random.uniform((3,))
    second = tool()
    with second.scope():
        second.operation_seed = 1
        again = tf.random.uniform((3,)).numpy()
        second.operation_seed = 0
        assert np.array_equal(again, b) and np.array_equal(tf.random.uniform((3,)).numpy(), a)
    with pytest.raises(ValueError, match="constant.*num_random_ops"):
        v1.keras.utils.DeterministicRandomTestTool(mode="other")


def test_a_layer_with_regularized_weights_has_losses():
    class Own(tf.keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight("w", [2], initializer="ones", regularizer=tf.keras.regularizers.L2(0.25))

        def call(self, x):
            return x * self.w

    layer = Own()
    layer(np.ones((1, 2), np.float32))
    assert [float(loss) for loss in layer.losses] == [0.5]
    model = tf.keras.Sequential([Own()])
    model.compile("sgd", "mse")
    assert model.evaluate(np.ones((1, 2)), np.ones((1, 2)), verbose=0) == 0.5
    assert [float(loss) for loss in model.losses] == [0.5]
