#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The canned wide & deep classifier of bench/canned.c in PyTorch, on a GPU or a CPU, from the same Examples on disk.

Processes of a DataLoader read, shuffle, parse (with protobuf) and hash; each batch comes through pinned memory. Tables of one width are
one table, their gradients are sparse, and everything is trained by Adagrad (PyTorch has no FTRL). Turns as in bench/canned: a line of
JSON each, with what of its seconds was waiting for the next batch."""
import argparse
import glob
import json
import math
import random
import struct
import time
import zlib

NUMBERS = [f"I{k + 1}" for k in range(13)]
WORDS = [f"C{k + 1}" for k in range(26)]
PAIRS = [(0, 1), (2, 4), (5, 9)]
BUCKETS = [1000000 if k % 5 == 3 else 100000 for k in range(26)]
WIDTHS = [8 if k % 2 else 16 for k in range(26)]
CROSSED = 1000000
BUFFER, WARM_UP_SECS = 10000, 0.3


def example_class():
    """tensorflow.Example, which has no module of its own outside TensorFlow."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="peer", syntax="proto3")

    def message(name, *fields):
        m = file.message_type.add(name=name)
        for number, (label, what, kind) in enumerate(fields, 1):
            f = m.field.add(name=label, number=number, label=field.LABEL_REPEATED if kind == "repeated" else field.LABEL_OPTIONAL)
            if isinstance(what, str):
                f.type, f.type_name = field.TYPE_MESSAGE, f".peer.{what}"
            else:
                f.type = what
        return m

    message("BytesList", ("value", field.TYPE_BYTES, "repeated"))
    message("FloatList", ("value", field.TYPE_FLOAT, "repeated"))
    message("Int64List", ("value", field.TYPE_INT64, "repeated"))
    message("Feature", ("bytes_list", "BytesList", ""), ("float_list", "FloatList", ""), ("int64_list", "Int64List", ""))
    features = message("Features", ("feature", "Features.FeatureEntry", "repeated"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=field.LABEL_OPTIONAL, type=field.TYPE_STRING)
    entry.field.add(name="value", number=2, label=field.LABEL_OPTIONAL, type=field.TYPE_MESSAGE, type_name=".peer.Feature")
    message("Example", ("features", "Features", ""))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("peer.Example"))


def records(paths):
    """The records of TFRecord files, for ever; their checksums are not looked at."""
    while True:
        for path in paths:
            with open(path, "rb") as file:
                data = file.read()
            at = 0
            while at < len(data):
                size = struct.unpack_from("<Q", data, at)[0]
                yield data[at + 12:at + 12 + size]
                at += size + 16


def shuffled(rows, seed):
    """Through a buffer of BUFFER rows."""
    draw, buffer = random.Random(seed), []
    for row in rows:
        if len(buffer) < BUFFER:
            buffer.append(row)
            continue
        at = draw.randrange(BUFFER)
        row, buffer[at] = buffer[at], row
        yield row


def row_of(example, deep_starts):
    """Label, numbers, rows of the tables of words (0: none), rows of the linear table."""
    feature = example.features.feature
    numbers = [math.log1p(max(feature[n].float_list.value[0], 0.0)) if n in feature else 0.0 for n in NUMBERS]
    words = [feature[n].bytes_list.value[0] if n in feature else None for n in WORDS]
    hashed = [zlib.crc32(w) % n if w is not None else -1 for w, n in zip(words, BUCKETS)]
    deep = [start + h if h >= 0 else 0 for start, h in zip(deep_starts, hashed)]
    linear, start = [], 1
    for h, n in zip(hashed, BUCKETS):
        linear.append(start + h if h >= 0 else 0)
        start += n
    for a, b in PAIRS:
        linear.append(start + zlib.crc32(words[a] + words[b]) % CROSSED if words[a] is not None and words[b] is not None else 0)
        start += CROSSED
    return feature["label"].int64_list.value[0], numbers, deep, linear


