# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of any library: their address, elements and type; and arrays in memory that peers can read."""
import ctypes
import math
import struct
import sys
import weakref
from ctypes import addressof, byref, c_char, c_ssize_t, c_void_p
from typing import Any, NamedTuple, Sequence, Union

from ._library import C, check, refusal

# Each type of elements: its number (tuttiDataType_t), and its bytes.
TYPES = {"int8": (0, 1), "uint8": (1, 1), "int32": (2, 4), "uint32": (3, 4), "int64": (4, 8), "uint64": (5, 8),
         "float16": (6, 2), "float32": (7, 4), "float64": (8, 8), "bfloat16": (9, 2), "float8_e4m3fn": (10, 1),
         "float8_e5m2": (11, 1), "int16": (12, 2), "uint16": (13, 2), "bool": (14, 1), "complex64": (15, 8),
         "complex128": (16, 16)}
UINT8 = TYPES["uint8"][0]
NAMES = [name for name in TYPES]
SIZES = [size for _, size in TYPES.values()]
# Of struct; memoryviews have all but e.
_FORMATS = {"int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float16": "e",
            "float32": "f", "float64": "d", "int16": "h", "uint16": "H", "bool": "?"}
_LETTERS = {"bhilqn": "int", "BHILQNcP": "uint", "efd": "float", "?": "bool", "FDZ": "complex"}
_KINDS = {"i": "int", "u": "uint", "f": "float", "b": "bool", "c": "complex"}  # of __array_interface__
_NATIVE = "<" if sys.byteorder == "little" else ">"
_from_buffer = c_char.from_buffer

Array = Any  # whatever has a buffer in host memory, see Comm

# The numbers of types, keyed by numpy's own objects, or these and dtype= of the same size; filled as arrays come.
_codes: dict = {}


class Seen(NamedTuple):
    """An array as its library describes it."""

    address: int
    length: int        # elements
    itemsize: int
    type: str          # one of TYPES, or another name: elements that can be moved only
    is_writable: bool
    is_contiguous: bool
    keep: Any          # as long as this lives, the memory does


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", c_void_p), ("shape", c_void_p),
                ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int], ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.POINTER(_PyBuffer)], None
_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_capsule.argtypes, _capsule.restype = [ctypes.py_object, ctypes.c_char_p], c_void_p


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", ctypes.c_int), ("device_id", ctypes.c_int), ("ndim", ctypes.c_int),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


def _packed(shape, strides, unit):
    """Whether elements of `unit` (bytes, or 1) lie one behind the other in C order."""
    if strides is None or 0 in shape:
        return True
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != unit:
            return False
        unit *= length
    return True


def _sized(kind, itemsize):
    return kind if kind == "bool" else f"{kind}{8 * itemsize}"


def _of_interface(x):
    """numpy, and all that speaks of itself as numpy does."""
    facts = x.__array_interface__
    typestr, shape = facts["typestr"], tuple(facts["shape"])
    itemsize = int(typestr[2:].partition("[")[0] or 8) * (4 if typestr[1] == "U" else 1)  # "<M8[ns]", "|O"
    name = str(getattr(getattr(x, "dtype", None), "name", typestr))
    if typestr[1] in _KINDS:
        name = _sized(_KINDS[typestr[1]], itemsize)
        if typestr[0] not in ("|", _NATIVE):
            name = f"byte-swapped {name}"
    if typestr[1] == "O" or getattr(getattr(x, "dtype", None), "hasobject", False):
        name = "object"
    data = facts.get("data")
    if not isinstance(data, tuple):
        return _of_buffer(x if data is None else data)
    return Seen(data[0], math.prod(shape), itemsize, name, not data[1], _packed(shape, facts.get("strides"), itemsize),
                x)


