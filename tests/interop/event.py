# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's and TensorBoard's side of event.c."""
import glob
import os
import sys

import interop
import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.util import tensor_util

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")
PICTURE = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 10
VALUES = np.arange(1000, dtype=np.float64) * 0.37 - 100


# --- theirs, read by us ----------------------------------------------------------------------------------------------

def write_v1(folder):
    """Everything the summaries of TensorFlow 1 have."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        rng = np.random.default_rng(1)
        values = {"loss": v1.summary.scalar("loss", 0.1), "none": v1.summary.scalar("none", np.nan),
                  "weights": v1.summary.histogram("weights", rng.standard_normal(5000)),
                  "point": v1.summary.histogram("point", np.zeros(3)),
                  "text": v1.summary.text("text", tf.constant("**bold** \u00fc")),
                  "picture": v1.summary.image("picture", np.stack([PICTURE, PICTURE])),
                  "sound": v1.summary.audio("sound", np.zeros((1, 100, 1), np.float32), 8000)}
        writer = v1.summary.FileWriter(folder + "/v1", graph)
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), 1)
        for step in range(3):
            for summary in values.values():
                writer.add_summary(session.run(summary), step * 1000000007)
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.CHECKPOINT, checkpoint_path="/m/model.ckpt-3"), 3)
        writer.add_meta_graph(v1.train.export_meta_graph(graph=graph), 4)
        writer.add_run_metadata(v1.RunMetadata(), "run", 5)
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.STOP, msg="end"), 6)
        writer.close()


def write_v2(folder):
    """Everything the summaries of TensorFlow 2 have."""
    with tf.summary.create_file_writer(folder + "/v2").as_default():
        for step in 0, 7:
            tf.summary.scalar("loss", 0.1 * step, step)
            tf.summary.histogram("weights", VALUES, step)
            tf.summary.text("text", "hello", step)
            tf.summary.text("texts", ["a", "b"], step)
            tf.summary.image("picture", PICTURE[None], step)
            tf.summary.write("raw", np.ones((2, 2), np.float32), step)


def write(folder):
    if os.path.exists(folder + "/files"):
        return
    write_v1(folder)
    write_v2(folder)
    files = sorted(glob.glob(folder + "/v[12]/*tfevents*"))
    assert len(files) == 2, files
    interop.write_blobs(folder + "/files", [os.path.relpath(f, folder).encode() for f in files])
    interop.write_blobs(folder + "/picture", [tf.io.encode_png(PICTURE).numpy()])


def number(value):
    return "nan" if np.isnan(value) else "%.17g" % value


def tell_tensor(tensor):
    """A scalar of numbers is also told as a number, a single string as a text."""
    array = tensor_util.make_ndarray(tensor)
    as_number = as_text = None
    if array.dtype.kind in "OS":
        as_text = array.item() if array.size == 1 else None
    elif array.ndim == 0:
        as_number = float(array)
    return f"tensor {number(np.nan if as_number is None else as_number)} '{(as_text or b'').decode()}' {tensor.ByteSize()}"


def tell_value(value):
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        what = "scalar " + number(value.simple_value)
    elif kind == "histo":
        h = value.histo
        pairs = [x for pair in zip(h.bucket_limit, h.bucket, strict=True) for x in pair]
        what = " ".join(["histogram", *map(number, [h.min, h.max, h.num, h.sum, h.sum_squares, *pairs])])
    elif kind == "image":
        i = value.image
        what = f"image {i.height} {i.width} {i.colorspace} {len(i.encoded_image_string)}"
    elif kind == "tensor":
        what = tell_tensor(value.tensor)
    else:
        what = {"audio": "kind 4"}[kind]
    return f"{value.tag} {value.metadata.plugin_data.plugin_name} {what}"


def tell(event):
    """An event in the words of the C side."""
    kind = event.WhichOneof("what")
    field = event.DESCRIPTOR.fields_by_name[kind].number
    if kind == "summary":
        more = "".join("\n  " + tell_value(v) for v in event.summary.value)
    elif kind == "session_log":
        log = event.session_log
        more = f" {log.status} '{log.checkpoint_path}' '{log.msg}'"
    elif kind == "file_version":
        more = " " + event.file_version
    else:
        data = getattr(event, kind)
        more = f" {len(data) if isinstance(data, bytes) else data.ByteSize()}"
    return f" {number(event.wall_time)} {event.step} {field}{more}"


def check_read(folder):
    for i, name in enumerate(interop.read_blobs(folder + "/files")):
        said = [s.decode() for s in interop.read_blobs(f"{folder}/said.{i}")]
        want = [tell(e) for e in v1.train.summary_iterator(f"{folder}/{name.decode()}")]
        assert len(said) == len(want) > 10, (name, len(said), len(want))
        for ours, theirs in zip(said, want):
            assert ours == theirs, f"{name}: we read\n{ours}\nTensorFlow\n{theirs}"


# est_entry_kind by what TensorBoard calls the plugin.
KINDS = {"scalars": 1, "text": 2, "histograms": 3, "images": 4, "": 5}


def check_entries(folder):
    """TensorBoard turns the first form of a value into the second; so does est_entry_tensor."""
    for form in "v1", "v2":
        ours = interop.read_tensors(f"{folder}/entries.{form}")
        theirs = {}
        for event in event_file_loader.EventFileLoader(glob.glob(f"{folder}/{form}/*tfevents*")[0]).Load():
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                if plugin in KINDS:  # else sounds, and graphs, which it also makes values of
                    theirs[f"{event.step} {KINDS[plugin]} {value.tag}"] = tensor_util.make_ndarray(value.tensor)
        assert list(ours) == list(theirs) and len(ours) > 10, (list(ours), list(theirs))
        for name, want in theirs.items():
            got = ours[name]
            assert got.shape == want.shape, (name, got.shape, want.shape)
            if want.dtype.kind in "OS":
                assert got.tolist() == want.tolist(), (name, got, want)
            else:
                np.testing.assert_array_equal(got.astype(want.dtype), want, name)


# --- ours, read by them ----------------------------------------------------------------------------------------------

def check_histogram(ours):
    """The buckets are those that TensorFlow makes of the same values."""
    with tf.Graph().as_default(), v1.Session() as session:
        theirs = v1.Summary.FromString(session.run(v1.summary.histogram("weights", VALUES))).value[0].histo
    assert list(theirs.bucket_limit) == list(ours.bucket_limit) and list(theirs.bucket) == list(ours.bucket)
    assert (theirs.min, theirs.max, theirs.num) == (ours.min, ours.max, ours.num)


def check_events(path):
    events = list(v1.train.summary_iterator(path))
    assert [e.WhichOneof("what") for e in events] == [
        "file_version", "session_log", "graph_def", "meta_graph_def", "summary", "summary", "summary", "session_log",
        "session_log"], events
    assert events[0].file_version == "brain.Event:2" and events[0].wall_time == 1700000000.25
    assert events[1].session_log.status == v1.SessionLog.START
    assert v1.GraphDef.FromString(events[2].graph_def).node[0].op == "NoOp"
    assert v1.MetaGraphDef.FromString(events[3].meta_graph_def).graph_def.node[0].name == "n"
    assert (events[6].step, events[6].wall_time) == (2 ** 40, 1700000000.5 + 2 ** 40)
    assert events[7].session_log.checkpoint_path == "m-20"
    assert (events[8].session_log.status, events[8].session_log.msg) == (v1.SessionLog.STOP, "done")
    check_histogram(events[4].summary.value[0].histo)
    raw = list(event_file_loader.RawEventFileLoader(path).Load())
    assert [v1.Event.FromString(r) for r in raw] == events


def check_accumulator(folder):
    everything = {kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE}
    runs = event_accumulator.EventAccumulator(folder, size_guidance=everything)
    runs.Reload()
    tags = runs.Tags()
    assert sorted(tags["scalars"]) == ["loss", "zero"], tags
    assert sorted(tags["histograms"]) == ["extremes", "nothing", "weights"], tags
    assert sorted(tags["tensors"]) == ["note", "v2/loss", "v2/picture", "v2/weights"], tags
    assert tags["graph"] and tags["meta_graph"], tags
    assert [(s.step, s.value) for s in runs.Scalars("loss")] == [(10, 0.5), (2 ** 40, 0.25)]
    assert [s.value for s in runs.Scalars("zero")] == [0, -np.inf]
    assert runs.Histograms("weights")[0].histogram_value.num == 1000
    assert runs.Histograms("nothing")[0].histogram_value.num == 0
    extremes = runs.Histograms("extremes")[0].histogram_value
    assert (extremes.num, extremes.min, extremes.max, sum(extremes.bucket)) == (3, -1e30, 1e-300, 3), extremes
    [image] = runs.Images("picture")
    assert (image.height, image.width) == (2, 3)
    assert (tf.io.decode_png(image.encoded_image_string).numpy() == PICTURE).all()
    assert runs.Graph().node[0].name == "n"
    tensors = {tag: tensor_util.make_ndarray(runs.Tensors(tag)[0].tensor_proto) for tag in tags["tensors"]}
    assert interop.same(tensors["v2/loss"], np.float32(0.5))
    rows = tensors["v2/weights"]
    counts, edges = np.histogram(VALUES, 30)
    assert rows.shape == (30, 3) and rows[:, 2].tolist() == counts.tolist()
    np.testing.assert_allclose(rows[:, :2], np.stack([edges[:-1], edges[1:]], 1), rtol=1e-12, atol=1e-12)
    assert tensors["note"].item() == b"hello"
    width, height, picture = tensors["v2/picture"].tolist()
    assert (width, height) == (b"3", b"2") and (tf.io.decode_png(picture).numpy() == PICTURE).all()
    plugins = {tag: runs.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    assert plugins == {"note": "text", "v2/loss": "scalars", "v2/picture": "images", "v2/weights": "histograms"}


def check_written(folder):
    [path] = glob.glob(folder + "/ours/*tfevents*")
    check_events(path)
    check_accumulator(folder + "/ours")


interop.serve(sys.modules[__name__])
