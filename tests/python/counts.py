# SPDX-License-Identifier: BSD-3-Clause
"""Shares of any lengths, as one array with counts or as a list of arrays, and the barrier."""
import array
import ctypes
import random
import threading
import time
import unittest

import ranks
import tutti

PATTERNS = ("nothing", "one", "few", "many")


def counts_of(size, pattern, chance):
    """One for each rank, the same on all of them."""
    if pattern == "nothing":
        return [0] * size
    if pattern == "one":
        return [300 if r == size - 1 else 0 for r in range(size)]
    return [chance.choice((0, 1, 2, 7 if pattern == "few" else 5000)) for _ in range(size)]


def value(rank, share, i):
    return (rank * 31 + share * 7 + i) % 100


def made(letter, numbers):
    return array.array(letter, numbers)


def starts_of(counts):
    return [sum(counts[:r]) for r in range(len(counts))]


def check(what, got, wanted):
    if list(got) != list(wanted):
        raise AssertionError(f"{what}: {list(got)[:20]}... instead of {list(wanted)[:20]}...")


def gathers(comm, counts, letter):
    rank, size = comm.rank, comm.size
    own = made(letter, [value(rank, 0, i) for i in range(counts[rank])])
    wanted = [[value(r, 0, i) for i in range(counts[r])] for r in range(size)]
    flat = [number for part in wanted for number in part]
    out = made(letter, [0] * sum(counts))
    assert comm.all_gather(own, out, counts=counts) is out
    check("all_gather with counts", out, flat)
    parts = [made(letter, [0] * count) for count in counts]
    handle = comm.all_gather(own, parts, async_=True)
    assert handle.wait() is parts
    check("all_gather of a list", [number for part in parts for number in part], flat)
    inside = made(letter, [0] * sum(counts))
    begin = starts_of(counts)[rank]
    view = memoryview(inside)
    view[begin:begin + counts[rank]] = own
    comm.all_gather(view[begin:begin + counts[rank]], inside, counts=counts)
    check("all_gather in place", inside, flat)


def scatters(comm, counts, letter):
    rank, size = comm.rank, comm.size
    whole = made(letter, [value(rank, 0, i) for i in range(sum(counts))])
    begin, n = starts_of(counts)[rank], counts[rank]
    for op, combine in (("sum", sum), ("max", max)):
        wanted = [combine(value(r, 0, begin + i) for r in range(size)) for i in range(n)]
        out = made(letter, [0] * n)
        assert comm.reduce_scatter(whole, out, op, counts=counts) is out
        check(f"reduce_scatter {op} with counts", out, wanted)
        parts = [whole[s:s + count] for s, count in zip(starts_of(counts), counts)]
        out = made(letter, [0] * n)
        comm.reduce_scatter(parts, out, op)
        check(f"reduce_scatter {op} of a list", out, wanted)


def exchanges(comm, matrix, letter):
    rank, size = comm.rank, comm.size
    sent, taken = matrix[rank], [matrix[r][rank] for r in range(size)]
    shares = [made(letter, [value(rank, s, i) for i in range(sent[s])]) for s in range(size)]
    wanted = [value(r, rank, i) for r in range(size) for i in range(taken[r])]
    whole = made(letter, [number for share in shares for number in share])
    out = made(letter, [0] * sum(taken))
    assert comm.all_to_all(whole, out, send_counts=sent, recv_counts=taken) is out
    check("all_to_all with counts", out, wanted)
    parts = [made(letter, [0] * count) for count in taken]
    assert comm.all_to_all(shares, parts) is parts
    check("all_to_all of lists", [number for part in parts for number in part], wanted)
    out = made(letter, [0] * sum(taken))
    with tutti.group():
        comm.all_to_all(shares, out, recv_counts=taken)
        comm.all_to_all(whole, parts, send_counts=sent)
    check("all_to_all of a list into an array", out, wanted)


