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


def initializers(tf):
    """Classes of initializers in place of what they make, and tensors made by them."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        counts = v1.get_variable("counts", [2], dtype=v1.int32, initializer=v1.zeros_initializer)
        ones = v1.get_variable("ones", [3], initializer=v1.ones_initializer)
        filled = v1.get_variable("filled", [2, 2], initializer=v1.constant_initializer([[1.0, 2.0], [3.0, 4.0]]))
        before = sorted(session.run(v1.report_uninitialized_variables()).tolist())
        session.run(counts.initializer)
        after = sorted(session.run(v1.report_uninitialized_variables()).tolist())
        session.run(v1.global_variables_initializer())
        return {"before": before, "after": after, "values": session.run([counts, ones, filled]),
                "none": len(session.run(v1.report_uninitialized_variables())),
                "called": session.run([v1.zeros_initializer()([2]), v1.constant_initializer(7)([1, 2], v1.int32)])}


def arguments_of_tensorflow_1(tf):
    """Functions by their places and names of then."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        a = v1.constant([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]])
        classes = v1.constant([2, 0])
        image = v1.reshape(v1.range(16.0), [1, 4, 4, 1])
        filters = v1.ones([2, 2, 1, 1])
        return session.run({
            "sum": v1.reduce_sum(a, 1, keep_dims=True), "mean": v1.reduce_mean(a, reduction_indices=[0]),
            "argmax": v1.argmax(a, dimension=1), "expand": v1.shape(v1.expand_dims(a, dim=0)),
            "squeeze": v1.shape(v1.squeeze(v1.expand_dims(a, 0), squeeze_dims=[0])),
            "softmax": v1.nn.softmax(a, dim=-1), "l2": v1.nn.l2_normalize(a, dim=1),
            "moments": v1.nn.moments(a, [0], keep_dims=True),
            "kept": v1.nn.dropout(a, 1.0), "kept_by_rate": v1.nn.dropout(a, rate=0.0),
            "conv": v1.nn.conv2d(image, filter=filters, strides=[1, 2, 2, 1], padding="VALID"),
            "pool": v1.nn.max_pool(value=image, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
            "sparse": v1.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=a),
            "dense": v1.nn.softmax_cross_entropy_with_logits_v2(labels=v1.one_hot(classes, 3), logits=a),
            "sigmoid": v1.nn.sigmoid_cross_entropy_with_logits(labels=v1.zeros_like(a), logits=a),
            "line": v1.nn.xw_plus_b(a, v1.ones([3, 2]), v1.constant([0.5, -0.5])),
            "relu": v1.nn.relu_layer(a, -v1.ones([3, 1]), v1.constant([7.0])),
            "zeros": v1.nn.zero_fraction(v1.constant([0.0, 1.0, 0.0, 2.0])), "mod": v1.mod(v1.constant(-7), 3)})


