#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/multi_worker.c does, by PyTorch: DistributedDataParallel over Gloo, the models of torch_peer.py, one thread each. One worker: without
DistributedDataParallel. The linear part of wide_deep is trained with Adagrad: PyTorch has no FTRL."""
import os
import sys

import multi_worker_peer
import torch_peer

READY = "PEER_READY"  # set: the environment is that of the peer


def main():
    options = multi_worker_peer.options(__doc__)
    run = multi_worker_peer.make_run(options, torch_peer.best(options.model, 1))
    if READY not in os.environ:  # the loader and malloc look at theirs only when a program starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **torch_peer.environment(1, run.flags), READY: "1"})
    cluster, worker = multi_worker_peer.start(options)
    import torch

    model, optimizers, loss_fn, sets, _ = torch_peer.make(run)
    if options.workers > 1:
        torch.distributed.init_process_group("gloo", rank=worker, world_size=options.workers,
                                             init_method="tcp://" + cluster["worker"][0])
        model = torch.nn.parallel.DistributedDataParallel(model)
    turns = multi_worker_peer.Turns(options, worker)
    while True:
        for x, labels in sets:
            torch_peer.step(model, optimizers, loss_fn, x, labels)
            if turns.step():
                multi_worker_peer.end()


if __name__ == "__main__":
    main()
