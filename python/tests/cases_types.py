# SPDX-License-Identifier: Apache-2.0
"""More cases for test_cases.py: types, constants and helpers of tf, which compute no numbers, but which programs name,
ask for and catch."""
import os
import tempfile

import numpy as np
from cases import case, data, set_weights


def outcome(call):
    """What a call gives, or the kind of error."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises
        return type(error).__name__


@case
def kinds_of_errors(tf):
    errors = tf.errors
    codes = """OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
        RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS
        UNAUTHENTICATED""".split()
    kinds = [errors.CancelledError, errors.UnknownError, errors.InvalidArgumentError, errors.DeadlineExceededError,
             errors.NotFoundError, errors.AlreadyExistsError, errors.PermissionDeniedError, errors.UnauthenticatedError,
             errors.ResourceExhaustedError, errors.FailedPreconditionError, errors.AbortedError, errors.OutOfRangeError,
             errors.UnimplementedError, errors.InternalError, errors.UnavailableError, errors.DataLossError]
    made = [kind(None, None, f"no {kind.__name__}") for kind in kinds]
    return {"codes": {name: getattr(errors, name) for name in codes},
            "made": {type(one).__name__: [one.error_code, one.message, str(one), one.op is None, one.node_def is None]
                     for one in made},
            "bases": [isinstance(one, errors.OpError) and isinstance(one, Exception) for one in made],
            "v1": [getattr(tf.compat.v1.errors, kind.__name__) is kind for kind in kinds],
            "of_code": [outcome(lambda code=code: tf.compat.v1.errors.exception_type_from_error_code(code).__name__)
                        for code in range(1, 17)],
            "to_code": [tf.compat.v1.errors.error_code_from_exception_type(kind) for kind in kinds]}


@case
def attributes_of_dtypes(tf):
    kinds = [tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8, tf.bool, tf.string]
    return {"kinds": [[kind.name, str(kind), repr(kind), kind.size, kind.is_floating, kind.is_integer, kind.is_bool,
                       kind.is_complex, kind.is_numpy_compatible, kind.is_unsigned, kind.base_dtype == kind,
                       kind.as_datatype_enum, np.dtype(kind.as_numpy_dtype).name, kind.real_dtype == kind,
                       isinstance(kind, tf.DType), isinstance(kind, tf.dtypes.DType), kind.is_compatible_with(tf.float32)]
                      for kind in kinds],
            "limits": [[outcome(lambda kind=kind: kind.min), outcome(lambda kind=kind: kind.max)] for kind in kinds],
            "as_dtype": [tf.as_dtype(given).name for given in ("float32", np.int64, np.dtype("uint8"), "bool", float, bool,
                                                               tf.string, "double", 3)],
            "equal": [tf.float32 == "float32", tf.float32 == np.float32, tf.float32 != tf.float64, tf.int32 == "no type",
                      len({tf.float32, tf.as_dtype("float32")})],
            "same": tf.dtypes.DType is tf.compat.v1.DType is tf.DType}


@case
def collections_of_graphs(tf):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with v1.variable_scope("first", reuse=v1.AUTO_REUSE, initializer=v1.zeros_initializer()) as scope:
            a = v1.get_variable("a", [2])
            current = v1.get_variable_scope()
            inside = [isinstance(scope, v1.VariableScope), current.name, current.original_name_scope, bool(current.reuse),
                      current is scope or current.name == scope.name]
        b = v1.get_variable("b", initializer=[1.0, 2.0], collections=[v1.GraphKeys.GLOBAL_VARIABLES,
                                                                      v1.GraphKeys.MODEL_VARIABLES])
        c = v1.get_variable("c", initializer=3.0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
        v1.add_to_collections(["one", "two"], a)
        v1.add_to_collections("three", 7)
        v1.get_collection_ref("two").append("more")
        nothing, group = v1.no_op(name="nothing"), tf.group(a.initializer, name="all")
        some = v1.variables_initializer([b], name="some")
        operations = [isinstance(one, v1.Operation) for one in (nothing, group, some)]
        names = [nothing.name, nothing.type, group.name, some.name]
        before = v1.report_uninitialized_variables([a, b, c])
        with tf.init_scope():
            lifted = tf.executing_eagerly()
        with v1.Session() as session:
            out = [session.run(before), session.run([nothing, some]), session.run(before),
                   session.run(v1.initialize_all_variables()), session.run(before),
                   session.run(v1.initialize_local_variables()), session.run([a, b, c]), session.run(before)]
        return {"out": out, "inside": inside, "operations": operations, "names": names, "lifted": lifted,
                "model": [one.name for one in v1.model_variables()],
                "outside": [v1.get_variable_scope().name, v1.get_variable_scope().reuse],
                "one": [one.name for one in v1.get_collection("one")], "three": v1.get_collection("three"),
                "two": [getattr(one, "name", one) for one in v1.get_collection("two")]}


@case
def places_of_computation(tf):
    config, v1 = tf.config, tf.compat.v1
    cpu = config.list_physical_devices("CPU")[0]
    with tf.init_scope():
        eager = tf.executing_eagerly()

    @tf.function
    def lifted():
        with tf.init_scope():
            rate = tf.constant(2.0)
        return rate * 3.0

    return {"cpu": [cpu.name, cpu.device_type, isinstance(cpu, config.PhysicalDevice)],
            "logical": [[one.name, one.device_type, isinstance(one, config.LogicalDevice)]
                        for one in config.list_logical_devices("CPU")[:1]],
            "made": [config.PhysicalDevice("a", "CPU").name, config.LogicalDevice(name="b", device_type="CPU").device_type],
            "visible": [config.get_visible_devices("CPU") == [cpu], cpu in config.get_visible_devices(),
                        config.get_visible_devices("GPU")],
            "parts": [one.memory_limit for one in config.get_logical_device_configuration(cpu)[:1]],
            "wrong": outcome(lambda: config.get_logical_device_configuration(config.PhysicalDevice("none", "CPU"))),
            "test": [tf.test.is_built_with_cuda() in (True, False), tf.test.is_gpu_available(), tf.test.gpu_device_name()],
            "version": tf.version.VERSION.split("+")[0], "eager": eager, "lifted": lifted(),
            "options": [v1.GPUOptions(per_process_gpu_memory_fraction=0.25).per_process_gpu_memory_fraction,
                        v1.GPUOptions(allow_growth=True).allow_growth, v1.GraphOptions().infer_shapes,
                        v1.ConfigProto(gpu_options=v1.GPUOptions(allow_growth=True)).gpu_options.allow_growth],
            "synchronization": [one.name for one in tf.VariableSynchronization],
            "same": v1.VariableSynchronization is tf.VariableSynchronization}


@case
def files_and_folders(tf):
    gfile, v1 = tf.io.gfile, tf.compat.v1.gfile
    top = tempfile.mkdtemp()
    inner, first, second = (os.path.join(top, *names) for names in (("in",), ("in", "a.txt"), ("b.txt",)))
    out = {"made": [v1.MkDir(inner), v1.IsDirectory(inner), outcome(lambda: v1.MkDir(inner)), v1.Exists(first)]}
    with v1.Open(first, "w") as file:
        file.write("one\ntwo\n")
    with v1.FastGFile(first, "r") as file:
        out["lines"] = [file.readline(), file.read(), file.size()]
    stat = v1.Stat(first)
    out["stat"] = [stat.length, stat.is_directory, stat.mtime_nsec > 0, v1.Stat(inner).is_directory,
                   outcome(lambda: v1.Stat(second)), gfile.stat(first).length]
    out["copy"] = [v1.Copy(first, second), gfile.GFile(second).read(), outcome(lambda: v1.Copy(first, second)),
                   v1.Copy(first, second, overwrite=True), outcome(lambda: v1.Copy(first + "x", second))]
    out["walk"] = [[os.path.relpath(folder, top), sorted(folders), sorted(files)] for folder, folders, files in v1.Walk(top)]
    out["up"] = [[os.path.relpath(folder, top), folders, files] for folder, folders, files in v1.Walk(top, in_order=False)]
    out["glob"] = [[os.path.relpath(name, top) for name in v1.Glob(os.path.join(top, pattern))]
                   for pattern in ("*.txt", "*", "in/*", "?.txt", "none*")]
    third = os.path.join(top, "c.txt")
    out["rename"] = [v1.Rename(second, third), v1.Exists(second), v1.Exists(third),
                     outcome(lambda: v1.Rename(first, third)), v1.Rename(first, third, overwrite=True),
                     outcome(lambda: v1.Rename(second, third))]
    out["remove"] = [v1.Remove(third), outcome(lambda: v1.Remove(third)), v1.ListDirectory(inner)]
    out["delete"] = [v1.DeleteRecursively(inner), v1.Exists(inner), outcome(lambda: v1.DeleteRecursively(inner)),
                     v1.IsDirectory(top), v1.IsDirectory(inner), v1.DeleteRecursively(top), v1.Exists(top)]
    return out


@case
def levels_of_logging(tf):
    import logging as python_logging
    logging = tf.compat.v1.logging
    lines = []

    class Keep(python_logging.Handler):
        def emit(self, record):
            lines.append([record.levelname, record.getMessage()])

    logger, keep = tf.get_logger(), Keep()
    before = logger.level
    logger.addHandler(keep)
    try:
        for level in (logging.WARN, logging.DEBUG, logging.FATAL):
            logging.set_verbosity(level)
            lines.append(logging.get_verbosity())
            for write in (logging.debug, logging.info, logging.warn, logging.warning, logging.error, logging.fatal):
                write("%d is %s", level, "shown")
    finally:
        logger.removeHandler(keep)
        logger.setLevel(before)
    return {"lines": lines, "levels": [logging.DEBUG, logging.INFO, logging.WARN, logging.ERROR, logging.FATAL]}


@case
def kinds_of_flags(tf):
    flags = tf.compat.v1.flags
    values = flags.FLAGS
    flags.DEFINE_multi_string("types_words", ["a"], "words")
    flags.DEFINE_multi_float("types_rates", [0.5], "rates")
    flags.DEFINE_string("types_needed", None, "needed")
    flags.DEFINE_integer("types_count", None, "needed")
    flags.mark_flags_as_required(["types_needed", "types_count"])
    out = {"missing": outcome(lambda: values(["program"])),
           "unknown": outcome(lambda: values(["program", "--types_needed=a", "--types_count=1", "--types_none=1"])),
           "wrong": outcome(lambda: values(["program", "--types_needed=a", "--types_count=1", "--types_rates=x"]))}
    values(["program", "--types_words=b", "--types_words=c", "--types_rates=1.5", "--types_rates=2", "--types_needed=x",
            "--types_count=3"])
    out.update(words=values.types_words, rates=values.types_rates, needed=[values.types_needed, values.types_count])
    for name in ("words", "rates", "needed", "count"):  # for other tests
        delattr(values, f"types_{name}")
    return {**out, "kinds": [issubclass(flags.UnrecognizedFlagError, flags.Error), issubclass(flags.Error, Exception)]}


@case
def constants_of_saved_models(tf):
    v1, kinds = tf.compat.v1, tf.compat.v1.python_io.TFRecordCompressionType
    folder = os.path.join(tempfile.mkdtemp(), "model")
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        w = v1.get_variable("w", initializer=[[1.0], [2.0]])
        y = tf.matmul(x, w, name="y")
        signature = v1.saved_model.predict_signature_def({"features": x}, {"score": y})
        info = v1.saved_model.build_tensor_info(x)
        made = type(signature)(inputs={"x": info}, method_name="tensorflow/serving/predict")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            builder = v1.saved_model.Builder(folder)
            builder.add_meta_graph_and_variables(session, [v1.saved_model.SERVING], {"serving_default": signature})
            builder.save()
    loaded = v1.saved_model.load_v2(folder)

    def written(kind):
        path, options = os.path.join(folder, "records"), v1.python_io.TFRecordOptions(kind)
        with v1.python_io.TFRecordWriter(path, options) as writer:
            writer.write(b"one")
        with open(path, "rb") as file:
            return [file.read(2).hex(), list(v1.python_io.tf_record_iterator(path, options))]

    result = loaded.signatures[tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY](features=tf.constant([[3.0, 4.0]]))
    return {"key": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY, "training": v1.saved_model.TRAINING,
            "same": isinstance(info, getattr(v1.saved_model, "TensorInfo", type(info))), "method": [signature.method_name, made.method_name],
            "inputs": [[name, one.name, tf.as_dtype(one.dtype).name] for name, one in signature.inputs.items()],
            "outputs": [[name, one.name] for name, one in signature.outputs.items()],
            "made": [isinstance(made, getattr(v1.saved_model, "SignatureDef", type(made))), made.inputs["x"].name, len(made.outputs)], "files": sorted(os.listdir(folder)),
            "again": outcome(lambda: v1.saved_model.Builder(folder)), "result": result,
            "compressed": [written(kind) for kind in (kinds.NONE, kinds.ZLIB, kinds.GZIP)]}


@case
def heads_of_other_models(tf):
    """Heads that no canned estimator has of its own: losses, metrics and predictions of models with them."""
    e, (x, y) = tf.estimator, data(32)
    columns = [tf.feature_column.numeric_column("x", 4)]
    labels = {"logistic": (y > 0).astype(np.float32), "poisson": np.round(np.abs(y)).astype(np.float32),
              "many": (x[:, :3] > 0).astype(np.int64)}
    heads = {"logistic": e.LogisticRegressionHead(), "poisson": e.PoissonRegressionHead(),
             "many": e.MultiLabelHead(3, thresholds=[0.4], classes_for_class_based_metrics=[0, 2])}
    out = {}
    for name, head in heads.items():
        def rows(repeat=1, name=name):
            return tf.data.Dataset.from_tensor_slices(({"x": x}, labels[name])).repeat(repeat).batch(16)

        model = e.LinearEstimator(head, columns, tempfile.mkdtemp(),
                                  optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.05))
        model.train(rows, steps=2)
        out[name] = {"metrics": {key: float(value) for key, value in model.evaluate(rows).items()},
                     "first": next(model.predict(rows)), "logits": head.logits_dimension, "name": head.name,
                     "head": isinstance(head, e.Head)}
    return out


class Stop:
    """Trains to step 10, with an evaluation of a value that grows by 1 with every 2 steps."""

    def __init__(self, tf):
        self.tf, self.v1 = tf, tf.compat.v1

    def model_fn(self, features, labels, mode):
        tf, v1 = self.tf, self.v1
        step = v1.train.get_global_step()
        value = v1.get_variable("value", initializer=0.0)
        update = tf.group(v1.assign_add(value, 0.5), v1.assign_add(step, 1))
        metrics = {"grown": v1.metrics.mean(value), "shrunk": v1.metrics.mean(-value)}
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features["x"]), train_op=update, eval_metric_ops=metrics)

    def rows(self):
        return self.tf.data.Dataset.from_tensors({"x": [[1.0]]}).repeat()

    def steps(self, make):
        folder = tempfile.mkdtemp()
        model = self.tf.estimator.Estimator(self.model_fn, folder, self.tf.estimator.RunConfig(
            save_checkpoints_steps=2, log_step_count_steps=None))
        os.makedirs(model.eval_dir())
        for until in range(2, 12, 2):
            model.train(self.rows, hooks=[make(model)], max_steps=until)
            model.evaluate(self.rows, steps=1)
        return model.get_variable_value("global_step")


@case
def hooks_that_stop_early(tf):
    stop, made = Stop(tf), tf.estimator.experimental
    every = {"run_every_secs": None, "run_every_steps": 1}
    return {"higher": [stop.steps(lambda model: made.stop_if_higher_hook(model, "grown", 1.5, **every)),
                       stop.steps(lambda model: made.stop_if_higher_hook(model, "grown", 9.0, **every)),
                       stop.steps(lambda model: made.stop_if_higher_hook(model, "grown", 1.5, min_steps=7, **every))],
            "lower": [stop.steps(lambda model: made.stop_if_lower_hook(model, "shrunk", -0.5, **every)),
                      stop.steps(lambda model: made.stop_if_lower_hook(model, "shrunk", -9.0, **every))],
            "no increase": [stop.steps(lambda model: made.stop_if_no_increase_hook(model, "shrunk", 3, **every)),
                            stop.steps(lambda model: made.stop_if_no_increase_hook(model, "grown", 3, **every))],
            "no decrease": [stop.steps(lambda model: made.stop_if_no_decrease_hook(model, "grown", 3, **every)),
                            stop.steps(lambda model: made.stop_if_no_decrease_hook(model, "shrunk", 3, **every))]}


@case
def hooks_of_sessions(tf):
    v1, calls = tf.compat.v1, []
    train, folder, checkpoints = v1.train, tempfile.mkdtemp(), tempfile.mkdtemp()

    class Watch(tf.estimator.SessionRunHook):
        def before_run(self, run_context):
            calls.append([isinstance(run_context, tf.estimator.SessionRunContext), run_context.stop_requested,
                          run_context.original_args.fetches is not None])
            return tf.estimator.SessionRunArgs(v1.train.get_global_step())

        def after_run(self, run_context, run_values):
            calls.append([isinstance(run_values, tf.estimator.SessionRunValues), run_values.results])
            if run_values.results >= 2:
                run_context.request_stop()
            calls.append(run_context.stop_requested)

    def loop(hooks, value, steps=4):
        with tf.Graph().as_default():
            step = train.create_global_step()
            again = outcome(train.create_global_step)
            loss = tf.constant(value)
            v1.summary.scalar("loss", loss)
            update = v1.assign_add(step, 1)
            made = hooks(loss)
            with train.SingularMonitoredSession(hooks=made, checkpoint_dir=checkpoints) as session:
                while not session.should_stop() and steps:
                    session.run([update, loss])
                    steps -= 1
        return again

    diverging = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], tempfile.mkdtemp())
    out = {"again": loop(lambda loss: [Watch()], 1.0), "calls": calls,
           "nan": [outcome(lambda: loop(lambda loss: [train.NanTensorHook(loss)], float("nan"))),
                   outcome(lambda: loop(lambda loss: [train.NanTensorHook(loss, fail_on_nan_loss=False)], float("nan"))),
                   outcome(lambda: diverging.train(lambda: tf.data.Dataset.from_tensors(({"x": [[np.nan]]}, [[1.0]]))))],
           "waits": outcome(lambda: loop(lambda loss: [train.GlobalStepWaiterHook(0)], 1.0))}
    for name, made in {"events": lambda again: v1.summary.merge_all(), "one": lambda again: again,
                       "two": lambda again: v1.summary.merge([v1.summary.scalar("more", 7.0), again]),
                       "list": lambda again: [again]}.items():
        folder = tempfile.mkdtemp()
        loop(lambda loss, made=made: [train.SummarySaverHook(save_steps=2, output_dir=folder, summary_op=made(
            v1.summary.scalar("again", loss)))], 2.5)
        events = [event for file in os.listdir(folder) for event in train.summary_iterator(os.path.join(folder, file))]
        out[name] = sorted([event.step, one.tag, one.simple_value] for event in events for one in event.summary.value)
    out["wrong"] = [outcome(lambda: train.SummarySaverHook(output_dir=folder)),
                    isinstance(outcome(lambda: train.ProfilerHook(save_steps=1, save_secs=1.0)), str)]
    timelines = tempfile.mkdtemp()
    loop(lambda loss: [train.ProfilerHook(save_steps=1, output_dir=timelines)], 1.0, 2)
    out["timelines"] = any(name.startswith("timeline-") for name in os.listdir(timelines))
    same = [getattr(tf.estimator, name) is getattr(train, name) for name in (
        "GlobalStepWaiterHook", "ProfilerHook", "SummarySaverHook", "NanLossDuringTrainingError", "SessionRunContext",
        "SessionRunValues")]
    error = train.NanLossDuringTrainingError()
    values = train.SessionRunValues(results=[1], options=None, run_metadata=None)
    return {**out, "same": same, "error": [str(error), isinstance(error, RuntimeError)], "values": list(values)}


@case
def sessions_of_chief_and_worker(tf):
    v1, folder = tf.compat.v1, tempfile.mkdtemp()

    def loop(make):
        with tf.Graph().as_default():
            step = v1.train.get_or_create_global_step()
            v1.get_variable("v", initializer=1.0)
            update = v1.assign_add(step, 3)
            saver = v1.train.CheckpointSaverHook(folder, save_steps=1)
            with v1.train.MonitoredSession(session_creator=make(), hooks=[saver]) as session:
                return session.run(update)

    return {"first": loop(lambda: v1.train.ChiefSessionCreator(checkpoint_dir=folder)),
            "restored": loop(lambda: v1.train.ChiefSessionCreator(v1.train.Scaffold(), checkpoint_dir=folder)),
            "kinds": [isinstance(v1.train.WorkerSessionCreator(max_wait_secs=1), v1.train.SessionCreator)
                      if hasattr(v1.train, "SessionCreator") else True]}


@case
def checkpoints_that_are_removed(tf):
    train, folder = tf.compat.v1.train, tempfile.mkdtemp()
    prefix = tf.train.Checkpoint(v=tf.Variable(1.0)).write(os.path.join(folder, "a"))
    other = tf.train.Checkpoint(v=tf.Variable(1.0)).write(os.path.join(folder, "b"))
    times = train.get_checkpoint_mtimes([prefix, prefix + "none", other])
    out = [train.checkpoint_exists(prefix), train.checkpoint_exists(prefix + "none"), len(times),
           all(abs(one - os.path.getmtime(prefix + ".index")) < 60 for one in times)]
    return [*out, train.remove_checkpoint(prefix), train.checkpoint_exists(prefix), train.checkpoint_exists(other),
            sorted(os.listdir(folder)), len(train.get_checkpoint_mtimes([prefix, other]))]


@case
def types_of_estimators(tf):
    e, folder = tf.estimator, tempfile.mkdtemp()
    paths = [os.path.join(folder, name) for name in ("new", "old")]
    for path, words in zip(paths, ("b\nc\na", "a\nb")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(words)
    info = e.VocabInfo(new_vocab=paths[0], new_vocab_size=3, num_oov_buckets=0, old_vocab=paths[1])
    full = e.VocabInfo(*paths[:1], 3, 1, paths[1], old_vocab_size=2, axis=0)
    scores, classes, value = tf.constant([[0.25, 0.75]]), tf.constant([["a", "b"]]), tf.constant([1.5])
    both, one = e.export.ClassificationOutput(scores=scores, classes=classes), e.export.ClassificationOutput(scores)
    number = e.export.RegressionOutput(value=value)
    return {"info": [info.new_vocab_size, info.num_oov_buckets, info.old_vocab == paths[1], info.old_vocab_size, info.axis],
            "full": [full.old_vocab_size, full.axis, full.new_vocab == paths[0]],
            "outputs": [both.scores, both.classes, one.classes is None, number.value],
            "wrong": [outcome(lambda: e.export.ClassificationOutput()), outcome(lambda: e.export.RegressionOutput(classes)),
                      outcome(lambda: e.export.ClassificationOutput(classes)),
                      outcome(lambda: e.export.ClassificationOutput(scores, scores))]}


@case
def types_of_strategies(tf):
    d = tf.distribute
    strategy, kinds = d.MirroredStrategy(["/cpu:0", "/cpu:1"]), d.experimental
    dataset = tf.data.Dataset.range(8).batch(4)
    distributed = strategy.experimental_distribute_dataset(dataset)
    iterator, seen = iter(distributed), []
    values = next(iterator)

    def step(x):
        context = d.get_replica_context()
        seen.append([isinstance(context, d.ReplicaContext), context.num_replicas_in_sync, context.strategy is strategy])
        return context.all_reduce("SUM", x) * 2

    result = strategy.run(step, (values,))
    context = d.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    ways = [d.NcclAllReduce(), d.ReductionToOneDevice(), d.HierarchicalCopyAllReduce(num_packs=2)]
    reduced = [d.MirroredStrategy(["/cpu:0", "/cpu:1"], cross_device_ops=way).reduce(
        "SUM", strategy.run(lambda: tf.constant(1.5)), axis=None) for way in ways[1:2]]
    options = d.experimental.CommunicationOptions(bytes_per_pack=1024,
                                                  implementation=kinds.CommunicationImplementation.RING)
    resolver = d.cluster_resolver.SimpleClusterResolver(d_spec(tf), task_type="worker", task_id=1)
    return {"types": [isinstance(strategy, d.Strategy), isinstance(distributed, d.DistributedDataset),
                      isinstance(iterator, d.DistributedIterator), isinstance(values, d.DistributedValues),
                      isinstance(resolver, d.cluster_resolver.ClusterResolver)],
            "ways": [isinstance(way, d.CrossDeviceOps) for way in ways], "reduced": reduced, "seen": seen[:1],
            "result": list(strategy.experimental_local_results(result)),
            "context": [context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync,
                        context.get_per_replica_batch_size(8), outcome(lambda: context.get_per_replica_batch_size(6)),
                        d.InputContext().num_input_pipelines, d.InputContext().num_replicas_in_sync],
            "options": [options.bytes_per_pack, options.timeout_seconds, options.implementation.name,
                        kinds.CommunicationOptions().implementation.value, outcome(lambda: kinds.CommunicationOptions(-1))],
            "implementations": [[one.name, one.value] for one in kinds.CommunicationImplementation],
            "same": [kinds.CollectiveCommunication is kinds.CommunicationImplementation]}


def d_spec(tf):
    return tf.train.ClusterSpec({"worker": ["localhost:1111", "localhost:2222"]})


@case
def shards_of_partitioners(tf):
    made = tf.distribute.experimental.partitioners
    shapes = [([10, 4], tf.float32), ([100000], tf.float64), ([3, 50000], tf.int64), ([1], tf.float32)]
    partitioners = [made.FixedShardsPartitioner(3), made.MinSizePartitioner(), made.MinSizePartitioner(64, max_shards=4),
                    made.MinSizePartitioner(100, 1000), made.MaxSizePartitioner(64), made.MaxSizePartitioner(1 << 20),
                    made.MaxSizePartitioner(64, max_shards=5), made.MaxSizePartitioner(1)]
    return {"shards": [[list(one(tf.TensorShape(shape), dtype)) for shape, dtype in shapes] for one in partitioners],
            "axis": [list(one(tf.TensorShape([3, 50000]), tf.float32, axis=1)) for one in partitioners],
            "kinds": [isinstance(one, made.Partitioner) for one in partitioners],
            "wrong": [outcome(lambda: made.MinSizePartitioner(0)), outcome(lambda: made.MaxSizePartitioner(0))]}


@case
def names_of_keras(tf):
    keras, x = tf.keras, data(4)[0]

    @keras.saving.register_keras_serializable("types")
    class Twice(keras.layers.Layer):
        def call(self, inputs):
            return inputs * 2.0

    class Thrice(keras.layers.Layer):
        def call(self, inputs):
            return inputs * 3.0

    model = keras.Sequential([Thrice(name="thrice", input_shape=(4,)), keras.layers.Dense(1, name="last")])
    set_weights(model)
    folder = tempfile.mkdtemp()
    keras.saving.save_model(model, os.path.join(folder, "a.keras"))
    keras.models.save_model(model, os.path.join(folder, "b.keras"))
    loaded = []
    for name in ("a.keras", "b.keras"):
        with keras.utils.CustomObjectScope({"Thrice": Thrice}):
            loaded.append(keras.models.load_model(os.path.join(folder, name)).predict(x, verbose=0))
    policies = [keras.mixed_precision.Policy(name) for name in ("float32", "mixed_bfloat16", "float64")]
    inputs = keras.Input((4,))
    functional = keras.Model(inputs, keras.layers.Dense(2, name="two")(inputs))
    history = functional_history(keras, model, x)
    writer = tf.summary.create_file_writer(os.path.join(folder, "logs"))
    records = [bool(tf.summary.should_record_summaries())]
    with writer.as_default(step=1):
        records.append(bool(tf.summary.should_record_summaries()))
    records.append(bool(tf.summary.should_record_summaries()))
    return {"loaded": loaded, "want": model.predict(x, verbose=0), "records": records,
            "writer": isinstance(writer, tf.summary.SummaryWriter),
            "registered": [keras.saving.get_registered_name(Twice), keras.utils.get_registered_name(Thrice),
                           keras.utils.get_registered_name(Twice), keras.saving.get_registered_object("types>Twice") is Twice],
            "policies": [[one.name, one.compute_dtype, one.variable_dtype, one.get_config()] for one in policies],
            "functional": [isinstance(functional, keras.models.Functional) if hasattr(keras.models, "Functional") else True,
                           isinstance(functional, keras.Model)],
            "history": history,
            "optimizers": [isinstance(keras.optimizers.SGD(), keras.optimizers.Optimizer),
                           isinstance(keras.optimizers.legacy.Adam(), keras.optimizers.legacy.Optimizer),
                           isinstance(keras.optimizers.legacy.Adam(), keras.optimizers.Optimizer),
                           isinstance(tf.compat.v1.train.AdamOptimizer(), tf.compat.v1.train.Optimizer)]}


def functional_history(keras, model, x):
    model.compile("sgd", "mse")
    history = model.fit(x, x[:, :1], epochs=2, verbose=0, shuffle=False)
    return [isinstance(history, keras.callbacks.History), history.epoch, history.history]


@case
def comparisons_that_are_checked(tf):
    check = tf.debugging.assert_greater_equal
    return [outcome(lambda: check(tf.constant(x), tf.constant(y)) is None) for x, y in (
        ([2, 3], [2, 2]), ([2.0, 1.0], [2.0, 1.5]), ([[1.0], [2.0]], 1.0), ([], []))]
