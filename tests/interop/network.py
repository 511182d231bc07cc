# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of network.c: Keras' fit of the same network from the same first values."""
import csv
import glob
import os
import sys

import interop
import numpy as np
import tensorflow as tf


def part(tensors, prefix):
    return {name[len(prefix) + 1:]: value for name, value in tensors.items() if name.startswith(prefix + "/")}


def compare(what, ours, theirs, tolerance=1e-5):
    """Errors are relative to the largest number."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    error = np.max(np.abs(ours - theirs)) / max(np.max(np.abs(theirs)), 1e-30)
    if not error <= tolerance:
        raise AssertionError(f"{what}: {error}\n{ours}\n{theirs}")


def make_model(optimizer):
    model = tf.keras.Sequential([
        tf.keras.Input((6,)),
        tf.keras.layers.Dense(8, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(0.01)),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.Dense(3, activation="softmax")])
    make = {"adam": tf.keras.optimizers.Adam, "sgd": tf.keras.optimizers.SGD}[optimizer]
    model.compile(loss="sparse_categorical_crossentropy", optimizer=make(0.02), metrics=["accuracy"],
                  weighted_metrics=["sparse_categorical_crossentropy"])
    return model


def check_one(folder, optimizer):
    ours = interop.read_tensors(folder + "/" + optimizer)
    x, y, w = ours["x"], ours["y"], ours["w"]
    model = make_model(optimizer)
    variables = [v for layer in model.layers for v in layer.weights]  # gamma, beta, mean, variance in our order
    for i, v in enumerate(variables):
        v.assign(part(ours, "before")[str(i)])
    history = model.fit(
        x, y, sample_weight=w, batch_size=7, epochs=8, shuffle=False, validation_split=0.2, verbose=0,
        callbacks=[tf.keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=0.02, cooldown=1),
                   tf.keras.callbacks.EarlyStopping("val_loss", patience=4, min_delta=0.01)]).history
    mine = part(ours, "history")
    assert set(mine) == set(history), (sorted(mine), sorted(history))
    for name, values in history.items():
        compare(f"{optimizer} {name}", mine[name], values)
    for i, v in enumerate(variables):
        compare(f"{optimizer} {v.name}", part(ours, "after")[str(i)], v.numpy())
    results = model.evaluate(x, y, sample_weight=w, batch_size=8, verbose=0, return_dict=True)
    for name, value in part(ours, "evaluate").items():
        compare(f"{optimizer} evaluate {name}", value, results[name])
    compare(f"{optimizer} predictions", ours["predicted"], model.predict(x, verbose=0))
    print(optimizer, len(history["loss"]), "epochs, learning rates", history["lr"])


def check_fit(folder):
    for optimizer in ("adam", "sgd"):
        check_one(folder, optimizer)


class Counter(tf.keras.callbacks.Callback):
    batches = 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return rows[0], np.array(rows[1:], dtype=float)


def read_board(folder):
    """The scalars of event files: tag and step to value."""
    found = {}
    for path in glob.glob(folder + "/events*"):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                scalar = value.simple_value if value.HasField("simple_value") else tf.make_ndarray(value.tensor)
                found[value.tag, event.step] = float(scalar)
    return found


def check_board(ours, theirs):
    for part_of in ("train", "validation"):
        mine, wanted = read_board(f"{ours}/{part_of}"), read_board(f"{theirs}/{part_of}")
        assert wanted and set(mine) == set(wanted), (sorted(mine), sorted(wanted))
        for key, value in wanted.items():
            compare(f"{part_of} {key}", mine[key], value)


def saved_epochs(folder, prefix):
    return sorted({os.path.basename(path).split(".")[0] for path in glob.glob(f"{folder}/{prefix}-*.index")})


NAMES = ["dense/kernel", "dense/bias", "batch_normalization/gamma", "batch_normalization/beta",
         "batch_normalization/moving_mean", "batch_normalization/moving_variance", "dense_1/kernel", "dense_1/bias"]


def check_callbacks(folder):
    ours = interop.read_tensors(folder + "/callbacks")
    model, counter = make_model("adam"), Counter()
    variables = [v for layer in model.layers for v in layer.weights]
    for i, v in enumerate(variables):
        v.assign(part(ours, "before")[str(i)])
    history = model.fit(
        ours["x"], ours["y"], batch_size=7, epochs=8, shuffle=False, validation_split=0.2, verbose=0,
        callbacks=[tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.05 if epoch < 2 else rate * 0.9),
                   tf.keras.callbacks.CSVLogger(folder + "/theirs.csv"),
                   tf.keras.callbacks.ModelCheckpoint(folder + "/theirs-{epoch:02d}", save_best_only=True,
                                                      save_weights_only=True),
                   counter,
                   tf.keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
                   tf.keras.callbacks.TensorBoard(folder + "/their_board", write_graph=False)]).history
    mine = part(ours, "history")
    assert set(mine) == set(history), (sorted(mine), sorted(history))
    assert len(history["loss"]) < 8, "early stopping has not stopped"
    for name, values in history.items():
        compare(name, mine[name], values)
    for i, v in enumerate(variables):
        compare(v.name, part(ours, "after")[str(i)], v.numpy())
    assert int(ours["batches"]) == counter.batches, (ours["batches"], counter.batches)
    (names, rows), (their_names, their_rows) = read_csv(folder + "/log.csv"), read_csv(folder + "/theirs.csv")
    assert names == their_names, (names, their_names)
    compare("csv", rows, their_rows)
    check_board(folder + "/board", folder + "/their_board")
    saved = saved_epochs(folder, "best")
    assert saved == [name.replace("theirs", "best") for name in saved_epochs(folder, "theirs")], saved
    reader = tf.train.load_checkpoint(f"{folder}/{saved[-1]}")  # ours, of the best epoch: what was restored
    assert len(reader.get_variable_to_shape_map()) == len(NAMES)
    for i, name in enumerate(NAMES):
        compare(f"saved {name}", part(ours, "after")[str(i)], reader.get_tensor(name), 0)
    check_nan(folder)


def check_nan(folder):
    ours, counter = interop.read_tensors(folder + "/nan"), Counter()
    model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(1e6))
    model.fit(ours["x"], ours["y"], batch_size=7, epochs=3, shuffle=False, verbose=0,
              callbacks=[counter, tf.keras.callbacks.TerminateOnNaN()])
    assert int(ours["batches"]) == counter.batches, (ours["batches"], counter.batches)
    assert counter.batches < 24, "the loss is always finite"


# the loss, which is measured with weights as well; weights of rows; the part of validation
CLASSES = {"sparse": ("sparse_categorical_crossentropy", False, 0.2),
           "samples": ("sparse_categorical_crossentropy", True, 0.2),
           "one_hot": ("categorical_crossentropy", False, 0),
           "column": ("mse", True, 0.2)}


CLASS_WEIGHT = {0: 0.5, 1: 2, 2: 1.25}


def fit_batches(model, x, y, w, split):
    """fit as single steps: Keras 2.15 multiplies weights of rows and of classes only where the shape of a batch is known."""
    rows, history = int(len(x) * (1 - split)), {}
    for _ in range(4):
        model.reset_metrics()
        for at in range(0, rows, 7):
            end = min(at + 7, rows)
            logs = model.train_on_batch(x[at:end], y[at:end], sample_weight=w[at:end], class_weight=CLASS_WEIGHT,
                                        reset_metrics=False, return_dict=True)
        logs = dict(logs)
        tested = model.evaluate(x[rows:], y[rows:], sample_weight=w[rows:], batch_size=7, verbose=0, return_dict=True)
        logs.update({"val_" + name: value for name, value in tested.items()})
        for name, value in logs.items():
            history.setdefault(name, []).append(value)
    return history


def check_classes(folder, name):
    loss, samples, split = CLASSES[name]
    ours = interop.read_tensors(folder + "/" + name)
    last = tf.keras.layers.Dense(1) if name == "column" else tf.keras.layers.Dense(3, activation="softmax")
    model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(8, activation="relu"), last])
    model.compile(loss=loss, optimizer=tf.keras.optimizers.Adam(0.02), metrics=["mae" if name == "column" else "accuracy"],
                  weighted_metrics=[loss])
    for i, v in enumerate(model.weights):
        v.assign(part(ours, "before")[str(i)])
    x, y, w = ours["x"], ours["y"], ours["sample_weight"] if samples else None
    history = fit_batches(model, x, y, w, split) if samples else model.fit(
        x, y, batch_size=7, epochs=4, shuffle=False, validation_split=split, class_weight=CLASS_WEIGHT, verbose=0).history
    mine = part(ours, "history")
    assert set(mine) == set(history), (sorted(mine), sorted(history))
    for column, values in history.items():
        compare(f"{name} {column}", mine[column], values)
    for i, v in enumerate(model.weights):
        compare(f"{name} {v.name}", part(ours, "after")[str(i)], v.numpy())


def check_class_weights(folder):
    for name in CLASSES:
        check_classes(folder, name)


def make_two_heads():
    x = tf.keras.Input((6,))
    hidden = tf.keras.layers.Dense(8, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(0.01))(x)
    price = tf.keras.layers.Dense(1, name="price")(hidden)
    kind = tf.keras.layers.Dense(3, activation="softmax", name="kind")(hidden)
    model = tf.keras.Model(x, [price, kind])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.02), loss={"price": "mse", "kind": "sparse_categorical_crossentropy"},
                  loss_weights={"price": 1, "kind": 0.25}, metrics={"price": "mae", "kind": "accuracy"},
                  weighted_metrics={"price": "mse"})
    return model


def check_outputs(folder):
    ours = interop.read_tensors(folder + "/outputs")
    x, w = ours["x"], ours["sample_weight"]
    y = {"price": ours["price"], "kind": ours["kind"]}
    model = make_two_heads()
    variables = model.weights
    for i, v in enumerate(variables):
        v.assign(part(ours, "before")[str(i)])
    history = model.fit(x, y, sample_weight=w, batch_size=7, epochs=4, shuffle=False, validation_split=0.2, verbose=0).history
    mine = part(ours, "history")
    assert set(mine) == set(history), (sorted(mine), sorted(history))
    for name, values in history.items():
        compare(name, mine[name], values)
    for i, v in enumerate(variables):
        compare(v.name, part(ours, "after")[str(i)], v.numpy())
    results = model.evaluate(x, y, sample_weight=w, batch_size=8, verbose=0, return_dict=True)
    for name, value in part(ours, "evaluate").items():
        compare(f"evaluate {name}", value, results[name])
    for name, value in zip(("price", "kind"), model.predict(x, verbose=0)):
        compare(f"predictions {name}", ours["predicted/" + name], value)


interop.serve(sys.modules[__name__])
