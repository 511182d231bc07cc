# SPDX-License-Identifier: Apache-2.0
"""What exists of TensorFlow's names: the generated table is current, and what is not there says so in every module."""
import ast
import functools
import importlib.machinery
import importlib.util
import inspect
import os
import re

import pytest

import estoc.tf as tf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What programs written for Estimator, tf.distribute and Keras are made of.
NEEDED = {
    "tf": "GradientTape Session __version__ cast disable_eager_execution expand_dims float32 float64 function greater "
          "int64 reduce_mean reduce_sum reshape square string uint8",
    "tf.compat.v1": "ConfigProto Graph Session device get_variable global_variables_initializer matmul metrics "
                    "placeholder reduce_mean square",
    "tf.compat.v1.train": "GradientDescentOptimizer get_or_create_global_step",
    "tf.config": "list_physical_devices",
    "tf.contrib.estimator": "add_metrics",
    "tf.data": "TextLineDataset",
    "tf.data.Dataset": "as_numpy_iterator batch element_spec from_tensor_slices from_tensors make_one_shot_iterator map "
                       "range repeat shard shuffle take",
    "tf.distribute": "MirroredStrategy Server",
    "tf.distribute.ReduceOp": "SUM",
    "tf.distribute.cluster_resolver": "SimpleClusterResolver TFConfigClusterResolver",
    "tf.distribute.experimental": "MultiWorkerMirroredStrategy ParameterServerStrategy",
    "tf.distribute.experimental.coordinator": "ClusterCoordinator",
    "tf.distribute.experimental.partitioners": "FixedShardsPartitioner",
    "tf.estimator": "DNNClassifier DNNLinearCombinedRegressor Estimator EstimatorSpec EvalSpec LatestExporter RunConfig "
                    "TrainSpec add_metrics train_and_evaluate",
    "tf.estimator.ModeKeys": "EVAL PREDICT TRAIN",
    "tf.estimator.export": "ServingInputReceiver",
    "tf.feature_column": "bucketized_column categorical_column_with_hash_bucket categorical_column_with_vocabulary_list "
                         "crossed_column embedding_column numeric_column",
    "tf.io": "decode_csv",
    "tf.keras": "Model Sequential",
    "tf.keras.datasets.fashion_mnist": "load_data",
    "tf.keras.layers": "Conv2D Dense Embedding Flatten Input MaxPooling2D",
    "tf.keras.layers.experimental.preprocessing": "StringLookup",
    "tf.keras.losses": "BinaryCrossentropy SparseCategoricalCrossentropy",
    "tf.keras.losses.Reduction": "NONE",
    "tf.keras.metrics": "Accuracy Mean",
    "tf.keras.optimizers": "RMSprop SGD",
    "tf.metrics": "root_mean_squared_error",
    "tf.nn": "compute_average_loss",
    "tf.train": "ClusterSpec Server",
}


def resolve(dotted):
    value = tf
    for part in dotted.split(".")[1:]:
        value = getattr(value, part)
    return value


@functools.lru_cache(maxsize=None)
def generator():
    path = os.path.join(ROOT, "scripts", "python-symbols")
    loader = importlib.machinery.SourceFileLoader("python_symbols", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("python_symbols", loader))
    loader.exec_module(module)
    return module


def test_table_is_current():
    made = generator()
    with open(made.PAGE, encoding="utf-8") as file:
        assert file.read() == made.page(), "run scripts/python-symbols"


@pytest.mark.parametrize("where", sorted(NEEDED))
def test_names_of_programs_exist(where):
    for name in NEEDED[where].split():
        resolve(f"{where}.{name}")


def test_every_module_names_the_nearest():
    made = generator()
    made.page()  # imports all modules
    modules = {where: module for where, module in made._absent.symbols().items() if "compat.v2" not in where}
    assert len(modules) > 60
    for where, module in modules.items():
        with pytest.raises(AttributeError) as caught:
            module.no_such_name
        assert str(caught.value).startswith(f"{module.__name__.replace('estoc.', '', 1)} has no 'no_such_name'"), where
    with pytest.raises(AttributeError, match="tf has no 'reduce_meen'.*nearest is tf.reduce_mean$"):
        tf.compat.v2.reduce_meen


