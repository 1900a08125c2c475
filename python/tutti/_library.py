# SPDX-License-Identifier: BSD-3-Clause
"""The shared library: where it is, its functions with their types, and its result codes as exceptions."""
import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

VERSION = "0.1.0"  # of this package; the library must have the same major and minor number

UNDEFINED = -2**31
UNIQUE_ID_BYTES = 128
SUCCESS, IN_PROGRESS = 0, 7
ARGUMENT, USAGE = 4, 5


class TuttiError(RuntimeError):
    """An error of the library; the text is the library's sentence.

    ``code`` is the number of the result (``tuttiResult_t``), ``result`` its name.
    """

    code = -1
    result = "tuttiInternalError"


class TuttiCudaError(TuttiError):
    """A CUDA call failed."""

    code, result = 1, "tuttiUnhandledCudaError"


class TuttiSystemError(TuttiError):
    """A system call failed, or a resource is missing; the sentence has the cause and the remedy."""

    code, result = 2, "tuttiSystemError"


class TuttiInternalError(TuttiError):
    """A fault of the library: please report the sentence."""

    code, result = 3, "tuttiInternalError"


class TuttiArgumentError(TuttiError, ValueError):
    """One argument is wrong; the sentence names it, its value and the remedy. Nothing was sent."""

    code, result = ARGUMENT, "tuttiInvalidArgument"


class TuttiUsageError(TuttiError):
    """The call is wrong here, or differs between ranks."""

    code, result = USAGE, "tuttiInvalidUsage"


class TuttiRemoteError(TuttiError):
    """A rank died, left, is unreachable or too late; ``Comm.failed`` tells which."""

    code, result = 6, "tuttiRemoteError"


ERRORS = {error.code: error for error in (TuttiCudaError, TuttiSystemError, TuttiInternalError, TuttiArgumentError,
                                          TuttiUsageError, TuttiRemoteError)}


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * UNIQUE_ID_BYTES)]


class Sized(ctypes.Structure):
    """The head of every struct of options."""

    _fields_ = [("size", c_size_t), ("magic", c_uint32), ("version", c_uint32)]


class Config(Sized):
    _fields_ = [("blocking", c_int), ("timeout_ms", c_int), ("name", c_char_p), ("transports", c_char_p),
                ("deterministic", c_int), ("unused", c_int), ("wire_type", c_int), ("unused2", c_int), ("learn", c_int),
                ("unused3", c_int), ("init_timeout_ms", c_int), ("unused4", c_int), ("device", c_int),
                ("unused5", c_int), ("fault_level", c_int)]
    MAGIC = 0x7477696e


class ReduceOptions(Sized):
    _fields_ = [("wire_type", c_int), ("scale_before", c_float), ("scale_after", c_float), ("overflow", c_void_p),
                ("codec", c_char_p)]
    MAGIC = 0x74756f70


class FusionConfig(Sized):
    _fields_ = [("policy", c_char_p), ("buffer_bytes", c_size_t), ("op", c_int), ("wire_type", c_int),
                ("overflow", c_int), ("norms", c_int), ("codec", c_char_p), ("codec_least", c_size_t),
                ("rows", c_void_p), ("update", c_char_p), ("function", c_void_p), ("context", c_void_p),
                ("rate", c_float), ("weights_type", c_int), ("exempt", c_void_p), ("quorum", c_int),
                ("staleness", c_int)]
    MAGIC = 0x74756675


class FusionShard(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("tensor", c_int), ("staleness", c_int), ("step", c_uint64), ("first", c_size_t),
                ("count", c_size_t), ("rate", c_float), ("gradient", c_void_p), ("planes", c_void_p * 3)]


FusionUpdate = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(FusionShard))


class FusionTensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("count", c_size_t), ("type", c_int)]


class FusionInfo(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("steps", c_uint64), ("plans", c_uint64), ("planned_step", c_uint64),
                ("groups", c_int), ("messages", c_int), ("is_by_priority", c_int), ("buffer_bytes", c_size_t),
                ("copied_bytes", c_uint64), ("iteration_us", c_double), ("predicted_us", c_double),
                ("exposed_us", c_double), ("predicted_exposed_us", c_double), ("state_step", c_uint64),
                ("updates", c_uint64), ("dropped", c_uint64), ("stalest", c_uint64), ("staleness", c_double),
                ("queued_bytes", c_uint64), ("queued_most", c_uint64)]


class CommInfo(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("nranks", c_int), ("rank", c_int), ("nhosts", c_int), ("host", c_int),
                ("local_nranks", c_int), ("local_rank", c_int), ("name", ctypes.c_char * 64),
                ("address", ctypes.c_char * 48)]


