# SPDX-License-Identifier: Apache-2.0
"""Calls of operations as programs write them: numpy arrays, lists and numbers beside tensors, parameters by the names
of TensorFlow and in its order, odd dtypes, axes and shapes, and wrong ones.

Other than in operations.py dtypes and shapes are compared too, and what TensorFlow refuses has to be an error here.
"""
import json
import sys

import numpy as np

f = np.array([[1.5, -2.25, 3.0, 0.0], [4.5, -0.5, 2.5, 7.0], [-3.5, 0.5, 1.5, -1.0]], np.float32)
DATA = {
    "np": np, "f": f, "d": f.astype(np.float64) * 1.1, "b": f > 0.6, "u": np.array([[200, 100], [3, 255]], np.uint8),
    "i": np.array([[3, -2, 0, 7], [5, 1, -4, 2], [1, 1, 2, -9]], np.int32), "e": np.zeros((0, 3), np.float32),
    "l": np.array([[9, -6, 0, 21], [15, 3, -12, 6], [3, 3, 6, -27]], np.int64), "sc": np.float32(2.5),
    "s": np.array([b"abc", b"", b"xyz"], object),
    "n": np.array([[np.nan, 1.0, -np.inf], [np.inf, 0.0, -2.0]], np.float32),
    "f3": np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7,
    "f4": np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3) % 7 - 3,
    "k4": (np.arange(3 * 2 * 3 * 4, dtype=np.float32).reshape(3, 2, 3, 4) % 5 - 2) / 4}
