#!/usr/bin/env python3
"""examples/stopping under `gradwire run`: a graceful end, and what is left after one that is not. GRADWIRE_PROGRAM and
GRADWIRE_STOPPING are given by ctest."""
import fcntl, os, pathlib, shutil, signal, socket, subprocess, tempfile, threading, unittest

PROGRAM, STOPPING = os.environ["GRADWIRE_PROGRAM"], os.environ["GRADWIRE_STOPPING"]
LIMIT = 120  # seconds


class Stopping(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *words):
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("RANK", "WORLD_SIZE", "GRADWIRE_"))}
        process = subprocess.Popen([PROGRAM, "run", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                                   env={**variables, "TMPDIR": str(self.folder)})
        guard = threading.Timer(LIMIT, process.kill)
        guard.start()
        self.addCleanup(process.stdout.close)
        self.addCleanup(guard.cancel)
        self.addCleanup(process.kill)
        return process

    def hear(self, process, text, times):
        seen = []
        while times > 0:
            line = process.stdout.readline()
            self.assertTrue(line, f"it ended before it said {text!r}: {seen}")
            seen.append(line)
            times -= text in line

    def left(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_n4_ctrl_c_lets_the_workers_leave_and_nothing_is_left_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("-n", 2, STOPPING)
            self.hear(process, "serving", 2)
            process.send_signal(number)
            self.hear(process, "stopped", 2)
            process.stdout.read()
            self.assertEqual(process.wait(LIMIT), -number)
            self.assertEqual(self.left(), [])

    def test_n4_workers_that_were_killed_leave_no_folder_under_the_launcher(self):
        process = self.start("-n", 2, STOPPING)
        self.hear(process, "serving", 2)
        self.assertEqual(len([name for name in self.left() if not name.startswith("gradwire-group-")]), 2)
        workers = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(workers), 2)
        for worker in workers:
            os.kill(int(worker), signal.SIGKILL)
        process.stdout.read()
        self.assertEqual(process.wait(LIMIT), 128 + signal.SIGKILL)
        self.assertEqual(self.left(), [])

    def test_n4_what_a_killed_launcher_left_is_removed_by_the_next_run_and_nothing_else_is(self):
        killed = self.start("-n", 2, STOPPING)
        self.hear(killed, "serving", 2)
        killed.kill()
        killed.wait(LIMIT)
        self.assertEqual(len(self.left()), 3)
        for name in self.left():  # until its workers have ended: the kernel kills them
            folder = os.open(self.folder / name, os.O_RDONLY)
            fcntl.flock(folder, fcntl.LOCK_EX)
            os.close(folder)
        own = self.folder / "gradwire-group-result"  # a user's own: six letters follow, as in the launcher's
        own.mkdir(0o700)
        (own / "weights").write_text("")
        lives = self.folder / "gradwire-worker-Abc123"
        lives.mkdir(0o700)
        with socket.socket(socket.AF_UNIX) as served:
            served.bind(str(lives / "s"))
            held = os.open(lives, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            again = self.start("-n", 1, "true")
            again.stdout.read()
            self.assertEqual(again.wait(LIMIT), 0)
            self.assertEqual(self.left(), ["gradwire-group-result", "gradwire-worker-Abc123"])
            self.assertTrue((lives / "s").exists())
            os.close(held)


if __name__ == "__main__":
    unittest.main(verbosity=2)
