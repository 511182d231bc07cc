# SPDX-License-Identifier: Apache-2.0
"""What guides on tensors, functions, datasets and preprocessing use: calls as in calls.py, and programs that take `tf`
and return what can be compared. golden_core.json has what TensorFlow 2.15 gave."""
import sys

import numpy as np

import calls
from cases import plain

#: Arguments of each function; under "" whole expressions.
TABLE = {
    "einsum": (
        "'ij,jk->ik',f,f.T ; 'ij,kj',f,f ; 'ij->ji',f ; 'ij->',f ; 'ij,ij->i',f,f ; 'bij,bjk->bik',f3,np.ones((2,4,5),"
        "np.float32) ; '...ij,jk->...ik',f3,np.ones((4,2),np.float32) ; 'i,j->ij',T([1.,2.]),T([3.,4.,5.]) ; "
        "'ij,jk,kl->il',f,f.T,f ; 'ij , jk -> ik',i,i.T ; 'ij,jk->ij',f,f.T ; 'ij,j',f,T([1.,2.,3.,4.]) ; "
        "'abc,cd->abd',f3,np.eye(4,dtype=np.float32) ; 'ij,jk->iq',f,f.T ; 'ij',f3 ; 'ij,ij->ij',f ; "
        "'...a,...a->...',f3,f3 ; 'ij,ij->ij',f,f ; equation='ij->i' ; 'ii->i',f[:,:3] ; 'ii',f[:,:3] ; 'bxby->bxy',np.arange(36.).reshape(2,3,2,3) ; "
        "'ii,ij->j',f[:,:3],f ; 'ij,ij',f,f"),
    "tensordot": (
        "f,f.T,1 ; f3,f3,axes=[[1,2],[1,2]] ; f,f,2 ; [1.,2.],[3.,4.],0 ; a=f,b=f,axes=[[1],[1]] ; f3,f3,[0,0]"),
    "cumsum": (
        "f ; f,1 ; f,axis=-1,exclusive=True ; f,0,reverse=True ; i,1,True,True ; [1,2,3] ; x=[5.] ; e ; d,axis=1"),
    "math.cumprod": ("f ; f,axis=1,exclusive=True ; i,axis=1,reverse=True ; [2,3,4]"),
    "linalg.diag": ("[1.,2.,3.] ; f ; [1,2]"),
    "linalg.diag_part": ("f ; f3 ; f.T ; i"),
    "linalg.trace": ("f ; f3 ; i"),
    "linalg.set_diag": ("f,[9.,8.,7.] ; f.T,[9.,8.,7.] ; f3,[[1.,2.,3.],[4.,5.,6.]]"),
    "linalg.band_part": ("f,0,0 ; f,-1,0 ; f,0,-1 ; f,1,1 ; f3,0,1"),
    "linalg.matrix_transpose": ("f ; f3"),
    "linalg.cross": ("[1.,2.,3.],[0.,1.,5.] ; f[:,:3],f[:,1:]"),
    "linalg.det": ("[[1.,2.],[3.,5.]] ; f[:,:3].astype('float64')"),
    "linalg.logdet": ("[[4.,1.],[1.,3.]]"),
    "linalg.inv": ("[[1.,2.],[3.,5.]] ; [[1.,2.],[3.,5.]],adjoint=True ; [[1.,2.],[2.,4.]]"),
    "linalg.solve": ("[[1.,2.],[3.,5.]],[[1.],[2.]] ; [[1.,2.],[3.,5.]],[[1.],[2.]],adjoint=True"),
    "linalg.triangular_solve": ("[[2.,0.],[3.,5.]],[[1.],[2.]] ; [[2.,7.],[3.,5.]],[[1.],[2.]],lower=False"),
    "linalg.lstsq": ("[[1.,2.],[3.,5.],[0.,1.]],[[1.],[2.],[3.]] ; [[1.,2.],[3.,5.]],[[1.],[2.]],l2_regularizer=0.5"),
    "linalg.cholesky": ("[[4.,1.],[1.,3.]]"),
    "linalg.eigvalsh": ("[[4.,1.],[1.,3.]]"),
    "linalg.pinv": ("[[1.,2.],[3.,5.],[0.,1.]]"),
    "linalg.svd": ("f,compute_uv=False ; f3,compute_uv=False"),
    "map_fn": (
        "lambda x: x*2,T(f) ; lambda x: tf.reduce_sum(x),f ; lambda x: x[0]+x[1],([1,2],[3,4]),fn_output_signature=tf.int32 ;"
        " lambda x: tf.cast(x,tf.float32),T([1,2]) ; lambda x: tf.cast(x,tf.float32),T([1,2]),dtype=tf.float32 ; "
        "lambda x: (x,x+1),T([1,2]),fn_output_signature=(tf.int32,tf.int32) ; lambda x: x,3.").replace(" ;\n", " ; "),
    "vectorized_map": ("lambda x: tf.reduce_max(x),f ; lambda x: x['a']+1,{'a':f}"),
    "foldl": ("lambda a,x: a+x,T([1,2,3]) ; lambda a,x: a*10+x,[1,2,3],initializer=0"),
    "foldr": ("lambda a,x: a*10+x,T([1,2,3])"),
    "scan": ("lambda a,x: a+x,T([1.,2.,3.]) ; lambda a,x: a*x,T([1,2,3]),initializer=T(5) ; "
             "lambda a,x: a+x,[1,2,3],reverse=True ; lambda a,x: (a[0]+x,a[1]-x),T([1,2]),initializer=(0,0)"),
    "cond": ("T(True),lambda: 1,lambda: 2 ; T(1.)>2.,lambda: [T(1)],lambda: [T(2)] ; T(True),1,2"),
    "case": ("[(T(False),lambda: 1),(T(True),lambda: 2)] ; [(T(False),lambda: 1)],default=lambda: 3"),
    "switch_case": ("T(1),[lambda: 1,lambda: 2] ; T(7),{0:lambda: 1,3:lambda: 4} ; T(7),[lambda: 1],default=lambda: 9 ; "
                    "T(-1),[lambda: 1,lambda: 2]"),
    "while_loop": ("lambda k: k<10,lambda k: [k+3],[T(0)] ; lambda k,s: k<3,lambda k,s: (k+1,s*2.),(0,1.) ; "
                   "lambda k: True,lambda k: [k+1],[T(0)],maximum_iterations=4"),
    "strings.lower": ("['Ab C',''] ; 'X' ; ['\u00c4B'] ; ['\u00c4B'],encoding='utf-8'"),
    "strings.upper": ("['ab c',''] ; ['\u00e4b'],'utf-8'"),
    "strings.strip": ("['  a b \t',''] ; ' x'"),
    "strings.join": ("[['a','b'],['c','d']] ; ['x',['a','b']] ; [['a'],['b']],separator='-' ; ['a','b'] ; "
                     "[[['a'],['b']],['c','d']] ; []"),
    "strings.length": ("s ; 'abc' ; ['\u00c4b'],unit='UTF8_CHAR' ; ['\u00c4b'] ; 'a',unit='WORD'"),
    "strings.substr": ("['hello','world'],1,3 ; 'hello',-3,2 ; ['hello','ab'],[1,0],[2,9] ; ['\u00c4bc'],1,1,unit='UTF8_CHAR' "
                       "; 'ab',5,1 ; input='hello',pos=1,len=1"),
    "strings.to_number": ("['1.5','-2e3'] ; '7',tf.int32 ; ['8'],out_type=tf.int64 ; 'x' ; '1.5',tf.int32"),
    "strings.split": ("'a b  c' ; 'a,b,,c',sep=',' ; 'a b c',maxsplit=1 ; ''"),
    "strings.bytes_split": ("'abc'"),
    "strings.unicode_split": ("'a\u00c4b','UTF-8' ; 'xy',input_encoding='UTF-8'"),
    "strings.unicode_decode": ("'a\u00c4','UTF-8'"),
    "strings.regex_replace": ("['a1b22'],'[0-9]+','#' ; 'aaa','a','b',replace_global=False"),
    "strings.regex_full_match": ("['abc','ab'],'a.c' ; 'x','y'"),
    "strings.reduce_join": ("[['a','b'],['c','d']] ; [['a','b'],['c','d']],axis=0 ; [['a','b'],['c','d']],1,separator='-' ; "
                            "[['a','b'],['c','d']],axis=-1,keepdims=True ; [['a','b'],['c','d']],[0,1]"),
    "io.decode_raw": ("'ab',tf.uint8 ; ['abcd','efgh'],tf.int32 ; ['abcd'],tf.int32,little_endian=False ; 'abc',tf.int32 ; "
                      "['a','bc'],tf.uint8 ; ['',''],tf.uint8"),
    "add": ("T('a'),T('b') ; T(['a','b']),T('c') ; T(['a','b']),'c'"),
}
CALLS = [f"tf.{name}({arguments})" if name else arguments
         for name, several in TABLE.items() for arguments in several.split(" ; ")]
