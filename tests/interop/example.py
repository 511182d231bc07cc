# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of example.c; the tables of features are the same there."""
import os
import random
import struct
import sys

import interop
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

CUTS = (1, 8, 72, 500, 1000)
F, I, S = tf.float32, tf.int64, tf.string

CONTEXT = {
    "f_fixed": tf.io.FixedLenFeature([2, 3], F),
    "i_default": tf.io.FixedLenFeature([], I, -7),
    "f_default": tf.io.FixedLenFeature([2], F, [0.5, 0.5]),
    "s_default": tf.io.FixedLenFeature([2], S, ["none", ""]),
    "i_var": tf.io.VarLenFeature(I),
    "f_var": tf.io.VarLenFeature(F),
    "s_var": tf.io.VarLenFeature(S),
    "i_ragged": tf.io.RaggedFeature(I, row_splits_dtype=I),
    "s_ragged": tf.io.RaggedFeature(S, row_splits_dtype=I),
}
FEATURES = {
    **CONTEXT,
    "i_padded": tf.io.FixedLenSequenceFeature([], I, allow_missing=True),
    "f_padded": tf.io.FixedLenSequenceFeature([3], F, allow_missing=True, default_value=-1.0),
    "s_padded": tf.io.FixedLenSequenceFeature([], S, allow_missing=True, default_value="pad"),
}
# No name begins with another one: protobuf puts such in an order of its own.
LISTS = {
    "i_steps": tf.io.FixedLenSequenceFeature([], I, allow_missing=True),
    "f_steps": tf.io.FixedLenSequenceFeature([2], F, allow_missing=True),
    "s_steps": tf.io.FixedLenSequenceFeature([], S, allow_missing=True),
    "i_var_steps": tf.io.VarLenFeature(I),
    "s_var_steps": tf.io.VarLenFeature(S),
    "f_ragged_steps": tf.io.RaggedFeature(F, row_splits_dtype=I),
}
SIZES = {"f_fixed": 6, "i_default": 1, "f_default": 2, "s_default": 2}  # of those that have a fixed one
STEP_SIZES = {"i_steps": 1, "f_steps": 2, "s_steps": 1}


# --- random examples: {name: (kind, values)}, and lists {name: (kind, [values])} -----------------------------------------

def values(rng, kind, n):
    if kind == "f":
        odd = [0.0, -0.0, 1e-45, 3.4e38, float("inf")]
        return [np.float32(rng.choice(odd) if rng.random() < 0.1 else rng.gauss(0, 100)).item() for _ in range(n)]
    if kind == "i":
        return [rng.getrandbits(rng.randrange(1, 65)) - 2 ** 63 if rng.random() < 0.3 else rng.randrange(-300, 300)
                for _ in range(n)]
    return [rng.randbytes(rng.choice([0, 1, 5, 127, 128, 300])) for _ in range(n)]


def example(rng, names):
    out = {}
    for name in names:
        if name != "f_fixed" and rng.random() < 0.25:
            continue
        n = SIZES.get(name, rng.choice([0, 1, 2, 3, 7, 40]))
        out[name] = name[0], values(rng, name[0], n * 3 if name == "f_padded" else n)
    for extra in range(rng.randrange(3)):
        kind = rng.choice("fis")
        out[f"nobody_asks_{extra}"] = kind, values(rng, kind, 3)
    return out


def steps(rng):
    out = {}
    for name in LISTS:
        if rng.random() < 0.25:
            continue
        n_steps = rng.choice([0, 1, 2, 5, 20])
        out[name] = name[0], [values(rng, name[0], STEP_SIZES.get(name, rng.randrange(4))) for _ in range(n_steps)]
    return out


def fill(feature, kind, items):
    {"f": feature.float_list, "i": feature.int64_list, "s": feature.bytes_list}[kind].value.extend(items)
    if not items:  # an empty list of a kind, not a feature without one
        {"f": feature.float_list, "i": feature.int64_list, "s": feature.bytes_list}[kind].SetInParent()


def message(features):
    out = tf.train.Example()
    for name, (kind, items) in features.items():
        fill(out.features.feature[name], kind, items)
    return out


def sequence_message(context, lists):
    out = tf.train.SequenceExample()
    out.context.CopyFrom(message(context).features)
    for name, (kind, rows) in lists.items():
        out.feature_lists.feature_list[name].SetInParent()
        for items in rows:
            fill(out.feature_lists.feature_list[name].feature.add(), kind, items)
    return out


def plain(kind, items):
    if kind == "s":
        return b"".join(map(interop.blob, items))
    return np.array(items, {"f": np.float32, "i": np.int64}[kind]).tobytes()


def describe(features):
    return b"".join(interop.blob(part) for name, (kind, items) in features.items()
                    for part in (name.encode(), kind.encode(), plain(kind, items)))


