# SPDX-License-Identifier: Apache-2.0
"""Cases as those of cases.py, of gradients, layers and files of Keras. Run with TensorFlow 2.15 it writes
golden_keras.json (scripts/make-golden-python)."""
import json
import os
import sys

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def write(tf, path):
    from cases import plain
    lines = []
    for name, function in CASES.items():
        tf.keras.backend.reset_uids()
        lines.append(f" {json.dumps(name)}: {json.dumps(plain(function(tf)))}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras_cases
    import tensorflow

    tensorflow.get_logger().setLevel("ERROR")
    keras_cases.write(tensorflow, sys.argv[1])
else:
    import cases_gradients  # noqa: F401 - more cases
    import cases_images  # noqa: F401 - more cases
    import cases_saving  # noqa: F401 - more cases
    import cases_states  # noqa: F401 - more cases
    import cases_zeros  # noqa: F401 - more cases
