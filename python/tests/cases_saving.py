# SPDX-License-Identifier: Apache-2.0
"""Cases of keras_cases.py: objects as plain values and back, and models that are made again."""
import os
import tempfile

import numpy as np

from keras_cases import case


def described(tf):
    keras = tf.keras
    layers = keras.layers
    return [
        layers.Dense(3, activation="relu", input_shape=(4,)), layers.LSTM(2, recurrent_constraint="non_neg"),
        layers.GRU(2, reset_after=False, stateful=True), layers.SimpleRNN(3, kernel_regularizer="l2"),
        layers.Conv2D(2, 3, strides=2, kernel_initializer=keras.initializers.HeNormal()), layers.Dropout(0.5),
        layers.Embedding(3, 4), layers.Activation("tanh"), layers.Flatten(), layers.Rescaling(0.5),
        layers.Bidirectional(layers.GRU(2)), layers.InputLayer((3,), name="first"), layers.UpSampling2D(),
        layers.Softmax(axis=1), layers.ELU(), layers.GaussianNoise(0.1),
        keras.losses.BinaryCrossentropy(from_logits=True), keras.losses.MeanSquaredError(), keras.losses.Huber(0.5),
        keras.metrics.AUC(), keras.metrics.Mean("m"), keras.metrics.SparseCategoricalAccuracy(),
        keras.optimizers.Adam(0.25), keras.optimizers.legacy.SGD(),
        keras.regularizers.L1(0.005), keras.regularizers.L2(0.1), keras.regularizers.L1L2(0.1, 0.2),
        keras.initializers.HeNormal(), keras.initializers.Constant(2), keras.initializers.RandomUniform(-1, 1),
        keras.constraints.MaxNorm(1), keras.constraints.NonNeg(), keras.mixed_precision.Policy("mixed_bfloat16")]


@case
def objects_as_plain_values(tf):
    saving, found = tf.keras.saving, []
    for value in described(tf):
        config = saving.serialize_keras_object(value)
        config["config"].pop("fn", None)  # in TensorFlow it depends on what was saved before
        again = saving.serialize_keras_object(saving.deserialize_keras_object(config))
        again["config"].pop("fn", None)
        found.append([config, again == config])
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    adam = saving.deserialize_keras_object(saving.serialize_keras_object(tf.keras.optimizers.Adam(schedule)))
    found.append([type(adam).__name__, float(adam.learning_rate)])
    built = tf.keras.layers.Dense(3)
    built(np.ones((2, 4), np.float32))
    config = saving.serialize_keras_object(built)
    found.append([config["build_config"], [list(w.shape) for w in saving.deserialize_keras_object(config).weights]])
    found.append(saving.serialize_keras_object([1, (2, 3), {"a": None}, tf.float32, tf.nn.relu, np.float32(2)]))
    return found


@case
def objects_by_their_modules(tf):
    keras, found = tf.keras, []
    for module, value in ((keras.losses, keras.losses.Huber()), (keras.metrics, keras.metrics.MeanAbsoluteError()),
                          (keras.layers, keras.layers.Dense(2)), (keras.initializers, keras.initializers.GlorotNormal(3)),
                          (keras.regularizers, keras.regularizers.L1()), (keras.constraints, keras.constraints.UnitNorm()),
                          (keras.optimizers.schedules, keras.optimizers.schedules.CosineDecay(0.1, 5))):
        config = module.serialize(value)
        made = module.deserialize(config)
        found.append([config["class_name"], sorted(config), type(made) is type(value)])
    adagrad = keras.optimizers.deserialize(keras.optimizers.serialize(keras.optimizers.Adagrad(0.5)))
    found.append([type(adagrad).__name__, float(adagrad.learning_rate)])
    found += [keras.losses.serialize(keras.losses.mse), keras.activations.serialize(keras.activations.relu),
              keras.initializers.get(keras.initializers.serialize(keras.initializers.Constant(3.0)))((2,)),
              type(keras.losses.deserialize("mse")).__name__ != "str", type(keras.metrics.deserialize("mae")).__name__ != "str",
              type(keras.optimizers.deserialize({"class_name": "SGD", "config": {"learning_rate": 0.5}})).__name__]
    dense = keras.layers.Dense.from_config(keras.layers.Dense(
        2, kernel_initializer=keras.initializers.Constant(2.0), kernel_regularizer="l2", activation="tanh").get_config())
    dense(np.ones((1, 3), np.float32))
    return found + [dense(np.ones((1, 3), np.float32) * 0.1), dense.losses, dense.get_config()]


