# SPDX-License-Identifier: Apache-2.0
"""tf.config and the devices that compute, with the kernels of the GPU on this machine's CPU, in processes of their own: the
plug-in is opened once."""
import os
import re
import subprocess
import sys

import pytest

import estoc
import estoc.tf as tf

_FOLDER = os.path.dirname(os.path.abspath(estoc.__file__))
_LIBRARY = next(os.path.realpath(os.path.join(_FOLDER, name)) for name in os.listdir(_FOLDER)
                if name.startswith("libestoc.so"))
PLUGIN = os.path.join(os.path.dirname(_LIBRARY), "libestoc_cuda_on_cpu.so")
needs_plugin = pytest.mark.skipif(not os.path.exists(PLUGIN), reason="libestoc_cuda_on_cpu.so is not built")

BEGIN = """
import logging, sys
import numpy as np
import estoc.tf as tf
logging.basicConfig(level=logging.INFO, format="LOG %(message)s", stream=sys.stdout)
x, y = np.ones([8, 3], np.float32), np.zeros([8, 1], np.float32)
gpus = tf.config.list_physical_devices("GPU")
v1 = tf.compat.v1
"""
FIT = """
model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(3,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, verbose=0)
tf.function(lambda a: tf.matmul(a, tf.transpose(a)))(tf.constant(x))
"""
TRAIN = """
def model_fn(features, labels, mode):
    loss = v1.losses.mean_squared_error(labels, v1.layers.dense(features["x"], 1))
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

def train(**config):
    config = tf.estimator.RunConfig(session_config=v1.ConfigProto(**config))
    tf.estimator.Estimator(model_fn, config=config).train(lambda: tf.data.Dataset.from_tensors(({"x": x}, y)), steps=1)
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", BEGIN + program], stdout=subprocess.PIPE, text=True, timeout=120,
                          env={**os.environ, "ESTOC_CUDA_PLUGIN": PLUGIN, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stdout
    return done.stdout


def devices_of(output, operation):
    """Where operations of a kind ran."""
    return set(re.findall(rf"\({operation}\): \S*/device:(\S+)", output))


@needs_plugin
def test_what_tf_config_lists():
    output = run("""
print(tf.config.list_physical_devices())
print(gpus, tf.config.list_logical_devices("GPU"), tf.config.get_visible_devices("GPU"))
print(tf.test.is_gpu_available(), tf.test.is_gpu_available(min_cuda_compute_capability=(99, 0)), tf.test.gpu_device_name())
print(tf.config.experimental.get_device_details(gpus[0])["compute_capability"])
tf.config.experimental.set_memory_growth(gpus[0], True)
print(tf.config.experimental.get_memory_growth(gpus[0]), tf.config.get_logical_device_configuration(gpus[0]))
print(tf.distribute.MirroredStrategy(["/gpu:0"]).num_replicas_in_sync)
tf.config.set_visible_devices([], "GPU")
print(tf.config.list_logical_devices("GPU"), tf.test.is_gpu_available())
""")
    gpu = "PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')"
    assert [line for line in output.splitlines() if not line.startswith("LOG")] == [
        f"[PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU'), {gpu}]",
        f"[{gpu}] [LogicalDevice(name='/device:GPU:0', device_type='GPU')] [{gpu}]",
        "True False /device:GPU:0", "(9, 0)", "True None", "1", "[] False"]


@needs_plugin
@pytest.mark.parametrize("said, expected", [("", {"GPU:0"}), ("tf.config.set_visible_devices([], 'GPU')\n", {"CPU:0"})])
def test_fit_and_functions_use_visible_gpus(said, expected):
    output = run(said + "tf.debugging.set_log_device_placement(True)" + FIT)
    assert devices_of(output, "MatMul") == devices_of(output, "ResourceApplyKerasMomentum|ResourceApplyGradientDescent") == expected


@needs_plugin
def test_settings_of_sessions_that_exist():
    output = run(FIT + """
tf.config.set_visible_devices(gpus, "GPU")  # as it is
for change in (lambda: tf.config.set_visible_devices([], "GPU"),
               lambda: tf.config.experimental.enable_tensor_float_32_execution(False),
               lambda: tf.config.set_logical_device_configuration(
                   gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=64)])):
    try:
        change()
    except RuntimeError as error:
        print(error)
""")
    assert output.count("cannot be modified") == 3
    assert "Visible devices cannot be modified after being initialized" in output


@needs_plugin
def test_a_memory_limit():
    output = run("""
tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=1)])
try:
    tf.function(lambda: tf.Variable(tf.zeros([1000, 1000])))()
    print("it fits")
except tf.errors.ResourceExhaustedError as error:
    print(error)
""")
    assert "no memory left on the device GPU:0" in output


@needs_plugin
@pytest.mark.parametrize("config, expected", [
    ("", {"GPU:0"}), ("device_count={'GPU': 0}, ", {"CPU:0"}),
    ("gpu_options=v1.GPUOptions(visible_device_list='0', per_process_gpu_memory_fraction=0.5), ", {"GPU:0"})])
def test_the_session_config_of_an_estimator(config, expected):
    output = run(TRAIN + f"train({config}allow_soft_placement=True, log_device_placement=True)")
    assert devices_of(output, "MatMul") == devices_of(output, "ResourceApplyGradientDescent") == expected


@needs_plugin
def test_the_config_of_a_session():
    output = run("""
def matmul(**config):
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(log_device_placement=True, **config)) as session:
        with tf.device("/gpu:0"):
            product = tf.matmul(v1.placeholder(tf.float32, [2, 2]), tf.ones([2, 2]), name="a")
        session.run(product, {product.op.inputs[0]: np.ones([2, 2])})

matmul()
matmul(device_count={"GPU": 0}, allow_soft_placement=True)
try:
    matmul(device_count={"GPU": 0})
except tf.errors.InvalidArgumentError as error:
    print("ERROR", error)
""")
    assert re.findall(r"\(MatMul\): \S*/device:(\S+)", output) == ["GPU:0", "CPU:0"] and "ERROR" in output


@needs_plugin
def test_operations_compute_at_once_on_the_cpu_unless_pinned():
    output = run("""
tf.debugging.set_log_device_placement(True)
a = tf.constant(x)
b = tf.matmul(a, a, transpose_b=True)
print("PINNED")
with tf.device("/GPU:0"):
    c = tf.matmul(a, a, transpose_b=True)
    v = tf.Variable([1.0, 2.0])
    with tf.device("/CPU:0"):
        w = tf.Variable([1.0])
print(v.device, w.device, (v + 1.0).numpy(), c.device, np.array_equal(b, c))
""")
    before, after = output.split("PINNED\n")
    assert not devices_of(before, "BatchMatMulV2|MatMul") & {"GPU:0"} and devices_of(after, "MatMul") == {"GPU:0"}
    here = "/job:localhost/replica:0/task:0/device:"
    assert f"{here}GPU:0 {here}CPU:0 [2. 3.] {here}CPU:0 True" in after


@needs_plugin
def test_a_hidden_gpu_cannot_be_named():
    assert "hidden by tf.config.set_visible_devices" in run("""
tf.config.set_visible_devices([], "GPU")
try:
    with tf.device("/GPU:0"):
        pass
except ValueError as error:
    print(error)
""")


def test_wrong_devices():
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:99", "GPU")
    cpu = tf.config.list_physical_devices("CPU")[0]
    for wrong, text in (
            (lambda: tf.config.set_visible_devices([gpu], "GPU"), "Unrecognized device"),
            (lambda: tf.config.set_visible_devices([cpu], "GPU"), "Unrecognized device"),
            (lambda: tf.config.set_visible_devices([], "CPU"), "cannot be hidden"),
            (lambda: tf.config.set_logical_device_configuration(gpu, []), "Unrecognized device"),
            (lambda: tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1)]), "memory limit on CPU"),
            (lambda: tf.config.experimental.set_memory_growth(cpu, True), "memory growth on non-GPU")):
        with pytest.raises(ValueError, match=text):
            wrong()
    with pytest.raises(ValueError, match="is no device"), tf.device("/xpu:0"):
        pass


def test_a_device_that_is_missing_is_an_error_without_soft_placement():
    def compute():
        with tf.device("/GPU:99"):
            return (tf.constant(1.0) + 1.0).numpy()

    assert compute() == 2.0
    tf.config.set_soft_device_placement(False)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not satisfy device specification '/GPU:99'"):
            compute()  # which has run before
        with tf.device("/CPU:0"):
            assert (tf.constant(1.0) + 1.0).numpy() == 2.0
    finally:
        tf.config.set_soft_device_placement(True)


def test_a_device_outside_of_graphs():
    for device in ("cpu", "/CPU:0", "/device:GPU:0", None):
        with tf.device(device):
            assert (tf.constant(1.0) + 1.0).numpy() == 2.0
