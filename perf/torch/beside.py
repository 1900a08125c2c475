# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of this folder share: ranks as children of this process, on this host or in several that are
network namespaces; the groups of gloo and of tutti; and rounds in which both take turns."""
import contextlib
import ctypes
import os
import statistics
import sys
import tempfile
import time
import traceback
from datetime import timedelta

try:
    import torch
    import torch.distributed as dist
except ImportError as why:
    sys.exit(f"{why}: {sys.executable} has no torch; try /usr/bin/python3 {sys.argv[0]}, with python3-torch installed")
import tutti.torch  # noqa: F401 (makes the backend known)

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
import measuring  # noqa: E402

BACKENDS = ("gloo", "tutti")
CLONE_NEWNET = 0x40000000
torch.set_num_threads(1)


# ---- hosts and ranks ----

class Hosts:
    """Namespaces as hosts, each with one link of a rate; `with Hosts(...)` makes them and takes them away."""

    def __init__(self, count, rate):
        self.count, self.rate, self.name = count, rate, f"torch-{os.getpid()}"

    def __enter__(self):
        status = measuring.hosts_up(self.name, self.count, self.rate)
        if status:
            measuring.hosts_down(self.name)
            sys.exit(status)
        return self

    def __exit__(self, *_):
        measuring.hosts_down(self.name)

    def enter(self, host):
        """Moves this thread, the only one, into a host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{self.name}-{host}") as place:
            if libc.setns(place.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"

    def bytes_per_us(self):
        """Of a link, in one direction; None where it is not limited."""
        for unit, bits in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
            if self.rate.endswith(unit):
                return float(self.rate[:-len(unit)]) * bits / 8 / 1e6
        return None


def ranks(size, body, hosts=None):
    """Calls body(rank, folder) in `size` children; the first half of them in the first of two hosts, and so on.
    Whether all succeeded."""
    children = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(size):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    if hosts is not None:
                        hosts.enter(rank * hosts.count // size)
                    body(rank, folder)
                    if dist.is_initialized():
                        dist.barrier()
                        dist.destroy_process_group()
                    status = 0
                except BaseException:  # there is nobody above who would print it
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(status)
            children.append(child)
        return not any([os.waitpid(child, 0)[1] for child in children])


def begin(rank, size, folder, transports=None, backends=BACKENDS):
    """The group of each backend, by its name; the default group, of gloo, is for control."""
    dist.init_process_group("gloo", store=dist.FileStore(os.path.join(folder, "store"), size), rank=rank,
                            world_size=size, timeout=timedelta(minutes=5))
    options = {"gloo": {}, "tutti": {"backend": "tutti", "pg_options": {"transports": transports} if transports else
                                     {}}}
    return {name: dist.new_group(**options[name]) for name in backends}


# ---- rounds ----

def repetitions(call, budget):
    """How often a round of `budget` seconds calls, the same on all ranks."""
    began = time.perf_counter()
    for _ in range(3):
        call()
    once = (time.perf_counter() - began) / 3
    n = torch.tensor([max(1, min(2000, int(budget / max(once, 1e-6))))])
    dist.broadcast(n, 0)
    return n.item()


def measure(call, n):
    """Microseconds a call, of the slowest rank."""
    dist.barrier()
    began = time.perf_counter()
    for _ in range(n):
        call()
    took = torch.tensor([(time.perf_counter() - began) / n * 1e6])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


def medians(calls, rounds, budget):
    """Microseconds of each call, by its name: the medians of rounds in which they take turns."""
    n = {name: repetitions(call, budget) for name, call in calls.items()}
    times = {name: [] for name in calls}
    for turn in range(rounds):
        for name in list(calls)[::-1 if turn % 2 else 1]:
            times[name].append(measure(calls[name], n[name]))
    return {name: statistics.median(seen) for name, seen in times.items()}


def once(call, n):
    """Microseconds a call in this process."""
    began = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - began) / n * 1e6


# ---- tables ----

def has_bfloat16(group):
    """Whether gloo has it, which came with torch 2."""
    try:
        dist.all_reduce(torch.zeros(1, dtype=torch.bfloat16), group=group)
        return True
    except RuntimeError:
        return False


def head(what, unit, *more):
    print(f"{what}, torch {torch.__version__}")
    print(f"{unit:>24} {'gloo us':>11} {'tutti us':>11} {'ratio':>7}" + "".join(f" {word:>11}" for word in more),
          flush=True)


def row(name, times, *more):
    print(f"{name:>24} {times['gloo']:>11.1f} {times['tutti']:>11.1f} {times['gloo'] / times['tutti']:>7.2f}" +
          "".join(f" {word:>11}" for word in more), flush=True)


@contextlib.contextmanager
def maybe(hosts):
    """A block with hosts, or None."""
    if hosts is None:
        yield None
    else:
        with hosts as made:
            yield made