class Launch(ctypes.Structure):
    _fields_ = [("launcher", ctypes.c_char * 16), ("nprocs", c_int), ("proc", c_int), ("local_nprocs", c_int),
                ("local_proc", c_int), ("id", UniqueId)]


_P = c_void_p
_COUNTS = POINTER(c_size_t)
_MOVE = [_P, _P, c_size_t, c_int]  # how most operations begin: two buffers, a count, a type
_END = [_P, _P]                    # how they end: communicator and stream
_FUNCTIONS = {
    "tuttiGetVersion": [POINTER(c_int)],
    "tuttiGetUniqueId": [POINTER(UniqueId)],
    "tuttiGetLaunch": [POINTER(Launch)],
    "tuttiCommInitRankConfig": [POINTER(_P), c_int, UniqueId, c_int, POINTER(Config)],
    "tuttiCommSplit": [_P, c_int, c_int, POINTER(_P), POINTER(Config)],
    "tuttiCommGrow": [_P, c_int, POINTER(UniqueId), c_int, POINTER(_P), POINTER(Config)],
    "tuttiCommShrink": [_P, POINTER(c_int), c_int, POINTER(_P), POINTER(Config), c_int],
    "tuttiCommRevoke": [_P, c_int],
    "tuttiCommFinalize": [_P],
    "tuttiCommDestroy": [_P],
    "tuttiCommAbort": [_P],
    "tuttiCommCount": [_P, POINTER(c_int)],
    "tuttiCommUserRank": [_P, POINTER(c_int)],
    "tuttiCommGetAsyncError": [_P, POINTER(c_int)],
    "tuttiCommGetInfo": [_P, POINTER(CommInfo)],
    "tuttiCommGetFailed": [_P, POINTER(c_int), POINTER(c_int)],
    "tuttiRedOpCreatePreMulSum": [POINTER(c_int), _P, c_int, c_int, _P],
    "tuttiRedOpDestroy": [c_int, _P],
    "tuttiMemAlloc": [POINTER(_P), c_size_t],
    "tuttiMemFree": [_P],
    "tuttiStreamCreate": [POINTER(_P)],
    "tuttiStreamQuery": [_P],
    "tuttiStreamDestroy": [_P],
    "tuttiEventCreate": [POINTER(_P)],
    "tuttiEventRecord": [_P, _P],
    "tuttiEventDescriptor": [_P, POINTER(c_int)],
    "tuttiEventDestroy": [_P],
    "tuttiGroupStart": [],
    "tuttiGroupEnd": [],
    "tuttiRefuse": [c_int, c_char_p],
    "tuttiAllReduce": _MOVE + [c_int] + _END,
    "tuttiAllReduceWith": _MOVE + [c_int, POINTER(ReduceOptions)] + _END,
    "tuttiReduce": _MOVE + [c_int, c_int] + _END,
    "tuttiBroadcast": _MOVE + [c_int] + _END,
    "tuttiReduceScatter": _MOVE + [c_int] + _END,
    "tuttiAllGather": _MOVE + _END,
    "tuttiAlltoAll": _MOVE + _END,
    "tuttiReduceScatterV": [_P, _P, _COUNTS, _COUNTS, c_int, c_int] + _END,
    "tuttiAllGatherV": [_P, c_size_t, _P, _COUNTS, _COUNTS, c_int] + _END,
    "tuttiAlltoAllV": [_P, _COUNTS, _COUNTS, _P, _COUNTS, _COUNTS, c_int] + _END,
    "tuttiGather": _MOVE + [c_int] + _END,
    "tuttiScatter": _MOVE + [c_int] + _END,
    "tuttiBarrier": _END,
    "tuttiSend": [_P, c_size_t, c_int, c_int] + _END,
    "tuttiRecv": [_P, c_size_t, c_int, c_int] + _END,
    "tuttiIsendTag": [_P, c_size_t, c_int, c_int, c_int, _P, POINTER(_P)],
    "tuttiIrecvTag": [_P, c_size_t, c_int, c_int, c_int, _P, POINTER(_P)],
    "tuttiMessageWait": [POINTER(_P), c_int, _P],
    "tuttiFusionCreate": [POINTER(_P), _P, POINTER(FusionTensor), c_int, POINTER(FusionConfig)],
    "tuttiFusionPush": [_P, c_int, _P, _P, c_size_t, c_int, _P],
    "tuttiFusionWait": [_P, c_int],
    "tuttiFusionQuery": [_P, c_int],
    "tuttiFusionWaitAll": [_P],
    "tuttiFusionScale": [_P, c_float, c_float],
    "tuttiFusionOverflow": [_P, POINTER(c_int)],
    "tuttiFusionNorm": [_P, c_int, POINTER(c_double)],
    "tuttiFusionCodec": [_P, c_char_p],
    "tuttiFusionRate": [_P, c_float],
    "tuttiFusionState": [_P, c_int, c_int, _P, c_size_t, c_int],
    "tuttiFusionGetInfo": [_P, POINTER(FusionInfo)],
    "tuttiFusionPrint": [_P, _P, c_int],
    "tuttiFusionMove": [POINTER(_P), _P],
    "tuttiFusionDestroy": [_P],
    "tuttiFusionAbort": [_P],
}


