# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: programs for estimators, as the guides and the programs of TensorFlow 1 have them."""
import os
import tempfile

import numpy as np
from cases import case


def table(n=60):
    random = np.random.RandomState(11)
    x = random.randn(n, 2).astype(np.float32)
    return {"x": x, "z": x[:, 0] * 2, "w": random.rand(n).astype(np.float32)}, random.randint(0, 3, n)


def batches(tf, features, labels, epochs=1):
    return lambda: tf.data.Dataset.from_tensor_slices((features, labels)).repeat(epochs).batch(20)


def checkpoint_of(tf, shapes):
    """A checkpoint with variables of these names, whose values depend on nothing but their shapes."""
    v1, random = tf.compat.v1, np.random.RandomState(5)
    with tf.Graph().as_default(), v1.Session() as session:
        made = [v1.get_variable(name, initializer=(random.randn(*shape) * 0.3).astype(np.float32))
                for name, shape in shapes.items()]
        session.run(v1.global_variables_initializer())
        return v1.train.Saver(made).save(session, os.path.join(tempfile.mkdtemp(), "start"))


def trained(tf, estimator, features, labels):
    estimator.train(batches(tf, features, labels, 2))
    metrics = estimator.evaluate(batches(tf, features, labels))
    return {name: float(value) for name, value in metrics.items()}


@case
def estimators_of_1(tf):
    """Losses are sums, optimizers those of TensorFlow 1 with the learning rates that models had."""
    v1, (features, labels) = tf.compat.v1, table()
    columns = [tf.feature_column.numeric_column("x", shape=(2,)),
               tf.feature_column.bucketized_column(tf.feature_column.numeric_column("z"), [-1, 0, 1])]
    start = checkpoint_of(tf, {"dnn/hiddenlayer_0/kernel": (2, 4), "dnn/hiddenlayer_0/bias": (4,),
                               "dnn/logits/kernel": (4, 3), "dnn/logits/bias": (3,)})
    deep = v1.estimator.DNNClassifier([4], columns[:1], n_classes=3, warm_start_from=start)
    both = v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=columns[1:], dnn_feature_columns=columns[:1], dnn_hidden_units=[4], n_classes=3,
        warm_start_from=tf.estimator.WarmStartSettings(start, "dnn.*"))
    target = features["x"][:, 1]
    found = {
        "binary": trained(tf, v1.estimator.LinearClassifier(columns, weight_column="w"), features, labels % 2),
        "classes": trained(tf, v1.estimator.LinearClassifier(columns, n_classes=3, optimizer="Adam"), features, labels),
        "regressor": trained(tf, v1.estimator.LinearRegressor(columns), features, target),
        "mean": trained(tf, v1.estimator.LinearRegressor(
            columns, optimizer=v1.train.GradientDescentOptimizer(0.1),
            loss_reduction=v1.losses.Reduction.SUM_OVER_BATCH_SIZE), features, target),
        "baseline": trained(tf, v1.estimator.BaselineRegressor(), features, target),
        "deep": trained(tf, deep, features, labels), "both": trained(tf, both, features, labels)}
    names = [name for name in deep.get_variable_names() if not name.startswith("estoc/")]
    return {**found, "names": sorted(names)}


def example(tf, row, number):
    """A tf.train.Example with a word, any number of ids and a label."""
    random = np.random.RandomState(row)
    feature = tf.train.Feature
    return tf.train.Example(features=tf.train.Features(feature={
        "word": feature(bytes_list=tf.train.BytesList(value=[b"w%d" % (row % 5)])),
        "ids": feature(int64_list=tf.train.Int64List(value=random.randint(0, 20, row % number).tolist())),
        "x": feature(float_list=tf.train.FloatList(value=[row / 10])),
        "label": feature(int64_list=tf.train.Int64List(value=[int(row % 5 < 2)]))})).SerializeToString()


