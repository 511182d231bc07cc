#!/usr/bin/python3
"""Training speed of PyTorch on the CPU, on the three reference models of peer.py.

Debian's python3-torch, on the OpenMP build of OpenBLAS when scripts/bench-env has found or fetched one. Prints one JSON line for
each (model, threads, mode). PyTorch has no FTRL: the linear part of wide_deep is trained with Adagrad as the deep part is, and
the line's note says so.
"""
import glob
import os
import sys

import peer

FLAGS = {
    "eager": "plain PyTorch",
    "trace": "the model through torch.jit.trace",
    "script": "the model through torch.jit.script",
    "malloc": "glibc keeps freed memory instead of giving it back to the kernel",
    "foreach": "optimizer with foreach=True (dense parameters)",
    "nhwc": "cnn: channels_last memory format",
    "nomkldnn": "without oneDNN",
    "avx512": "ATEN_CPU_CAPABILITY=avx512 (AVX2 kernels are the default)",
    "active": "OpenMP threads spin while they wait",
    "passive": "OpenMP threads sleep while they wait",
    "sysblas": "the machine's own libblas.so.3",
    "stacked": "wide_deep: the 26 tables as one of 2.6 M rows (the same numbers, other parameters)",
}
MODES = {
    "cnn": ["eager+nhwc+malloc", "trace+nhwc+malloc", "eager+malloc", "eager"],
    "mlp": ["eager+malloc", "trace+malloc", "eager"],
    "wide_deep": ["eager+malloc", "trace+malloc", "eager+foreach", "eager", "eager+stacked+malloc"],
}


def best(model, threads):
    return "eager+nhwc+malloc" if model == "cnn" else "eager+malloc"


def openblas():
    """The folder of the OpenMP build of OpenBLAS: a pthread build brings a second pool of threads beside OpenMP's own."""
    for place in ("/usr/lib", os.path.join(peer.ROOT, "build", "bench-blas", "usr", "lib")):
        for found in glob.glob(os.path.join(place, "*", "openblas-openmp", "libblas.so.3")):
            return os.path.dirname(found)
    return None


def environment(threads, flags):
    # torch.set_num_threads alone does not bound every OpenBLAS build
    variables = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    blas = None if "sysblas" in flags else openblas()
    if blas:
        variables["LD_LIBRARY_PATH"] = ":".join(filter(None, [blas, os.environ.get("LD_LIBRARY_PATH")]))
    if "malloc" in flags:
        variables.update(peer.KEEP_MEMORY)
    if "avx512" in flags:
        variables["ATEN_CPU_CAPABILITY"] = "avx512"
    for policy in {"active", "passive"} & flags:
        variables["OMP_WAIT_POLICY"] = policy
    return variables


