/* SPDX-License-Identifier: Apache-2.0
 *
 * AvgPool and AvgPoolGrad on a GPU. The gradient goes by input elements: each looks at the windows that hold it. */
#include "cuda/window.cuh"

template <typename T> static __global__ void avg_pool_kernel(const T *x, T *y, est_conv_geometry g, int64_t count)
{
    int64_t   i = est_thread(), p;
    est_pixel at;
    int       c, top, left, a0, a1, b0, b1;
    T         sum = 0;

    if (i >= count) return;
    p  = est_divide(i, g.c);
    c  = (int)(i - p * g.c);
    at = est_pixel_of(p, g.oh, g.ow);
    est_taps_of(at.row, (int)g.top, (int)g.kh, (int)g.sh, (int)g.h, &top, &a0, &a1);
    est_taps_of(at.col, (int)g.left, (int)g.kw, (int)g.sw, (int)g.w, &left, &b0, &b1);
    for (int a = a0; a < a1; a++) {
        for (int b = b0; b < b1; b++) sum += x[((at.image * g.h + top + a) * g.w + left + b) * g.c + c];
    }
    y[i] = sum * ((T)1 / (T)((a1 - a0) * (b1 - b0)));
}

template <typename T>
static __global__ void avg_pool_grad_kernel(const T *dy, T *dx, est_conv_geometry g, int64_t count)
{
    int64_t   i = est_thread(), p;
    est_pixel at;
    int       c, i0, i1, j0, j1;
    T         sum = 0;

    if (i >= count) return;
    p  = est_divide(i, g.c);
    c  = (int)(i - p * g.c);
    at = est_pixel_of(p, g.h, g.w);
    est_windows_of(at.row, (int)g.top, (int)g.kh, (int)g.sh, (int)g.oh, &i0, &i1);
    est_windows_of(at.col, (int)g.left, (int)g.kw, (int)g.sw, (int)g.ow, &j0, &j1);
    for (int wi = i0; wi < i1; wi++) {
        for (int wj = j0; wj < j1; wj++) {
            int start, a0, a1, b0, b1;

            est_taps_of(wi, (int)g.top, (int)g.kh, (int)g.sh, (int)g.h, &start, &a0, &a1);
            est_taps_of(wj, (int)g.left, (int)g.kw, (int)g.sw, (int)g.w, &start, &b0, &b1);
            sum += dy[((at.image * g.oh + wi) * g.ow + wj) * g.c + c] * ((T)1 / (T)((a1 - a0) * (b1 - b0)));
        }
    }
    dx[i] = sum;
}

template <typename T> static int launch(const est_call *c)
{
    return est_launch(c, avg_pool_kernel<T>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<T>(&c->out[0]), est_window_geometry(c), c->out[0].count);
}

template <typename T> static int launch_grad(const est_call *c)
{
    return est_launch(c, avg_pool_grad_kernel<T>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<T>(c->in[1]),
                      est_data<T>(&c->out[0]), est_window_geometry(c), c->out[0].count);
}

EST_DEFINE_LAUNCHER(avg_pool)
{
    return c->out[0].dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}

EST_DEFINE_LAUNCHER(avg_pool_grad)
{
    return c->out[0].dtype == EST_F32 ? launch_grad<float>(c) : launch_grad<double>(c);
}