PROGRAMS = {}


def program(function):
    def named_from_the_first(tf):
        tf.keras.backend.reset_uids()
        return function(tf)

    PROGRAMS[function.__name__] = named_from_the_first
    return function


@program
def decompositions(tf):
    """Factors are not unique: what they are of is."""
    a = tf.constant(calls.f)
    s, u, v = tf.linalg.svd(a)
    q, r = tf.linalg.qr(a)
    symmetric = tf.constant([[4.0, 1.0], [1.0, 3.0]])
    e, w = tf.linalg.eigh(symmetric)
    full = tf.linalg.svd(a, full_matrices=True)
    return {"s": s, "usv": u @ tf.linalg.diag(s) @ tf.transpose(v), "shapes": [list(x.shape) for x in (s, u, v, q, r)],
            "full": [list(x.shape) for x in full], "qr": q @ r, "e": e, "wew": w @ tf.linalg.diag(e) @ tf.transpose(w)}


@program
def algebra_in_functions(tf):
    a, b = tf.constant(calls.f), tf.constant(calls.f.T.copy())
    w = tf.Variable(calls.f)

    @tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([None, None])])
    def open_sizes(x, y):
        return tf.einsum("ij,jk->ki", x, y), tf.einsum("ij,ji->", x, y), tf.tensordot(x, y, 1)

    @tf.function
    def rest(x):
        return tf.cumsum(x, 1), tf.linalg.diag_part(x), tf.map_fn(lambda row: row[0] * row, x)

    with tf.GradientTape(persistent=True) as tape:
        product = tf.einsum("ij,kj->ik", w, w)
        running = tf.cumsum(w, 1)
        diagonal = tf.linalg.trace(w * w)
    return {"open": open_sizes(a, b), "rest": rest(a), "einsum": tape.gradient(product, w),
            "cumsum": tape.gradient(running, w), "trace": tape.gradient(diagonal, w)}


