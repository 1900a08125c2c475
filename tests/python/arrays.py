# SPDX-License-Identifier: BSD-3-Clause
"""Whatever has a buffer is an array; memory of tutti.empty lives as long as its last view, and not longer."""
import array
import ctypes
import gc
import mmap
import os
import sys
import unittest

import ranks
import tutti

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


def floats(*values):
    return array.array("f", values)


def heap():
    """Bytes of memory of tutti.empty in this process; it is shared, and its file has the library's name."""
    total = 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "tutti-heap" in line or "memfd:tutti" in line:
                low, high = line.split()[0].split("-")
                total += int(high, 16) - int(low, 16)
    return total


class Interface:
    """Has nothing but __array_interface__."""

    def __init__(self, buffer, **changes):
        self.buffer = buffer
        self.__array_interface__ = {"shape": (len(buffer),), "typestr": "<f4", "version": 3,
                                    "data": (ctypes.addressof(buffer), False), **changes}


class Tensor:
    """Has what torch's tensors have, of which this module must not need more."""

    def __init__(self, buffer, kind, device="cpu", contiguous=True):
        self.buffer, self.dtype, self.contiguous = buffer, f"torch.{kind}", contiguous
        self.device = type("device", (), {"type": device.split(":")[0], "__str__": lambda self: device})()

    def data_ptr(self):
        return ctypes.addressof(self.buffer)

    def numel(self):
        return len(self.buffer)

    def element_size(self):
        return ctypes.sizeof(self.buffer) // len(self.buffer)

    def is_contiguous(self):
        return self.contiguous


