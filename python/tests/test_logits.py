# SPDX-License-Identifier: Apache-2.0
"""What losses make of outputs of softmax and sigmoid, and of labels whose rank is another one. The numbers are those of
TensorFlow 2.15."""
import numpy as np
import pytest

import estoc.tf as tf

K, L = tf.keras.activations, tf.keras.losses
FAR = [[200.0, -200.0]]


@pytest.mark.parametrize("make", [lambda: tf.constant(FAR), lambda: tf.Variable(FAR), lambda: np.array(FAR, np.float32)],
                         ids=["tensor", "variable", "array"])
@pytest.mark.parametrize("activation", [K.softmax, K.get("softmax"), lambda x: K.softmax(x, axis=-1)])
@pytest.mark.parametrize("from_logits", [False, True])
def test_activations_keep_logits(make, activation, from_logits):
    p = activation(make())
    assert float(L.CategoricalCrossentropy(from_logits)([[0.0, 1.0]], p)) == 400
    assert float(L.SparseCategoricalCrossentropy(from_logits)([1], p)) == 400


@pytest.mark.parametrize("from_logits", [False, True])
def test_a_sigmoid_keeps_logits(from_logits):
    p = K.sigmoid(tf.constant([[200.0]]))
    assert float(L.BinaryCrossentropy(from_logits)([[0.0]], p)) == 200
    assert L.binary_crossentropy([[0.0]], p, from_logits=from_logits).numpy() == [200]
    traced = tf.function(lambda x: L.BinaryCrossentropy(from_logits)([[0.0]], K.sigmoid(x)))
    assert float(traced(tf.constant([[200.0]]))) == 200


def test_a_focal_loss_weighs_by_the_output_itself():
    p = K.sigmoid(tf.constant([[200.0]]))
    assert np.isclose(float(L.BinaryFocalCrossentropy(from_logits=True)([[0.0]], p)), 106.88933)


def test_from_logits_in_compile():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid", input_shape=(1,))])
    model.layers[0].set_weights([np.float32([[200.0]]), np.float32([0.0])])
    model.compile("sgd", L.BinaryCrossentropy(from_logits=True))
    assert model.evaluate(np.ones([1, 1]), np.zeros([1, 1]), verbose=0) == 200


def test_gradients_of_logits_that_are_variables():
    x = tf.Variable([[2.0, -2.0]])
    with tf.GradientTape() as tape:
        loss = L.CategoricalCrossentropy()([[0.0, 1.0]], K.softmax(x))
    assert np.allclose(tape.gradient(loss, x), [[0.98201, -0.98201]], atol=1e-5)


def test_labels_of_another_rank():
    """All pairs, but for objects that are given tensors."""
    column, row = [[1.0], [2.0]], [1.0, 2.0]
    for a, b in ((column, row), (row, column)):
        assert float(L.MeanSquaredError()(a, b)) == 0.5
        assert float(L.MeanSquaredError()(np.float32(a), tf.constant(b))) == 0.5
        assert float(L.MeanSquaredError()(tf.constant(a), tf.constant(b))) == 0
        assert float(L.MeanSquaredError()(tf.constant(a), tf.Variable(b))) == 0
        assert L.mse(tf.constant(a), tf.constant(b)).numpy().tolist() == [0.5, 0.5]
    assert L.Huber(reduction="none")(column, [1.0, 3.0]).numpy().tolist() == [0.75, 0.5]
    assert L.MeanSquaredError(reduction="none")([column], [[1.0, 3.0]]).numpy().tolist() == [[2, 1]]
    assert np.allclose(L.BinaryCrossentropy(reduction="none")([[1.0], [0.0]], [0.2, 0.3]), [1.4067, 0.28991], atol=1e-5)