@program
def numbers_under_a_tape(tf):
    """Operations of numbers alone, beside those of tensors."""
    w = tf.Variable([1.0, 2.0])
    found = []
    for step in (1, 2):
        with tf.GradientTape() as tape:
            rate = tf.sqrt(0.25) * tf.pow(0.5, float(step))
            loss = tf.reduce_sum(tf.square(w)) * rate
        found.append(tape.gradient(loss, w))
    return found


@program
def tensor_arrays(tf):
    def raises(call):
        try:
            return plain(call())
        except Exception as error:
            return type(error).__name__

    array = tf.TensorArray(tf.float32, size=2, dynamic_size=True)
    array = array.write(0, [1.0, 2.0]).write(2, tf.constant([3.0, 4.0]))
    stacked = array.stack()
    kept = tf.TensorArray(tf.int32, size=3, clear_after_read=False).unstack([5, 6, 7])
    parts = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
    parts = parts.split(tf.constant([1.0, 2.0, 3.0]), [2, 1])
    fixed = tf.TensorArray(tf.float32, size=1)

    @tf.function
    def powers(x, n):
        found = tf.TensorArray(tf.float32, size=n)
        for i in tf.range(n):
            found = found.write(i, x ** tf.cast(i, tf.float32))
        return found.stack()

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = powers(x, 4)
    return {"stack": stacked, "size": array.size(), "gather": kept.gather([2, 0]), "read": kept.read(1),
            "concat": parts.concat(), "scatter": tf.TensorArray(tf.int32, 2).scatter([1, 0], [8, 9]).stack(),
            "twice": raises(lambda: [array.write(1, [0.0, 0.0]).read(1), array.read(1)]), "powers": y,
            "outside": raises(lambda: fixed.write(1, 1.0).stack()), "type": raises(lambda: fixed.write(0, 1).stack()),
            "wrong_type": raises(lambda: fixed.write(0, tf.constant(1)).stack()),
            "gradient": tape.gradient(y, x), "dtype": array.dtype.name}


