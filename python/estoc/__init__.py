# SPDX-License-Identifier: Apache-2.0
"""Estoc: TensorFlow's Estimator on libestoc.

`import estoc` is this package's own API; `import estoc.tf as tf` has TensorFlow's names for it. docs/python.md is the
guide.
"""
from . import checkpoint, cluster, data, errors, feature_column, graph, hooks, initializers, io, layers, losses
from . import metrics, ops, optimizers
from ._lib import lib as _library, text as _text
from ._tensor import DType, as_dtype, bool_, float32, float64, int32, int64, string, uint8
from .checkpoint import latest_checkpoint, list_variables, load_checkpoint, load_variable, save_checkpoint
from .cluster import (ClusterResolver, ClusterSpec, LocalCluster, Server, SimpleClusterResolver, SlurmClusterResolver,
                      TFConfigClusterResolver)
from .config import (CentralStorageStrategy, MirroredStrategy, MultiWorkerMirroredStrategy, OneDeviceStrategy,
                     ParameterServerStrategy, RunConfig, Strategy, Task)
from .data import Dataset, TensorSpec
from .estimator import (BaselineClassifier, BaselineEstimator, BaselineRegressor, DNNEstimator, BestExporter, ClassificationOutput, DNNClassifier,
                        DNNLinearCombinedClassifier, DNNLinearCombinedEstimator, DNNLinearCombinedRegressor, DNNRegressor, Estimator, EstimatorSpec,
                        EvalSpec, Exporter, FinalExporter, InputContext, LatestExporter, LinearClassifier, LinearEstimator,
                        LinearRegressor, ModeKeys, PredictOutput, RaggedNode, RegressionOutput, ServingInput, TrainSpec,
                        VocabInfo, WarmStartSettings, train_and_evaluate)
from . import heads
from .graph import Graph, Node, Session, Variable
from .hooks import Hook, Loop, SavingListener
from .io import RaggedArray
from .predictor import Predictor, SavedModel
from .summary import EventReader, SummaryWriter

__version__ = _text(_library.est_version())
__all__ = [name for name in dir() if not name.startswith("_")]