def a_dropout_that_is_fed(tf):
    """keep_prob as a placeholder: 0.8 keeps most elements, scaled up."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        keep = v1.placeholder(v1.float32, [])
        y = v1.nn.dropout(v1.ones([2000]), keep)
        z = v1.layers.dropout(v1.ones([2000]), 0.25, training=True)
        all_, some = session.run(y, {keep: 1.0}), session.run(y, {keep: 0.8})
        return {"all": float(all_.sum()), "largest": round(float(some.max()), 4),
                "most": bool(0.75 < (some > 0).mean() < 0.85),
                "rate": bool(0.7 < (session.run(z) > 0).mean() < 0.8)}


def datasets_over_tensors(tf):
    """Datasets whose tensors the initializer of an iterator computes."""
    v1 = tf.compat.v1
    folder = tempfile.mkdtemp()
    paths = [os.path.join(folder, name) for name in ("a", "b")]
    for i, path in enumerate(paths):
        with v1.python_io.TFRecordWriter(path) as writer:
            for k in range(i + 2):
                writer.write(f"{i}{k}".encode())
    with v1.Graph().as_default(), v1.Session() as session:
        xs, ys = v1.placeholder(v1.float32, [None, 2]), v1.placeholder(v1.int64, [None])
        rows = v1.data.Dataset.from_tensor_slices({"x": xs, "y": ys}).map(lambda row: (row["x"] * 2, row["y"])).batch(2)
        iterator = v1.data.make_initializable_iterator(rows)
        element = iterator.get_next()
        session.run(iterator.initializer, {xs: X[:, :2], ys: [1, 2, 3]})
        first = [session.run(element) for _ in range(2)]
        session.run(iterator.initializer, {xs: X[:1, :2], ys: [9]})
        again = session.run(element)
        ended = False
        try:
            session.run(element)
        except v1.errors.OutOfRangeError:
            ended = True
        most = v1.placeholder(v1.int64, [])
        numbers = v1.data.make_initializable_iterator(v1.data.Dataset.range(most).repeat(2))
        number = numbers.get_next()
        session.run(numbers.initializer, {most: 2})
        counted = [session.run(number) for _ in range(4)]
        names = v1.placeholder(v1.string, [None])
        files = v1.data.make_initializable_iterator(v1.data.TFRecordDataset(names))
        record = files.get_next()
        session.run(files.initializer, {names: paths[1:]})
        records = [session.run(record) for _ in range(3)]
        session.run(files.initializer, {names: paths[:1]})
        records.append(session.run(record))
        two = v1.data.Dataset.zip((v1.data.Dataset.from_tensor_slices(v1.constant([1, 2])),
                                   v1.data.Dataset.from_tensors(v1.constant([7.0])).repeat()))
        pair = v1.data.make_initializable_iterator(two)
        session.run(pair.initializer)
        return {"first": first, "again": again, "ended": ended, "numbers": counted, "records": records,
                "pair": session.run(pair.get_next()),
                "types": [rows.output_types[1].name, rows.output_shapes[0].as_list()],
                "read": list(v1.python_io.tf_record_iterator(paths[0])),
                "nested": [r.decode() for r in session.run(v1.data.make_one_shot_iterator(v1.data.TFRecordDataset(
                    v1.data.Dataset.from_tensor_slices(paths)).batch(9)).get_next())]}


def columns_of_a_dict(tf):
    """input_layer and linear_model over lists and tensors of a graph."""
    v1 = tf.compat.v1
    columns = v1.feature_column
    with v1.Graph().as_default(), v1.Session() as session:
        team = columns.categorical_column_with_vocabulary_list("team", ["red", "blue"])
        features = {"sales": [[5], [10], [8]], "team": ["blue", "red", "green"], "size": v1.constant([1.0, 2.0, 3.0])}
        dense = columns.input_layer(features, [columns.numeric_column("sales"), columns.indicator_column(team),
                                               columns.numeric_column("size", dtype=v1.float64)])
        linear = columns.linear_model(features, [columns.numeric_column("size")])
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        return session.run([dense, linear])


def mistakes(tf):
    """What a program catches leaves the graph usable."""
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph, v1.Session() as session:
        a = v1.ones([2, 3])
        caught = []
        for wrong in (lambda: v1.matmul(a, a), lambda: v1.reshape(a, [4, -1]), lambda: a + v1.ones([5])):
            try:
                wrong()
            except ValueError:
                caught.append("ValueError")
        b = v1.add(a, 1.0, name="b")
        names = [operation.name for operation in graph.get_operations()]
        value = session.run(b)
        with v1.device("/job:ps/task:1"):
            pinned = v1.constant(1.0)
        return {"caught": caught, "b": value, "found": "b" in names, "type": b.op.type.replace("V2", ""),
                "inputs": len(b.op.inputs), "device": pinned.device, "free": b.device}


def shapes(tf):
    """Static shapes, known in part or not at all."""
    v1, shape = tf.compat.v1, tf.TensorShape
    part, none = shape([16, None, 256]), shape(None)
    return {"bools": [bool(item) for item in (shape([]), shape([0]), shape([None]), none)],
            "repr": [repr(part), repr(none)],
            "str": str(part), "rank": [part.rank, none.rank], "dims": none.dims is None, "value": part.dims[0].value,
            "fits": [part.dims[1].is_compatible_with(3), v1.Dimension(16).is_compatible_with(3),
                     part.is_compatible_with([16, 2, 256]), part.is_compatible_with([1, 2, 256]),
                     none.is_compatible_with([3])],
            "merged": part.merge_with([None, 7, None]).as_list(), "joined": part.concatenate([2]).as_list(),
            "slice": part[1:].as_list(),
            "equal": [part == [16, None, 256], shape([2, 3]) == [2, 3], shape([2]) == (3,)],
            "defined": [shape([2, 3]).num_elements(), part.is_fully_defined()], "one": shape([3])[0]}


def functions_called_for_elements(tf):
    """Python functions of a dataset compute with values, also where a graph is the default one."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        def measured(word, number):
            return np.int64(len(word)), np.float32(number * 2)

        words = v1.data.Dataset.from_tensor_slices((["x", "yyy"], [1.0, 2.0]))
        called = words.map(lambda word, number: tuple(v1.py_func(measured, [word, number], [v1.int64, v1.float32])))
        element = v1.data.make_one_shot_iterator(called).get_next()
        lines = os.path.join(tempfile.mkdtemp(), "lines")
        with open(lines, "w", encoding="utf-8") as file:
            file.write("head\n1\n2\n")
        files = v1.data.Dataset.from_tensor_slices([lines, lines])
        files = files.flat_map(lambda name: v1.data.TextLineDataset(name).skip(1))
        line = v1.data.make_one_shot_iterator(files.batch(9)).get_next()
        zeros = v1.data.Dataset.from_tensors("a").map(
            lambda text: v1.py_func(lambda given: given + b"\0b\0\0", [text], v1.string))
        ends = v1.data.make_one_shot_iterator(zeros).get_next()
        return {"called": [session.run(element) for _ in range(2)], "lines": session.run(line),
                "zeros": session.run(ends), "list": session.run(v1.constant([b"a\0", b"\0"]))}


