# SPDX-License-Identifier: BSD-3-Clause
"""Calls that go on after they have returned, groups, splits and shrinks; Ctrl-C, and the death of a rank."""
import array
import asyncio
import copy
import gc
import os
import pickle
import signal
import threading
import time
import unittest
import weakref

import ranks
import tutti
import tutti._comm
import tutti._handles


def floats(*values):
    return array.array("f", values)


class Mark(array.array):
    """An array that can be watched."""


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


class Asynchronous(unittest.TestCase):
    def test_handles_end_one_by_one_in_the_order_of_the_calls(self):
        met = threading.Barrier(2)

        def body(comm):
            x, y = floats(1), floats(2)
            if comm.rank == 0:
                first, second = comm.all_reduce(x, async_=True), comm.all_reduce(y, async_=True)
                with self.assertRaises(TimeoutError):
                    first.wait(timeout=0.01)
                self.assertFalse(first.done())
                met.wait()
                self.assertIs(first.wait(timeout=400), x)
                self.assertEqual(x[0], 2)
                self.assertFalse(second.done())
                met.wait()
                self.assertIs(second.wait(), y)
                self.assertTrue(first.done() and second.done())
            else:
                met.wait()
                comm.all_reduce(x)
                met.wait()
                comm.all_reduce(y)
            self.assertEqual(y[0], 4)
        ranks.threads(2, body)

    def test_handles_can_be_awaited_while_the_loop_goes_on(self):
        async def work(comm, ticks):
            async def tick():
                while not ticks["over"]:
                    ticks["n"] += 1
                    await asyncio.sleep(0.001)
            ticker = asyncio.create_task(tick())
            if comm.rank == 1:
                await asyncio.sleep(0.03)
            handles = [comm.all_reduce(floats(comm.rank, i), async_=True) for i in range(5)]
            results = await asyncio.gather(*(wait_for(handle) for handle in handles))
            ticks["over"] = True
            await ticker
            return results

        async def wait_for(handle):
            return await handle

        def body(comm):
            ticks = {"n": 0, "over": False}
            results = asyncio.run(work(comm, ticks))
            self.assertEqual([list(r) for r in results], [[1, 2 * i] for i in range(5)])
            self.assertGreater(ticks["n"], 1)
        ranks.threads(2, body)

    def test_calls_that_wait_come_after_those_before_them(self):
        def body(comm):
            x = floats(1)
            handles = [comm.all_reduce(x, async_=True) for _ in range(3)]
            comm.all_reduce(x)
            self.assertTrue(all(handle.done() for handle in handles))
            self.assertEqual(x[0], 16)
        ranks.threads(2, body)

    def test_arrays_live_until_the_operation_is_done_although_nobody_holds_them(self):
        met = threading.Barrier(2)

        def body(comm):
            if comm.rank == 0:
                x = Mark("f", [5] * 1000)
                watched = weakref.ref(x)
                handle = comm.send(x, 1, async_=True)
                del x
                gc.collect()
                self.assertIsNotNone(watched())
                met.wait()
                handle.wait()
                self.assertIsNone(watched())
            else:
                met.wait()
                self.assertEqual(set(comm.recv(floats(*[0] * 1000), 0)), {5})
        ranks.threads(2, body)

    def test_every_collective_has_handles(self):
        def body(comm):
            r = comm.rank
            x, two = floats(r + 1), floats(r + 1, r + 1)
            self.assertEqual(list(comm.broadcast(floats(r), 1, async_=True).wait()), [1])
            self.assertEqual(list(comm.all_gather(x, floats(0, 0), async_=True).wait()), [1, 2])
            self.assertEqual(list(comm.reduce_scatter(two, floats(0), async_=True).wait()), [3])
            self.assertEqual(list(comm.all_to_all(two, floats(0, 0), async_=True).wait()), [1, 2])
            self.assertEqual(comm.gather(x, floats(0, 0), async_=True).wait(), floats(1, 2) if r == 0 else None)
            self.assertEqual(list(comm.scatter(two, floats(0), async_=True).wait()), [1])
            self.assertEqual(comm.reduce(x, 1, async_=True).wait(), floats(3) if r == 1 else None)
            if r == 0:
                self.assertIsNone(comm.send(two, 1, async_=True).wait())
            else:
                self.assertEqual(list(comm.recv(floats(0, 0), 0, async_=True).wait()), [1, 1])
        ranks.threads(2, body)

    def test_a_refused_call_leaves_no_handle_behind(self):
        def body(comm):
            x = memoryview(floats(1, 2, 3))
            for _ in range(3):
                with self.assertRaisesRegex(tutti.TuttiArgumentError, "overlaps"):
                    comm.all_reduce(x[:2], out=x[1:], async_=True)
            with self.assertRaisesRegex(tutti.TuttiArgumentError, "overlaps"), tutti.group():
                comm.all_reduce(x[:2], out=x[1:], async_=True)
            handle = comm.all_reduce(floats(1), async_=True)
            self.assertEqual(list(handle.wait()), [2])
        ranks.threads(2, body)

    def test_an_interrupted_end_gives_no_stream_twice(self):
        interrupts = 0
        with tutti.init(id=tutti.unique_id(), rank=0, size=1) as comm:
            for stop in range(1, 60):
                handle = comm.all_reduce(floats(1), async_=True)
                while tutti._handles._query(handle._stream):
                    time.sleep(0.001)
                was_stopped = ranks.interrupted_at(stop, ("_end", "give_stream"), handle.done)
                self.assertNotIn(handle._stream, tutti._handles._idle, stop)
                self.assertTrue(handle.done())
                self.assertEqual(len(tutti._handles._idle), len(set(tutti._handles._idle)))
                interrupts += was_stopped
                if not was_stopped:
                    break
        self.assertGreater(interrupts, 3)

    def test_an_error_is_raised_by_the_handle(self):
        def body(comm):
            handle = comm.all_reduce(floats(*range(comm.rank + 1)), async_=True)
            with self.assertRaisesRegex(tutti.TuttiUsageError, "count 1.*count 2|count 2.*count 1"):
                handle.wait()
            with self.assertRaises(tutti.TuttiUsageError):
                handle.wait()
            self.assertTrue(handle.done())
        ranks.threads(2, body)