def describe_lists(lists):
    return b"".join(interop.blob(part) for name, (kind, rows) in lists.items() for part in (
        name.encode(), kind.encode(), b"".join(interop.blob(plain(kind, items)) for items in rows)))


# --- the same example in a form that is legal but that no writer makes --------------------------------------------------

def varint(value):
    value &= 2 ** 64 - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def unusual_feature(rng, kind, items):
    """Numbers packed or not. (TensorFlow's parser does not take both in one list, nor two packed pieces; we do.)"""
    if kind == "s":
        out = b"".join(field(1, item) for item in items)
    else:
        raw = [struct.pack("<f", item) if kind == "f" else varint(item) for item in items]
        tag = b"\x0d" if kind == "f" else b"\x08"
        out = field(1, b"".join(raw)) if rng.random() < 0.5 else b"".join(tag + r for r in raw)
    return field({"s": 1, "f": 2, "i": 3}[kind], out)


def unusual(rng, features):
    """Names in any order; some come twice, and the last counts."""
    order = list(features.items())
    rng.shuffle(order)
    entries = []
    for name, (kind, items) in order:
        if rng.random() < 0.2:
            entries.append((name, kind, values(rng, kind, rng.randrange(3))))
        entries.append((name, kind, items))
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, unusual_feature(rng, kind, items)))
                             for name, kind, items in entries))


# --- broken ones -----------------------------------------------------------------------------------------------------------

def broken_fields():
    """A sound example, then each of its features missing, of another kind or with a value too many."""
    rng = random.Random(3)
    good = {name: (name[0], values(rng, name[0], SIZES.get(name, 3))) for name in FEATURES}
    yield good
    for name, (kind, items) in good.items():
        yield {k: v for k, v in good.items() if k != name}
        for other in "fis":
            yield {**good, name: (other, values(rng, other, len(items)))}
            yield {**good, name: (other, [])}
        yield {**good, name: (kind, items + items[:1])}
        yield {**good, name: (kind, items[:-1])}


def broken_lists():
    rng = random.Random(4)
    context = {name: (name[0], values(rng, name[0], SIZES.get(name, 3))) for name in CONTEXT}
    good = {name: (name[0], [values(rng, name[0], STEP_SIZES.get(name, 2)) for _ in range(2)]) for name in LISTS}
    yield context, good
    for name, (kind, rows) in good.items():
        yield context, {k: v for k, v in good.items() if k != name}
        for other in "fis":
            yield context, {**good, name: (other, [values(rng, other, len(r)) for r in rows])}
            yield context, {**good, name: (other, [[] for _ in rows])}
        yield context, {**good, name: (kind, [rows[0], rows[1] + rows[1][:1]])}
        yield context, {**good, name: (kind, [rows[0], rows[1][:-1]])}
    yield {k: v for k, v in context.items() if k != "f_fixed"}, good


def cut(data):
    return [data[:n] for n in range(len(data))]


# --- what the other side asks for ----------------------------------------------------------------------------------------

def write(folder):
    if os.path.exists(folder + "/examples"):
        return
    rng = random.Random(1)
    examples = [example(rng, FEATURES) for _ in range(1000)]
    sequences = [(example(rng, CONTEXT), steps(rng)) for _ in range(1000)]
    put = lambda name, blobs: interop.write_blobs(f"{folder}/{name}", blobs)
    put("examples", [message(e).SerializeToString(deterministic=True) for e in examples])
    put("examples.described", [describe(e) for e in examples])
    put("unusual", [unusual(rng, e) for e in examples])
    put("sequences", [sequence_message(*s).SerializeToString(deterministic=True) for s in sequences])
    put("sequences.described", [interop.blob(describe(c)) + interop.blob(describe_lists(l)) for c, l in sequences])
    broken = [message(e).SerializeToString(deterministic=True) for e in broken_fields()]
    put("broken", broken + cut(broken[0]))
    broken = [sequence_message(*s).SerializeToString(deterministic=True) for s in broken_lists()]
    put("broken_sequences", broken + cut(broken[0]))


