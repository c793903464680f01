#!/usr/bin/env python3
"""Rows on torch's own RPC from Python, two processes on this host: calls.py [--device cuda] PORT [ROW...]
Prints "NAME VALUE UNIT". Rows that need a user's own function have no C++ program, as torch calls those from Python only."""
import argparse, statistics, threading, time
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as multiprocessing

lock = threading.Lock()  # the user's own, of which torch knows nothing


def echo(tensor):
    return tensor


def take_lock():
    with lock:
        return 1


def hold_lock(hold):
    lock.acquire() if hold else lock.release()


def hop(reference, left):
    """Passes the reference on, in calls inside calls."""
    if left > 0:
        other = 1 - rpc.get_worker_info().id
        rpc.rpc_sync(f"worker{other}", hop, args=(reference, left - 1))


class Rows:
    def __init__(self, device):
        self.device = torch.device(device)
        self.small = torch.ones(4, device=self.device)
        self.rows = {
            "call.behind_blocked": ("us", self.behind_blocked),
            "reference.fork_chain.50": ("us", self.fork_chain),
            "python.call.operator": ("us", lambda: self.blocking(torch.add, self.small, self.small)),
            "python.call.function": ("us", lambda: self.blocking(echo, self.small)),
            "python.async.rate": ("per_second", self.async_rate),
            "python.reference.create_fetch": ("us", self.create_fetch),
        }
        for size in (1, 16, 64, 256):
            self.rows[f"python.round_trip.{size}MB"] = "ms", lambda size=size: self.round_trip(size)
        for hops, repeats in ((1, 300), (10, 60), (100, 7)):
            self.rows[f"python.gradient.hops.{hops}"] = "us", lambda hops=hops, repeats=repeats: self.gradient(hops, repeats)

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, body):
        self.synchronize()
        began = time.perf_counter()
        body()
        self.synchronize()
        return time.perf_counter() - began

    def median_seconds(self, repeats, body):
        for _ in range(max(3, repeats // 10)):
            body()
        return statistics.median(self.seconds(body) for _ in range(repeats))

    def blocking(self, function, *arguments):
        return 1e6 * self.median_seconds(2000, lambda: rpc.rpc_sync("worker1", function, args=arguments))

    def async_rate(self):
        def thousand():
            for future in [rpc.rpc_async("worker1", torch.add, args=(self.small, self.small)) for _ in range(1000)]:
                future.wait()

        return 1000 / self.median_seconds(9, thousand)

    def round_trip(self, megabytes):
        large = torch.ones(megabytes * 2**20 // 4, device=self.device)
        return 1e3 * self.median_seconds(9, lambda: rpc.rpc_sync("worker1", torch.detach, args=(large,)))

    def gradient(self, hops, repeats):
        a, b = (torch.ones(4, requires_grad=True, device=self.device) for _ in range(2))

        def step():
            with dist_autograd.context() as context:
                x = a
                for _ in range(hops):
                    x = rpc.rpc_sync("worker1", torch.add, args=(x, b))
                dist_autograd.backward(context, [x.sum()])
                assert len(dist_autograd.get_gradients(context)) == 2

        return 1e6 * self.median_seconds(repeats, step)

    def create_fetch(self):
        return 1e6 * self.median_seconds(1000, lambda: rpc.remote("worker1", torch.add, args=(self.small, self.small)).to_here())

    def behind_blocked(self):
        seconds = []
        for _ in range(500):
            rpc.rpc_sync("worker1", hold_lock, args=(True,))
            blocked = rpc.rpc_async("worker1", take_lock)
            seconds.append(self.seconds(lambda: rpc.rpc_sync("worker1", torch.add, args=(self.small, self.small))))
            rpc.rpc_sync("worker1", hold_lock, args=(False,))
            blocked.wait()
        return 1e6 * sorted(seconds)[int((len(seconds) - 1) * 0.99)]

    def fork_chain(self):
        return 1e6 * self.median_seconds(50, lambda: rpc.rpc_sync("worker1", hop, args=(rpc.RRef(self.small), 49)))


def worker(rank, arguments):
    torch.set_num_threads(1)
    # A call inside a call holds a thread at each: fifty of them need 25 threads at either process.
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{arguments.port}", num_worker_threads=32)
    if arguments.device == "cuda":
        options.set_device_map(f"worker{1 - rank}", {0: 0})
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for name, (unit, measure) in Rows(arguments.device).rows.items():
            if not arguments.rows or name in arguments.rows:
                print(name, f"{measure():.4f}", unit, flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("port", type=int)
    parser.add_argument("rows", nargs="*")
    multiprocessing.spawn(worker, args=(parser.parse_args(),), nprocs=2)
