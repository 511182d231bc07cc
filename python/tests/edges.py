# SPDX-License-Identifier: Apache-2.0
"""Where mistakes hide: empty and repeated elements, places out of bounds, infinities, lists in place of tensors. Calls as
in calls.py, and programs as in core.py. golden_edges.json has what TensorFlow 2.15 gave."""
import json
import sys

import numpy as np

import calls
from cases import plain

#: Arguments of each function; under "" whole expressions. T is tf.constant.
TABLE = {
}
CALLS = [f"tf.{name}({arguments})" if name else arguments
         for name, several in TABLE.items() for arguments in several]
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def batches_of_callbacks(tf):
    """The numbers of batches, for callbacks that want to know of their beginnings, their ends, or both."""
    kinds = [["on_train_batch_begin"], ["on_train_batch_end"], ["on_train_batch_begin", "on_train_batch_end"],
             ["on_batch_begin"], ["on_batch_end"], ["on_test_batch_begin"], ["on_test_batch_end"],
             ["on_predict_batch_begin"], ["on_predict_batch_end"]]
    x, y = np.ones([5, 1], np.float32), np.zeros([5, 1], np.float32)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(1,))])
    model.compile("sgd", "mse")
    found = {}
    for methods in kinds:
        seen = found["+".join(methods)] = []
        made = {name: lambda self, batch, logs=None, name=name, seen=seen: seen.append([name, batch]) for name in methods}
        callback = type("Seen", (tf.keras.callbacks.Callback,), made)()
        model.fit(x, y, batch_size=2, epochs=2, verbose=0, callbacks=[callback], validation_data=(x, y))
        model.evaluate(x, y, batch_size=2, verbose=0, callbacks=[callback])
        model.predict(x, batch_size=2, verbose=0, callbacks=[callback])
    return found


def results(tf):
    found = calls.results(tf, CALLS)
    for name, function in PROGRAMS.items():
        tf.keras.backend.reset_uids()
        found[name] = plain(function(tf))
    return found


if __name__ == "__main__":
    import tensorflow
    tensorflow.get_logger().setLevel("ERROR")
    wanted = {call: {"raises": value["raises"][0]} if isinstance(value, dict) and "raises" in value else value
              for call, value in results(tensorflow).items()}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        lines = (f" {json.dumps(call)}: {json.dumps(value)}" for call, value in wanted.items())
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
