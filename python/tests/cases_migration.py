# SPDX-License-Identifier: Apache-2.0
"""Cases as those of cases.py, of programs on their way from TensorFlow 1 to 2. Run with TensorFlow 2.15 it writes
golden_migration.json (scripts/make-golden-python)."""
import os
import sys
import tempfile

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def stored(tf, path):
    """The tensors of a checkpoint, by their keys."""
    reader = tf.train.load_checkpoint(path)
    return {key: reader.get_tensor(key) for key in sorted(reader.get_variable_to_shape_map())
            if key != "_CHECKPOINTABLE_OBJECT_GRAPH"}


def outcome(function):
    """What a function gives, or the name of the error that it raises."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - its class is the result
        return type(error).__name__


# --- checkpoints ------------------------------------------------------------------------------------------------------


@case
def savers_without_sessions(tf):
    """tf.compat.v1.train.Saver over variables that have values."""
    v1, folder = tf.compat.v1, tempfile.mkdtemp()
    a, b = tf.Variable(1.0, name="a"), tf.Variable([2, 3], name="b")
    with tf.name_scope("scoped"):
        c = tf.Variable(3.0, name="c")
    saver = v1.train.Saver([a, b, c], max_to_keep=2)
    out = {"path": os.path.basename(saver.save(None, os.path.join(folder, "all"))),
           "stored": stored(tf, os.path.join(folder, "all"))}
    for variable in (a, b, c):
        variable.assign_add(variable * 0 + 4)
    out["steps"] = [os.path.basename(saver.save(None, os.path.join(folder, "all"), global_step=step))
                    for step in (3, tf.Variable(7, dtype=tf.int64))]
    out["kept"] = [os.path.basename(path) for path in saver.last_checkpoints]
    out["files"] = sorted(name for name in os.listdir(folder) if name.endswith(".index"))
    out["latest"] = os.path.basename(tf.train.latest_checkpoint(folder))
    saver.restore(None, os.path.join(folder, "all-3"))
    renamed = v1.train.Saver({"x": a, "y": c})
    path = renamed.save(None, os.path.join(folder, "renamed"))
    out["renamed"] = stored(tf, path)
    a.assign(0.0)
    renamed.restore(None, path)
    out["values"] = [a, b, c]
    with tf.Graph().as_default(), v1.Session() as session:
        again = v1.get_variable("a", initializer=0.0)
        v1.train.Saver([again]).restore(session, os.path.join(folder, "all-3"))
        out["in a graph"] = session.run(again)
    out["wrong"] = [outcome(lambda: bool(v1.train.Saver())), outcome(lambda: bool(v1.train.Saver([a, a]))),
                    outcome(lambda: renamed.restore(None, os.path.join(folder, "none"))),
                    outcome(lambda: v1.train.Saver({"z": a}).restore(None, path))]
    return out


@case
def checkpoints_of_sessions(tf):
    """tf.train.Checkpoint over variables of a graph: what it saves and restores are their values in a session."""
    v1, folder = tf.compat.v1, tempfile.mkdtemp()
    out = {}
    with tf.Graph().as_default():
        a, b = v1.get_variable("a", initializer=1.0), v1.get_variable("b", initializer=[2.0, 3.0])
        checkpoint = tf.train.Checkpoint(first=a, rest=[b], names={"scope/a": a})
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(a.assign(5.0))
            out["paths"] = [os.path.basename(checkpoint.save(os.path.join(folder, "ckpt")))]
            out["stored"] = stored(tf, os.path.join(folder, "ckpt-1"))
            session.run(b.assign([6.0, 7.0]))
            out["paths"].append(os.path.basename(checkpoint.save(os.path.join(folder, "ckpt"))))
            out["again"] = stored(tf, os.path.join(folder, "ckpt-2"))
            out["latest"] = os.path.basename(tf.train.latest_checkpoint(folder))
            session.run(v1.variables_initializer([a, b]))
            out["initial"] = session.run([a, b])
            checkpoint.restore(os.path.join(folder, "ckpt-2")).assert_consumed().run_restore_ops()
            out["restored"] = session.run([a, b])
            checkpoint.write(os.path.join(folder, "written"))
            out["written"] = stored(tf, os.path.join(folder, "written"))
    with tf.Graph().as_default():
        other = v1.get_variable("other", initializer=[0.0, 0.0])
        late = v1.get_variable("late", initializer=[8.0])
        status = tf.train.Checkpoint(rest=[other], late=late).restore(os.path.join(folder, "ckpt-1"))
        with v1.Session() as session:
            status.initialize_or_restore(session)
            out["other"] = session.run([other, late])
            out["wrong"] = [outcome(lambda: status.assert_consumed() and 0),
                            outcome(lambda: status.assert_existing_objects_matched() and 0)]
    a, b = tf.Variable(0.0), tf.Variable([0.0, 0.0])
    tf.train.Checkpoint(first=a, rest=[b]).restore(os.path.join(folder, "ckpt-1")).run_restore_ops()
    out["at once"] = [a, b]
    return out


@case
def checkpoint_managers_of_sessions(tf):
    v1, folder = tf.compat.v1, tempfile.mkdtemp()
    with tf.Graph().as_default():
        a = v1.get_variable("a", initializer=1.0)
        add = a.assign_add(1.0)
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(a=a), folder, max_to_keep=2)
        with v1.Session() as session:
            session.run(a.initializer)
            out = {"paths": []}
            for _ in range(3):
                session.run(add)
                out["paths"].append(os.path.basename(manager.save()))
            out["kept"] = [os.path.basename(path) for path in manager.checkpoints]
            manager.checkpoint.restore(manager.checkpoints[0]).run_restore_ops()
            out["value"] = session.run(a)
    return out


@case
def names_of_1_at_once(tf):
    """After enable_eager_execution() variables have values outside of graphs."""
    v1 = tf.compat.v1
    v1.enable_eager_execution()
    with v1.variable_scope("s"):
        variables = [v1.get_variable("a", [2], initializer=v1.ones_initializer()), v1.get_variable("b", initializer=3.0),
                     v1.get_variable("a", [2], initializer=v1.zeros_initializer())]
    step, v = v1.train.get_or_create_global_step(), v1.Variable(2.0)
    start = int(step)
    with tf.GradientTape() as tape:
        loss = v * v
    v1.train.GradientDescentOptimizer(0.1).apply_gradients([(tape.gradient(loss, v), v)], global_step=step)
    out = {"names": [variable.name for variable in variables], "values": variables, "v": v, "steps": int(step) - start,
           "step": [step.name, step.dtype.name, v1.train.get_global_step() is step],
           "placeholder": outcome(lambda: bool(v1.placeholder(tf.float32)))}
    path = v1.train.Saver(variables[:2]).save(None, os.path.join(tempfile.mkdtemp(), "x"), step)
    out["stored"] = stored(tf, path)
    v1.reset_default_graph()
    return out


@case
def creators_of_variables(tf):
    """tf.variable_creator_scope"""
    seen, out = [], {}

    def creator(next_creator, **named):
        seen.append(named["name"])
        return next_creator(**named)

    def other(next_creator, **named):
        return next_creator(**{**named, "initial_value": 7.0, "name": "other"})

    def inner(next_creator, **named):
        return next_creator(**{**named, "trainable": False})

    with tf.variable_creator_scope(creator):
        v = tf.Variable([1.0, 2.0], name="v")
        tf.Variable(3, trainable=False, name="n")
        layer = tf.keras.layers.Dense(2)
        layer(np.ones([1, 3], np.float32))
        layer(np.ones([2, 3], np.float32))
    out["seen"] = [name.rsplit("/", 1)[-1] for name in seen]
    with tf.variable_creator_scope(other), tf.variable_creator_scope(inner):
        w = tf.Variable(1.0, name="w")
    out["made"] = [v, w, w.name, w.trainable, tf.Variable(2.0, name="after").name]

    def refuse(next_creator, **named):
        raise KeyError(named["name"])

    def twice():
        with tf.variable_creator_scope(refuse):
            layer(np.ones([1, 3], np.float32))
            return outcome(lambda: tf.Variable(1.0, name="x"))

    out["refused"] = twice()
    with tf.Graph().as_default(), tf.variable_creator_scope(creator):
        tf.compat.v1.get_variable("g", [2])
    out["of a graph"] = seen[-1]
    return out


CONSTANTS = ("ASSETS_DIRECTORY ASSETS_KEY CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES "
             "CLASSIFY_OUTPUT_SCORES DEBUG_DIRECTORY DEBUG_INFO_FILENAME_PB DEFAULT_SERVING_SIGNATURE_DEF_KEY GPU "
             "PREDICT_INPUTS PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS REGRESS_METHOD_NAME REGRESS_OUTPUTS "
             "SAVED_MODEL_FILENAME_PB SAVED_MODEL_FILENAME_PBTXT SAVED_MODEL_SCHEMA_VERSION SERVING TPU TRAINING "
             "VARIABLES_DIRECTORY VARIABLES_FILENAME").split()


@case
def constants_of_saved_models(tf):
    v1 = tf.compat.v1.saved_model
    return [{name: getattr(module, name) for name in CONSTANTS} for module in (tf.saved_model, v1)] + [
        v1.LEGACY_INIT_OP_KEY, v1.MAIN_OP_KEY]


@case
def checkpoints_as_they_come(tf):
    folder, v = tempfile.mkdtemp(), tf.Variable(1.0)
    checkpoint, out, asked = tf.train.Checkpoint(v=v), [], []

    def ended():
        asked.append(1)
        return len(asked) == 2

    out.append(list(tf.train.checkpoints_iterator(folder, timeout=0)))
    for path in tf.train.checkpoints_iterator(checkpoint.save(os.path.join(folder, "a")) and folder, timeout=0,
                                              timeout_fn=ended):
        out.append(os.path.basename(path))
        if len(out) < 4:
            checkpoint.save(os.path.join(folder, "a"), options=tf.train.CheckpointOptions())
    return [out, len(asked)]


@case
def averages_at_once(tf):
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable(3.0, name="w")
    plain, counted = tf.train.ExponentialMovingAverage(0.9), tf.train.ExponentialMovingAverage(0.9, num_updates=tf.Variable(2))
    out = {"names": [plain.average_name(v), plain.name], "before": plain.average(v) is None}
    step = tf.function(lambda: counted.apply([v, w]) and None)
    counted.apply([v, w])
    for _ in range(3):
        plain.apply([v, w])
        v.assign_add([1.0, -1.0])
        w.assign(w * 2.0)
        plain.apply([v, w])
        step()
    out["values"] = [ema.average(variable) for ema in (plain, counted) for variable in (v, w)]
    return out


@case
def names_of_training_1(tf):
    v1, t, folder = tf.compat.v1, tf.compat.v1.train, tempfile.mkdtemp()
    out = {}
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, [])
        rates = {"piecewise": t.piecewise_constant_decay(step, [2, 5], [1.0, 0.5, 0.25]),
                 "linear_cosine": t.linear_cosine_decay(0.5, step, 10), "cosines": t.linear_cosine_decay(
                     1.0, step, 8, num_periods=2.0, alpha=0.1, beta=0.01)}
        out["rates"] = {name: [session.run(rate, {step: n}) for n in (0, 1, 2, 3, 7, 20)] for name, rate in rates.items()}
        out["steps"] = [outcome(lambda value=value: t.assert_global_step(value) and 0) for value in (
            tf.constant(1), tf.constant(1.0), tf.constant([1]))]
    with tf.Graph().as_default(), v1.Session() as session:
        for name in ("a/w", "a/b", "c"):
            v1.get_variable(name, initializer=[1.0, 2.0])
        frozen = v1.get_variable("a/f", initializer=[5.0, 6.0], trainable=False)
        session.run(v1.global_variables_initializer())
        start = t.Saver().save(session, os.path.join(folder, "start"))
        out["collections"] = [[v.name for v in v1.global_variables(scope)] for scope in ("a/", ".*/w", "w", "c:")]
    for key, named in {"all": {}, "pattern": {"vars_to_warm_start": "a/.*"}, "list": {"vars_to_warm_start": ["a/f", "c"]},
                       "renamed": {"vars_to_warm_start": "c", "var_name_to_prev_var_name": {"c": "a/b"}}}.items():
        with tf.Graph().as_default(), v1.Session() as session:
            variables = [v1.get_variable(name, [2], initializer=v1.zeros_initializer()) for name in ("a/w", "c")]
            frozen = v1.get_variable("a/f", [2], initializer=v1.zeros_initializer(), trainable=False)
            t.warm_start(start, **named)
            session.run(v1.global_variables_initializer())
            out[key] = session.run(variables + [frozen])
    return out


@case
def summaries_under_conditions(tf):
    folder, out = tempfile.mkdtemp(), {}
    writer = tf.summary.create_file_writer(folder)

    @tf.function
    def traced(step):
        with tf.summary.record_if(tf.equal(step % 2, 0)):
            tf.summary.scalar("traced", tf.cast(step, tf.float32) * 2.0, step=step)

    with writer.as_default():
        for step in range(5):
            with tf.summary.record_if(lambda: step % 2 == 1):
                out[f"should {step}"] = bool(tf.summary.should_record_summaries())
                tf.summary.scalar("function", step, step=step)
                with tf.summary.record_if(True):
                    tf.summary.scalar("within", step, step=step)
            with tf.summary.record_if(tf.constant(step > 2)):
                tf.summary.scalar("tensor", step, step=step)
            traced(tf.constant(step, tf.int64))
        out["after"] = bool(tf.summary.should_record_summaries())
    writer.flush()
    found = [os.path.join(folder, name) for name in os.listdir(folder)]
    for event in tf.compat.v1.train.summary_iterator(found[0]):
        for value in event.summary.value:
            out.setdefault(value.tag, []).append(int(event.step))
    return out


@case
def names_of_models_in_models(tf):
    """Layers of a Sequential or functional model are named as without the model around it."""
    class Outer(tf.keras.Model):
        def __init__(self):
            super().__init__(name="outer")
            x = tf.keras.Input((5,))
            self.functional = tf.keras.Model(x, tf.keras.layers.Dense(3, name="a")(x))
            self.sequential = tf.keras.Sequential([tf.keras.layers.Dense(3, name="b")])
            self.own = tf.keras.layers.Dense(1, name="c")

        def call(self, x):
            return self.own(self.functional(x) + self.sequential(x))

    outer = Outer()
    outer(tf.ones((2, 5)))
    return [weight.name for weight in outer.weights]


# --- optimizers of Keras in Estimators, and their objects in checkpoints ----------------------------------------------


def lines(tf):
    x = np.arange(10, dtype=np.float32)[:, None]
    return tf.data.Dataset.from_tensor_slices(({"x": x}, x * 5 + np.arange(5, dtype=np.float32))).repeat().batch(2)


def net_of(tf):
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.l1 = tf.keras.layers.Dense(5, kernel_initializer="ones")

        def call(self, x):
            return self.l1(x)

    return Net()


def optimizers_of(tf):
    K = tf.keras.optimizers
    decayed = K.schedules.ExponentialDecay(0.1, 2, 0.5)
    return {"sgd": lambda: K.SGD(0.1), "momentum": lambda: K.SGD(0.1, 0.9, nesterov=True), "adam": lambda: K.Adam(0.1),
            "amsgrad": lambda: K.Adam(0.1, amsgrad=True), "adamw": lambda: K.AdamW(0.1, weight_decay=0.1),
            "rmsprop": lambda: K.RMSprop(0.1), "adagrad": lambda: K.Adagrad(0.1), "adadelta": lambda: K.Adadelta(1.0),
            "adamax": lambda: K.Adamax(0.1), "nadam": lambda: K.Nadam(0.1), "ftrl": lambda: K.Ftrl(0.1),
            "lion": lambda: K.Lion(0.1), "schedule": lambda: K.Adam(decayed),
            "clipped": lambda: K.SGD(0.1, global_clipnorm=0.5)}


@case
def optimizers_of_keras_by_hand(tf):
    """test_migration.py expects the same of them in Estimators, where those of TensorFlow change nothing: no operation
    of the graph waits for their updates."""
    out = {}
    for name, make in optimizers_of(tf).items():
        net, optimizer = net_of(tf), make()
        for features, labels in lines(tf).take(5):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.abs(net(features["x"]) - labels))
            optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        out[name] = [net.l1.kernel, net.l1.bias, optimizer.iterations]
    return out


def trained_by(tf, optimizer, with_objects=False):
    v1 = tf.compat.v1

    def model_fn(features, labels, mode):
        net, opt, step = net_of(tf), optimizer(), v1.train.get_global_step()
        scaffold = v1.train.Scaffold(saver=tf.train.Checkpoint(step=step, optimizer=opt, net=net)) if with_objects else None
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(net(features["x"]) - labels))
        variables = net.trainable_variables
        train_op = opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, step.assign_add(1)), scaffold=scaffold)

    model = tf.estimator.Estimator(model_fn, tempfile.mkdtemp(), tf.estimator.RunConfig(save_summary_steps=None))
    return model.train(lambda: lines(tf), steps=5)


@case
def checkpoints_of_objects_in_estimators(tf):
    """A tf.train.Checkpoint as the saver of a scaffold."""
    out = {}
    for name in ("adam", "schedule"):
        make = optimizers_of(tf)[name]
        model = trained_by(tf, make, with_objects=True)
        found = {key: value for key, value in stored(tf, model.model_dir).items() if "/.ATTRIBUTES/" in key}
        out[name] = {key: np.shape(value) for key, value in found.items()}
        net, opt, step = net_of(tf), make(), tf.Variable(0, dtype=tf.int64)
        tf.train.Checkpoint(step=step, optimizer=opt, net=net).restore(tf.train.latest_checkpoint(model.model_dir))
        net(np.ones([1, 1], np.float32))
        opt.build(net.trainable_variables)
        same = np.array_equal(net.l1.kernel, found["net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"])
        out[name + " restored"] = [step, same, opt.iterations]
        model.train(lambda: lines(tf), steps=2)
        out[name + " again"] = [model.get_variable_value("step/.ATTRIBUTES/VARIABLE_VALUE"),
                                model.get_variable_value("optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE")]
        out[name + " step"] = model.evaluate(lambda: lines(tf), steps=2)["global_step"]
    return out


def optimizers_of_1(tf):
    t = tf.compat.v1.train
    return {"sgd": lambda: t.GradientDescentOptimizer(0.1), "momentum": lambda: t.MomentumOptimizer(0.1, 0.9),
            "adam": lambda: t.AdamOptimizer(0.1), "adagrad": lambda: t.AdagradOptimizer(0.1),
            "rmsprop": lambda: t.RMSPropOptimizer(0.1), "centered": lambda: t.RMSPropOptimizer(0.1, momentum=0.9, centered=True),
            "ftrl": lambda: t.FtrlOptimizer(0.1), "adadelta": lambda: t.AdadeltaOptimizer(1.0)}


@case
def checkpoints_of_optimizers_of_1(tf):
    """At once: what is saved, and that a program which restores it goes on as the one that saved it."""
    def step(optimizer, w, b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * w) + b * b
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b]))

    out = {}
    for name, make in optimizers_of_1(tf).items():
        w, b, optimizer = tf.Variable([1.0, 2.0], name="w"), tf.Variable(0.5, name="b"), make()
        step(optimizer, w, b)
        path = tf.train.Checkpoint(w=w, b=b, optimizer=optimizer).write(os.path.join(tempfile.mkdtemp(), "x"))
        step(optimizer, w, b)
        out[name] = [stored(tf, path), w.numpy(), b.numpy()]
        w, b, optimizer = tf.Variable([0.0, 0.0], name="w"), tf.Variable(0.0, name="b"), make()
        tf.train.Checkpoint(w=w, b=b, optimizer=optimizer).restore(path)
        step(optimizer, w, b)
        out[name + " again"] = [w, b]
    return out


@case
def checkpoints_of_optimizers_of_1_in_graphs(tf):
    v1, out = tf.compat.v1, {}
    for name, make in optimizers_of_1(tf).items():
        with tf.Graph().as_default(), v1.Session() as session:
            w, b, optimizer = v1.get_variable("w", initializer=[1.0, 2.0]), v1.get_variable("b", initializer=0.5), make()
            train = optimizer.minimize(tf.reduce_sum(w * w) + b * b)
            checkpoint = tf.train.Checkpoint(w=w, b=b, optimizer=optimizer)
            session.run(v1.global_variables_initializer())
            session.run(train)
            path = checkpoint.write(os.path.join(tempfile.mkdtemp(), "x"))
            session.run(train)
            out[name] = [stored(tf, path), *session.run([w, b])]
            checkpoint.read(path).run_restore_ops()
            session.run(train)
            out[name + " again"] = session.run([w, b])
    return out


@case
def checkpoints_of_optimizers_of_1_in_estimators(tf):
    v1, out = tf.compat.v1, {}
    for name in ("adam", "centered"):
        def model_fn(features, labels, mode, params):
            step, optimizer = v1.train.get_global_step(), optimizers_of_1(tf)[params]()
            w = v1.get_variable("w", [1, 5], initializer=v1.ones_initializer())
            loss = tf.reduce_mean(tf.abs(tf.matmul(features["x"], w) - labels))
            train_op = optimizer.minimize(loss, step)
            saver = tf.train.Checkpoint(step=step, w=w, optimizer=optimizer)
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=v1.train.Scaffold(saver=saver))

        model = tf.estimator.Estimator(model_fn, tempfile.mkdtemp(), tf.estimator.RunConfig(save_summary_steps=None), name)
        model.train(lambda: lines(tf), steps=3)
        model.train(lambda: lines(tf).skip(3), steps=2)
        out[name] = {key: value for key, value in stored(tf, model.model_dir).items() if "/.ATTRIBUTES/" in key}
    return out


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
