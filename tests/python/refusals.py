# SPDX-License-Identifier: BSD-3-Clause
"""A wrong call raises an exception whose sentence has argument, value and remedy, and nothing is sent."""
import array
import ctypes
import time
import unittest

import ranks
import tutti


def floats(*values):
    return array.array("f", values)


class OfOneRank(unittest.TestCase):
    """Without a launcher a process is a job of one rank."""

    @classmethod
    def setUpClass(cls):
        cls.comm = tutti.init(id=tutti.unique_id(), rank=0, size=1)

    @classmethod
    def tearDownClass(cls):
        cls.comm.close()

    def refused(self, words, call, kind=tutti.TuttiArgumentError):
        """The call raises `kind` with these words, and the next call works."""
        with self.assertRaises(kind) as caught:
            call()
        for word in [words] if isinstance(words, str) else words:
            self.assertIn(word, str(caught.exception))
        self.assertEqual(list(self.comm.all_reduce(floats(1, 2))), [1, 2])

    def test_what_is_no_array_is_refused(self):
        for x in ([1.0, 2.0], 3, "text", None):
            self.refused(["x is of type", type(x).__name__, "numpy array"], lambda: self.comm.all_reduce(x))

    def test_types_that_cannot_be_combined_are_refused_by_name(self):
        self.refused(["x has elements of format '<g'", "cannot be combined", "float32"],
                     lambda: self.comm.all_reduce((ctypes.c_longdouble * 2)()))

    def test_objects_cannot_even_be_moved(self):
        self.refused(["elements of object", "cannot be sent"],
                     lambda: self.comm.broadcast((ctypes.py_object * 2)()))

    def test_other_orders_of_bytes_are_refused(self):
        swapped = (ctypes.c_float.__ctype_be__ * 2)()
        self.refused(["byte-swapped float32"], lambda: self.comm.all_reduce(swapped))
        self.refused(["byte-swapped float32", "dtype is float32", "leave dtype out"],
                     lambda: self.comm.all_reduce(swapped, dtype="float32"))

    def test_arrays_with_gaps_are_refused(self):
        self.refused(["x is not contiguous", "ascontiguousarray(x)"],
                     lambda: self.comm.all_reduce(memoryview(floats(1, 2, 3, 4))[::2]))
        self.refused(["out is not contiguous", "(out)"],
                     lambda: self.comm.all_reduce(floats(1, 2), out=memoryview(floats(1, 2, 3, 4))[::2]))

    def test_results_cannot_be_written_to_what_is_read_only(self):
        x = memoryview(floats(1, 2)).toreadonly()
        for call in (self.comm.all_reduce, lambda x: self.comm.recv(x, 0),
                     lambda x: self.comm.all_to_all(x)):
            self.refused(["x is read-only", "out="], lambda: call(x))
        self.refused("out is read-only", lambda: self.comm.all_gather(floats(1, 2), x))
        out = floats(0, 0)
        self.assertEqual(list(self.comm.all_reduce(x, out=out)), [1, 2])
        self.assertEqual(list(self.comm.all_reduce(b"\1\2", out=bytearray(2))), [1, 2])

    def test_arrays_of_unlike_lengths_and_types_are_refused(self):
        self.refused(["out has 3 elements", "x has 2", "must have 2"],
                     lambda: self.comm.all_reduce(floats(1, 2), out=floats(1, 2, 3)))
        self.refused(["out has elements of float64", "float32", "one type"],
                     lambda: self.comm.all_reduce(floats(1, 2), out=array.array("d", [1, 2])))
        self.refused(["out has 3 elements", "must have 2"], lambda: self.comm.all_gather(floats(1, 2), floats(1, 2, 3)))

    def test_overlap_is_refused_by_the_library(self):
        x = memoryview(floats(1, 2, 3))
        self.refused(["overlaps", "separate buffers"], lambda: self.comm.all_reduce(x[:2], out=x[1:]))

    def test_unknown_operations_types_and_ranks_are_refused(self):
        x = floats(1, 2)
        for op in ("mean", None, ["sum"], 0):
            self.refused([f"op is {op!r}", "sum, prod, max, min, avg"], lambda: self.comm.all_reduce(x, op))
        self.refused(["dtype is 'float128'", "bfloat16"], lambda: self.comm.all_reduce(x, dtype="float128"))
        self.refused(["x has 2 elements of 4 bytes", "float64 has 8 bytes"],
                     lambda: self.comm.all_reduce(x, dtype="float64"))
        for root in (-1, 1, None, "0", 0.5):
            self.refused([f"root is {root!r}", "from 0 to size - 1 = 0"], lambda: self.comm.broadcast(x, root))
            self.refused(f"root is {root!r}", lambda: self.comm.gather(x, x, root))
        self.refused("peer is 7", lambda: self.comm.send(x, 7))
        self.refused("out is None on the root", lambda: self.comm.gather(x))

    def test_options_are_refused_by_name(self):
        x = floats(1, 2)
        self.refused("there is no option colour", lambda: self.comm.split(0, colour=1))
        self.refused("timeout_ms is '1 s'", lambda: self.comm.split(0, timeout_ms="1 s"))
        self.refused("timeout_ms is -5", lambda: self.comm.split(0, timeout_ms=-5))
        self.refused("timeout_ms is 4294967297", lambda: self.comm.split(0, timeout_ms=2**32 + 1))
        self.refused("init_timeout_ms is 0", lambda: self.comm.split(0, init_timeout_ms=0))
        self.refused("name is 3", lambda: self.comm.split(0, name=3))
        self.refused("scale_before is 'a'", lambda: self.comm.all_reduce_with(x, scale_before="a"))
        self.refused("color is 4294967296", lambda: self.comm.split(2**32))
        self.refused("key is 'a'", lambda: self.comm.split(0, "a"))
        self.refused("wire_type is 'half'", lambda: self.comm.all_reduce_with(x, wire_type="half"))
        self.refused("scale_after", lambda: self.comm.all_reduce_with(x, scale_after=0))
        self.refused("one int32", lambda: self.comm.all_reduce_with(x, overflow=floats(1)))
        self.refused("color is -2", lambda: self.comm.split(-2))
        self.refused("a rank in exclude is 'a'", lambda: self.comm.shrink(["a"]))
        self.refused("a rank in exclude is 5", lambda: self.comm.shrink([5]))
        self.refused("nexclude is 1", lambda: self.comm.shrink([0]))
        self.refused("size is 'a'", lambda: self.comm.grow("a"))
        self.refused("nranks is 1", lambda: self.comm.grow(1, tutti.unique_id()))
        self.refused("id is b'short'", lambda: self.comm.grow(2, b"short"))

    def test_operations_with_a_scalar_are_of_their_type_and_number(self):
        op = self.comm.scaled_sum(2, "float32")
        self.refused(["was made for float", "double"], lambda: self.comm.all_reduce(array.array("d", [1]), op))
        self.refused("factor is 0.5, which is no int32", lambda: self.comm.scaled_sum(0.5, "int32"))
        self.refused("pass an array of one element", lambda: self.comm.scaled_sum(0.5, "bfloat16"))
        self.refused("factor has not one element", lambda: self.comm.scaled_sum(floats(1, 2)))

    def test_wrong_ids_and_ranks_are_refused(self):
        self.refused("it must be the 128 bytes", lambda: tutti.init(id=b"short", rank=0, size=1))
        self.refused("size is None", lambda: tutti.init(id=bytes(128), rank=0))
        self.refused("give all three", lambda: tutti.init(rank=0, size=1))
        self.refused("rank is 3", lambda: tutti.init(id=tutti.unique_id(), rank=3, size=1))
        self.refused("id", lambda: tutti.init(id=bytes(128), rank=0, size=1))

    def test_shapes_of_new_memory_are_refused(self):
        for shape in (-1, (2, -3), 1.5, "ab", None):
            self.refused([f"shape is {shape!r}", "none below 0"], lambda: tutti.empty(shape))
        self.refused("dtype is 'int24'", lambda: tutti.empty(3, "int24"))
        self.refused("more bytes than memory", lambda: tutti.empty(1 << 62, "float64"))
        self.refused("Cannot allocate memory", lambda: tutti.empty(1 << 50), tutti.TuttiSystemError)

    def test_a_refusal_inside_a_group_refuses_the_group(self):
        x = floats(1, 2)

        def caught_inside():
            with tutti.group():
                self.comm.all_reduce(x, out=x)
                with self.assertRaises(tutti.TuttiArgumentError):
                    self.comm.all_reduce([1])
        self.refused("x is of type list", caught_inside)

        def left():
            with tutti.group():
                handle = self.comm.all_reduce(x, async_=True)
                left.handle = handle
                raise KeyError("mine")
        with self.assertRaises(KeyError):
            left()
        with self.assertRaisesRegex(tutti.TuttiUsageError, "the group was left by KeyError: 'mine'"):
            left.handle.wait()
        self.refused("leave the group first", self.waits_inside, tutti.TuttiUsageError)
        self.refused("cannot be made inside a group", self.splits_inside, tutti.TuttiUsageError)

    def waits_inside(self):
        with tutti.group():
            self.comm.all_reduce(floats(1), async_=True).wait()

    def splits_inside(self):
        with tutti.group():
            self.comm.split(0)

    def test_a_closed_communicator_says_so(self):
        comm = self.comm.split(0)
        comm.close()
        comm.close()
        self.assertIn("closed", repr(comm))
        for call in (lambda: comm.all_reduce(floats(1)), lambda: comm.all_reduce(floats(1), async_=True),
                     lambda: comm.split(0), comm.failed, lambda: comm.scaled_sum(1)):
            self.refused("closed", call, tutti.TuttiUsageError)

    def test_a_fusion_refuses(self):
        grads = {"a": floats(1, 2), "b": (3, "float64")}
        self.refused("comm is of type int", lambda: tutti.Fusion(3, grads))
        self.refused("tensors is", lambda: tutti.Fusion(self.comm, {}))
        self.refused("elements of tensor b is -3", lambda: tutti.Fusion(self.comm, {"b": (-3, "float32")}))
        self.refused("type of tensor b is 'int24'", lambda: tutti.Fusion(self.comm, {"b": (3, "int24")}))
        self.refused("op is 'max'", lambda: tutti.Fusion(self.comm, grads, op="max"))
        self.refused("policy", lambda: tutti.Fusion(self.comm, grads, policy="best"))
        self.refused("policy is 3", lambda: tutti.Fusion(self.comm, grads, policy=3))
        self.refused("buffer_bytes is -1", lambda: tutti.Fusion(self.comm, grads, buffer_bytes=-1))
        self.refused("adam", lambda: tutti.Fusion(self.comm, {"a": (2, "float32")}, update="adam"))
        self.refused("planes is 4", lambda: tutti.Fusion(self.comm, {"a": (2, "float32")}, update=print, planes=4))
        self.refused("no tensor 'c'", lambda: tutti.Fusion(self.comm, {"a": (2, "float32")}, update="sgd", exempt="c"))
        self.refused("quorum is -1", lambda: tutti.Fusion(self.comm, {"a": (2, "float32")}, update="sgd", quorum=-1))
        self.refused("staleness is 1: update \"easgd\"",
                     lambda: tutti.Fusion(self.comm, {"a": (2, "float32")}, update="easgd", staleness=1))
        with tutti.Fusion(self.comm, {"a": (2, "float32")}, update="sgd") as fusion:
            self.refused("comm is of type int", lambda: fusion.move(3))
            self.refused("planes are float32", lambda: fusion.set_state("a", 0, array.array("d", [1, 2])))
            self.refused("no weights", lambda: fusion.push("a", floats(1, 2)), tutti.TuttiUsageError)
        with tutti.Fusion(self.comm, grads) as fusion:
            self.refused(["no tensor 'c'", "a, b"], lambda: fusion.push("c", floats(1)))
            self.refused("count", lambda: fusion.push("a", floats(1)))
            self.refused("out has 1 elements", lambda: fusion.push("a", floats(1, 2), floats(1)))
            self.refused("not pushed", lambda: fusion.wait("a"), tutti.TuttiUsageError)
            fusion.push("a", floats(1, 2))
            self.refused("pushed already", lambda: fusion.push("a", floats(1, 2)), tutti.TuttiUsageError)
            self.refused("tensor 1 (b) was not pushed", fusion.wait, tutti.TuttiUsageError)
            self.refused("overflow", fusion.overflow, tutti.TuttiUsageError)
        self.refused("this fusion is closed", lambda: fusion.wait(), tutti.TuttiUsageError)


