#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gloo's all-reduce through torch.distributed, measured as bench/all_reduce.c measures ours, with its sizes and its output.

  all_reduce_gloo.py ranks"""
import os
import socket
import sys
import time

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20]
WINDOWS = 5


def be_rank(rank, ranks, port):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in SIZES:
        data = torch.zeros(size // 4)
        calls = min(max((64 << 20) // size, 1), 500)
        dist.all_reduce(data)
        secs = []
        for _ in range(WINDOWS):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(data)
            secs.append((time.perf_counter() - start) / calls)
        if rank == 0:
            print('{"bytes":%d,"secs":[%s]}' % (size, ",".join("%.9f" % s for s in secs)), flush=True)
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            be_rank(rank, ranks, port)
            os._exit(0)
        children.append(child)
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


main()
