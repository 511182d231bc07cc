#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX and PyTorch on one GPU, training the reference models of bench/support/models.c, as lines of JSON.

  gpu_peer.py [--rows cnn:64,mlp:4096] [--modes jax,jax_scan,jax_sparse,torch] [--full] [--windows 5] [--steps 200]

  jax         a jitted step a call, its state donated
  jax_scan    eight steps a call by lax.scan: JAX without most of its host
  jax_sparse  wide_deep by rows: ids sorted, equal ones summed, Adagrad on the distinct rows; alone and with scan
  torch       the whole step in one CUDA graph, inputs copied into its buffers

--full: float32 with all its bits in products, else TF32. Eight sets of inputs lie on the GPU and are used in turn. Ids are uniform. The
peers' linear part has Adagrad, where ours has FTRL, which is more work for us."""
import argparse
import functools
import json
import sys
import time

SETS, TABLES, NUMBERS, BUCKETS, WIDTH = 8, 26, 13, 100_000, 16
LAYERS = {"cnn": (5408, 64, 10), "mlp": (784, 1024, 512, 256, 10), "wide_deep": (TABLES * WIDTH + NUMBERS, 256, 128, 64, 1)}
ROWS = "cnn:64,cnn:1024,mlp:128,mlp:4096,wide_deep:512,wide_deep:16384"


def batches(model, batch):
    """Eight sets of (inputs, labels) in numpy."""
    import numpy as np

    random = np.random.default_rng(7)
    for _ in range(SETS):
        if model == "wide_deep":
            ids = random.integers(0, BUCKETS, (batch, TABLES)) + np.arange(TABLES) * BUCKETS
            yield (ids.astype(np.int32), random.random((batch, NUMBERS), np.float32)), random.integers(0, 2, batch).astype(np.float32)
        else:
            shape = (batch, 28, 28, 1) if model == "cnn" else (batch, 784)
            yield (random.random(shape, np.float32),), random.integers(0, 10, batch).astype(np.int32)


def windows(run, options):
    """Steps a second: median, least, most."""
    run(40)
    rates = []
    for _ in range(options.windows):
        start = time.perf_counter()
        run(options.steps)
        rates.append(options.steps / (time.perf_counter() - start))
    rates.sort()
    return rates[len(rates) // 2], rates[0], rates[-1]


# --- JAX ---------------------------------------------------------------------------------------------------------------------------


def jax_parameters(model):
    import jax
    import jax.numpy as jnp

    key = jax.random.PRNGKey(1)
    widths = LAYERS[model]
    p = {"dense": [(jax.random.normal(key, (i, o)) * i**-0.5, jnp.zeros(o)) for i, o in zip(widths, widths[1:])]}
    if model == "cnn":
        p["conv"] = (jax.random.normal(key, (3, 3, 1, 32)) / 3, jnp.zeros(32))
    if model == "wide_deep":
        p["deep"] = jax.random.normal(key, (TABLES * BUCKETS, WIDTH)) * WIDTH**-0.5
        p["wide"] = jnp.zeros(TABLES * BUCKETS)
    return p


def jax_tower(layers, x):
    import jax

    for w, b in layers[:-1]:
        x = jax.nn.relu(x @ w + b)
    return x @ layers[-1][0] + layers[-1][1]


def jax_clicks(layers, deep, wide, numbers, label):
    """The loss of wide_deep from the rows that were looked up."""
    import jax.numpy as jnp

    joined = jnp.concatenate([deep.reshape(deep.shape[0], -1), numbers], 1)
    z = jax_tower(layers, joined)[:, 0] + wide.sum(1)
    return jnp.mean(jnp.maximum(z, 0) - z * label + jnp.log1p(jnp.exp(-jnp.abs(z))))


def jax_loss(model, p, x, y):
    import jax
    import jax.numpy as jnp

    if model == "wide_deep":
        return jax_clicks(p["dense"], p["deep"][x[0]], p["wide"][x[0]], x[1], y)
    h = x[0]
    if model == "cnn":
        h = jax.lax.conv_general_dilated(h, p["conv"][0], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + p["conv"][1]
        h = jax.lax.reduce_window(jax.nn.relu(h), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = h.reshape(h.shape[0], -1)
    logits = jax.nn.log_softmax(jax_tower(p["dense"], h))
    return -jnp.mean(jnp.take_along_axis(logits, y[:, None], 1))


def jax_adagrad(p, slots, grads):
    import jax
    import jax.numpy as jnp

    slots = jax.tree_util.tree_map(lambda a, g: a + g * g, slots, grads)
    return jax.tree_util.tree_map(lambda w, g, a: w - 0.01 * g / jnp.sqrt(a), p, grads, slots), slots


def jax_step(model, p, slots, x, y):
    import jax

    grads = jax.grad(functools.partial(jax_loss, model))(p, x, y)
    if model == "cnn":
        return jax.tree_util.tree_map(lambda w, g: w - 0.01 * g, p, grads), slots
    return jax_adagrad(p, slots, grads)


def jax_rows(table, slot, rows, grads):
    """Adagrad on sorted, distinct rows; those behind the end are none."""
    import jax.numpy as jnp

    how = {"unique_indices": True, "indices_are_sorted": True}
    new = slot.at[rows].get(mode="clip", **how) + grads * grads
    moved = table.at[rows].get(mode="clip", **how) - 0.01 * grads / jnp.sqrt(new)
    return table.at[rows].set(moved, mode="drop", **how), slot.at[rows].set(new, mode="drop", **how)


def jax_sparse_step(p, slots, x, y):
    import jax
    import jax.numpy as jnp

    ids, n = x[0].reshape(-1), x[0].size
    dense, deep, wide = jax.grad(jax_clicks, (0, 1, 2))(p["dense"], p["deep"][x[0]], p["wide"][x[0]], x[1], y)
    keys, places = jax.lax.sort_key_val(ids, jnp.arange(n, dtype=jnp.int32))
    run = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), keys[1:] != keys[:-1]]), dtype=jnp.int32)
    rows = (p["wide"].shape[0] + jnp.arange(n, dtype=jnp.int32)).at[run].set(keys, indices_are_sorted=True)
    add = functools.partial(jax.ops.segment_sum, segment_ids=run, num_segments=n, indices_are_sorted=True)
    p, slots = dict(p), dict(slots)
    p["deep"], slots["deep"] = jax_rows(p["deep"], slots["deep"], rows, add(deep.reshape(n, -1)[places]))
    p["wide"], slots["wide"] = jax_rows(p["wide"], slots["wide"], rows, add(wide.reshape(n)[places]))
    p["dense"], slots["dense"] = jax_adagrad(p["dense"], slots["dense"], dense)
    return p, slots