def of_your_own(tf):
    keras = tf.keras

    @keras.saving.register_keras_serializable(package="cases", name="Scale")
    class Scaled(keras.layers.Layer):
        def __init__(self, factor, inner=None, **named):
            super().__init__(**named)
            self.factor, self.inner = factor, inner

        def call(self, x):
            x = x * self.factor
            return x if self.inner is None else self.inner(x)

        def get_config(self):
            inner = keras.saving.serialize_keras_object(self.inner)
            return {**super().get_config(), "factor": self.factor, "inner": inner}

        @classmethod
        def from_config(cls, config):
            config["inner"] = keras.saving.deserialize_keras_object(config["inner"])
            return cls(**config)

    @keras.saving.register_keras_serializable("cases")
    def squared(x):
        return x**2

    class Plain(keras.layers.Layer):
        def __init__(self, factor, name=None):
            super().__init__(name=name)
            self.factor = factor

        def call(self, x):
            return x * self.factor

    class Opaque(keras.layers.Layer):
        def __init__(self, thing):
            super().__init__()

    return Scaled, squared, Plain, Opaque


@case
def objects_of_your_own(tf):
    keras = tf.keras
    saving, x = keras.saving, np.ones((2, 3), np.float32)
    scaled, squared, plain, opaque = of_your_own(tf)
    layer = scaled(2.0, scaled(3.0, name="inner"), name="outer")
    config = saving.serialize_keras_object(layer)
    found = {"config": {key: value for key, value in config.items() if key != "module"}["registered_name"],
             "names": [config["class_name"], config["config"]["inner"]["registered_name"]],
             "again": saving.deserialize_keras_object(config)(x), "function": saving.serialize_keras_object(squared),
             "back": saving.deserialize_keras_object(saving.serialize_keras_object(squared))(3.0)}
    found["registered"] = [saving.get_registered_name(scaled), saving.get_registered_object("cases>squared") is squared,
                           "cases>Scale" in saving.get_custom_objects(), saving.get_registered_object("none")]
    found["plain"] = plain(2.5, name="p").get_config()
    try:
        opaque(object()).get_config()
    except NotImplementedError as error:
        found["opaque"] = " ".join(str(error).split())[:60]
    with saving.custom_object_scope({"Plain": plain, "other": squared}):
        made = keras.layers.deserialize({"class_name": "Plain", "config": {"factor": 2.0, "name": "q"}})
        dense = keras.layers.Dense(2, activation="other", kernel_initializer="ones")
    found["scope"] = [made(x), made.name, dense(x)]
    found["direct"] = keras.layers.deserialize({"class_name": "Plain", "config": {"factor": 4.0}},
                                               custom_objects={"Plain": plain})(x)
    keras.utils.get_custom_objects()["mine"] = squared
    found["global"] = keras.layers.Dense(2, activation="mine", kernel_initializer="ones")(x)
    del keras.utils.get_custom_objects()["mine"]
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1, activation=squared, kernel_initializer="ones")(layer(inputs)))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        found["file"] = keras.models.load_model(path)(x)
    found["clone"] = [type(item).__name__ for item in keras.models.clone_model(model).layers]
    try:
        saving.deserialize_keras_object({"class_name": "Nobody", "config": {}, "module": None, "registered_name": None})
    except TypeError as error:
        found["unknown"] = type(error).__name__
    return found


