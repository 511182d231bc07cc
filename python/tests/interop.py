# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2.15 and estoc.tf side by side: every case of cases.py, operations.py and programs.py runs in both, each in
a process of its own, and the results are compared value by value; graphs and checkpoints that one has written are read
by the other. `make interop` calls it.

interop.py TENSORFLOW_PYTHON [CASE...]      the interpreter of scripts/tensorflow-env; cases whose names contain a word
"""
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# These sum over two devices. The sums of a new MirroredStrategy have the numbers that those of one before had, and
# TensorFlow refuses another shape under the same number: it runs each of these in a process of its own.
ALONE = ("regularizers_in_replicas", "types_of_strategies")


def all_cases():
    import cases
    import keras_cases
    import operations
    import programs
    found = {**cases.CASES, **operations.CASES, **keras_cases.CASES}
    found.update({f"v1.{program.__name__}": lambda tf, run=program: programs.as_json(run(tf))
                  for program in programs.PROGRAMS})
    return found


def is_wanted(name, words):
    """Whether a word is in the name, or the name itself is given as "=name"."""
    return not words or any(word == f"={name}" or word in name for word in words)


def result_alone(module, name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result")
        subprocess.run([sys.executable, __file__, "--side", module, path, f"={name}"], check=True)
        with open(path, encoding="utf-8") as file:
            return json.load(file)[name]


def run_side(module, path, words):
    """Writes what the cases give with that module as tf; a case that raises gives its traceback's last line."""
    import cases
    tf = importlib.import_module(module)
    if module == "tensorflow":
        tf.get_logger().setLevel("ERROR")
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                                   [tf.config.LogicalDeviceConfiguration()] * 2)
    results = {}
    for name, case in all_cases().items():
        if is_wanted(name, words):
            tf.keras.backend.reset_uids()  # a case has names of its own, whatever ran before
            try:
                alone = module == "tensorflow" and name in ALONE and words != [f"={name}"]
                results[name] = result_alone(module, name) if alone else cases.plain(case(tf))
            except Exception as exception:
                results[name] = f"{module} raised {type(exception).__name__}: {exception}"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file)


def exchange_graphs(theirs):
    """Graphs that one library has written with a checkpoint are restored and trained on by the other."""
    import cases
    sides, found = {"tensorflow": theirs, "estoc.tf": sys.executable}, []

    def run(step, module, folder):
        done = subprocess.run([sides[module], os.path.join(HERE, "meta_graphs.py"), step, module, folder], check=True,
                              stdout=subprocess.PIPE, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        return json.loads(done.stdout)

    for writer, reader in (("tensorflow", "estoc.tf"), ("estoc.tf", "tensorflow")):
        with tempfile.TemporaryDirectory() as folder:
            wrote, read = run("write", writer, folder), run("read", reader, folder)
        for kind, want in wrote.items():
            cases.differences({key: read[kind][key] for key in want}, want, f"{writer} to {reader}: {kind}", found)
    return found


def main():
    if sys.argv[1] == "--side":
        return run_side(sys.argv[2], sys.argv[3], sys.argv[4:])
    import cases
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        sides, paths = [], []
        for python, module in ((sys.argv[1], "tensorflow"), (sys.executable, "estoc.tf")):
            paths.append(os.path.join(folder, module))
            sides.append(subprocess.Popen([python, __file__, "--side", module, paths[-1], *sys.argv[2:]], cwd=folder,
                                          env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}))
        if any([side.wait() for side in sides]):
            sys.exit("interop: a side failed, see above")
        theirs, ours = ([json.load(open(path, encoding="utf-8")) for path in paths])
    found = []
    for name, want in theirs.items():
        if isinstance(want, str) and want.startswith("tensorflow raised"):
            found.append(f"{name}: {want}")
        cases.differences(ours[name], want, name, found)
    if not sys.argv[2:]:
        found += exchange_graphs(sys.argv[1])
    for line in found:
        print(line if len(line) < 1000 else line[:1000] + " ...")
    if not theirs or found:
        sys.exit(f"interop: {len(found)} differences in {len(theirs)} cases")
    print(f"interop: {len(theirs)} cases of estoc.tf, {sum(name.startswith('tf.') for name in theirs)} of them single "
          f"symbols, are TensorFlow's ({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
