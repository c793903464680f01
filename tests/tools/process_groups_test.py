#!/usr/bin/env python3
"""torch's process groups (gloo, env://) and a worker in one process, with one MASTER_ADDR and MASTER_PORT.

GRADWIRE_PYTHON (with torch) and GRADWIRE_WORKER_LIBRARY (tests/support/worker_for_python.cpp) are given by ctest. As
`process_groups_test.py worker ORDER` this is one of the two workers, as `process_groups_test.py pair ORDER` both."""
import ctypes, os, re, socket, subprocess, sys, unittest

from started import Programs, free_port

LIBRARY, PYTHON = os.environ["GRADWIRE_WORKER_LIBRARY"], os.environ.get("GRADWIRE_PYTHON")
DONE = "the worker and the group are done\n"
# What the log names where torch would not reach Gradwire's store.
ADVICE = re.compile(r"process groups.*MASTER_ADDR=127\.0\.0\.1")


class Worker:
    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.worker_join.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(self.library.worker_join())
        assert self.handle, "join failed"

    def check(self, peer):
        assert self.library.worker_twice(self.handle, peer, 21) == 42, "the call failed"

    def leave(self):
        assert self.library.worker_leave(self.handle) == 0, "leave failed"


class Group:
    """As a training program makes it; at TORCH_PORT, if that is set."""

    def __init__(self):
        import torch, torch.distributed
        self.torch = torch
        gradwires = os.environ["MASTER_PORT"]
        os.environ["MASTER_PORT"] = os.environ.get("TORCH_PORT", gradwires)
        torch.distributed.init_process_group("gloo")
        os.environ["MASTER_PORT"] = gradwires

    def check(self):
        value = self.torch.tensor([self.torch.distributed.get_rank() + 1.0])
        self.torch.distributed.all_reduce(value)
        assert value.item() == 3, value

    def end(self):
        self.torch.distributed.barrier()
        self.torch.distributed.destroy_process_group()


def run_worker(order):
    import torch  # first: torch's libraries are those of its Python
    peer = 1 - int(os.environ["RANK"])
    group = Group() if order == "before" else None
    if group:
        group.check()
    worker = Worker()
    worker.check(peer)
    group = group or Group()
    group.check()
    worker.check(peer)
    worker.leave()
    group.check()
    group.end()
    os.write(1, DONE.encode())  # at once: others write to the same pipe


def run_pair(order):
    both = [subprocess.Popen([PYTHON, "-B", __file__, "worker", order], env={**os.environ, "RANK": str(rank)},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in (0, 1)]
    for each in both:
        os.write(1, each.communicate()[0])
    sys.exit(max(abs(each.returncode) for each in both))


class Groups(Programs):
    def setUp(self):
        super().setUp()
        if not PYTHON:
            self.skipTest("which Python has the torch that this was built with is not known")

    def run_both(self, *words, **environment):
        """What they write; both workers must be done."""
        output = self.run_it(*words, GRADWIRE_PYTHON=PYTHON, GRADWIRE_WORKER_LIBRARY=LIBRARY, GLOO_SOCKET_IFNAME="lo", **environment)
        self.assertEqual(output.count(DONE), 2, output)
        return output

    def pair(self, order, address, around=(), **environment):
        """Two workers that meet at this address."""
        return self.run_both(*around, sys.executable, "-B", __file__, "pair", order,
                             WORLD_SIZE="2", MASTER_ADDR=address, MASTER_PORT=free_port(), **environment)

    def check_both_orders(self, address, reached, around=()):
        """`reached`: whether torch, which dials MASTER_ADDR, reaches a store that Gradwire serves at 127.0.0.1."""
        # torch's own server listens at all addresses, and Gradwire shares it.
        self.assertNotRegex(self.pair("before", address, around), ADVICE)
        own_port = {} if reached else {"TORCH_PORT": free_port()}
        output = self.pair("after", address, around, **own_port)
        self.assertEqual(len(ADVICE.findall(output)), 0 if reached else 1, output)

    def name_at(self, address):
        """A command that runs another where this host's name has that address, as its /etc/hosts says."""
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        around = ["unshare", "--mount", *user, "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
        try:
            tried = subprocess.run([*around, "getent", "ahosts", socket.gethostname()], capture_output=True, text=True)
        except FileNotFoundError as error:
            self.skipTest(f"a private /etc/hosts cannot be had: {error}")
        if tried.returncode != 0:
            self.skipTest(f"a private /etc/hosts cannot be had: {tried.stderr.strip() or 'this name is not looked up there'}")
        if not all(line.startswith(address + " ") for line in tried.stdout.splitlines()):
            self.skipTest(f"this host's name is not looked up in /etc/hosts first: {tried.stdout.strip()}")
        return around

    def test_at_the_loopback_address(self):
        self.check_both_orders("127.0.0.1", reached=True)

    def test_at_another_loopback_address(self):
        self.check_both_orders("127.0.1.1", reached=False)

    def test_at_the_name_of_this_host(self):
        name = socket.gethostname()
        try:
            addresses = {each[4][0] for each in socket.getaddrinfo(name, None, socket.AF_INET)}
        except socket.gaierror as error:
            self.skipTest(f"the name of this host, {name}, does not resolve: {error}")
        self.check_both_orders(name, reached="127.0.0.1" in addresses)

    def test_at_the_name_of_this_host_as_debian_has_it(self):
        self.check_both_orders(socket.gethostname(), reached=False, around=self.name_at("127.0.1.1"))

    def test_with_tcp(self):
        # The store listens on all interfaces then, because MASTER_ADDR is loopback: torch reaches it.
        self.assertNotRegex(self.pair("after", "127.0.0.1", GRADWIRE_TCP_HOST="127.0.0.1", GRADWIRE_INSECURE="1"), ADVICE)

    def test_under_torchrun(self):
        # Its agent serves the store for both.
        self.run_both(PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, __file__, "worker", "after",
                      PYTHONDONTWRITEBYTECODE="1")


if __name__ == "__main__":
    if sys.argv[1:2] in (["worker"], ["pair"]):
        {"worker": run_worker, "pair": run_pair}[sys.argv[1]](sys.argv[2])
    else:
        unittest.main(verbosity=2)