def deep_layout():
    """Where the rows of each word begin in the table of its width, whose row 0 is for missing words; rows of each width."""
    rows, starts = {8: 1, 16: 1}, []
    for width, buckets in zip(WIDTHS, BUCKETS):
        starts.append(rows[width])
        rows[width] += buckets
    return starts, rows


def make_loader(run):
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    starts, _ = deep_layout()

    class Clicks(IterableDataset):
        def __iter__(self):
            torch.set_num_threads(1)
            paths = sorted(glob.glob(f"{run.folder}/clicks-*.tfrecord"))
            worker = get_worker_info()
            first = worker.id % len(paths) if worker else 0
            example_of = example_class().FromString
            rows = shuffled(records(paths[first:] + paths[:first]), first)
            while True:
                parts = zip(*(row_of(example_of(next(rows)), starts) for _ in range(run.batch)))
                label, numbers, deep, linear = parts
                yield (torch.tensor(label, dtype=torch.float32), torch.tensor(numbers), torch.tensor(deep), torch.tensor(linear))

    return DataLoader(Clicks(), batch_size=None, num_workers=run.workers, prefetch_factor=4, pin_memory=run.device == "cuda")


def make_model(run):
    import torch
    from torch import nn

    _, rows = deep_layout()
    narrow = [k for k in range(26) if WIDTHS[k] == 8]
    broad = [k for k in range(26) if WIDTHS[k] == 16]

    class WideDeep(nn.Module):
        def __init__(self):
            super().__init__()
            self.narrow = nn.Embedding(rows[8], 8, padding_idx=0, sparse=True)
            self.broad = nn.Embedding(rows[16], 16, padding_idx=0, sparse=True)
            self.linear = nn.EmbeddingBag(1 + sum(BUCKETS) + 3 * CROSSED, 1, mode="sum", padding_idx=0, sparse=True)
            nn.init.zeros_(self.linear.weight)
            self.numbers = nn.Linear(13, 1)
            widths = [13 + 8 * len(narrow) + 16 * len(broad)] + [int(n) for n in run.hidden.split(",")]
            layers = []
            for i, o in zip(widths, widths[1:]):
                layers += [nn.Linear(i, o), nn.ReLU()]
            self.tower = nn.Sequential(*layers, nn.Linear(widths[-1], 1))
            self.register_buffer("narrow_at", torch.tensor(narrow))
            self.register_buffer("broad_at", torch.tensor(broad))

        def forward(self, numbers, deep, linear):
            joined = torch.cat([numbers, self.narrow(deep[:, self.narrow_at]).flatten(1), self.broad(deep[:, self.broad_at]).flatten(1)], 1)
            return (self.tower(joined) + self.linear(linear) + self.numbers(numbers)).squeeze(1)

    return WideDeep().to(run.device)


def main():
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="build/canned")
    parser.add_argument("--hidden", default="64,32")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=15, help="processes that read")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    run = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    batches = iter(make_loader(run))
    net = make_model(run)
    rule = torch.optim.Adagrad(net.parameters(), 0.05)
    waited, first_secs = 0.0, 0.0

    def work(secs):
        """Steps for so many seconds; examples."""
        nonlocal waited
        amount, start = 0, time.perf_counter()
        while time.perf_counter() - start < secs:
            begin = time.perf_counter()
            label, numbers, deep, linear = (t.to(run.device, non_blocking=True) for t in next(batches))
            waited += time.perf_counter() - begin
            rule.zero_grad(set_to_none=True)
            torch.nn.functional.binary_cross_entropy_with_logits(net(numbers, deep, linear), label).backward()
            rule.step()
            amount += run.batch
        if run.device == "cuda":
            torch.cuda.synchronize()
        return amount

    work(0.001)
    first_secs = time.perf_counter() - started
    work(WARM_UP_SECS)
    for _ in range(run.turns):
        waited, start = 0.0, time.perf_counter()
        amount = work(run.seconds)
        print(json.dumps({"amount": amount, "secs": time.perf_counter() - start, "waited_secs": waited}), flush=True)
    print(json.dumps({"first_step_secs": round(first_secs, 3)}), flush=True)


if __name__ == "__main__":
    main()