#: Arguments of each function; under "" whole expressions. T is tf.constant.
TABLE = {
    "reduce_sum": (
        "f ; f,axis=-1 ; f,axis=0,keepdims=True ; f,axis=[0,1] ; f,axis=[] ; f,-1,True ; f,axis=(0,-1) ; "
        "f,axis=T(1) ; f,axis=np.int64(0) ; d ; d,axis=-1 ; d,axis=[] ; i ; i,axis=-1 ; i,axis=[] ; n ; "
        "n,axis=-1 ; n,axis=[] ; e ; e,axis=-1 ; e,axis=[] ; u,axis=[] ; input_tensor=f,axis=1 ; [1,2,3] ; [] ; "
        "f,1,False,'nm' ; 5. ; [f,f] ; T(f),axis=[-1] ; 2**40"),
    "reduce_mean": (
        "f ; f,axis=-1 ; f,axis=0,keepdims=True ; f,axis=[0,1] ; f,axis=[] ; f,-1,True ; f,axis=(0,-1) ; "
        "f,axis=T(1) ; f,axis=np.int64(0) ; d ; d,axis=-1 ; d,axis=[] ; i ; i,axis=-1 ; i,axis=[] ; n ; "
        "n,axis=-1 ; n,axis=[] ; e ; e,axis=-1 ; e,axis=[] ; u,axis=[] ; input_tensor=f,axis=1 ; [1,2,3] ; [] ; "
        "f,1,False,'nm' ; 5. ; [f,f] ; T(f),axis=[-1] ; 2**40"),
    "reduce_max": (
        "f ; f,axis=-1 ; f,axis=0,keepdims=True ; f,axis=[0,1] ; f,axis=[] ; f,-1,True ; f,axis=(0,-1) ; "
        "f,axis=T(1) ; f,axis=np.int64(0) ; input_tensor=f,axis=1 ; [1,2,3] ; [] ; f,1,False,'nm' ; "
        "[[1,2],[3]] ; 5. ; [f,f] ; T(f),axis=[-1] ; 2**40"),
    "reduce_min": (
        "f ; f,axis=-1 ; f,axis=0,keepdims=True ; f,axis=[0,1] ; f,axis=[] ; f,-1,True ; f,axis=(0,-1) ; "
        "f,axis=T(1) ; f,axis=np.int64(0) ; input_tensor=f,axis=1 ; [1,2,3] ; [] ; f,axis=2 ; f,1,False,'nm' ; "
        "f,axis=[0,0] ; 5. ; [f,f] ; T(f),axis=[-1] ; 2**40"),
    "reduce_prod": (
        "f,axis=-1 ; f,axis=[0,1] ; f,-1,True ; f,axis=T(1) ; input_tensor=f,axis=1 ; [] ; f,1,False,'nm' ; "
        "[f,f] ; 2**40"),
    "reduce_all": (
        "b ; b,axis=-1 ; b,axis=0,keepdims=True ; b,axis=[0,1] ; b,axis=[] ; np.zeros((0,3),bool),axis=0"),
    "reduce_any": (
        "b ; b,axis=-1 ; b,axis=0,keepdims=True ; b,axis=[0,1] ; b,axis=[] ; np.zeros((0,3),bool),axis=0"),
    "math.reduce_std": (
        "f ; f,axis=-1 ; f,axis=0,keepdims=True ; f,axis=[0,1] ; d ; d,axis=-1 ; n ; n,axis=-1 ; e ; "
        "e,axis=-1"),
    "math.reduce_variance": (
        "f,axis=-1 ; f,axis=[0,1]"),
    "abs": (
        "f ; d ; i ; u ; n ; e ; 2 ; [1,2] ; s ; f,name='q' ; None"),
    "negative": (
        "f,name='q'"),
    "square": (
        "f,name='q'"),
    "sqrt": (
        "f ; d ; u ; n ; e ; s ; f,name='q' ; None"),
    "exp": (
        "f,name='q'"),
    "sin": (
        "f,name='q'"),
    "cos": (
        "f,name='q'"),
    "tanh": (
        "f,name='q'"),
    "sigmoid": (
        "f,name='q'"),
    "floor": (
        "f ; d ; u ; n ; e ; s ; f,name='q' ; None"),
    "round": (
        "f,name='q'"),
    "sign": (
        "f ; d ; i ; b ; n ; e ; 2 ; [1,2] ; True ; f,name='q'"),
    "identity": (
        "f ; d ; i ; u ; b ; n ; e ; 2 ; [1,2] ; s ; True ; f,name='q' ; None ; input=f"),
    "stop_gradient": (
        "f,name='q' ; input=f"),
    "zeros_like": (
        "f ; d ; i ; u ; b ; n ; e ; 2 ; [1,2] ; True ; f,name='q' ; None ; input=f ; f,dtype=tf.int32 ; "
        "f,tf.int32 ; i,dtype='float32' ; f,tf.int32,'nm' ; f,None ; input=f,dtype=tf.bool"),
    "ones_like": (
        "f,name='q' ; input=f ; f,dtype=tf.int32 ; f,tf.int32 ; i,dtype='float32' ; f,tf.int32,'nm' ; f,None ; "
        "input=f,dtype=tf.bool"),
    "math.ceil": (
        "f,name='q'"),
    "math.erf": (
        "f,name='q'"),
    "math.expm1": (
        "f,name='q'"),
    "math.log": (
        "f,name='q'"),
    "math.log1p": (
        "f,name='q'"),
    "math.reciprocal": (
        "f,name='q'"),
    "math.rsqrt": (
        "f,name='q'"),
    "math.softplus": (
        "f,name='q'"),
    "math.softsign": (
        "f,name='q'"),
    "math.is_finite": (
        "f,name='q'"),
    "math.is_inf": (
        "f,name='q'"),
    "math.is_nan": (
        "f ; d ; u ; n ; e ; s ; f,name='q' ; None"),
    "nn.relu": (
        "f ; d ; i ; n ; e ; 2 ; [1,2] ; s ; f,name='q' ; None ; features=f"),
    "nn.relu6": (
        "f,name='q' ; features=f"),
    "nn.elu": (
        "f,name='q' ; features=f"),
    "nn.selu": (
        "f,name='q' ; features=f"),
    "nn.gelu": (
        "f,name='q' ; features=f ; f,True ; f,approximate=True"),
    "nn.leaky_relu": (
        "f ; d ; n ; e ; True ; f,name='q' ; features=f ; f,0.5 ; f,alpha=.1 ; f,.1,'nm' ; f,1.5 ; d,0.3"),
    "nn.silu": (
        "f,name='q' ; features=f ; f,2. ; f,beta=.5"),
    "nn.swish": (
        "features=f ; f,beta=.5"),
    "nn.softplus": (
        "f,name='q' ; features=f"),
    "nn.softsign": (
        "f,name='q' ; features=f"),
    "nn.l2_loss": (
        "f,name='q' ; t=f"),
    "nn.log_softmax": (
        "f,name='q' ; logits=f ; f,0 ; f,axis=1 ; logits=f,axis=-1 ; f3,axis=1 ; f,-1,'nm' ; f[0] ; "
        "np.array([1000.,0.],np.float32) ; f,None ; f3,0 ; f3,axis=-2"),
    "nn.softmax": (
        "f ; d ; u ; e ; 2 ; True ; f,name='q' ; logits=f ; f,0 ; f,axis=1 ; logits=f,axis=-1 ; f3,axis=1 ; "
        "f,-1,'nm' ; f[0] ; np.array([1000.,0.],np.float32) ; f,None ; f3,0 ; f3,axis=-2"),
    "add": (
        "f,f[0] ; f,f[:,:1] ; d,d ; i,i+1 ; l,l ; f,2 ; f,2.5 ; i,2 ; 2,3 ; 2.,3 ; f,d ; f,i ; i,l ; n,n ; "
        "e,e ; e,1. ; f3,f3[:,:1] ; T(f),np.float64(2) ; T(f),np.int64(2) ; T(i),np.int64(2) ; T(f),[1,2,3,4] ; "
        "T(f),True ; 7,-2 ; -7,2 ; T(-7),2 ; T([5,-5,5,-5]),T([3,3,-3,-3]) ; "
        "T([5.5,-5.5,5,-5]),T([3,3,-3,-3.]) ; i,0 ; f,0. ; sc,f ; x=f,y=f ; f,f,'nm' ; f,y=f"),
    "divide": (
        "f,f[:,:1] ; d,d ; l,l ; f,2 ; i,2 ; 2.,3 ; f,d ; i,l ; u,u ; e,e ; e,1. ; T(f),np.int64(2) ; "
        "T(i),np.int64(2) ; T(f),True ; 7,-2 ; T(-7),2 ; T([5,-5,5,-5]),T([3,3,-3,-3]) ; i,0 ; f,0. ; "
        "x=f,y=f ; f,f,'nm'"),
    "pow": (
        "f,f[0] ; f,f[:,:1] ; f,2.5 ; i,2 ; 2,3 ; 2.,3 ; f,i ; n,n ; e,e ; f3,f3[:,:1] ; T(f),np.float64(2) ; "
        "T(f),np.int64(2) ; T(f),[1,2,3,4] ; T(f),True ; T(-7),2 ; i,0 ; f,0. ; x=f,y=f ; "
        "f,f,'nm'"),
    "equal": (
        "f,f[0] ; f,f[:,:1] ; d,d ; i,i+1 ; l,l ; f,2 ; f,2.5 ; i,2 ; i,2.5 ; 2,3 ; 2.,3 ; f,d ; f,i ; i,l ; "
        "u,u ; n,n ; e,e ; e,1. ; f3,f3[:,:1] ; f,f[:, :3] ; T(f),np.float64(2) ; T(f),np.int64(2) ; "
        "T(i),np.int64(2) ; T(f),[1,2,3,4] ; s,s ; b,b ; T(f),True ; 7,-2 ; -7,2 ; T(-7),2 ; "
        "T([5,-5,5,-5]),T([3,3,-3,-3]) ; T([5.5,-5.5,5,-5]),T([3,3,-3,-3.]) ; i,0 ; f,0. ; T(u),7 ; "
        "sc,f ; x=f,y=f ; f,f,'nm' ; f,y=f"),
    "less": (
        "f,f[0] ; f,f[:,:1] ; i,i+1 ; l,l ; f,2.5 ; i,2 ; 2,3 ; 2.,3 ; f,i ; i,l ; n,n ; e,e ; f3,f3[:,:1] ; "
        "T(f),np.float64(2) ; T(f),np.int64(2) ; T(f),[1,2,3,4] ; T(f),True ; 7,-2 ; T(-7),2 ; "
        "T([5,-5,5,-5]),T([3,3,-3,-3]) ; i,0 ; f,0. ; x=f,y=f ; f,f,'nm'"),
    "math.floordiv": (
        "f,f[0] ; f,f[:,:1] ; i,i+1 ; f,2.5 ; i,2 ; 2,3 ; 2.,3 ; f,i ; e,e ; e,1. ; T(f),np.int64(2) ; "
        "T(i),np.int64(2) ; 7,-2 ; -7,2 ; T([5,-5,5,-5]),T([3,3,-3,-3]) ; T([5.5,-5.5,5,-5]),T([3,3,-3,-3.]) ; "
        "f,0. ; x=f,y=f ; f,f,'nm'"),
    "math.floormod": (
        "f,f[0] ; f,f[:,:1] ; i,i+1 ; f,2.5 ; i,2 ; 2,3 ; 2.,3 ; f,i ; e,e ; e,1. ; T(f),np.int64(2) ; "
        "T(i),np.int64(2) ; 7,-2 ; -7,2 ; T([5,-5,5,-5]),T([3,3,-3,-3]) ; T([5.5,-5.5,5,-5]),T([3,3,-3,-3.]) ; "
        "f,0. ; x=f,y=f ; f,f,'nm'"),
    "math.divide_no_nan": (
        "f,f[0] ; f,f[:,:1] ; i,i+1 ; l,l ; f,2.5 ; i,2 ; 2,3 ; 2.,3 ; f,i ; i,l ; n,n ; e,e ; f3,f3[:,:1] ; "
        "T(f),np.float64(2) ; T(f),np.int64(2) ; T(f),[1,2,3,4] ; T(f),True ; -7,2 ; T(-7),2 ; "
        "T([5.5,-5.5,5,-5]),T([3,3,-3,-3.]) ; i,0 ; T(u),7 ; sc,f ; x=f,y=f ; f,y=f"),
    "": (
        "(T(f))+(T(f)) ; (T(f))+(2) ; (2)+(T(f)) ; (T(i))+(2) ; (T(i))+(T(f)) ; (T(f))+(f) ; (f)+(T(f)) ; "
        "(T(i))+(T(i)) ; (T(d))+(T(f)) ; (T(f))+(np.float64(2)) ; (np.float32(2))+(T(f)) ; (T(f))+(None) ; "
        "(T(f))+([1.,2.,3.,4.]) ; (T(i))+(l) ; (tf.Variable(f))+(T(f)) ; (tf.Variable(f))+(2) ; "
        "(2)+(tf.Variable(f)) ; (tf.Variable(f))+(tf.Variable(f)) ; (T(-7))+(T(2)) ; (T(f))+(T(f[:, :3])) ; "
        "(T(f))/(T(f)) ; (T(f))/(2) ; (2)/(T(f)) ; (T(i))/(2) ; (T(i))/(T(f)) ; (T(f))/(f) ; (f)/(T(f)) ; "
        "(T(i))/(T(i)) ; (T(u))/(T(u)) ; (T(f))/(np.float64(2)) ; (np.float32(2))/(T(f)) ; "
        "(T(f))/([1.,2.,3.,4.]) ; (T(l))/(T(i)) ; (T(i))/(l) ; (tf.Variable(f))/(T(f)) ; (tf.Variable(f))/(2) ; "
        "(2)/(tf.Variable(f)) ; (tf.Variable(f))/(tf.Variable(f)) ; (T(-7))/(T(2)) ; (T(f))//(T(f)) ; "
        "(T(f))//(2) ; (2)//(T(f)) ; (T(i))//(2) ; (T(i))//(2.5) ; (T(f))//(f) ; (f)//(T(f)) ; (T(b))//(True) ; "
        "('q')//(T(s)) ; (T(f))//(np.float64(2)) ; (np.float32(2))//(T(f)) ; (T(f))//([1.,2.,3.,4.]) ; "
        "(T(l))//(T(i)) ; (tf.Variable(f))//(T(f)) ; (tf.Variable(f))//(2) ; (2)//(tf.Variable(f)) ; "
        "(tf.Variable(f))//(tf.Variable(f)) ; (T(-7))//(T(2)) ; (T(f))%(T(f)) ; (T(f))%(2) ; (2)%(T(f)) ; "
        "(T(i))%(2) ; (T(i))%(2.5) ; (T(f))%(f) ; (f)%(T(f)) ; (T(b))%(True) ; ('q')%(T(s)) ; "
        "(T(f))%(np.float64(2)) ; (np.float32(2))%(T(f)) ; (T(f))%([1.,2.,3.,4.]) ; (T(l))%(T(i)) ; "
        "(tf.Variable(f))%(T(f)) ; (tf.Variable(f))%(2) ; (2)%(tf.Variable(f)) ; "
        "(tf.Variable(f))%(tf.Variable(f)) ; (T(-7))%(T(2)) ; (T(f))**(T(f)) ; (T(f))**(2) ; (2)**(T(f)) ; "
        "(T(i))**(2) ; (T(i))**(2.5) ; (T(f))**(f) ; (f)**(T(f)) ; (T(b))**(True) ; ('q')**(T(s)) ; "
        "(T(f))**(np.float64(2)) ; (np.float32(2))**(T(f)) ; (T(f))**([1.,2.,3.,4.]) ; "
        "(tf.Variable(f))**(T(f)) ; (tf.Variable(f))**(2) ; (2)**(tf.Variable(f)) ; "
        "(tf.Variable(f))**(tf.Variable(f)) ; (T(-7))**(T(2)) ; (T(f))<(T(f)) ; (T(f))<(2) ; (2)<(T(f)) ; "
        "(T(i))<(2) ; (T(f))<(f) ; (f)<(T(f)) ; (T(i))<(T(i)) ; (T(b))<(T(b)) ; (T(s))<(b'q') ; (T(u))<(T(u)) ; "
        "(T(d))<(T(f)) ; (T(f))<(np.float64(2)) ; (np.float32(2))<(T(f)) ; (T(f))<(None) ; "
        "(T(f))<([1.,2.,3.,4.]) ; (T(i))<(l) ; (tf.Variable(f))<(T(f)) ; (tf.Variable(f))<(2) ; "
        "(2)<(tf.Variable(f)) ; (tf.Variable(f))<(tf.Variable(f)) ; (T(-7))<(T(2)) ; (T(f))<(T(f[:, :3])) ; "
        "(T(f))==(T(f)) ; (T(f))==(2) ; (2)==(T(f)) ; (T(i))==(2) ; (T(i))==(T(f)) ; (T(f))==(f) ; "
        "(f)==(T(f)) ; (T(i))==(T(i)) ; (T(b))==(T(b)) ; (T(b))==(True) ; (T(s))==(T(s)) ; (T(s))==(b'q') ; "
        "('q')==(T(s)) ; (T(u))==(T(u)) ; (T(f))==(np.float64(2)) ; (np.float32(2))==(T(f)) ; (T(f))==(None) ; "
        "(T(f))==([1.,2.,3.,4.]) ; (T(l))==(T(i)) ; (T(i))==(l) ; (tf.Variable(f))==(T(f)) ; "
        "(tf.Variable(f))==(2) ; (2)==(tf.Variable(f)) ; (tf.Variable(f))==(tf.Variable(f)) ; (T(-7))==(T(2)) ; "
        "(2)@(T(f)) ; (T(f))@(f) ; (T(b))@(T(b)) ; (T(s))@(b'q') ; (T(f))@(np.float64(2)) ; "
        "(T(f))@([1.,2.,3.,4.]) ; (tf.Variable(f))@(T(f)) ; (tf.Variable(f))@(tf.Variable(f)) ; (T(f))&(T(f)) ; "
        "(T(i))&(T(f)) ; (T(b))&(T(b)) ; (T(b))&(True) ; (T(d))&(T(f)) ; (T(f))&([1.,2.,3.,4.]) ; "
        "(tf.Variable(f))&(2) ; -T(f) ; ~T(b) ; abs(T(i)) ; bool(T(1)) ; bool(T(f)) ; int(T(3.7)) ; "
        "float(T(3)) ; len(T(f)) ; T(f)[1] ; T(f)[-1] ; T(f)[:, -1] ; T(f)[..., 0] ; T(f)[tf.newaxis] ; "
        "T(f)[1:3, ::2] ; T(f)[::-1] ; T(f)[5:2] ; T(f)[T(1)] ; T(f)[T([0,1])] ; T(f)[[0,1]] ; T(f)[T(b)] ; "
        "T(f)[b] ; T(f)[None,...,None] ; T(f)[:,None,1] ; T(f3)[0, ..., 1] ; T(f3)[..., 1:, :] ; T(f)[-1:] ; "
        "T(f)[:-1] ; T(f)[-2:-1] ; T(f)[2:0:-1] ; T(s)[1] ; T(f)[np.int64(1)] ; tf.Variable(f)[T(1)] ; "
        "[x for x in T([1,2])] ; list(T(f)) ; T(f).numpy() ; T(s).numpy() ; T('q').numpy() ; "
        "T(f).shape.as_list() ; T(f).shape.rank ; T(f).shape[0] ; T(f).dtype.name ; str(T(1.5)) ; "
        "repr(T(1.5)) ; repr(T([1,2])) ; repr(T(s)) ; repr(T('x')) ; str(T(f)) ; repr(T(f)) ; str(T(True)) ; "
        "f'{T(1.5):.3f}' ; f'{T(1.5)}' ; T(f).ndim ; tuple(T(f).shape) ; str(T(f).shape) ; T(f).device[-5:] ; "
        "T(f).shape==(3,4) ; T(f).shape==[3,4] ; str(tf.float32) ; tf.float32.is_floating ; tf.int32.max ; "
        "tf.int32.min ; tf.float32.max ; tf.float32.size ; tf.bool.name ; tf.float32==np.float32 ; "
        "tf.float32=='float32' ; tf.float32.base_dtype"),
    "as_dtype": (
        "'float' ; 'float64' ; np.int64 ; float ; 'double'"),
    "float32.is_compatible_with": (
        "tf.float64"),
    "constant": (
        "1,tf.float32 ; 1.5 ; [1,2],dtype='int64' ; [1,2.5],tf.float32 ; [1,2.5],dtype='int64' ; [True,False] ; "
        "[True,False],dtype='int64' ; 'a',dtype='int64' ; ['a','b'] ; ['a','b'],dtype='int64' ; "
        "[b'a',b'bc'],dtype='int64' ; 2**40 ; 2**40,dtype='int64' ; -2**31,tf.float32 ; 2**31 ; "
        "2**31,dtype='int64' ; np.arange(3),tf.float32 ; np.arange(3.) ; np.arange(3.),dtype='int64' ; "
        "[],tf.float32 ; [[],[]],tf.float32 ; [[1,2],[3]],tf.float32 ; 1+2j,dtype='int64' ; "
        "np.int8(3),tf.float32 ; np.array('a') ; [np.float32(1),2] ; [np.float64(1),2],tf.float32 ; "
        "np.uint64(3),tf.float32 ; (1,2) ; (1,2),dtype='int64' ; range(3),tf.float32 ; [1,True] ; "
        "[1,True],dtype='int64' ; float('nan'),tf.float32 ; float('nan'),dtype='int64' ; [np.int64(1)] ; "
        "[np.int64(1)],dtype='int64' ; [[1],[2.5]],tf.float32 ; [[1],[2.5]],dtype='int64' ; f,tf.float32 ; "
        "f.tolist() ; [f,f],tf.float32 ; 1,shape=[2,2] ; -1,tf.uint8 ; 1,tf.string ; True,tf.float32 ; "
        "f,tf.int32 ; d,tf.float32 ; 3,shape=[]"),
    "cast": (
        "1,tf.int32 ; [1,2],tf.int32 ; [True,False],tf.int32 ; -2**31,tf.int32 ; np.arange(3),tf.int32 ; "
        "[],tf.int32 ; [np.float32(1),2],tf.int32 ; [T(1),T(2)],tf.int32 ; range(3),tf.int32 ; "
        "[1,True],tf.int32 ; [np.int64(1)],tf.int32 ; f,tf.int32 ; [f,f],tf.int32 ; f,tf.float64 ; f,tf.bool ; "
        "n,tf.float64 ; n,tf.int64 ; i,tf.float32 ; i,tf.int32 ; i,tf.bool ; b,tf.float32 ; b,tf.int32 ; "
        "b,tf.bool ; u,tf.float32 ; u,tf.int32 ; u,tf.bool ; l,tf.float32 ; l,tf.int32 ; l,tf.bool ; "
        "d,tf.float32 ; d,tf.int32 ; d,tf.bool ; '1.5',tf.string ; 1.9,tf.float64 ; 1.9,tf.int64 ; "
        "1.9,tf.uint8 ; -1.9,tf.float64 ; -1.9,tf.int64 ; [1.9,-1.9],tf.float32 ; [1.9,-1.9],tf.int32 ; "
        "[1.9,-1.9],tf.bool ; True,tf.float64 ; True,tf.int64 ; True,tf.uint8 ; 300,tf.float64 ; 300,tf.int64 ; "
        "300,tf.uint8 ; -1,tf.float64 ; -1,tf.int64 ; -1,tf.uint8 ; 1e20,tf.float64 ; 1e20,tf.int64 ; "
        "1e20,tf.uint8 ; f,'int32' ; f,bool ; f,float"),
    "convert_to_tensor": (
        "np.arange(3) ; np.arange(3.) ; np.int8(3),tf.float32 ; np.array(['a','bb']) ; "
        "[np.float32(1),2],tf.float32 ; [np.float64(1),2],tf.float32 ; [T(1),T(2)],tf.float32 ; "
        "np.uint64(3),tf.float32 ; [np.int64(1)],tf.float32"),
    "Variable": (
        "np.arange(3.) ; [np.float64(1),2] ; [np.int64(1)]"),
    "argmax": (
        "f,1 ; f,axis=-1 ; f,axis=0,output_type=tf.int32 ; input=f,axis=1 ; [1,3,2] ; f,axis=2 ; f,None ; "
        "f,1,tf.int32 ; f,1,tf.int32,'nm' ; f,axis=T(1) ; f3,axis=-2 ; [2,2,1]"),
    "argmin": (
        "f,1 ; f,axis=-1 ; f,axis=0,output_type=tf.int32 ; input=f,axis=1 ; [1,3,2] ; 5 ; f,None ; "
        "f,1,tf.int32 ; f,1,tf.int32,'nm' ; f,axis=T(1) ; f3,axis=-2 ; [2,2,1]"),
    "expand_dims": (
        "f,0 ; f,-1 ; f,axis=1 ; input=f,axis=1 ; T(f),axis=0,name='x' ; 3,0 ; f,T(0) ; s,1 ; [1,2],axis=0"),
    "squeeze": (
        "f[None] ; f[None,...,None] ; f[None],0 ; f[None],[0] ; f[None],axis=-3 ; f[None],axis=1 ; "
        "input=f[None] ; f,[] ; f[None],axis=[0,-3] ; 3 ; f[None], 0, 'nm' ; f[None,:,:,None], [-1]"),
    "reshape": (
        "f,[4,3] ; f,[-1] ; f,(2,-1) ; tensor=f,shape=[12] ; f,-1 ; f,[12],'nm' ; e,[-1,3] ; e,[0] ; e,[-1] ; "
        "f,T([6,2]) ; f,np.array([6,2]) ; f,[T(6),2] ; s,[3,1] ; 5,[] ; 5,[1,1] ; f,tf.shape(f) ; f,f.shape ; "
        "f, T(f).shape ; b,[-1]"),
    "concat": (
        "[f,f],0 ; [f,f],1 ; [f,f],axis=-1 ; values=[f,f],axis=0 ; [f],0 ; [f,d],0 ; [f,i],0 ; "
        "[i,[[1,2,3,4]]],0 ; [e,f[:,:3]],0 ; [f,f],2 ; [s,s],0 ; [1,2],0 ; [f,f],T(1) ; (f,f),0 ; "
        "[f,f],0,'nm' ; [b,b],-2 ; [T(f),f3[0]],0"),
    "stack": (
        "[f,f] ; [f,f],1 ; [f,f],axis=-1 ; [f,f],axis=-3 ; [f,f],axis=3 ; values=[1,2] ; [1.,T(2.)] ; "
        "[T(1),2.] ; [f,d] ; [s,s] ; [f,f],0,'nm' ; [[1,2],[3,4]],1 ; T(f) ; (T(1),T(2)) ; [np.float32(1),2] ; "
        "[1,True]"),
    "unstack": (
        "f,None,1 ; f,axis=-1 ; value=f,axis=1 ; f,3 ; f,num=3,axis=0 ; f,None,1,'nm'"),
    "split": (
        "f,2,1 ; f,[1,3],1 ; value=f,num_or_size_splits=2,axis=-1 ; f,3 ; f,[1,-1],axis=1 ; f,[4],1,None ; "
        "f,T([1,3]),1 ; f,2,axis=1,num=None ; f,1,-2,None,'nm' ; f,[0,3] ; s,3"),
    "slice": (
        "f,[0,1],[2,2] ; f,[1,1],[-1,-1] ; input_=f,begin=[0,0],size=[1,1] ; f,[-1,0],[1,1] ; "
        "f,T([1,1]),T([1,2]) ; f,[3,0],[0,4] ; f,[0,0],[1,1],'nm' ; f,[0,T(1)],[1,1] ; s,[1],[2] ; "
        "f, begin=[1,0], size=[-1,2]"),
    "tile": (
        "f,[2,1] ; f,[1,0] ; input=f,multiples=[1,2] ; f,T([2,2]) ; f,[2,2],'nm' ; f,[-1,1] ; s,[2] ; 5,[] ; "
        "[1,2],[3] ; f,[T(2),1] ; b,[1,3] ; e,[2,2]"),
    "transpose": (
        "f3,[2,0,1] ; a=f ; f3,perm=[0,2,1] ; f,T([1,0]) ; 5 ; f,[1,0],False ; f,[1,0],name='nm' ; "
        "f,[1,0],conjugate=True ; f,None ; f,[0,2]"),
    "pad": (
        "f,[[1,0],[0,2]] ; f,[[1,1],[1,1]],'CONSTANT' ; f,[[1,1],[1,1]],constant_values=9 ; "
        "tensor=f,paddings=[[0,0],[1,1]] ; f,[[1,1],[1,1]],'CONSTANT',5,'nm' ; "
        "i,[[1,1],[1,1]],constant_values=2 ; f,T([[1,0],[0,0]]) ; [1,2],[[1,1]] ; s,[[1,1]] ; b,[[1,0],[0,0]] ; "
        "f, np.array([[0,0],[1,1]]), constant_values=-1.5"),
    "gather": (
        "f,[0,2] ; f,[0,2],axis=1 ; f,[[0],[1]],axis=-1 ; f,1 ; f,T(1) ; params=f,indices=[0],axis=0 ; f,[-1] ; "
        "f,np.array([0],np.int64) ; f,[0,2],None,1 ; f,[0,1],1 ; f,[0,1],validate_indices=True ; s,[2,0] ; "
        "f,[0],axis=T(1) ; f,[0],axis=2 ; b,[0] ; f,[0],name='nm' ; tf.Variable(f),[1] ; f3,[0],axis=-2 ; "
        "i,[[0,1]],axis=1"),
    "gather_nd": (
        "f,[[0,1],[2,3]] ; f,[[0],[2]] ; f,[0,1] ; params=f,indices=[[1]] ; s,[[1]] ; f,[[0,1]],name='nm' ; "
        "f3,[[0,0,0]] ; f3,[[0,1]]"),
    "where": (
        "b,f,-f ; b,f,0. ; b,1.,0. ; b,1,0 ; condition=b,x=f,y=f ; b,x=f,y=d ; True,f,-f ; b[0],f,f ; "
        "b[:,:1],f,-f ; [True,False] ; [True,False],['a','b'],['c','d'] ; b, T(i), 0 ; b, i, l ; b,f,-f,'nm' ; "
        "b,f,np.float64(0) ; np.zeros((0,2),bool) ; b,T(f),2 ; b,2,T(f) ; b,True,False ; [True,False],1.,2"),
    "one_hot": (
        "[0,1,2],3 ; [0,1],3,5,2 ; [0,1],depth=3,axis=0 ; [0,-1,7],3 ; indices=[1],depth=2,dtype=tf.int32 ; "
        "[0,1],2,on_value=True,off_value=False ; [0,1],2,5.,1. ; [[0,1]],2,axis=-1 ; [0,1],2,axis=1 ; "
        "[0,1],2,None,None,0 ; [0,1],T(3) ; 1,3 ; [0,1],2,dtype='int64' ; [0,1],2,on_value=5,off_value=1 ; "
        "[0,1],2,on_value=5.,off_value=1 ; [0,1],2,on_value=5,dtype=tf.float32 ; [0,1],0 ; [[0]],2,axis=1 ; "
        "u,3 ; l,3 ; [0,1],2,1,0,-1,tf.int32,'nm' ; [0,1],2,off_value=3"),
    "range": (
        "5 ; 1,5 ; 1,10,3 ; start=1,limit=5 ; 5. ; 1,5,0.5 ; 5,dtype=tf.float32 ; 5,1,-1 ; 0 ; 1,2,delta=.25 ; "
        "T(5) ; 3,dtype=tf.int64 ; 1,5,2,tf.int64 ; 1,5,2,tf.int64,'nm' ; start=3 ; start=1,limit=10,delta=4 ; "
        "np.int64(4) ; 5.,dtype='float64' ; 0,2**40,2**38 ; delta=2,limit=7,start=0 ; np.float64(3) ; -1,2 ; "
        "5,name='nm' ; T(2),T(9),T(3) ; 0.,1.,.1"),
    "linspace": (
        "0.,1.,5 ; 0,1,5 ; 0.,1.,num=1 ; [0.,1.],[2.,3.],3 ; [0.,1.],[2.,3.],3,axis=-1 ; "
        "start=0.,stop=1.,num=3 ; T(0.,tf.float64),1.,3 ; 0.,1.,T(4) ; 0.,1.,3,'nm' ; 1,10,4 ; 0.,1,3 ; "
        "np.float64(0),np.float64(1),3"),
    "eye": (
        "3 ; 3,4 ; 3,batch_shape=[2] ; 2,dtype=tf.int32 ; num_rows=2,num_columns=3 ; 2,3,[2],tf.float64,'nm' ; "
        "0 ; 2,dtype=tf.bool"),
    "zeros": (
        "[2,3] ; 3 ; [] ; (2,) ; [2],tf.int32 ; [2],tf.string ; [2],tf.bool ; shape=[1],dtype='float64' ; "
        "T([2,2]) ; [0,3] ; np.array([2,1]) ; [2],tf.float32,'nm' ; [T(2),3] ; T(3) ; [2],bool ; T(f).shape"),
    "ones": (
        "[2,3] ; 3 ; [] ; (2,) ; [2],tf.int32 ; [2],tf.string ; [2],tf.bool ; shape=[1],dtype='float64' ; "
        "T([2,2]) ; [0,3] ; np.array([2,1]) ; [2],tf.float32,'nm' ; [T(2),3] ; T(3) ; [2],bool ; T(f).shape"),
    "fill": (
        "[2,2],5 ; [2],5. ; [2],'a' ; [],3 ; dims=[2],value=True ; T([2]),T(3) ; [2],np.float64(3) ; 3,1 ; "
        "[2],2**40 ; [2],1,'nm' ; [0],1 ; T(f).shape,2."),
    "shape": (
        "input=f ; f,out_type=tf.int64 ; f,tf.int64 ; 5 ; tf.Variable(f) ; f,tf.int64,'nm' ; [[1,2]]"),
    "size": (
        "input=f ; f,out_type=tf.int64 ; f,tf.int64 ; 5 ; tf.Variable(f) ; f,tf.int64,'nm' ; [[1,2]]"),
    "rank": (
        "input=f ; f,tf.int64 ; 5 ; tf.Variable(f) ; f,tf.int64,'nm' ; [[1,2]]"),
    "matmul": (
        "f,f.T ; f,f,transpose_b=True ; f,f,True ; f,f,transpose_a=True ; f3,f3,transpose_b=True ; f,d.T ; "
        "i,i.T ; l,l.T ; a=f,b=f.T ; f,f ; f,f,adjoint_b=True ; e,np.zeros((3,0),np.float32) ; "
        "np.zeros((2,0),np.float32),np.zeros((0,3),np.float32) ; f3,f3[0].T ; f3,f3.transpose(0,2,1)[:1] ; "
        "f,f[0] ; f,f,False,True,False,False,False,False,None,'nm' ; d,d.T ; [[1,2]],[[3],[4]] ; "
        "[[1.,2]],[[3],[4]] ; n,n.T ; b,b ; f3[:,None],f3.transpose(0,2,1)[None] ; f,f.T,a_is_sparse=True"),
    "linalg.matvec": (
        "f,f[0] ; f3,f3[:,0] ; f,f[:,0],transpose_a=True ; f3,f[0] ; i,i[0]"),
    "norm": (
        "f,1 ; f,axis=0 ; f,ord=1 ; f,ord=np.inf ; f,'fro',[0,1] ; f3,axis=[-2,-1] ; f,keepdims=True ; "
        "tensor=f,ord=2,axis=1 ; f,2 ; f,ord=3,axis=1 ; f,ord='euclidean',axis=1,keepdims=True ; "
        "f,ord=0.5,axis=1 ; e,axis=0 ; f,1,None,False,'nm'"),
    "boolean_mask": (
        "f,b ; f,b[0],axis=1 ; f,b[:,0] ; [1,2,3],[True,False,True] ; s,[True,False,True] ; tensor=f,mask=b ; "
        "f3,b[:2,:3] ; f,b[:,0],axis=0 ; f,b[:,0],'nm' ; f,b[0],1 ; f,[0,1,1] ; f,[False,False,False] ; "
        "f,b,axis=0"),
    "broadcast_to": (
        "f[0],[3,4] ; f,[2,3,4] ; 1,[2,2] ; input=f[0],shape=(3,4) ; f,[3,4],'nm' ; s,[2,3] ; i[:, :1],[3,4] ; "
        "f,T([1,3,4]) ; b,[1,3,4] ; e,[2,0,3]"),
    "clip_by_value": (
        "f,-1,1 ; f,-1.,1. ; i,0,3 ; f,0,T(2.) ; f,f[0]-1,f[0] ; t=f,clip_value_min=0.,clip_value_max=1. ; "
        "n,-1.,1. ; f,-1,1,'nm' ; d,-1.,1. ; l,0,3 ; f,np.float64(0),1. ; [1,5,9],2,6"),
    "clip_by_norm": (
        "f,2. ; f,2 ; t=f,clip_norm=1.,axes=1 ; f,2.,[0] ; f*0,1. ; f,T(2.) ; n,1. ; f,2.,axes=[0,1] ; "
        "f,2.,None,'nm' ; d,1. ; f,2.,-1 ; [3.,4.],1."),
    "clip_by_global_norm": (
        "[f,f],1. ; [f,None],1. ; t_list=[f],clip_norm=2. ; [f],100. ; [f],T(1.) ; [f*0],1. ; [n],1. ; [d],1. ; "
        "[],1. ; (f,),1. ; [f,f3],3. ; f,1. ; [f],1.,None,'nm'"),
    "sort": (
        "f,0 ; f,direction='DESCENDING' ; values=f,axis=0 ; f,-1,'DESCENDING' ; l,1 ; f,-1,'ASCENDING'"),
    "argsort": (
        "f,0 ; f,direction='DESCENDING' ; values=f,axis=0 ; f,-1,'DESCENDING' ; l,1 ; f,-1,'ASCENDING' ; "
        "[2,2,1,1],direction='DESCENDING' ; [1,1,0],stable=True ; "
        "[2,2,1,1],direction='DESCENDING',stable=True"),
    "math.top_k": (
        "f,2 ; input=f,k=1 ; i,2 ; f[0],2 ; l,3 ; f,T(2) ; [1,1,1],2 ; f,0"),
    "math.in_top_k": (
        "[0,1],[[.1,.9],[.3,.7]],1 ; targets=[0],predictions=[[1.,1.]],k=1 ; [0],[[np.nan,1.]],1 ; "
        "[5],[[1.,2.]],1 ; [0,1],f[:2],2 ; [0],[[1.,2.]],0 ; [0],[[np.inf,1.]],1"),
    "nn.l2_normalize": (
        "f,1 ; f,axis=-1 ; f,[0,1] ; f,1,1e-3 ; x=f,axis=0,epsilon=1e-12 ; f*0,1 ; d,0 ; f,axis=1,name='nm' ; "
        "n,1 ; f,None"),
    "math.unsorted_segment_sum": (
        "f,[0,1,0],2 ; f,[-1,0,0],2 ; i,[0,1,0],3 ; data=f,segment_ids=[0,1,1],num_segments=2 ; f,i%3,3 ; "
        "f,[0,1,0],T(2) ; f,[0,1,0],2,'nm' ; d,[0,1,0],2 ; [1.,2.],[0,0],1 ; e,np.zeros(0,np.int32),2 ; "
        "f,np.array([0,1,0]),2"),
    "math.softmax": (
        "d ; e ; i"),
    "nn.conv2d": (
        "f4,k4,1,'SAME' ; f4,k4,[1,2,2,1],'VALID' ; f4,k4,2,'SAME' ; "
        "f4,filters=k4,strides=[2,1],padding='VALID' ; f4,k4,1,'SAME','NHWC' ; f4,k4,1,'SAME',name='nm' ; "
        "f4,k4,3,'SAME' ; f4.astype(np.float64),k4.astype(np.float64),1,'SAME' ; f4,k4[:, :, :1],1,'SAME'"),
    "nn.max_pool2d": (
        "f4,2,2,'SAME' ; f4,[1,2,2,1],[1,2,2,1],'VALID' ; f4,[2,3],[1,2],'SAME' ; "
        "input=f4,ksize=2,strides=1,padding='VALID' ; f4,2,2,'SAME','NHWC' ; f4,2,2,'SAME',name='nm' ; "
        "f4,3,2,'SAME' ; f4,9,1,'VALID'"),
    "nn.bias_add": (
        "f,[1.,2,3,4] ; value=f,bias=np.ones(4,np.float32) ; f4,[1.,2,3] ; f4,[1.,2,3],'NHWC' ; i,[1,2,3,4]"),
    "nn.dropout": (
        "f,0 ; f,0. ; f,rate=2. ; e,0.5"),
    "nn.embedding_lookup": (
        "f,[0,2] ; f,[[0]] ; params=f,ids=[1] ; f,[0],name='nm' ; [f],[1] ; f,T([0],tf.int64)"),
    "nn.moments": (
        "f,0 ; f,[0,1] ; f,axes=-1,keepdims=True ; f3,[0,1] ; x=f,axes=[0] ; d,[0] ; i,[0] ; f,[0],None,True ; "
        "f,[0],None,True,'nm'"),
    "nn.sigmoid_cross_entropy_with_logits": (
        "labels=b.astype(np.float32),logits=f ; b.astype(np.float32),f ; labels=f,logits=f[0] ; "
        "labels=d,logits=d ; labels=[1.,0.],logits=[100.,-100.]"),
    "nn.softmax_cross_entropy_with_logits": (
        "labels=tf.nn.softmax(f),logits=f ; tf.nn.softmax(f),f ; "
        "labels=[[1.,0]],logits=[[2.,1]],axis=-1,name='nm' ; labels=d,logits=d ; "
        "labels=[[1,0]],logits=[[2.,1]] ; labels=f3,logits=f3 ; labels=[1.,0],logits=[2.,1]"),
    "nn.sparse_softmax_cross_entropy_with_logits": (
        "labels=[0,1,2],logits=f ; [0,1,3],f ; labels=[[0,1,2],[1,1,1]],logits=f3 ; labels=[0.,1,2],logits=f ; "
        "labels=1,logits=f[0] ; labels=np.array([0,1,2]),logits=d ; [0,1,2],f,'nm'"),
    "nn.compute_average_loss": (
        "[1.,2.] ; [1.,2.],global_batch_size=4 ; [1.,2.],sample_weight=[1.,0.] ; f,global_batch_size=3 ; "
        "per_example_loss=[3.] ; [1.,2.],[0.,1.],4 ; [1.,2.],sample_weight=2. ; np.zeros(0,np.float32) ; "
        "[1.,2.],global_batch_size=T(4)"),
    "nn.scale_regularization_loss": (
        "[1.,2.] ; 3."),
    "unique": (
        "[1,1,2] ; ['a','b','a'] ; [1,2],tf.int64 ; [1,2],out_idx=tf.int64,name='n' ; np.array([5,5])"),
    "reverse": (
        "f,[0] ; f,[1] ; f,[-1] ; f,[0,1] ; tensor=f,axis=[1] ; s,[0] ; f,[] ; f,T([0]) ; b,[1] ; "
        "f3,[-1,0],'nm'"),
    "scatter_nd": (
        "[[0],[2]],[5.,6.],[4] ; [[0],[0]],[5.,6.],[4] ; indices=[[1]],updates=[3],shape=[2] ; "
        "[[0,1]],[1.],[2,2] ; [[0]],[[1,2]],[2,2] ; [[0]],[1.],T([3]) ; "
        "T([[0]],tf.int64),[1.],T([3],tf.int64) ; [[0]],[1.],[3],'nm'"),
    "tensor_scatter_nd_add": (
        "f,[[0],[2]],f[:2] ; f,[[0,0],[0,0]],[1.,2.] ; [1,2,3],[[1]],[9] ; "
        "tensor=f,indices=[[1]],updates=f[:1] ; f,[[0]],f[:1],'nm'"),
    "tensor_scatter_nd_sub": (
        "f,[[0],[2]],f[:2] ; f,[[0,0],[0,0]],[1.,2.] ; [1,2,3],[[1]],[9] ; "
        "tensor=f,indices=[[1]],updates=f[:1] ; f,[[9]],f[:1] ; f,[[0]],f[:1],'nm'"),
    "tensor_scatter_nd_update": (
        "f,[[0],[2]],f[:2] ; [1,2,3],[[1]],[9] ; tensor=f,indices=[[1]],updates=f[:1] ; f,[[9]],f[:1] ; "
        "f,[[0]],f[:1],'nm'"),
    "meshgrid": (
        "[1,2],[3,4,5] ; [1,2],[3,4,5],indexing='ij' ; [1.,2.] ; [1,2],[3,4],sparse=True ; [1,2],[3],[4,5] ; "
        "5,[1,2]"),
    "add_n": (
        "[f,f] ; inputs=[f,f],name='a' ; [i,i,i] ; [2,3]"),
    "logical_and": (
        "b,b ; [True,False],True"),
    "logical_or": (
        "b,True"),
    "logical_not": (
        "x=[True]"),
    "linalg.global_norm": (
        "[f,f] ; [f,None]"),
    "strings.as_string": (
        "[1,2] ; [1.5,2] ; True ; 1e20 ; np.float64(0.1)"),
    "strings.to_hash_bucket_fast": (
        "['a','b'],10 ; input=['a'],num_buckets=5 ; 'x',5 ; ['a'],5,'nm'"),
    "is_tensor": (
        "T(f) ; tf.Variable(1)"),
    "debugging.assert_equal": (
        "1,2 ; [1,1],1 ; [],[]"),
    "debugging.assert_less": (
        "1,1,message='mm'"),
    "debugging.assert_greater": (
        "[2],1"),
    "debugging.check_numerics": (
        "f,'bad' ; tensor=f,message='m',name='x'"),
    "debugging.assert_none_equal": (
        "[1,2],[3,4]"),
    "nest.flatten": (
        "{'b':1,'a':[2,3]} ; structure=[1,(2,)] ; None ; [] ; f"),
    "nest.map_structure": (
        "lambda x:x+1,{'a':1,'b':(2,3)} ; lambda x,y:x+y,[1,2],[3,4]"),
    "nest.pack_sequence_as": (
        "{'b':1,'a':2},[10,20]"),
    "nest.is_nested": (
        "[1] ; 'a' ; f ; seq={} ; {1}"),
}
CALLS = [f"tf.{name}({arguments})" if name else arguments
         for name, several in TABLE.items() for arguments in several.split(" ; ")]


