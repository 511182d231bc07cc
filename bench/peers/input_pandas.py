#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pandas.read_csv on the CSV questions of bench/compare-input: file after file, each into one frame.

Modes: c (the C engine as it is), whole (the C engine without its chunks, low_memory=False), pyarrow (that engine, where
pyarrow can be imported).
"""
import importlib.util

import input_peer

MODES = ["c", "whole"] + (["pyarrow"] if importlib.util.find_spec("pyarrow") else [])


def make(run):
    import pandas as pd

    census = run.question == "census"
    names = [f"f{k}" for k in range(input_peer.CENSUS_FIELDS)] if census else input_peer.NAMES
    dtypes = {n: "float32" if input_peer.is_number(run.question, k) else str for k, n in enumerate(names)}
    paths = run.files("census.csv" if census else "clicks-*.csv")
    extra = {"engine": "pyarrow"} if "pyarrow" in run.flags else {"engine": "c", "low_memory": "whole" not in run.flags}
    if "pyarrow" not in run.flags:
        extra["skipinitialspace"] = census

    def work():
        return sum(len(pd.read_csv(path, header=None, names=names, dtype=dtypes, **extra)) for path in paths)

    return lambda: input_peer.timed(work)


if __name__ == "__main__":
    input_peer.main(__doc__, {"csv": MODES, "census": MODES}, make)
