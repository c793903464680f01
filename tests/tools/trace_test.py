#!/usr/bin/env python3
"""GRADWIRE_TRACE and `gradwire trace`: what the workers did, in one file, with arrows between them (C12)."""
import collections, json, os, pathlib, shutil, subprocess, tempfile, unittest

PROGRAM = os.environ["GRADWIRE_PROGRAM"]
EXAMPLE = os.environ["GRADWIRE_EXAMPLE"]


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def merge(self, folder, *options):
        return subprocess.run([PROGRAM, "trace", folder, *options, "-o", self.folder / "all.json"], capture_output=True,
                              text=True)

    def write_trace(self, worker, begins, ends):
        lines = ['{"ph":"M","name":"gradwire_begins","ts":%d}' % begins,
                 '{"ph":"X","name":"work","ts":%d,"dur":%d}' % (begins, ends - begins), '{"ph":"X","na']
        (self.folder / (worker + ".trace")).write_text("\n".join(lines))

    def run_example(self, trace):
        return subprocess.run([PROGRAM, "run", "-n", "3", EXAMPLE], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "GRADWIRE_TRACE": str(trace)})

    def test_c12_shows_calls_functions_and_gradients_of_all_workers_with_arrows(self):
        subprocess.run([PROGRAM, "run", "-n", "3", EXAMPLE], check=True, capture_output=True, timeout=120,
                       env={**os.environ, "GRADWIRE_TRACE": str(self.folder)})
        merged = self.merge(self.folder)
        self.assertEqual(merged.returncode, 0, merged.stderr)
        self.assertIn("events of 3 workers", merged.stdout)
        events = json.loads((self.folder / "all.json").read_text())["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {0: "worker0", 1: "worker1", 2: "worker2"})

        spans = collections.defaultdict(set)
        for event in events:
            if event["ph"] in "Xb":
                spans[event["cat"]].add((event["pid"], event["name"]))
        self.assertIn((0, "encode Part.forward"), spans["encode"])
        self.assertIn((0, "call Part.forward at worker1"), spans["call"])
        self.assertIn((1, "queue Part.forward"), spans["queue"])
        self.assertIn((2, "run Part.step"), spans["run"])
        self.assertEqual({pid for pid, _ in spans["gradients"]}, {0, 1, 2})

        begins = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        self.assertEqual(begins.keys(), ends.keys())
        self.assertGreater(len(begins), 800)
        for id, end in ends.items():
            self.assertNotEqual(begins[id]["pid"], end["pid"])
            self.assertLessEqual(begins[id]["ts"], end["ts"] + 100, "on one host the clocks agree")
        # Each arrow begins and ends inside a span of its thread.
        slices = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for event in [*begins.values(), *ends.values()]:
            self.assertTrue(any(a <= event["ts"] <= b for a, b in slices[event["pid"], event["tid"]]))

    def test_of_a_folder_without_traces_says_how_to_make_some(self):
        merged = self.merge(self.folder)
        self.assertEqual(merged.returncode, 2)
        self.assertIn("GRADWIRE_TRACE=", merged.stderr)

    def test_leaves_out_the_half_line_of_a_killed_worker(self):
        (self.folder / "a.trace").write_text('{"ph":"X","name":"one"}\n{"ph":"X","na')
        self.assertIn("1 events of 1 workers", self.merge(self.folder).stdout)
        json.loads((self.folder / "all.json").read_text())

    def test_n9_merges_the_newest_run_only_and_says_what_it_left_out(self):
        for number, worker in enumerate(["a", "b", "c"]):  # they overlap, though the first and the last do not
            self.write_trace("old_" + worker, 1000 + 400 * number, 1500 + 400 * number)
        self.write_trace("middle", 3000, 4000)
        for worker in ["a", "b"]:
            self.write_trace("new_" + worker, 5000, 6000)
        merged = self.merge(self.folder)
        self.assertIn("4 events of 2 workers", merged.stdout)
        self.assertIn("4 workers of 2 earlier", merged.stdout)
        self.assertIn("--all", merged.stdout)
        everything = self.merge(self.folder, "--all")
        self.assertIn("12 events of 6 workers", everything.stdout)
        self.assertNotIn("earlier", everything.stdout)

    def test_n9_two_runs_with_the_same_folder_stay_apart(self):
        for _ in range(2):
            self.assertEqual(self.run_example(self.folder).returncode, 0)
        self.assertEqual(len(list(self.folder.glob("*.trace"))), 6)
        self.assertIn("events of 3 workers", self.merge(self.folder).stdout)
        self.assertIn("events of 6 workers", self.merge(self.folder, "--all").stdout)

    def test_n9_makes_the_folder_with_a_word_and_not_the_one_it_lies_in(self):
        ran = self.run_example(self.folder / "new")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(str(self.folder / "new"), ran.stdout + ran.stderr)
        self.assertEqual(len(list((self.folder / "new").glob("*.trace"))), 3)
        failed = self.run_example(self.folder / "absent" / "new")
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("GRADWIRE_TRACE", failed.stdout + failed.stderr)
        self.assertFalse((self.folder / "absent").exists())

    def test_a_folder_that_cannot_be_written_is_an_error_in_words(self):
        failed = subprocess.run([PROGRAM, "run", "-n", "3", EXAMPLE], capture_output=True, text=True, timeout=120,
                                env={**os.environ, "GRADWIRE_TRACE": "/dev/null/x"})
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("GRADWIRE_TRACE is a folder", failed.stdout + failed.stderr)


if __name__ == "__main__":
    unittest.main()
