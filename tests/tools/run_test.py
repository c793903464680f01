#!/usr/bin/env python3
"""`gradwire run`, driven from outside. GRADWIRE_PROGRAM names the program; ctest runs each test by itself.

Every process of a run holds an end of a pipe: when that pipe ends they are all gone, whoever started them."""
import os, pathlib, pty, resource, select, shutil, signal, stat, subprocess, sys, tempfile, time, unittest

PROGRAM = os.environ["GRADWIRE_PROGRAM"]
LIMIT = 60  # seconds, a hundredfold of what anything here takes


def is_ready(file, deadline):
    return bool(select.select([file], [], [], max(0, deadline - time.monotonic()))[0])


def state_of(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2]


def hear_signals():
    """In a started process: whoever started this test may ignore some, as a shell does for what runs in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()

    # Helpers

    def start(self, *words, environment={}, before=lambda: None, **options):
        def prepare():
            hear_signals()
            before()

        dropped = ("NO_COLOR", "RANK", "WORLD_SIZE", "GRADWIRE_NAME", "GRADWIRE_STORE")
        variables = {key: value for key, value in os.environ.items() if key not in dropped}
        alive, held = os.pipe()
        self.addCleanup(os.close, alive)
        launcher = subprocess.Popen([PROGRAM, *map(str, words)], bufsize=0, pass_fds=[held], preexec_fn=prepare,
                                    env={**variables, "TMPDIR": str(self.temporary), "TERM": "xterm", **environment},
                                    **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
        os.close(held)
        launcher.alive = alive
        self.addCleanup(self.clean, launcher)
        return launcher

    def clean(self, launcher):
        launcher.kill()
        launcher.wait(LIMIT)
        for file in (launcher.stdin, launcher.stdout, launcher.stderr):
            if file:
                file.close()

    def expect_end(self, launcher, code, folder_stays=False):
        """It ends with that code (a signal, negated), all processes with it, and nothing is left behind."""
        self.assertEqual(launcher.wait(LIMIT), code)
        self.assertTrue(is_ready(launcher.alive, time.monotonic() + LIMIT), "processes are left")
        self.assertEqual(os.read(launcher.alive, 1), b"")
        if not folder_stays:
            self.assertEqual(list(self.temporary.iterdir()), [], "files are left")

    def run_it(self, *words, code=0, **options):
        """The lines of stdout and stderr of a run that ends by itself, with that code."""
        launcher = self.start(*words, **options)
        output, errors = launcher.communicate(timeout=LIMIT)
        self.expect_end(launcher, code)
        return (output or b"").decode().splitlines(), (errors or b"").decode().splitlines()

    def line(self, file):
        text, deadline = b"", time.monotonic() + LIMIT
        while not text.endswith(b"\n"):
            self.assertTrue(is_ready(file, deadline), f"no line within {LIMIT} s, after {text!r}")
            more = os.read(file.fileno(), 1)
            self.assertTrue(more, f"no more lines, after {text!r}")
            text += more
        return text.decode().rstrip("\n")

    def lines(self, file, count):
        return sorted(self.line(file) for _ in range(count))

    def until(self, condition, what):
        deadline = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"not within {LIMIT} s: {what}")
            time.sleep(0.01)

    def gate(self, name):
        """A worker waits at it with `read line < "$1"`; `open_gate` lets it go on."""
        path = self.folder / name
        os.mkfifo(path)
        return path

    def open_gate(self, path):
        # For reading too, so that opening does not wait for a worker that may be dead.
        file = os.open(path, os.O_RDWR)
        self.addCleanup(os.close, file)
        os.write(file, b"go\n")

    def script(self, text, mode=0o755):
        path = self.folder / "script"
        path.write_text(text)
        path.chmod(mode)
        return path

    # Output

    def test_every_line_carries_the_name_of_its_worker_and_stdout_and_stderr_stay_apart(self):
        output, errors = self.run_it("run", "-n", 2, "sh", "-c", "echo first; echo second; echo third >&2")
        self.assertEqual(sorted(output), ["[worker0] first", "[worker0] second", "[worker1] first", "[worker1] second"])
        self.assertEqual(sorted(errors), ["[worker0] third", "[worker1] third"])

    def test_a_last_line_that_was_not_ended_is_kept(self):
        output, errors = self.run_it("run", "-n", 2, "sh", "-c", "printf 'out\\n\\nof'; printf breath >&2")
        self.assertEqual(sorted(output), sorted(f"[worker{rank}] {text}" for rank in (0, 1) for text in ("out", "", "of")))
        self.assertEqual(sorted(errors), ["[worker0] breath", "[worker1] breath"])

    def test_lines_written_in_pieces_to_one_place_never_cross(self):
        program = self.script(f"""#!{sys.executable}