def make(run):
    """(model, optimizers, loss, batches, note) of a run."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def start(layer, initializer=nn.init.xavier_uniform_):
        """The start values that TensorFlow's layers have, so that the losses can be compared."""
        initializer(layer.weight)
        nn.init.zeros_(layer.bias)
        return layer

    def tower(n, hidden, outputs):
        layers = []
        for m in hidden:
            layers += [start(nn.Linear(n, m)), nn.ReLU()]
            n = m
        return nn.Sequential(*layers, start(nn.Linear(n, outputs)))

    def table(rows, dimension, stddev):
        weight = torch.empty(rows, dimension)
        return nn.Embedding.from_pretrained(weight.normal_(0, stddev) if stddev else weight.zero_(), freeze=False, sparse=True)

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            filters, *hidden = peer.widths(run, [peer.CNN_FILTERS] + peer.CNN_HIDDEN)
            self.conv = start(nn.Conv2d(1, filters, 3))
            self.dense = tower(filters * 13 * 13, hidden, peer.CLASSES)

        def forward(self, x):
            return self.dense(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1))

    class WideDeep(nn.Module):
        def __init__(self):
            super().__init__()
            tables = 1 if "stacked" in run.flags else peer.CATEGORICAL
            rows = peer.CATEGORICAL * peer.BUCKETS // tables
            self.deep = nn.ModuleList([table(rows, peer.DIMENSION, peer.DIMENSION ** -0.5) for _ in range(tables)])
            self.wide = nn.ModuleList([table(rows, 1, 0) for _ in range(tables)])
            self.linear = start(nn.Linear(peer.NUMERIC, 1), nn.init.zeros_)
            self.tower = tower(peer.CATEGORICAL * peer.DIMENSION + peer.NUMERIC, peer.widths(run, peer.WIDE_DEEP_HIDDEN), 1)

        def forward(self, ids, numbers):
            columns = []
            out = self.linear(numbers)
            for i, deep in enumerate(self.deep):
                columns.append(deep(ids[i]))
            for i, wide in enumerate(self.wide):
                out = out + wide(ids[i])
            return (out + self.tower(torch.cat(columns + [numbers], 1))).squeeze(1)

    class Stacked(WideDeep):
        def forward(self, ids, numbers):  # ids [batch, 26], each already moved to its table's rows
            columns = torch.cat([self.deep[0](ids).flatten(1), numbers], 1)
            return (self.linear(numbers) + self.wide[0](ids).sum(1) + self.tower(columns)).squeeze(1)

    def batches(layout):
        for *features, labels in peer.inputs(run):
            if run.model == "cnn":
                x = (torch.from_numpy(features[0]).reshape(-1, 1, 28, 28).contiguous(memory_format=layout),)
            elif run.model == "mlp":
                x = (torch.from_numpy(features[0]),)
            else:
                ids, numbers = (torch.from_numpy(f) for f in features)
                if "stacked" in run.flags:
                    ids = (ids + torch.arange(peer.CATEGORICAL).unsqueeze(1) * peer.BUCKETS).t().contiguous()
                x = (ids, numbers)
            yield x, torch.from_numpy(labels)

    torch.set_num_threads(run.threads)
    torch.manual_seed(1)
    torch.backends.mkldnn.enabled = "nomkldnn" not in run.flags
    layout = torch.channels_last if "nhwc" in run.flags else torch.contiguous_format
    sets = list(batches(layout))
    note = None
    if run.model == "cnn":
        model = Cnn().to(memory_format=layout)
    elif run.model == "mlp":
        model = tower(784, peer.widths(run, peer.MLP_HIDDEN), peer.CLASSES)
    else:
        model = Stacked() if "stacked" in run.flags else WideDeep()
        note = "no FTRL in PyTorch: Adagrad on the linear part too"
    foreach = True if "foreach" in run.flags else None
    if run.model == "cnn":
        optimizers = [torch.optim.SGD(model.parameters(), lr=peer.LEARNING_RATE, foreach=foreach)]
    else:
        sparse = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
        dense = [p for p in model.parameters() if not any(p is s for s in sparse)]
        optimizers = [
            torch.optim.Adagrad(group, lr=peer.LEARNING_RATE, initial_accumulator_value=peer.INITIAL_ACCUMULATOR, foreach=each)
            for group, each in ((dense, foreach), (sparse, None)) if group]
    loss_fn = nn.BCEWithLogitsLoss() if run.model == "wide_deep" else nn.CrossEntropyLoss()
    if "trace" in run.flags:
        model = torch.jit.trace(model, sets[0][0])
    elif "script" in run.flags:
        model = torch.jit.script(model)
    return model, optimizers, loss_fn, sets, note


def step(model, optimizers, loss_fn, x, labels):
    loss = loss_fn(model(*x), labels)
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach()


def train(run):
    import torch

    model, optimizers, loss_fn, sets, note = make(run)
    meter = peer.Meter(run)
    done = False
    while not done:
        for x, labels in sets:
            done = meter.step(step(model, optimizers, loss_fn, x, labels))
            if done:
                break
    meter.report("torch", torch.__version__, note)


if __name__ == "__main__":
    sys.exit(peer.main(__doc__, FLAGS, MODES, best, "/usr/bin/python3", environment, train))
