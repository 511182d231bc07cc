# SPDX-License-Identifier: Apache-2.0
"""Cases of keras_cases.py: layers that change shapes, images, and one formula each."""
import numpy as np

from keras_cases import case


def pictures(n=2, rows=4, columns=5, channels=2):
    return np.random.RandomState(4).rand(n, rows, columns, channels).astype(np.float32)


def refusals(tf, **calls):
    found = {}
    for name, call in calls.items():
        try:
            found[name] = call()
        except (ValueError, TypeError, NotImplementedError) as error:
            found[name] = type(error).__name__
    return found


def set_weights(layer):
    random = np.random.RandomState(5)
    layer.set_weights([(random.randn(*w.shape) * 0.3).astype(w.dtype) for w in layer.get_weights()])


@case
def layers_of_shapes(tf):
    layers, x = tf.keras.layers, pictures()
    steps, volume = x[:, :, :, 0], x[:, :, :, :, None].repeat(2, -1)
    found = {"permute": layers.Permute((2, 1, 3))(x), "pad1": layers.ZeroPadding1D((1, 2))(steps),
             "pad1_one": layers.ZeroPadding1D(2)(steps), "pad2": layers.ZeroPadding2D(((1, 0), (2, 1)))(x),
             "pad2_two": layers.ZeroPadding2D((1, 2))(x), "pad3": layers.ZeroPadding3D((1, 0, 1))(volume),
             "crop1": layers.Cropping1D((1, 0))(steps), "crop1_default": layers.Cropping1D()(steps),
             "crop2": layers.Cropping2D(((1, 0), (2, 1)))(x), "crop2_default": layers.Cropping2D()(x),
             "crop3": layers.Cropping3D(((1, 1), (2, 0), (0, 1)))(volume),
             "up1": layers.UpSampling1D(3)(steps), "up2": layers.UpSampling2D((2, 3))(x),
             "up3": layers.UpSampling3D((1, 2, 2))(volume)}
    for method in ("nearest", "bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
        found[method] = layers.UpSampling2D((2, 3), interpolation=method)(x)
    found["identity"] = layers.Identity()(x[:1, :1])
    inputs = tf.keras.Input((None, None, 2))
    model = tf.keras.Model(inputs, layers.ZeroPadding2D()(layers.UpSampling2D()(inputs)))
    found["unknown"] = [list(model.output_shape), model(x)]
    found["wrong"] = refusals(tf, permute=lambda: layers.Permute((0, 1)), crop=lambda: layers.Cropping1D(3)(steps),
                              pad=lambda: layers.ZeroPadding2D((1, 2, 3)))
    return found


@case
def gradients_of_shapes(tf):
    layers, x = tf.keras.layers, tf.constant(pictures())
    found = {}
    for layer in (layers.Permute((3, 1, 2)), layers.ZeroPadding2D(), layers.Cropping2D(1), layers.UpSampling2D(),
                  layers.UpSampling2D(2, interpolation="bilinear"), layers.Resizing(3, 4), layers.ELU(), layers.PReLU()):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(layer(x - 0.5) ** 3)
        found[type(layer).__name__ + getattr(layer, "interpolation", "")] = tape.gradient(y, x)
    return found


@case
def layers_of_images(tf):
    layers, x = tf.keras.layers, pictures(2, 6, 7, 3) * 255
    found = {}
    for method in ("nearest", "bilinear", "bicubic", "area", "lanczos3", "gaussian"):
        found[method] = [layers.Resizing(4, 9, interpolation=method)(x), layers.Resizing(11, 3, interpolation=method)(x[0])]
    found["ratio"] = [layers.Resizing(3, 5, crop_to_aspect_ratio=True)(x), layers.Resizing(5, 3, crop_to_aspect_ratio=True)(x)]
    found["crop"] = [layers.CenterCrop(3, 4)(x), layers.CenterCrop(4, 3)(x[0]), layers.CenterCrop(8, 4)(x)]
    found["whole"] = layers.Resizing(3, 3)(x.astype(np.uint8))
    found["map"] = [row for row in tf.data.Dataset.from_tensor_slices(x).map(layers.Resizing(2, 3)).batch(2)]
    dynamic = tf.function(lambda x: layers.Resizing(3, 9)(x), input_signature=[tf.TensorSpec([None, None, None, 3])])
    found["dynamic"] = dynamic(tf.constant(x))
    for name, layer in (("crop", layers.CenterCrop(3, 4)), ("more", layers.CenterCrop(8, 4)), ("wide", layers.CenterCrop(3, 9)),
                        ("ratio", layers.Resizing(3, 5, crop_to_aspect_ratio=True))):
        inputs = tf.keras.Input((None, None, 3))
        model = tf.keras.Model(inputs, layer(inputs))
        found[f"dynamic {name}"] = [list(model.output_shape), model(x)]
    return found


@case
def images_at_random(tf):
    """Of ranges with one value, and what training does."""
    layers, x = tf.keras.layers, pictures(2, 6, 7, 2) * 255
    found = {}
    for fill in ("reflect", "wrap", "nearest", "constant"):
        for method in ("bilinear", "nearest"):
            # turned by less than what makes a difference of rounding the nearest pixel another one
            found[f"{fill} {method}"] = [
                layers.RandomRotation((0.13, 0.13), fill, method, fill_value=7.0)(x),
                layers.RandomZoom((0.27, 0.27), (-0.31, -0.31), fill, method, fill_value=7.0)(x),
                layers.RandomZoom((0.53, 0.53), fill_mode=fill, interpolation=method)(x[0]),
                layers.RandomTranslation((0.21, 0.21), (-0.37, -0.37), fill, method, fill_value=7.0)(x),
                layers.RandomTranslation((-0.9, -0.9), (0.8, 0.8), fill, method)(x)]
    found["size"] = [layers.RandomHeight((0.5, 0.5))(x), layers.RandomWidth((-0.4, -0.4))(x[0]),
                     layers.RandomWidth((0.3, 0.3), "nearest")(x)]
    found["light"] = [layers.RandomBrightness((0.2, 0.2))(x), layers.RandomBrightness((-0.6, -0.6), (0, 300))(x[0])]
    found["crop"] = [layers.RandomCrop(6, 7)(x), list(layers.RandomCrop(3, 2)(x).shape), layers.RandomCrop(3, 2)(
        x, training=False)]
    for layer in (layers.RandomFlip(), layers.RandomFlip("horizontal"), layers.RandomRotation(0.2), layers.RandomZoom(0.2),
                  layers.RandomTranslation(0.2, 0.2), layers.RandomContrast(0.2), layers.RandomBrightness(0.2),
                  layers.RandomHeight(0.2), layers.RandomWidth(0.2)):
        off = layer(x, training=False)
        model = tf.keras.Sequential([layer])
        found[f"{type(layer).__name__} off"] = [bool((np.asarray(off) == x).all()),
                                                bool((model.predict(x, verbose=0) == x).all()),
                                                list(layer(x).shape)[::3]]
    flipped = np.asarray(layers.RandomFlip("horizontal_and_vertical")(x.repeat(40, 0)))
    variants = [x[:1], x[:1, ::-1], x[:1, :, ::-1], x[:1, ::-1, ::-1]]
    found["flips"] = [any((image == variant[0]).all() for image in flipped) for variant in variants]
    found["wrong"] = refusals(tf, mode=lambda: layers.RandomFlip("up"), fill=lambda: layers.RandomRotation(0.1, "none"),
                              zoom=lambda: layers.RandomZoom(-2.0), contrast=lambda: layers.RandomContrast(-1.0))
    return found


class _Training:
    """Layers that tell how they were called."""

    def __init__(self, tf):
        class Told(tf.keras.layers.Layer):
            def call(self, x, training=True):
                return x + (1.0 if training else 0.0)

        class Asked(tf.keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.inner = Told()

            def call(self, x, training=None):
                return self.inner(x)

        self.told, self.asked = Told, Asked


@case
def training_by_default(tf):
    kinds, x = _Training(tf), np.zeros((1, 2), np.float32)
    told, asked = kinds.told(), kinds.asked()
    model = tf.keras.Sequential([kinds.told()])
    inputs = tf.keras.Input((2,))
    functional = tf.keras.Model(inputs, kinds.told()(inputs))
    return [layer(x) for layer in (told, asked, model, functional)] + [
        layer(x, training=False) for layer in (told, asked, model, functional)] + [
        layer.predict(x, verbose=0) for layer in (model, functional)]


@case
def layers_of_one_formula(tf):
    layers, x = tf.keras.layers, (pictures() - 0.4) * 8
    found = {"elu": layers.ELU(0.7)(x), "thresholded": layers.ThresholdedReLU(0.5)(x),
             "relu": [layers.ReLU()(x), layers.ReLU(2.0)(x), layers.ReLU(negative_slope=0.2)(x),
                      layers.ReLU(3.0, 0.1, 0.5)(x), layers.ReLU(threshold=1.0)(x)],
             "unit": [layers.UnitNormalization()(x), layers.UnitNormalization(axis=[1, 2])(x)]}
    prelu = layers.PReLU(alpha_initializer="ones", shared_axes=[1, 2])
    found["prelu"] = [prelu(x), [list(w.shape) for w in prelu.weights], prelu.weights[0].name.split("/")[1]]
    group = layers.GroupNormalization(2, beta_initializer="ones")
    wide = np.random.RandomState(1).randn(2, 3, 4, 6).astype(np.float32)
    found["group"] = [group(wide), [w.name for w in group.weights], layers.GroupNormalization(-1, center=False)(wide),
                      layers.GroupNormalization(3, scale=False)(wide[:, 0, 0])]
    for equation, shape, bias, value in (("abc,cd->abd", (None, 5), "d", wide[..., 0]),
                                         ("...x,xy->...y", 3, "y", wide), ("ab,bcd->acd", (2, 3), "cd", wide[:, 0, 0]),
                                         ("abc,cde->abde", (None, 2, 3), "de", wide[..., 0])):
        layer = layers.EinsumDense(equation, shape, "relu", bias, kernel_initializer="ones", bias_initializer="ones")
        found[equation] = [layer(value), [list(w.shape) for w in layer.weights]]
    found["dot"] = layers.dot([wide[:, 0, 0], wide[:, 1, 1]], axes=1)
    dense = layers.Dense(2, kernel_initializer="ones", activity_regularizer="l2")
    model = tf.keras.Sequential([dense, layers.ActivityRegularization(0.1, 0.2)])
    model(wide[:, 0, 0])
    model.compile("sgd", "mse")
    found["activity"] = [model.losses, model.evaluate(wide[:, 0, 0], np.zeros((2, 2)), verbose=0),
                         model.fit(wide[:, 0, 0], np.zeros((2, 2)), epochs=2, verbose=0).history["loss"]]
    found["integers"] = layers.Dense(1, kernel_initializer="ones")(np.arange(6).reshape(2, 3))
    return found


@case
def layers_of_noise(tf):
    """What does not depend on the numbers that are drawn."""
    layers, x = tf.keras.layers, np.ones((50, 20, 8), np.float32)
    image = x[:, :, None, :].repeat(3, 2)
    found = {}
    for layer, value in ((layers.SpatialDropout1D(0.3), x), (layers.SpatialDropout2D(0.3), image),
                         (layers.SpatialDropout3D(0.3), image[:, None])):
        y = np.asarray(layer(value, training=True)).reshape(50, -1, 8)
        kept = (y > 0).mean()
        found[type(layer).__name__] = [bool((y == y[:, :1]).all()), sorted(set(np.round(y.ravel(), 4).tolist())),
                                       bool(0.6 < kept < 0.8), bool((np.asarray(layer(value)) == value).all())]
    for layer in (layers.GaussianNoise(0.5), layers.GaussianDropout(0.2), layers.AlphaDropout(0.3)):
        y = np.asarray(layer(x, training=True))
        found[type(layer).__name__] = [bool((np.asarray(layer(x)) == x).all()), bool(0.3 < y.std() < 1.2)]
    y = np.asarray(layers.AlphaDropout(0.3)(x, training=True))
    found["values"] = sorted(set(np.round(y.ravel(), 4).tolist()))
    return found


@case
def convolutions_with_gaps(tf):
    def called(layer, x):
        layer(x)
        set_weights(layer)
        return layer(x)

    layers, x = tf.keras.layers, pictures(2, 7, 6, 3)
    steps = x[:, :, 0]
    found = {}
    for padding in ("valid", "same"):
        found[padding] = [called(layers.Conv2D(2, 3, padding=padding, dilation_rate=2, activation="relu"), x),
                          called(layers.Conv2D(2, (2, 3), padding=padding, dilation_rate=(3, 1), use_bias=False), x),
                          called(layers.Conv1D(2, 3, padding=padding, dilation_rate=2), steps)]
    found["causal"] = called(layers.Conv1D(4, 2, padding="causal", dilation_rate=3), steps)
    model = tf.keras.Sequential([layers.Conv2D(2, 3, dilation_rate=2, input_shape=(7, 6, 3)), layers.Flatten(),
                                 layers.Dense(1)])

    set_weights(model)
    model.compile("sgd", "mse")
    found["fit"] = [model.fit(x, np.ones((2, 1)), epochs=2, verbose=0).history["loss"], model.get_weights()]
    found["transposed"] = [called(layers.Conv1DTranspose(2, 3, strides=2), steps),
                           called(layers.Conv1DTranspose(2, 4, strides=2, padding="same", activation="tanh"), steps)]
    for padding in ("valid", "same"):
        found[f"each {padding}"] = [
            called(layers.DepthwiseConv1D(3, padding=padding, depth_multiplier=2), steps),
            called(layers.SeparableConv1D(4, 3, strides=2, padding=padding), steps)]
    found["softmax"] = [layers.Softmax(axis=1)(x), layers.Softmax(axis=[1, 2])(x)]
    y = np.asarray(layers.Dropout(0.5, noise_shape=(None, 1, 1, None))(np.ones((20, 2, 3, 8), np.float32), training=True))
    found["dropout"] = [bool((y == y[:, :1, :1]).all()), sorted(set(y.ravel().tolist()))]
    return found


@case
def what_layers_expect(tf):
    layers = tf.keras.layers

    class Strict(layers.Layer):
        def __init__(self, spec):
            super().__init__()
            self.input_spec = spec

        def call(self, x):
            return x

    class Twice(layers.Wrapper):
        def call(self, x):
            return self.layer(self.layer(x))

    spec, x = layers.InputSpec, np.ones((2, 3), np.float32)
    found = refusals(tf, **{name: lambda given=given: Strict(given)(x) for name, given in {
        "rank": spec(ndim=3), "right": spec(ndim=2, axes={-1: 3}), "axis": spec(axes={-1: 4}), "min": spec(min_ndim=3),
        "max": spec(max_ndim=1), "shape": spec(shape=(None, 4)), "fits": spec(shape=(None, 3)),
        "dtype": spec(dtype="int32")}.items()})
    wrapped = Twice(layers.Dense(3, kernel_initializer="ones"))
    aliases = [layers.Convolution1DTranspose, layers.Convolution2D, layers.GlobalAvgPool1D, layers.GlobalMaxPool1D,
               layers.SeparableConvolution1D, layers.SeparableConvolution2D]
    found["aliases"] = [kind.__name__ for kind in aliases]
    return {**found, "text": repr(spec(shape=(None, 3), dtype="float32")), "wrapped": wrapped(x),
            "weights": [list(w.shape) for w in wrapped.weights]}