@case
def examples_in_maps(tf):
    """Functions of Dataset.map that parse features of any length, in batches and row by row."""
    path, columns = os.path.join(tempfile.mkdtemp(), "rows.tfrecord"), tf.feature_column
    with tf.io.TFRecordWriter(path) as writer:
        for row in range(40):
            writer.write(example(tf, row, 4))
    word = columns.categorical_column_with_hash_bucket("word", 50)
    ids = columns.categorical_column_with_identity("ids", 20)
    used = [columns.numeric_column("x"), word, ids, columns.crossed_column(["word", ids], 100)]
    spec = {**columns.make_parse_example_spec(used), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parsed(records):
        features = tf.io.parse_example(records, spec)
        return features, features.pop("label")

    def row(record):
        features = tf.io.parse_single_example(record, spec)
        label = features.pop("label")
        return features, label

    def more(features, label):
        return {**features, "x": features["x"] * 2}, label

    inputs = {"batches": lambda records: records.batch(8).map(parsed),
              "rows": lambda records: records.map(row).shuffle(1).batch(8),
              "again": lambda records: records.repeat(2).batch(8).map(parsed).map(more).prefetch(1),
              "rows_again": lambda records: records.map(row).map(more).repeat(2).batch(8)}
    found = {}
    for name, make in inputs.items():
        def input_fn(make=make):
            return make(tf.data.TFRecordDataset(path))

        model = tf.estimator.LinearClassifier(used)
        model.train(input_fn)
        found[name] = {key: float(value) for key, value in model.evaluate(input_fn).items()}
        found[name + " weights"] = model.get_variable_value("linear/linear_model/ids/weights")
    return found


@case
def metrics_of_a_model_fn(tf):
    """Objects of Keras, pairs of nodes and pairs that were computed from others, over several batches."""
    v1, (features, labels) = tf.compat.v1, table()

    def model_fn(features, labels, mode):
        logits = v1.layers.dense(features["x"], 2, kernel_initializer=v1.constant_initializer([[1.0, -0.5], [0.3, 0.8]]))
        labels = labels % 2
        p, classes = tf.nn.softmax(logits)[:, 1], tf.argmax(logits, 1)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        accuracy.update_state(labels, logits)
        area, mean = tf.keras.metrics.AUC(num_thresholds=50), tf.keras.metrics.Mean()
        area.update_state(labels, p, sample_weight=features["w"])
        mean.update_state(features["z"])
        precision, precision_update = v1.metrics.precision(labels, classes)
        recall, recall_update = v1.metrics.recall(labels, classes)
        both = (2 * precision * recall / (precision + recall), tf.group(precision_update, recall_update))
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        train_op = v1.train.GradientDescentOptimizer(0.0).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={
            "accuracy": accuracy, "area": area, "mean": mean, "precision": (precision, precision_update), "f1": both})

    def more(labels, predictions, features):
        z = tf.keras.metrics.Sum()
        z.update_state(features["z"])
        return {"sum": z}

    model = tf.estimator.Estimator(model_fn)
    model.train(batches(tf, features, labels), steps=1)
    linear = tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x", shape=(2,))])
    linear.train(batches(tf, features, labels % 2), steps=1)
    added = tf.estimator.add_metrics(linear, more).evaluate(batches(tf, features, labels % 2))
    return {"own": {name: float(value) for name, value in model.evaluate(batches(tf, features, labels)).items()},
            "added": float(added["sum"]), "names": sorted(added)}


@case
def elements_of_iterators(tf):
    """Functions that return the next element of an iterator, and more that is computed from it, as in TensorFlow 1."""
    v1, (features, labels) = tf.compat.v1, table()

    def rows():
        return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(2).batch(20)

    def one_shot():
        return v1.data.make_one_shot_iterator(rows()).get_next()

    def computed():
        found, label = v1.data.make_one_shot_iterator(rows()).get_next()
        return {"x": found["x"] * 2.0, "z": found["z"]}, tf.cast(label > 1, tf.int64)

    def initializable():
        iterator = v1.data.make_initializable_iterator(rows())
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        found, label = iterator.get_next()
        return found, label % 2

    def constants():
        return {"x": tf.constant(features["x"]), "z": tf.constant(features["z"])}, tf.constant(labels % 2)

    columns, found = [tf.feature_column.numeric_column("x", shape=(2,)), tf.feature_column.numeric_column("z")], {}
    for name, input_fn in (("one_shot", one_shot), ("computed", computed), ("initializable", initializable),
                           ("constants", constants)):
        model = tf.estimator.LinearClassifier(columns, n_classes=3 if name == "one_shot" else 2)
        model.train(input_fn, steps=5)
        found[name] = {key: float(value) for key, value in model.evaluate(input_fn, steps=3).items()}
    return found


def run_once(tf, fetches):
    v1 = tf.compat.v1
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        return session.run(fetches)