class OfOneRank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.comm = tutti.init(id=tutti.unique_id(), rank=0, size=1)
        cls.twice = cls.comm.scaled_sum(2, "float32")

    @classmethod
    def tearDownClass(cls):
        cls.comm.close()

    def doubled(self, x, values):
        """The call writes twice the values to where they lie."""
        self.assertIs(self.comm.all_reduce(x, self.twice), x)
        self.assertEqual(list(values), [2, 4, 6])

    def test_everything_with_a_buffer_is_an_array(self):
        x = floats(1, 2, 3)
        self.doubled(x, x)
        memory = mmap.mmap(-1, 12)
        view = memoryview(memory).cast("f")
        for i in range(3):
            view[i] = i + 1
        self.doubled(view, view)
        c = (ctypes.c_float * 3)(1, 2, 3)
        self.doubled(c, c)
        raw = bytearray(floats(1, 2, 3).tobytes())
        self.comm.all_reduce(raw, self.twice, dtype="float32")
        self.assertEqual(list(memoryview(raw).cast("f")), [2, 4, 6])

    def test_array_interface_is_taken_as_it_says(self):
        c = (ctypes.c_float * 3)(1, 2, 3)
        self.doubled(Interface(c), c)
        for changes, words in (({"data": (ctypes.addressof(c), True)}, "read-only"), ({"strides": (8,)}, "contiguous"),
                               ({"typestr": "|O8"}, "object"), ({"typestr": ">f4"}, "byte-swapped")):
            with self.assertRaisesRegex(tutti.TuttiArgumentError, words):
                self.comm.all_reduce(Interface(c, **changes))

    def test_tensors_are_taken_by_their_address(self):
        c = (ctypes.c_float * 3)(1, 2, 3)
        self.doubled(Tensor(c, "float32"), c)
        bits = (ctypes.c_uint16 * 1)(0x3f80)
        self.comm.all_reduce(Tensor(bits, "bfloat16"), self.comm.scaled_sum((ctypes.c_uint16 * 1)(0x4000), "bfloat16"))
        self.assertEqual(bits[0], 0x4000)
        for tensor, words in ((Tensor(c, "float32", "cuda:0"), "on device 'cuda:0'"),
                              (Tensor(c, "float32", contiguous=False), "not contiguous"),
                              (Tensor(c, "complex32"), "elements of complex32")):
            with self.assertRaisesRegex(tutti.TuttiArgumentError, words):
                self.comm.all_reduce(tensor)

    def test_tensors_that_are_conjugated_when_they_are_read_are_refused(self):
        for name in ("is_conj", "is_neg"):
            tensor = Tensor((ctypes.c_float * 2)(1, 2), "float32")
            setattr(tensor, name, lambda: False)
            self.comm.all_reduce(tensor)
            setattr(tensor, name, lambda: True)
            with self.assertRaisesRegex(tutti.TuttiArgumentError, r"x is a view .* x\.resolve_conj\(\)"):
                self.comm.all_reduce(tensor)

    @unittest.skipIf(numpy is None, "no numpy")
    def test_dlpack_is_taken_as_it_says(self):
        class Producer:
            """Has nothing but DLPack."""

            def __init__(self, made):
                self.made = made

            def __dlpack__(self, stream=None):
                return self.made.__dlpack__()

            def __dlpack_device__(self):
                return self.made.__dlpack_device__()

        x = numpy.array([1, 2, 3], numpy.float32)
        before = sys.getrefcount(x)
        self.doubled(Producer(x), x)
        gc.collect()
        self.assertEqual(sys.getrefcount(x), before)
        whole = numpy.arange(12, dtype=numpy.int64).reshape(3, 4)
        self.comm.all_reduce(Producer(whole[1:]), self.comm.scaled_sum(2, "int64"))
        self.assertEqual(whole.tolist(), [[0, 1, 2, 3], [8, 10, 12, 14], [16, 18, 20, 22]])
        with self.assertRaisesRegex(tutti.TuttiArgumentError, "not contiguous"):
            self.comm.all_reduce(Producer(whole[:, 1:]))
        far = Producer(x)
        far.__class__.__dlpack_device__ = lambda self: (2, 0)
        with self.assertRaisesRegex(tutti.TuttiArgumentError, "device 2"):
            self.comm.all_reduce(far)

    @unittest.skipIf(numpy is None, "no numpy")
    def test_numpy_arrays_of_all_kinds(self):
        for kind in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
                     "longlong"):
            for _ in range(2):  # the second time it is known
                x = numpy.array([[1, 2], [3, 4]], kind)
                name = "int64" if kind == "longlong" else kind
                self.comm.all_reduce(x, self.comm.scaled_sum(2, name))
                self.assertEqual(x.tolist(), [[2, 4], [6, 8]])
        x = numpy.ones((4, 4), numpy.float32)
        frozen = numpy.ones(4, numpy.float32)
        frozen.flags.writeable = False
        for bad, words in ((x[:, 1], "not contiguous"), (x.T[:2], "not contiguous"), (frozen, "read-only"),
                           (x.astype(">f4"), "byte-swapped float32"), (x.astype(numpy.longdouble), "float128"),
                           (x.astype(object), "object")):
            with self.assertRaisesRegex(tutti.TuttiArgumentError, words):
                self.comm.all_reduce(bad)
        for kind, values in (("bool", [True, False]), ("complex64", [1 + 2j, -3j]), ("complex128", [0.5j, 4])):
            for _ in range(2):
                self.assertEqual(self.comm.all_reduce(numpy.array(values, kind)).tolist(), values)
            self.assertEqual((tutti.empty(2, kind).dtype, tutti.empty(2, kind).tolist()), (numpy.dtype(kind), [0, 0]))
        out = numpy.zeros(4, numpy.float32)
        self.comm.all_reduce(frozen, self.twice, out=out)
        self.assertEqual(out.tolist(), [2] * 4)
        for empty in (numpy.zeros((0, 3), numpy.float32), numpy.zeros(0, complex)):
            self.assertIs(self.comm.broadcast(empty), empty)
        for x in (["ab", "c"], numpy.array(["2026-11-23"], "M8[ns]")):
            self.comm.broadcast(numpy.array(x))
        self.comm.broadcast(numpy.zeros(2, [("a", "f4"), ("b", "i2")]))
        with self.assertRaisesRegex(tutti.TuttiArgumentError, "object"):
            self.comm.broadcast(numpy.zeros(2, [("a", object)]))
        for _ in range(2):  # one array as elements of several types
            bits = numpy.array([0x3f80] * 3, numpy.uint16)
            for name, wanted in (("bfloat16", 0x4000), ("float16", 0x4400)):
                two = self.comm.scaled_sum(numpy.array([0x4000], numpy.uint16), name)
                self.comm.all_reduce(bits, two, dtype=name)
                self.assertEqual(bits.tolist(), [wanted] * 3)
            raw = numpy.frombuffer(bytearray(numpy.float32([1, 2, 3]).tobytes()), numpy.uint8)
            self.comm.all_reduce(raw, self.twice, dtype="float32")
            self.assertEqual(raw.view(numpy.float32).tolist(), [2, 4, 6])
        zero = numpy.array(3, numpy.float32)
        self.comm.all_reduce(zero, self.twice)
        self.assertEqual(zero, 6)

    @unittest.skipIf(torch is None, "no torch")
    def test_torch_tensors_of_all_types(self):
        for name in ("int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16"):
            x = torch.tensor([1, 2, 3], dtype=getattr(torch, name))
            self.assertIs(self.comm.all_reduce(x), x)
            self.assertEqual(x.tolist(), [1, 2, 3])
        shared = torch.from_numpy(tutti.empty(3)) if numpy else torch.zeros(3)
        shared += 1
        self.assertEqual(self.comm.all_reduce(shared, self.twice).tolist(), [2, 2, 2])
        with self.assertRaisesRegex(tutti.TuttiArgumentError, "not contiguous"):
            self.comm.all_reduce(torch.zeros(4, 4).t()[1:])
        for name in ("int16", "bool", "complex64", "complex128"):
            x = torch.ones(3, dtype=getattr(torch, name))
            self.assertEqual(self.comm.all_reduce(x).tolist(), [1, 1, 1])
        with self.assertRaisesRegex(tutti.TuttiArgumentError, "op is avg, but type is bool"):
            self.comm.all_reduce(torch.zeros(4, dtype=torch.bool), "avg")


