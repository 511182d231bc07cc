"""What both peers share: the reference models' numbers and inputs, the meter, the options, and a process for each run.

A peer program calls main(). The parent reads the options and starts itself once for every (model, threads, mode), so that no run
inherits another's heap, thread pool or environment; the child trains, measures and prints one JSON line. The parent imports
nothing heavy: the child's start-to-first-step time counts from the moment before the parent starts it.

A run of N threads is bound to N processors. Without that, TensorFlow with one intra-op and one inter-op thread keeps 1.6 of them
busy. "cores_used" in the output is what the windows really took, "cores_others_used" what the rest of the machine took beside
them: a run where that is not close to zero is not to be trusted, two OpenMP threads least of all.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

MODELS = ("cnn", "mlp", "wide_deep")
BATCH = {"cnn": 64, "mlp": 128, "wide_deep": 512}
CNN_FILTERS, CNN_HIDDEN, CLASSES = 32, [64], 10
MLP_HIDDEN = [1024, 512, 256]
WIDE_DEEP_HIDDEN = [256, 128, 64]
CATEGORICAL, NUMERIC, BUCKETS, DIMENSION = 26, 13, 100_000, 16
LEARNING_RATE, INITIAL_ACCUMULATOR = 0.01, 0.1

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STARTED = "PEER_STARTED"  # the parent's monotonic clock just before it starts the child
WARMUP_SECONDS, WARMUP_STEPS = 1.0, 5
MOST_SETS, MOST_BYTES = 8, 64 << 20

# glibc: take big blocks from the heap and never give memory back, so that a step does not fault its buffers in anew
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456"}


def clock():
    return time.clock_gettime(time.CLOCK_MONOTONIC)  # one clock for all processes of the machine


def machine_seconds():
    """Processor time that all processes of the machine have used so far."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(n) for n in stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def widths(run, hidden):
    return [max(1, round(n * run.width_mult)) for n in hidden]


def inputs(run):
    """A few sets of one batch each, the same for every peer, to rotate over: nothing is then served from one hot buffer.

    cnn, mlp: (pixels [batch, 784], labels [batch]); wide_deep: (ids [26, batch], numbers [batch, 13], labels [batch]).
    """
    import numpy as np  # the parent may do without
    rng = np.random.RandomState(1)
    sets = []
    while len(sets) < MOST_SETS and (len(sets) < 2 or sum(x.nbytes for s in sets for x in s) < MOST_BYTES):
        if run.model == "wide_deep":
            # long-tailed, as hashed click logs are: half the draws fall into an eighth of the table
            ids = np.floor(rng.random_sample((CATEGORICAL, run.batch)) ** 3 * BUCKETS).astype(np.int64)
            numbers = rng.standard_normal((run.batch, NUMERIC)).astype(np.float32)
            sets.append((ids, numbers, rng.randint(0, 2, run.batch).astype(np.float32)))
        else:
            pixels = rng.standard_normal((run.batch, 784)).astype(np.float32)
            sets.append((pixels, rng.randint(0, CLASSES, run.batch).astype(np.int64)))
    return sets


class Meter:
    """Told of the end of every step; measures the first one, a warm-up, then the windows. step() is true when all is done."""

    def __init__(self, run):
        self.run = run
        self.rates = []
        self.steps = 0
        self.warming = True
        self.first_step = self.loss_first = self.loss_50 = self.loss_last = self.cores = self.others = None

    def step(self, loss):
        now = time.perf_counter()
        self.steps += 1
        if self.steps == 1:
            self.first_step = clock() - float(os.environ[STARTED])
            self.loss_first = float(loss)
            self.begun = now
            return False
        if self.steps == 50:
            self.loss_50 = round(float(loss), 4)
        if self.warming:
            if now - self.begun >= WARMUP_SECONDS and self.steps > WARMUP_STEPS:
                self.warming = False
                self.begun = self.all_begun = now
                self.count = 0
                self.cpu_begun, self.machine_begun = time.process_time(), machine_seconds()
            return False
        self.count += 1
        if now - self.begun < self.run.seconds:
            return False
        self.rates.append(self.count / (now - self.begun))
        self.begun, self.count = now, 0
        if len(self.rates) < self.run.windows:
            return False
        self.loss_last = float(loss)
        self.cores = (time.process_time() - self.cpu_begun) / (now - self.all_begun)
        self.others = max(0.0, (machine_seconds() - self.machine_begun) / (now - self.all_begun) - self.cores)
        return True

    def report(self, peer, version, note=None):
        with open("/proc/self/status", encoding="ascii") as status:
            high_water = next(line for line in status if line.startswith("VmHWM:"))
        line = {
            "peer": peer, "version": version, "model": self.run.model, "threads": self.run.threads, "mode": self.run.mode,
            "batch": self.run.batch, "width_mult": self.run.width_mult,
            "steps_per_sec": {
                "median": round(statistics.median(self.rates), 2), "min": round(min(self.rates), 2),
                "max": round(max(self.rates), 2), "windows": [round(r, 2) for r in self.rates]},
            "start_to_first_step_sec": round(self.first_step, 3),
            "max_rss_mb": round(int(high_water.split()[1]) / 1024, 1),
            "cores_used": round(self.cores, 2), "cores_others_used": round(self.others, 2),
            "loss_first": round(self.loss_first, 4), "loss_50": self.loss_50,
            "loss_last": round(self.loss_last, 4)}
        if note:
            line["note"] = note
        print(json.dumps(line), flush=True)


