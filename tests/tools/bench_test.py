#!/usr/bin/env python3
"""The bench (bench/run): which rows it measures, how it judges them beside an older commit, what it keeps. Figures are
invented: nothing is measured here."""
import contextlib, io, json, math, os, pathlib, select, shutil, subprocess, sys, tempfile, unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from harness import beside, command, compare, history, programs, rows
from harness.judging import Row, difference, worsening


class Judging(unittest.TestCase):
    def test_more_time_is_worse(self):
        self.assertAlmostEqual(worsening(100, 110, "us"), 0.10)
        self.assertAlmostEqual(worsening(100, 90, "us"), -0.10)

    def test_a_lower_rate_is_worse(self):
        self.assertAlmostEqual(worsening(200, 100, "per_second"), 1.0)
        self.assertAlmostEqual(worsening(100, 200, "per_second"), -0.5)

    def test_nothing_that_becomes_something_is_worse(self):
        self.assertEqual(worsening(0, 0, "MB"), 0)
        self.assertEqual(worsening(0, 1, "MB"), math.inf)

    def test_a_difference_has_no_direction(self):
        self.assertAlmostEqual(difference(100, 120), 0.2)
        self.assertAlmostEqual(difference(120, 100), 0.2)

    def test_slower_is_worse_by_more_than_five_percent(self):
        self.assertEqual(Row("a", "us", old=100, new=105, itself=0.01).verdict, "same")
        self.assertEqual(Row("a", "us", old=100, new=105.1, itself=0.01).verdict, "slower")
        self.assertEqual(Row("a", "per_second", old=105.1, new=100, itself=0.01).verdict, "slower")

    def test_slower_is_worse_by_more_than_the_old_commit_differed_from_itself(self):
        self.assertEqual(Row("a", "us", old=100, new=112, itself=0.12).verdict, "same")
        self.assertEqual(Row("a", "us", old=100, new=112.1, itself=0.12).verdict, "slower")

    def test_what_is_better_by_as_much_is_faster(self):
        self.assertEqual(Row("a", "us", old=100, new=94, itself=0.01).verdict, "faster")
        self.assertEqual(Row("a", "us", old=100, new=94, itself=0.10).verdict, "same")

    def test_an_unsteady_row_is_judged_by_its_second_measurement(self):
        self.assertEqual(Row("a", "us", old=100, new=120, itself=0.4, itself_again=0.1).verdict, "slower")
        self.assertEqual(Row("a", "us", old=100, new=120, itself=0.4, itself_again=0.3).verdict, "same")

    def test_unsteady_is_more_than_a_quarter(self):
        self.assertFalse(Row("a", "us", old=100, new=100, itself=0.25).unsteady)
        self.assertTrue(Row("a", "us", old=100, new=100, itself=0.2501, itself_again=0.0).unsteady)
        self.assertFalse(Row("a", "percent", old=1, new=0.5).unsteady)

    def test_growth_has_a_bound_of_its_own(self):
        self.assertEqual(Row("a", "percent", old=0.1, new=1.0).verdict, "same")
        self.assertEqual(Row("a", "percent", old=5.0, new=1.01).verdict, "grows")
        self.assertEqual(Row("a", "percent", new=1.01).verdict, "grows")
        self.assertTrue(Row("a", "percent", new=1.01).fails)

    def test_rows_of_one_commit_only_are_not_judged(self):
        self.assertEqual(Row("a", "us", new=1000).verdict, "new")
        self.assertEqual(Row("a", "us", old=1).verdict, "gone")
        self.assertFalse(Row("a", "us", new=1000).fails)
        self.assertFalse(Row("a", "us", old=1).fails)


class Program:
    """A stand-in for bench_rows, whose figures are given in advance: the last one is repeated."""

    def __init__(self, figures, units=None):
        self.figures = {name: list(values) for name, values in figures.items()}
        self.units = units or {name: "us" for name in figures}
        self.measured = []

    def measure(self, name):
        self.measured.append(name)
        values = self.figures[name]
        return values.pop(0) if len(values) > 1 else values[0]