@program
def control_in_functions(tf):
    @tf.function
    def halve(x):
        return tf.while_loop(lambda n: tf.reduce_sum(n) > 1.0, lambda n: [n / 2.0], [x])[0]

    @tf.function
    def choose(x):
        return tf.cond(x > 0.0, lambda: x * 2.0, lambda: x - 1.0)

    return {"halve": halve(tf.constant([3.0, 5.0])), "choose": [choose(tf.constant(v)) for v in (3.0, -3.0)],
            "map": [v.numpy() for v in tf.data.Dataset.range(3).map(
                lambda n: tf.cond(n > 0, lambda: n * 10, lambda: n - 1))]}


@program
def texts_in_functions(tf):
    @tf.function
    def double(a):
        return a + a

    lines = tf.data.Dataset.from_tensor_slices(["0,B a", "1,c d e", "0,"])
    words = lines.map(lambda line: tf.strings.split(tf.strings.lower(tf.strings.substr(line, 2, 99))))
    return {
        "double": double(tf.constant("a")), "again": double(tf.constant("b")), "number": double(tf.constant(2)),
        "filter": list(lines.filter(lambda line: tf.not_equal(tf.strings.substr(line, 0, 1), "0")).as_numpy_iterator()),
        "map": list(lines.map(lambda line: tf.strings.join([line, "x"], "-")).as_numpy_iterator()),
        "words": [list(found.numpy()) for found in words],
        "last": list(lines.take(2).map(lambda line: tf.strings.split(line, ",")[-1]).as_numpy_iterator()),
        "numbers": list(lines.map(lambda line: tf.strings.to_number(tf.strings.substr(line, 0, 1))).as_numpy_iterator())}


@program
def text_vectorization_in_models(tf):
    layers = tf.keras.layers
    texts = ["The cat sat", "the dog, the CAT!", "a", ""]
    found = {}
    for name, options in {"int": {}, "fixed": {"output_sequence_length": 3}, "multi_hot": {"output_mode": "multi_hot"},
                          "count": {"output_mode": "count", "pad_to_max_tokens": True, "max_tokens": 9},
                          "tf_idf": {"output_mode": "tf_idf"}, "ngrams": {"ngrams": 2, "output_sequence_length": 6},
                          "characters": {"split": "character", "output_sequence_length": 5, "standardize": "lower"},
                          "whole": {"split": None, "standardize": "strip_punctuation"}}.items():
        layer = layers.TextVectorization(**options)
        layer.adapt(texts)
        inputs = tf.keras.Input([1], dtype="string")
        outputs = layer(inputs)
        model = tf.keras.Model(inputs, tf.cast(outputs, tf.float32) * 2.0)
        rows = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(layer)
        found[name] = {"model": model.predict(np.array(texts, object)[:, None], verbose=0), "dataset": [r.numpy() for r in rows],
                       "one": layer(tf.constant("dog cat")), "shape": list(outputs.shape)}
    return found


@program
def text_models(tf):
    layers = tf.keras.layers
    texts, labels = np.array(["good film", "bad film", "good good", "bad bad"] * 4, object), np.float32([1, 0, 1, 0] * 4)
    vectorize = layers.TextVectorization(output_mode="multi_hot", vocabulary=["good", "bad", "film"])
    model = tf.keras.Sequential([tf.keras.Input([1], dtype=tf.string), vectorize, layers.Dense(1, activation="sigmoid",
                                                                                               kernel_initializer="ones")])
    model.compile(tf.keras.optimizers.SGD(1.0), "binary_crossentropy")
    dataset = tf.data.Dataset.from_tensor_slices((texts[:, None], labels)).batch(4)
    return {"losses": model.fit(dataset, epochs=3, verbose=0).history["loss"],
            "predictions": model.predict(np.array([["good"], ["bad"], ["new"]], object), verbose=0)}