class Groups(unittest.TestCase):
    def test_messages_of_a_group_cross(self):
        def body(comm):
            out = [floats(0) for _ in range(3)]
            with tutti.group(), tutti.group():
                for peer in range(3):
                    comm.send(floats(10 * comm.rank + peer), peer)  # nobody else holds it
                    comm.recv(out[peer], peer)
                self.assertEqual(out[0][0], 0)
            self.assertEqual([x[0] for x in out], [comm.rank, 10 + comm.rank, 20 + comm.rank])
        ranks.threads(3, body)

    def test_handles_of_a_group_start_at_its_end(self):
        def body(comm):
            x, y = floats(1), floats(2)
            with tutti.group():
                handle = comm.all_reduce(x, async_=True)
                comm.all_reduce(y)
                self.assertFalse(handle.done())
            self.assertEqual(list(handle.wait()) + list(y), [2, 4])
        ranks.threads(2, body)

    def test_a_group_that_is_interrupted_when_it_begins_leaves_none_open(self):
        interrupts = 0
        with tutti.init(id=tutti.unique_id(), rank=0, size=1) as comm:
            for stop in range(1, 60):
                group = tutti.group()
                if not ranks.interrupted_at(stop, ("__enter__", "check"), group.__enter__):
                    group.__exit__(None, None, None)
                    break
                self.assertEqual(list(comm.all_reduce(floats(1), out=floats(0))), [1], stop)
                interrupts += 1
        self.assertGreater(interrupts, 3)

    def test_a_group_ends_whatever_the_text_of_the_exception_is(self):
        def body(comm):
            with self.assertRaises(ValueError), tutti.group():
                raise ValueError("\udc80")
            self.assertEqual(list(comm.all_reduce(floats(1))), [2])
        ranks.threads(2, body)