def splits(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def tell(name, spec, value, rows, records):
    """A feature of TensorFlow's in our tensors. What has no length in TensorFlow has that of the messages."""
    if isinstance(value, tf.SparseTensor):
        counts = np.bincount(value.indices.numpy()[:, 0], minlength=rows)
        return {"values": value.values.numpy(), "splits": splits(counts)}
    if isinstance(value, tf.RaggedTensor):
        return {"values": value.values.numpy(), "splits": value.row_splits.numpy()}
    if isinstance(spec, tf.io.FixedLenSequenceFeature):
        size = int(np.prod(spec.shape))
        kind = {F: "float_list", I: "int64_list", S: "bytes_list"}[spec.dtype]
        lengths = [len(getattr(tf.train.Example.FromString(r).features.feature[name], kind).value) // size
                   for r in records]
        return {"values": value.numpy(), "lengths": np.array(lengths, np.int64)}
    return {"values": value.numpy()}


def tell_list(name, value, lengths, records):
    """A list of TensorFlow's in our tensors."""
    if isinstance(value, tf.RaggedTensor):
        return {"values": value.values.values.numpy(), "splits": value.row_splits.numpy(),
                "step_splits": value.values.row_splits.numpy()}
    if isinstance(value, tf.SparseTensor):
        n_steps = [len(tf.train.SequenceExample.FromString(r).feature_lists.feature_list[name].feature)
                   for r in records]
        starts = splits(n_steps)
        steps_of_values = starts[value.indices.numpy()[:, 0]] + value.indices.numpy()[:, 1]
        counts = np.bincount(steps_of_values, minlength=starts[-1])
        return {"values": value.values.numpy(), "splits": starts, "step_splits": splits(counts)}
    if name == "i_steps":  # not padded by us
        dense = value.numpy()
        flat = np.concatenate([dense[i, :n] for i, n in enumerate(lengths)])
        return {"values": flat, "splits": splits(lengths)}
    return {"values": value.numpy(), "lengths": lengths}


def batches(records):
    for first, last in zip((0,) + CUTS, CUTS):
        yield last, records[first:last]


def parsed_examples(records):
    out = {}
    for cut_at, batch in batches(records):
        parsed = tf.io.parse_example(batch, FEATURES)
        for name, spec in FEATURES.items():
            for part, value in tell(name, spec, parsed[name], len(batch), batch).items():
                out[f"{cut_at}/{name}/{part}"] = value
    return out


def parsed_sequences(records):
    out = {}
    for cut_at, batch in batches(records):
        context, lists, lengths = tf.io.parse_sequence_example(batch, CONTEXT, LISTS)
        for name, spec in CONTEXT.items():
            for part, value in tell(name, spec, context[name], len(batch), batch).items():
                out[f"{cut_at}/{name}/{part}"] = value
        for name in LISTS:
            length = lengths[name].numpy() if name in lengths else None
            for part, value in tell_list(name, lists[name], length, batch).items():
                out[f"{cut_at}/{name}/{part}"] = value
    return out


def check_read_examples(folder):
    for name in "examples", "unusual":
        want = parsed_examples(interop.read_blobs(f"{folder}/{name}"))
        interop.check_tensors(interop.read_tensors(f"{folder}/{name}.said"), want)


def check_read_sequences(folder):
    want = parsed_sequences(interop.read_blobs(folder + "/sequences"))
    interop.check_tensors(interop.read_tensors(folder + "/sequences.said"), want)


def check_built(folder, name, kind, parse):
    theirs, ours = (interop.read_blobs(f"{folder}/{name}{end}") for end in ("", ".built"))
    assert len(theirs) == len(ours) == 1000
    for i, (a, b) in enumerate(zip(theirs, ours)):
        assert kind.FromString(a) == kind.FromString(b), i
        at = len(os.path.commonprefix([a, b]))
        assert a == b, f"{name} {i}: other bytes from {at}: {b[at - 20:at + 20]}, expected {a[at - 20:at + 20]}"
    interop.check_tensors(parse(ours), parse(theirs))


def check_built_examples(folder):
    check_built(folder, "examples", tf.train.Example, parsed_examples)


def check_built_sequences(folder):
    check_built(folder, "sequences", tf.train.SequenceExample, parsed_sequences)


def taken(parse, record):
    try:
        parse(record)
        return b"y"
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # the latter of a message that cites the record
        return b"n"


def sound(kind, record):
    try:
        kind.FromString(record)
        return True
    except DecodeError:
        return False


def check_refused(folder, name, kind, parse):
    """We refuse what TensorFlow refuses, and what is no message: TensorFlow takes one that is cut between features."""
    records, said = (interop.read_blobs(f"{folder}/{name}{end}") for end in ("", ".said"))
    for i, (record, ours) in enumerate(zip(records, said, strict=True)):
        theirs = taken(parse, record) if sound(kind, record) else b"n"
        assert ours == theirs, f"{name} {i}: taken by us {ours}, by TensorFlow {theirs}: {record}"
    assert said.count(b"y") > 10 and said.count(b"n") > 10, said


def check_broken(folder):
    check_refused(folder, "broken", tf.train.Example, lambda r: tf.io.parse_example([r], FEATURES))
    check_refused(folder, "broken_sequences", tf.train.SequenceExample,
                  lambda r: tf.io.parse_sequence_example([r], CONTEXT, LISTS))


interop.serve(sys.modules[__name__])
