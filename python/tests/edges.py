# SPDX-License-Identifier: Apache-2.0
"""Where mistakes hide: empty and repeated elements, places out of bounds, infinities, lists in place of tensors. Calls as
in calls.py, and programs as in core.py. golden_edges.json has what TensorFlow 2.15 gave."""
import functools
import json
import os
import sys
import tempfile

import numpy as np

import calls
from cases import plain

#: What a metric gives for lists.
METRICS = {
    "AUC": ["# [0,1,1,0],[.1,.8,.4,.5]", "curve='PR',num_thresholds=5 # [0,1,1,0],[.1,.8,.4,.5],sample_weight=[1,2,1,.5]",
            "multi_label=True # [[0,1],[1,0],[1,1]],T([[.1,.8],[.4,.5],[.3,.9]])",
            "summation_method='majoring',from_logits=True # [0,1,1,0],[-.1,.8,-.4,.5]",
            "thresholds=[.3,.7] # [0,1,1],[.1,.8,.5]",
            "label_weights=[.3,.7],multi_label=True # [[0,1],[1,0],[1,1]],T([[.1,.8],[.4,.5],[.3,.9]])"],
    "Precision": ["# [0,1,1,1],[1,0,1,1]", "top_k=2 # [[0,0,1]],[[.1,.2,.3]]", "thresholds=[.2,.5] # [0,1,1,1],[.1,.5,.6,.9]"],
    "Recall": ["class_id=1 # [[0,1,1],[1,1,0]],[[.1,.2,.6],[.1,.9,.6]]",
               "top_k=1,class_id=2 # [[0,1,1],[1,1,0]],[[.1,.2,.6],[.1,.9,.6]]"],
    "FalsePositives": ["thresholds=[.1,.5] # [0,0,0,1],[0.,.3,.8,.9]"],
    "SensitivityAtSpecificity": [".5 # [0,0,0,1,1],[0,.3,.8,.3,.8]"],
    "SpecificityAtSensitivity": [".5,num_thresholds=3 # [0,0,0,1,1],[0,.3,.8,.3,.8]"],
    "PrecisionAtRecall": [".5 # [0,0,0,1,1],[0,.3,.8,.3,.8],sample_weight=[2,2,2,1,1]"],
    "RecallAtPrecision": [".8 # [0,0,1,1],[0,.5,.3,.9]"],
    "MeanIoU": ["num_classes=2 # [0,0,1,1],[0,1,0,1]", "num_classes=2 # y_true=[0,0,1,1],y_pred=[0,1,0,1],sample_weight=[.3,.3,.3,.1]",
                "num_classes=3 # (0,0,1,1),T([0,1,0,1])", "num_classes=3,ignore_class=-1 # [0,-1,1,1],[0,1,0,1]",
                "2 # (0,1),np.array([1,1])", "2 # [T(0),T(1)],[1,1]",
                *(f"num_classes=2 # {pair}" for pair in ("[0,2],[0,1]", "[0,1],[0,2]", "[0,-1],[0,1]")),
                "num_classes=2,ignore_class=255 # [0,255,1],[0,1,1]"],
    "IoU": ["num_classes=2,target_class_ids=[0] # [0,0,1,1],[0,1,0,1]"],
    "BinaryIoU": ["threshold=.3 # [0,1,0,1],[.1,.2,.4,.7]"],
    "OneHotIoU": ["num_classes=3,target_class_ids=[0,2] # [[0,0,1],[1,0,0]],[[.2,.3,.5],[.1,.2,.7]]"],
    "OneHotMeanIoU": ["num_classes=3 # [[0,0,1],[1,0,0]],[[.2,.3,.5],[.1,.2,.7]]"],
    "MeanRelativeError": ["normalizer=[1,3,2,3] # [1,3,2,3],[2,4,6,8]"],
    "F1Score": ["average='macro' # [[1,1,1],[1,0,0],[1,1,0]],[[.2,.6,.7],[.2,.6,.6],[.6,.8,0]]"],
    "FBetaScore": ["beta=2.,threshold=.5,average='weighted' # [[1,1,1],[1,0,0],[1,1,0]],[[.2,.6,.7],[.2,.6,.6],[.6,.8,0]]"],
    "R2Score": ["# [[1.],[4.],[3.]],[[2.],[4.],[4.]]"],
    "CosineSimilarity": [f"axis={axis} # [[0.,1.],[1.,1.]],[[1.,0.],[1.,3.]]" for axis in (0, 1, -1)] + [
        "axis=0 # [1.,1.],[1.,3.]", "axis=1 # [[0,1],[1,2]],[[1,0],[1,1]],sample_weight=[1,2]", "axis=[1,2] # f3,f3+1"],
    "Poisson": ["# [[0,1],[0,0]],[[1,1],[0,0]]"], "KLDivergence": ["# [[0,1],[0,0]],[[1,1],[0,0]]"],
    "LogCoshError": ["# [[0,1],[0,0]],[[1,3],[0,0]]"],
    "MeanTensor": ["# [1.,2.]", "# [3.,5.],sample_weight=[1.,0.]"],
}
#: Arguments of each function; under "" whole expressions. T is tf.constant, S tf.SparseTensor.
TABLE = {
    "io.decode_base64": ["'+/=='", "'-_8'", "'YQ=='", "'YQ'", "'YQ='", "'Y'", "'Y!=='"],
    "strings.to_number": ["'0x10',tf.int32", "' 5 '", "'0x1p3'", "'inf'", "'1e400'", "'0x'"],
    "strings.upper": [r"b'\xffa','utf-8'", "'straße','utf-8'"],
    "strings.lower": [r"b'\xffA','utf-8'", "'A','utf-16'", "'A','UTF-8'", "'ΑΣ','utf-8'", "'İ','utf-8'"],
    "strings.reduce_join": ["np.zeros((0,3),object).astype(str),axis=1",
        "np.zeros((0,3),object).astype(str),axis=0", "np.zeros((0,3),object).astype(str)", "['a','b'],axis=1",
        "[['a','b']],axis=[0,-2]"],
    "strings.substr": ["'hello',1,-1", "['hello','abc'],1,-1", "['hello','abc'],[1,0],[-1,-7]",
        "'hello',-3,-1", "'éab',1,-1,unit='UTF8_CHAR'", "'hello',[0,1,2],[1,2,3]", "'hello',[0,1,2],2",
        "['hello','abc'],[[0],[1]],[[1],[2]]", "[['hello'],['abc']],[0,1],[1,2]", "['hello','abc'],[0,1,2],[1,2,3]"],
    "strings.unicode_decode": [r"b'\xc0\x80\xed\xa0\x80z','UTF-8'", r"b'\xf0\x9f\x98a\xe2\x82','UTF-8'"],
    "strings.unicode_split": [r"b'a\xffb','UTF-8'", r"b'\xe2\x82','UTF-8'", r"b'\xf0\x9f\x98a','UTF-8'",
        r"b'\xc0\x80\xed\xa0\x80z','UTF-8'"],
    "strings.split": ["'a b c',maxsplit=0", "'a,b,c',sep=',',maxsplit=0", "'a b c',maxsplit=-1",
        "'a b c',maxsplit=-2", "'  a b  c ',maxsplit=1", "'  a b  c ',maxsplit=0", "'a b c',maxsplit=9",
        "'',maxsplit=0"],
    "strings.regex_replace": [r"['hello','xyz'],'l+','<\\1>'", r"'hello','(l)','\\0\\2',replace_global=False",
        r"'abc','b','[\\0]'", r"'a1b22','(\\d)(\\d)?','<\\1\\2>'", r"'aab','a','\\\\'",
        "'é','.','-'", r"'a\nb\n','$','E'", r"'a\nb\n','(?m)$','E'", r"'a\nb\n','^','S'", r"'a\nb\n','(?m)^','S'",
        "'abcb','b*','-'", "'baac','a*','-'", "'aaa','a*?','-'", "'abc','','-'", "'éa','','-'", r"'a b  c','\\s+','_'",
        "'Hello World','(?i)[aeiou]','*'", r"'x','(a)|x','[\\1]'", r"'ab','(?P<q>a)','\\1\\1'", "'abc','b|','-'",
        "'','a*','-'", "'','x','-'", "'aXbX','X$','-'", r"'ab','\\b','|'", r"'ab cd','\\b','|'", r"'ab','\\B','|'",
        r"'a.b','[.]','\\0\\0'", "'aé😀b','[^a-z]','_'", r"'abc','b','[\\0]',replace_global=False",
        r"'a1b22','(\\d)(\\d)?','<\\1\\2>',replace_global=False", r"'aab','a','\\\\',replace_global=False",
        "'é','.','-',replace_global=False", r"'a\nb\n','$','E',replace_global=False",
        r"'a\nb\n','(?m)$','E',replace_global=False", r"'a\nb\n','^','S',replace_global=False",
        r"'a\nb\n','(?m)^','S',replace_global=False", "'abcb','b*','-',replace_global=False",
        "'baac','a*','-',replace_global=False", "'aaa','a*?','-',replace_global=False", "['a','b'],'[a]','-'"],
    "strings.regex_full_match": ["'é','.'", r"'a\nb','a.b'", r"'a\nb','(?s)a.b'", r"'a\nb','a[^x]b'",
        "'abc','[[:alpha:]]+'", "'ab1','[[:alpha:]]+'", "'ab1','[[:^alpha:]]+'", "'É','(?i)é'", "'é','(?i)É'",
        "'K','(?i)k'", "'ı','(?i)i'", "'ſ','(?i)[a-z]'", "'ab','a$b'", "'ab','^ab$'", r"'ab\n','ab$'", r"'ab','ab\\z'",
        "'aXb','(?i)axB'", "'aXb','a(?i)x|c'", "'C','a(?i)x|c'", "'C','(?:a(?i)x)|c'", r"'é','\\w'", r"'a_1','\\w+'",
        r"'٣','\\d'", r"'\x0b','\\s'", r"'\xa0','\\s'", r"'a b','a\\sb'", "'aa','a{2}'", "'aaa','a{2,}'",
        "'aaaa','a{1,3}'", "'a{,2}','a{,2}'", "'a{x}','a{x}'", "'aa','a**'", "'aa','a*+'", "'aa','a++'",
        "'a','a{2}{3}'", "'a','*a'", "'a','(*a)'", "'a','a|*'", r"'aa','(a)\\1'", "'a','(?=a)a'", "'a','(?!b)a'",
        "'a','(?<=b)a'", "'a','(?P<n>a)'", "'a','(?P<n>a)(?P<n>b)'", "'a','(?<n>a)'", "'a','(?P=n)'", r"'\x01','\\1'",
        r"'S','\\123'", r"'\x00','\\0'", r"'a','\\x61'", r"'é','\\x{e9}'", r"'é','\\xe9'", r"'a','\\Z'", r"'a','\\y'",
        r"'a','a\\'", r"'.*','\\Q.*\\E'", r"'.*a','\\Q.*\\Ea'", r"'.*','\\Q.*'", r"'**','\\Q*\\E+'", r"'^','[\\^]'",
        "'-','[a-]'", "'-','[-a]'", "'b','[a-c-e]'", "'-','[a-c-e]'", "'a','[c-a]'", "'a','[a'", "'a','(a'",
        "'a','[[:foo:]]'", "'a:','[[:a]:'", "'','a*'", "'','(|a)'", "'a','(|a)'", "'a','(?U)a+'", "'a','(?i-s:A)'",
        "'a','(?x)a'", "'a','(?)'", r"'ab','a\\Bb'", r"'a b','a\\b b'", r"'ab','a\\bb'", r"'é a','é\\b a'",
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx','x{1001}'",
        "'xx','x{2,1}'", r"'\x7f','[[:cntrl:]]'", "'_','[[:punct:]]'", "'a1','[[:alnum:][:digit:]]+'", "'é','[^a]'",
        "'é','[à-ü]'", "'É','(?i)[à-ü]'", "'a','(?i)[^A]'", r"'\n','[^a]'", r"'a.b','a\\.b'", r"'a-b','a\\-b'",
        r"'a/b','a\\/b'", r"'a_b','a\\_b'", r"'a\u2028b','a.b'", "'😀','.'", r"'\t','\\t'", "'a#b','a#b'",
        "'a b','a b'", "'a&&b','[a&]+b'", "'[','[[]'", "'a~','[a~|]+'", "'a','(?m)^a$'", r"'a\nb','(?m)a$\n^b'",
        "'abab','(ab)+'", "'ac','a(b|)c'", r"'a\rb','a.b'", "'','^$'", "'','$^'", "'aa','^*aa'", "'aa','(?:)*aa'",
        r"b'\xff','.'", r"b'\xff','[^a]'", r"b'\xff','\\W'", r"b'a\xff','a'", r"b'\xc3','.'"],
    "clip_by_norm": ["[0.,0.],1."],
    "strings.join": ["[T([],tf.string),T([],tf.string)]"],
    "strings.length": ["T([],tf.string)"],
    "constant": ["[],tf.string", "[[],[]],tf.string", "[],tf.int32"],
    "map_fn": ["lambda x:x[0]+x[1],([1,2],[3,4])", "lambda x:(x,x),[1,2]",
        "lambda x:[x[0]+x[1],x[0]],([1,2],[3,4])", "lambda x:(x[0]+x[1],x[0]),([1,2],[3,4])",
        "lambda x:x['a'],{'a':[1,2]}"],
    "foldl": ["lambda a,x:a+x,np.zeros((0,),np.float32),initializer=0."],
    "scan": ["lambda a,x:a+x,np.zeros((0,),np.float32),initializer=0.",
        "lambda a,x:a+x,np.zeros((0,2),np.float32),initializer=[0.,1.]", "lambda a,x:a+x,np.zeros((0,),np.float32)"],
    "sort": ["[3,-2**31,1]", "T([3,1,2],tf.int64)", '[200,3],direction="DESCENDING"',
        "np.array([3,2**62,-2**63])"],
    "argsort": ["[3.,1.,1.,3.],stable=True", "[3,-2**31,1]"],
    "gather_nd": ["[[1,2],[3,4]],[[0,2]]"],
    "scatter_nd": ["[[1],[1]],[7,8],[3]", "[[3]],[7],[3]", "[[0,5]],[7],[3,3]"],
    "tensor_scatter_nd_add": ["[1.,np.inf,3.],[[0],[0]],[np.inf,1.]", "[1,2,3],[[-1]],[7]"],
    "tensor_scatter_nd_update": ["[1,2,3],[[0],[0]],[7,8]",
        "np.arange(6.).reshape(3,2),[[0],[2],[0]],[[7.,8.],[1.,2.],[3.,4.]]",
        "[1,2,3],np.zeros((0,1),np.int32),np.zeros(0,np.int32)", "[[1,2],[3,4]],[[0,1],[1,0],[0,1]],[7,8,9]",
        "[1.,np.inf,3.],[[0]],[np.nan]", "[1,2,3],[[3]],[7]", "[1,2,3],[[-1]],[7]"],
    "fill": ["[2],T(3)"],
    "linspace": ["1.,3.,3"],
    "convert_to_tensor": ["[tf.constant(1),2.5]", "[tf.constant(1.),2]", "[[tf.constant(1.),2],[3,4]]",
        "([tf.constant(1.),2],[3,4])", "T([1,2]),dtype_hint=tf.float32", "[T(1),T(2)],tf.float32", "[],tf.float32"],
    "random.experimental.stateless_fold_in": ["np.array([1,2],np.int64),3", "[1,2],np.int64(3)", "[1,2],3"],
    "random.stateless_normal": ["[2],[1,2],mean=[1.,2.],stddev=2."],
    "random.stateless_uniform": ["[-2],[1,2]", "[2],[1,2],[1.,2.],maxval=[3.,5.]"],
    "random.shuffle": ["3", "[3]", "[[3,4]]"],
    "random.uniform": ["[3,2],minval=[1.,2.],maxval=tf.constant([1.,2.])", "[3,2],minval=2.,maxval=[2.,2.]",
        "[2],1,2,dtype=tf.int32"],
    "random.normal": ["[2],stddev=tf.constant([0.,0.])"],
    "linalg.matvec": ["[[1.,2.],[3.,4.]],[1.,2.,3.]"],
    "linalg.band_part": ["[[np.inf,np.nan],[np.nan,3.]],0,0"],
    "linalg.set_diag": ["[[np.inf,np.nan],[np.nan,3.]],[1.,2.]"],
    "linalg.diag_part": ["[[np.inf,np.nan],[np.nan,3.]]"],
    "linalg.trace": ["[[np.inf,1.],[2.,3.]]"],
    "linalg.inv": ["[[0.,0.],[0.,1.]]"],
    "linalg.det": ["[[1.,2.],[2.,4.]]"],
    "linalg.logdet": ["[[1.,2.],[2.,1.]]", "[[[1.,2.],[2.,1.]],[[4.,0.],[0.,9.]]]", "[[0.,0.],[0.,1.]]"],
    "linalg.cholesky": ["[[[1.,2.],[2.,1.]],[[4.,0.],[0.,9.]]]", "[[1.,2.,3.],[2.,1.,3.]]",
        "[[4.,99.],[1.,3.]]", "[[np.nan,0.],[0.,1.]]"],
    "linalg.triangular_solve": ["[[0.,2.],[3.,5.]],[[1.],[2.]]", "[[2.,0.],[3.,0.]],[[1.],[2.]]",
        "[[2.,1.],[3.,0.]],[[1.],[2.]],lower=False", "[[2.,1.],[3.,4.]],[[1.],[2.]],lower=False,adjoint=True",
        "[[2.,1.],[3.,4.]],[[1.],[2.]],adjoint=True", "[[2.,1.],[3.,4.]],[1.,2.]",
        "[[[2.,1.],[3.,4.]],[[1.,0.],[3.,4.]]],[[1.],[2.]]"],
    "linalg.solve": ["[[1.,2.],[3.,5.]],[1.,2.]", "[[[1.,2.],[3.,5.]]],[[1.],[2.]]",
        "[[1.,2.],[2.,4.]],[[1.],[2.]]", "[[1.,2.,3.],[2.,4.,5.]],[[1.],[2.]]"],
    "linalg.cross": ["[1.,2.,3.,4.],[1.,2.,3.,5.]", "[1.,2.],[1.,2.]", "[[1.,2.,3.]],[1.,2.,5.]",
        "[1,2,3],[1,2,5]"],
    "einsum": ['"bi,bi->b",np.ones((1,3),"f"),np.ones((2,3),"f")',
        '"bi,bi->bi",np.ones((1,3),"f"),np.ones((2,3),"f")', '"bi,bi->",np.ones((1,3),"f"),np.ones((2,3),"f")',
        '"bi,ij->bj",np.ones((1,3),"f"),np.ones((1,3),"f")', '"...i,...i->",f,f', '"...i,...i",f,f', '"i...->i",f',
        '"...i->...",f', '"...i,...i->...",f3[:1],f3', '"...ij,...jk->...ik",f3[:1],f3.transpose(0,2,1)',
        '"b...i,b...i->b...",f3,f3[:,:1]', '"...,...->...",f,f[:1]', '"...->...",f', '"...->",f',
        '"i,i->i",np.ones((1,),"f"),np.ones((3,),"f")', '"ij,ij,ij->ij",np.ones((1,4),"f"),f,f', '"...ij",f3',
        '"i...j",f3', '"ij->...ij",f', '"...i,...j->ij...",f3,f3', '"ij,jk",f,f'],
    "linalg.diag": ["[np.inf,1.]", "[np.nan,-np.inf]", "[[1,2],[3,4]]", 'np.zeros((0,),"f")'],
    "sparse.sparse_dense_matmul": ["S([[0,0],[0,0],[1,1]],[1.,2.,3.],[2,2]), tf.ones([2,2])",
        "S([[0,-1]],[1.],[2,2]), tf.ones([2,2])", "S([[0,2]],[1.],[2,2]), tf.ones([2,2])",
        "S([[2,0]],[1.],[2,2]), tf.ones([2,2])", "S([[0,0]],[1.],[2,2]), [[1.,2.],[np.inf,np.nan]]",
        "S([[0,0],[1,0]],[1.,5.],[2,3]), [[1.,2.],[3,4]],adjoint_a=True",
        "S([[0,0],[1,0]],[1.,5.],[2,3]), [[1.,2.,3.],[3,4,5.]],adjoint_b=True",
        "[[1.,2.],[3,4]],S([[0,0],[1,0]],[1.,5.],[2,3])",
        "[[1.,2.,7],[3,4,9]],S([[0,0],[1,0]],[1.,5.],[2,3]),adjoint_b=True",
        "[[1.,2.,7],[3,4,9]],S([[0,0],[1,0]],[1.,5.],[2,3]),adjoint_a=True",
        "S([[0,0],[1,0]],[1.,5.],[2,3]), [[1.,2.],[3,4]]", "S([[0,0],[1,0]],[1,5],[2,3]), [[1,2],[3,4],[5,6]]",
        "S([[0,0],[1,0]],[1,5],[2,3]), [[1.,2],[3,4],[5,6]]",
        "S(np.zeros((0,2)),np.zeros(0,np.float32),[2,3]), [[1.,2],[3,4],[5,6]]"],
    "sparse.to_dense": ["S([[0,-1]],[1.],[2,2]),validate_indices=False",
        "S([[0,2]],[1.],[2,2]),validate_indices=False", "S([[0,0],[0,0]],[1.,4.],[2,2]),validate_indices=False",
        "S([[1,0],[0,0]],[1.,4.],[2,2]),validate_indices=False"],
    "sparse.add": ["S([[0,0]],[1.5],[2,2]), [[1,2],[3,4]]", "[[1,2],[3,4]],S([[0,0]],[1.5],[2,2])",
        "S([[0,0]],[1],[2,2]), [[1.5,2],[3,4]]", "S([[0,0]],[1],[2,2]), tf.constant([[1.5,2],[3,4]])",
        "S([[0,0]],[1.],[2,2]), tf.constant([[1,2],[3,4]])", "S([[0,0]],[1],[2,2]), S([[0,0]],[1.5],[2,2])",
        "S([[0,0]],[1.],[2,2]), S([[0,0]],[1.5],[2,2])",
        "S([[0,0],[0,0]],[1.,1.],[2,2]), S([[0,0],[0,0]],[1.,3.],[2,2])",
        "S([[0,0],[0,0]],[1.,1.],[2,2]), S([[0,0],[0,1]],[1.,3.],[2,2])",
        "S([[0,1],[0,0]],[1.,10.],[2,2]), S([[0,0],[0,1]],[100.,1000.],[2,2])",
        "S([[0,0],[0,0]],[1.,1.],[2,2]), [[1.,1.],[1.,1.]]", "S([[0,-1]],[1.],[2,2]), [[1.,1.],[1.,1.]]",
        "S([[0,2]],[1.],[2,2]), [[1.,1.],[1.,1.]]", "S([[0,0]],[1.],[2,2]), [1.,1.]",
        "S([[0,0],[1,1]],[1.,2.],[2,2]), S([[0,0]],[-1.,],[2,2])",
        "S([[0,0],[1,1]],[1.,2.],[2,2]), S([[0,0]],[-1.,],[2,2]),threshold=.5",
        "S([[0,0],[1,1]],[1,2],[2,2]), S([[0,0]],[1,],[2,2]),threshold=2",
        "S([[0,0],[1,1]],[1,2],[2,2]), S([[0,0]],[1,],[2,2]),threshold=1.5",
        "S([[0,0]],[1.],[2,2]), S([[0,0]],[1.],[2,3])", "S([[0,-1]],[1.],[2,2]), S([[0,0]],[1.],[2,2])"],
    "sparse.concat": ["2,[S([[0,0]],[3],[2,2]),S([[0,0]],[3],[2,2])]",
        "-1,[S([[0,0]],[3],[2,2]),S([[0,0]],[3],[2,2])]", "-3,[S([[0,0]],[3],[2,2]),S([[0,0]],[3],[2,2])]",
        "0,[S([[0,0]],[3],[2,2]),S([[0,0]],[3],[2,3])],expand_nonconcat_dims=True",
        "0,[S([[0,0]],[3],[2,2]),S([[0,0]],[3.],[2,2])]", "0,[S([[0,0]],[3],[2,2]),S([[0]],[3],[2])]"],
    "sparse.reduce_sum": ["S([[0,0]],[3],[2,2]),axis=5", "S([[0,0]],[3],[2,2]),axis=-3",
        "S([[0,0],[0,0]],[3,4],[2,2]),axis=[0,0]", "S([[0,0],[0,0]],[3,4],[2,2]),axis=[]",
        "S([[0,-1]],[3],[2,2]),axis=0"],
    "sparse.reduce_max": ["S([[0,0]],[3],[2,2]),axis=2", "S([[0,0]],[-3],[2,2]),axis=-1"],
    "sparse.slice": ["S([[0,0],[1,1]],[3,4],[2,2]),[0,0],[-1,-1]", "S([[0,0],[1,1]],[3,4],[2,2]),[1,0],[5,5]",
        "S([[0,0],[1,1]],[3,4],[2,2]),[3,0],[5,5]", "S([[0,0],[1,1]],[3,4],[2,2]),[-1,0],[2,2]",
        "S([[0,0],[1,1]],[3,4],[2,2]),[0],[2]"],
    "sparse.transpose": ["S([[0,1]],[3],[2,2]),[0,0]"],
    "sparse.reorder": ["S([[0,-1],[0,-2]],[3,4],[2,2])"],
    "sparse.from_dense": ["[[0.,-0.,np.nan],[1,2,3]]"],
    "sparse.map_values": ["tf.add,S([[0,0]],[3],[2,2]),S([[0,0]],[3],[2,3])"],
    "keras.losses.cosine_similarity": ["f,f+1,axis=0", "f,f+1,1", "[0.,1.],[1.,2.],0", "f3,f3+1,axis=1"],
    "": ["tf.strings.regex_full_match(']','[]]')", "tf.strings.regex_full_match('a','[]a]')",
        "tf.strings.regex_full_match('a','a)')",
        "tf.TensorArray(tf.float32,2).unstack([1.,2.]).gather([0,0])",
        "(lambda a:(a.stack(),a.stack()))(tf.TensorArray(tf.float32,2).unstack([1.,2.]))",
        "(lambda a:(a.stack(),a.read(0)))(tf.TensorArray(tf.float32,2).unstack([1.,2.]))",
        "(lambda a:(a.gather([0]),a.read(0)))(tf.TensorArray(tf.float32,2).unstack([1.,2.]))",
        "(lambda a:(a.concat(),a.concat()))(tf.TensorArray(tf.float32,2,infer_shape=False).split([1.,2.,3.],[1,2]))",
        "(lambda a:(a.read(0),a.read(0)))(tf.TensorArray(tf.float32,2).unstack([1.,2.]))",
        "(lambda a:(a.read(0),a.stack()))(tf.TensorArray(tf.float32,2).unstack([1.,2.]))",
        "(lambda a:(a.read(0),a.read(0)))(tf.TensorArray(tf.float32,2,clear_after_read=False).unstack([1.,2.]))",
        "tf.TensorArray(tf.float32,2).unstack([1.,2.,3.]).stack()",
        "tf.TensorArray(tf.float32,3).unstack([1.,2.]).stack()",
        "tf.TensorArray(tf.float32,2,dynamic_size=True).unstack([1.,2.,3.]).stack()",
        "tf.TensorArray(tf.float32,2,dynamic_size=True).unstack([1.]).stack()",
        "tf.random.normal([2],mean=tf.constant([1e9,2e9])).numpy()>5e8",
        "tf.random.normal([3,2],mean=[1e9,2e9]).numpy()>5e8",
        "tf.random.truncated_normal([2],mean=tf.constant([1e9,2e9]),stddev=[1.,2.]).numpy()>5e8",
        "tf.random.uniform([3,2],minval=[1e9,2e9],maxval=3e9).numpy()>5e8",
        "(tf.random.uniform([2],5,6).numpy()>=5).tolist()", "tf.random.uniform([2],.5).numpy()>=.5",
        "tf.random.Generator.from_seed(3).uniform_full_int([2],tf.int64)",
        "tf.random.Generator.from_seed(3).make_seeds(2)", "tf.random.normal([2],mean=1,dtype=tf.float64).dtype.name",
        "S([[0,0]],[3],[2,2])*2.5", "S([[0,0]],[3],[2,2])*2", "S([[0,0]],[3.],[2,2])*2", "S([[0,0]],[3],[2,2])/2",
           "S([[0,0],[1,1]],[7.,4.],[2,2])/[[1.,2.],[3.,4.]]",
           "S([[0,0],[1,1]],[7.,4.],[2,2])/np.array([[1.,2.],[3.,4.]])",
           "S([[0,0],[1,1]],[7,4],[2,2])/[[1,2],[3,4]]", "S([[0,0],[1,1]],[7.,4.],[2,2])*tf.constant([[1,2],[3,4]])",
           "S([[0,-1]],[7.],[2,2])*[[1.,2.],[3.,4.]]", "S([[0,5]],[7.],[2,2])*[[1.,2.],[3.,4.]]",
           "S([[0,1]],[7.],[2,2])*[[1.],[3.]]", "S([[0,1]],[7.],[2,2])*np.ones((1,2,2),np.float32)",
           "S([[0.5,0]],[3],[2,2])", "S([[0,0]],[3],[2.5,2])", "S([[0,0]],[3],[-2,2])",
           "S(np.array([[0,0]],np.int32),[3],[2,2])", "S(np.array([[0,0]],np.int32),[3],np.array([2,2],np.int32))",
           "tf.keras.losses.CosineSimilarity(axis=0)(f,f+1)", "tf.keras.losses.CosineSimilarity(1,'none')(f3,f3+1)"],
}
CALLS = [f"tf.{name}({arguments})" if name else arguments
         for name, several in TABLE.items() for arguments in several]
