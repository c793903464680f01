#!/usr/bin/env python3
"""examples/hello under each launcher. GRADWIRE_PROGRAM, GRADWIRE_HELLO and GRADWIRE_PYTHON (with torch) are given by ctest."""
import os, re, shutil, socket, unittest

from started import Programs, free_port

PROGRAM, HELLO, PYTHON = os.environ["GRADWIRE_PROGRAM"], os.environ["GRADWIRE_HELLO"], os.environ.get("GRADWIRE_PYTHON")
SCALED = r"^.* 2\n.* 2\n.* 2\n.*\[ CPUFloatType\{3\} \]\n"


class Launchers(Programs):
    def torchrun(self, *words):
        if not PYTHON:
            self.skipTest("which Python has the torch that this was built with is not known")
        # A port that is free: with standalone, the agent takes any.
        return self.run_it(PYTHON, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", 2, *words)

    def test_gradwire_run(self):
        self.assertRegex(self.run_it(PROGRAM, "run", "-n", 2, HELLO), re.compile(SCALED, re.M))

    def test_by_hand(self):
        first = f'RANK=1 "{HELLO}" & RANK=0 "{HELLO}" && wait $!'
        output = self.run_it("sh", "-c", first, WORLD_SIZE="2", GRADWIRE_STORE=str(self.folder / "store"))
        self.assertRegex(output, re.compile(SCALED, re.M))

    def test_n5_by_hand_again_and_again_with_the_same_store(self):
        both = f'RANK=1 "{HELLO}" & RANK=0 "{HELLO}" && wait $!'
        for run in range(3):
            output = self.run_it("sh", "-c", both, WORLD_SIZE="2", GRADWIRE_STORE=str(self.folder / "store"))
            self.assertRegex(output, re.compile(SCALED, re.M), run)

    def test_by_hand_over_tcp(self):
        both = f'RANK=1 "{HELLO}" & RANK=0 "{HELLO}" && wait $!'
        for address in ("127.0.0.1", "127.0.1.1", "localhost", socket.gethostname()):
            output = self.run_it("sh", "-c", both, WORLD_SIZE="2", MASTER_ADDR=address, MASTER_PORT=free_port())
            self.assertRegex(output, re.compile(SCALED, re.M), address)

    def test_torchrun(self):
        self.assertRegex(self.torchrun(HELLO), re.compile(SCALED, re.M))

    def test_torchrun_restarts_a_group_whose_keys_are_still_in_the_store(self):
        # The first life is whole, so that the store holds all its keys. Both fail only when both are through: torchrun ends
        # the other one as soon as the first has failed.
        program = self.folder / "program"
        program.write_text(f"""#!/bin/sh
            echo life $TORCHELASTIC_RESTART_COUNT agent $TORCHELASTIC_USE_AGENT_STORE
            "{HELLO}" || exit 3
            [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
            touch "{self.folder}/through$RANK"
            until [ -e "{self.folder}/through0" ] && [ -e "{self.folder}/through1" ]; do sleep 0.05; done
            exit 1""")
        program.chmod(0o755)
        output = self.torchrun("--max-restarts", 1, program)
        self.assertEqual(len(re.findall(SCALED, output, re.M)), 2, output)
        self.assertEqual(output.count("life 1 agent True"), 2, output)

    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("there is no mpirun here (Debian's openmpi-bin)")
        output = self.run_it("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2, "-x", "MASTER_ADDR", "-x", "MASTER_PORT", HELLO,
                             # Open MPI otherwise demands ssh, though it stays on this host.
                             MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), OMPI_MCA_plm_rsh_agent="false")
        self.assertRegex(output, re.compile(SCALED, re.M))


if __name__ == "__main__":
    unittest.main(verbosity=2)