def _of_buffer(x):
    """bytearray, array.array, memoryview, mmap, ctypes arrays, ..."""
    view = memoryview(x)
    letter = view.format.lstrip("@=<>!")
    kind = next((kind for letters, kind in _LETTERS.items() if letter in letters), "") if len(letter) == 1 else ""
    name = _sized(kind, view.itemsize) if kind else f"format '{view.format}'"
    if view.format[:1] in "<>!" and (view.format[0] == "<") != (_NATIVE == "<"):
        name = f"byte-swapped {name}"
    if letter == "O":
        name = "object"
    address = 0
    if view.c_contiguous:
        buffer = _PyBuffer()
        _get_buffer(view, byref(buffer), 0)
        address = buffer.buf or 0
        _release_buffer(byref(buffer))
    return Seen(address, view.nbytes // view.itemsize, view.itemsize, name, not view.readonly, view.c_contiguous, view)


def _of_torch(x, name):
    if x.device.type != "cpu":
        raise refusal(f"{name} is on device '{x.device}': pass a tensor in host memory ({name}.cpu())")
    if any(getattr(x, lazily, bool)() for lazily in ("is_conj", "is_neg")):
        raise refusal(f"{name} is a view of elements that torch conjugates or negates when it reads them: pass "
                      f"{name}.resolve_conj().resolve_neg()")
    return Seen(x.data_ptr(), x.numel(), x.element_size(), str(x.dtype).replace("torch.", ""), True, x.is_contiguous(),
                x)


def _of_dlpack(x, name):
    device = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else 1
    if device not in (1, 3):  # kDLCPU, kDLCUDAHost
        raise refusal(f"{name} is on DLPack's device {int(device)}: pass an array in host memory")
    capsule = x.__dlpack__()  # not consumed: with it goes what was exported
    tensor = _DLTensor.from_address(_capsule(capsule, b"dltensor"))
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    strides = [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else None
    kind = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}.get(tensor.code, "DLPack type ")
    return Seen((tensor.data or 0) + tensor.byte_offset, math.prod(shape), tensor.bits * tensor.lanes // 8,
                _sized(kind, tensor.bits // 8), True, _packed(shape, strides, 1), (capsule, x))


def see(x, name) -> Seen:
    """Describes an array. Errors: TuttiArgumentError: it is none."""
    if hasattr(x, "__array_interface__"):
        return _of_interface(x)
    if hasattr(x, "data_ptr"):
        return _of_torch(x, name)
    try:
        return _of_buffer(x)
    except TypeError:
        pass
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(x, name)
    raise refusal(f"{name} is of type {type(x).__name__}, which has no buffer: pass a numpy array, a tensor in host "
                  "memory, a memoryview, an array.array, a bytearray, or anything with __array_interface__ or DLPack")


def type_code(dtype, name="dtype") -> int:
    """The number of a type that is given by its name, or as numpy's or torch's object."""
    if isinstance(dtype, str) and dtype in TYPES:
        return TYPES[dtype][0]
    said = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype).replace("torch.", "")
    if said in TYPES:
        return TYPES[said][0]
    raise refusal(f"{name} is {dtype!r}: it must be one of {', '.join(TYPES)}")


def _retyped(seen, dtype, name):
    """The array as one of `dtype`: elements of the same size, or bytes."""
    code = type_code(dtype)
    if seen.type.startswith("byte-swapped"):
        raise refusal(f"{name} has elements of {seen.type}, and dtype is {NAMES[code]}: pass a copy in this "
                      "processor's order of bytes, or leave dtype out where elements are only moved")
    if seen.itemsize == SIZES[code]:
        return seen._replace(type=NAMES[code])
    nbytes = seen.length * seen.itemsize
    if seen.itemsize != 1 or nbytes % SIZES[code]:
        raise refusal(f"{name} has {seen.length} elements of {seen.itemsize} bytes, and dtype {NAMES[code]} has "
                      f"{SIZES[code]} bytes: pass an array of such elements, or of bytes in a multiple of that")
    return seen._replace(type=NAMES[code], itemsize=SIZES[code], length=nbytes // SIZES[code])


def _remember(x, dtype, code):
    """Next time arrays of this type need not be described."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(x) is numpy.ndarray and x.itemsize == SIZES[code] and len(_codes) < 1000:
        _codes[x.dtype if dtype is None else (x.dtype, dtype)] = code


def look_closely(x, name, dtype, is_output, reduces):
    """look() for all arrays, also those that are refused, with the sentence that says why."""
    seen = see(x, name)
    if dtype is not None:
        seen = _retyped(seen, dtype, name)
    if not seen.is_contiguous:
        raise refusal(f"{name} is not contiguous in C order: pass a copy that is (numpy.ascontiguousarray({name}), "
                      "tensor.contiguous())")
    if is_output and not seen.is_writable:
        raise refusal(f"{name} is read-only, and the result is written there: pass out=, or a copy that can be "
                      "written (numpy.array, bytearray)")
    if seen.type in TYPES:
        _remember(x, dtype, TYPES[seen.type][0])
        return seen.address, seen.length, TYPES[seen.type][0], seen.keep
    if reduces or seen.type == "object":
        raise refusal(f"{name} has elements of {seen.type}, which cannot be {'combined' if reduces else 'sent'}: "
                      f"convert them to one of {', '.join(TYPES)}")
    return seen.address, seen.length * seen.itemsize, UINT8, seen.keep


def look(x, name, dtype=None, is_output=False, reduces=False):
    """(address, count, number of the type, owner) of an array; elements of types that can only be moved are bytes.

    numpy's arrays that can be written come first: they are described in a fraction of a microsecond.
    """
    try:
        code = _codes[x.dtype if dtype is None else (x.dtype, dtype)]
        keep = _from_buffer(x)  # contiguous and writable, or an exception
        return addressof(keep), x.size, code, keep
    except (AttributeError, KeyError, TypeError, ValueError, BufferError):
        pass
    return look_closely(x, name, dtype, is_output, reduces)


def empty(shape: Union[int, Sequence[int]], dtype: str = "float32") -> Array:
    """Makes an array in memory that the other ranks of this host read where it lies.

    Collectives of some MiB are faster there, and RDMA devices send and receive without copies. Any other memory will
    do as well.

    ``shape``: a number of elements, or a tuple of lengths. ``dtype``: one of ``tutti.TYPES``. Returns a numpy array
    where numpy is there, else a memoryview; elements are 0. Types that these lack (bfloat16 and the floats of 8 bits;
    float16 and complex64 without numpy) come as unsigned integers of the same size: give ``dtype=`` with such an array.
    The memory is freed when the last view of it is gone; after a fork parent and child see the same bytes.

    Errors: TuttiArgumentError: a negative length, an unknown type, complex128 without numpy.
    TuttiSystemError: out of memory.
    """
    code = type_code(dtype)
    lengths = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    if not all(isinstance(n, int) or hasattr(n, "__index__") for n in lengths) or any(n < 0 for n in lengths):
        raise refusal(f"shape is {shape!r}: it must be a number of elements, or a tuple of lengths, none below 0")
    lengths = tuple(int(n) for n in lengths)
    nbytes = math.prod(lengths) * SIZES[code]
    if nbytes > sys.maxsize // 2:
        raise refusal(f"shape is {shape!r}: more bytes than memory can hold")
    memory = _allocate(nbytes)
    form = _FORMATS.get(NAMES[code], {1: "B", 2: "e", 8: "Q"}.get(SIZES[code], ""))
    try:
        import numpy
    except ImportError:
        if not form:
            raise refusal(f"dtype is {NAMES[code]}, which only numpy has: install it, or ask for float64") from None
        form = form.replace("e", "H")
        view: Any = memoryview(memory).cast("B")
        return view.cast(form, lengths) if view.nbytes else view.cast(form)
    if NAMES[code] not in _FORMATS:
        form = ("c" if NAMES[code].startswith("complex") else "u") + str(SIZES[code])
    return numpy.frombuffer(memory, dtype=form).reshape(lengths)


def _allocate(nbytes):
    """A ctypes array over memory of tuttiMemAlloc, which is freed with the last object that holds the array."""
    if nbytes == 0:
        return bytearray()
    pointer = c_void_p()
    check(C["tuttiMemAlloc"](byref(pointer), nbytes))
    memory = (c_char * nbytes).from_address(pointer.value)
    free = weakref.finalize(memory, C["tuttiMemFree"], pointer.value)
    free.atexit = False  # views may be used until the process ends
    return memory


def element(factor, dtype) -> Any:
    """One element of a type in memory: a number, or an array of one element as it stands."""
    code = type_code(dtype)
    if isinstance(factor, (int, float)):
        if NAMES[code] not in _FORMATS:
            raise refusal(f"factor is {factor!r}, and a number cannot be written as {NAMES[code]} here: pass an array "
                          f"of one element of {SIZES[code]} bytes")
        try:
            return bytearray(struct.pack(_FORMATS[NAMES[code]], factor))
        except (struct.error, OverflowError) as why:
            raise refusal(f"factor is {factor!r}, which is no {NAMES[code]}: {why}") from None
    if look_closely(factor, "factor", NAMES[code], False, True)[1] != 1:
        raise refusal("factor has not one element: pass a number, or an array of one element")
    return factor