def described(value):
    """A result with its types, as JSON."""
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    if isinstance(value, dict):
        return {str(key): described(item) for key, item in value.items()}
    if hasattr(value, "indices") and hasattr(value, "dense_shape"):
        return described([value.indices, value.values, value.dense_shape])
    if hasattr(value, "numpy"):
        return [value.dtype.name, list(value.shape), _plain(np.asarray(value.numpy()).tolist())]
    if isinstance(value, (np.ndarray, np.generic)):
        return [f"numpy {value.dtype}", list(value.shape), _plain(value.tolist())]
    return value if isinstance(value, (bool, int, str)) or value is None else _plain(value)


def _plain(value):
    if isinstance(value, np.ndarray):  # a row of a ragged tensor
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):  # JSON has no NaN
        return float(f"{value:.9g}") if np.isfinite(value) else repr(value)
    return value if isinstance(value, (bool, int, str)) or value is None else str(getattr(value, "name", value))


def results(tf, calls=CALLS, **more):
    """What each call gives; {"raises": the names of the exception's classes} for an error."""
    names = {**DATA, **more, "tf": tf, "T": tf.constant}
    found = {}
    for call in calls:
        try:
            found[call] = described(eval(call, names))
        except Exception as exception:
            found[call] = {"raises": [kind.__name__ for kind in type(exception).__mro__], "text": str(exception)}
    return found


def write(give, path):
    """The results of TensorFlow as JSON: of give(tf), by the calls."""
    import tensorflow
    tensorflow.get_logger().setLevel("ERROR")
    wanted = {call: {"raises": value["raises"][0]} if isinstance(value, dict) and "raises" in value else value
              for call, value in give(tensorflow).items()}
    with open(path, "w", encoding="utf-8") as file:
        lines = (f" {json.dumps(call)}: {json.dumps(value)}" for call, value in wanted.items())
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write(results, sys.argv[1])
