#!/usr/bin/env python3
"""The rows of group_rows.cpp on torch's own RPC: groups.py PORT SIZE  Prints "NAME VALUE UNIT"."""
import os, pathlib, sys, time
import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as multiprocessing

grown = 0.0  # by how many MB this process grew while it joined


def resident_megabytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth():
    return grown


def worker(rank, size, port):
    global grown
    torch.set_num_threads(1)
    began, before = time.perf_counter(), resident_megabytes()
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://127.0.0.1:{port}", num_worker_threads=2))
    joined, grown = time.perf_counter(), resident_megabytes() - before
    if rank == 0:
        print(f"group.join.{size} {joined - began:.4f} s", flush=True)
        if size == 2:
            largest = max(rpc.rpc_sync(f"worker{peer}", growth) for peer in range(size))
            print(f"group.idle_memory {largest:.4f} MB", flush=True)
        for peer in range(size):
            rpc.rpc_sync(f"worker{peer}", torch.add, args=(torch.ones(2), 1))
    began = time.perf_counter()
    rpc.shutdown()
    if rank == 0:
        print(f"group.leave.{size} {time.perf_counter() - began:.4f} s", flush=True)


if __name__ == "__main__":
    port, size = map(int, sys.argv[1:])
    multiprocessing.spawn(worker, args=(size, port), nprocs=size)