def time_jax(model, batch, mode, options):
    import jax
    import jax.numpy as jnp

    step = jax_sparse_step if "sparse" in mode else functools.partial(jax_step, model)
    sets = [jax.tree_util.tree_map(jnp.asarray, s) for s in batches(model, batch)]
    p = jax_parameters(model)
    state = [p, jax.tree_util.tree_map(lambda a: jnp.full_like(a, 0.1), p)]
    if mode.endswith("scan"):
        sets = [jax.tree_util.tree_map(lambda *a: jnp.stack(a), *sets)]
        each = SETS
        call = jax.jit(lambda p, s, x, y: jax.lax.scan(lambda c, xy: (step(*c, *xy), None), (p, s), (x, y))[0], donate_argnums=(0, 1))
    else:
        each = 1
        call = jax.jit(step, donate_argnums=(0, 1))

    def run(steps):
        for i in range(steps // each):
            state[:] = call(*state, *sets[i % len(sets)])
        jax.block_until_ready(state)

    return windows(run, options)


# --- PyTorch -----------------------------------------------------------------------------------------------------------------------


def torch_model(model):
    import torch
    from torch import nn

    widths, parts = LAYERS[model], []
    for i, o in zip(widths, widths[1:]):
        parts += [nn.Linear(i, o), nn.ReLU()]
    tower = nn.Sequential(*parts[:-1])
    if model == "mlp":
        return tower
    if model == "cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), tower)

    class WideDeep(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep, self.wide, self.tower = nn.Embedding(TABLES * BUCKETS, WIDTH), nn.Embedding(TABLES * BUCKETS, 1), tower

        def forward(self, ids, numbers):
            joined = torch.cat([self.deep(ids).flatten(1), numbers], 1)
            return self.tower(joined).squeeze(1) + self.wide(ids).sum((1, 2))

    return WideDeep()


def time_torch(model, batch, options):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not options.full
    torch.backends.cudnn.benchmark = True
    net = torch_model(model).cuda()
    rule = torch.optim.SGD(net.parameters(), 0.01) if model == "cnn" else torch.optim.Adagrad(net.parameters(), 0.01, foreach=True)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits if model == "wide_deep" else torch.nn.functional.cross_entropy
    sets = []
    for x, y in batches(model, batch):
        x = [torch.from_numpy(a).cuda() for a in x]
        if model == "cnn":
            x[0] = x[0].permute(0, 3, 1, 2).contiguous()
        y = torch.from_numpy(y).cuda()
        sets.append((x, y if model == "wide_deep" else y.long()))
    own_x, own_y = [a.clone() for a in sets[0][0]], sets[0][1].clone()

    def step():
        rule.zero_grad(set_to_none=True)
        loss_of(net(*own_x), own_y).backward()
        rule.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def run(steps):
        for i in range(steps):
            x, y = sets[i % SETS]
            for to, a in zip(own_x, x):
                to.copy_(a)
            own_y.copy_(y)
            graph.replay()
        torch.cuda.synchronize()

    return windows(run, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--modes", default="jax,jax_scan,jax_sparse,jax_sparse_scan,torch")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    for row in options.rows.split(","):
        model, batch = row.split(":")
        for mode in options.modes.split(","):
            if "sparse" in mode and model != "wide_deep":
                continue
            try:
                if mode == "torch":
                    median, least, most = time_torch(model, int(batch), options)
                else:
                    import jax

                    with jax.default_matmul_precision("highest" if options.full else "default"):
                        median, least, most = time_jax(model, int(batch), mode, options)
            except Exception as error:  # one that does not fit or run must not end the others
                print(f"gpu_peer: {row} {mode}: {str(error).splitlines()[0][:200]}", file=sys.stderr, flush=True)
                continue
            rate = {"median": round(median, 1), "min": round(least, 1), "max": round(most, 1)}
            line = {"peer": mode, "model": model, "batch": int(batch), "tf32": not options.full, "steps_per_sec": rate}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
