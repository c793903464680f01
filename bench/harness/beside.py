"""This tree beside an older commit, in turn: is a row slower? (`make bench BESIDE=COMMIT`)"""
import dataclasses, json, os, pathlib, re, statistics, subprocess

from . import judging
from .programs import BUILD, ROOT, BenchRows, Failed, torch_used
from .rows import chosen, is_growth
from .table import figure, lines_of, percent

ROUNDS = 7


def git(*words):
    done = subprocess.run(["git", *map(str, words)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"git {' '.join(map(str, words))} failed:\n{done.stderr}")
    return done.stdout.strip()


def built(commit):
    """bench_rows of that commit, built in a worktree of its own with the torch of this build."""
    commit = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    worktree = BUILD / "beside" / commit[:12]
    if not (worktree / "CMakeLists.txt").exists():
        worktree.parent.mkdir(parents=True, exist_ok=True)
        git("worktree", "prune")
        git("worktree", "add", "--detach", worktree, commit)
    print(f"building {commit[:12]} in {worktree}", flush=True)
    _, torch = torch_used()
    run_build(["cmake", "--preset", "release", "-B", worktree / "build", f"-DTorch_DIR={torch}/share/cmake/Torch",
               "-DGRADWIRE_TOOLS=OFF", "-DGRADWIRE_EXAMPLES=OFF", "-DGRADWIRE_TESTS=OFF"], worktree)
    run_build(["ninja", "-C", worktree / "build", "-j", jobs(), "bench_rows"], worktree)
    return BenchRows(worktree / "build")


def jobs():
    """No more compilers at once than there is memory for: each takes up to 2 GB."""
    available = int(re.search(r"^MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)[1])
    return max(1, min(os.cpu_count() + 1, available // 2_000_000))


def run_build(command, folder):
    # ccache then knows what it compiled before in this folder, though the folder is new.
    environment = {**os.environ, "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} failed in {folder}:\n{done.stdout}")


def alternate(sides, names, rounds, title):
    """The medians of each side, by row. A row's sides follow each other at once, and each goes first in every other round."""
    figures = [{name: [] for name in names} for _ in sides]
    for turn in range(rounds if names else 0):
        print(f"{title}: round {turn + 1} of {rounds}", flush=True)
        order = list(zip(sides, figures))
        for name in names:
            for program, into in order[::-1] if turn % 2 else order:
                if name in program.units:
                    into[name].append(program.measure(name))
    return [{name: statistics.median(values) for name, values in side.items() if values} for side in figures]


def measure(old, new, patterns, quick):
    """The rows of both, not yet judged."""
    rounds = 1 if quick else ROUNDS
    names = chosen({**old.units, **new.units}, patterns, quick)
    units = {name: new.units.get(name) or old.units[name] for name in names}
    steady = [name for name in names if not is_growth(units[name])]
    shared = [name for name in steady if name in old.units and name in new.units]

    def itself(names, title):
        one, other = alternate([old, old], names, rounds, title)
        return {name: judging.difference(one[name], other[name]) for name in names}

    first = itself(shared, "the old commit against itself")
    again = itself([name for name in shared if judging.is_unsteady(first[name])], "again, what differed")
    olds, news = alternate([old, new], steady, rounds, "old and new")
    growth = alternate([old, new], [name for name in names if is_growth(units[name])], 1, "growth")
    olds, news = {**olds, **growth[0]}, {**news, **growth[1]}
    return [judging.Row(name, units[name], olds.get(name), news.get(name), first.get(name), again.get(name)) for name in names]


def beside(commit, patterns, quick):
    rows = measure(built(commit), BenchRows(BUILD), patterns, quick)
    path = BUILD / "bench" / "beside.json"
    path.write_text(json.dumps([{**dataclasses.asdict(row), "verdict": row.verdict} for row in rows], indent=1) + "\n")
    print(*report(rows), sep="\n")
    print(f"written to {path}")
    return 1 if any(row.fails for row in rows) else 0


def report(rows):
    shown = lambda row: row.verdict.upper() if row.fails else row.verdict
    yield from lines_of(["row", "unit", "old", "new", "worse by", "itself", "verdict"],
                        [[row.name, row.unit, figure(row.old), figure(row.new), "-" if is_growth(row.unit) else percent(row.change),
                          percent(row.itself), shown(row)] for row in rows])
    yield (f"itself: by how much the old commit differed from itself. Slower: worse by more than {100 * judging.WORSE:.0f}% and by more"
           f" than itself. Grows: by more than {judging.GROWTH_BOUND:g}% (C17).")
    for row in rows:
        if row.unsteady:
            yield (f"UNSTEADY: {row.name} differed by {percent(row.itself)} from itself, and by {percent(row.itself_again)} when it was"
                   " measured again, by which it is judged")
    failing = [row.name for row in rows if row.fails]
    yield f"slower: {', '.join(failing)}" if failing else "no row is slower"
