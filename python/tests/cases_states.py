# SPDX-License-Identifier: Apache-2.0
"""Cases of keras_cases.py: recurrent layers with states that stay, and cells of several inputs."""
import numpy as np

from keras_cases import case


def steps(n=2, length=4, width=3, seed=2):
    return np.random.RandomState(seed).randn(n, length, width).astype(np.float32)


def set_weights(layer):
    random = np.random.RandomState(5)
    layer.set_weights([(random.randn(*w.shape) * 0.3).astype(w.dtype) for w in layer.get_weights()])


def refused(call):
    try:
        return call()
    except (AttributeError, ValueError) as error:
        return [type(error).__name__, str(error)[:22]]


@case
def states_that_stay(tf):
    layers = tf.keras.layers
    found = {}
    for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
        layer = kind(2, stateful=True, return_sequences=True)
        layer(steps())
        set_weights(layer)
        layer.reset_states()
        outputs = [layer(steps(seed=1)), layer(steps(seed=3))]
        states = [state.numpy() for state in layer.states]
        fresh = kind(2)
        fresh(steps())
        set_weights(fresh)
        continued = fresh(steps(seed=4), initial_state=layer.states)
        layer.reset_states([state + 1 for state in states])
        found[kind.__name__] = [outputs, states, continued, layer(steps(seed=1)), len(layer.weights)]
        layer.reset_states()
        found[kind.__name__].append([state.numpy() for state in layer.states])
    found["stacked"] = layers.RNN([layers.LSTMCell(2), layers.GRUCell(3)], stateful=True)
    found["stacked"](steps())
    set_weights(found["stacked"])
    found["stacked"].reset_states()
    found["stacked"] = [found["stacked"](steps()), found["stacked"](steps())]
    plain = layers.LSTM(2)
    found["before"] = [plain.states, layers.GRU(2).states, plain.stateful]
    found["refused"] = [refused(plain.reset_states), refused(lambda: tf.keras.Sequential(
        [layers.LSTM(2, stateful=True, input_shape=(4, 3))]).predict(steps(), verbose=0) and 1)[:1]]
    return found


@case
def models_with_states(tf):
    layers, x, y = tf.keras.layers, steps(8), np.arange(8, dtype=np.float32)[:, None] * 0.1
    model = tf.keras.Sequential([layers.LSTM(3, stateful=True, batch_input_shape=(2, 4, 3), return_sequences=True),
                                 layers.GRU(2, stateful=True), layers.Dense(1)])
    set_weights(model)
    found = {"predict": [model.predict(x, batch_size=2, verbose=0), model.predict(x, batch_size=2, verbose=0)]}
    model.reset_states()
    found["again"] = [model.predict(x, batch_size=2, verbose=0), model(x[:2])]
    model.compile(tf.keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    model.reset_states()
    found["fit"] = model.fit(x, y, batch_size=2, epochs=2, shuffle=False, verbose=0).history
    found["evaluate"] = [model.evaluate(x, y, batch_size=2, verbose=0), model.evaluate(x, y, batch_size=2, verbose=0)]
    found["weights"] = [len(model.weights), model.stateful, model.get_weights()]
    inputs = tf.keras.Input(batch_shape=(2, 4, 3))
    functional = tf.keras.Model(inputs, layers.SimpleRNN(2, stateful=True)(inputs))
    set_weights(functional)
    functional.reset_states()
    found["functional"] = [functional(x[:2]), functional(x[2:4])]
    return found


@case
def cells_of_several_inputs(tf):
    layers = tf.keras.layers

    class Nested(layers.Layer):
        def __init__(self):
            super().__init__()
            self.state_size = [tf.TensorShape([2]), tf.TensorShape([2, 3])]
            self.output_size = [tf.TensorShape([2]), tf.TensorShape([2, 3])]

        def build(self, shapes):
            self.a = self.add_weight(name="a", shape=(shapes[0][1], 2), initializer="ones")
            self.b = self.add_weight(name="b", shape=(shapes[1][1], shapes[1][2], 2, 3), initializer="ones")

        def call(self, inputs, states):
            first, second = tf.nest.flatten(inputs)
            one, two = states
            outputs = tf.matmul(first, self.a), tf.einsum("bij,ijkl->bkl", second, self.b)
            return outputs, (one + outputs[0], two * 0.5 + outputs[1])

    x, pairs = steps(width=2), np.random.RandomState(1).randn(2, 4, 2, 2).astype(np.float32)
    layer = layers.RNN(Nested(), return_state=True, return_sequences=True)
    found = {"called": layer((x, pairs)), "mask": layer((x, pairs), mask=tf.constant([[True, True, False, False]] * 2))}
    inputs = tf.keras.Input((None, 2)), tf.keras.Input((None, 2, 2))
    model = tf.keras.Model(list(inputs), layers.RNN(Nested())(inputs))
    model.compile("sgd", "mse")
    found["fit"] = model.fit([x, pairs], [np.ones((2, 2)), np.ones((2, 2, 3))], epochs=2, verbose=0).history["loss"]
    found["predict"] = model.predict([x, pairs], verbose=0)

    class Own(layers.AbstractRNNCell):
        @property
        def state_size(self):
            return 2

        @property
        def output_size(self):
            return 2

        def call(self, inputs, states):
            output = states[0] * 0.5 + inputs[:, :2]
            return output, [output]

    found["abstract"] = [layers.RNN(Own())(x), layers.RNN([Own(), Own()], go_backwards=True)(x)]
    both = layers.Bidirectional(layers.LSTM(2, return_state=True, return_sequences=True))
    both(x)
    set_weights(both)
    result = both(x)
    found["both"] = [result, both(x, initial_state=[state * 2.0 for state in result[1:]])]
    limited = layers.LSTM(2, kernel_constraint=tf.keras.constraints.MaxNorm(0.1), recurrent_constraint="non_neg")
    limited(x)
    found["constraints"] = [variable.constraint is not None for variable in limited.weights]
    return found
