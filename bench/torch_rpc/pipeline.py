#!/usr/bin/env python3
"""The rows of pipeline_rows.cpp with what torch has for them, in Python. Prints "NAME VALUE UNIT".
    pipeline.py rpc PORT ROW     torch's own RPC: one process trains, two have a stage each
    pipeline.py gloo PORT ROW    torch.distributed.pipelining over Gloo, two processes with a stage each: ROW.gpipe, ROW.1f1b
The model, its data, its eight pieces and its plain SGD are those of examples/pipeline_model.h."""
import statistics, sys, time
import torch
import torch.multiprocessing as multiprocessing

# hidden units, rows of a batch, steps that are measured
SIZES = {"small": (512, 256, 100), "medium": (2048, 1024, 30), "large": (8192, 1024, 9)}
PIECES, FEATURES, RATE, WARM_UP = 8, 64, 0.05, 5


class Stage(torch.nn.Module):
    def __init__(self, inputs, hidden, outputs, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.wide, self.narrow = torch.nn.Linear(inputs, hidden), torch.nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.narrow(torch.nn.functional.gelu(self.wide(x)))


def stage(index, hidden):
    return Stage(FEATURES, hidden, (FEATURES, 1)[index], index + 1)


def data(step, rows):
    torch.manual_seed(100 + step)
    x = torch.randn(rows, FEATURES)
    return x, x.sum(1, keepdim=True).sin()


def median_milliseconds(steps, body):
    times = []
    for i in range(WARM_UP + steps):
        began = time.perf_counter()
        body(i)
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[WARM_UP:])


class Remote:
    """A stage that lives where it is made."""

    def __init__(self, index, hidden):
        self.stage = stage(index, hidden)

    def forward(self, x):
        return self.stage(x.to_here())

    def parameters(self):
        from torch.distributed.rpc import RRef
        return [RRef(parameter) for parameter in self.stage.parameters()]


def over_rpc(rank, port, size, name):
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc
    from torch.distributed.optim import DistributedOptimizer
    hidden, rows, steps = SIZES[size]
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}"))
    if rank == 0:
        first, second = (rpc.remote(f"worker{index + 1}", Remote, args=(index, hidden)) for index in range(2))
        parameters = [parameter for module in (first, second) for parameter in module.rpc_sync().parameters()]
        optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=RATE)

        def step(number):
            x, wanted = data(number, rows)
            with dist_autograd.context() as context:
                # As torch's own tutorial of pipelines over RPC has it: what is between the stages stays a reference.
                out = [second.rpc_async().forward(first.remote().forward(rpc.RRef(piece))) for piece in x.chunk(PIECES)]
                loss = torch.nn.functional.mse_loss(torch.cat(torch.futures.wait_all(out)), wanted)
                dist_autograd.backward(context, [loss])
                optimizer.step(context)

        print(name, f"{median_milliseconds(steps, step):.4f}", "ms", flush=True)
    rpc.shutdown()


def over_gloo(rank, port, size, name):
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    hidden, rows, steps = SIZES[size]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for kind, schedule_of in (("gpipe", ScheduleGPipe), ("1f1b", Schedule1F1B)):
        module = stage(rank, hidden)
        optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
        schedule = schedule_of(PipelineStage(module, rank, 2, torch.device("cpu")), PIECES, loss_fn=torch.nn.functional.mse_loss)

        def step(number):
            x, wanted = data(number, rows)
            optimizer.zero_grad()
            schedule.step(x) if rank == 0 else schedule.step(target=wanted, losses=[])
            optimizer.step()

        # The first process has the last part of a step: the gradients of its stage.
        milliseconds = median_milliseconds(steps, step)
        if rank == 0:
            print(f"{name}.{kind}", f"{milliseconds:.4f}", "ms", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    kind, port, name = sys.argv[1:]
    body, processes = {"rpc": (over_rpc, 3), "gloo": (over_gloo, 2)}[kind]
    multiprocessing.spawn(body, args=(int(port), name.rsplit(".", 1)[1], name), nprocs=processes)
