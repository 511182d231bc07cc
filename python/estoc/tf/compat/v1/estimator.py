# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.estimator: canned estimators as they were in TensorFlow 1, whose losses are sums over a batch and whose
optimizers are those of tf.compat.v1.train. All other names are those of tf.estimator."""
from __future__ import annotations

import inspect as _inspect
from typing import Any as _Any

from ... import estimator as _estimator
from ..._absent import module_getattr as _module_getattr
from ..._absent import public_names as _public_names
from ._partitioners import whole as _whole
from .losses import _NAMES as _REDUCTIONS
from .losses import Reduction as _Reduction


def _of_1(cls: type) -> type:
    """The estimator with the arguments of TensorFlow 1: its reduction, and a partitioner before the config."""
    parameters = dict(_inspect.signature(cls).parameters)
    sums = "loss_reduction" in parameters
    partitioner = "input_layer_partitioner" if "DNN" in cls.__name__ else "partitioner"
    if sums:
        parameters["loss_reduction"] = parameters["loss_reduction"].replace(default=_Reduction.SUM)
    if not cls.__name__.startswith("Baseline"):
        config = list(parameters).index("config")
        added = _inspect.Parameter(partitioner, _inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        items = list(parameters.items())
        parameters = dict(items[:config] + [(partitioner, added)] + items[config:])
    signature = _inspect.Signature(list(parameters.values()))

    def __init__(self: _Any, *arguments: _Any, **named: _Any) -> None:
        given = signature.bind(*arguments, **named).arguments
        _whole(given.pop(partitioner, None), partitioner)
        if sums:
            reduction = given.get("loss_reduction", _Reduction.SUM)
            given["loss_reduction"] = _REDUCTIONS.get(reduction, reduction)
        cls.__init__(self, **given)

    __init__.__signature__ = signature
    return type(cls.__name__, (cls,), {"__init__": __init__, "__doc__": cls.__doc__, "__module__": __name__, "_v1": True})


BaselineClassifier = _of_1(_estimator.BaselineClassifier)
BaselineEstimator = _of_1(_estimator.BaselineEstimator)
BaselineRegressor = _of_1(_estimator.BaselineRegressor)
DNNClassifier = _of_1(_estimator.DNNClassifier)
DNNEstimator = _of_1(_estimator.DNNEstimator)
DNNLinearCombinedClassifier = _of_1(_estimator.DNNLinearCombinedClassifier)
DNNLinearCombinedEstimator = _of_1(_estimator.DNNLinearCombinedEstimator)
DNNLinearCombinedRegressor = _of_1(_estimator.DNNLinearCombinedRegressor)
DNNRegressor = _of_1(_estimator.DNNRegressor)
LinearClassifier = _of_1(_estimator.LinearClassifier)
LinearEstimator = _of_1(_estimator.LinearEstimator)
LinearRegressor = _of_1(_estimator.LinearRegressor)

for _name in _public_names(_estimator):
    globals().setdefault(_name, getattr(_estimator, _name))
__getattr__ = _module_getattr(__name__)