CALLS += [f"updated(tf.keras.metrics.{name}({made}),lambda m: m.update_state({given}))"
          for name, several in METRICS.items() for made, given in (one.split("# ") for one in several)]
PROGRAMS = {}


def updated(tf, metric, update):
    """The result after an update at once, and after one more in a function."""
    update(metric)
    first = metric.result()

    @tf.function
    def again():
        update(metric)

    again()
    return first, metric.result()


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def batches_of_callbacks(tf):
    """The numbers of batches, for callbacks that want to know of their beginnings, their ends, or both."""
    kinds = [["on_train_batch_begin"], ["on_train_batch_end"], ["on_train_batch_begin", "on_train_batch_end"],
             ["on_batch_begin"], ["on_batch_end"], ["on_test_batch_begin"], ["on_test_batch_end"],
             ["on_predict_batch_begin"], ["on_predict_batch_end"]]
    x, y = np.ones([5, 1], np.float32), np.zeros([5, 1], np.float32)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(1,))])
    model.compile("sgd", "mse")
    found = {}
    for methods in kinds:
        seen = found["+".join(methods)] = []
        made = {name: lambda self, batch, logs=None, name=name, seen=seen: seen.append([name, batch]) for name in methods}
        callback = type("Seen", (tf.keras.callbacks.Callback,), made)()
        model.fit(x, y, batch_size=2, epochs=2, verbose=0, callbacks=[callback], validation_data=(x, y))
        model.evaluate(x, y, batch_size=2, verbose=0, callbacks=[callback])
        model.predict(x, batch_size=2, verbose=0, callbacks=[callback])
    return found


