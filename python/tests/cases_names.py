# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: names that no program of the other files uses, by tables of names and arguments."""
import numpy as np
from cases import case, set_weights


def outcome(tf, function):
    """What a function gives, or the name of the error that it raises."""
    try:
        return function()
    except (ValueError, TypeError, tf.errors.OpError) as error:
        return type(error).__name__


@case
def attention_of_several_heads(tf):
    random = np.random.RandomState(8)
    query, value, key = (random.randn(2, n, width).astype(np.float32) for n, width in ((3, 4), (5, 6), (5, 7)))
    mask = np.array([[[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]],
                     [[1, 1, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]]], bool)
    L, out = tf.keras.layers, {}

    def run(layer, *given, **named):
        layer(*given, **named)
        set_weights(layer)
        tensors = [tf.constant(array) for array in given]
        with tf.GradientTape() as tape:
            for tensor in tensors:
                tape.watch(tensor)
            y = layer(*tensors, **named)
            parts = y if isinstance(y, (list, tuple)) else [y]
            total = tf.reduce_sum(parts[0] ** 2.0)
        return [y, [list(w.shape) for w in layer.weights], tape.gradient(total, tensors + layer.trainable_weights)]

    out["itself"] = run(L.MultiHeadAttention(2, 3), query, query)
    out["other"] = run(L.MultiHeadAttention(2, 3), query, value)
    out["key"] = run(L.MultiHeadAttention(2, 3, value_dim=2), query, value, key)
    out["no_bias"] = run(L.MultiHeadAttention(3, 2, use_bias=False, output_shape=5), query, value)
    out["one"] = run(L.MultiHeadAttention(num_heads=1, key_dim=4, dropout=0.5), query, value)
    out["mask"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask)
    out["mask_of_all"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask[:1])
    out["mask_of_two"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask[1].astype(np.int32))
    out["causal_and_mask"] = run(L.MultiHeadAttention(2, 3), query, value, attention_mask=mask, use_causal_mask=True)[0]
    out["by name"] = run(L.MultiHeadAttention(2, 3), query=query, key=value, value=value[:, ::-1])[0]
    inputs = [tf.keras.Input(array.shape[1:]) for array in (query, value)] + [tf.keras.Input(mask.shape[1:], dtype=tf.bool)]
    layer = L.MultiHeadAttention(2, 3)
    model = tf.keras.Model(inputs, layer(inputs[0], inputs[1], attention_mask=inputs[2]))
    set_weights(model)
    out["model"] = [model([query, value, mask]), model.predict([query, value, mask], verbose=0)]
    out["causal"] = run(L.MultiHeadAttention(2, 3), value, value, use_causal_mask=True)
    return out


@case
def attention_with_masks(tf):
    """Masks of the queries and of the values, as lists in calls."""
    random, L, out = np.random.RandomState(8), tf.keras.layers, {}
    query, value, key = (random.randn(2, n, 4).astype(np.float32) for n in (3, 5, 5))
    rows, columns = np.array([[1, 0, 1], [1, 1, 0]], bool), np.array([[1, 0, 1, 1, 0], [0, 0, 0, 1, 1]], bool)
    for name, make in (("dot", lambda: L.Attention(use_scale=True)), ("additive", L.AdditiveAttention)):
        layer = make()
        layer([query, value])
        set_weights(layer)
        out[name] = [
            layer([query, value], mask=[None, columns]), layer([query, value, key], mask=[rows, columns]),
            layer([query, value], mask=[tf.constant(rows), None]), layer([query, value], use_causal_mask=True),
            layer([query, value, key], mask=[rows, columns, None], use_causal_mask=True),
            outcome(tf, lambda layer=layer: layer([query, value], mask=columns)),
            outcome(tf, lambda layer=layer: layer([query, value], mask=[rows]))]
    return out
