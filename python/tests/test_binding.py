# SPDX-License-Identifier: Apache-2.0
"""The binding itself: declarations, errors, callbacks that raise, signals, fork, logging, memory."""
import dataclasses
import gc
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import estoc
from estoc import _lib
from estoc._lib import Handle, Keep, ffi, lib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(program, check=True, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=check, **options)


# --- declarations -----------------------------------------------------------------------------------------------------


def recorded():
    with open(os.path.join(ROOT, "scripts", "abi-symbols"), encoding="utf-8") as file:
        return set(re.findall(r"\b(est_\w+)\(", file.read()))


def exported():
    package = os.path.dirname(estoc.__file__)
    library = next(name for name in os.listdir(package) if name.startswith("libestoc.so"))
    output = subprocess.run(["nm", "-D", "--defined-only", os.path.join(package, library)], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    return {line.split()[2] for line in output.splitlines()}


def test_every_exported_function_is_declared():
    declared = {name for name in dir(estoc._native.lib) if name.startswith("est_")}
    assert declared == exported()
    assert not recorded() - declared


def test_struct_sizes_are_those_of_the_macros():
    with open(os.path.join(ROOT, "include", "estoc", "options.h"), encoding="utf-8") as file:
        kinds = re.findall(r"X\((est_\w+), EST_", file.read())
    assert len(kinds) > 70
    for kind in kinds:
        assert Keep().options(kind).struct_size == (getattr(lib, f"EST_STRUCT_{kind}") << 16) | ffi.sizeof(kind)


def test_memory_of_arguments_has_an_owner():
    """Keep().i64s(...) as an argument would point to memory that is free already."""
    for folder, _, names in os.walk(os.path.join(ROOT, "python", "estoc")):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    assert not re.search(r"Keep\(\)\.(?!string\()", file.read()), name


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_failure_is_the_class_of_its_code_with_the_text_of_the_library(tmp_path):
    with pytest.raises(estoc.errors.NotFoundError) as caught:
        estoc.load_checkpoint(tmp_path / "none")
    assert str(tmp_path / "none") in caught.value.message
    assert caught.value.error_code == estoc.errors.NOT_FOUND
    assert re.fullmatch(r"\w+\.c:\d+", caught.value.where)


def test_every_code_has_a_class():
    for code in range(1, 17):
        cls = estoc.errors.exception_type_from_error_code(code)
        assert estoc.errors.error_code_from_exception_type(cls) == code
        word = ffi.string(lib.est_status_name(code)).decode().replace("_", "").lower()
        assert cls.__name__.lower() == word + "error"


def test_a_wrong_graph_names_the_line_of_the_program():
    graph = estoc.Graph()
    x = graph.placeholder("x", estoc.float32, [2, 3])
    with pytest.raises(ValueError, match=r"test_binding\.py:\d+"):
        x + graph.placeholder("y", estoc.float32, [2, 4])


def test_null_bytes_are_refused():
    for call in (lambda: estoc.load_checkpoint("a\0b"), lambda: estoc.Graph().placeholder("a\0b", estoc.float32),
                 lambda: estoc.Dataset.from_tensor_slices({"a\0b": [1.0]}).element_spec):
        with pytest.raises(ValueError, match="has a null byte"):
            call()


# --- callbacks that raise: see test_callbacks.py ----------------------------------------------------------------------


class Mistake(Exception):
    pass


def mistake(*_, **__):
    raise Mistake("from the callback")


SPEC = estoc.TensorSpec([], estoc.int64)


def test_a_status_raised_in_a_callback_keeps_its_class(dataset, model_fn, tmp_path):
    def fail(loop):
        raise estoc.errors.DataLossError("a torn page")

    hook = estoc.Hook()
    hook.after_run = fail
    with pytest.raises(estoc.errors.DataLossError, match="^a torn page$"):
        estoc.Estimator(model_fn, tmp_path).train(lambda: dataset.batch(8), steps=2, hooks=[hook])


class Silent(Exception):
    def __str__(self):
        raise LookupError("no text")


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


@pytest.mark.parametrize("exception", [Silent(), Frozen(3), ValueError("a\0b"), ValueError("%s%n"), SystemExit(3)])
def test_exceptions_of_every_make_come_out(exception):
    def fail(x):
        raise exception

    for _ in range(2):
        with pytest.raises(type(exception)) as caught:
            list(estoc.Dataset.range(3).map(fail, element_spec=SPEC))
        assert caught.value is exception


def test_stop_iteration_of_a_function_does_not_end_a_dataset():
    def stop(x):
        raise StopIteration

    with pytest.raises(RuntimeError):
        list(estoc.Dataset.range(3).map(stop, element_spec=SPEC))


# --- the process ------------------------------------------------------------------------------------------------------

TRAIN = """
    import numpy as np, os, signal, sys, threading, estoc
    rows = estoc.Dataset.from_tensor_slices(({"x": np.ones([8, 1], np.float32)}, np.ones([8, 1], np.float32)))
    estimator = estoc.LinearRegressor([estoc.feature_column.numeric_column("x")], sys.argv[1])
    class Send(estoc.Hook):
        def after_run(self, loop):
            if loop.runs == 3:
                os.kill(os.getpid(), SIGNAL)
    try:
        estimator.train(lambda: rows.repeat().batch(4), steps=10**9, hooks=[Send()])
    except KeyboardInterrupt:
        print("KeyboardInterrupt at", estimator.get_variable_value("global_step"))
"""


def signalled(number, folder):
    program = textwrap.dedent(TRAIN).replace("SIGNAL", f"signal.{number}")
    return subprocess.run([sys.executable, "-c", program, str(folder)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60)


def test_ctrl_c_saves_and_raises_keyboard_interrupt(tmp_path):
    done = signalled("SIGINT", tmp_path)
    assert done.returncode == 0 and "KeyboardInterrupt at 3" in done.stdout, done.stdout


def test_sigterm_saves_and_exits_with_75(tmp_path):
    done = signalled("SIGTERM", tmp_path)
    assert done.returncode == 75, done.stdout
    assert int(estoc.load_checkpoint(tmp_path)["global_step"]) == 3


def test_ctrl_c_in_a_loop_over_a_dataset():
    done = run("""
        import os, signal, estoc
        try:
            for x in estoc.Dataset.range(10**9):
                if x == 3:
                    os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("stopped at", x)
    """)
    assert done.stdout.startswith("stopped at"), done.stdout


@pytest.mark.parametrize("where", ["gc", "log"])
def test_ctrl_c_in_functions_of_the_package_is_not_lost(where):
    """Where Python runs the handler of the signal in a function that the collector or C calls."""
    result = run(f"""
        import gc, logging, signal, estoc
        from estoc import _lib

        class Interrupted(list):
            def __bool__(self):
                signal.raise_signal(signal.SIGINT)
                return False

        class Handler(logging.Handler):
            def emit(self, record):
                bool(Interrupted())

        try:
            if {where!r} == "gc":
                _lib._dying.found = Interrupted()
                gc.collect()
            else:
                logging.basicConfig(level=logging.INFO, handlers=[Handler()])
                with estoc.LocalCluster(ps=1, workers=0):
                    pass
            for _ in range(10**9):
                pass
        except KeyboardInterrupt:
            _lib._dying.found = []
            logging.getLogger().handlers.clear()
            print("interrupted")
    """)
    assert result.stdout == "interrupted\n"


def test_fork_after_use_is_refused():
    done = run("""
        import os, estoc
        rows = iter(estoc.Dataset.range(10).prefetch(2))
        next(rows)
        child = os.fork()
        if child == 0:
            try:
                next(rows)
            except RuntimeError as error:
                print(error, flush=True)
            del rows
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), next(rows))
    """)
    assert "spawn" in done.stdout and done.stdout.endswith("7 1\n"), done.stdout


def test_fork_before_use_is_fine():
    done = run("""
        import os, estoc
        child = os.fork()
        if child == 0:
            print(sum(int(x) for x in estoc.Dataset.range(5)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """)
    assert done.stdout == "10\n"


def test_exit_with_threads_that_call_python():
    done = run("""
        import estoc
        def endless():
            while True:
                yield 1
        rows = iter(estoc.Dataset.from_generator(endless, estoc.TensorSpec([], estoc.int64)).prefetch(8))
        print(next(rows))
    """)
    assert done.stdout == "1\n"


def test_exit_with_threads_that_read_datasets():
    """Threads that go with the process are in the middle of calls, whose objects nobody may free."""
    result = run("""
        import threading, estoc, numpy as np
        dataset = estoc.Dataset.from_tensor_slices(np.arange(1000.0)).map(lambda x: x + 1).repeat().batch(3)
        started = [threading.Event() for _ in range(3)]
        def read(event):
            for _ in dataset:
                event.set()
        for event in started:
            threading.Thread(target=read, args=(event,), daemon=True).start()
        for event in started:
            event.wait()
        print("done")
    """)
    assert result.stdout == "done\n"


@pytest.mark.parametrize("use", [next, lambda iterator: iterator.close()])
def test_an_iterator_is_in_one_call_at_a_time(use):
    made = []

    def apply(x):
        for iterator in made:
            use(iterator)
        return x

    made.append(iter(estoc.Dataset.from_tensor_slices(np.arange(3.0)).map(apply)))
    with pytest.raises(RuntimeError, match="in use"):
        next(made[0])


def test_log_lines_go_to_logging(caplog, dataset, model_fn, tmp_path, monkeypatch):
    monkeypatch.setattr(_lib, "logger", logging.getLogger("estoc"))  # a test may have imported estoc.tf
    with caplog.at_level(logging.INFO, "estoc"):
        estoc.Estimator(model_fn, tmp_path).train(lambda: dataset.batch(8), steps=1)
    lines = [record.getMessage() for record in caplog.records if record.name == "estoc"]
    assert any("Saving checkpoints" in line for line in lines), lines
    assert all("python exception" not in line for line in lines)


def test_import_needs_only_numpy():
    """What else is installed costs nothing at import: pandas alone takes longer than everything here."""
    done = run("""
        import sys, numpy, cffi
        before = set(sys.modules)
        import estoc.tf
        new = {name.split(".")[0] for name in set(sys.modules) - before}
        print(sorted(new - set(sys.stdlib_module_names)))
    """)
    assert done.stdout.strip() == "['_cffi_backend', 'estoc']", done.stdout


# --- memory -----------------------------------------------------------------------------------------------------------


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def steady(loop, n):
    """Memory after a first part must not be below that after the rest by more than noise."""
    loop(n // 5)
    gc.collect()
    before = resident()
    loop(n - n // 5)
    gc.collect()
    grown = resident() - before
    if "ESTOC_FIND_LEAKS" not in os.environ:  # AddressSanitizer keeps what is freed for a while
        assert grown < 2 * 2**20, f"{grown} bytes more after {n} iterations"


def test_a_collection_frees_children_before_their_parents(monkeypatch):
    freed, destroy = [], _lib._dying.destroy
    monkeypatch.setattr(_lib._dying, "destroy", lambda free, dead: (freed.append(free), destroy(free, dead)))
    gc.collect()
    freed.clear()
    graph = estoc.Graph()
    cycle = [graph, estoc.Session(graph)]
    cycle.append(cycle)
    del graph, cycle
    gc.collect()
    assert [free for free in freed if free in ("est_session_free", "est_graph_free")] == ["est_session_free",
                                                                                        "est_graph_free"]


def test_cycles_that_live_until_the_interpreter_ends():
    """The last collection of the interpreter finds them: classes are cycles, and keep what is stored in them."""
    assert run("""
        import estoc
        class Kept:
            graph = estoc.Graph()
            session = estoc.Session(graph)
            array = estoc.Dataset.from_tensor_slices([1.0, 2.0])
        Kept.own = Kept
        print("end")
    """).stdout == "end\n"


def test_nothing_grows():
    """The short form of growth.py, in a process whose memory nothing else uses."""
    done = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "growth.py"), "3000"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout


def test_iterators_and_graphs_do_not_grow():
    array = np.zeros(100000, np.float32)

    def loop(n):
        for _ in range(n):
            next(iter(estoc.Dataset.from_tensor_slices(array).batch(10)))
            estoc.ops.add(array[:10], 1)

    gc.collect()
    lent = len(_lib._lent)
    steady(loop, 1500)
    assert len(_lib._lent) == lent


def test_arrays_are_shared_where_the_library_only_reads():
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    for dataset in (estoc.Dataset.from_tensor_slices(rows), estoc.Dataset.from_tensors(rows)):
        assert np.shares_memory(next(iter(dataset)), rows)
    assert not np.shares_memory(next(iter(estoc.Dataset.from_tensors(rows, copy=True))), rows)
    first = next(iter(estoc.Dataset.from_tensor_slices(rows).batch(2)))
    assert not first.flags.writeable and first.base is not None  # the element's own memory


@pytest.mark.parametrize("way", ["estoc.Session", "tf.function", "tf.compat.v1.Session", "estoc.Predictor"])
def test_feeds_are_not_copied(way, tmp_path):
    size = 64 * 2**20
    found = run(f"""
        import resource, numpy as np, estoc, estoc.tf as tf
        array, way = np.ones({size // 4}, np.float32), {way!r}
        if way == "estoc.Session":
            graph = estoc.Graph()
            x = graph.placeholder("x", estoc.float32, [None])
            session, y = estoc.Session(graph), estoc.ops.reduce_max(x)
            call = lambda value: session.run(y, {{x: value}})
        elif way == "tf.function":
            call = tf.function(lambda x: tf.reduce_max(x), input_signature=[tf.TensorSpec([None], tf.float32)])
        elif way == "tf.compat.v1.Session":
            with tf.Graph().as_default():
                x = tf.compat.v1.placeholder(tf.float32, [None])
                session, y = tf.compat.v1.Session(), tf.reduce_max(x)
            call = lambda value: session.run(y, {{x: value}})
        else:
            module = tf.Module()
            module.max = tf.function(lambda x: {{"y": tf.reduce_max(x)}}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
            tf.saved_model.save(module, {str(tmp_path)!r}, signatures=module.max)
            predictor = estoc.Predictor({str(tmp_path)!r})
            call = lambda value: predictor({{"x": value}})["y"]
        call(array[:10])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert float(call(array)) == 1
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """).stdout
    assert int(found) * 1024 < size / 2, found


def test_an_array_may_change_after_the_run_that_it_was_fed_to():
    graph = estoc.Graph()
    v, x = graph.variable("v", [3], initializer="zeros"), graph.placeholder("x", estoc.float32, [3])
    with estoc.Session(graph) as session:
        session.init()
        fed = np.float32([1, 2, 3])
        found = session.run([x, estoc.ops.identity(x), estoc.ops.reshape(x, [3, 1]), v.assign(x)], {x: fed})
        fed[:] = 9
        assert all(value.ravel().tolist() == [1, 2, 3] for value in found[:3]) and session.read("v").tolist() == [1, 2, 3]
        session.write("v", fed)
        fed[:] = 8
        assert session.read("v").tolist() == [9, 9, 9]


def test_arrays_go_with_their_dataset():
    array = np.zeros(1000, np.float32)
    seen = weakref.ref(array)
    rows = estoc.Dataset.from_tensor_slices(array).batch(10)
    assert len(list(rows)) == 100
    del array, rows
    gc.collect()
    assert seen() is None


def test_calls_of_an_estimator_keep_nothing(dataset, model_fn, tmp_path):
    def with_hooks(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        spec.training_hooks = spec.evaluation_hooks = spec.prediction_hooks = [estoc.Hook()]
        return spec

    estimator = estoc.Estimator(with_hooks, tmp_path)

    def calls():
        estimator.train(lambda: dataset.map(lambda x, y: (x, y)).batch(8), steps=1)
        estimator.evaluate(lambda: dataset.batch(8), hooks=[estoc.Hook()])
        next(estimator.predict(lambda: dataset.batch(8)))
        estimator.add_metrics(lambda labels: {}).evaluate(lambda: dataset.batch(8))
        gc.collect()
        return len(Handle._objects)

    assert calls() == calls()


def test_what_an_evaluation_needs_goes_with_it(model_fn, tmp_path):
    """An evaluator evaluates for days: inputs and graphs of what is over are not kept until the call returns."""
    inputs, graphs, alive = [], [], []

    def model(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        graphs.append(weakref.ref(spec.loss.graph))
        return spec

    def rows(n):
        array = np.full((n, 3), len(inputs), np.float32)
        inputs.append(weakref.ref(array))
        dataset = estoc.Dataset.from_tensor_slices(({"x": array}, np.zeros(n, np.int64)))
        return dataset.map(lambda x, y: (x, y)).batch(8)

    def evaluated():
        gc.collect()
        alive.append((sum(ref() is not None for ref in inputs), sum(ref() is not None for ref in graphs)))
        return rows(16)

    estimator = estoc.Estimator(model, tmp_path, config=estoc.RunConfig(save_checkpoints_steps=1))
    estoc.train_and_evaluate(estimator, estoc.TrainSpec(lambda: rows(64), max_steps=6),
                             estoc.EvalSpec(evaluated, steps=None, throttle_secs=0))
    assert len(alive) > 5 and set(alive[1:]) == {(1, 1)}  # those of the training


def test_nodes_of_a_model_that_is_over_are_refused(dataset, model_fn, tmp_path):
    """The evaluation's graph, which is checked before the training, is gone when the training begins."""
    kept = []

    def model(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        kept.append(spec.loss)
        return spec

    class Later(estoc.Hook):
        def begin(self, loop):
            kept[-1] + 1.0

    estimator = estoc.Estimator(model, tmp_path)
    with pytest.raises(RuntimeError, match="exists only during the call"):
        estoc.train_and_evaluate(estimator, estoc.TrainSpec(lambda: dataset.batch(8), 2, hooks=[Later()]),
                                 estoc.EvalSpec(lambda: dataset.batch(8), None))


def test_datasets_of_interleave_do_not_grow():
    rows = estoc.Dataset.range(10**6).interleave(lambda n: estoc.Dataset.range(2).map(lambda x: x, SPEC))
    iterator = iter(rows)
    for _ in range(20):
        next(iterator)
    objects = len(Handle._objects)
    for _ in range(200):
        next(iterator)
    gc.collect()
    assert len(Handle._objects) <= objects + 4


def test_failures_do_not_grow():
    def loop(n):
        for _ in range(n):
            with pytest.raises(Mistake):
                list(estoc.Dataset.range(1).filter(mistake))

    loop(200)
    objects = len(Handle._objects)
    loop(200)
    gc.collect()
    assert len(Handle._objects) <= objects
    assert len(_lib._raised) <= _lib._RAISED_MAX


def test_sigint_handler_is_pythons_again(dataset, model_fn, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    estoc.Estimator(model_fn, tmp_path).train(lambda: dataset.batch(8), steps=1)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):
            pass
