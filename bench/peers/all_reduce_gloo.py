#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gloo's all-reduce through torch.distributed, measured as bench/all_reduce.c measures ours, with its sizes and its output.

  all_reduce_gloo.py ranks [largest size in bytes [networks]]

`networks` as bench/all_reduce.c has it; their interface is called "bench"."""
import ctypes
import os
import socket
import sys
import time

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20]
WINDOWS = 5


def enter(network):
    """Goes into a network namespace."""
    fd = os.open(f"/run/netns/{network}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0) != 0:
        raise OSError(ctypes.get_errno(), network)
    os.close(fd)


def be_rank(rank, ranks, port, bytes_max, networks):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if networks:
        os.environ.update(MASTER_ADDR=networks[0][1], GLOO_SOCKET_IFNAME="bench")
        enter(networks[rank * len(networks) // ranks][0])
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in [size for size in SIZES if size <= bytes_max]:
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
    bytes_max = int(sys.argv[2]) if len(sys.argv) > 2 else SIZES[-1]
    networks = [text.split("=") for text in sys.argv[3].split(",")] if len(sys.argv) > 3 else []
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            be_rank(rank, ranks, port, bytes_max, networks)
            os._exit(0)
        children.append(child)
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


main()
