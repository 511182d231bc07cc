# SPDX-License-Identifier: Apache-2.0
"""Cases as those of cases.py, of optimizers, schedules, and models with several inputs and outputs. Run with TensorFlow
2.15 it writes golden_objects.json (scripts/make-golden-python)."""
import sys

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def data(n=32, width=4):
    random = np.random.RandomState(3)
    x = random.randn(n, width).astype(np.float32)
    return x, (x @ np.arange(1, width + 1, dtype=np.float32)[:, None] * 0.5 + 0.1).astype(np.float32)


def set_weights(model):
    random = np.random.RandomState(5)
    model.set_weights([(random.randn(*w.shape) * 0.3).astype(w.dtype) if w.ndim else w for w in model.get_weights()])


# --- optimizers -------------------------------------------------------------------------------------------------------


def optimizers_of(tf):
    K = tf.keras.optimizers
    return {"AdamW": K.AdamW(0.02, weight_decay=0.1), "Lion": K.Lion(0.01), "Lion_decay": K.Lion(0.01, weight_decay=0.2),
            "SGD_decay": K.SGD(0.05, momentum=0.9, weight_decay=0.1), "Adam_decay": K.Adam(0.02, weight_decay=0.1),
            "Adadelta": K.Adadelta(1.0), "Adamax": K.Adamax(0.02, weight_decay=0.05),
            "Adagrad_clip": K.Adagrad(0.1, clipnorm=0.3), "Adam_global": K.Adam(0.02, global_clipnorm=0.3),
            "RMSprop_clip": K.RMSprop(0.02, clipvalue=0.1),
            "legacy_Adam": K.legacy.Adam(0.02), "legacy_SGD": K.legacy.SGD(0.05, momentum=0.9, clipnorm=0.5),
            "legacy_RMSprop": K.legacy.RMSprop(0.02), "legacy_Adamax": K.legacy.Adamax(0.02),
            "legacy_Ftrl": K.legacy.Ftrl(0.1), "legacy_Adadelta": K.legacy.Adadelta(1.0),
            "warmup": K.SGD(K.schedules.CosineDecay(0.0, 20, warmup_target=0.1, warmup_steps=5))}


def model_of(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh", input_shape=(4,)), tf.keras.layers.Dense(1)])
    set_weights(model)
    return model


@case
def optimizers_in_loops(tf):
    x, y = data()
    out = {}
    for name, optimizer in optimizers_of(tf).items():
        model = model_of(tf)

        @tf.function
        def step(a, b):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(a, training=True) - b))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss

        losses = [step(x, y) for _ in range(20)]
        out[name] = {"losses": losses[::5], "weights": model.get_weights(), "iterations": int(optimizer.iterations)}
    return out


@case
def optimizers_in_fit(tf):
    x, y = data()
    out = {}
    for name, optimizer in optimizers_of(tf).items():
        model = model_of(tf)
        model.compile(optimizer, "mse")
        history = model.fit(x, y, batch_size=16, epochs=10, shuffle=False, verbose=0)
        out[name] = {"history": history.history["loss"][::3], "weights": model.get_weights()}
    return out


@case
def weight_decay_excluded(tf):
    x, y = data()
    model, optimizer = model_of(tf), tf.keras.optimizers.AdamW(0.02, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, "mse")
    model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    return {"weights": model.get_weights(), "decay": optimizer.weight_decay}


@case
def schedules(tf):
    S = tf.keras.optimizers.schedules
    steps = [0, 1, 3, 4, 5, 6, 10, 30]
    return {name: [schedule(step) for step in steps] for name, schedule in {
        "warmup": S.CosineDecay(0.01, 20, alpha=0.1, warmup_target=0.1, warmup_steps=5),
        "no_target": S.CosineDecay(0.1, 20, warmup_steps=5),
        "inverse": S.InverseTimeDecay(0.1, 2, 0.5, staircase=True), "polynomial": S.PolynomialDecay(0.1, 5, power=2, cycle=True),
        "restarts": S.CosineDecayRestarts(0.1, 4, t_mul=1.5, m_mul=0.5, alpha=0.1)}.items()}