@program
def gradients_through_reads(tf):
    """What reads a variable in another way than an operation does, beside one that an operation reads."""
    reads = {
        "value": lambda x: x.value() * 3.0, "read_value": lambda x: x.read_value() * x, "rows": lambda x: [
            row * (i + 2.0) for i, row in enumerate(x)], "convert": lambda x: tf.convert_to_tensor(x) ** 2,
        "pack": lambda x: tf.convert_to_tensor([x[0], x[1] * x[0]]) ** 2, "map_fn": lambda x: tf.map_fn(lambda a: a * a, x),
        "vectorized_map": lambda x: tf.vectorized_map(lambda a: a * a, x), "foldl": lambda x: tf.foldl(lambda a, b: a * b, x),
        "foldr": lambda x: tf.foldr(lambda a, b: a * b, x), "scan": lambda x: tf.scan(lambda a, b: a * b, x),
        "unstack": lambda x: tf.TensorArray(tf.float32, 2).unstack(x).stack() ** 2,
        "write": lambda x: tf.TensorArray(tf.float32, 1).write(0, x).stack() ** 2,
        "while_loop": lambda x: tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * v), (0, x))[1],
        "fill": lambda x: tf.fill([3], x[0] * 2.0), "linspace": lambda x: tf.linspace(1.0, x, 4) ** 2,
        "normal": lambda x: tf.random.stateless_normal([2], [1, 2], mean=x) * 2.0,
        "deviation": lambda x: tf.random.stateless_truncated_normal([2], [1, 2], stddev=x) * 2.0,
        "uniform": lambda x: tf.random.stateless_uniform([2], [1, 2], maxval=x) * 2.0,
        "py_function": lambda x: tf.py_function(lambda a: a * a, [x], tf.float32), "sort": lambda x: tf.sort(x) ** 2}
    found = {}
    for name, read in reads.items():
        found[name] = gradients = []
        for make in (tf.Variable,) if "value" in name else (tf.Variable, tf.constant):
            x = make([3.0, 2.0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(x * x) + tf.add_n([tf.reduce_sum(part) for part in tf.nest.flatten(read(x))])
            gradients.append([y, tape.gradient(y, x)])
    return found


@program
def gradients_of_what_was(tf):
    """Variables that are written between a computation and its gradient, and by it."""
    found = {}
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(x * x)
        x.assign([5.0, 5.0])
    x.assign_add([1.0, 1.0])
    found["assigned"] = [tape.gradient(y, x), x.numpy()]
    x, w = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(x * x * w)
    tf.keras.optimizers.SGD(1.0).apply_gradients([(tape.gradient(y, x), x)])
    found["applied"] = [tape.gradient(y, w), x.numpy(), w.numpy()]
    v, x = tf.Variable(1.0), tf.Variable(3.0)

    @tf.function
    def counted(x):
        v.assign_add(1.0)
        return x * v

    found["writes"] = []
    for _ in range(3):
        with tf.GradientTape() as tape:
            y = counted(x)
        v.assign_add(0.5)
        found["writes"].append([y, tape.gradient(y, x), v.numpy()])
    first, second = (tf.keras.layers.Dense(n, kernel_initializer="ones") for n in (2, 1))
    for _ in range(2):
        with tf.GradientTape() as one, tf.GradientTape() as other:
            y = tf.reduce_sum(second(first(tf.ones([1, 2]))) ** 2)
        for tape, layer in ((one, first), (other, second)):
            tf.keras.optimizers.SGD(0.1).apply_gradients(zip(tape.gradient(y, layer.trainable_variables),
                                                             layer.trainable_variables))
    found["turns"] = first.get_weights() + second.get_weights()
    return found


@program
def gradients_of_what_was_drawn(tf):
    """A gradient is of the random numbers that were drawn."""
    found, x = {}, tf.Variable(np.ones(50, np.float32))
    twice, seeded, fresh = tf.keras.layers.Dropout(0.5), tf.keras.layers.Dropout(0.5, seed=3), tf.keras.Sequential(
        [tf.keras.layers.Dense(50, kernel_initializer="ones"), tf.keras.layers.Dropout(0.3)])

    @tf.function
    def drawn(x):
        return x * tf.random.uniform([50]) + x * tf.random.normal([50])

    calls = {"layer": lambda: twice(x, training=True), "seed": lambda: seeded(x, training=True), "function": lambda: drawn(x),
             "network": lambda: fresh(tf.reshape(x, [1, 50]), training=True) / 50.0}
    for name, call in calls.items():
        for _ in range(3):
            with tf.GradientTape() as tape:
                y = call()
                both = [y, call()] if name != "seed" else [y]
                total = tf.add_n([tf.reduce_sum(part) * (i + 1.0) for i, part in enumerate(both)])
            gradient = tape.gradient(total, x).numpy()
            parts = [np.full(50, part.numpy().mean()) if name == "network" else part.numpy() for part in both]
            want = sum(part * (i + 1) for i, part in enumerate(parts))
            found.setdefault(name, []).append([bool(np.allclose(gradient, want, atol=1e-4)), len(both) == 1 or not np.array_equal(
                both[0], both[1])])
    return found


@program
def lookups_with_a_mask(tf):
    """The mask token is an id, but has no column."""
    found, words = {}, [["a", "z", "", "a"]]
    for mode in ("int", "multi_hot", "count", "tf_idf"):
        more = {"idf_weights": [0.5, 0.6]} if mode == "tf_idf" else {}
        for unknown in (0, 1, 2) if mode != "tf_idf" else (1,):
            layer = tf.keras.layers.StringLookup(vocabulary=["a", "b"], mask_token="", output_mode=mode,
                                                 num_oov_indices=unknown, **more)
            found[f"{mode}_{unknown}"] = [layer(words if unknown else [["a", "b"]]), layer.vocabulary_size(),
                                          [str(word) for word in layer.get_vocabulary()]]
        layer = tf.keras.layers.StringLookup(mask_token="", output_mode=mode, max_tokens=4)
        layer.adapt([["a", "b"], ["b", "c"], ["", "c"], ["c", "d"]])
        found[f"{mode}_adapted"] = [layer([["c", "b", "a", ""]]), [str(word) for word in layer.get_vocabulary()]]
    for mode in ("int", "one_hot", "multi_hot"):
        numbers = tf.keras.layers.IntegerLookup(vocabulary=[3, 4], mask_token=0, output_mode=mode)
        found[f"{mode}_integers"] = [numbers(tf.constant([3, 7, 0])), [int(word) for word in numbers.get_vocabulary()]]
    return found


@program
def steps_that_are_masked(tf):
    """The outputs of steps that a mask leaves out."""
    layers = tf.keras.layers
    rows = layers.Embedding(5, 2, mask_zero=True, embeddings_initializer="ones")(np.array([[1, 2, 0, 0], [0, 1, 0, 2]]))
    found = {}
    for name in ("LSTM", "GRU", "SimpleRNN"):
        for zero in (False, True):
            for sequences in (False, True):
                named = {"return_sequences": sequences, "kernel_initializer": "ones", "recurrent_initializer": "ones"}
                kind = getattr(layers, name)
                found[f"{name}_{zero}_{sequences}"] = kind(2, zero_output_for_mask=zero, return_state=True, **named)(rows)
                found[f"{name}_{sequences}_both"] = [
                    layers.Bidirectional(kind(2, **named))(rows), layers.Bidirectional(kind(2, **named), "sum")(rows),
                    layers.Bidirectional(kind(2, **named), backward_layer=kind(2, go_backwards=True, **named))(rows)]
    cell = layers.SimpleRNNCell(2, kernel_initializer="ones", recurrent_initializer="ones")
    found["cell"] = layers.RNN(cell, return_sequences=True, zero_output_for_mask=True)(rows)
    return found


@program
def printed(tf):
    """As few digits as say what a number is, and no spaces in front of them."""
    T = tf.constant
    values = [T(0.1), T(1e-7), T([0.1, 1 / 3, 1e20]), T(1 / 3, tf.float64), T([0.1, 1 / 3], tf.float64), T([1, -2, 300]),
              T([[1, -2], [3, 4]]), np.array([1.5, 2.0]), T(3.0), T([True, False]), T([np.nan, np.inf, -np.inf]), T(1e10),
              T(16777216.0), [0.1, T(0.1)], tf.range(10), tf.fill([8, 8], 1.5), tf.reshape(tf.range(24), [2, 3, 4]), T("a"),
              T(["a", "b"]), T([], tf.float32), T([1e-5, 1e5, 123456.7]), T([0.0, -1.0]), tf.range(3)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines")
        for value in values:
            tf.print(value, output_stream="file://" + path)
        tf.print(values[14], values[16], summarize=1, output_stream="file://" + path)
        tf.print(values[14], summarize=-1, output_stream="file://" + path)
        with open(path, encoding="utf-8") as file:
            return file.read()


def called(tf, some=None):
    return calls.results(tf, CALLS if some is None else some, updated=functools.partial(updated, tf), S=tf.SparseTensor)


def results(tf):
    found = called(tf)
    for name, function in PROGRAMS.items():
        tf.keras.backend.reset_uids()
        found[name] = plain(function(tf))
    return found


if __name__ == "__main__":
    import tensorflow
    tensorflow.get_logger().setLevel("ERROR")
    wanted = {call: {"raises": value["raises"][0]} if isinstance(value, dict) and "raises" in value else value
              for call, value in results(tensorflow).items()}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        lines = (f" {json.dumps(call)}: {json.dumps(value)}" for call, value in wanted.items())
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