@case
def layers_in_variable_scopes(tf):
    """Layers share the variables of scopes that are used again, and have their initializers and regularizers."""
    v1, layers = tf.compat.v1, tf.compat.v1.layers
    ones, l2 = v1.ones_initializer(), tf.keras.regularizers.l2(0.1)

    def tower(x, training):
        with v1.variable_scope("tower", reuse=v1.AUTO_REUSE, initializer=v1.constant_initializer(0.5)):
            y = layers.dense(x, 3, activation=tf.nn.relu, kernel_regularizer=l2)
            y = layers.batch_normalization(y, training=training)
            y = layers.dense(layers.dense(y, 2), 2, name="last", bias_initializer=ones, use_bias=True)
        return y

    found = {}
    with tf.Graph().as_default():
        x = tf.constant([[1.0, 2.0], [3.0, -1.0]])
        train, test = tower(x, True), tower(x * 2.0, False)
        with v1.variable_scope("tower", reuse=True):
            kernel = v1.get_variable("last/kernel")
        v1.layers.dense(x, 2, name="frozen", trainable=False, kernel_regularizer=l2)
        with v1.name_scope("scope"), v1.variable_scope("wide", regularizer=l2):
            layers.dense(x, 1)
        again = layers.dense(x, 2, name="frozen", reuse=True)
        found["names"] = [v.name for v in v1.global_variables()]
        found["trained"] = [v.name for v in v1.trainable_variables()]
        found["updates"] = len(v1.get_collection(v1.GraphKeys.UPDATE_OPS))
        found["regularizers"] = len(v1.losses.get_regularization_losses())
        with_loss = v1.losses.get_regularization_loss("tower")
        found["values"] = run_once(tf, [train, test, kernel, with_loss, again.shape[1] + tf.constant(0)])
        for name, options in (("frozen", {}), ("unknown", {"reuse": True})):
            try:
                layers.dense(x, 2, name=name, **options)
            except ValueError as error:
                found[name] = str(error)[:46]
    with tf.Graph().as_default():
        image = tf.reshape(tf.range(32.0), [1, 4, 4, 2])
        conv = layers.conv2d(image, 2, 3, padding="same", kernel_initializer=ones, activation=tf.nn.relu, name="c")
        shared = layers.conv2d(image, 2, [3, 3], padding="same", name="c", reuse=True)
        row = layers.conv1d(image[0], 3, 2, kernel_initializer=ones, strides=2)
        cube = layers.dense(image, 3, kernel_initializer=ones, name="cube")
        dropped = layers.dropout(image, 0.5, training=tf.constant(False))
        is_training = v1.placeholder_with_default(tf.constant(True), [])
        normal = layers.batch_normalization(image, training=is_training)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            found["normal"] = [session.run(normal, {is_training: value}) for value in (True, False)]
        found["images"] = run_once(tf, [conv, shared, row, cube, tf.reduce_sum(dropped)])
        found["image names"] = [v.name for v in v1.global_variables()]
    columns = tf.feature_column
    ids = columns.categorical_column_with_identity("ids", 3)
    with tf.Graph().as_default():
        features, parts = {"ids": tf.constant([[1], [2]]), "x": tf.constant([[1.0], [2.0]])}, []
        for _ in range(2):
            with v1.variable_scope("columns", reuse=v1.AUTO_REUSE):
                parts.append(v1.feature_column.input_layer(features, [columns.embedding_column(
                    ids, 2, initializer=v1.ones_initializer()), columns.numeric_column("x")]))
                parts.append(v1.feature_column.linear_model(features, [ids, columns.numeric_column("x")]))
        parts += [v1.div(tf.constant([7, -7]), 2), v1.div(tf.constant([7.0]), 2.0),
                  v1.losses.softmax_cross_entropy([[0.0, 1.0]], [[1.0, 2.0]])]
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            found["columns"] = session.run(parts)
        found["column names"] = [v.name for v in v1.global_variables()]
    return found


