# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: layers over time, masks, tables of layers, files of models, and data for them."""
import os
import tempfile

import numpy as np
from cases import case, data, dense_model, set_weights


def steps(n=2, length=4, width=3):
    return np.random.RandomState(2).randn(n, length, width).astype(np.float32)


def called(layer, *args, **named):
    """What the layer gives with weights that depend on their shapes."""
    layer(*args, **named)
    set_weights(layer)
    return layer(*args, **named)


def lines_of(model):
    lines = []
    model.summary(print_fn=lambda line, *rest: lines.append(line))
    return [line.rstrip() for line in "\n".join(lines).splitlines() if line.strip()]


@case
def recurrent(tf):
    keras = tf.keras.layers
    x, kept = steps(), tf.constant([[True, True, False, True], [True, False, False, False]])
    lstm, gru = keras.LSTM(2), keras.GRU(2)
    result = {"lstm": called(lstm, x), "masked": lstm(x, mask=kept), "gru": called(gru, x),
              "gru_masked": gru(x, mask=kept),
              "names": [variable.name.split("/", 1)[1] for variable in lstm.weights + gru.weights],
              "simple": called(keras.SimpleRNN(3, return_sequences=True), x),
              "before": called(keras.GRU(2, reset_after=False), x),
              "back": called(keras.LSTM(2, return_sequences=True, go_backwards=True, activation="relu",
                                          use_bias=False), x)}
    state = keras.LSTM(2, return_state=True, return_sequences=True)
    result["state"] = called(state, x)
    result["from"] = state(x, initial_state=[tf.ones((2, 2)), tf.zeros((2, 2))])
    both = keras.Bidirectional(keras.LSTM(2, return_sequences=True), name="both")
    result["both"] = called(both, x)
    result["both_names"] = [variable.name.split("lstm", 1)[0] for variable in both.weights]
    result["sum"] = called(keras.Bidirectional(keras.GRU(2), merge_mode="sum"), x)
    result["stacked"] = called(keras.RNN([keras.LSTMCell(2), keras.LSTMCell(3)]), x)
    cell = keras.LSTMCell(2)
    over = keras.RNN(cell, return_state=True)
    result["cell"] = called(over, x)
    result["step"] = cell(x[:, 0], states=over(x)[1:])
    result["bias"] = keras.LSTMCell(2).get_config()["units"]
    fresh = keras.LSTM(3)
    fresh(x)
    recurrent = fresh.get_weights()[1]
    result["orthogonal"] = np.abs(np.round(recurrent @ recurrent.T, 4))
    result["forgets"] = fresh.get_weights()[2]
    return result


@case
def cells_of_your_own(tf):
    class Cell(tf.keras.layers.Layer):
        def __init__(self, units, **named):
            self.units = units
            self.state_size = units
            super().__init__(**named)

        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], self.units), initializer="uniform", name="kernel")
            self.again = self.add_weight(shape=(self.units, self.units), initializer="uniform", name="again")
            self.built = True

        def call(self, inputs, states):
            output = tf.matmul(inputs, self.kernel) + tf.matmul(states[0], self.again)
            return output, [output]

    x = steps()
    return {"one": called(tf.keras.layers.RNN(Cell(3)), x), "two": called(tf.keras.layers.RNN([Cell(3), Cell(2)]), x)}


@case
def over_steps(tf):
    keras = tf.keras.layers
    x = steps(length=5)
    return {
        "valid": called(keras.Conv1D(2, 2), x), "causal": called(keras.Conv1D(2, 3, padding="causal"), x),
        "same": called(keras.Conv1D(2, 3, padding="same", strides=2, activation="relu"), x),
        "max": keras.MaxPooling1D(2)(x), "mean": keras.AveragePooling1D(2, strides=1, padding="same")(x),
        "each": called(keras.TimeDistributed(keras.Dense(2)), x)}