def test_everything_public_says_what_it_does():
    made = generator()
    made.page()  # imports all modules
    modules = {**made._absent.symbols(), **{f"estoc.{name}": importlib.import_module(f"estoc.{name}") for name in (
        "data", "errors", "feature_column", "heads", "hooks", "initializers", "io", "layers", "losses", "metrics", "ops",
        "optimizers", "sklearn")}, "estoc": importlib.import_module("estoc")}
    silent = {f"{where}.{name}" for where, module in modules.items() for name, value in vars(module).items()
              if not name.startswith(("_", "c_")) and str(getattr(value, "__module__", "")).startswith("estoc") and
              callable(value) and not (inspect.getdoc(value) or "").strip()}
    assert not silent, sorted(silent)


@pytest.mark.parametrize("name, reason", [
    ("tf.distribute.TPUStrategy", "no TPUs; tf.distribute.MirroredStrategy"), ("tf.tpu", "no TPUs"),
    ("tf.distribute.cluster_resolver.TPUClusterResolver", "no TPUs"), ("tf.load_op_library", "no custom operations"),
    ("tf.raw_ops", "no custom operations"), ("tf.autograph", "without AutoGraph; tf.where"),
    ("tf.estimator.BoostedTreesClassifier", "DNNLinearCombinedClassifier.*XGBoost"),
    ("tf.estimator.BoostedTreesRegressor", "DNNLinearCombinedRegressor"),
    ("tf.compat.v1.RunMetadata", "ProfilerHook"), ("tf.profiler", "ProfilerHook")])
def test_refusals_have_a_reason(name, reason):
    with pytest.raises(AttributeError, match=reason):
        resolve(name)


# --- parameters -------------------------------------------------------------------------------------------------------

#: Parameters that may be left unread, since no value of them changes a result.
HINTS = set("""
name description shared_name
num_parallel_calls num_parallel_reads num_threads reader_num_threads parser_num_threads parallel_iterations deterministic
sloppy sloppy_ordering buffer_size buffer_output_elements prefetch_input_elements max_queue max_queue_size flush_secs
flush_millis workers use_multiprocessing steps_per_execution jit_compile reduce_retracing device_policy execution_mode
experimental_compile experimental_use_pfor experimental_relax_shapes experimental_follow_type_hints experimental_implements
experimental_attributes experimental_autograph_options experimental_trackable
options caching_device use_locking use_resource colocate_gradients_with_ops
gate_gradients aggregation_method merge_devices reduce_to_device bytes_per_string accept_options
read_value stateful stable shift
shape_invariants infer_shape swap_memory optimize fallback_to_while_loop warn tensor_array_name colocate_with_first_write_call fast strict
strip_default_attrs save_debug_info save_graph_def save_traces clear_devices
clear_extraneous_savers op_dict producer_op_list checkpoint_format_version write_version sharded restore_sequentially save_relative_paths write_graph
show_dataflow show_memory cuda_only
""".split())
#: Others, and why.
UNREAD = {
    "logs batch": "of a callback to override",
    "profiler_outdir": "of profiler, which is refused",
    "run_context": "of a hook to override",
    "mask inputs training args named": "of a layer to override, or that has no use for it",
    "x": "of a step to override",
    "dtype verify_shape": "initializers are told the dtype and the shape by the variable",
    "synchronization aggregation collections values": "variables, and names, are the same with any of them",
    "output_classes output_shape": "classes and shapes are known",
    "estimator": "early stopping reads the results of the model that it is a hook of",
    "embeddings_metadata": "of embeddings_freq, which is refused",
    "compression": "of a snapshot, whose file is read by this package alone",
    "verbose": "EarlyStopping and ReduceLROnPlateau always write to the log",
    "stop_grace_period_secs": "of monitored sessions, which wait for no threads",
    "config": "of enable_eager_execution",
    "dynamic": "a call that cannot be traced raises",
    "vocabulary_dtype": "integers are integers",
    "batch_size": "adapt reads all rows at once, and first states are known by their inputs",
    "target_column": "the name of the labels, which have none",
    "archive_format": "shutil finds it out by the name",
    "safe_mode": "files of models name functions and have no code",
    "custom_objects checkpoint_format": "of model_to_estimator, which is given a model, and writes what Estimators write",
    "saver": "the session's variables are written",
    "filename": "of a Saver: save and restore name the file",
    "validate_shape": "assign refuses another shape",
    "scope": "the names of operations of losses",
    "experimental_is_anonymous": "the names of resources, which tables are none of",
    "validate": "that the rows of ragged tensors are checked, which they are",
    "fused renorm_momentum": "how batch normalisation computes; of renorm, which is refused",
}


