# SPDX-License-Identifier: BSD-3-Clause
"""Tensor fusion: gradients go in as they are made and come out combined."""
import ctypes
import sys
import threading
import time
from ctypes import byref, c_char_p, c_double, c_int, c_size_t, c_void_p
from threading import get_ident
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from . import _interrupt, _library
from ._arrays import Array, NAMES, look, type_code
from ._comm import Comm, OPS
from ._library import C, Held, IN_PROGRESS, TuttiUsageError, check, error, number, refusal, whole, words

_push = C["tuttiFusionPush"]


def _tell(kind, **texts):
    """Gives the fields of a NamedTuple what help() says of them."""
    for name, text in texts.items():
        getattr(kind, name).__doc__ = text


class FusionInfo(NamedTuple):
    """The state of a fusion; times in microseconds, of this rank, 0 where nothing was measured yet."""

    steps: int
    plans: int
    planned_step: int
    groups: int
    messages: int
    is_by_priority: bool
    buffer_bytes: int
    copied_bytes: int
    iteration_us: float
    predicted_us: float
    exposed_us: float
    predicted_exposed_us: float
    state_step: int
    updates: int
    dropped: int
    stalest: int
    staleness: float
    queued_bytes: int
    queued_most: int


_tell(
    FusionInfo,
    steps="that have ended so far",
    plans="that were used so far",
    planned_step="the present plan is used from this step on",
    groups="of the present plan",
    messages="of the present plan",
    is_by_priority="it sends what forward needs first",
    buffer_bytes="of the fusion buffer",
    copied_bytes="into the buffer, in the last step",
    iteration_us="measured, from first push to first push",
    predicted_us="the same, predicted by the plan",
    exposed_us="measured: the time spent in waits",
    predicted_exposed_us="the same, predicted by the plan",
    state_step="the step that left the planes of ``get_state``; after an error ranks may differ",
    updates="of the weights of the last step: without servers as steps; with quorum alone, steps of all ranks; "
            "with staleness, contributions, or k of these each",
    dropped="with servers: steps of this rank that did not count",
    stalest="of the contributions that this rank's servers have counted: the largest staleness",
    staleness="of these: the mean",
    queued_bytes="with servers: bytes of this rank's messages that are not sent yet",
    queued_most="the most of these so far")


class Shard(NamedTuple):
    """Elements of a tensor that this rank owns, for a function that updates weights."""

    tensor: str
    step: int
    first: int
    rate: float
    staleness: int
    gradient: memoryview
    planes: list


_tell(
    Shard,
    tensor="its name",
    step="of the fusion, from 1 on",
    first="number of the first element in its tensor",
    rate="of this step",
    staleness="a rate is divided by 1 + staleness; 0 without the option ``staleness``",
    gradient="of floats (numpy.asarray(gradient) is an array of them, too); not to be kept",
    planes="likewise: [0] the weights, which the function changes, and what it keeps beside them")


def _shard(shard, names, count):
    def view(address):
        return memoryview((ctypes.c_float * shard.count).from_address(address)).cast("B").cast("f")

    return Shard(names[shard.tensor], shard.step, shard.first, shard.rate, shard.staleness, view(shard.gradient),
                 [view(shard.planes[p]) for p in range(count)])