def counting(tf):
    class Counting(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable(1.0)
            self.unused = tf.Variable([1, 2], trainable=False)
            self.parts = {"a": [tf.Variable([3.0]), tf.Variable([4.0])]}

        @tf.function
        def __call__(self, x):
            return x * self.v

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def mutate(self, value):
            self.v.assign(value)

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.float32)])
        def count(self, by, x):
            self.v.assign_add(by)
            before = self.v * 2.0
            self.v.assign_add(by)
            self.parts["a"][0].assign_sub([0.5])
            return {"before": before, "after": self.v + x}

    return Counting()


@case
def functions_that_change_variables(tf):
    module = counting(tf)
    module(tf.constant(0.0))
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
        found = {"call": [loaded(tf.constant(3.0)), loaded.mutate(tf.constant(2.0)), loaded(tf.constant(3.0)), loaded.v,
                          loaded.count(tf.constant(1.0), tf.constant([1.0, 2.0])), loaded.v, module.v],
                 "parts": [loaded.unused, loaded.unused.trainable, loaded.parts["a"][0] if isinstance(
                     loaded.parts, dict) else vars(loaded.parts)["a"][0]]}
        optimizer = tf.keras.optimizers.SGD(0.05)

        def step():
            with tf.GradientTape() as tape:
                loss = (10.0 - loaded(tf.constant(2.0))) ** 2
            variables = tape.watched_variables()
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return [loss, len(variables)]

        found["trained"] = [step(), step(), loaded.v]
        x = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            y = loaded(x * x)
        found["through"] = [tape.gradient(y, [x, loaded.v]), len(loaded.signatures)]

        @tf.function
        def twice(x):
            loaded.mutate(x)
            first = loaded(x)
            loaded.mutate(x + 1.0)
            return first, loaded(x)

        found["in a function"] = [twice(tf.constant(5.0)), twice(tf.constant(2.0)), loaded.v]
        again = tf.saved_model.load(folder)
        found["again"] = again.v
        try:
            loaded(tf.constant([1.0, 2.0]))
        except ValueError as error:
            found["unknown"] = str(error)[:35]
    return found


@case
def signatures_of_models(tf):
    keras, x = tf.keras, np.ones((2, 3), np.float32)
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2, kernel_initializer="ones")(inputs))
    model.compile("sgd", "mse")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def doubled(x):
        return {"twice": model(x) * 2.0}

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "signed")
        model.save(path, signatures={"doubled": doubled, "serving_default": doubled.get_concrete_function()})
        loaded = tf.saved_model.load(path)
        again = keras.models.load_model(path)
        return [sorted(loaded.signatures), loaded.signatures["doubled"](tf.constant(x)), again(x), again.evaluate(
            x, np.zeros((2, 2)), verbose=0)]


def kept_by_layers(tf):
    keras = tf.keras

    @keras.saving.register_keras_serializable("cases")
    class Words(keras.layers.Dense):
        def __init__(self, words=None, *args, **named):
            super().__init__(*args, **named)
            self.words = words

        def save_assets(self, folder):
            with open(os.path.join(folder, "words.txt"), "w", encoding="utf-8") as file:
                file.write(self.words)

        def load_assets(self, folder):
            with open(os.path.join(folder, "words.txt"), encoding="utf-8") as file:
                self.words = file.read().replace("<unk>", "little")

    @keras.saving.register_keras_serializable("cases")
    class Doubled(keras.layers.Dense):
        def save_own_variables(self, store):
            super().save_own_variables(store)
            store["kernel"], store["step"] = self.kernel.numpy() * 2.0, np.int64(3)

        def load_own_variables(self, store):
            self.kernel.assign(store["kernel"])
            self.step = int(np.asarray(store["step"]))

    @keras.saving.register_keras_serializable("cases")
    class Built(keras.layers.Layer):
        def __init__(self, units=2, **named):
            super().__init__(**named)
            self.units = units

        def build(self, input_shape, start):
            super().build(input_shape)
            self.w = self.add_weight(name="w", shape=(input_shape[-1], self.units), initializer=start)
            self.start = start

        def call(self, x):
            return tf.matmul(x, self.w)

        def get_config(self):
            return dict(units=self.units, **super().get_config())

        def get_build_config(self):
            return {**super().get_build_config(), "start": self.start}

        def build_from_config(self, config):
            self.build(config["input_shape"], config["start"])

    @keras.saving.register_keras_serializable("cases")
    def tenth(y_true, y_pred):
        return tf.reduce_sum(tf.square(y_pred - y_true) / 10.0, axis=1)

    @keras.saving.register_keras_serializable("cases")
    class Compiled(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x):
            return self.dense(x)

        def compile(self, optimizer, loss_fn):
            super().compile(optimizer=optimizer, loss=loss_fn)
            self.told = [optimizer, loss_fn]

        def get_compile_config(self):
            return {"first": self.told[0], "second": self.told[1]}

        def compile_from_config(self, config):
            self.compile(keras.saving.deserialize_keras_object(config["first"]),
                         keras.saving.deserialize_keras_object(config["second"]))

    return Words, Doubled, Built, tenth, Compiled


