# SPDX-License-Identifier: Apache-2.0
"""What exists of TensorFlow's names: the generated table is current, and what is not there says so in every module."""
import functools
import importlib.machinery
import importlib.util
import os

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


@pytest.mark.parametrize("name, reason", [
    ("tf.distribute.TPUStrategy", "no TPUs; tf.distribute.MirroredStrategy"), ("tf.tpu", "no TPUs"),
    ("tf.distribute.cluster_resolver.TPUClusterResolver", "no TPUs"), ("tf.load_op_library", "no custom operations"),
    ("tf.raw_ops", "no custom operations"), ("tf.autograph", "without AutoGraph; tf.where"),
    ("tf.estimator.BoostedTreesClassifier", "DNNLinearCombinedClassifier.*XGBoost"),
    ("tf.estimator.BoostedTreesRegressor", "DNNLinearCombinedRegressor")])
def test_refusals_have_a_reason(name, reason):
    with pytest.raises(AttributeError, match=reason):
        resolve(name)