class Communicators(unittest.TestCase):
    def test_split_makes_one_for_each_color_in_the_order_of_the_keys(self):
        def body(comm):
            part = comm.split(comm.rank % 2, key=-comm.rank)
            self.assertEqual((part.size, part.rank), (2, 1 - comm.rank // 2))
            self.assertEqual(list(part.all_gather(floats(comm.rank), floats(0, 0))),
                             [2 + comm.rank % 2, comm.rank % 2])
            alone = comm.split(0 if comm.rank == 3 else None, name="alone")
            self.assertEqual(alone is None, comm.rank != 3)
            self.assertEqual(list(comm.all_reduce(floats(1))), [4])
            self.assertEqual(list(part.all_reduce(floats(1))), [2])
        ranks.threads(4, body)

    def test_shrink_leaves_out_whom_it_is_told(self):
        def body(comm):
            if comm.rank != 1:
                small = comm.shrink([1])
                self.assertEqual((small.size, small.rank), (2, comm.rank // 2))
                self.assertEqual(list(small.all_reduce(floats(comm.rank))), [2])
        ranks.threads(3, body)

    def test_grow_takes_in_a_new_rank_behind_the_others(self):
        unique = tutti.unique_id()

        def body(comm):
            if comm.rank == 2:  # goes, and comes again
                comm.close()
                with tutti.init(id=unique, rank=2, size=3) as again:
                    self.assertEqual(list(again.all_gather(floats(2), floats(0, 0, 0))), [0, 1, 2])
                return
            small = comm.shrink([2])
            with small.grow(3, unique if comm.rank == 1 else None, name="grown") as grown:
                self.assertEqual((grown.size, grown.rank), (3, comm.rank))
                self.assertEqual(list(grown.all_gather(floats(comm.rank), floats(0, 0, 0))), [0, 1, 2])
            self.assertEqual(list(small.all_reduce(floats(1))), [2])
            with self.assertRaisesRegex(tutti.TuttiUsageError, "gave the id NULL"):
                small.grow(3)
        ranks.threads(3, body)

    def test_a_fusion_goes_on_over_another_communicator(self):
        def body(comm):
            tensors, w = {"w": (4, "float32")}, floats(1, 2, 3, 4)
            fusion = tutti.Fusion(comm, tensors, update="momentum:0.5", rate=1)
            fusion.set_state("w", 0, w)
            fusion.push("w", floats(1, 1, 1, 1), w)
            fusion.wait()
            self.assertEqual(list(w), [-2, -1, 0, 1])
            with comm.split(0, -comm.rank) as turned:  # all owners change
                fusion.move(turned)
                self.assertEqual(fusion.info().steps, 1)
                comm.close()  # and the fusions that it has
                fusion.push("w", floats(1, 1, 1, 1), w)
                fusion.wait()
                self.assertEqual(list(w), [-6.5, -5.5, -4.5, -3.5])
        ranks.threads(3, body)

    def test_revoke_ends_a_call_on_the_other_rank_and_shrink_goes_on(self):
        def body(comm):
            if comm.rank == 0:
                ranks.once_inside("_call", comm.revoke)
            with self.assertRaisesRegex(tutti.TuttiUsageError, "rank 0.*has revoked"):
                comm.recv(floats(0), 1 - comm.rank)
            comm.revoke()
            with comm.shrink() as again:
                self.assertEqual(list(again.all_reduce(floats(1))), [2])
        ranks.threads(2, body)

    def test_abort_ends_a_call_in_another_thread(self):
        def body(comm):
            if comm.rank == 0:
                ranks.once_inside("_call", comm.abort)
            with self.assertRaises(tutti.TuttiRemoteError):
                comm.recv(floats(0), 1 - comm.rank)
        ranks.threads(2, body)

    def test_a_block_that_is_left_by_an_exception_aborts(self):
        def body(comm):
            if comm.rank == 0:
                with self.assertRaises(KeyError), comm:
                    raise KeyError
                self.assertIn("closed", repr(comm))
            else:
                with self.assertRaisesRegex(tutti.TuttiRemoteError, "rank 0"):
                    comm.all_reduce(floats(1))
        ranks.threads(2, body)

    def test_what_stands_for_the_library_s_objects_is_neither_copied_nor_pickled(self):
        def body(comm):
            tensors = {"x": (1, "float32")}
            held = [comm, comm.scaled_sum(2.0), comm.all_reduce(floats(1), async_=True), tutti.group(),
                    tutti.Fusion(comm, tensors)]
            for thing in held:
                for twice in (copy.copy, copy.deepcopy, pickle.dumps):
                    with self.assertRaisesRegex(TypeError, f"{type(thing).__name__} of tutti"):
                        twice(thing)
        ranks.threads(1, body)

    def test_a_dropped_communicator_ends_its_operations_first(self):
        comm = tutti.init(id=tutti.unique_id(), rank=0, size=1)
        watched = weakref.ref(comm)
        x = Mark("f", [1])
        kept = weakref.ref(x)
        comm.all_reduce(x, async_=True)
        del comm, x
        gc.collect()
        self.assertEqual((watched(), kept()), (None, None))

    def test_an_operation_that_another_thread_drops_is_ended_by_the_communicators_own(self):
        destroy, threads = tutti._comm.C["tuttiRedOpDestroy"], []

        def destroy_and_note(*arguments):
            threads.append(threading.get_ident())
            return destroy(*arguments)

        with tutti.init(id=tutti.unique_id(), rank=0, size=1) as comm:
            tutti._comm.C["tuttiRedOpDestroy"] = destroy_and_note
            try:
                ops = [comm.scaled_sum(2)]
                first = ops[0].value
                dropper = threading.Thread(target=ops.clear)
                dropper.start()
                dropper.join()
                again = comm.scaled_sum(3)
            finally:
                tutti._comm.C["tuttiRedOpDestroy"] = destroy
            self.assertEqual((threads, again.value), ([threading.get_ident()], first))
            self.assertEqual(list(comm.all_reduce(floats(1), again)), [3])

    def test_other_threads_run_python_while_a_call_waits(self):
        turns = []

        def body(comm):
            if comm.rank == 1:
                for _ in range(20):
                    turns.append(time.sleep(0.001))
            comm.all_reduce(floats(1))
            self.assertEqual(len(turns), 20)
        ranks.threads(2, body)


# ---- in processes ----

def interrupted():
    """Each rank receives from the other, and rank 0 gets SIGINT."""
    comm = tutti.init()
    if comm.rank == 0:
        ranks.once_inside("_call", ctrl_c)
        try:
            comm.recv(floats(0), 1)
        except KeyboardInterrupt:
            print("interrupted")
        comm.revoke()
    else:
        try:
            comm.recv(floats(0), 0)
        except tutti.TuttiUsageError as why:
            print("told:", why)
        comm.revoke()
    again = comm.shrink()
    print("sum", again.all_reduce(floats(1))[0])
    comm.close()


def interrupted_elsewhere():
    """Ctrl-C in a wait of a handle, a group, a fusion, a split and a start-up; a handler of the program's own."""
    comm = tutti.init()
    if comm.rank == 0:
        peer(comm)
    else:
        for name, (function, wait) in WAITS.items():
            part = comm.split(0)
            ranks.once_inside(function, ctrl_c)
            try:
                wait(part)
            except KeyboardInterrupt:
                print("interrupted", name)
            comm.all_reduce(floats(1))
        ranks.once_inside("_join", ctrl_c)
        try:
            tutti.init(id=tutti.unique_id(), rank=0, size=2)
        except KeyboardInterrupt:
            print("interrupted init")
        seen, side = [], comm.split(0)
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        ranks.once_inside("_call", ctrl_c, lambda: time.sleep(0.3), lambda: side.send(floats(1), 0))
        comm.all_reduce(floats(1))
        print("own handler", seen)


def interrupted_in_launch():
    """Ctrl-C while the name of rank 0's host is waited for, which never comes."""
    for begin in (tutti.init, tutti.unique_id):
        ranks.once_inside("aside", ctrl_c)
        try:
            begin()
        except KeyboardInterrupt:
            print("interrupted", begin.__name__)


def wait_for_handle(comm):
    handle = comm.all_reduce(floats(1), async_=True)
    try:
        handle.wait()
    finally:
        assert not handle.done()
        comm.abort()


def wait_for_group(comm):
    with tutti.group():
        comm.recv(floats(0), 0)


def wait_for_fusion(comm):
    with tutti.Fusion(comm, {"x": (1, "float32")}) as fusion:
        fusion.push("x", floats(1))
        fusion.wait()


def wait_for_split(comm):
    comm.split(None)


def wait_for_creation(comm):
    tutti.Fusion(comm, {"x": (1, "float32")})


WAITS = {"creation": ("_watched", wait_for_creation), "handle": ("wait", wait_for_handle),
         "group": ("__exit__", wait_for_group), "fusion": ("_call", wait_for_fusion),
         "split": ("_watched", wait_for_split)}  # the function in which each waits


def peer(comm):
    """The rank that is waited for."""
    for name in WAITS:
        part = comm.split(0)
        fusion = tutti.Fusion(part, {"x": (1, "float32")}) if name == "fusion" else None
        comm.all_reduce(floats(1))
        assert fusion is None or fusion.close() is None
    comm.split(0).recv(floats(0), 1)
    comm.all_reduce(floats(1))


def killed():
    """Rank 1 is killed; the others learn who, and go on."""
    comm = tutti.init()
    comm.all_reduce(floats(1))
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.all_reduce(floats(1))
        comm.all_reduce(floats(1))
    except tutti.TuttiRemoteError as why:
        assert "rank 1" in str(why), why
    assert comm.failed() == [1]
    small = comm.shrink(comm.failed(), abort=True)
    print("sum", small.all_reduce(floats(1))[0])


def killed_at_level_1():
    """Rank 0 is killed: the same communicator goes on with other ranks; then Ctrl-C ends a call of rank 2."""
    comm = tutti.init(fault_level=1)
    comm.all_reduce(floats(1))
    first = comm.rank
    if first == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.all_reduce(floats(1))
    except tutti.TuttiRemoteError as why:
        assert "rank 0" in str(why), why
    assert (comm.rank, comm.size, comm.failed()) == (first - 1, 2, [0])
    own = floats(1) if comm.rank else floats(5)
    print("got", comm.broadcast(own, root=0)[0])
    if first == 2:
        ranks.once_inside("_call", ctrl_c)
        try:
            comm.all_reduce(floats(1))
        except KeyboardInterrupt:
            print("interrupted")
        comm.close()
        return
    time.sleep(2)
    try:
        comm.all_reduce(floats(1))
        comm.all_reduce(floats(1))
    except tutti.TuttiRemoteError:
        print("left", comm.size)


def left_pending():
    """The process ends while an operation is under way, whose handle is never collected."""
    comm = tutti.init()
    x = tutti.empty(1 << 20, "float32")
    if comm.rank == 0:
        handle = comm.recv(x, 1, async_=True)
        threading.Thread(target=lambda: (time.sleep(1000), handle), daemon=True).start()
        raise SystemExit(0)
    try:
        comm.recv(x, 0)
    except tutti.TuttiRemoteError as why:
        print("told:", why)


def forked():
    """A child of a rank cannot use its communicator, and its end does not touch that."""
    comm = tutti.init()
    child = os.fork()
    if child == 0:
        try:
            comm.all_reduce(floats(1))
        except tutti.TuttiUsageError as why:
            print("child:", why, flush=True)  # _exit writes nothing
        raise SystemExit(3)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 3
    print("sum", comm.all_reduce(floats(1))[0])


def forked_while_another_thread_asks():
    """Another thread holds the lock of handles when the process forks: a child's handles do not wait for it."""
    comm = tutti.init()
    handle = comm.all_reduce(floats(1), async_=True)
    handle.wait()
    again = comm.all_reduce(floats(1), async_=True)
    held, over = threading.Event(), threading.Event()

    def hold():
        with tutti._handles._LOCK:
            held.set()
            over.wait()
    threading.Thread(target=hold).start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            again.wait()
        except tutti.TuttiUsageError as why:
            print("child:", why, flush=True)  # _exit writes nothing
        os._exit(3)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 3
    over.set()
    print("sum", again.wait()[0])


class Signals(unittest.TestCase):
    def test_ctrl_c_ends_a_call_and_the_other_rank_is_told(self):
        said = ranks.succeed(self, 2, __file__, "interrupted").stdout
        self.assertIn("[0] interrupted", said)
        self.assertRegex(said, r"\[1\] told: rank 0 .*has revoked")
        self.assertEqual(said.count("sum 2.0"), 2)

    def test_ctrl_c_ends_each_kind_of_wait_and_no_handler_of_the_program(self):
        said = ranks.succeed(self, 2, __file__, "interrupted_elsewhere").stdout
        for name in [*WAITS, "init"]:
            self.assertIn(f"[1] interrupted {name}", said)
        self.assertIn("[1] own handler [1]", said)

    def test_ctrl_c_ends_the_wait_for_the_name_of_rank_0s_host(self):
        done = ranks.alone(__file__, "interrupted_in_launch", 100, TUTTI_COMM_ID="nobody.invalid:29500", RANK="1",
                           WORLD_SIZE="2")
        self.assertEqual(done.stdout.split(), ["interrupted", "init", "interrupted", "unique_id"], done.stderr)


class Deaths(unittest.TestCase):
    def test_a_killed_rank_raises_in_the_others_which_go_on_without_it(self):
        done = ranks.processes(3, __file__, "killed", "--keep-going")
        self.assertEqual(done.stdout.count("sum 2.0"), 2, done.stdout + done.stderr)

    def test_at_fault_level_1_rank_and_size_follow_and_ctrl_c_ends_a_call(self):
        done = ranks.processes(3, __file__, "killed_at_level_1", "--keep-going")
        said = done.stdout + done.stderr
        self.assertEqual((said.count("got 5.0"), said.count("interrupted"), said.count("left 1")), (2, 1, 1), said)

    def test_a_process_may_end_with_an_operation_under_way(self):
        said = ranks.succeed(self, 2, __file__, "left_pending").stdout
        self.assertRegex(said, r"\[1\] told: rank 0 .*left .*aborted")

    def test_a_child_of_a_rank_is_no_rank(self):
        said = ranks.succeed(self, 2, __file__, "forked").stdout
        self.assertEqual((said.count("child: this communicator is closed"), said.count("sum 2.0")), (2, 2))

    def test_handles_of_a_child_do_not_wait_for_the_parents_threads(self):
        said = ranks.succeed(self, 1, __file__, "forked_while_another_thread_asks").stdout
        self.assertRegex(said, "child: .*forked child")
        self.assertIn("sum 1.0", said)


if __name__ == "__main__":
    unittest.main()