def _candidates():
    """Paths of the library, the first that is there counts; a name without a folder is the system's."""
    named = os.environ.get("TUTTI_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    # In a wheel, beside the package, in a build tree (build/release/python/tutti), installed (lib/tutti/python/tutti).
    folders = [os.path.join(here, "lib"), here, os.path.join(here, "..", ".."), os.path.join(here, "..", "..", "..")]
    paths = [os.path.normpath(os.path.join(folder, "libtutti.so.0")) for folder in folders]
    return [path for path in paths if os.path.exists(path)][:1] or ["libtutti.so.0"]


def _load():
    path = _candidates()[0]
    try:
        library = ctypes.CDLL(path)
        functions = {name: getattr(library, name) for name in [*_FUNCTIONS, "tuttiGetLastError"]}
    except (OSError, AttributeError) as why:
        raise ImportError(f"the library of Tutti cannot be used: {why}. Set TUTTI_LIBRARY to the path of libtutti.so, "
                          "or install it with scripts/install") from None
    for name, types in _FUNCTIONS.items():
        functions[name].argtypes, functions[name].restype = types, c_int
    functions["tuttiGetLastError"].argtypes, functions["tuttiGetLastError"].restype = [_P], c_char_p
    version = c_int()
    functions["tuttiGetVersion"](ctypes.byref(version))
    major, minor, patch = version.value // 10000, version.value // 100 % 100, version.value % 100
    if [str(major), str(minor)] != VERSION.split(".")[:2]:
        raise ImportError(f"{path} is Tutti {major}.{minor}.{patch}, and this package is for {VERSION}: set "
                          "TUTTI_LIBRARY to the path of a libtutti.so of that version")
    return path, version.value, functions


PATH, VERSION_CODE, C = _load()


class Held:
    """What stands for an object of the library. A copy of it would end that object a second time."""

    __slots__ = ()

    def __reduce_ex__(self, protocol):
        raise TypeError(f"a {type(self).__name__} of tutti belongs to this process: it cannot be copied or pickled")


def make(struct):
    """A struct of options as its initializer sets it, but for fields whose default is not 0 or undefined."""
    made = struct(size=ctypes.sizeof(struct), magic=struct.MAGIC, version=VERSION_CODE)
    for name, kind in struct._fields_:
        if kind is c_int:
            setattr(made, name, UNDEFINED)
    return made


def error(code, comm=None):
    """The exception of a result code, with the sentence of this thread's last error, or that of comm's first."""
    sentence = C["tuttiGetLastError"](comm).decode(errors="replace")
    kind = ERRORS.get(code, TuttiInternalError)
    return kind(sentence or f"the library returned {code} ({kind.result}) and no sentence")


def check(code, comm=None):
    """Raises the exception of a result code that is not success."""
    if code:
        raise error(code, comm)


class _Thread(threading.local):
    group: Any = None  # the outermost group that this thread has open


THREAD = _Thread()


def refusal(sentence, kind=TuttiArgumentError):
    """The exception of a wrong call. Within a group the call is refused there, too, so none of the group's starts."""
    if THREAD.group is not None:
        C["tuttiRefuse"](kind.code, sentence.encode(errors="replace")[:511])
    return kind(sentence)


INT_MOST = 2**31 - 1


def whole(name, value, low=0, high=INT_MOST):
    """A whole number of C, which would cut off what does not fit."""
    if not hasattr(value, "__index__") or not low <= value <= high:
        raise refusal(f"{name} is {value!r}: it must be a whole number from {low} to {high}")
    return int(value)


def words(name, value):
    """A text as C has it, or None."""
    if value is not None and not isinstance(value, str):
        raise refusal(f"{name} is {value!r}: it must be a text")
    return None if value is None else value.encode()


def number(name, value):
    """A number with a fraction."""
    if not hasattr(value, "__float__"):
        raise refusal(f"{name} is {value!r}: it must be a number")
    return float(value)
