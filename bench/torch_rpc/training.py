#!/ usr / bin / env python3
"""The rows of training_rows.cpp on torch's own RPC: training.py PORT ROW...  Prints "NAME VALUE UNIT"."""
import os, statistics, sys, time
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as multiprocessing
from torch.distributed.optim import DistributedOptimizer

INPUTS, OUTPUTS, BATCH, TRAINERS, STEPS = 64, 10, 32, 3, 100


def parameters_of(module):
    return [rpc.RRef(parameter) for parameter in module.local_value().parameters()]


def forward_of(module, x):
    return module.local_value()(x)


def call(function, module, *arguments):
    return rpc.rpc_sync(module.owner(), function, args=(module, *arguments))


def train(module, steps):
    optimizer = DistributedOptimizer(torch.optim.SGD, call(parameters_of, module), lr=1e-4)
    x = torch.ones(BATCH, INPUTS)
    for _ in range(steps):
        with dist_autograd.context() as context:
            dist_autograd.backward(context, [call(forward_of, module, x).sum()])
            optimizer.step(context)


def step_row(owners):
    modules = [rpc.remote(f"worker{rank}", torch.nn.Linear, args=(OUTPUTS, OUTPUTS)) for rank in range(1, owners + 1)]
    parameters = [parameter for module in modules for parameter in call(parameters_of, module)]
    optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=1e-4)
    with dist_autograd.context() as context:
        x = torch.ones(1, OUTPUTS)
        for module in modules:
            x = call(forward_of, module, x)
        dist_autograd.backward(context, [x.sum()])
        times = []
        for i in range(70):
            began = time.perf_counter()
            optimizer.step(context)
            if i >= 10:
                times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def parameter_server():
    module = rpc.RRef(torch.nn.Linear(INPUTS, OUTPUTS))
    run = lambda steps: [f.wait() for f in [rpc.rpc_async(f"worker{rank}", train, args=(module, steps), timeout=0) for rank in range(1, TRAINERS + 1)]]
    run(5)
    began = time.perf_counter()
    run(STEPS)
    return TRAINERS * STEPS / (time.perf_counter() - began)


def worker(rank, size, port, name):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}"))
    if rank == 0:
        if name.startswith("optimizer.step."):
            print(name, f"{step_row(size - 1):.3f}", "us", flush=True)
        else:
            print(name, f"{parameter_server():.3f}", "per_second", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    for offset, name in enumerate(sys.argv[2:]):
        size = 1 + (int(name.rsplit(".", 1)[1]) if name.startswith("optimizer.step.") else TRAINERS)
        multiprocessing.spawn(worker, args=(size, int(sys.argv[1]) + offset, name), nprocs=size)