@case
def examples(tf):
    T = tf.train
    made = T.Example(features=T.Features(feature={
        "f": T.Feature(float_list=T.FloatList(value=[1.5, -0.1])), "i": T.Feature(int64_list=T.Int64List(value=[-7, 2**40])),
        "b": T.Feature(bytes_list=T.BytesList(value=[b"x\x00\xff\n\"q\"", b""]))}))
    parsed = T.Example.FromString(made.SerializeToString())
    again = T.Example()
    count = again.ParseFromString(made.SerializeToString())
    return {"f": list(parsed.features.feature["f"].float_list.value), "i": list(again.features.feature["i"].int64_list.value),
            "b": [value.hex() for value in parsed.features.feature["b"].bytes_list.value], "count": count,
            "equal": parsed == made, "names": sorted(parsed.features.feature), "has": "f" in parsed.features.feature,
            "text": sorted(str(parsed).splitlines()), "empty": len(parsed.features.feature["f"].int64_list.value)}


# --- several outputs --------------------------------------------------------------------------------------------------


def two_outputs(tf, form="list"):
    layers = tf.keras.layers
    a, b = tf.keras.Input((4,), name="a"), tf.keras.Input((2,), name="b")
    shared = layers.Dense(3, activation="tanh", name="shared")
    hidden = layers.Concatenate(name="both")([shared(a), layers.Dense(3, name="of_b")(b)])
    price = layers.Dense(1, name="price")(hidden)
    kind = layers.Dense(3, activation="softmax", name="kind")(hidden)
    outputs = {"list": [price, kind], "tuple": (price, kind), "dict": {"p": price, "k": kind}}[form]
    model = tf.keras.Model([a, b], outputs)
    set_weights(model)
    return model


def rows_of_two(n=24):
    random = np.random.RandomState(11)
    a, b = random.randn(n, 4).astype(np.float32), random.randn(n, 2).astype(np.float32)
    price = (a[:, :1] - b[:, 1:]).astype(np.float32)
    kind = (a[:, 0] > 0).astype(np.int64) + (b[:, 0] > 0).astype(np.int64)
    return a, b, price, kind


@case
def several_outputs(tf):
    a, b, price, kind = rows_of_two()
    losses = {"price": "mse", "kind": "sparse_categorical_crossentropy"}
    out = {}

    def run(model, x, y, **compiled):
        model.compile(tf.keras.optimizers.SGD(0.05), **compiled)
        history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        return {"history": history.history, "evaluate": model.evaluate(x, y, verbose=0),
                "names": model.metrics_names, "predict": model.predict(x, verbose=0),
                "batch": model.train_on_batch(x, y), "weights": model.get_weights()}

    out["dicts"] = run(two_outputs(tf), {"a": a, "b": b}, {"price": price, "kind": kind}, loss=losses,
                       loss_weights={"price": 0.5, "kind": 2.0}, metrics={"price": "mae", "kind": ["accuracy"]})
    out["lists"] = run(two_outputs(tf), [a, b], [price, kind], loss=["mse", "sparse_categorical_crossentropy"],
                       loss_weights=[0.5, 2.0], metrics=[["mae"], ["accuracy"]])
    out["tuples"] = run(two_outputs(tf, "tuple"), (a, b), (price, kind), loss=list(losses.values()))
    dataset = tf.data.Dataset.from_tensor_slices(({"a": a, "b": b}, {"price": price, "kind": kind})).batch(8)
    model = two_outputs(tf)
    model.compile("sgd", losses, metrics={"kind": "accuracy"})
    out["dataset"] = [model.fit(dataset, epochs=2, verbose=0).history, model.evaluate(dataset, verbose=0),
                      model.predict(dataset, verbose=0)]
    dataset = tf.data.Dataset.from_tensor_slices(((a, b), (price, kind))).batch(8)
    model = two_outputs(tf)
    model.compile("sgd", losses)
    out["dataset_tuples"] = model.fit(dataset, epochs=1, verbose=0, validation_data=dataset).history
    model = two_outputs(tf, "dict")
    model.compile("sgd", {"p": "mse", "k": "sparse_categorical_crossentropy"})
    history = model.fit([a, b], {"p": price, "k": kind}, batch_size=8, shuffle=False, verbose=0).history
    out["dict"] = [history["loss"], len(history), model.predict([a, b], verbose=0)]
    model = two_outputs(tf)
    model.compile("sgd", loss={"price": "mse"})
    history = model.fit([a, b], {"price": price}, batch_size=8, shuffle=False, verbose=0).history
    out["one_loss"] = [history["loss"], model.predict([a, b], verbose=0)]
    out["names"] = [two_outputs(tf).output_names, two_outputs(tf).input_names]
    return out