def unread_parameters(path):
    """(function, parameter) of what no line of a public function reads."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())

    def functions(node, prefix):
        for child in node.body:
            if isinstance(child, ast.ClassDef):
                yield from functions(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef) and (
                    not child.name.startswith("_") or child.name in ("__init__", "__new__", "__call__")):
                yield prefix + child.name, child

    for name, function in functions(tree, ""):
        body = [line for line in function.body if not isinstance(line, (ast.Expr, ast.Pass, ast.Raise)) or isinstance(
            line, ast.Expr) and not isinstance(line.value, ast.Constant)]
        if name.startswith("_") or not body:  # to override, or refused
            continue
        read = {item.id for line in function.body for item in ast.walk(line) if isinstance(item, ast.Name)}
        given = function.args
        for item in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
            if item is not None and item.arg not in read | {"self", "cls"}:
                yield name, item.arg


def test_every_parameter_is_read():
    """An argument that is taken and changes nothing is the worst kind of difference."""
    allowed = HINTS | {word for words in UNREAD for word in words.split()}
    top = os.path.dirname(tf.__file__)
    found = [(os.path.relpath(os.path.join(folder, file), top), *one) for folder, _, files in os.walk(top)
             for file in files if file.endswith(".py") for one in unread_parameters(os.path.join(folder, file))]
    assert not [one for one in found if one[-1] not in allowed]
    assert allowed <= {one[-1] for one in found}, "a word of the tables has no use any more"


# --- tests ------------------------------------------------------------------------------------------------------------

#: Names that no test has, and why.
UNTESTED = {
    "LossFunctionWrapper": "what compile makes of functions; TensorFlow has it as a private name",
}


def names_in_tests():
    """What the other tests take from objects and modules, and the words of their strings, such as keys of tables."""
    found, folder = set(), os.path.dirname(os.path.abspath(__file__))
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".py") or file == os.path.basename(__file__):
            continue
        with open(os.path.join(folder, file), encoding="utf-8") as source:
            tree = ast.parse(source.read())
        texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.alias):
                found.update(node.name.split("."))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
                found.update(re.findall(r"\w+", node.value))
    return found


def test_every_name_is_in_a_test():
    """A name that no test has may do anything. Golden values of names come from scripts/make-golden-python."""
    made = generator()
    made.page()  # imports all modules
    tested = names_in_tests()
    missing = {name: where for where, module in made._absent.symbols().items() if "compat.v2" not in where
               for name in made._absent.public_names(module) if name not in tested}
    assert sorted(f"{where}.{name}" for name, where in missing.items() if name not in UNTESTED) == []
    assert UNTESTED.keys() <= missing.keys(), "there are tests of some names now"


def test_asking_for_what_does_not_exist_costs_nothing(monkeypatch):
    """The nearest name is looked for when the text of the error is read."""
    looked = []
    monkeypatch.setattr(generator()._absent.difflib, "get_close_matches", lambda *given: looked.append(given) or [])
    assert not hasattr(tf.constant(1.0), "indices") and not hasattr(tf, "reduce_meen") and not looked
    with pytest.raises(AttributeError, match="tf has no 'reduce_meen'"):
        tf.reduce_meen
    assert looked