@program
def array_metrics(tf):
    metrics = tf.keras.metrics
    y = np.float32([[0, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 0]])
    p = np.float32([[0.2, 0.7, 0.4], [0.6, 0.1, 0.9], [0.45, 0.3, 0.2], [0.8, 0.55, 0.5]])
    w = np.float32([1, 2, 0.5, 1])
    classes, guesses = np.array([0, 1, 2, 2, 1]), np.array([0, 2, 2, 1, 1])
    made = {
        "precision": metrics.Precision(thresholds=[0.25, 0.5, 0.75]), "recall": metrics.Recall([0.25, 0.5]),
        "precision_top": metrics.Precision(top_k=2), "recall_class": metrics.Recall(class_id=1),
        "precision_one": metrics.Precision(0.5, class_id=2), "tp": metrics.TruePositives([0.3, 0.6]),
        "fp": metrics.FalsePositives(0.45), "tn": metrics.TrueNegatives(thresholds=[0.5, 0.1]),
        "fn": metrics.FalseNegatives(), "sensitivity": metrics.SensitivityAtSpecificity(0.5),
        "specificity": metrics.SpecificityAtSensitivity(0.6, num_thresholds=11), "at_recall": metrics.PrecisionAtRecall(0.5),
        "at_precision": metrics.RecallAtPrecision(0.7), "f1": metrics.F1Score(), "f1_micro": metrics.F1Score("micro", 0.5),
        "f2": metrics.FBetaScore("weighted", 2.0), "f_macro": metrics.FBetaScore(average="macro", threshold=0.3),
        "r2": metrics.R2Score(), "r2_each": metrics.R2Score(class_aggregation=None),
        "r2_weighted": metrics.R2Score("variance_weighted_average", num_regressors=1),
        "auc_labels": metrics.AUC(multi_label=True, num_thresholds=20), "auc_weights": metrics.AUC(
            multi_label=True, num_labels=3, label_weights=[0.5, 0.3, 0.2]), "auc_minor": metrics.AUC(summation_method="minoring"),
        "auc_major": metrics.AUC(20, "PR", "majoring"), "auc_limits": metrics.AUC(thresholds=[0.3, 0.6]),
        "auc_pr": metrics.AUC(curve="PR", thresholds=[0.2, 0.5, 0.6]), "auc_logits": metrics.AUC(from_logits=True),
        "tensor": metrics.MeanTensor(), "relative": metrics.MeanRelativeError(normalizer=[1.0, 2.0, 4.0])}
    found = {}
    for name, metric in made.items():
        weighted = [{}] if name == "tensor" else [{}, {"sample_weight": w}]
        found[name] = []
        for named in weighted:
            metric.update_state(*((p,) if name == "tensor" else (y, p)), **named)
            found[name].append(metric.result())
        metric.reset_state()
        metric.update_state(*((p[:2],) if name == "tensor" and False else (p,) if name == "tensor" else (y[:2], p[:2])))
        found[name].append(metric.result())
        found[name].append(metric.name)
    for name, metric in {"iou": metrics.IoU(3, [0, 2]), "mean_iou": metrics.MeanIoU(num_classes=3),
                         "ignore": metrics.MeanIoU(3, ignore_class=2)}.items():
        metric.update_state(classes, guesses)
        found[name] = [metric.result(), metric.name]
        metric.update_state(classes, guesses, sample_weight=[1, 2, 1, 0.5, 1])
        found[name].append(metric.result())
    one_hot = metrics.OneHotMeanIoU(3)
    one_hot.update_state(y, p)
    some = metrics.OneHotIoU(3, [1])
    some.update_state(y, p)
    binary = metrics.BinaryIoU([1], threshold=0.4)
    binary.update_state(y, p)
    found.update(one_hot=one_hot.result(), some=some.result(), binary=binary.result())
    return found


@program
def array_metrics_of_models(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, activation="sigmoid", input_shape=(3,),
                                                       kernel_initializer="ones")])
    x = np.float32([[0.1, -0.5, 0.3], [-1, 0.2, 0.5], [2, -1, 0.4], [0.3, 0.1, -0.6]])
    y = np.float32([[1, 0], [0, 1], [1, 1], [0, 0]])
    model.compile(tf.keras.optimizers.SGD(0.5), "mse", metrics=[
        tf.keras.metrics.Precision(thresholds=[0.4, 0.6], name="p"), tf.keras.metrics.F1Score(name="f"), "mae"])
    history = model.fit(x, y, batch_size=4, epochs=2, verbose=0).history
    return {"history": {key: [plain(v) for v in value] for key, value in history.items()},
            "evaluate": [plain(v) for v in model.evaluate(x, y, verbose=0)]}