@case
def losses_and_counts_of_1(tf):
    v1 = tf.compat.v1
    reduction = v1.losses.Reduction
    with tf.Graph().as_default():
        labels, p = tf.constant([[1.0, 0.0], [0.0, 1.0]]), tf.constant([[0.8, 0.1], [0.3, 0.6]])
        made = [v1.losses.mean_squared_error(labels, p, [[1.0], [0.0]]), v1.losses.hinge_loss(labels, p),
                v1.losses.cosine_distance(labels, p, axis=1), v1.losses.compute_weighted_loss([1.0, 2.0], [1.0, 0.5]),
                v1.losses.absolute_difference(labels, p, 2.0, None, None, reduction.SUM),
                v1.losses.compute_weighted_loss(p, 3.0, reduction=reduction.NONE)]
        v1.losses.add_loss(tf.constant(7.0))
        v1.get_variable("w", initializer=[1.0, 2.0], regularizer=tf.keras.regularizers.l1_l2(0.1, 0.2))
        total = [v1.losses.get_total_loss(False), v1.losses.get_regularization_loss()] if len(made) == 0 else [
            tf.add_n([tf.reduce_sum(loss) for loss in v1.losses.get_losses()]), v1.losses.get_regularization_loss()]
        counted = len(v1.losses.get_losses())
        losses = run_once(tf, made + total)
    with tf.Graph().as_default():
        labels, p = tf.constant([1, 0, 1, 1, 0]), tf.constant([0.9, 0.4, 0.3, 0.8, 0.7])
        found, weights = tf.cast(p > 0.5, tf.int64), tf.constant([1.0, 2.0, 0.5, 1.0, 3.0])
        metrics = {name: getattr(v1.metrics, name)(labels, found) for name in (
            "true_positives", "true_negatives", "false_positives", "false_negatives")}
        metrics["weighted"] = v1.metrics.false_positives(labels, found, weights, ["of_values"], ["of_updates"])
        metrics["iou"] = v1.metrics.mean_iou(labels, found, 2)
        metrics["below"] = v1.metrics.percentage_below(p, 0.75)
        metrics["relative"] = v1.metrics.mean_relative_error(p, p * 2.0, [1.0, 0.0, 2.0, 1.0, 1.0])
        with v1.Session() as session:
            session.run(v1.local_variables_initializer())
            updates = [session.run({name: pair[1] for name, pair in metrics.items()}) for _ in range(2)]
            for update in updates:
                update.pop("iou")  # a matrix of counts there
            values = session.run({name: pair[0] for name, pair in metrics.items()})
        collected = [len(v1.get_collection(key)) for key in ("of_values", "of_updates")]
    return {"losses": losses, "counted": counted, "updates": updates, "values": values, "collected": collected}


@case
def schedules_of_canned_models(tf):
    """Learning rates that are schedules of Keras, in canned models and in a model_fn."""
    v1, (features, labels) = tf.compat.v1, table()
    columns = [tf.feature_column.numeric_column("x", shape=(2,))]
    optimizers, schedules = tf.keras.optimizers.legacy, tf.keras.optimizers.schedules

    def model_fn(features, labels, mode):
        logits = v1.layers.dense(features["x"], 3, kernel_initializer=v1.zeros_initializer())
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        optimizer = optimizers.SGD(schedules.InverseTimeDecay(0.5, 2, 0.9))
        optimizer.iterations = v1.train.get_or_create_global_step()
        train_op = optimizer.get_updates(loss, v1.trainable_variables())[0]
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return {"adam": trained(tf, tf.estimator.LinearClassifier(columns, n_classes=3, optimizer=optimizers.Adam(
                schedules.ExponentialDecay(0.1, 3, 0.5))), features, labels),
            "lambda": trained(tf, tf.estimator.LinearClassifier(columns, n_classes=3, optimizer=lambda: optimizers.Ftrl(
                learning_rate=v1.train.exponential_decay(0.1, v1.train.get_global_step(), 3, 0.5),
                l1_regularization_strength=0.01)), features, labels),
            "own": trained(tf, tf.estimator.Estimator(model_fn), features, labels)}


@case
def keras_in_model_fns(tf):
    """Models of Keras in a model_fn, trained as the guide to TensorFlow 2 has it: by optimizers of TensorFlow 1 and
    legacy ones, for the variables of the model, with its regularizers."""
    v1, (features, labels) = tf.compat.v1, table()
    legacy, constant = tf.keras.optimizers.legacy, tf.keras.initializers.Constant

    def model_fn(features, labels, mode, params):
        model = tf.keras.Sequential([
            tf.keras.layers.Dense(4, "tanh", kernel_initializer=constant(np.arange(8.0).reshape(2, 4) / 10), input_shape=(2,),
                                  kernel_regularizer=tf.keras.regularizers.l2(0.1)),
            tf.keras.layers.Dense(3, kernel_initializer=constant(np.arange(12.0).reshape(4, 3) / 10))])
        step = v1.train.get_or_create_global_step()

        def total():
            logits = model(features["x"], training=mode == "train")
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
            return loss + tf.add_n(model.losses)

        with tf.GradientTape() as tape:
            loss = total()
        variables, train_op = model.trainable_variables, None
        if params == "of_1":
            train_op = v1.train.AdamOptimizer(0.1).minimize(loss, var_list=variables, global_step=step)
        else:
            optimizer = legacy.Adam(0.1)
            optimizer.iterations = step
            if params == "updates":
                train_op = tf.group(optimizer.get_updates(loss, variables)[0], *model.updates)
            else:
                train_op = optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return {way: trained(tf, tf.estimator.Estimator(model_fn, params=way), features, labels)
            for way in ("of_1", "updates", "tape")}