import os
for number in range(300):
    text = f"{{number}} " + "ab" * (number * 7 % 400) + "\\n"
    for begin in range(0, len(text), 97):
        os.write(1 + number % 2, text[begin:begin + 97].encode())
""")
        output, _ = self.run_it("run", "-n", 4, program, stderr=subprocess.STDOUT)
        self.assertEqual(len(output), 1200)
        for rank in range(4):
            prefix = f"[worker{rank}] "
            mine = [line.removeprefix(prefix) for line in output if line.startswith(prefix)]
            for parity in (0, 1):  # each of a worker's two streams keeps its order
                expected = [f"{number} " + "ab" * (number * 7 % 400) for number in range(parity, 300, 2)]
                self.assertEqual([line for line in mine if int(line.split(" ")[0]) % 2 == parity], expected)

    def test_names_line_up_and_are_coloured_on_a_terminal_only(self):
        def on_terminal(**environment):
            ours, theirs = pty.openpty()
            launcher = self.start("run", "--names", "a,longer", "sh", "-c", "echo x", stdout=theirs, environment=environment)
            os.close(theirs)
            self.expect_end(launcher, 0)
            text = b""
            try:
                while more := os.read(ours, 4096):
                    text += more
            except OSError:  # how a terminal ends
                pass
            os.close(ours)
            return sorted(text.decode().replace("\r", "").splitlines())

        self.assertEqual(on_terminal(), ["\033[33m[longer]\033[0m x", "\033[36m[a]\033[0m      x"])
        self.assertEqual(on_terminal(NO_COLOR="1"), ["[a]      x", "[longer] x"])
        self.assertEqual(on_terminal(TERM="dumb"), ["[a]      x", "[longer] x"])

    def test_a_worker_whose_output_nobody_reads_any_more_is_told(self):
        launcher = self.start("run", "-n", 1, "yes")
        self.assertEqual(self.line(launcher.stdout), "[worker0] y")
        launcher.stdout.close()
        self.expect_end(launcher, 128 + signal.SIGPIPE)
        self.assertIn("(Broken pipe)", self.line(launcher.stderr))

    def test_a_reader_that_does_not_read_keeps_nobody_from_ending_the_run(self):
        launcher = self.start("run", "-n", 2, "yes")
        self.assertTrue(is_ready(launcher.stdout, time.monotonic() + LIMIT))
        launcher.terminate()
        self.assertIn("SIGTERM passed on to 2 workers", self.line(launcher.stderr))

        def ended():  # what the workers wrote waits for its reader, until the next signal
            launcher.terminate()
            return launcher.poll() is not None

        self.until(ended, "the launcher ends")
        self.expect_end(launcher, -signal.SIGTERM)

    def test_a_worker_waits_when_its_output_is_not_read(self):
        launcher = self.start("run", "-n", 1, "sh", "-c", "echo $$; exec yes")
        pid = int(self.line(launcher.stdout).split(" ")[1])
        written = [-1]

        def stands_still():
            written.append(int(pathlib.Path(f"/proc/{pid}/io").read_text().split("wchar: ")[1].split()[0]))
            self.assertLess(written[-1], 5_000_000, "the launcher keeps all of it")
            return written[-1] > 100_000 and len(written) > 10 and len(set(written[-10:])) == 1

        self.until(stands_still, "it waits")

    def test_a_reader_that_comes_late_gets_everything(self):
        launcher = self.start("run", "-n", 2, "seq", 200000)
        self.assertTrue(is_ready(launcher.stdout, time.monotonic() + LIMIT))
        output, _ = launcher.communicate(timeout=LIMIT)
        for rank in (0, 1):
            prefix = f"[worker{rank}] "
            mine = [line.removeprefix(prefix) for line in output.decode().splitlines() if line.startswith(prefix)]
            self.assertEqual(mine, list(map(str, range(1, 200001))))
        self.expect_end(launcher, 0)

    # What workers are given

    def test_what_is_piped_in_goes_to_rank_0(self):
        launcher = self.start("run", "-n", 3, "sh", "-c", "readlink /proc/self/fd/0; wc -c", stdin=subprocess.PIPE)
        output, _ = launcher.communicate(b"12345", timeout=LIMIT)
        lines = sorted(output.decode().splitlines())
        self.assertRegex(lines.pop(1), r"\A\[worker0\] pipe:")
        self.assertEqual(lines, ["[worker0] 5", "[worker1] /dev/null", "[worker1] 0", "[worker2] /dev/null", "[worker2] 0"])
        self.expect_end(launcher, 0)

    def test_a_terminal_is_not_read(self):
        ours, theirs = pty.openpty()
        launcher = self.start("run", "-n", 1, "wc", "-c", stdin=theirs)
        self.assertEqual(self.line(launcher.stdout), "[worker0] 0")
        self.expect_end(launcher, 0)
        os.close(ours)
        os.close(theirs)

    def test_each_worker_is_told_who_it_is(self):
        shown = 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GRADWIRE_NAME $GRADWIRE_RESTART $KEPT"'
        output, _ = self.run_it("run", "-n", 2, "sh", "-c", shown, environment={"RANK": "7", "GRADWIRE_NAME": "other", "KEPT": "kept"})
        self.assertEqual(sorted(output), ["[worker0] 0 2 0 2 worker0 0 kept", "[worker1] 1 2 1 2 worker1 0 kept"])

    def test_the_folder_where_they_meet_and_the_secret_are_private_and_fresh(self):
        secrets = set()
        for _ in range(2):
            launcher = self.start("run", "-n", 2, "sh", "-c", 'echo "$GRADWIRE_STORE $GRADWIRE_SECRET_FILE"; exec sleep 1000')
            first, second = self.lines(launcher.stdout, 2)
            self.assertEqual(first.split(" ")[1:], second.split(" ")[1:])
            store, secret = map(pathlib.Path, first.split(" ")[1:])
            self.assertEqual(store.parent, secret.parent)
            self.assertEqual(store.parent.parent, self.temporary)
            self.assertEqual(stat.S_IMODE(store.parent.stat().st_mode), 0o700)
            self.assertEqual(stat.S_IMODE(secret.stat().st_mode), 0o600)
            self.assertFalse(store.exists())
            self.assertRegex(secret.read_text(), r"\A[0-9a-f]{64}\n\Z")
            secrets.add(secret.read_text())
            launcher.terminate()
            self.expect_end(launcher, -signal.SIGTERM)
        self.assertEqual(len(secrets), 2)

    def test_n22_workers_meet_in_the_file_that_store_names(self):
        output, _ = self.run_it("run", "-n", 2, "--store", "meeting", "sh", "-c", 'echo "$GRADWIRE_STORE"', cwd=self.folder)
        self.assertEqual({line.split(" ")[1] for line in output}, {str(self.folder / "meeting")})

    def test_n21_python_programs_do_not_buffer_their_output(self):
        launcher = self.start("run", "-n", 1, sys.executable, "-c", "import os, signal; print('last'); os.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual(self.line(launcher.stdout), "[worker0] last")
        self.expect_end(launcher, 128 + signal.SIGKILL)

    def test_the_program_gets_its_arguments_as_they_are(self):
        program = self.script(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
        given = ["--help", "-n", "3", "--", "", "[a,b]", "a b", "--names=x", "run", "--"]
        for before in ([], ["--"]):
            self.assertEqual(self.run_it("run", "-n", 1, *before, program, *given), ([f"[worker0] {given}"], []))

    def test_workers_can_be_named(self):
        output, _ = self.run_it("run", "--names", "ps,trainer-0", "sh", "-c", 'echo "$RANK $GRADWIRE_NAME"')
        self.assertEqual(sorted(output), ["[ps]        0 ps", "[trainer-0] 1 trainer-0"])

    def test_descriptors_of_the_launcher_do_not_reach_the_workers(self):
        output, _ = self.run_it("run", "-n", 3, "sh", "-c", "ls /proc/self/fd | wc -l")
        # stdin, stdout, stderr, the folder that ls reads, and the pipe of this test
        self.assertEqual(sorted(output), ["[worker0] 5", "[worker1] 5", "[worker2] 5"])

    def test_more_descriptors_than_the_limit_are_the_launchers_matter_not_the_workers(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (50, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        output, _ = self.run_it("run", "-n", 40, "sh", "-c", "ulimit -n", before=few)
        self.assertEqual({line.split()[1] for line in output}, {"50"})
        self.assertEqual(len(output), 40)

    # Ends

    def test_when_one_fails_the_others_are_ended_and_its_code_is_returned(self):
        _, errors = self.run_it("run", "-n", 3, "sh", "-c",
                                "[ $RANK != 1 ] || { echo last words >&2; exit 3; }; exec sleep 1000", code=3)
        self.assertEqual(errors[0], "[worker1] last words")
        self.assertRegex(errors[1], r"\Agradwire: worker1 \(rank 1, pid \d+\) exited with code 3; ending the other 2\Z")
        self.assertEqual(errors[2:], ["gradwire: worker1 ended with: last words"])

    def test_a_worker_killed_by_a_signal_is_said_so(self):
        _, errors = self.run_it("run", "-n", 2, "sh", "-c", "[ $RANK != 1 ] || kill -9 $$; exec sleep 1000", code=128 + 9)
        self.assertRegex(errors[0], r"\Agradwire: worker1 \(rank 1, pid \d+\) was killed by signal 9 \(Killed\); ending the other one\Z")
        self.assertEqual(len(errors), 1)

    def test_the_first_to_fail_is_named_not_who_failed_because_of_it(self):
        gates = [self.gate("0"), self.gate("1")]
        launcher = self.start("run", "-n", 2, "sh", "-c", f'echo $$; read line < "{self.folder}/$RANK"; exit $((7 + $RANK))')
        pids = [int(line.split(" ")[1]) for line in self.lines(launcher.stdout, 2)]
        launcher.send_signal(signal.SIGSTOP)
        self.until(lambda: state_of(launcher.pid) == "T", "the launcher stands still")
        for rank in (1, 0):
            self.open_gate(gates[rank])
            self.until(lambda: state_of(pids[rank]) == "Z", f"rank {rank} ends")
        launcher.send_signal(signal.SIGCONT)
        self.expect_end(launcher, 8)

    def test_n20_the_text_of_an_error_that_main_did_not_catch_comes_last(self):
        # What std::terminate writes, and what those that are ended with it still say.
        launcher = self.start("run", "-n", 2, "sh", "-c", """
            if [ $RANK = 1 ]; then
              echo "terminate called after throwing an instance of 'gradwire::TimeoutError'" >&2
              printf '  what():  worker0 did not join\\nstart it\\n\\n' >&2
              kill -ABRT $$
            fi
            trap 'echo also ended >&2; exit 0' TERM; sleep 1000 > /dev/null 2>&1 & wait""")
        _, errors = launcher.communicate(timeout=LIMIT)
        self.expect_end(launcher, 128 + signal.SIGABRT)
        self.assertEqual(errors.decode().splitlines()[-2:], ["gradwire: worker1 ended with: worker0 did not join", "start it"])

    def test_n20_workers_leave_no_core_files_unless_they_ask_for_them(self):
        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        if 0 <= hard < 4096:
            self.skipTest(f"this machine allows core files of {hard} bytes at most")
        output, _ = self.run_it("run", "-n", 1, "sh", "-c", "ulimit -Sc; ulimit -Hc",
                                before=lambda: resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096)))
        self.assertEqual(output, ["[worker0] 0", "[worker0] 8"])  # in blocks of 512 bytes

    def test_n22_with_keep_going_a_failure_ends_nobody_else_and_the_first_code_is_returned(self):
        gate = self.gate("gate")
        launcher = self.start("run", "-n", 3, "--keep-going", "sh", "-c",
                              'case $RANK in 0) read line < "$1"; echo still here;; 1) exit 3;; 2) read line < "$2"; exit 4;; esac', "sh", gate, self.gate("other"))
        self.assertRegex(self.line(launcher.stderr), r"worker1 \(rank 1, pid \d+\) exited with code 3; 2 others still running\Z")
        self.open_gate(self.folder / "other")
        self.assertRegex(self.line(launcher.stderr), r"worker2 \(rank 2, pid \d+\) exited with code 4; 1 other still running\Z")
        self.open_gate(gate)
        self.assertEqual(self.line(launcher.stdout), "[worker0] still here")
        self.expect_end(launcher, 3)

    def test_who_does_not_end_within_the_grace_period_is_killed(self):
        gate = self.gate("gate")
        launcher = self.start("run", "-n", 2, "--grace", "0.1", "sh", "-c",
                              '[ $RANK = 0 ] || { read line < "$1"; exit 4; }; trap "" TERM; echo ready; while :; do sleep 1000; done', "sh", gate)
        self.assertEqual(self.line(launcher.stdout), "[worker0] ready")
        self.open_gate(gate)
        self.expect_end(launcher, 4)
        self.line(launcher.stderr)
        self.assertRegex(self.line(launcher.stderr), r"\Agradwire: worker0 \(rank 0, pid \d+\) did not end within 0.1 s: killed\Z")

    def test_ending_signals_are_passed_on_and_end_the_launcher_as_they_end_any_program(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            name = number.name.removeprefix("SIG")
            launcher = self.start("run", "-n", 2, "sh", "-c", f"trap 'echo got {name}; exit 0' {name}; echo ready; sleep 1000 > /dev/null 2>&1 & wait")
            self.assertEqual(self.lines(launcher.stdout, 2), ["[worker0] ready", "[worker1] ready"])
            launcher.send_signal(number)
            self.assertEqual(self.lines(launcher.stdout, 2), [f"[worker0] got {name}", f"[worker1] got {name}"])
            self.expect_end(launcher, -number)
            self.assertIn(f"gradwire: {number.name} passed on to 2 workers", self.line(launcher.stderr))

    def test_a_second_sigint_kills(self):
        launcher = self.start("run", "-n", 2, "--grace", "1000", "sh", "-c", 'trap "echo no" INT; echo ready; while :; do sleep 1000 > /dev/null 2>&1 & wait; done')
        self.lines(launcher.stdout, 2)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(self.lines(launcher.stdout, 2), ["[worker0] no", "[worker1] no"])
        launcher.send_signal(signal.SIGINT)
        self.expect_end(launcher, -signal.SIGINT)

    def test_a_signal_that_was_ignored_from_the_start_stays_ignored(self):
        launcher = self.start("run", "-n", 1, "sh", "-c", "echo ready; exec sleep 1000",
                              before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.line(launcher.stdout)
        launcher.send_signal(signal.SIGHUP)
        launcher.terminate()
        self.expect_end(launcher, -signal.SIGTERM)

    def test_workers_find_signals_as_the_launcher_found_them(self):
        look = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"]
        # Others may be ignored here: what counts is that the launcher changes nothing.
        found = subprocess.run(look, capture_output=True, text=True, check=True, preexec_fn=hear_signals).stdout.splitlines()
        output, _ = self.run_it("run", "-n", 1, *look)
        self.assertEqual(output, [f"[worker0] {line}" for line in found])

    def test_stopped_and_continued_from_the_terminal_the_workers_are_too(self):
        launcher = self.start("run", "-n", 2, "sh", "-c", "echo $$; exec sleep 1000")
        pids = [int(line.split(" ")[1]) for line in self.lines(launcher.stdout, 2)] + [launcher.pid]
        launcher.send_signal(signal.SIGTSTP)
        self.until(lambda: [state_of(pid) for pid in pids] == ["T"] * 3, "all stand still")
        launcher.send_signal(signal.SIGCONT)
        self.until(lambda: "T" not in [state_of(pid) for pid in pids], "all go on")
        launcher.terminate()
        self.expect_end(launcher, -signal.SIGTERM)

    def test_what_a_worker_started_is_signalled_with_it(self):
        launcher = self.start("run", "-n", 2, "sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait")
        self.lines(launcher.stdout, 2)
        launcher.terminate()
        self.expect_end(launcher, -signal.SIGTERM)

    def test_what_a_worker_leaves_behind_is_asked_to_end_and_may_say_a_last_word(self):
        output, errors = self.run_it("run", "-n", 1, "sh", "-c", f"""
            mkfifo {self.folder}/ready
            (trap 'echo left behind; exit 0' TERM; echo > {self.folder}/ready; while :; do sleep 1000 > /dev/null 2>&1 & wait; done) &
            read line < {self.folder}/ready""")
        self.assertEqual((output, errors), (["[worker0] left behind"], []))

    def test_what_a_worker_leaves_behind_and_will_not_end_is_killed(self):
        self.run_it("run", "-n", 1, "--grace", "0.1", "sh", "-c", f"""
            mkfifo {self.folder}/ready
            (trap '' TERM; echo > {self.folder}/ready; while :; do sleep 1000; done) &
            read line < {self.folder}/ready""")

    def test_workers_end_when_the_launcher_is_killed(self):
        launcher = self.start("run", "-n", 3, "sh", "-c", 'trap "" TERM HUP INT; echo ready; exec sleep 1000')
        self.lines(launcher.stdout, 3)
        launcher.kill()
        self.expect_end(launcher, -signal.SIGKILL, folder_stays=True)

    # Restarts

    def test_a_failed_worker_is_restarted_under_its_name_and_rank_while_the_others_go_on(self):
        gate = self.gate("gate")
        launcher = self.start("run", "-n", 2, "--restart", 2, "sh", "-c",
                              'echo "$RANK $GRADWIRE_NAME $GRADWIRE_RESTART"; [ $RANK = 1 ] || { read line < "$1"; exit 0; }; [ $GRADWIRE_RESTART = 2 ] || exit 5',
                              "sh", gate)
        self.assertEqual(self.lines(launcher.stdout, 4),
                         ["[worker0] 0 worker0 0", "[worker1] 1 worker1 0", "[worker1] 1 worker1 1", "[worker1] 1 worker1 2"])
        for number in (1, 2):
            self.assertRegex(self.line(launcher.stderr),
                             rf"\Agradwire: worker1 \(rank 1, pid \d+\) exited with code 5; it is started again \(restart {number} of 2\)\Z")
        self.open_gate(gate)
        self.expect_end(launcher, 0)

    def test_restarts_are_counted_over_all_workers_and_then_a_failure_ends_all(self):
        output, errors = self.run_it("run", "-n", 2, "--restart", 3, "sh", "-c", "echo life; kill -6 $$", code=128 + 6)
        self.assertLessEqual(len(output), 5)
        self.assertEqual(sum("it is started again" in line for line in errors), 3)
        self.assertIn("was killed by signal 6 (Aborted)", errors[-1])

    def test_a_worker_that_ended_well_is_not_restarted(self):
        self.assertEqual(self.run_it("run", "-n", 1, "--restart", 3, "echo", "once"), (["[worker0] once"], []))

    def test_nothing_is_restarted_once_a_signal_ends_the_run(self):
        launcher = self.start("run", "-n", 2, "--restart", 9, "sh", "-c", "trap 'exit 1' TERM; echo ready; sleep 1000 > /dev/null 2>&1 & wait")
        self.lines(launcher.stdout, 2)
        launcher.terminate()
        output, _ = launcher.communicate(timeout=LIMIT)
        self.assertEqual(output, b"")
        self.expect_end(launcher, -signal.SIGTERM)

    def test_who_waits_to_be_restarted_is_not_once_a_signal_ends_the_run(self):
        launcher = self.start("run", "-n", 1, "--restart", 9, "--grace", "1000", "sh", "-c", "echo life; trap '' TERM INT; sleep 1000 & exit 1")
        self.assertEqual(self.line(launcher.stdout), "[worker0] life")
        self.assertIn("it is started again", self.line(launcher.stderr))
        # It lingers, for its child does not end.
        launcher.send_signal(signal.SIGINT)
        self.assertIn("SIGINT passed on", self.line(launcher.stderr))
        launcher.send_signal(signal.SIGINT)
        output, _ = launcher.communicate(timeout=LIMIT)
        self.assertEqual(output, b"")
        self.expect_end(launcher, -signal.SIGINT)

    # Wrong use

    def expect_refusal(self, words, text):
        output, errors = self.run_it("run", *words, code=2)
        self.assertEqual((output, len(errors)), ([], 1), errors)
        self.assertTrue(errors[0].startswith("gradwire: "), errors)
        self.assertIn(text, errors[0])

    def test_a_program_that_cannot_be_run_is_an_error_in_words(self):
        self.expect_refusal(["-n", 2, "./not-there"], "./not-there: there is no such file")
        self.expect_refusal(["-n", 2, "gradwire-not-there"], "gradwire-not-there: there is no such program in PATH")
        self.expect_refusal(["-n", 2, self.folder], "it is a folder")
        self.expect_refusal(["-n", 2, self.script("", mode=0o644)], "it is not executable: chmod +x")
        self.expect_refusal(["-n", 2, self.script("just text")], "Exec format error (a script says in its first line what runs it")
        self.expect_refusal(["-n", 2, self.script("#!/not/there\n")], "No such file or directory (is what runs it there")

    def test_wrong_words_are_an_error_in_words(self):
        self.expect_refusal(["true"], "how many workers?")
        self.expect_refusal(["-n", 0, "true"], "-n 0: from 1 to 10000 workers")
        self.expect_refusal(["-n", -1, "true"], "-n -1: from 1 to 10000 workers")
        self.expect_refusal(["-n", "two", "true"], "two")
        self.expect_refusal(["-n", 2], "no program to run")
        self.expect_refusal(["-n", 2, "--"], "no program to run")
        self.expect_refusal(["-n", 2, "--unheard-of", "true"], "--unheard-of: there is no such option")
        self.expect_refusal(["-n", 2, "--restart", -1, "true"], "--restart")
        self.expect_refusal(["-n", 2, "--grace", -1, "true"], "--grace")
        self.expect_refusal(["-n", 2, "--grace", "nan", "true"], "--grace")
        self.expect_refusal(["-n", 2, "--names", "a,b,c", "true"], "-n 2, but --names has 3")
        self.expect_refusal(["--names", "a,b,a", "true"], '"a" twice')
        self.expect_refusal(["--names", "a,b c", "true"], '"b c" is wrong at character 2')
        self.expect_refusal(["--names", "a,,b", "true"], "is empty")

    def test_a_temporary_folder_that_is_not_there_is_an_error_in_words(self):
        _, errors = self.run_it("run", "-n", 1, "true", code=2, environment={"TMPDIR": str(self.folder / "not-there")})
        self.assertIn("not-there (TMPDIR says where): No such file or directory", errors[0])

    def test_help_and_version_are_no_errors(self):
        for words in (["--help"], ["run", "--help"]):
            shown = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=LIMIT, check=True).stdout
            self.assertIn("Usage: gradwire", shown)
        version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=LIMIT, check=True).stdout
        self.assertRegex(version, r"\Agradwire \d+\.\d+\.\d+\n\Z")

    def test_it_starts_without_libtorch(self):
        loaded = subprocess.run([PROGRAM], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True, timeout=LIMIT).stdout
        self.assertIn("libc.so", loaded)
        self.assertNotIn("torch", loaded)


if __name__ == "__main__":
    unittest.main(verbosity=2)
