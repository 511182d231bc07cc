# SPDX-License-Identifier: Apache-2.0
"""The Python side of the interop tests: tests/support/interop.h says how both sides work together.

A module tests/interop/<name>.py has a function a request, which takes the scratch folder, and ends in serve().
"""
import os
import struct
import sys
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np


def serve(module):
    """Does what the other side asks, one name of a function a line, until the end of the input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is not an answer
    for line in sys.stdin:
        try:
            getattr(module, line.strip())(sys.argv[1])
            answer = "ok"
        except Exception:
            traceback.print_exc()
            answer = "failed"
        print(answer, file=answers, flush=True)


# --- files of blobs --------------------------------------------------------------------------------------------------

def blob(data):
    return struct.pack("<I", len(data)) + data


def blobs_of(data):
    at, out = 0, []
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        out.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return out


def read_blobs(path):
    with open(path, "rb") as file:
        return blobs_of(file.read())


def write_blobs(path, blobs):
    with open(path, "wb") as file:
        for data in blobs:
            file.write(blob(data))


def read_tensors(path):
    """The tensors that the C side wrote, name to array, in their order."""
    with open(path, "rb") as file:
        return tensors_of(file.read())


def tensors_of(data):
    out, blobs = {}, blobs_of(data)
    for name, what, data in zip(blobs[0::3], blobs[1::3], blobs[2::3]):
        dtype, *dims = what.decode().split()
        if dtype == "string":
            value = np.empty(len(blobs_of(data)), object)
            value[:] = blobs_of(data)
        else:
            value = np.frombuffer(data, dtype)
        assert name.decode() not in out, name
        out[name.decode()] = value.reshape([int(d) for d in dims])
    return out


def same(a, b):
    """Equal bit for bit: shape, type and bytes."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "OS" or b.dtype.kind in "OS":
        return a.shape == b.shape and a.astype(object).tolist() == b.astype(object).tolist()
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def check_tensors(got, want):
    """What the C side found is what there is: dicts of name to array."""
    assert sorted(got) == sorted(want), (sorted(got), sorted(want))
    for name, value in want.items():
        assert same(got[name], value), f"{name}: got {got[name]!r}, expected {value!r}"
