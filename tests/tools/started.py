"""What tests of programs share: a folder, and processes that are gone when they have been looked at."""
import os, pathlib, shutil, signal, socket, subprocess, tempfile, unittest

LIMIT = 120  # seconds; importing torch takes some of them on a busy host
# What a launcher around the tests may have set.
FOREIGN = ("RANK", "WORLD_SIZE", "MASTER_", "GRADWIRE_", "SLURM_", "OMPI_", "TORCH", "GLOO_")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def run_it(self, *words, **environment):
        """What it writes, both streams; it must end well. All that it started is gone afterwards."""
        variables = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
        process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True, env={**variables, "TMPDIR": str(self.folder), **environment})
        try:
            output, _ = process.communicate(timeout=LIMIT)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self.assertEqual(process.returncode, 0, output)
        return output
