"""torch's own RPC, and torch.distributed.pipelining: which of their programs measures which row (bench/torch_rpc)."""
import subprocess

from .programs import BUILD, ROOT, figures_of, free_port, torch_used
from .rows import is_growth

SCRIPTS = ROOT / "bench" / "torch_rpc"
# What has another name in torch's program: its operators are the only functions that C++ can call, and all its passes are
# what Gradwire calls fast.
NAMES = {"call.blocking.function": "call.blocking.operator", "gradient.fast.hops.10": "gradient.hops.10"}
# Ending a group takes torch a second for each process, and 128 processes more memory than most machines have.
GROUPS = (2, 32)
PIPELINING = {"gpipe": "GPipe", "1f1b": "1F1B"}


class Torch:
    """Measures, in each round, what torch has for the rows wanted."""

    def __init__(self, units, names):
        self.python, self.folder = torch_used()
        self.program = BUILD / "bench" / "torch_rpc"
        listed = subprocess.run([self.program, "--list"], capture_output=True, text=True, check=True).stdout
        there = {line.split()[0] for line in listed.splitlines()}
        once = {name for name in names if is_growth(units[name])}
        self.native = {NAMES.get(name, name): name in once for name in names if NAMES.get(name, name) in there}
        self.scripts = []  # the words of each command, and whether one round is enough
        add = lambda script, *words, once=False: self.scripts.append(([SCRIPTS / script, *words], once))
        for name in names:
            if name in ("call.behind_blocked", "reference.fork_chain.50"):
                add("calls.py", "PORT", name)
            elif name.startswith("optimizer.step.") or name == "example.parameter_server":
                add("training.py", "PORT", name)
            elif name.startswith("example.pipeline."):
                add("pipeline.py", "rpc", "PORT", name)
                add("pipeline.py", "gloo", "PORT", name)
        group_rows = {name for name in names if name.startswith(("group.join.", "group.leave."))}
        for size in GROUPS:
            if any(name.endswith(f".{size}") for name in group_rows) or (size == 2 and "group.idle_memory" in names):
                add("groups.py", "PORT", str(size), once=True)
        if self.scripts and subprocess.run([self.python, "-c", "import numpy"], capture_output=True).returncode != 0:
            print(f"torch's RPC needs numpy for its Python side, and {self.python} has none: these rows stay without torch's column", flush=True)
            self.scripts = []

    def round(self, turn):
        figures = {}
        native = [name for name, once in self.native.items() if turn == 0 or not once]
        if native:
            figures.update(figures_of([self.program, free_port(), *native]))
        for words, once in self.scripts:
            if turn == 0 or not once:
                figures.update(figures_of([self.python, *[free_port() if word == "PORT" else word for word in words]]))
        return figures


def of_row(figures, name):
    """What torch's RPC has for this row."""
    return figures.get(NAMES.get(name, name))


def pipelining(figures, name):
    """What torch.distributed.pipelining has for this row, by schedule."""
    return {title: figures[f"{name}.{kind}"] for kind, title in PIPELINING.items() if f"{name}.{kind}" in figures}
