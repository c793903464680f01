"""bench/history: the results of a release, one file each, so that a slow drift shows."""
import datetime, json, os, pathlib, platform, re, subprocess

from .programs import ROOT, Failed, torch_used

FOLDER = ROOT / "bench" / "history"


def file_of(name, folder=FOLDER):
    """Where results of that name are kept; results that are kept already are never replaced."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise Failed(f"'{name}' is no name for results: use letters, digits, '.', '-' and '_'")
    path = folder / f"{name}.json"
    if path.exists():
        raise Failed(f"{path} exists already: use another name, or remove it")
    return path


def processor(cpuinfo=pathlib.Path("/proc/cpuinfo")):
    names = re.findall(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.M)
    return names[0] if names else platform.machine()  # ARM names none


def torch_version(folder):
    """From torch's own file: importing torch takes seconds."""
    return re.search(r"^__version__ = '(.+)'$", (folder / "version.py").read_text(), re.M)[1]


def commit():
    described = subprocess.run(["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True, text=True)
    return described.stdout.strip() or None


def circumstances():
    """What the figures were measured with."""
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "commit": commit(),
            "machine": {"cpu": processor(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
            "torch": torch_version(torch_used()[1])}


def keep(path, rounds, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**circumstances(), "rounds": rounds, "rows": rows}, indent=1) + "\n")