def other_types(comm):
    """Elements that can only be moved, and those that an array cannot name."""
    n = comm.size
    counts = [r % 3 for r in range(n)]
    own = (ctypes.c_longdouble * counts[comm.rank])(*[comm.rank + i for i in range(counts[comm.rank])])
    out = (ctypes.c_longdouble * sum(counts))()
    comm.all_gather(own, out, counts=counts)
    check("all_gather of long doubles", out, [r + i for r in range(n) for i in range(counts[r])])
    raw = bytearray(2 * counts[comm.rank])
    gathered = bytearray(2 * sum(counts))
    comm.all_gather(raw, gathered, counts=counts, dtype="bfloat16")
    assert not any(gathered)


def everything(comm):
    chance = random.Random(comm.size)
    for letter in "hifdB":
        for pattern in PATTERNS:
            gathers(comm, counts_of(comm.size, pattern, chance), letter)
            scatters(comm, counts_of(comm.size, pattern, chance), letter if letter != "B" else "q")
            exchanges(comm, [counts_of(comm.size, pattern, chance) for _ in range(comm.size)], letter)
    other_types(comm)


def on_all_ranks():
    with tutti.init() as comm:
        everything(comm)


class Results(unittest.TestCase):
    def test_threads_as_ranks(self):
        for size in (1, 2, 3, 5):
            ranks.threads(size, everything)

    def test_processes_as_ranks(self):
        for transports in ("shm", "tcp"):
            ranks.succeed(self, 3, __file__, "on_all_ranks", TUTTI_TRANSPORTS=transports)

    def test_a_barrier_waits_for_all_ranks(self):
        came, lock = [], threading.Lock()

        def body(comm):
            for turn in range(5):
                if comm.rank == turn % comm.size:
                    time.sleep(0.02)
                with lock:
                    came.append(turn)
                assert comm.barrier() is None
                with lock:
                    assert came.count(turn) == comm.size
                handle = comm.barrier(async_=True)
                assert handle.wait() is None

        ranks.threads(3, body)

    def test_counts_that_differ_are_named(self):
        def body(comm):
            counts = [2, 1] if comm.rank else [1, 2]
            with self.assertRaises(tutti.TuttiUsageError) as caught:
                comm.all_gather(array.array("f", [1] * counts[comm.rank]), array.array("f", [0] * 3), counts=counts)
                comm.barrier()
            self.assertIn("AllGatherV #1 (counts of ", str(caught.exception))

        ranks.threads(2, body)


class Refusals(unittest.TestCase):
    def setUp(self):
        self.comm = tutti.init(id=tutti.unique_id(), rank=0, size=1)

    def tearDown(self):
        self.comm.close()

    def refused(self, words, call):
        with self.assertRaises(tutti.TuttiArgumentError) as caught:
            call()
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.comm.barrier()

    def test_wrong_counts_are_refused_by_name(self):
        comm, two = self.comm, array.array("f", [1, 2])
        other = array.array("f", [0, 0])
        self.refused(["counts has 2 numbers", "1 ranks"], lambda: comm.all_gather(two, other, counts=[1, 1]))
        self.refused(["counts[0] is -1"], lambda: comm.all_gather(two, other, counts=[-1]))
        self.refused(["out has 2 elements", "add up to 3"], lambda: comm.all_gather(two, other, counts=[3]))
        self.refused(["x has 8 bytes", "is 4"],
                     lambda: comm.all_gather(two, array.array("f", [0]), counts=[1]))
        self.refused(["list of 2 arrays"], lambda: comm.all_gather(two, [other, other]))
        self.refused(["counts are given as well"], lambda: comm.all_gather(two, [other], counts=[2]))
        self.refused(["int32", "float32"],
                     lambda: comm.reduce_scatter([array.array("i", [1, 2])], other))
        self.refused(["send_counts is None"], lambda: comm.all_to_all(two, other, recv_counts=[2]))
        self.refused(["out is None"], lambda: comm.all_to_all(two, send_counts=[2]))
        self.refused(["out has elements of int32, and x of float32"],
                     lambda: comm.all_to_all([two], [array.array("i", [1, 2])]))
        self.refused(["out is read-only"],
                     lambda: comm.all_gather(two, memoryview(other).toreadonly(), counts=[2]))


if __name__ == "__main__":
    unittest.main()