def options(about, flags):
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="A mode is one or more of these, joined by +:\n" + "".join(f"  {k:10s} {v}\n" for k, v in flags.items()))
    parser.add_argument("--models", default=",".join(MODELS), help="default %(default)s")
    parser.add_argument("--threads", default="1,2", help="thread counts, default %(default)s")
    parser.add_argument("--modes", help="modes to run, comma-separated; default: every one that was worth keeping")
    parser.add_argument("--best", action="store_true", help="only the best known mode of each model and thread count")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a window, default %(default)s")
    parser.add_argument("--windows", type=int, default=7, help="default %(default)s")
    parser.add_argument("--batch", type=int, help="instead of each model's own batch size")
    parser.add_argument("--width-mult", type=float, default=1.0, help="multiplies the hidden widths (cnn: filters and dense)")
    parser.add_argument("--no-pin", action="store_true", help="do not bind a run of N threads to N processors")
    parser.add_argument("--python", help="interpreter to run with, instead of the one scripts/bench-env prepares")
    parser.add_argument("--child", metavar="MODE", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.best and a.modes:
        parser.error("--best and --modes exclude each other")
    a.models = a.models.split(",")
    a.threads = [int(t) for t in a.threads.split(",")]
    for model in a.models:
        if model not in MODELS:
            parser.error(f"no model {model!r}: there are {', '.join(MODELS)}")
    for flag in (f for mode in (a.modes or "").split(",") if mode for f in mode.split("+")):
        if flag not in flags:
            parser.error(f"no mode flag {flag!r}: there are {', '.join(flags)}")
    if a.windows < 1 or a.seconds <= 0 or min(a.threads) < 1 or (a.batch is not None and a.batch < 1) or a.width_mult <= 0:
        parser.error("windows, seconds, threads, batch and width-mult must be above zero")
    return a


def main(about, flags, modes, best, interpreter, environment, train):
    """modes: model -> modes; best: (model, threads) -> mode; environment(threads, mode flags) -> variables for the child;
    train(run) trains in the child until its Meter is done and reports."""
    a = options(about, flags)
    if a.child is not None:
        model = a.models[0]
        train(argparse.Namespace(
            model=model, threads=a.threads[0], mode=a.child, flags=set(a.child.split("+")), batch=a.batch or BATCH[model],
            width_mult=a.width_mult, seconds=a.seconds, windows=a.windows))
        return 0
    failed = 0
    cpus = sorted(os.sched_getaffinity(0))
    for model in a.models:
        for threads in a.threads:
            if not a.no_pin:
                os.sched_setaffinity(0, cpus[:threads])  # the child inherits it
            chosen = [best(model, threads)] if a.best else a.modes.split(",") if a.modes else modes[model]
            for mode in chosen:
                other = [f for f in mode.split("+") if flags[f].split(":")[0] in MODELS and flags[f].split(":")[0] != model]
                if other:
                    print(f"{model} {threads} {mode}: left out, {other[0]} is for another model", file=sys.stderr)
                    continue
                command = [a.python or interpreter, os.path.abspath(sys.argv[0]), "--child", mode, "--models", model,
                           "--threads", str(threads), "--seconds", str(a.seconds), "--windows", str(a.windows),
                           "--width-mult", str(a.width_mult)] + (["--batch", str(a.batch)] if a.batch else [])
                failed |= start(command, {**os.environ, **environment(threads, set(mode.split("+")))}, f"{model} {threads} {mode}")
    return failed


def start(command, variables, name):
    """One run in a process of its own. Its standard error is shown only when it fails."""
    try:
        variables[STARTED] = repr(clock())
        done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=900)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is missing: run scripts/bench-env first")
    except subprocess.TimeoutExpired:
        print(f"{name}: gave up after 900 s", file=sys.stderr)
        return 1
    if done.returncode == 0:
        print(done.stdout, end="", flush=True)
        return 0
    print(f"{name}: exit status {done.returncode}\n" + "\n".join(done.stderr.splitlines()[-12:]), file=sys.stderr)
    return 1