@case
def masks(tf):
    keras = tf.keras.layers
    ids, x = np.array([[1, 2, 0, 0], [3, 0, 0, 0]]), steps()
    x[0, 2:] = x[1, 1] = 0

    def predicted(layers, values):
        model = tf.keras.Sequential(layers)
        model(values)
        set_weights(model)
        return model.predict(values, verbose=0)

    model = tf.keras.Sequential([tf.keras.Input((4, 3)), keras.Masking(), keras.Bidirectional(keras.GRU(
        2, return_sequences=True)), keras.LSTM(2), keras.Dense(1)])
    set_weights(model)
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    history = model.fit(x, np.array([1.0, 0.0]), epochs=3, batch_size=2, shuffle=False, verbose=0).history
    return {"lstm": predicted([keras.Embedding(5, 3, mask_zero=True), keras.LSTM(2), keras.Dense(1)], ids),
            "mean": predicted([keras.Embedding(5, 3, mask_zero=True), keras.Dropout(0.5),
                               keras.GlobalAveragePooling1D(), keras.Dense(1)], ids),
            "loss": history["loss"], "weights": model.get_weights(),
            "computed": keras.Embedding(5, 3, mask_zero=True).compute_mask(ids)}


@case
def sequence_to_sequence(tf):
    keras, x = tf.keras.layers, steps()
    inputs = tf.keras.Input((4, 3), name="steps")
    _, h, c = keras.LSTM(3, return_state=True, name="reads")(inputs)
    written = keras.LSTM(3, return_sequences=True, name="writes")(inputs, initial_state=[h, c])
    model = tf.keras.Model(inputs, keras.TimeDistributed(keras.Dense(1), name="each")(written), name="two")
    set_weights(model)
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    losses = model.fit(x, np.zeros((2, 4, 1)), epochs=2, verbose=0).history["loss"]
    return {"losses": losses, "weights": model.get_weights(), "summary": lines_of(model)}


@case
def tables_of_layers(tf):
    keras = tf.keras.layers
    chain = tf.keras.Sequential([keras.Dense(4, input_shape=(3,), name="a"), keras.LeakyReLU(name="b"),
                                 keras.BatchNormalization(name="a_long_name_of_a_layer"), keras.Dense(1, name="d")],
                                name="chain")
    left, right = tf.keras.Input((4,), name="left"), tf.keras.Input((4,), name="right")
    joined = keras.Concatenate(name="joined")([keras.Dense(3, name="dense")(left), keras.Subtract(name="less")(
        [left, right])])
    wide = tf.keras.Model([left, right], keras.Dense(1, name="out")(joined), name="wide")
    flat = tf.keras.Model(left, keras.Dense(2, name="end")(left), name="flat")

    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.first, self.second = keras.Dense(3, name="first"), keras.ReLU(name="second")

        def call(self, inputs):
            return self.second(self.first(inputs))

    own = Own()
    own(tf.ones((2, 3)))
    unknown = tf.keras.Sequential([keras.Embedding(10, 4, name="rows"), keras.GlobalAveragePooling1D(name="mean")],
                                  name="texts")
    return {"chain": lines_of(chain), "wide": lines_of(wide), "flat": lines_of(flat), "own": lines_of(own),
            "unknown": lines_of(unknown), "layers": [layer.name for layer in wide.layers],
            "inputs": [type(layer).__name__ for layer in flat.layers]}


@case
def files_of_models(tf):
    x, y = data()
    folder = tempfile.mkdtemp()
    model = dense_model(tf)
    model.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0)
    model.save(os.path.join(folder, "m.keras"))
    model.save_weights(os.path.join(folder, "m.weights.h5"))
    again = tf.keras.models.load_model(os.path.join(folder, "m.keras"))
    same = np.array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    more = [one.fit(x, y, epochs=1, batch_size=8, shuffle=False, verbose=0).history["loss"] for one in (model, again)]
    fresh = dense_model(tf)
    fresh.load_weights(os.path.join(folder, "m.weights.h5"))
    return {"same": same, "more": more, "weights": fresh.get_weights(), "step": int(again.optimizer.iterations),
            "metrics": sorted(again.evaluate(x, y, verbose=0, return_dict=True))}