class Beside(unittest.TestCase):
    def run_beside(self, old, new, patterns=("*",), quick=False):
        """What `make bench BESIDE` prints, and its exit code."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "bench").mkdir()
        output = io.StringIO()
        with mock.patch.multiple(beside, built=lambda commit: old, BenchRows=lambda build: new, BUILD=folder), \
                contextlib.redirect_stdout(output):
            code = beside.beside("HEAD", patterns, quick)
        return code, output.getvalue()

    def test_seven_rounds_of_the_old_commit_against_itself_and_seven_of_both(self):
        old, new = Program({"a": [10]}), Program({"a": [10]})
        code, _ = self.run_beside(old, new)
        self.assertEqual((code, len(old.measured), len(new.measured)), (0, 2 * 7 + 7, 7))

    def test_the_sides_take_turns_and_each_goes_first_in_every_other_round(self):
        order = []
        sides = [mock.Mock(units={"a": "us"}, measure=lambda name, side=side: order.append(side) or 1.0) for side in "on"]
        with contextlib.redirect_stdout(io.StringIO()):
            beside.alternate(sides, ["a"], 4, "")
        self.assertEqual("".join(order), "onnoonno")

    def test_a_slower_row_fails_and_is_named(self):
        code, output = self.run_beside(Program({"a": [10], "b": [10]}), Program({"a": [12], "b": [10]}))
        self.assertEqual(code, 1)
        self.assertRegex(output, r"(?m)^a .*\+20\.0% .*SLOWER$")
        self.assertRegex(output, r"(?m)^b .*\+0\.0% .*same$")
        self.assertRegex(output, r"(?m)^slower: a$")

    def test_medians_are_judged_so_one_disturbed_round_is_not_seen(self):
        code, _ = self.run_beside(Program({"a": [10]}), Program({"a": [10, 500, 10, 10, 10, 10, 500]}))
        self.assertEqual(code, 0)

    def test_an_unsteady_row_is_measured_again_and_named(self):
        # Seven rounds in which the sides differ by 40%; the order turns with each round.
        unsteady = [10, 14, 14, 10] * 3 + [10, 14]
        old = Program({"a": unsteady + [10], "b": [10]})
        code, output = self.run_beside(old, Program({"a": [12], "b": [10]}))
        self.assertEqual(old.measured.count("a"), 2 * 7 + 2 * 7 + 7)
        self.assertEqual(old.measured.count("b"), 2 * 7 + 7)
        self.assertRegex(output, r"(?m)^UNSTEADY: a differed by \+40\.0% from itself, and by \+0\.0% when it was measured again")
        self.assertNotIn("UNSTEADY: b", output)
        self.assertEqual(code, 1, "calm the second time: 20% worse counts")

    def test_growth_is_measured_once_and_judged_by_its_bound(self):
        units = {"a": "us", "growth": "percent"}
        old = Program({"a": [10], "growth": [0.2]}, units)
        new = Program({"a": [10], "growth": [3]}, units)
        code, output = self.run_beside(old, new)
        self.assertEqual((old.measured.count("growth"), new.measured.count("growth")), (1, 1))
        self.assertEqual(code, 1)
        self.assertRegex(output, r"(?m)^growth .*GROWS$")

    def test_rows_of_one_side_are_shown_without_judgement(self):
        code, output = self.run_beside(Program({"a": [10], "old": [1]}), Program({"a": [10], "fresh": [900]}))
        self.assertEqual(code, 0)
        self.assertRegex(output, r"(?m)^fresh .*-.*900.*new$")
        self.assertRegex(output, r"(?m)^old .*gone$")

    def test_a_pattern_chooses_rows_of_either_side(self):
        old, new = Program({"a": [10], "b": [10]}), Program({"a": [10], "c": [1]})
        self.run_beside(old, new, ["a", "c"])
        self.assertEqual((set(old.measured), set(new.measured)), ({"a"}, {"a", "c"}))

    def test_quick_is_one_round(self):
        old, new = Program({"a": [10]}), Program({"a": [10]})
        self.run_beside(old, new, quick=True)
        self.assertEqual((len(old.measured), len(new.measured)), (3, 1))

    def test_what_is_no_commit_is_an_error(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(command.main(["--beside", "no-such-commit"]), 2)
        self.assertIn("no-such-commit", errors.getvalue())


class Rows(unittest.TestCase):
    UNITS = {"call.growth": "percent", "call.one": "us", "call.two": "us", "gradient.hops.1": "us", "gradient.rate": "per_second"}

    def test_shell_patterns_choose_in_the_order_of_the_program(self):
        self.assertEqual(rows.chosen(self.UNITS, ["gradient.*", "call.o*"]), ["call.one", "gradient.hops.1", "gradient.rate"])

    def test_a_pattern_that_matches_nothing_is_an_error_that_names_it(self):
        with self.assertRaisesRegex(ValueError, "'cal.*'.*call.one"):
            rows.chosen(self.UNITS, ["call.*", "cal.*"])

    def test_quick_takes_few_rows_and_none_that_takes_long(self):
        self.assertEqual(rows.chosen(self.UNITS, ["*"], quick=True), ["gradient.hops.1"])
        self.assertEqual(rows.chosen(self.UNITS, ["call.*"], quick=True), ["call.one", "call.two"])

    def test_several_patterns_may_come_as_one_word(self):
        self.assertEqual(command.parsed(["call.* group.*"]).patterns, ["call.*", "group.*"])
        self.assertEqual(command.parsed([]).patterns, ["*"])


class Make(unittest.TestCase):
    def given(self, *words):
        """The arguments that `make bench` gives to bench/run, in a folder that has files."""
        # What a make that started this test was given does not count.
        environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "ROWS", "BESIDE", "KEEP")}
        lines = subprocess.run(["make", "-n", "bench", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        line = next(line for line in lines.splitlines() if line.startswith("bench/run"))
        shown = subprocess.run(["sh", "-c", line.replace("bench/run", r"printf '%s\n'", 1)], cwd=ROOT, capture_output=True, text=True, check=True)
        return shown.stdout.splitlines()

    def test_rows_reach_the_bench_as_they_were_typed(self):
        self.assertEqual(self.given(), ["*"])
        self.assertEqual(self.given("ROWS=bench*"), ["bench*"])
        self.assertEqual(self.given("ROWS=call.* group.*"), ["call.* group.*"])

    def test_beside_and_keep_become_options(self):
        self.assertEqual(self.given("BESIDE=HEAD~1"), ["--beside", "HEAD~1", "*"])
        self.assertEqual(self.given("KEEP=0.1.0", "ROWS=call.*"), ["--keep", "0.1.0", "call.*"])


class Results(unittest.TestCase):
    def test_ratios_say_how_much_better_than_torch_and_how_many_times_the_floor(self):
        time = compare.result("a", "us", mine=10, torch=150, floor=5, pipelining={})
        self.assertEqual((time["ratio_to_torch"], time["ratio_to_floor"]), (15, 2))
        rate = compare.result("a", "per_second", mine=200, torch=10, floor=400, pipelining={})
        self.assertEqual((rate["ratio_to_torch"], rate["ratio_to_floor"]), (20, 2))

    def test_what_is_not_there_has_no_ratio_and_neither_has_growth(self):
        alone = compare.result("a", "us", mine=10, torch=None, floor=None, pipelining={})
        self.assertEqual((alone["ratio_to_torch"], alone["ratio_to_floor"]), (None, None))
        self.assertIsNone(compare.result("a", "percent", mine=0.5, torch=2, floor=None, pipelining={})["ratio_to_torch"])


class History(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_results_are_kept_with_machine_and_torch(self):
        path = history.file_of("0.1.0", self.folder)
        history.keep(path, 3, [{"name": "a"}])
        kept = json.loads(path.read_text())
        self.assertEqual((kept["rounds"], kept["rows"]), (3, [{"name": "a"}]))
        self.assertEqual(set(kept["machine"]), {"cpu", "cores", "kernel"})
        self.assertTrue(all(kept["machine"].values()))
        self.assertRegex(kept["torch"], r"^2\.\d+")

    def test_what_is_kept_is_not_replaced(self):
        history.file_of("0.1.0", self.folder).write_text("{}")
        with self.assertRaises(programs.Failed):
            history.file_of("0.1.0", self.folder)

    def test_a_name_is_no_path(self):
        for name in ("../results", "a/b", "", ".hidden"):
            with self.assertRaises(programs.Failed):
                history.file_of(name, self.folder)

    def test_a_processor_without_a_name_is_told_by_its_kind(self):
        info = self.folder / "cpuinfo"
        info.write_text("processor\t: 0\nmodel name\t: Some CPU 3 GHz\n")
        self.assertEqual(history.processor(info), "Some CPU 3 GHz")
        info.write_text("processor\t: 0\n")
        self.assertEqual(history.processor(info), os.uname().machine)


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def script(self, text):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o700)
        return path

    def test_figures_are_read_by_row_and_other_lines_are_not(self):
        program = self.script("echo a.b 1.5 us; echo a warning; echo c 2e3 per_second\n")
        self.assertEqual(programs.figures_of([program]), {"a.b": 1.5, "c": 2000})

    def test_a_program_that_fails_fails_the_bench_with_what_it_said(self):
        with self.assertRaisesRegex(programs.Failed, "exit code 3(.|\n)*no such port"):
            programs.figures_of([self.script("echo no such port >&2; exit 3\n")])

    def test_a_program_that_takes_too_long_is_ended(self):
        with mock.patch.object(programs, "LIMIT", 0.1), self.assertRaisesRegex(programs.Failed, "took longer than 0.1 s"):
            programs.figures_of([self.script("sleep 1000\n")])

    def test_what_a_failing_program_started_ends_with_it(self):
        fifo = self.folder / "alive"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        program = self.script(f"exec 7>'{fifo}'\nsleep 1000 &\nexit 1\n")
        with self.assertRaises(programs.Failed):
            programs.figures_of([program])
        ended, _, _ = select.select([reader], [], [], 60)
        self.assertTrue(ended, "nobody holds the pipe any more")


if __name__ == "__main__":
    unittest.main()