@case
def files_with_more_of_layers(tf):
    keras, x = tf.keras, np.ones((2, 3), np.float32)
    words, doubled, built, tenth, compiled = kept_by_layers(tf)
    first = built(2)
    first.build((None, 3), "ones")
    model = keras.Sequential([first, words("a <unk> lamb", 2, kernel_initializer="ones"), doubled(1, kernel_initializer="ones")])
    model(x)
    own = compiled()
    own.compile("sgd", tenth)
    history = own.fit(x, np.zeros((2, 1)), epochs=2, verbose=0).history["loss"]
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("a.keras", "b.keras")]
        model.save(paths[0])
        own.save(paths[1])
        again, other = (keras.models.load_model(path) for path in paths)
    return [again(x), again.layers[1].words, again.layers[2].step, again.layers[0].start, again.built, history,
            other.told[0], other.told[1] is tenth, other.evaluate(x, np.zeros((2, 1)), verbose=0)]


@case
def models_without_variables(tf):
    class Cost(tf.keras.layers.Layer):
        def call(self, x):
            self.add_loss(0.01 * tf.reduce_mean(x))
            return x * 2.0

    inputs = tf.keras.Input((3,))
    model, x = tf.keras.Model(inputs, Cost()(inputs)), np.arange(6, dtype=np.float32).reshape(2, 3)
    model.compile("adam", "mse")
    found = [model.fit(x, x, epochs=2, verbose=0).history["loss"], model.evaluate(x, x, verbose=0)]
    model.compile("adam")
    frozen = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", trainable=False, input_shape=(3,))])
    frozen.compile("sgd", "mse")
    return found + [model.fit(x, x, verbose=0).history["loss"], frozen.fit(x, x[:, :1], verbose=0).history["loss"],
                    frozen.get_weights()]


@case
def metrics_of_loaded_models(tf):
    metrics, x = tf.keras.metrics, np.random.RandomState(3).rand(20, 2).astype(np.float32)
    y, found = (x.sum(1) > 1).astype(np.float32), []
    for make in (lambda: metrics.AUC(), lambda: metrics.AUC(50, "PR", name="area"),
                 lambda: metrics.AUC(multi_label=True, num_labels=1), lambda: metrics.AUC(thresholds=[0.3, 0.6]),
                 lambda: metrics.Precision(top_k=1), lambda: metrics.Recall(0.6, class_id=0, name="found"),
                 lambda: metrics.TruePositives([0.2, 0.7])):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, "sigmoid", kernel_initializer="ones", input_shape=(2,))])
        metric = make()
        model.compile("sgd", "mse", metrics=[metric])
        model.fit(x, y, verbose=0, shuffle=False)
        for ending in ("", ".h5", ".keras"):
            with tempfile.TemporaryDirectory() as folder:
                model.save(os.path.join(folder, "model" + ending))
                loaded = tf.keras.models.load_model(os.path.join(folder, "model" + ending))
            found.append([np.ravel(loaded.evaluate(x, y, verbose=0)[1]), loaded.metrics_names[1][:4]])
    return found