class Fusion(Held):
    """Sums many tensors in few messages, planned from the times at which they are ready and the cost of messages.

    It is told of all tensors once. In each step every tensor is pushed once when it is ready and then waited for, on
    all ranks, in any order and from any threads; messages go while the rest is computed. Results are those of
    ``all_reduce`` for each tensor alone.

        fusion = tutti.Fusion(comm, {"w": w_grad, "b": b_grad})    # in the order of the forward pass
        for step in range(steps):
            ...backward...
            fusion.push("b", b_grad)                                # as soon as it is there; never waits
            fusion.push("w", w_grad)
            fusion.wait()                                           # all; or fusion.wait("w") before w is used

    ``tensors``: name -> an array, whose number of elements and type count, or (number of elements, name of the type);
    the same on all ranks. A tensor without a gradient is pushed as zeros.

    Options, the same on all ranks (``man 3 tutti_fusion``):
    ``policy``: how tensors are grouped: "auto" (default), "wfbp", "single", "threshold:BYTES[,FIRST]", "horovod:BYTES",
    "mgwfbp", "optimal", "p3[:PARAMETERS[,CREDIT]]", "fifo[:PARAMETERS[,CREDIT]]".
    ``buffer_bytes``: of the fusion buffer; default 64 MiB.
    ``op``: "sum" (default) or "avg".
    ``wire_type``: "float16" or "bfloat16" for tensors of float32; default: the communicator's.
    ``codec``: how tensors of float32 with at least ``codec_least`` elements (1024) travel, e.g. "1bit" or "dgc:0.99".
    ``overflow``, ``norms``: True if ``overflow()``, ``norm()`` will be called.
    ``update``: results are weights, which the owner of each element updates in fp32, instead of sums: "sgd[:DECAY]",
    "momentum[:MOMENTUM[,DECAY]]", "lars[:MOMENTUM[,DECAY[,ETA]]]", or a function of a ``Shard``, which the fusion's
    thread calls and which changes ``shard.planes`` in place (it has ``planes`` of them, 1 to 3). Weights are given by
    ``set_state(name, 0, weights)`` before the first step. ``rate``: of the update, see ``rate()``. ``weights_type``:
    "float16" or "bfloat16": weights of float32 travel so. ``exempt``: names of tensors without decay and lambda.
    ``quorum``, ``staleness``, with ``update``: contributions count when they come, and no rank waits for a slow one:
    quorum k: an update takes the first k contributions of a step (backup workers; loops end by ``info().updates``);
    staleness s, too: the next k, of weights at most s updates old; without a quorum each, and no rank is more than s
    steps ahead. ``update`` "easgd[:ALPHA]" and "gossip": each rank pushes weights of its own, every so many steps, and
    gets them moved towards a center, or the average with a neighbour, without waiting for its program.

    The call is collective, and the fusion has communicators of its own: ``comm`` may be used for other things, and is
    closed after it. As a context manager it is closed at the end.

    Errors of all calls: TuttiArgumentError: an argument is wrong; nothing has changed. TuttiUsageError: tensors or
    options of two ranks differ, a tensor is pushed twice in a step or waited for before its push. When a message fails
    (a rank died, ...), every call raises that error from then on: close the fusion, or shrink the communicator and
    ``move`` it there. Ctrl-C in a wait ends the step on all ranks: close the fusion.
    """

    def __init__(self, comm: Comm, tensors: Mapping[str, Any], *, policy: Optional[str] = None, buffer_bytes: int = 0,
                 op: str = "sum", wire_type: Optional[str] = None, overflow: bool = False, norms: bool = False,
                 codec: Optional[str] = None, codec_least: int = 0,
                 update: Union[None, str, Callable[[Shard], None]] = None, planes: int = 1, rate: float = 0.0,
                 weights_type: Optional[str] = None, exempt: Sequence[str] = (), quorum: int = 0, staleness: int = 0):
        self._handle: Optional[int] = None
        self._calls: dict = {}  # under way: number of the thread -> [that], a new list each time
        if not isinstance(comm, Comm):
            raise refusal(f"comm is of type {type(comm).__name__}: it must be a tutti.Comm")
        if not isinstance(tensors, Mapping) or not tensors:
            raise refusal(f"tensors is {tensors!r:.80}: it must be a dict of at least one name and array")
        if op not in ("sum", "avg"):
            raise refusal(f"op is {op!r}: it must be sum or avg")
        self._comm = comm
        self._numbers = {name: index for index, name in enumerate(tensors)}
        self._kept: list = [None] * len(tensors)
        facts = (_library.FusionTensor * len(tensors))(*(self._fact(*item) for item in tensors.items()))
        config = _library.make(_library.FusionConfig)
        config.policy, config.codec = words("policy", policy), words("codec", codec)
        config.codec_least = whole("codec_least", codec_least, 0, sys.maxsize)
        buffer_bytes = whole("buffer_bytes", buffer_bytes, 0, sys.maxsize)
        config.buffer_bytes, config.op, config.overflow, config.norms = buffer_bytes, OPS[op], overflow, norms
        if wire_type is not None:
            config.wire_type = type_code(wire_type, "wire_type")
        self._config_update(config, update, planes)
        config.rate = number("rate", rate)
        config.quorum, config.staleness = whole("quorum", quorum), whole("staleness", staleness)
        if weights_type is not None:
            config.weights_type = type_code(weights_type, "weights_type")
        if exempt:
            numbers = [self._number(name) for name in exempt]
            flags = (ctypes.c_uint8 * len(tensors))(*(index in numbers for index in range(len(tensors))))
            config.exempt = ctypes.addressof(flags)
        handle = c_void_p()
        check(comm._watched(C["tuttiFusionCreate"], byref(handle), comm._open(), facts, len(tensors), byref(config)))
        self._handle = handle.value
        comm._fusions.add(self)
        _interrupt.track(self)

    def _config_update(self, config, update, planes):
        self._update_error: Optional[BaseException] = None
        if not callable(update):
            config.update = words("update", update)
            return
        names = list(self._numbers)

        def call(_, shard):
            try:
                update(_shard(shard.contents, names, count))
                return 0
            except BaseException as why:  # it is raised by the calls that end with it
                self._update_error = why
                return TuttiUsageError.code

        count = whole("planes", planes, 1, 3)
        self._update = _library.FusionUpdate(call)  # it lives as long as the fusion
        config.update, config.function = f"function:{count}".encode(), ctypes.cast(self._update, c_void_p)

    @staticmethod
    def _fact(name, what):
        if not isinstance(name, str):
            raise refusal(f"tensors has the name {name!r}: it must be a text")
        if isinstance(what, tuple):
            if len(what) != 2:
                raise refusal(f"tensor {name} is {what!r}: it must be (number of elements, type), or an array")
            count = whole(f"number of elements of tensor {name}", what[0], 0, sys.maxsize)
            return name.encode(), count, type_code(what[1], f"type of tensor {name}")
        _, count, kind, _ = look(what, f"tensor {name}", None, False, True)
        return name.encode(), count, kind

    def _open(self):
        if self._handle is None:
            raise refusal("this fusion is closed: make another one", TuttiUsageError)
        return self._handle

    def _number(self, tensor):
        try:
            return self._numbers[tensor]
        except (KeyError, TypeError):
            names = ", ".join(list(self._numbers)[:8])
            raise refusal(f"there is no tensor {tensor!r}: there are {names}"
                          f"{', ...' if len(self._numbers) > 8 else ''}") from None

    def push(self, tensor: str, x: Array, out: Optional[Array] = None, *, dtype: Optional[str] = None) -> None:
        """Says that a tensor of this step is ready in ``x``. It never waits.

        The sum is written to ``out`` of as many elements, or in place to x. Both belong to the fusion until the tensor
        has been waited for; they may be other ones in each step.
        """
        index = self._number(tensor)
        self._open()
        where, count, kind, keep = look(x, "x", dtype, out is None, True)
        to, owner = where, keep
        if out is not None:
            to, out_count, out_kind, out_keep = look(out, "out", dtype, True, True)
            owner = (keep, out_keep)
            if out_count != count or out_kind != kind:
                raise refusal(f"out has {out_count} elements of {NAMES[out_kind]}, and x {count} of {NAMES[kind]}: "
                              "pass arrays of one type with as many elements")
        before = self._kept[index]
        self._kept[index] = (before, owner)  # both, as a KeyboardInterrupt may come before it is known which counts
        code = self._call(_push, index, where, to, count, kind, None)
        self._kept[index] = before if code else owner
        if code:
            raise error(code)

    def wait(self, tensor: Optional[str] = None) -> None:
        """Waits until the sum of a tensor is there; without a name, for all tensors: that ends the step."""
        if tensor is None:
            before = list(self._kept)
            self._check(self._call(C["tuttiFusionWaitAll"]))
            for index, kept in enumerate(before):
                self._release(index, kept)
            return
        index = self._number(tensor)
        kept = self._kept[index]
        self._check(self._call(C["tuttiFusionWait"], index))
        self._release(index, kept)

    def done(self, tensor: str) -> bool:
        """Whether the sum of a tensor is there; if so it has been waited for."""
        index = self._number(tensor)
        kept = self._kept[index]
        code = self._call(C["tuttiFusionQuery"], index)
        if code == IN_PROGRESS:
            return False
        check(code)
        self._release(index, kept)
        return True

    def _check(self, code):
        """As check; an exception of the function that updates weights is the cause of this one."""
        if code and self._update_error is not None:
            raise error(code) from self._update_error
        check(code)

    def _release(self, index, kept):
        """Arrays that were waited for may go, unless another thread has pushed others meanwhile."""
        if self._kept[index] is kept:
            self._kept[index] = None

    def _call(self, function, *arguments):
        """Calls a function of the library that any thread may be in; returns its code. See close."""
        thread = get_ident()
        try:
            self._calls[thread] = [thread]
            return function(self._open(), *arguments)
        finally:
            self._calls.pop(thread, None)

    @property
    def _inside(self):
        """The call of the main thread, see _interrupt."""
        return self._calls.get(threading.main_thread().ident)

    def scale(self, before: float = 1.0, after: float = 1.0) -> None:
        """From the next step on contributions are multiplied by ``before``, and results by ``after``.

        All ranks give the same ``after``. For floats only.
        """
        check(self._call(C["tuttiFusionScale"], number("before", before), number("after", after)))

    def overflow(self) -> bool:
        """Whether an element of the step that ended last was or became infinite or NaN on any rank."""
        flag = c_int()
        check(self._call(C["tuttiFusionOverflow"], byref(flag)))
        return bool(flag.value)

    def codec(self, codec: Optional[str]) -> None:
        """Sets another codec from the next step on, on all ranks alike, between steps; None or "none": no codec."""
        check(self._call(C["tuttiFusionCodec"], words("codec", codec)))

    def rate(self, rate: float) -> None:
        """Sets the rate by which weights are updated, from the next step on, on all ranks alike.

        With ``quorum`` a rank may skip steps, so a schedule goes by ``info().updates``, not by a count of its own.
        """
        check(self._call(C["tuttiFusionRate"], number("rate", rate)))

    def get_state(self, tensor: str, plane: int, out: Array) -> None:
        """Reads a plane of a tensor to an array of as many float32: 0, the weights of an update, and so on.

        It is zero but for what this rank owns (``man tuttiFusionState``): a checkpoint is the sum over the ranks.
        """
        self._state(tensor, plane, out, 0)

    def set_state(self, tensor: str, plane: int, x: Array) -> None:
        """Writes a plane of a tensor from an array of as many float32, the same on all ranks. Between steps."""
        self._state(tensor, plane, x, 1)

    def _state(self, tensor, plane, x, sets):
        where, count, kind, _ = look(x, "x" if sets else "out", None, not sets, True)
        if NAMES[kind] != "float32":
            raise refusal(f"planes are float32, not {NAMES[kind]}")
        index, plane = self._number(tensor), whole("plane", plane, 0, 7)
        check(self._call(C["tuttiFusionState"], index, plane, where, count, sets))

    def move(self, comm: Comm) -> None:
        """Goes on over the communicator of a ``shrink`` or a ``grow``, with what codecs and updates have kept.

        It is collective over ``comm``: new ranks make a ``Fusion`` with the same tensors and options. A fusion that has
        failed moves as well; else all tensors must have been waited for. All go on behind the same step, which
        ``info().steps`` tells: push the gradients of the next one. Weights of which a rank that is gone had the masters
        are given again by ``set_state(name, 0, weights)``, on all ranks (``man tuttiFusionMove``). With servers ranks
        keep their own steps; with a quorum the first step of a rank that is behind, or new, gives the newest weights.
        """
        if not isinstance(comm, Comm):
            raise refusal(f"comm is of type {type(comm).__name__}: it must be a tutti.Comm")
        handle, self._handle = c_void_p(self._open()), None
        try:
            check(comm._watched(C["tuttiFusionMove"], byref(handle), comm._open()))
            self._comm._fusions.discard(self)
            comm._fusions.add(self)
            self._comm, self._kept = comm, [None] * len(self._kept)
        finally:
            self._handle = handle.value

    def norm(self, tensor: str) -> float:
        """The L2 norm of a tensor's sum, the same bits on all ranks; after its wait and before its next push."""
        norm = c_double()
        check(self._call(C["tuttiFusionNorm"], self._number(tensor), byref(norm)))
        return norm.value

    def info(self) -> FusionInfo:
        """The state: plans, measured and predicted times."""
        info = _library.FusionInfo(size=ctypes.sizeof(_library.FusionInfo))
        check(self._call(C["tuttiFusionGetInfo"], byref(info)))
        values = {name: getattr(info, name) for name in FusionInfo._fields}
        return FusionInfo(**{**values, "is_by_priority": bool(info.is_by_priority)})

    def plan(self, json: bool = False) -> str:
        """The present plan in words, or as `tutti plan --json` prints it. Between steps."""
        system = ctypes.CDLL(None)
        system.open_memstream.restype = c_void_p
        text, length = c_char_p(), c_size_t()
        out = c_void_p(system.open_memstream(byref(text), byref(length)))
        try:
            code = self._call(C["tuttiFusionPrint"], out, int(json))
        finally:
            system.fclose(out)
        said = ctypes.string_at(text, length.value).decode()
        system.free(text)
        check(code)
        return said

    def abort(self) -> None:
        """Ends the step under way on all ranks, with TuttiRemoteError; from any thread. It still has to be closed."""
        with _interrupt.LOCK:  # a wait that it ends may be followed by close at once
            code = C["tuttiFusionAbort"](self._open())
        check(code)

    def close(self) -> None:
        """Ends the fusion; a step that is under way is abandoned. Again: nothing happens.

        Other threads that are in a call meanwhile get an error.
        """
        with _interrupt.LOCK:
            handle, self._handle = self._handle, None
        if handle is None:
            return
        if self._elsewhere():
            C["tuttiFusionAbort"](handle)
        while self._elsewhere():
            time.sleep(1e-4)
        C["tuttiFusionDestroy"](handle)
        self._kept = [None] * len(self._kept)

    def _elsewhere(self):
        """Whether another thread is in a call, or about to be: it may have the handle."""
        return any(thread != get_ident() for thread in list(self._calls))

    def _end_call(self):
        """Ends a wait (see _interrupt)."""
        C["tuttiFusionAbort"](self._handle)

    def _forget(self):
        """This is a child of the process whose fusion it is."""
        self._handle = None

    def __enter__(self) -> "Fusion":
        return self

    def __exit__(self, kind, why, trace):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()
