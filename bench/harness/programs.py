"""Where the programs of the bench are, and how they are run."""
import os, pathlib, signal, socket, subprocess, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "-".join(["build", *filter(None, [os.environ.get("GRADWIRE_TORCH")])])  # as scripts/build has it
LIMIT = 3600  # seconds; the longest row is torch's growth over two million references


class Failed(Exception):
    """The bench cannot continue; the text says why."""


def torch_used():
    """The Python whose torch the build uses, and torch's folder."""
    found = subprocess.run([ROOT / "scripts/find_torch"], capture_output=True, text=True)
    if found.returncode != 0:
        raise Failed("there is no torch: run scripts/setup")
    python, folder = found.stdout.splitlines()
    return python, pathlib.Path(folder)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def figures_of(command):
    """The figures that a program prints, by row. What it started ends with it."""
    words = [str(word) for word in command]
    # Files, not pipes: a process that the program left behind would hold a pipe open.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        program = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True)
        try:
            code = program.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill_group(program)
        said, complained = (file.seek(0) or file.read() for file in (output, errors))
    if code != 0:
        how = f"took longer than {LIMIT} s" if code is None else f"failed with exit code {code}"
        raise Failed(f"{' '.join(words)} {how}:\n{said}{complained}")
    return {name: float(value) for name, value, _ in (line.split() for line in said.splitlines() if len(line.split()) == 3)}


def kill_group(program):
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.wait()


class BenchRows:
    """The program bench_rows of a build folder: Gradwire's rows and their floor."""

    def __init__(self, build):
        self.path = build / "bench" / "bench_rows"
        if not self.path.exists():
            raise Failed(f"there is no {self.path}: `make bench` builds it")
        listed = subprocess.run([self.path, "--list"], capture_output=True, text=True)
        if listed.returncode != 0:
            raise Failed(f"{self.path} --list failed:\n{listed.stdout}{listed.stderr}")
        self.units = dict(line.split() for line in listed.stdout.splitlines())

    def measure(self, name):
        return figures_of([self.path, name])[name]

    def measure_floor(self, names):
        return figures_of([self.path, "--floor", *names])