class BetweenRanks(unittest.TestCase):
    def test_calls_that_differ_are_told_on_both(self):
        def body(comm):
            with self.assertRaisesRegex(tutti.TuttiUsageError, "rank 0.*rank 1|rank 1.*rank 0"):
                comm.all_reduce(floats(*range(comm.rank + 1)))
        ranks.threads(2, body)

    def test_shares_that_do_not_go_round_are_refused(self):
        def body(comm):
            with self.assertRaisesRegex(tutti.TuttiArgumentError, "x has 3 elements.*no multiple of the 2 ranks"):
                comm.reduce_scatter(floats(1, 2, 3), floats(1))
            with self.assertRaisesRegex(tutti.TuttiArgumentError, "out has 4 elements, and x has 1: out must have 2"):
                comm.all_gather(floats(1), floats(1, 2, 3, 4))
            self.assertEqual(list(comm.all_reduce(floats(1))), [2])
        ranks.threads(2, body)

    def test_a_late_rank_is_an_error_after_the_timeout(self):
        told = []

        def body(comm):
            if comm.rank == 0:
                with self.assertRaisesRegex(tutti.TuttiRemoteError, "rank 1"):
                    comm.all_reduce(floats(1))
                self.assertEqual(comm.failed(), [1])
                told.append(True)
            else:
                while not told:
                    time.sleep(0.01)
        ranks.threads(2, body, timeout_ms=100)


if __name__ == "__main__":
    unittest.main()