class Memory(unittest.TestCase):
    def test_it_is_zero_and_has_the_shape_and_type(self):
        for name in ranks.NUMBERS:
            x = tutti.empty((2, 3), name)
            self.assertEqual(memoryview(x).shape, (2, 3))
            self.assertEqual(memoryview(x).itemsize, ranks.Numbers(name).make([0]).itemsize)
            self.assertEqual(sum(sum(row) for row in x.tolist()), 0)
        self.assertEqual([memoryview(tutti.empty(n)).nbytes for n in (0, 1, (3, 0))], [0, 4, 0])
        if numpy:
            self.assertEqual(tutti.empty((), "float64").shape, ())
            self.assertEqual(tutti.empty(2, "float16").dtype, numpy.float16)

    def test_it_is_freed_with_its_last_view_and_not_before(self):
        gc.collect()
        before = heap()
        x = tutti.empty(1 << 22, "uint8")
        self.assertGreaterEqual(heap(), before + (1 << 22))
        view = memoryview(x)[1 << 21:]
        view[0] = 7
        del x
        gc.collect()
        self.assertGreaterEqual(heap(), before + (1 << 22))
        self.assertEqual(view[0], 7)
        del view
        gc.collect()
        self.assertLess(heap(), before + (1 << 22))

    def test_an_operation_keeps_it(self):
        def body(comm):
            x = tutti.empty(1 << 18)
            x[5] = comm.rank + 1
            handle = comm.all_reduce(x, async_=True)
            del x
            gc.collect()
            self.assertEqual(handle.wait()[5], 3)
        ranks.threads(2, body)


class Library(unittest.TestCase):
    def test_it_is_that_of_the_build_tree(self):
        self.assertEqual(os.path.realpath(tutti.LIBRARY), os.path.realpath(os.path.join(ranks.BINARY, "libtutti.so.0")))


if __name__ == "__main__":
    unittest.main()
