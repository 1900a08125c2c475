# SPDX-License-Identifier: BSD-3-Clause
"""Sums of a fusion are those of all-reduces of its tensors, whatever the policy, options and order of pushes."""
import array
import json
import math
import os
import signal
import struct
import sys
import threading
import time
import unittest
import weakref

import ranks
import tutti
import tutti._fusion

SIZES = {"first": 3, "none": 0, "long": 5000, "last": 17}
POLICIES = (None, "single", "threshold:64K,1K", "p3")


def grads(comm, step):
    return {name: array.array("f", [comm.rank + step + i % 3 for i in range(count)]) for name, count in SIZES.items()}


def sums(size, step):
    return {name: [size * (size - 1) // 2 + size * (step + i % 3) for i in range(count)]
            for name, count in SIZES.items()}


def all_of_it():
    with tutti.init() as comm:
        for policy in POLICIES:
            steps(comm, policy)
        kinds(comm)
        options(comm)
        updates(comm)
        servers(comm)
        narrow_pushes(comm)
        exchanges(comm)
        threads(comm)


def steps(comm, policy):
    with tutti.Fusion(comm, grads(comm, 0), policy=policy) as fusion:
        for step in range(8):
            x = grads(comm, step)
            out = {name: array.array("f", [-1] * len(values)) for name, values in x.items()}
            order = list(x)[::-1] if (step + comm.rank) % 2 else list(x)
            for name in order:
                fusion.push(name, x[name], out[name] if step % 2 else None)
            results = out if step % 2 else x
            for name in x if step % 3 else ():
                fusion.wait(name)
                assert list(results[name]) == sums(comm.size, step)[name], (policy, step, name)
            fusion.wait()
            assert {name: list(values) for name, values in results.items()} == sums(comm.size, step), (policy, step)
            if step % 2:
                assert x == grads(comm, step)
        assert fusion.info().steps == 8
        assert len(json.loads(fusion.plan(json=True))) > 0 and "tensors" in fusion.plan()


def kinds(comm):
    """Each type of tensors, in one fusion."""
    all_kinds = [ranks.Numbers(name) for name in ranks.NUMBERS]
    with tutti.Fusion(comm, {kind.name: (9, kind.name) for kind in all_kinds}) as fusion:
        x = [kind.make([1 + (comm.rank + i) % 2 for i in range(9)]) for kind in all_kinds]
        for kind, values in zip(all_kinds, x):
            fusion.push(kind.name, values, dtype=kind.dtype)
        while not all([fusion.done(kind.name) for kind in all_kinds]):
            pass
        for kind, values in zip(all_kinds, x):
            wanted = [sum(1 + (r + i) % 2 for r in range(comm.size)) for i in range(9)]
            assert kind.read(values) == wanted, kind.name


def options(comm):
    with tutti.Fusion(comm, {"x": (4, "float32")}, op="avg", wire_type="float16", overflow=True, norms=True,
                      buffer_bytes=1 << 16) as fusion:
        x = array.array("f", [4 * (comm.rank % 2)] * 4)
        fusion.push("x", x)
        fusion.wait()
        if comm.size in (1, 2, 4):
            assert list(x) == [0 if comm.size == 1 else 2] * 4, x
            assert fusion.norm("x") == math.sqrt(4 * x[0] * x[0])
        assert fusion.overflow() is False
        fusion.scale(before=8, after=0.5)
        fusion.push("x", x)
        fusion.wait()
        if comm.size in (1, 2, 4):
            assert list(x) == [0 if comm.size == 1 else 8] * 4, x
        fusion.push("x", array.array("f", [20000] * 4))
        fusion.wait()
        assert fusion.overflow() is True


def updates(comm):
    """Owners update weights, by a rule and by a function; an exception of the function ends the fusion."""
    def halved(shard):
        assert shard.staleness == 0 and len(shard.gradient) == len(shard.planes[0]) == len(shard.planes[1])
        for i, g in enumerate(shard.gradient):
            shard.planes[1][i] = shard.planes[1][i] / 2 + g
            shard.planes[0][i] -= shard.rate * shard.planes[1][i]

    def failing(shard):
        raise KeyError(shard.tensor)

    count = 3000
    for update in ("momentum:0.5", halved, failing):
        with tutti.Fusion(comm, {"w": (count, "float32"), "b": (2, "float32")}, op="avg", update=update, planes=2,
                          rate=0.25, exempt=["b"]) as fusion:
            w = array.array("f", [i % 7 for i in range(count)])
            b = array.array("f", [8, 16])
            fusion.set_state("w", 0, w)
            fusion.set_state("b", 0, b)
            velocity, want = 0, list(w)
            for step, rate in enumerate((0.25, 0.25, 0.5)):
                fusion.rate(rate)
                velocity = velocity / 2 + 4
                want = [x - rate * velocity for x in want]
                fusion.push("w", array.array("f", [4] * count), w)
                fusion.push("b", array.array("f", [0, 0]), b)
                try:
                    fusion.wait()
                except tutti.TuttiError as why:
                    assert update is failing and isinstance(why.__cause__ or KeyError(), KeyError), why
                    break
                assert update is not failing and list(w) == want and list(b) == [8, 16], (step, w[:9], want[:9])
            else:
                masters = array.array("f", [0] * count)
                fusion.get_state("w", 0, masters)
                assert list(comm.all_reduce(masters)) == want
                assert fusion.info().state_step == fusion.info().updates == 3


def servers(comm):
    """Contributions that count when they come."""
    for quorum, staleness in ((comm.size, 0), (0, 1), (1, 2 * comm.size)):
        with tutti.Fusion(comm, {"w": (500, "float32")}, update="sgd", rate=1, quorum=quorum,
                          staleness=staleness) as fusion:
            w = array.array("f", [0] * 500)
            fusion.set_state("w", 0, w)
            for step in range(3):
                fusion.push("w", array.array("f", [0 if staleness else -1] * 500), w)
                fusion.wait()
                assert list(w) == [0 if staleness else (step + 1) * comm.size] * 500, (quorum, w[:9])
            info = fusion.info()
            assert info.dropped == 0 and info.stalest <= 2 * comm.size and info.updates >= 3, info


def narrow_pushes(comm):
    """Contributions to servers in 16 bits, and by a codec, which keeps the rest."""
    for kind, options in (("float16", {}), ("float32", {"wire_type": "bfloat16", "weights_type": "float16"}),
                          ("float32", {"codec": "drop:0.5", "codec_least": 1})):
        with tutti.Fusion(comm, {"w": (4, kind)}, update="sgd", rate=1, quorum=comm.size, **options) as fusion:
            fusion.set_state("w", 0, array.array("f", [0] * 4))
            w, g = array.array("f", [0] * 4), array.array("f", [-4, -2, 8, 1])
            if kind == "float16":  # no array has these
                w, g = bytearray(8), bytearray(struct.pack("<4e", -4, -2, 8, 1))
            for _ in range(2):
                fusion.push("w", g, w, dtype=kind)
                fusion.wait()
            found = list(struct.unpack("<4e", w) if kind == "float16" else w)
            want = [8, 0, -16, 0] if "codec" in options else [8, 4, -16, -2]
            assert found == [x * comm.size for x in want], (options, found)
            if "codec" in options:  # of two equal ones the first went
                fusion.get_state("w", 1, w)
                assert list(w) == [0, -4, 0, 2], w


def exchanges(comm):
    """Ranks exchange weights of their own: the sum of all stays."""
    for update in ("easgd:0.5", "gossip"):
        with tutti.Fusion(comm, {"w": (500, "float32")}, update=update) as fusion:
            w = array.array("f", [comm.rank] * 500)
            fusion.set_state("w", 0, w if update == "gossip" else array.array("f", [4] * 500))
            for _ in range(4):
                fusion.push("w", w)
                fusion.wait()
            comm.barrier()
            whole = array.array("f", [0] * 500)
            fusion.get_state("w", 0, whole)
            comm.barrier()
            if update != "gossip":
                whole = array.array("f", [a + b for a, b in zip(whole, w)])
            want = comm.size * (comm.size - 1) // 2 + (0 if update == "gossip" else 4)
            assert list(comm.all_reduce(whole)) == [want] * 500, (update, whole[:9])


def threads(comm):
    """Several threads push and wait."""
    with tutti.Fusion(comm, {str(i): (100, "int32") for i in range(8)}) as fusion:
        x = [array.array("i", [comm.rank + i] * 100) for i in range(8)]

        def work(part):
            for i in part:
                fusion.push(str(i), x[i])
            for i in part:
                fusion.wait(str(i))
        both = [threading.Thread(target=work, args=(part,)) for part in (range(0, 8, 2), range(1, 8, 2))]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        fusion.wait()
        for i in range(8):
            assert list(x[i]) == [comm.size * (comm.size - 1) // 2 + comm.size * i] * 100, i


class Mark(array.array):
    """An array that can be watched."""


def interrupted_beside_another_wait():
    """Rank 0 gets SIGINT while its main thread waits, and another one, which began later, as well."""
    comm, main = tutti.init(), threading.get_ident()

    def wait_too(fusion):
        while sys._current_frames()[main].f_code.co_name != "_call":
            time.sleep(0.01)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            fusion.wait("y")
        except tutti.TuttiRemoteError:
            print("the other wait ended")

    with tutti.Fusion(comm, {"x": (1, "float32"), "y": (1, "float32")}) as fusion:
        fusion.push("x", array.array("f", [1]))
        try:
            if comm.rank == 0:
                fusion.push("y", array.array("f", [1]))
                other = threading.Thread(target=wait_too, args=(fusion,))
                other.start()
            fusion.wait("x")
        except KeyboardInterrupt:
            print("interrupted")
            other.join()
        except tutti.TuttiRemoteError:
            print("told")


def trained_until(comm, end):
    """Rank 0 makes a step with servers and calls end(); the others go on until they are told."""
    fusion = tutti.Fusion(comm, {"w": (500, "float32")}, update="sgd", staleness=2)
    w = array.array("f", [0] * 500)
    fusion.set_state("w", 0, w)
    for _ in range(20000):
        try:
            fusion.push("w", array.array("f", [1] * 500), w)
            fusion.wait()
        except tutti.TuttiRemoteError:
            return
        if comm.rank == 0:
            end()
            return
    raise AssertionError("not told")


def ends_by_an_exception():
    def end():
        raise KeyError("the end of rank 0")
    trained_until(tutti.init(), end)


class Fusions(unittest.TestCase):
    def test_sums_are_exact(self):
        for size in (1, 2, 3):
            with self.subTest(size=size):
                ranks.succeed(self, size, __file__, "all_of_it")

    def test_tensors_that_differ_are_told_on_both_ranks(self):
        def body(comm):
            with self.assertRaisesRegex(tutti.TuttiUsageError, "rank 0.*rank 1|rank 1.*rank 0"):
                tutti.Fusion(comm, {"x": (1 + comm.rank, "float32")})
            self.assertEqual(comm.all_reduce(array.array("i", [1]))[0], 2)
        ranks.threads(2, body)

    def test_abort_ends_a_wait_in_another_thread(self):
        def body(comm):
            with tutti.Fusion(comm, {"x": (1, "float32"), "y": (1, "float32")}) as fusion:
                fusion.push("x", array.array("f", [1]))
                if comm.rank == 0:
                    fusion.push("y", array.array("f", [1]))
                    threading.Timer(0.05, fusion.abort).start()
                with self.assertRaises(tutti.TuttiRemoteError):
                    fusion.wait("x")
                    fusion.wait("y") if comm.rank == 0 else fusion.wait("x")
                    while comm.rank == 1:
                        fusion.done("x")
            self.assertEqual(comm.all_reduce(array.array("i", [1]))[0], 2)
        ranks.threads(2, body)

    def test_ctrl_c_ends_the_main_threads_wait_beside_that_of_another_thread(self):
        said = ranks.succeed(self, 2, __file__, "interrupted_beside_another_wait").stdout
        for words in ("[0] interrupted", "[0] the other wait ended", "[1] told"):
            self.assertIn(words, said)

    def test_close_frees_nothing_before_other_threads_have_left(self):
        ends, inside = [], []
        destroy = tutti._fusion.C["tuttiFusionDestroy"]

        def destroy_and_note(handle):
            ends.append(len(inside))
            return destroy(handle)

        def body(comm):
            fusion = tutti.Fusion(comm, {"x": (1, "float32"), "y": (1, "float32")})
            fusion.push("x", array.array("f", [1]))
            if comm.rank == 1:
                with self.assertRaises(tutti.TuttiError):
                    fusion.wait("x")
                return
            inside.append(0)
            aborts = ranks.once_inside("_call", comm.abort)
            with self.assertRaises(tutti.TuttiRemoteError):
                fusion.wait("x")
            inside.clear()
            aborts.join()
            with self.assertRaisesRegex(tutti.TuttiUsageError, "closed"):
                fusion.push("y", array.array("f", [1]))

        tutti._fusion.C["tuttiFusionDestroy"] = destroy_and_note
        try:
            ranks.threads(2, body)
        finally:
            tutti._fusion.C["tuttiFusionDestroy"] = destroy
        self.assertEqual(ends, [0, 0])

    def test_close_waits_for_a_thread_that_asks(self):
        asks, goes_on, ends = threading.Event(), threading.Event(), []
        functions = tutti._fusion.C
        kept = {name: functions[name] for name in ("tuttiFusionGetInfo", "tuttiFusionDestroy")}

        def ask(handle, info):
            asks.set()
            goes_on.wait()
            ends.append("answered")
            return kept["tuttiFusionGetInfo"](handle, info)

        def destroy(handle):
            ends.append("destroyed")
            return kept["tuttiFusionDestroy"](handle)

        with tutti.init(id=tutti.unique_id(), rank=0, size=1) as comm:
            fusion = tutti.Fusion(comm, {"x": (9, "float32")})
            functions.update(tuttiFusionGetInfo=ask, tuttiFusionDestroy=destroy)
            try:
                other = threading.Thread(target=fusion.info)
                other.start()
                asks.wait()
                threading.Timer(0.1, goes_on.set).start()
                fusion.close()
                other.join()
            finally:
                functions.update(kept)
        self.assertEqual(ends, ["answered", "destroyed"])

    def test_a_wait_for_all_lets_go_of_no_array_of_the_next_step(self):
        wait_all, pushed = tutti._fusion.C["tuttiFusionWaitAll"], [Mark("f", [1] * 9)]
        alive = weakref.ref(pushed[0])
        with tutti.init(id=tutti.unique_id(), rank=0, size=1) as comm:
            fusion = tutti.Fusion(comm, {"x": (9, "float32")})

            def wait_and_be_late(handle):
                code = wait_all(handle)
                other = threading.Thread(target=lambda: fusion.push("x", pushed.pop()))
                other.start()
                other.join()
                return code

            fusion.push("x", array.array("f", [1] * 9))
            tutti._fusion.C["tuttiFusionWaitAll"] = wait_and_be_late
            try:
                fusion.wait()
            finally:
                tutti._fusion.C["tuttiFusionWaitAll"] = wait_all
            self.assertIsNotNone(alive())
            fusion.wait()
            self.assertIsNone(alive())

    def test_an_abort_serves_nobody(self):
        ranks.threads(2, lambda comm: trained_until(comm, comm.abort))

    def test_who_ends_by_an_exception_serves_nobody(self):
        done = ranks.processes(2, __file__, "ends_by_an_exception")
        self.assertIn("KeyError: 'the end of rank 0'", done.stderr)
        self.assertNotIn("not told", done.stderr)

    def test_an_interrupted_push_keeps_what_the_library_has_got(self):
        taken_and_interrupted = 0
        with tutti.init(id=tutti.unique_id(), rank=0, size=1) as comm:
            fusion = tutti.Fusion(comm, {"x": (9, "float32")})
            for stop in range(1, 60):
                x = Mark("f", [1] * 9)
                alive = weakref.ref(x)
                was_stopped = ranks.interrupted_at(stop, ("push", "_call"), fusion.push, "x", x)
                del x
                is_alive = alive() is not None
                try:
                    fusion.wait("x")
                except tutti.TuttiUsageError:
                    continue  # it was not pushed
                self.assertTrue(is_alive, stop)
                self.assertIsNone(alive())
                taken_and_interrupted += was_stopped
                if not was_stopped:
                    break
        self.assertGreater(taken_and_interrupted, 0)


if __name__ == "__main__":
    unittest.main()