@case
def classes_of_programs_in_files(tf):
    keras = tf.keras

    @keras.saving.register_keras_serializable(package="tests")
    class Scale(keras.layers.Layer):
        def __init__(self, factor, **named):
            super().__init__(**named)
            self.factor = factor

        def call(self, x):
            return x * self.factor

        def get_config(self):
            return {**super().get_config(), "factor": self.factor}

    class Stack(keras.Model):
        def __init__(self, units, **named):
            super().__init__(**named)
            self.units = units
            self.dense = [keras.layers.Dense(n) for n in units]

        def call(self, x):
            for layer in self.dense:
                x = layer(x)
            return x

        def get_config(self):
            return {"units": self.units}

        @classmethod
        def from_config(cls, config):
            return cls(**config)

    def squared(x):
        return x ** 2

    folder, x = tempfile.mkdtemp(), data()[0]
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1, activation=squared)(Scale(0.5)(inputs)))
    model.save(os.path.join(folder, "a.keras"))
    stack = Stack([3, 1])
    stack(x)
    stack.save(os.path.join(folder, "b.keras"))
    with keras.saving.custom_object_scope({"squared": squared}):
        first = keras.models.load_model(os.path.join(folder, "a.keras"))
    second = keras.models.load_model(os.path.join(folder, "b.keras"), custom_objects={"Stack": Stack})
    with keras.utils.custom_object_scope({"squared": squared}):
        clone = keras.models.clone_model(model)
        made = keras.Model.from_config(model.get_config())
    clone.set_weights(model.get_weights())
    dense = keras.layers.Dense.from_config(keras.layers.Dense(3, activation="relu", use_bias=False).get_config())
    text = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]).to_json()
    return {"same": [np.allclose(a(x), b(x)) for a, b in ((model, first), (stack, second), (model, clone))],
            "made": len(made.layers), "dense": [dense.units, dense.use_bias, dense(x).shape[-1]],
            "json": [layer.units for layer in keras.models.model_from_json(text).layers[-1:]],
            "found": keras.saving.get_registered_object("tests>Scale") is Scale}


@case
def adapted_layers_in_files(tf):
    keras, x = tf.keras.layers, np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]], np.float32)
    normal, over_all = keras.Normalization(), keras.Normalization(axis=None)
    normal.adapt(x)
    over_all.adapt(x[:, 0])
    model = tf.keras.Sequential([normal, keras.Dense(1)], name="numbers")
    folder = tempfile.mkdtemp()
    words = keras.StringLookup(output_mode="one_hot")
    words.adapt(np.array(["b", "a", "b"]))
    text = tf.keras.Input((1,), dtype="string")
    lookup = tf.keras.Model(text, words(text))
    lookup.save(os.path.join(folder, "words.keras"))
    again = tf.keras.models.load_model(os.path.join(folder, "words.keras"))
    return {"mean": normal.mean, "variance": normal.variance, "all": [over_all.mean, over_all.variance],
            "given": keras.Normalization(mean=[1.0, 2.0], variance=[1.0, 4.0])(x), "table": lines_of(model)[3:4],
            "words": again(tf.constant([["a"], ["b"], ["c"]]))}


@case
def weighted_counts(tf):
    layer = tf.keras.layers.CategoryEncoding(num_tokens=4, output_mode="count")
    ids, weights = tf.constant([[0, 1], [3, 3]]), tf.constant([[0.1, 0.2], [0.5, 0.25]])
    first, second = tf.keras.Input((2,), dtype="int64"), tf.keras.Input((2,))
    model = tf.keras.Model([first, second], layer(first, count_weights=second))
    return {"now": layer(ids, count_weights=weights), "without": layer(ids),
            "model": model.predict([ids.numpy(), weights.numpy()], verbose=0)}


@case
def data_for_sequences(tf):
    utils, metrics = tf.keras.utils, tf.keras.metrics
    rows = np.arange(60.0).reshape(20, 3)

    def elements(dataset):
        return [[part.numpy() for part in (one if isinstance(one, tuple) else (one,))] for one in dataset]

    folder = tempfile.mkdtemp()
    for name in ("ham", "spam"):
        os.mkdir(os.path.join(folder, name))
        for i in range(5):
            with open(os.path.join(folder, name, f"{i}.txt"), "w") as file:
                file.write(f"{name} {i}")
    texts = utils.text_dataset_from_directory(folder, batch_size=4, shuffle=False)
    held = [utils.text_dataset_from_directory(folder, validation_split=0.3, subset=part, seed=3,
                                               label_mode="categorical")
            for part in ("training", "validation")]
    labels = np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
    given = np.float32([[0.5, 0.4, 0.1], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])
    return {
        "windows": elements(utils.timeseries_dataset_from_array(rows, None, 4, sequence_stride=5, batch_size=2)),
        "targets": elements(utils.timeseries_dataset_from_array(rows[:, 0], np.arange(20) * 10, 3, sequence_stride=3,
                                                                sampling_rate=2, start_index=2, end_index=15,
                                                                batch_size=3)),
        "padded": [utils.pad_sequences([[1], [2, 3], [4, 5, 6]]), utils.pad_sequences(
            [[1], [2, 3], [4, 5, 6]], maxlen=2, padding="post", truncating="post", value=9),
            tf.keras.preprocessing.sequence.pad_sequences([[1.5], []], dtype="float32")],
        "texts": elements(texts), "classes": texts.class_names,
        "held": [sorted(text.decode() for batch, _ in part for text in batch.numpy()) for part in held],
        "accuracies": [metrics.categorical_accuracy(labels, given),
                       metrics.sparse_categorical_accuracy([0, 2, 1, 1], given),
                       metrics.top_k_categorical_accuracy(labels, given, 2),
                       metrics.sparse_top_k_categorical_accuracy([0, 2, 1, 1], given, k=2),
                       metrics.binary_accuracy([[1.0], [0.0]], [[0.7], [0.6]])]}