@case
def legacy_optimizers_of_models(tf):
    kinds, x, y = tf.keras.optimizers.legacy, np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32)
    found = []
    for optimizer in (kinds.Adam(0.1), kinds.SGD(0.1, momentum=0.5), kinds.RMSprop(0.01)):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])
        model.compile(optimizer, "mse")
        same = model.optimizer is optimizer
        losses = []
        for rate in (None, 0.0, 0.05):
            if rate is not None:
                optimizer.learning_rate = rate
            losses.append(model.fit(x, y, epochs=2, verbose=0).history["loss"])
        config = optimizer.get_config()
        found.append([same, losses, int(optimizer.iterations.numpy()), float(optimizer.learning_rate.numpy()),
                      [config["name"], config["learning_rate"], config["decay"]], len(optimizer.variables())])
        plateau = tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        found[-1].append([float(rate) for rate in model.fit(x, y, epochs=3, verbose=0, callbacks=[plateau]).history["lr"]])
        other = type(optimizer).from_config(optimizer.get_config())
        found[-1].append(other.get_config()["learning_rate"])
    return found


@case
def legacy_optimizers_of_loaded_models(tf):
    kinds, found = tf.keras.optimizers.legacy, []
    x = np.random.RandomState(0).rand(8, 4).astype(np.float32)
    y = (x[:, :1] > 0.5).astype(np.float32)
    for make in (lambda: kinds.Adam(0.1), lambda: kinds.SGD(0.1, momentum=0.9), lambda: kinds.RMSprop(0.1),
                 lambda: kinds.Adagrad(0.1), lambda: kinds.Adamax(0.1), lambda: kinds.Ftrl(0.1)):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(4,))])
        model.compile(make(), "mse")
        told = {"epochs": 3, "verbose": 0, "batch_size": 4, "shuffle": False}
        model.fit(x, y, **told)
        for ending in ("", ".keras", ".h5"):
            with tempfile.TemporaryDirectory() as folder:
                model.save(os.path.join(folder, "model" + ending))
                loaded = tf.keras.models.load_model(os.path.join(folder, "model" + ending))
            found.append([int(loaded.optimizer.iterations.numpy()), loaded.fit(x, y, **told).history["loss"]])
    return found


@case
def weights_with_their_optimizer(tf):
    kinds, found = tf.keras.optimizers, []
    x = np.random.RandomState(0).rand(16, 4).astype(np.float32)
    y = (x[:, :1] > 0.5).astype(np.float32)
    told = {"epochs": 2, "verbose": 0, "batch_size": 4, "shuffle": False}
    for make in (lambda: kinds.Adam(0.1), lambda: kinds.SGD(0.1, momentum=0.9), lambda: kinds.legacy.Adam(0.1),
                 lambda: kinds.legacy.RMSprop(0.1), lambda: kinds.Ftrl(0.1)):
        def made(compiled=True, make=make):
            layers = [tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(4,), name="d")]
            model = tf.keras.Sequential(layers, name="n")
            if compiled:
                model.compile(make(), "mse")
            return model

        with tempfile.TemporaryDirectory() as folder:
            path, model = os.path.join(folder, "w"), made()
            model.fit(x, y, **told)
            model.save_weights(path)
            names = [name for name, _ in tf.train.list_variables(path)]
            found.append([name for name in names if "optimizer" in name.lower() and "learning_rate" not in name])
            other = made()
            other.load_weights(path)
            found.append([other.fit(x, y, **told).history["loss"], int(other.optimizer.iterations.numpy())])
            later = made(compiled=False)
            later.load_weights(path)
            later.compile(make(), "mse")
            found.append([later.fit(x, y, **told).history["loss"], int(later.optimizer.iterations.numpy())])
            checkpoint = tf.keras.callbacks.ModelCheckpoint(path + "{epoch}", save_weights_only=True)
            model = made()
            model.fit(x, y, callbacks=[checkpoint], **told)
            other = made()
            other.load_weights(path + "1")
            found.append([other.fit(x, y, **told).history["loss"], int(other.optimizer.iterations.numpy())])
            model.save_weights(path + ".h5")
            other = made()
            other.load_weights(path + ".h5")
            found.append([other.fit(x, y, **told).history["loss"], int(other.optimizer.iterations.numpy())])
    return found
