# SPDX-License-Identifier: Apache-2.0
"""Programs for tf.compat.v1 that run with TensorFlow and with estoc.tf. Each gives JSON values; make_golden.py writes
those of TensorFlow, and test_v1.py compares."""
import collections
import os
import tempfile

import numpy as np

X = np.array([[1.0, 2.0], [3.0, 4.0], [-1.0, 0.5]], np.float32)
Y = np.array([[1.0], [0.0], [2.0]], np.float32)


def as_json(value):
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return as_json(value.tolist())
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def regression(v1):
    """x, y, the loss, and the variables of a linear model."""
    x, y = v1.placeholder(v1.float32, [None, 2], name="x"), v1.placeholder(v1.float32, [None, 1], name="y")
    with v1.variable_scope("linear"):
        w = v1.get_variable("w", [2, 1], initializer=v1.constant_initializer(0.5))
        b = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
    loss = v1.reduce_mean(v1.square(v1.matmul(x, w) + b - y), name="loss")
    return x, y, loss, w, b


def fetches(tf):
    """Nested fetches, feeds, names."""
    v1, Pair = tf.compat.v1, collections.namedtuple("Pair", "a b")
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        a = v1.placeholder(v1.float32, [2], name="a")
        b = v1.constant([3.0, 4.0], name="b")
        c = v1.add(a, b, name="c")
        word = v1.placeholder_with_default(v1.constant("none"), [], name="word")
        feed = {a: [1, 2]}
        pair = session.run(Pair(a, {"sum": c, "list": [b, (c,)]}), feed)
        same = session.run([c, c.op, "c:0", "c"], {"a:0": [1, 2]})
        return {"pair": [pair.a, pair.b["sum"], pair.b["list"]], "same": same, "names": [a.name, c.op.name],
                "override": session.run(c, {a: [0, 0], b: [7, 7]}), "word": session.run([word], {word: "given"}),
                "default": session.run(word), "eval": c.eval(feed), "found": graph.get_tensor_by_name("c:0") is c}


def variables(tf):
    """Scopes, initializers, assignments, order."""
    v1 = tf.compat.v1
    with v1.Graph().as_default():
        with v1.variable_scope("outer"):
            with v1.variable_scope("inner", reuse=v1.AUTO_REUSE):
                first = v1.get_variable("v", initializer=[1.0, 2.0])
                again = v1.get_variable("v", [2])
            with v1.name_scope("names"):
                shared = v1.get_variable("n", [], v1.int32, v1.constant_initializer(7))
                plain = v1.Variable(3.0, name="plain")
        local = v1.get_local_variable("local", [2], initializer=v1.ones_initializer(), dtype=v1.float32)
        frozen = v1.Variable(np.arange(3, dtype=np.int64), trainable=False)
        product = v1.Variable(v1.constant([1.0, 2.0]) * 2, name="product")
        add = v1.assign_add(first, [10.0, 10.0])
        with v1.control_dependencies([add]):
            read = v1.identity(first) * 2
        errors = []
        for make in (lambda: v1.get_variable("n2"), lambda: v1.get_variable("outer/inner/v", [2])):
            try:
                make()
            except ValueError as error:
                errors.append(type(error).__name__)
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            start = session.run([first, shared, plain, local, frozen, product])
            order = [session.run(read), session.run(first), session.run(add), session.run(first)]
            session.run(first.initializer)
            reset = session.run(first)
            session.run(v1.assign(plain, 1.5))
            first.load([5, 6], session)
            return {"names": [v.name for v in v1.global_variables()], "trainable": [v.name for v in
                    v1.trainable_variables()], "local": [v.name for v in v1.local_variables()], "same": first is again,
                    "start": start, "order": order, "reset": reset, "end": session.run([plain, first]),
                    "scoped": [v.name for v in v1.trainable_variables("outer/inner")], "errors": errors,
                    "shape": first.shape.as_list()}


def optimizers(tf):
    """Losses of five steps, and the variables, by minimize and by the two halves."""
    v1, out = tf.compat.v1, {}
    made = {"sgd": lambda: v1.train.GradientDescentOptimizer(0.05), "momentum": lambda: v1.train.MomentumOptimizer(0.02, 0.9),
            "adam": lambda: v1.train.AdamOptimizer(0.1), "adagrad": lambda: v1.train.AdagradOptimizer(0.3),
            "rmsprop": lambda: v1.train.RMSPropOptimizer(0.05), "ftrl": lambda: v1.train.FtrlOptimizer(0.3),
            "adadelta": lambda: v1.train.AdadeltaOptimizer(1.0)}
    for name, make in made.items():
        with v1.Graph().as_default(), v1.Session() as session:
            x, y, loss, w, b = regression(v1)
            optimizer, step = make(), v1.train.get_or_create_global_step()
            if name == "momentum":
                pairs = [(v1.clip_by_norm(g, 3.0), v) for g, v in optimizer.compute_gradients(loss)]
                train = optimizer.apply_gradients(pairs, global_step=step)
            else:
                train = optimizer.minimize(loss, global_step=step)
            session.run(v1.global_variables_initializer())
            losses = [session.run([loss, train], {x: X, y: Y})[0] for _ in range(5)]
            out[name] = {"losses": losses, "w": session.run(w), "b": session.run(b), "step": session.run(step),
                         "slots": sorted(v.op.name for v in v1.global_variables())}
    return out


