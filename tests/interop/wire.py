# SPDX-License-Identifier: Apache-2.0
"""Google's protobuf as the other side of wire.c, with a message type made at run time; no TensorFlow is started.

protobuf's own parser is used rather than `protoc --decode_raw`, which guesses at types and knows no table.
"""
import random
import re
import struct
import sys

import interop
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields
from google.protobuf.message import DecodeError

KINDS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum", "fixed32", "fixed64", "sfixed32",
         "sfixed64", "float", "double", "string", "bytes", "message", "group")
FIXED = {"fixed32": 4, "sfixed32": 4, "float": 4, "fixed64": 8, "sfixed64": 8, "double": 8}
ENUM = (0, 1, -1, 300)
VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def kind_of(number):
    """The kind of a field of the table, or None."""
    known = 1 <= number <= 18 or 21 <= number <= 38 or 41 <= number <= 54
    return KINDS[number % 20 - 1] if known else None


def is_list(number):
    return number > 20 and number % 20 <= 14


def make_types():
    """The message type of wire.c, and one that knows no field at all."""
    proto = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="random.proto", package="interop", syntax="proto2")
    file.message_type.add(name="Nothing")
    message = file.message_type.add(name="Random")
    enum = file.enum_type.add(name="Enum")
    for value in ENUM:
        enum.value.add(name=f"E{value}".replace("-", "M"), number=value)
    for number in range(1, 55):
        if (kind := kind_of(number)) is None:
            continue
        field = message.field.add(name=f"f{number}", number=number, type=getattr(proto, "TYPE_" + kind.upper()),
                                  label=proto.LABEL_REPEATED if number > 20 else proto.LABEL_OPTIONAL)
        if kind in ("message", "group"):
            field.type_name = ".interop.Random"
        elif kind == "enum":
            field.type_name = ".interop.Enum"
        field.options.packed = 40 < number
    for field in message.field:  # a group's field is named as its type is
        if field.type == proto.TYPE_GROUP:
            group = file.message_type.add()
            group.CopyFrom(message)
            group.name = f"F{field.number}"
    for m in file.message_type:
        for field in m.field:
            if field.type == proto.TYPE_GROUP:
                field.type_name = f".interop.F{field.number}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName("interop." + n)) for n in ("Random", "Nothing")]


Random, Nothing = make_types()


# --- random messages ---------------------------------------------------------------------------------------------------

def value(rng, kind):
    bits = {"int32": 31, "sint32": 31, "sfixed32": 31, "uint32": 32, "fixed32": 32,
            "int64": 63, "sint64": 63, "sfixed64": 63, "uint64": 64, "fixed64": 64}.get(kind)
    if bits:
        number = rng.getrandbits(rng.randrange(1, bits + 1))
        return -number - 1 if bits in (31, 63) and rng.random() < 0.5 else number
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "enum":
        return rng.choice(ENUM)
    if kind == "float":
        return struct.unpack("<f", struct.pack("<f", rng.choice([0.0, -0.0, 1e-45, float("inf"), rng.gauss(0, 1)])))[0]
    if kind == "double":
        return rng.choice([0.0, -0.0, 5e-324, float("-inf"), rng.gauss(0, 1)])
    if kind == "string":
        return "".join(rng.choice("a\u00fc\u20ac\U0001f600\0") for _ in range(rng.randrange(6)))
    return rng.randbytes(rng.choice([0, 1, 3, 127, 128, 300]))


def fill(rng, message, depth=0):
    """A message that protobuf itself will serialize."""
    for number in range(1, 55):
        kind = kind_of(number)
        if kind is None or rng.random() < 0.8:
            continue
        name = f"f{number}"
        if kind in ("message", "group"):
            if depth < 4:
                for _ in range(rng.randrange(3) if number > 20 else 1):
                    inner = getattr(message, name).add() if number > 20 else getattr(message, name)
                    inner.SetInParent()
                    fill(rng, inner, depth + 1)
        elif number > 20:
            getattr(message, name).extend(value(rng, kind) for _ in range(rng.choice([0, 1, 3, 100])))
        else:
            setattr(message, name, value(rng, kind))
    return message


def varint(number, rng=None):
    """As short as it can be, or with needless bytes when there is an rng."""
    number &= 2 ** 64 - 1
    out = []
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    if rng and rng.random() < 0.1:
        for _ in range(rng.randrange(1, 11 - len(out)) if len(out) < 10 else 0):
            out[-1] |= 0x80
            out.append(0)
    return bytes(out)


def raw_value(rng, kind):
    """A value on the wire: any bits that fit the kind, more than it keeps among them."""
    if kind in FIXED:
        return rng.randbytes(FIXED[kind])
    if kind == "enum":
        return varint(rng.choice(ENUM), rng)
    return varint(rng.getrandbits(rng.randrange(1, 65)), rng)


def tag(number, wire_type):
    return varint(number << 3 | wire_type)


def delimited(number, data, rng):
    return tag(number, BYTES) + varint(len(data), rng) + data


def wild_field(rng, depth):
    """A field of the table in any form it may take, or an unknown one."""
    number = rng.choice([rng.randrange(1, 55), rng.randrange(1, 55), rng.choice([19, 100, 2047, 2048, 2 ** 29 - 1])])
    kind = kind_of(number)
    if kind is None:
        kind = rng.choice(KINDS)
    if kind == "string":
        return delimited(number, "\u00fcx".encode() * rng.randrange(3), rng)
    if kind == "bytes":
        return delimited(number, rng.randbytes(rng.randrange(200)), rng)
    if kind == "message":
        return delimited(number, wild(rng, depth + 1), rng)
    if kind == "group":
        return tag(number, GROUP) + wild(rng, depth + 1) + tag(number, END_GROUP)
    wire_type = {4: FIXED32, 8: FIXED64}.get(FIXED.get(kind), VARINT)
    if is_list(number) and rng.random() < 0.5:
        return delimited(number, b"".join(raw_value(rng, kind) for _ in range(rng.randrange(5))), rng)
    return tag(number, wire_type) + raw_value(rng, kind)


