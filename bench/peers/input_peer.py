# SPDX-License-Identifier: Apache-2.0
"""What the peers of bench/compare-input share: the options, the rows, and taking turns as bench/support/turns.h says.

A peer gives main() its modes and a function that makes, of a question and a mode, a function for one turn. It prints one JSON
line a turn (amount, secs), then one with the highest resident memory. With --try it instead prints the rate of every mode on
half of the files.
"""
import argparse
import glob
import json
import sys
import time

NUMERIC, CATEGORICAL, BATCH = 13, 26, 512
NAMES = ["label"] + [f"I{k + 1}" for k in range(NUMERIC)] + [f"C{k + 1}" for k in range(CATEGORICAL)]
CENSUS_NUMBERS = {0, 2, 4, 10, 11, 12}
CENSUS_FIELDS = 15
IMAGES, PIXELS, IMAGE_BATCH, IMAGE_BUFFER = 60000, 784, 64, 10000
VARIABLE_BYTES = 64 << 20
TRIES = 3


def is_number(question, field):
    return field in CENSUS_NUMBERS if question == "census" else field <= NUMERIC


def max_rss_mb():
    with open("/proc/self/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmHWM:")).split()[1]) / 1024


def timed(work):
    """work() returns the amount; the turn also has the seconds."""
    start = time.perf_counter()
    amount = work()
    return {"amount": amount, "secs": time.perf_counter() - start}


def main(about, modes, make):
    """modes: question -> modes, the best known first; make(run) -> the function of a turn, which returns a dict. run has
    question, mode, flags (of the mode), folder, threads, variables and files(pattern)."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=list(modes))
    parser.add_argument("--folder", default="build/input", help="what bench/input_files wrote, default %(default)s")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5, help="0: one for every line of standard input")
    parser.add_argument("--variables", type=int, default=16, help="of 64 MiB, in a checkpoint")
    parser.add_argument("--mode", help="default: the best known")
    parser.add_argument("--try", dest="tries", action="store_true", help="all modes, one after the other")
    run = parser.parse_args()

    def files(pattern):
        found = sorted(glob.glob(f"{run.folder}/{pattern}"))
        if not found:
            sys.exit(f"no {run.folder}/{pattern}: run bench/input_files first")
        return found[:(len(found) + 1) // 2] if run.tries else found

    run.files = files
    best = 0.0
    for mode in modes[run.question] if run.tries else [run.mode or modes[run.question][0]]:
        run.mode, run.flags = mode, set(mode.split("+"))
        turn = make(run)
        if run.tries:
            rates = []
            while len(rates) < TRIES and (not rates or max(rates) > best / 3):  # a hopeless one gets a single turn
                done = turn()
                rates.append(done["amount"] / done["secs"])
            best = max(best, max(rates))
            print(json.dumps({"mode": mode, "rate": max(rates)}), flush=True)
            continue
        left = range(run.turns) if run.turns else sys.stdin
        for _ in left:
            print(json.dumps(turn()), flush=True)
    if not run.tries:
        print(json.dumps({"max_rss_mb": round(max_rss_mb(), 1)}), flush=True)