def gradients(tf):
    """Gradients by themselves, also of second order, and of what does not depend."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x, z = v1.placeholder(v1.float32, [3]), v1.placeholder(v1.float32, [3])
        y = x * x * x
        first, none = v1.gradients(y, [x, z])
        second = v1.gradients(first, x)[0]
        weighted = v1.gradients(y, x, grad_ys=v1.constant([1.0, 0.0, 2.0]))[0]
        values = session.run([first, second, weighted], {x: [1, 2, 3]})
        return {"none": none is None, "values": values}


def iterators(tf):
    """One-shot, initializable and reinitializable iterators."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        numbers = tf.data.Dataset.range(5).map(lambda n: n * n)
        one = v1.data.make_one_shot_iterator(numbers)
        element = one.get_next() + 1
        seen = []
        try:
            while True:
                seen.append(int(session.run(element)))
        except tf.errors.OutOfRangeError:
            seen.append("end")
        pairs = tf.data.Dataset.from_tensor_slices(({"a": X, "b": [b"x", b"y", b"z"]}, [1, 2, 3])).batch(2)
        iterator = v1.data.make_initializable_iterator(pairs)
        features, label = iterator.get_next()
        try:
            session.run(label)
        except tf.errors.FailedPreconditionError:
            seen.append("not initialized")
        session.run(iterator.initializer)
        batches = [session.run((features, label)) for _ in range(2)]
        session.run(iterator.initializer)
        again = session.run([label, features["a"]])
        switch = v1.data.Iterator.from_structure(v1.data.get_output_types(numbers), v1.data.get_output_shapes(numbers))
        value = switch.get_next()
        small, large = switch.make_initializer(numbers), switch.make_initializer(tf.data.Dataset.range(100, 103))
        switched = []
        for start in (small, large):
            session.run(start)
            switched.append([int(session.run(value)) for _ in range(3)])
        return {"seen": seen, "batches": batches, "again": again, "switched": switched}


def hooks(tf):
    """A monitored training: hooks, their fetches, a stop, checkpoints, a second run that goes on."""
    v1, folder, log = tf.compat.v1, tempfile.mkdtemp(), []

    class Recorder(v1.train.SessionRunHook):
        def begin(self):
            self.loss = v1.get_default_graph().get_tensor_by_name("loss:0")
            log.append("begin")

        def after_create_session(self, session, coord):
            log.append(["session", int(session.run(v1.train.get_global_step()))])

        def before_run(self, run_context):
            return v1.train.SessionRunArgs({"loss": self.loss, "step": v1.train.get_global_step()})

        def after_run(self, run_context, run_values):
            log.append([round(float(run_values.results["loss"]), 4), len(run_context.original_args.fetches)])
            if len(log) > 20:
                run_context.request_stop()

        def end(self, session):
            log.append("end")

    def train(last):
        with v1.Graph().as_default():
            x, y, loss, w, b = regression(v1)
            step = v1.train.get_or_create_global_step()
            train_op = v1.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
            with v1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=[
                    Recorder(), v1.train.StopAtStepHook(last_step=last)], save_checkpoint_steps=2,
                    log_step_count_steps=None, save_summaries_steps=None) as session:
                steps = []
                while not session.should_stop():
                    steps.append(int(session.run([train_op, step], {x: X, y: Y})[1]))
            return len(steps)

    counts = [train(3), train(5)]
    latest = tf.train.latest_checkpoint(folder)
    return {"log": log, "counts": counts, "latest": os.path.basename(latest),
            "w": tf.train.load_checkpoint(latest).get_tensor("linear/w")}


def saver(tf):
    """Saved, changed, restored; some variables under other names; old checkpoints removed."""
    v1, folder = tf.compat.v1, tempfile.mkdtemp()
    prefix = os.path.join(folder, "model")
    with v1.Graph().as_default():
        a, b = v1.get_variable("a", initializer=[1.0, 2.0]), v1.get_variable("b", initializer=3)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            keeper = v1.train.Saver(max_to_keep=2)
            paths = [os.path.basename(keeper.save(session, prefix, global_step=step)) for step in (1, 2, 3)]
            other = v1.train.Saver({"renamed": a}).save(session, prefix + "-other", write_meta_graph=False)
            session.run([v1.assign(a, [0.0, 0.0]), v1.assign(b, 0)])
            keeper.restore(session, prefix + "-3")
            restored = session.run([a, b])
        with v1.Session() as session:
            v1.train.Saver({"renamed": a}).restore(session, other)
            renamed = session.run(a)
    return {"paths": paths, "restored": restored, "renamed": renamed, "names": tf.train.list_variables(other),
            "kept": sorted({name.split(".")[0] for name in os.listdir(folder) if name.startswith("model-")}),
            "latest": os.path.basename(tf.train.latest_checkpoint(folder))}


PROGRAMS = (fetches, variables, optimizers, gradients, iterators, hooks, saver)
