"""Gradwire, torch and the physical floor in turn: the table of `make bench`."""
import json, statistics

from . import history, torch_side
from .programs import BUILD, BenchRows
from .rows import chosen, is_growth, is_rate
from .table import figure, lines_of

ROUNDS = 3


def add(figures, measured):
    for name, value in measured.items():
        figures.setdefault(name, []).append(value)


def result(name, unit, mine, torch, floor, pipelining):
    """A row of results.json. The ratio to torch says how many times better, the ratio to the floor how many times worse."""
    better = lambda a, b: None if a is None or b is None or not (a and b) else a / b if is_rate(unit) else b / a
    row = {"name": name, "unit": unit, "gradwire": mine, "torch": torch, "floor": floor}
    row["ratio_to_torch"] = None if is_growth(unit) else better(mine, torch)
    row["ratio_to_floor"] = None if is_growth(unit) else better(floor, mine)
    return {**row, **({"torch_pipelining": pipelining} if pipelining else {})}


def compare(patterns, quick, keep):
    ours = BenchRows(BUILD)
    names = chosen(ours.units, patterns, quick)
    kept = history.file_of(keep) if keep else None
    torch = torch_side.Torch(ours.units, names)
    rounds = 1 if quick else ROUNDS
    figures = {"gradwire": {}, "torch": {}, "floor": {}}
    for turn in range(rounds):
        print(f"round {turn + 1} of {rounds}", flush=True)
        add(figures["floor"], ours.measure_floor(names))
        add(figures["gradwire"], {name: ours.measure(name) for name in names if turn == 0 or not is_growth(ours.units[name])})
        add(figures["torch"], torch.round(turn))
    medians = {who: {name: statistics.median(values) for name, values in rows.items()} for who, rows in figures.items()}
    results = [result(name, ours.units[name], medians["gradwire"][name], torch_side.of_row(medians["torch"], name),
                      medians["floor"].get(name), torch_side.pipelining(medians["torch"], name)) for name in names]
    path = BUILD / "bench" / "results.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    show(results)
    print(f"x torch: how many times better than torch's RPC; x floor: how many times the floor. Written to {path}")
    if kept:
        history.keep(kept, rounds, results)
        print(f"kept as {kept}")
    return 0


def show(results):
    keys = ("gradwire", "torch", "floor", "ratio_to_torch", "ratio_to_floor")
    print(*lines_of(["row", "unit", "gradwire", "torch", "floor", "x torch", "x floor"],
                    [[row["name"], row["unit"], *(figure(row[key]) for key in keys)] for row in results]), sep="\n")
    for row in results:
        if "torch_pipelining" in row:
            others = ", ".join(f"{title} {figure(value)} {row['unit']}" for title, value in row["torch_pipelining"].items())
            print(f"{row['name']} with torch.distributed.pipelining over Gloo: {others}")