@case
def scaffolds(tf):
    """Functions and operations that run when a session is new, in an Estimator and in monitored sessions."""
    v1, (features, labels) = tf.compat.v1, table()
    start = checkpoint_of(tf, {"old/kernel": (2, 3), "old/bias": (3,)})
    calls = []

    def model_fn(features, labels, mode):
        logits = v1.layers.dense(features["x"], 3, name="new")
        kernel, bias = (v for name in ("kernel", "bias") for v in v1.global_variables() if name in v.name)
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        step = v1.train.get_or_create_global_step()
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        saver = v1.train.Saver({"old/kernel": kernel})

        def init_fn(scaffold, session):
            calls.append(type(scaffold).__name__)
            saver.restore(session, start)
            bias.load([0.1, 0.2, 0.3], session)

        scaffold = v1.train.Scaffold(init_fn=init_fn, saver=v1.train.Saver(max_to_keep=2), local_init_op=tf.group(
            v1.tables_initializer(), v1.local_variables_initializer()))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)

    config = tf.estimator.RunConfig(keep_checkpoint_max=2, save_checkpoints_steps=2)
    model = tf.estimator.Estimator(model_fn, config=config)
    found = {"metrics": trained(tf, model, features, labels), "again": trained(tf, model, features, labels)}
    found["calls"] = list(calls)
    with tf.Graph().as_default():
        v = v1.get_variable("v", initializer=[1.0, 2.0])
        step = v1.train.get_or_create_global_step()
        count = v1.assign_add(step, 1)
        scaffold = v1.train.Scaffold(init_op=tf.group(v.assign([5.0, 6.0]), step.initializer),
                                     init_fn=lambda scaffold, session: session.run(doubled))
        doubled = v.assign(v * 2.0)
        folder = tempfile.mkdtemp()
        for _ in range(2):
            with v1.train.MonitoredTrainingSession(checkpoint_dir=folder, scaffold=scaffold) as session:
                found[f"monitored {len(found)}"] = session.run([v, count])
    return found


@case
def initial_values_of_checkpoints(tf):
    v1 = tf.compat.v1
    start = checkpoint_of(tf, {"old/dense/kernel": (2, 3), "old/dense/bias": (3,), "other": (2,)})
    with tf.Graph().as_default():
        x = tf.constant([[1.0, 2.0]])
        with v1.variable_scope("new"):
            y = v1.layers.dense(x, 3)
        a, b = v1.get_variable("a", [2]), v1.get_variable("b", [2])
        v1.train.init_from_checkpoint(start, {"old/": "new/", "other": a})
        v1.train.init_from_checkpoint(start, [("other", "b")])
        found = {"values": run_once(tf, [y, a, b])}
    with tf.Graph().as_default():
        with v1.variable_scope("old"):
            v1.layers.dense(tf.constant([[1.0, 2.0]]), 4)
        for name, mapping in (("shape", {"old/dense/kernel": "old/dense/kernel"}), ("missing", {"nothing": "old/dense/bias"}),
                              ("scope", {"old": "old/"})):
            try:
                v1.train.init_from_checkpoint(start, mapping)
            except ValueError as error:
                found[name] = str(error)[:24]
    reader = v1.train.NewCheckpointReader(start)
    return {**found, "reader": [reader.has_tensor("other"), reader.get_tensor("other")]}


