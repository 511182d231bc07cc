# SPDX-License-Identifier: Apache-2.0
"""Tables of tf.lookup, texts in Unicode and images: calls as in calls.py, and programs. golden_pieces.json has what
TensorFlow 2.15 gave."""
import os
import sys
import tempfile

import numpy as np

import calls
from cases import plain

_FOLDER = tempfile.mkdtemp()


def _file(name, text):
    path = os.path.join(_FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


#: Whole expressions; `L` is tf.lookup, `kv` makes an initializer of keys and values.
CALLS = [line for line in """
table.lookup(tf.constant(['a', 'z', 'c']))
table[tf.constant([['a'], ['z']])]
table.lookup(tf.constant('b'))
table.size(), table.key_dtype.name, table.value_dtype.name, table.default_value
sorted(table.export()[0].numpy().tolist())
table.lookup(tf.constant([1]))
table.lookup(tf.ragged.constant([['a'], ['q', 'b']]))
table.lookup(tf.SparseTensor([[0, 0], [1, 1]], ['a', 'x'], [2, 2])).values
table.lookup(['a', 'b'])
numbers.lookup(tf.constant(['a', 'z', 'c', 'yy', 'x1']))
numbers[tf.constant([['a', 'q']])]
numbers.size(), numbers.key_dtype.name, numbers.value_dtype.name
L.StaticVocabularyTable(kv(np.int64([10, 20]), np.int64([0, 1])), 3).lookup(tf.constant([10, 20, 30, 40, 55], tf.int64))
L.StaticVocabularyTable(kv(['a'], np.int64([0])), 3, lookup_key_dtype=tf.string).lookup(tf.constant(['q']))
L.StaticVocabularyTable(None, 3, lookup_key_dtype=tf.string).lookup(tf.constant(['q', 'w']))
L.StaticVocabularyTable(None, 3, lookup_key_dtype=tf.int64).lookup(tf.constant([5, 17], tf.int64))
L.StaticVocabularyTable(kv(['a'], np.int64([0])), 0)
L.StaticVocabularyTable(kv(['a'], np.int32([0])), 1)
L.StaticVocabularyTable(kv(['a', 'b'], np.int64([5, 3])), 2).lookup(tf.constant(['a', 'b', 'q']))
L.StaticHashTable(lines(tf.string, -2, tf.int64, -1), -1).lookup(tf.constant(['palmer', 'emerson', 'x']))
L.StaticHashTable(lines(tf.int64, -1, tf.string, -2), '?').lookup(tf.constant([2, 0, 9], tf.int64))
L.StaticHashTable(columns(tf.string, 0, tf.int64, 1), -1).lookup(tf.constant(['palmer', 'emerson', 'x']))
L.StaticHashTable(columns(tf.int64, 1, tf.string, 0), 'none').lookup(tf.constant([20, 1], tf.int64))
L.StaticHashTable(columns(tf.int64, 1, tf.string, 0, vocab_size=2), 'none').size()
L.StaticHashTable(columns(tf.string, 0, tf.string, 5), 'none')
L.StaticHashTable(L.TextFileInitializer('/nope', tf.string, 0, tf.int64, 1), -1)
L.TextFileInitializer('/nope', tf.string, -1, tf.int64, 1)
L.StaticHashTable(gaps(tf.string, -2, tf.int64, -1), -1)
L.StaticHashTable(gaps(tf.int64, -1, tf.string, -2, vocab_size=3), '?')
L.StaticHashTable(gaps(tf.string, -2, tf.int64, -1, vocab_size=2), -1).lookup(tf.constant(['emerson', 'lake', '']))
L.StaticVocabularyTable(gaps(tf.string, -2, tf.int64, -1), 1)
L.StaticHashTable(L.TextFileInitializer(nothing, tf.string, -2, tf.int64, -1), -1)
L.TextFileIndex.WHOLE_LINE, L.TextFileIndex.LINE_NUMBER
L.StaticHashTable(kv([1, 2], ['x', 'y']), 'd').lookup(tf.constant([2, 5]))
L.StaticHashTable(kv([1, 2], [1.5, 2.5]), 0.).lookup(tf.constant([2, 5]))
L.StaticHashTable(kv(np.int64([1, 2]), np.float32([1.5, 2.5])), 0.).lookup(tf.constant([2, 5], tf.int64))
L.StaticHashTable(kv(['a', 'a'], [1, 2]), 0)
L.StaticHashTable(kv(['a', 'b', 'a'], [1, 2, 1]), 0).lookup(tf.constant(['a', 'b']))
L.StaticHashTable(kv(['a', 'b'], [1]), 0)
kv(['a'], [1], key_dtype=tf.string, value_dtype=tf.int64).value_dtype.name
kv(['a'], [1]).key_dtype.name
L.experimental.MutableHashTable(tf.string, tf.int64, -1).size()
L.experimental.DenseHashTable(tf.string, tf.int64, -1, empty_key='', deleted_key='')
tf.strings.unicode_encode([97, 196, 128512], 'UTF-8')
tf.strings.unicode_encode([[97, 98], [99, -1]], 'UTF-8')
tf.strings.unicode_encode(tf.ragged.constant([[97, 98], [99], []]), output_encoding='UTF-8')
tf.strings.unicode_encode(tf.ragged.constant([[[97], [98, 99]], [[100]]]), 'UTF-8')
tf.strings.unicode_encode([97, 98], 'UTF-16-BE')
tf.strings.unicode_transcode(['ab', 'Ä'], 'UTF-8', 'UTF-16-BE').numpy()[1].hex()
tf.strings.unicode_transcode('ab', input_encoding='UTF-8', output_encoding='UTF-32-BE').numpy().hex()
tf.strings.unicode_transcode(tf.constant([b'\xff a']), 'UTF-8', 'UTF-8')
tf.strings.unicode_transcode(['aÄ'], 'UTF8', 'UTF-16-BE').numpy()[0].hex()
tf.strings.unicode_transcode([b'a\xe4'], 'ISO-8859-1', 'UTF-8')
tf.strings.unicode_transcode([b'a\x00'], 'UTF-16LE', 'UTF-8')
tf.strings.unicode_decode_with_offsets('aÄb', 'UTF-8')
tf.strings.unicode_decode_with_offsets(['aÄb', '', 'Ä'], 'UTF-8')
tf.strings.unicode_split_with_offsets(['aÄ', 'b'], 'UTF-8')
tf.strings.ngrams(['a', 'b', 'c', 'd'], 2)
tf.strings.ngrams([['a', 'b', 'c'], ['d', 'e', 'f']], 2, separator='-')
tf.strings.ngrams(tf.ragged.constant([['a', 'b', 'c'], ['d'], []]), 2)
tf.strings.ngrams(tf.ragged.constant([['a', 'b', 'c'], ['d']]), [1, 3])
tf.strings.ngrams(tf.ragged.constant([['a', 'b', 'c'], ['d'], []]), 3, pad_values=('<', '>'))
tf.strings.ngrams(tf.ragged.constant([['a', 'b', 'c'], ['d']]), 3, pad_values='$', padding_width=1)
tf.strings.ngrams(tf.ragged.constant([['a', 'b', 'c'], ['d'], []]), 2, preserve_short_sequences=True)
tf.strings.ngrams(['a'], 0)
tf.strings.ngrams(['a'], 2, padding_width=1)
tf.sequence_mask([1, 3, 2], 5)
tf.sequence_mask([[1, 3], [2, 0]])
tf.sequence_mask([2, 0], maxlen=3, dtype=tf.float32)
tf.sequence_mask(tf.constant([2], tf.int64))
tf.repeat(['a', 'b', 'c'], [3, 0, 2])
tf.repeat([[1, 2], [3, 4]], 2)
tf.repeat([[1, 2], [3, 4]], repeats=[2, 3], axis=0)
tf.repeat([[1, 2], [3, 4]], [2, 3], axis=-1)
tf.repeat(3, 4)
tf.repeat([1, 2, 3], [1, 2])
tf.roll([0, 1, 2, 3, 4], 2, 0)
tf.roll([[0, 1, 2], [3, 4, 5]], [1, -1], [0, 1])
tf.roll([[0, 1, 2], [3, 4, 5]], shift=1, axis=-1)
tf.searchsorted([1, 3, 5], [0, 3, 9])
tf.searchsorted([[1.0, 3.0], [2.0, 4.0]], [[3.0], [3.0]], side='right')
tf.searchsorted([1, 2], [1], out_type=tf.int64)
tf.searchsorted([1, 2], [1], side='middle')
tf.reverse_sequence([[1, 2, 3, 4], [5, 6, 7, 8]], [2, 4], seq_axis=1)
tf.reverse_sequence([[1, 2], [3, 4], [5, 6]], [3, 1], seq_axis=0, batch_axis=1)
tf.math.segment_sum([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 0, 2])
tf.math.segment_mean([1.0, 2.0, 6.0], [0, 0, 2])
tf.math.segment_max([1, -2, 6], [0, 0, 2])
tf.math.segment_min([[1, -2], [6, 7]], [1, 1])
tf.math.segment_prod([1.0, 2.0, 6.0], [0, 0, 2])
tf.math.segment_sum([1, 2], [1, 0])
tf.math.unsorted_segment_mean([1.0, 2.0, 6.0], [2, 0, 2], 4)
tf.math.unsorted_segment_max([1, 2, 6], [2, 0, 2], 3)
tf.math.unsorted_segment_min([1.0, 2.0, 6.0], [2, 0, 2], num_segments=4)
tf.math.unsorted_segment_prod([1.0, 2.0, 6.0], [2, 0, 2], 4)
tf.math.unsorted_segment_sqrt_n([1.0, 2.0, 6.0], [2, 0, 2], 4)
tf.dynamic_partition([10, 20, 30, 40], [1, 0, 1, 2], 4)
tf.dynamic_partition([[1, 2], [3, 4]], [1, 1], 2)
tf.dynamic_partition([1, 2], [1, 2], 2)
tf.dynamic_stitch([[0, 2], [1]], [[10, 30], [20]])
tf.dynamic_stitch([0, [1, 2]], [[1.0, 2.0], [[3.0, 4.0], [5.0, 6.0]]])
tf.math.bincount([1, 1, 2, 3, 2, 1])
tf.math.bincount([1, 1, 4], weights=[0.5, 1.0, 2.0])
tf.math.bincount([1, 9], minlength=4, maxlength=6)
tf.math.bincount([[1, 1], [2, 0]], axis=-1)
tf.math.bincount([[1, 1], [2, 0]], axis=-1, binary_output=True, minlength=5, dtype=tf.int64)
tf.math.bincount([-1])
tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5)
tf.histogram_fixed_width([1.0], [5.0, 0.0])
tf.unique_with_counts([1, 1, 2, 4, 4, 4, 7, 8, 8])
tf.unique_with_counts(['a', 'b', 'a'], out_idx=tf.int64)
I.resize(photo, [3, 7])
I.resize(photos, (2, 2), method='nearest')
I.resize(photo, [4, 6])
I.resize(photo, [8, 9], method=I.ResizeMethod.BICUBIC)
I.resize(photo, [3, 3], 'area')
I.resize(photo, [2, 30], preserve_aspect_ratio=True)
I.resize(photo, [1, 2, 3])
I.resize([1.0, 2.0], [2, 2])
I.resize(photo, [2, 2], method='none')
I.flip_left_right(photo)
I.flip_up_down(photos)
I.transpose(photos)
I.rot90(photo)
I.rot90(photos, 2)
I.rot90(photo, k=3)
I.central_crop(photo, 0.5)
I.central_crop(photos, 1.0)
I.central_crop(photo, 1.5)
I.crop_to_bounding_box(photo, 1, 2, 2, 3)
I.crop_to_bounding_box(photo, 3, 2, 2, 3)
I.pad_to_bounding_box(photo, 1, 2, 6, 9)
I.pad_to_bounding_box(photo, 1, 2, 4, 9)
I.resize_with_crop_or_pad(photo, 2, 9)
I.resize_with_crop_or_pad(photos, 5, 3)
I.resize_with_pad(photo, 8, 8)
I.random_crop(photo, [4, 6, 3])
I.random_crop(photo, [2, 3, 3]).shape.as_list()
I.random_crop(photo, [5, 6, 3])
I.random_flip_left_right(photos[:, :, :1])
I.random_flip_up_down(photo[:1])
I.convert_image_dtype(photo, tf.float32)
I.convert_image_dtype(tf.constant([0.0, 0.5, 1.0, 1.5]), tf.uint8, saturate=True)
I.convert_image_dtype(tf.constant([0.0, 0.25, 1.0]), tf.int32)
I.convert_image_dtype(tf.constant([0.25], tf.float64), tf.float32)
I.per_image_standardization(photo)
I.per_image_standardization(photos)
I.per_image_standardization(tf.ones([2, 2, 1]))
I.rgb_to_grayscale(photo)
I.rgb_to_grayscale(photos)
I.grayscale_to_rgb(photos[..., :1])
I.adjust_brightness(photo, 0.1)
I.adjust_brightness(photos, delta=-0.5)
I.adjust_contrast(photo, 2.0)
I.adjust_contrast(photos, 0.5)
I.random_brightness(photos, 0.0)
I.random_brightness(photos, -1.0)
I.random_contrast(photos, 2.0, 1.0)
I.total_variation(photos)
""".strip().splitlines()]


def named(tf):
    lookup = tf.lookup
    initializer = lookup.KeyValueTensorInitializer
    lines, columns = _file("lines", "emerson\nlake\npalmer\n"), _file("columns", "emerson 10\nlake 20\npalmer 30\n")
    gaps = _file("gaps", "emerson\nlake\n\r\npalmer\n")
    photo = (np.arange(72).reshape(4, 6, 3) * 7 % 256).astype(np.uint8)
    return {"I": tf.image, "photo": tf.constant(photo), "photos": tf.constant(np.stack([photo, photo[::-1]]) / np.float32(16)),
            "L": lookup, "kv": initializer, "table": lookup.StaticHashTable(initializer(["a", "b", "c"], [7, 8, 9]), -1),
            "numbers": lookup.StaticVocabularyTable(initializer(["a", "b", "c"], np.int64([0, 1, 2])), 5),
            "lines": lambda *kinds: lookup.TextFileInitializer(lines, *kinds),
            "nothing": _file("nothing", ""), "gaps": lambda *kinds, **more: lookup.TextFileInitializer(gaps, *kinds, **more),
            "columns": lambda *kinds, **more: lookup.TextFileInitializer(columns, *kinds, delimiter=" ", **more)}


PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def tables_in_functions(tf):
    given = named(tf)
    table, numbers = given["table"], given["numbers"]

    @tf.function
    def both(keys):
        return table.lookup(keys), numbers.lookup(keys)

    words = tf.data.Dataset.from_tensor_slices(["a", "z", "b"])
    return [both(tf.constant(["a", "z"])), list(words.map(lambda word: (table.lookup(word), numbers.lookup(word)))),
            list(words.batch(2).map(numbers.lookup))]


@program
def segments_in_functions(tf):
    x = tf.Variable([[1.0, 2.0], [3.0, 5.0], [4.0, 6.0]])

    @tf.function
    def several(ids, lengths):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(tf.math.segment_mean(x, ids) ** 2) + tf.reduce_sum(tf.repeat(x, 2, axis=0)[0])
        counts = tf.unique_with_counts(ids)
        return (total, tape.gradient(total, x), tf.sequence_mask(lengths), tf.dynamic_partition(x, ids, 2), counts,
                tf.roll(x, 1, 0), tf.math.segment_sum(x, ids))

    return [several(tf.constant([0, 0, 1]), tf.constant([1, 3])), several(tf.constant([0, 1, 1]), tf.constant([2, 0]))]


@program
def feature_spaces(tf):
    space, found = tf.keras.utils.FeatureSpace, {}
    rows = {"age": [20.0, 35.0, 41.0, 60.0, 33.0, 52.0], "fee": [1.0, 2.0, 5.0, 3.0, 3.0, 4.0], "rate": [0.5, 1.0, 2.0, 0.1, 3.0, 4.0],
            "sex": [0, 1, 1, 0, 1, 0], "code": [7, 1000, 7, 12, 5, 12], "kind": ["a", "b", "a", "c", "b", "a"],
            "city": ["x", "y", "z", "x", "y", "q"], "raw": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    rows = {name: np.array(values, np.float32 if isinstance(values[0], float) else np.int64 if isinstance(
        values[0], int) else object) for name, values in rows.items()}
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    features = {"age": space.float_discretized(3), "fee": "float_normalized",
                "rate": space.float_rescaled(scale=2.0, offset=1.0), "sex": "integer_categorical",
                "code": space.integer_hashed(5), "kind": space.string_categorical(num_oov_indices=0),
                "city": space.string_hashed(num_bins=4), "raw": "float"}
    whole = space(features, crosses=[("sex", "kind"), space.cross(("age", "city"), crossing_dim=8)], crossing_dim=6)
    whole.adapt(dataset.batch(2))
    found["whole"] = whole({name: tf.constant(values) for name, values in rows.items()})
    found["one"] = whole({name: tf.constant(values)[1] for name, values in rows.items()})
    found["mapped"] = list(dataset.batch(4).map(whole))
    found["inputs"] = sorted(whole.get_inputs())
    found["encoded"] = list(whole.get_encoded_features().shape)
    parts = space({"sex": space.integer_categorical(output_mode="int"), "kind": "string_categorical", "raw": "float"},
                  output_mode="dict", crosses=[space.cross(("sex", "kind"), 10, output_mode="int")])
    parts.adapt(dataset)
    found["parts"] = parts({name: tf.constant(rows[name]) for name in ("sex", "kind", "raw")})
    found["own"] = space({"x": space.feature("float32", tf.keras.layers.Rescaling(3.0), "float")})({"x": [1.0, 2.0]})
    found["wrong"] = [caught(lambda: space({})), caught(lambda: space({"x": "number"})), caught(
        lambda: space({"x": "float"}, crosses=[("x", "y")])), caught(lambda: space({"x": "float"}, output_mode="list")), caught(
            lambda: space({"x": "float_normalized"})({"x": [1.0]})), caught(lambda: whole([1])), caught(
                lambda: space({"x": space.float_discretized(None, [0.0], output_mode="int")})({"x": [1.0]})), caught(
                    lambda: space.float_discretized(3, bin_boundaries=[30.0, 50.0])), caught(
                    lambda: space.feature("float32", None, "many")), caught(lambda: space({"x": "float"}).adapt([1]))]
    return found


@program
def models_from_within(tf):
    """A model whose input is what a layer of another one gives."""
    layers = tf.keras.layers
    whole = layers.Input((3,))
    middle = layers.Dense(4, "relu", kernel_initializer="ones")(whole)
    last = layers.Dense(2, kernel_initializer="ones", name="last")(middle * 2.0)
    model, rest = tf.keras.Model(whole, last), tf.keras.Model(middle, last)
    found = [rest.predict(np.ones((2, 4)), verbose=0), list(rest.input_shape), rest.layers[-1].name]
    rest.compile("sgd", "mse")
    rest.fit(np.ones((4, 4)), np.zeros((4, 2)), verbose=0)
    return found + [model.predict(np.ones((2, 3)), verbose=0), len(rest.trainable_variables)]


@program
def images_in_functions(tf):
    @tf.function
    def prepared(image):
        image = tf.image.convert_image_dtype(image, tf.float32)
        return tf.image.per_image_standardization(tf.image.resize(image, [3, 5])), tf.image.central_crop(image, 0.5)

    photo = named(tf)["photo"]
    path = _file("note.txt", "as bytes")
    read = tf.data.Dataset.from_tensor_slices([path]).map(tf.io.read_file)
    return [prepared(photo), list(tf.data.Dataset.from_tensors(photo).map(prepared)), list(read),
            list(tf.data.Dataset.from_tensors(photo).map(lambda image: tf.image.resize(image, [2, 2])).batch(1))]


def caught(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__


@program
def grouped_datasets(tf):
    dataset, found = tf.data.Dataset, {}
    words = ["a", "bb", "ccc", "dd", "e", "ffff", "gg", "hhhhh", "i"]
    lengths = [1, 2, 3, 2, 1, 4, 2, 5, 1]

    def elements():
        for word, length in zip(words, lengths):
            yield np.arange(length, dtype=np.int32) + 1, word

    rows = dataset.from_generator(elements, output_signature=(tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.string)))
    numbers = dataset.range(10)
    found["group"] = list(numbers.group_by_window(lambda n: n % 2, lambda key, group: group.batch(3), window_size=3))
    found["sizes"] = list(numbers.group_by_window(lambda n: n % 3, lambda key, group: group.map(lambda n: n * 10),
                                                  window_size_func=lambda key: (key + 1) * 2))
    found["applied"] = list(numbers.apply(tf.data.experimental.group_by_window(
        lambda n: n % 2, lambda key, group: group.batch(10), 10)))

    def bucket(**more):
        return list(rows.bucket_by_sequence_length(lambda numbers, word: tf.shape(numbers)[0], [2, 4], [2, 3, 2], **more))

    found["bucket"] = bucket()
    found["dropped"] = bucket(drop_remainder=True)
    found["valued"] = bucket(padding_values=(-1, "?"), padded_shapes=([None], []))
    short = rows.filter(lambda numbers, word: tf.shape(numbers)[0] < 4)
    found["boundary"] = list(short.bucket_by_sequence_length(lambda numbers, word: tf.shape(numbers)[0], [2, 5], [2, 3, 2],
                                                             pad_to_bucket_boundary=True))
    found["too_long"] = caught(lambda: bucket(pad_to_bucket_boundary=True))
    same = dataset.from_tensor_slices([[1, 2], [3, 4], [5, 6]])
    found["no_padding"] = list(same.bucket_by_sequence_length(lambda row: tf.shape(row)[0], [2], [2, 2], no_padding=True))
    found["wrong"] = [caught(lambda: rows.bucket_by_sequence_length(lambda numbers, word: 1, [2, 4], [2, 3])),
                      caught(lambda: numbers.group_by_window(lambda n: n, lambda key, group: group))]
    return found


@program
def padded_batches(tf):
    dataset, found = tf.data.Dataset, {}
    rows = dataset.range(1, 6).map(lambda n: {"n": tf.fill([n], n), "text": tf.strings.as_string(n)})
    found["values"] = list(rows.padded_batch(2, {"n": [None], "text": []}, {"n": np.int64(-1), "text": "?"}))
    found["fixed"] = list(rows.padded_batch(3, padded_shapes={"n": [6], "text": []}, drop_remainder=True))
    found["plain"] = list(rows.padded_batch(4))
    found["spec"] = [list(spec.shape) for _, spec in sorted(rows.padded_batch(
        3, padded_shapes={"n": [6], "text": []}, drop_remainder=True).element_spec.items())]
    found["small"] = caught(lambda: list(rows.padded_batch(3, padded_shapes={"n": [2], "text": []})))
    found["rank"] = caught(lambda: rows.padded_batch(3, padded_shapes={"n": [2, 2], "text": []}))
    found["dtype"] = caught(lambda: rows.padded_batch(3, {"n": [None], "text": []}, {"n": np.float32(1), "text": ""}))
    texts = dataset.from_tensor_slices(["a b", "c"]).map(lambda text: tf.strings.split(text))
    found["texts"] = list(texts.padded_batch(2, [None], padding_values="-"))
    return found


@program
def saved_datasets(tf):
    folder = os.path.join(tempfile.mkdtemp(), "kept")
    rows = tf.data.Dataset.from_tensor_slices(({"x": [1.0, 2.0, 3.0], "w": ["a", "b", "c"]}, [0, 1, 0]))
    rows.save(folder)
    loaded = tf.data.Dataset.load(folder)
    return [list(loaded.batch(2)), list(tf.data.experimental.load(folder)), caught(
        lambda: list(tf.data.Dataset.load(os.path.join(folder, "none"))))]


@program
def tables_that_change(tf):
    found = []
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    found += [table.lookup(tf.constant(["a", "q"])), table.size(), table[tf.constant("b")],
              table.lookup(tf.constant(["a", "q"]), tf.constant([5, 6], tf.int64))]
    table.remove(tf.constant(["a"]))
    found += [part.numpy().tolist() for part in table.export()]

    @tf.function
    def look(keys):
        return table.lookup(keys) + 1

    found.append(look(tf.constant(["a", "b"])))
    dense = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, default_value=-1, empty_key="", deleted_key="$")
    dense.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    dense.erase(tf.constant(["a"]))
    dense.insert_or_assign(tf.constant(["c"]), tf.constant([4], tf.int64))
    found += [dense.lookup(tf.constant(["a", "b", "c"])), dense.size()]
    pairs = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, [0.0, 0.0], empty_key=-1, deleted_key=-2)
    pairs.insert(tf.constant([1], tf.int64), [[1.0, 2.0]])
    found.append(pairs.lookup(tf.constant([1, 5], tf.int64)))
    for wrong in (lambda: dense.insert(tf.constant([""]), tf.constant([1], tf.int64)),
                  lambda: table.insert(tf.constant(["x"]), tf.constant([3])),
                  lambda: table.insert(tf.constant(["x"]), tf.constant([3, 4], tf.int64))):
        try:
            wrong()
            found.append("no error")
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            found.append(type(error).__name__)
    return found


def results(tf):
    found = calls.results(tf, CALLS, **named(tf))
    return {**found, **{name: plain(function(tf)) for name, function in PROGRAMS.items()}}


if __name__ == "__main__":
    calls.write(results, sys.argv[1])