@case
def other_kinds_of_data(tf):
    """A model takes integers where it has floats, and labels of another rank or type than before."""
    inputs = tf.keras.Input((3,))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))
    set_weights(model)
    model.compile(tf.keras.optimizers.SGD(0.01, momentum=0.9), "mse")
    rows = np.array([[1, 2, 3], [3, 1, 0]])
    losses = [model.fit(*given, batch_size=2, shuffle=False, verbose=0).history["loss"] for given in (
        (rows, np.array([1, 2])), (rows * 1.5, np.array([[1.0], [2.0]])),
        (rows.astype(np.uint8), np.array([[1], [2]])))]
    dataset = tf.data.Dataset.from_tensor_slices((rows, np.array([1, 2]))).batch(2)
    losses.append(model.fit(dataset, verbose=0).history["loss"])
    sequence = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    return {"losses": losses, "weights": model.get_weights(), "one": model.predict_on_batch(tf.constant([[1, 2, 3]])),
            "shapes": [sequence.predict(np.ones((2, n, 3)), verbose=0).shape for n in (1, 4)]}


@case
def texts_to_numbers(tf):
    keras, strings = tf.keras.layers, tf.strings
    texts = np.array(["The cat, the DOG!", "a dog & cat's hat", "Bird bird bird", "the <br /> end"])
    result = {}
    for name, named in (("int", {}), ("multi_hot", {"output_mode": "multi_hot"}), ("tf_idf", {"output_mode": "tf_idf"}),
                        ("ngrams", {"max_tokens": 4, "output_sequence_length": 3, "ngrams": 2}),
                        ("characters", {"max_tokens": 10, "output_mode": "count", "pad_to_max_tokens": True,
                                        "split": "character", "standardize": "lower"})):
        layer = keras.TextVectorization(**named)
        layer.adapt(texts if name == "int" else tf.data.Dataset.from_tensor_slices(texts).batch(2))
        result[name] = [layer(texts), layer.get_vocabulary(), layer.vocabulary_size()]
    integers = keras.TextVectorization(vocabulary=["", "[UNK]", "cat", "dog"])
    result["shapes"] = [integers([["dog"], ["cat x"]]), integers("the dog"), integers(["cat"])]

    def standardize(text):
        return strings.regex_replace(strings.regex_replace(strings.lower(text), "<br />", " "), "[&!,]", "")

    own = keras.TextVectorization(standardize=standardize, vocabulary=["cat", "dog"], output_sequence_length=4)
    batches = tf.data.Dataset.from_tensor_slices((texts, [0, 1, 1, 0])).batch(3)  # the last batch is smaller
    numbers = batches.map(lambda text, label: (own(tf.expand_dims(text, -1)), label))
    result["map"] = [[part.numpy() for part in element] for element in numbers]
    model = tf.keras.Sequential([keras.Embedding(4, 2), keras.GlobalAveragePooling1D(), keras.Dense(1)])
    model(own(texts))
    set_weights(model)
    whole = tf.keras.Sequential([own, model, keras.Activation("sigmoid")])
    whole.compile(loss="binary_crossentropy", metrics=["accuracy"])
    result["model"] = [whole.predict(texts, verbose=0), whole(tf.constant(texts[:2])),
                       whole.evaluate(batches, verbose=0)]
    result["strings"] = [strings.lower(texts), strings.upper("a"), strings.strip(" x "),
                         strings.length(["ab", "\u00e9"]),
                         strings.length(["ab", "\u00e9"], unit="UTF8_CHAR"),
                         strings.join([["a", "b"], "c"], separator="-"),
                         strings.split("a b  c"), strings.regex_replace("a1b22", r"(\d+)", r"<\1>"),
                         strings.split(["a b", "", "c"]).values]
    return result