def wild(rng, depth=0):
    """Fields in any order and number, packed and not, with unknown ones between: legal, but no writer makes it."""
    return b"".join(wild_field(rng, depth) for _ in range(rng.randrange(0, 8 if depth < 4 else 1)))


def damaged(rng, data):
    """With a few bytes changed, lost, added, or with its end missing."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            del data[at:at + rng.randrange(1, 4)]
        elif what == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 12))
        elif at < len(data):
            data[at] = rng.choice([0, 0x7F, 0x80, 0xFF])
    return bytes(data[:rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data)


# --- what protobuf finds --------------------------------------------------------------------------------------------------

def walk(fields):
    """The fields of a message that knows none, in the words of the C side."""
    out = ""
    for f in fields:
        if f.wire_type == GROUP:
            out += f"{f.field_number}/{f.wire_type}{{{walk(f.data)}}} "
        else:
            out += f"{f.field_number}/{f.wire_type}={f.data.hex() if f.wire_type == BYTES else f.data} "
    return out


def number_text(kind, item):
    if kind == "float":
        return " %d" % struct.unpack("<I", struct.pack("<f", item))
    if kind == "double":
        return " %d" % struct.unpack("<Q", struct.pack("<d", item))
    return " %d" % item


def tell(message):
    """What a message that protobuf serialized holds, in the words of the C side, a field after the other."""
    out = ""
    for field, content in message.ListFields():
        kind = kind_of(field.number)
        items = content if field.number > 20 else [content]
        if kind in ("message", "group"):
            parts = ["{" + tell(item) + "}" for item in items]
        elif kind in ("string", "bytes"):
            parts = [(item.encode() if kind == "string" else item).hex() for item in items]
        else:
            parts = [number_text(kind, item) for item in items]
            parts = ["".join(parts)] if field.number > 40 else parts
        out += "".join(f"{field.number}:{part};" for part in parts)
    return out


def parse(kind, data):
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def plain(message):
    """The message without what it does not know."""
    message.DiscardUnknownFields()
    return message.SerializeToString(deterministic=True)


def answers(folder, name):
    messages = interop.read_blobs(f"{folder}/{name}")
    said = interop.read_blobs(f"{folder}/{name}.said")
    return zip(messages, said[0::3], said[1::3], said[2::3], strict=True)


def check_walk(data, walked):
    theirs = parse(Nothing, data)
    theirs = "refused" if theirs is None else walk(unknown_fields.UnknownFieldSet(theirs))
    assert walked.decode() == theirs, f"{data.hex()}: we find {walked.decode()}, protobuf {theirs}"


def write_serialized(folder):
    rng = random.Random(1)
    interop.write_blobs(folder + "/serialized", [fill(rng, Random()).SerializeToString() for _ in range(1000)])


def check_serialized(folder):
    for data, walked, read, written in answers(folder, "serialized"):
        check_walk(data, walked)
        message = Random.FromString(data)
        assert read.decode() == tell(message), f"{data.hex()}: we read {read.decode()}, protobuf {tell(message)}"
        assert Random.FromString(written) == message, data.hex()


def write_wild(folder):
    rng = random.Random(2)
    interop.write_blobs(folder + "/wild", [wild(rng) for _ in range(3000)])


def check_wild(folder):
    for data, walked, read, written in answers(folder, "wild"):
        check_walk(data, walked)
        assert read != b"refused", data.hex()
        assert plain(Random.FromString(written)) == plain(Random.FromString(data)), data.hex()


# --- what protobuf refuses ------------------------------------------------------------------------------------------------

def write_broken(folder):
    rng = random.Random(3)
    sound = [fill(rng, Random()).SerializeToString() if i % 2 else wild(rng) for i in range(1000)]
    interop.write_blobs(folder + "/broken", [damaged(rng, data) for data in sound for _ in range(10)])


# Where we and protobuf may differ, by what the message holds.
STRICTER = re.compile(rb"[\x80-\xff]{9}[\x02-\x7f]")  # a number of more than 64 bits: protobuf drops bits, we refuse
LOOSER = re.compile(rb"[\x80-\xff]{5}"  # a tag of more than 5 bytes: we take it, protobuf refuses
                    rb"|\xb2\x02")  # repeated groups, field 38, as bytes: protobuf reads a message, others skip it


def differ(data, ours, theirs):
    """Whether one refuses what the other takes; None where that is meant to be."""
    if (ours == b"refused") == (theirs is None):
        return False
    reason = LOOSER if theirs is None else STRICTER
    return None if reason.search(data) else True


def check_broken(folder):
    n_refused = n_meant = 0
    for data, walked, read, _ in answers(folder, "broken"):
        for ours, kind in ((walked, Nothing), (read, Random)):
            theirs = parse(kind, data)
            found = differ(data, ours, theirs)
            assert not found, f"{kind.DESCRIPTOR.name} {data.hex()}: refused by us {ours == b'refused'}"
            n_meant += found is None
        n_refused += walked == b"refused"
    assert 2000 < n_refused < 8000 and n_meant < 100, (n_refused, n_meant)


interop.serve(sys.modules[__name__])