def printed(tf):
    """A tensor that a run prints is the tensor."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(v1.float32, [2])
        y = v1.Print(x * 2.0, [x, v1.constant("word")], "seen: ", first_n=1)
        return [session.run(y + 1.0, {x: [1, k]}) for k in range(2)]


def graphs_for_serving(tf):
    """The graph of a session as a SavedModel, and its signatures."""
    v1, folder = tf.compat.v1, tempfile.mkdtemp()
    plain, built = os.path.join(folder, "plain"), os.path.join(folder, "built")
    with v1.Graph().as_default():
        x = v1.placeholder(v1.float32, [None, 2], name="x")
        w = v1.get_variable("w", initializer=[[1.0], [2.0]])
        z = v1.matmul(x, w)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, plain, inputs={"x": x}, outputs={"z": z})
            session.run(w.assign([[3.0], [4.0]]))
            builder = v1.saved_model.builder.SavedModelBuilder(built)
            info = v1.saved_model.utils.build_tensor_info
            signature = v1.saved_model.signature_def_utils.build_signature_def(
                {"in": info(x)}, {"out": info(z)}, v1.saved_model.signature_constants.PREDICT_METHOD_NAME)
            builder.add_meta_graph_and_variables(session, [v1.saved_model.tag_constants.SERVING],
                                                 {"sums": signature}, strip_default_attrs=True)
        saved = os.path.basename(builder.save())
    first, second = tf.saved_model.load(plain).signatures, tf.saved_model.load(built).signatures
    return {"plain": first["serving_default"](x=tf.constant([[1.0, 1.0]]))["z"].numpy(), "file": saved,
            "built": second["sums"](**{"in": tf.constant([[1.0, 1.0]])})["out"].numpy()}


def iterators_by_handle(tf):
    """One element of a graph, from whichever iterator a run names; each goes on where it was."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        first = v1.data.Dataset.range(5).repeat()
        second = v1.data.Dataset.range(10, 12)
        handle = v1.placeholder(v1.string, [])
        chosen = v1.data.Iterator.from_string_handle(handle, v1.data.get_output_types(first),
                                                     v1.data.get_output_shapes(first))
        element = chosen.get_next()
        one, two = v1.data.make_one_shot_iterator(first), v1.data.make_initializable_iterator(second)
        handles = session.run([one.string_handle(), two.string_handle()])
        found = []
        for _ in range(2):
            found += [int(session.run(element, {handle: handles[0]})) for _ in range(3)]
            session.run(two.initializer)
            found += [int(session.run(element, {handle: handles[1]})) for _ in range(2)]
        return {"found": found, "caught": _raised(lambda: session.run(element, {handle: "other"}))}


def _raised(function):
    try:
        function()
    except Exception as exception:
        return type(exception).__name__ in ("InvalidArgumentError", "InternalError")


PROGRAMS = (fetches, variables, optimizers, gradients, iterators, hooks, saver, initializers, arguments_of_tensorflow_1,
            a_dropout_that_is_fed, datasets_over_tensors, columns_of_a_dict, mistakes, shapes,
            functions_called_for_elements, printed, graphs_for_serving, iterators_by_handle)