@program
def preprocessing_layers(tf):
    layers = tf.keras.layers
    words, numbers = np.array([["a", "b"], ["c", "z"]]), np.array([[3, 5], [7, 9]])
    texts = np.array([["a", "a", "b"], ["b", "c", "c"], ["c", "d", "a"]])
    found = {}
    lookup = layers.StringLookup(vocabulary=["a", "b", "c"], oov_token="?", mask_token="")
    found["oov"] = [lookup(words), lookup.get_vocabulary(), lookup.get_vocabulary(include_special_tokens=False)]
    found["invert"] = layers.StringLookup(vocabulary=["a", "b"], invert=True)(np.array([[0, 1], [2, 7]]))
    found["invert_int"] = layers.IntegerLookup(vocabulary=[10, 20], invert=True)(np.array([0, 1, 2]))
    found["padded"] = layers.StringLookup(vocabulary=["a", "b"], output_mode="multi_hot", max_tokens=6,
                                          pad_to_max_tokens=True)(words)
    found["idf"] = layers.StringLookup(vocabulary=["a", "b"], output_mode="tf_idf", idf_weights=[0.25, 0.75])(texts)
    adapted = layers.StringLookup(output_mode="tf_idf")
    adapted.adapt(np.array([["a", "c", "b"], ["b", "c", "e"], ["c", "d", "a"]]))
    found["idf_adapted"] = [adapted(texts), adapted.get_vocabulary()]
    found["integers"] = [layers.IntegerLookup(vocabulary=[3, 7], output_mode=mode)(numbers)
                         for mode in ("multi_hot", "count")]
    for mode in ("one_hot", "multi_hot", "count"):
        data = np.float32([[0.1], [2.5], [9.0]]) if mode == "one_hot" else np.float32([[0.1, 0.2], [2.5, 9.0]])
        found["bins_" + mode] = layers.Discretization([1.0, 3.0, 5.0], output_mode=mode)(data)
        found["hashed_" + mode] = layers.Hashing(4, output_mode=mode)(words[:, :1] if mode == "one_hot" else words)
    crossing = layers.HashedCrossing(num_bins=5)
    found["crossed"] = crossing((np.array(["a", "b", "c"]), np.array([1, 2, 3])))
    found["crossed_column"] = crossing([np.array([["a"], ["b"]]), np.array([["x"], ["y"]]), np.array([[1], [2]])])
    found["crossed_one_hot"] = layers.HashedCrossing(3, output_mode="one_hot")(
        (np.array([["a"], ["b"]]), np.array([["x"], ["y"]])))
    a, b = tf.keras.Input([1], dtype="string", name="a"), tf.keras.Input([1], dtype="int64", name="b")
    model = tf.keras.Model({"a": a, "b": b}, [layers.HashedCrossing(8)((a, b)), layers.Hashing(3, output_mode="one_hot")(a)])
    found["model"] = model.predict({"a": words[:, :1], "b": numbers[:, :1]}, verbose=0)
    found["repeat"] = layers.RepeatVector(2)(np.float32([[1, 2], [3, 4]]))
    vector = tf.keras.Sequential([layers.RepeatVector(3, input_shape=(2,)), layers.Flatten()])
    found["repeat_model"] = vector.predict(np.float32([[1, 2]]), verbose=0)
    return found