@case
def sequences_in_maps(tf):
    """Features of any length as dense tensors: filled up in batches, or as they are in rows."""
    rows = [example(tf, row, 4) for row in range(5)]
    sequence = {"ids": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
                "x": tf.io.FixedLenFeature([], tf.float32)}
    ragged = {"ids": tf.io.VarLenFeature(tf.int64), "word": tf.io.VarLenFeature(tf.string)}

    def dense(records):
        parsed = tf.io.parse_example(records, ragged)
        ids = tf.sparse.to_dense(parsed["ids"], default_value=-1)
        return {"ids": ids, "known": tf.cast(ids >= 0, tf.float32), "word": tf.sparse.to_dense(parsed["word"])}

    def one(record):
        parsed = tf.io.parse_single_example(record, {**sequence, "word": tf.io.VarLenFeature(tf.string)})
        return parsed["ids"], tf.sparse.to_dense(parsed["word"])

    records = tf.data.Dataset.from_tensor_slices(rows)
    found = {"batch": list(records.batch(5).map(lambda r: tf.io.parse_example(r, sequence)).as_numpy_iterator()),
             "dense": list(records.batch(3).map(dense).as_numpy_iterator()),
             "rows": list(records.map(one).as_numpy_iterator()),
             "padded": list(records.map(lambda r: tf.io.parse_single_example(r, sequence)["ids"]).padded_batch(
                 5).as_numpy_iterator()),
             "now": tf.io.parse_example(rows, sequence), "later": tf.sparse.to_dense(tf.io.parse_example(rows, ragged)["ids"])}
    return found


@case
def averages_and_decays_of_1(tf):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        step = tf.constant(30, tf.int64)
        decays = run_once(tf, [
            v1.train.natural_exp_decay(0.1, step, 10, 0.5), v1.train.natural_exp_decay(0.1, step, 20, 0.5, staircase=True),
            v1.train.cosine_decay_restarts(0.1, step, 20), v1.train.cosine_decay_restarts(0.1, step, 7, 1.5, 0.9, 0.1)])
    with tf.Graph().as_default():
        v, w = v1.get_variable("v", initializer=[1.0, 2.0]), v1.get_variable("w", initializer=5.0, trainable=False)
        average = v1.train.ExponentialMovingAverage(0.9)
        limited = v1.train.ExponentialMovingAverage(0.9, num_updates=v1.train.get_or_create_global_step(), name="limited")
        update, updates = average.apply(), limited.apply([v, w])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run([v.assign([3.0, -1.0]), w.assign(0.0)])
            session.run([update, updates])
            session.run(update)
            values = session.run([average.average(v), limited.average(v), limited.average(w)])
        names = [average.average_name(v), average.average(v).name, average.average(w) is None,
                 sorted(average.variables_to_restore()), sorted(v.name for v in v1.global_variables())]
    return {"decays": decays, "values": values, "names": names}


@case
def a_layer_that_is_twice_in_a_model(tf):
    """The pooling layer of the official model for MNIST."""
    layers, x = tf.keras.layers, np.arange(128, dtype=np.float32).reshape(2, 8, 8, 1) / 1000
    pool = layers.MaxPooling2D((2, 2), (2, 2), padding="same")
    conv = [layers.Conv2D(n, 3, padding="same", kernel_initializer="ones") for n in (2, 3)]
    model = tf.keras.Sequential([layers.Reshape((8, 8, 1), input_shape=(8, 8, 1)), conv[0], pool, conv[1], pool,
                                 layers.Flatten(), layers.Dense(1, kernel_initializer="ones")])
    model.compile(tf.keras.optimizers.SGD(1e-6), "mse")
    losses = model.fit(x, np.float32([[1], [2]]), verbose=0, epochs=2).history["loss"]
    return {"losses": losses, "predictions": model.predict(x, verbose=0)}


@case
def warm_starts_of_lists(tf):
    """Parts of names in a list, which are of all variables and not only of those that are trained."""
    v1, (features, labels) = tf.compat.v1, table()

    def model_fn(features, labels, mode, params):
        with v1.variable_scope("first"):
            x = v1.layers.dense(features["x"], 2, kernel_initializer=v1.constant_initializer(params))
            v1.get_variable("kept", initializer=[params, params], trainable=False)
        y = v1.layers.dense(x, 3, kernel_initializer=v1.constant_initializer(params), name="last")
        loss = v1.losses.sparse_softmax_cross_entropy(labels, y)
        train_op = v1.train.MomentumOptimizer(0.0, 0.9).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    first = tf.estimator.Estimator(model_fn, params=1.0)
    first.train(batches(tf, features, labels), steps=1)
    found = {}
    for name, wanted in (("list", ["first", "last/bias"]), ("regex", "first")):
        settings = tf.estimator.WarmStartSettings(first.model_dir, vars_to_warm_start=wanted)
        model = tf.estimator.Estimator(model_fn, params=2.0, warm_start_from=settings)
        model.train(batches(tf, features, labels), steps=1)
        found[name] = {name: model.get_variable_value(name).ravel()[:2]
                       for name in ("first/dense/kernel", "first/kept", "last/kernel", "last/bias")}
    return found


