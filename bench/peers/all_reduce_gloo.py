#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gloo's all-reduce through torch.distributed, measured as bench/all_reduce.c measures ours, with its output.

  all_reduce_gloo.py ranks sizes in bytes, as 4096,65536 | seconds a size [networks]

`networks` as bench/all_reduce.c has it; their interface is called "bench"."""
import ctypes
import os
import socket
import sys
import time

WINDOWS = 5
CALLS_MAX = 500


def enter(network):
    """Goes into a network namespace."""
    fd = os.open(f"/run/netns/{network}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0) != 0:
        raise OSError(ctypes.get_errno(), network)
    os.close(fd)


def be_rank(rank, ranks, port, sizes, secs_per_size, networks):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if networks:
        os.environ.update(MASTER_ADDR=networks[0][1], GLOO_SOCKET_IFNAME="bench")
        enter(networks[rank * len(networks) // ranks][0])
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in sizes:
        data = torch.zeros(size // 4)
        dist.all_reduce(data)
        start = time.perf_counter()
        dist.all_reduce(data)
        one = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
        dist.broadcast(one, 0)  # all ranks must measure as often
        calls = min(max(int(secs_per_size / WINDOWS / one.item()), 1), CALLS_MAX)
        secs = []
        for _ in range(min(max(int(secs_per_size / (calls * one.item())), 2), WINDOWS)):
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
    sizes, secs_per_size = [int(size) for size in sys.argv[2].split(",")], float(sys.argv[3])
    networks = [text.split("=") for text in sys.argv[4].split(",")] if len(sys.argv) > 4 else []
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            be_rank(rank, ranks, port, sizes, secs_per_size, networks)
            os._exit(0)
        children.append(child)
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


main()