@program
def objects_of_functions(tf):
    def raises(call):
        try:
            return plain(call())
        except Exception as error:
            return type(error).__name__

    class Model(tf.Module):
        def __init__(self):
            self.scale, self.shift, self.count = 2.0, 0.0, tf.Variable(0)

    class Fruit:
        def __init__(self, flavor):
            self.flavor = tf.constant(flavor)

        def __tf_tracing_type__(self, context):
            return Kind(self)

    class Kind(tf.types.experimental.TraceType):
        def __init__(self, fruit):
            self.fruit = fruit

        def is_subtype_of(self, other):
            return type(other) is Kind

        def most_specific_common_supertype(self, others):
            return self if all(self == other for other in others) else None

        def placeholder_value(self, placeholder_context=None):
            return self.fruit

        def __eq__(self, other):
            return type(other) is Kind

        def __hash__(self):
            return 1

    traces = []

    @tf.function
    def mixed(a, b):
        traces.append(1)
        return a.flavor + b.flavor

    def apply(model, x):
        return model.scale * x + model.shift

    model, x = Model(), tf.constant(10.0)
    first = tf.function(apply).get_concrete_function(model, x)
    model.shift = 5.0
    second = tf.function(apply).get_concrete_function(model, x)
    fruits = [mixed(Fruit([1, 2]), Fruit([3, 4])), mixed(Fruit([1, 2]), Fruit([3, 4]))]
    leaked = []

    @tf.function
    def leak(a):
        leaked.append(a + 1)
        return a

    @tf.function
    def use(a):
        return a + leaked[0]

    @tf.function
    def double(a):
        return a + a

    leak(tf.constant(1))
    double(tf.constant(1)), double(tf.constant("a"))
    concrete = double.get_concrete_function(tf.constant("a"))
    return {"first": first(x), "second": second(x), "fruits": fruits, "traces": len(traces),
            "leaked": raises(lambda: use(tf.constant(2))), "text": concrete(a=tf.constant("b")),
            "trainable": [v.trainable for v in (tf.Variable(1), tf.Variable([True]), tf.Variable(1.0))],
            "variables": len(model.trainable_variables),
            "signatures": double.pretty_printed_concrete_signatures().count("TensorSpec(shape=(), dtype=tf.string")}


@program
def random_of_seeds(tf):
    random = tf.random
    g = random.Generator.from_seed(1)
    found = {"normal": g.normal([2, 3]), "uniform": g.uniform([3], 2.0, 5.0), "ints": g.uniform([5], 0, 10, tf.int32),
             "truncated": g.truncated_normal([9], 1.0, 0.5), "state": g.state.numpy()}
    found["split"] = [[child.state.numpy().tolist(), child.normal([])] for child in g.split(2)]
    found["after"] = g.state.numpy()
    g.reset_from_seed(1)
    found["again"] = g.normal([2])
    g.reset([1, 2, 3])
    found["reset"] = [g.normal([2], dtype=tf.float64), g.key]
    found["large"] = random.Generator.from_seed(2**70 + 5).uniform([2], dtype=tf.float64)
    found["seeds"] = random.Generator.from_seed(5).make_seeds(2)
    found["full"] = random.Generator.from_seed(7, alg="philox").uniform_full_int([3], tf.int32)
    found["key"] = random.Generator.from_key_counter(5, [1, 2], "philox").normal([2])
    found["wide"] = random.Generator.from_state([-1, 0, 3], 1).uniform([9])
    found["skipped"] = [g.skip(3), g.state.numpy()]
    for seed in ([1, 2], [-3, 2**40]):
        found[str(seed)] = [
            random.stateless_uniform([5], seed), random.stateless_normal([2, 2], seed, 1.0, 2.0),
            random.stateless_uniform([5], seed, 3, 50, tf.int32), random.stateless_truncated_normal([6], seed),
            random.stateless_uniform([3], seed, dtype=tf.float64), random.stateless_normal([3], seed, dtype=tf.float64),
            random.stateless_uniform([3], seed, 0, 2**40, tf.int64),
            random.stateless_uniform([3], seed, None, None, tf.int32), random.stateless_truncated_normal([3], seed, dtype=tf.float64)]
    found["seeds_of_seeds"] = [random.split([1, 2], 3), random.fold_in([1, 2], 3)]

    random.set_global_generator(random.Generator.from_seed(9, random.Algorithm.PHILOX))
    found["global"] = [random.get_global_generator().uniform([2]), random.create_rng_state(2**65 + 1, "philox")]
    drawing = random.Generator.from_seed(1)

    @tf.function
    def draw():
        return drawing.normal([])

    found["function"] = [draw(), draw()]
    return found