@case
def subclass_with_outputs(tf):
    a, b, price, kind = rows_of_two()

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.first = tf.keras.layers.Dense(3, activation="tanh"), tf.keras.layers.Dense(1)
            self.second = tf.keras.layers.Dense(3, activation="softmax")

        def call(self, inputs):
            hidden = self.hidden(inputs["a"])
            return {"price": self.first(hidden), "kind": self.second(hidden)}

    model = Net()
    model({"a": a})
    set_weights(model)
    model.compile("sgd", {"price": "mse", "kind": "sparse_categorical_crossentropy"}, metrics={"kind": "accuracy"})
    history = model.fit({"a": a}, {"price": price, "kind": kind}, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return {"history": history.history, "predict": model.predict({"a": a}, verbose=0)}


@case
def nested_models(tf):
    x, y = data()
    inner = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="tanh", input_shape=(4,))], name="inner")
    a, b = tf.keras.Input((4,), name="a"), tf.keras.Input((4,), name="b")
    middle = tf.keras.Model(a, tf.keras.layers.Dense(2)(inner(a)), name="middle")
    model = tf.keras.Model([a, b], tf.keras.layers.Dense(1)(middle(a) + middle(b)))
    set_weights(model)
    model.compile("sgd", "mse")
    history = model.fit([x, x[::-1]], y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return {"loss": history.history["loss"], "weights": model.get_weights(), "layers": [
        layer.name for layer in model.layers if layer.name in ("middle", "inner")], "count": model.count_params()}


@case
def losses_of_calls(tf):
    x, y = data()
    layers = tf.keras.layers

    class Code(layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2, activation="tanh")

        def call(self, inputs):
            code = self.dense(inputs)
            self.add_loss(0.1 * tf.reduce_mean(tf.abs(code)))
            self.add_metric(tf.reduce_mean(tf.square(code), axis=1), name="energy")
            return code

    out = {}
    model = tf.keras.Sequential([tf.keras.Input((4,)), Code(), layers.Dense(1, kernel_regularizer="l2")])
    set_weights(model)
    model.compile("sgd", "mse", metrics=["mae"])
    history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0, validation_data=(x[:8], y[:8])).history
    out["layer"] = {key: history[key] for key in ("loss", "mae", "energy", "val_loss", "val_energy")}

    a = tf.keras.Input((4,), name="a")
    back = layers.Dense(4)(layers.Dense(2, activation="tanh")(a))
    auto = tf.keras.Model(a, back)
    set_weights(auto)
    auto.add_loss(tf.reduce_mean(tf.square(back - a)))
    auto.compile("sgd")
    out["only"] = [auto.fit(x, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"],
                   auto.evaluate(x, verbose=0), auto.predict(x[:3], verbose=0)]
    dataset = tf.data.Dataset.from_tensor_slices(x).batch(8)
    out["dataset"] = auto.fit(dataset, epochs=1, verbose=0).history["loss"]
    return out


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