@case
def parse_specs_with_labels(tf):
    """What canned estimators read from Examples."""
    columns = [tf.feature_column.numeric_column("x", (2,)), tf.feature_column.categorical_column_with_hash_bucket("c", 5)]
    made = {"classes": tf.estimator.classifier_parse_example_spec(columns, "label", tf.string, "none", "w"),
            "numbers": tf.estimator.regressor_parse_example_spec(columns, "label", label_dimension=3)}
    found = {}
    for name, spec in made.items():
        for key, feature in spec.items():
            found[f"{name} {key}"] = [type(feature).__name__, feature.dtype.name, list(getattr(feature, "shape", ())),
                                      getattr(feature, "default_value", None)]
    try:
        tf.estimator.classifier_parse_example_spec(columns, "x")
    except ValueError as error:
        found["error"] = str(error)[:40]
    return found


@case
def predictions_of_several_heads(tf):
    """Their keys are pairs of the name of a head and that of the prediction."""
    features, labels = table()
    heads = tf.estimator.MultiHead([tf.estimator.RegressionHead(name="r"), tf.estimator.BinaryClassHead(name="b")], [1.0, 0.5])
    model = tf.estimator.LinearEstimator(heads, [tf.feature_column.numeric_column("x", shape=(2,))])
    targets = {"r": features["x"][:, 1:], "b": (labels[:, None] > 1).astype(np.float32)}
    metrics = trained(tf, model, features, targets)
    row = next(model.predict(batches(tf, features, targets)))
    chosen = next(model.predict(batches(tf, features, targets), predict_keys=[("b", "logistic")]))
    return {"metrics": metrics, "keys": sorted(map(str, row)), "r": row["r", "predictions"], "chosen": [
        [str(key), value] for key, value in chosen.items()]}


@case
def loaded_graphs(tf):
    """SavedModels in the graph of a session, by the names of their tensors, and what is computed from them."""
    v1, folder = tf.compat.v1, tempfile.mkdtemp()
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        w = v1.get_variable("w", initializer=[[1.0], [2.0]])
        y = tf.matmul(x, w, name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, os.path.join(folder, "simple"), {"in": x}, {"out": y, "twice": tf.add(y, y, name="z")})

    def model_fn(features, labels, mode):
        step = v1.train.get_global_step()
        sums = features["a"] + 2.0
        return tf.estimator.EstimatorSpec(mode, sums, tf.constant(0.0), step.assign_add(1), export_outputs={
            "serving_default": tf.estimator.export.PredictOutput({"sum": sums})})

    def receiver_fn():
        a = v1.placeholder(tf.float32, [1], name="a")
        return tf.estimator.export.build_raw_serving_input_receiver_fn({"a": a})()

    model = tf.estimator.Estimator(model_fn)
    model.train(lambda: tf.data.Dataset.from_tensors({"a": [3.0]}).repeat(), steps=1)
    exported = model.export_saved_model(os.path.join(folder, "own"), receiver_fn)
    with tf.Graph().as_default() as graph, v1.Session() as session:
        meta = v1.saved_model.loader.load(session, [v1.saved_model.tag_constants.SERVING], os.path.join(folder, "simple"))
        signature = meta.signature_def["serving_default"]
        rows = {"x:0": [[1.0, 1.0], [2.0, 3.0]]}
        y = graph.get_tensor_by_name("y:0")
        found = {"names": [signature.inputs["in"].name, signature.outputs["out"].name, signature.method_name],
                 "by_name": session.run(["y:0", signature.outputs["twice"].name], rows),
                 "more": session.run({"sum": tf.reduce_sum(y) * 2.0, "y": y}, rows)}
        try:
            session.run(y)
        except tf.errors.InvalidArgumentError as error:
            found["unfed"] = type(error).__name__
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], exported.decode()).signature_def["serving_default"]
        found["own"] = session.run(signature.outputs["sum"].name, {signature.inputs["a"].name: [5.0, 6.0]})
    return found