@program
def sparse_tensors(tf):
    sparse = tf.sparse

    def parts(value):
        return [value.indices, value.values, value.dense_shape, value.values.dtype.name, list(value.shape)]

    def raises(call):
        try:
            return plain(call())
        except Exception as error:
            return type(error).__name__

    a = tf.SparseTensor(indices=[[0, 3], [2, 4]], values=[10, 20], dense_shape=[3, 10])
    b = tf.sparse.SparseTensor([[0, 2], [2, 4]], [7, 8], [3, 10])
    mixed = tf.SparseTensor([[2, 1], [0, 3]], [1.5, 2.5], [3, 4])
    c = sparse.from_dense([[1, 0, 0, 8], [0, 0, 0, 0], [0, 0, 3, 0]])
    text = sparse.from_dense(tf.constant([["a", ""], ["", "b"]]))
    weights = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    return {
        "a": parts(a), "dense": sparse.to_dense(a), "default": sparse.to_dense(a, default_value=-1), "from": parts(c),
        "text": [parts(text), sparse.to_dense(text, default_value="z")], "add": parts(sparse.add(a, b)),
        "add_dense": sparse.add(c, tf.ones([3, 4], tf.int32)), "repr": str(a).replace(" ", ""),
        "matmul": sparse.sparse_dense_matmul(sparse.reorder(mixed), weights), "reorder": parts(sparse.reorder(mixed)),
        "transposed": sparse.sparse_dense_matmul(sparse.reorder(mixed), tf.transpose(weights[:3]), adjoint_a=True, adjoint_b=True),
        "unordered": raises(lambda: sparse.to_dense(mixed)), "outside": raises(lambda: sparse.to_dense(tf.SparseTensor([[5]], [1], [3]))),
        "concat": [parts(sparse.concat(axis=axis, sp_inputs=[c, c])) for axis in (0, 1)],
        "slice": parts(sparse.slice(c, [0, 2], [3, 5])), "transpose": parts(sparse.transpose(c)),
        "reduce": [sparse.reduce_sum(c), sparse.reduce_sum(c, 1), sparse.reduce_max(c, axis=0), sparse.reduce_max(c, 1, True)],
        "map": parts(sparse.map_values(tf.add, c, 5)), "times": parts(c * tf.constant([[1], [2], [3]])),
        "max": tf.tensor_scatter_nd_max([1, 5, 3], [[0], [1], [0]], [4, 2, 9]),
        "min": tf.tensor_scatter_nd_min([[1, 5], [3, 4]], [[0, 1], [1, 0]], [4, 2])}


@program
def small_things(tf):
    rows = tf.data.Dataset.from_tensor_slices(np.array([3, 7, 1]))
    words = tf.data.Dataset.from_tensor_slices(["a", "b"])
    found = {"format": [f"{tf.constant([1.5, 2.0])}", f"{tf.constant([b'a', b'b'])}", f"{tf.constant(1.5):.2f}", f"{tf.constant(3)}"]}
    for mode in ("multi_hot", "one_hot", "count"):
        lookup = tf.keras.layers.IntegerLookup(vocabulary=[3, 7], output_mode=mode)
        found[mode] = [row.numpy() for row in rows.map(lookup)]
        found["words_" + mode] = [row.numpy() for row in words.map(
            tf.keras.layers.StringLookup(vocabulary=["a"], output_mode=mode))]
    found["encoding"] = tf.keras.layers.CategoryEncoding(4, "one_hot")(np.int64(2))
    return found


@program
def resampled(tf):
    """Of classes that are 9 to 1 about as many are left."""
    numbers = tf.data.Dataset.range(4000).map(lambda n: {"n": n})
    found = {}
    for name, initial in (("known", [0.1, 0.9]), ("seen", None)):
        pairs = numbers.rejection_resample(lambda row: tf.cast(row["n"] % 10 != 0, tf.int32), [0.5, 0.5], initial, seed=1)
        rows = list(pairs.as_numpy_iterator())
        share = sum(int(one) for one, _ in rows) / len(rows)
        found[name] = [0.42 < share < 0.58, 500 < len(rows) < 1100, all((row["n"] % 10 != 0) == one for one, row in rows),
                       sorted(rows[0][1]), str(pairs.element_spec[0].dtype.name)]
    return found


def results(tf):
    found = calls.results(tf, CALLS)
    return {**found, **{name: plain(function(tf)) for name, function in PROGRAMS.items()}}


if __name__ == "__main__":
    calls.write(results, sys.argv[1])
