# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: how they are made and end, and their collectives."""
import atexit
import collections
import sys
import time
import weakref
from ctypes import byref, c_int, c_void_p, sizeof
from threading import get_ident
from typing import Any, List, Optional, Sequence, Union

from . import _interrupt, _library
from ._arrays import Array, NAMES, SIZES, UINT8, element, look, type_code
from ._handles import OPEN, Handle, take_stream
from ._launch import launch, unique_of
from ._options import config_of
from ._parts import has_parts, look_parts
from ._library import (C, Held, IN_PROGRESS, INT_MOST, THREAD, TuttiUsageError, check, error, number, refusal,
                       whole, words)

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4, "and": 5, "or": 6, "xor": 7}
_all_reduce = C["tuttiAllReduce"]


def init(*, id: Optional[bytes] = None, rank: Optional[int] = None, size: Optional[int] = None, **options) -> "Comm":
    """Joins a communicator of all processes that the launcher has started, or of `size` ranks that have one id.

    ``tutti.init()`` finds launcher and rank by itself (see ``launch``); without a launcher it is a job of one.
    ``tutti.init(id=bytes, rank=r, size=n)`` takes them from the program, with an id of ``unique_id()``. The call is
    collective: it returns when all ranks have joined. Ctrl-C ends it. An id makes one communicator: make others by
    ``Comm.split``.

    Options, each as the C library has it (``man 3 tutti``), the environment overrides them:
    ``timeout_ms``: a rank this late is an error; default 1,800,000 (30 minutes); 0: never.
    ``init_timeout_ms``: this call waits so long for all ranks, at least 1; default 300,000 (5 minutes).
    ``name``: of the communicator, in errors; at most 63 bytes. With a dot in front it is of a layer above the library.
    ``transports``: allowed ones in order of preference, such as "shm,tcp".
    ``deterministic``: True: bits of a reduction depend on the values and the number of ranks only.
    ``wire_type``: "float16" or "bfloat16": the type in which reductions of float32 travel.
    ``fault_level``: 1: collectives end alike on all survivors, which go on; 3: each rank is 3 processes
    (TUTTI_REPLICAS), of which 2 must live; 0: the first failure ends all (default).
    ``learn``: 1: repeated calls find the quickest algorithm (default); 0: predictions; 2: as earlier jobs have learnt.

    Errors: TuttiArgumentError: an argument is wrong. TuttiUsageError: ranks differ, or an id is used twice.
    TuttiRemoteError: a rank died, or did not come in time. TuttiSystemError: a resource is missing.
    """
    if id is None:
        if rank is not None or size is not None:
            raise refusal(f"rank is {rank} and size is {size}, but id is None: give all three, or none")
        job = launch()
        id, rank, size = job.id, job.rank, job.size
    return join(id, whole("rank", rank), whole("size", size, 1), options)


def join(id, rank, size, options, alive=None):
    """Joins a communicator. alive(), if given, is called now and then; it raises to give up."""
    config, unique, handle = config_of(options), unique_of(id), c_void_p()
    return _join(C["tuttiCommInitRankConfig"](byref(handle), size, unique, rank, byref(config)), handle, alive)


def _join(code, handle, alive=None):
    """Waits until a communicator is made; in slices, so that Ctrl-C can end it."""
    try:
        state, began = c_int(code), time.perf_counter()
        if code not in (0, IN_PROGRESS):
            raise error(code)
        while True:
            check(C["tuttiCommGetAsyncError"](handle, byref(state)))
            if state.value != IN_PROGRESS:
                break
            if alive is not None:
                alive()
            time.sleep(min(max((time.perf_counter() - began) / 16, 2e-5), 1e-2))
        check(state.value, handle)
    except BaseException:
        if handle.value:
            C["tuttiCommAbort"](handle)
        raise
    return Comm(handle.value)


class ReduceOp(Held):
    """A sum with a scalar, made by ``Comm.scaled_sum``: for ``op=`` of the same communicator and type."""

    def __init__(self, comm, value):
        self._dropped, self.value = comm._dropped, value

    def __del__(self):
        self._dropped.append(self.value)  # any thread may be here; that of the communicator ends it


Op = Union[str, ReduceOp]


class Comm(Held):
    """One rank's membership in a group of ranks; made by ``tutti.init``, ``split``, ``shrink`` and ``grow``.

    ``rank``: of this process, 0 .. size - 1. ``size``: the number of ranks. With ``fault_level`` 1 losses change both.

    Arrays are numpy arrays, torch tensors in host memory, or anything that has the buffer protocol,
    ``__array_interface__`` or DLPack; contiguous in C order. Numbers of elements count, not shapes. Reductions take the
    types of ``tutti.TYPES``; what only moves elements takes any type but objects. ``dtype=`` names the type where an
    array cannot (bfloat16 in an array of uint16, any type in bytes).

    All ranks call the same collectives in the same order, with the same types, numbers of elements, ``op`` and
    ``root``. Each call waits until its result is there, while other threads run Python. With ``async_=True`` it returns
    a ``Handle`` at once. Inside ``tutti.group()`` calls are collected. A communicator is used by one thread at a time.

    ``op`` is "sum", "prod", "max", "min", "avg", "and", "or", "xor", or what ``scaled_sum`` gives. The bitwise
    ones are for integers and bool; bool has no "avg" and no scaled sum, complex numbers have "sum" and "avg" alone.

    Errors of every call: TuttiArgumentError: an argument is wrong; nothing was sent. TuttiUsageError: the calls of two
    ranks differ (both are named), or the communicator is closed or was revoked. TuttiRemoteError: a rank died, left, is
    unreachable or too late; ``failed`` tells which, ``shrink`` makes a communicator of the others. After all but
    TuttiArgumentError the communicator moves no more data. Ctrl-C ends a call that waits in the main thread by
    KeyboardInterrupt: the communicator is revoked, so the other ranks get a TuttiUsageError that names this one.

    As a context manager it is closed at the end, or aborted if the block is left by an exception.
    """

    def __init__(self, handle):
        self._handle: Optional[int] = handle
        self._inside = None
        self._pending: collections.deque = collections.deque()
        self._dropped: list = []  # numbers of operations
        self._fusions: "weakref.WeakSet" = weakref.WeakSet()
        self._facts: dict = {}
        self._first_size, _ = self.size, self.rank
        _interrupt.track(self)

    def _fact(self, name):  # of a closed communicator: what was so last
        if self._handle is not None:
            check(C[name](self._handle, byref(self._facts.setdefault(name, c_int()))))
        return self._facts[name].value

    @property
    def rank(self) -> int:
        return self._fact("tuttiCommUserRank")

    @property
    def size(self) -> int:
        return self._fact("tuttiCommCount")

    @property
    def address(self) -> Optional[str]:
        """Where other hosts reach this rank, at the interface that TUTTI_SOCKET_IFNAME chooses; None: nowhere."""
        info = _library.CommInfo(size=sizeof(_library.CommInfo))
        check(C["tuttiCommGetInfo"](self._open(), byref(info)))
        return info.address.decode() or None

    def __repr__(self):
        state = ", closed" if self._handle is None else ""
        return f"<tutti.Comm: rank {self.rank} of {self.size}{state}>"

    # ---- calls ----

    def _open(self):
        if self._handle is None:
            raise refusal("this communicator is closed: make another one", TuttiUsageError)
        return self._handle

    def _call(self, async_, result, keep, function, *arguments):
        """Calls a function of the library for this communicator."""
        handle = self._handle
        if handle is None:
            self._open()
        if async_ or (OPEN and THREAD.group is not None):
            return self._queue(async_, result, keep, function, arguments)
        self._inside = [get_ident()]
        try:
            code = function(*arguments, handle, None)
        finally:
            self._inside = None
        if code:
            raise error(code)
        return result

    def _queue(self, async_, result, keep, function, arguments):
        """A call that is not waited for, or not here."""
        while self._pending and self._pending[0].done():
            self._pending.popleft()
        group, handle, stream = THREAD.group, None, None
        if async_:
            stream = take_stream()
            handle = Handle(self, stream, keep, result, group)
            self._pending.append(handle)
        if group is not None:
            group._add(self, keep, handle)
        code = function(*arguments, self._handle, stream)  # all is noted: a KeyboardInterrupt behind it loses nothing
        if code:
            why = error(code)
            if handle is not None:
                handle._end(code, why)
            raise why
        return handle if async_ else result

    def _op(self, op):
        if isinstance(op, str) and op in OPS:
            return OPS[op]
        if isinstance(op, ReduceOp):
            return op.value
        raise refusal(f"op is {op!r}: it must be one of {', '.join(OPS)}, or what Comm.scaled_sum gives")

    def _pair(self, x, out, dtype, reduces, shares=(1, 1)):
        """Both arrays of a call: (address, address, elements of one share, type, owners).

        x has shares[0] shares and out shares[1]; an array of 0 shares is not looked at. out None: it is x.
        """
        where, count, kind, keep = (None, None, None, None)
        if shares[0]:
            where, count, kind, keep = look(x, "x", dtype, out is None and shares[1] > 0, reduces)
            count = self._share("x", count, shares[0])
        if out is None or not shares[1]:
            return where, where if shares[1] else None, count, kind, keep
        to, out_count, out_kind, out_keep = look(out, "out", dtype, True, reduces)
        out_count = self._share("out", out_count, shares[1])
        if shares[0] and (count != out_count or kind != out_kind):
            raise self._unlike(count, out_count, kind, out_kind, shares)
        return where, to, out_count, out_kind, (keep, out_keep)

    @staticmethod
    def _share(name, count, shares):
        if count % shares:
            raise refusal(f"{name} has {count} elements, which is no multiple of the {shares} ranks: pass an array of "
                          f"{shares} equal shares")
        return count // shares

    @staticmethod
    def _unlike(count, out_count, kind, out_kind, shares):
        if kind != out_kind:
            return refusal(f"out has elements of {NAMES[out_kind]}, and x of {NAMES[kind]}: pass arrays of one type")
        return refusal(f"out has {out_count * shares[1]} elements, and x has {count * shares[0]}: out must have "
                       f"{count * shares[1]}")

    def _root(self, root, name="root"):
        if not hasattr(root, "__index__") or not 0 <= root < self.size:
            raise refusal(f"{name} is {root!r}: it must be from 0 to size - 1 = {self.size - 1}")
        return root

    # ---- collectives ----

    def all_reduce(self, x: Array, op: Op = "sum", *, out: Optional[Array] = None, dtype: Optional[str] = None,
                   async_: bool = False) -> Any:
        """Combines the arrays of all ranks; each rank gets the result: out[i] = op over all ranks r of x_r[i].

        In place in ``x``, or in ``out`` of as many elements, which does not overlap x. Returns the array with the
        result, the same bits on all ranks.
        """
        try:
            number = OPS[op]  # type: ignore[index]
        except (KeyError, TypeError):
            number = self._op(op)
        if out is None:
            where, count, kind, keep = look(x, "x", dtype, True, True)
            return self._call(async_, x, keep, _all_reduce, where, where, count, kind, number)
        where, to, count, kind, keep = self._pair(x, out, dtype, True)
        return self._call(async_, out, keep, _all_reduce, where, to, count, kind, number)

    def all_reduce_with(self, x: Array, op: Op = "sum", *, out: Optional[Array] = None, dtype: Optional[str] = None,
                        wire_type: Optional[str] = None, scale_before: float = 1.0, scale_after: float = 1.0,
                        overflow: Optional[Array] = None, codec: Optional[str] = None, async_: bool = False) -> Any:
        """``all_reduce`` with options.

        ``wire_type``: "float16" or "bfloat16": float32 is combined and travels in that type, at half the bytes; default
        as for the communicator. ``scale_before``: each contribution of this rank is multiplied by it; ``scale_after``:
        each result is; not 0, and for floats only. ``overflow``: an array of one int32 that becomes 1 if any element
        on any rank was or became infinite or NaN, else 0, alike on all ranks; it counts when the result is there.
        ``codec``: float32 travels in fewer bits, e.g. "int8" or "qsgd:4"; for sums and averages. None or "none": no
        codec. ``man tuttiAllReduceWith`` has the bound of the error, and all codecs.
        """
        where, to, count, kind, keep = self._pair(x, out, dtype, True)
        options = _library.make(_library.ReduceOptions)
        options.codec = words("codec", codec)
        if wire_type is not None:
            options.wire_type = type_code(wire_type, "wire_type")
        options.scale_before = number("scale_before", scale_before)
        options.scale_after = number("scale_after", scale_after)
        if overflow is not None:
            options.overflow, flags, flag_kind, keep_flag = look(overflow, "overflow", None, True)
            if flags != 1 or flag_kind != type_code("int32"):
                raise refusal(f"overflow has {flags} elements: it must be an array of one int32")
            keep = (keep, keep_flag)
        return self._call(async_, x if out is None else out, keep, C["tuttiAllReduceWith"], where, to, count, kind,
                          self._op(op), byref(options))

    def reduce(self, x: Array, root: int = 0, op: Op = "sum", *, out: Optional[Array] = None,
               dtype: Optional[str] = None, async_: bool = False) -> Any:
        """Combines the arrays of all ranks; the root gets the result: out[i] = op over all ranks r of x_r[i].

        On the root in place in ``x``, or in ``out`` of as many elements; other ranks' x is not written, and their out
        is not looked at. Returns the array with the result on the root, None on other ranks.
        """
        is_root = self._root(root) == self.rank
        where, to, count, kind, keep = self._pair(x, out, dtype, True, (1, 1 if is_root else 0))
        result = (x if out is None else out) if is_root else None
        return self._call(async_, result, keep, C["tuttiReduce"], where, to, count, kind, self._op(op), root)

    def broadcast(self, x: Optional[Array], root: int = 0, *, out: Optional[Array] = None,
                  dtype: Optional[str] = None, async_: bool = False) -> Any:
        """Copies the root's array to all ranks: out[i] = the root's x[i].

        In place in ``x`` on all ranks, or, on any of them, in ``out`` of as many elements; then x counts on the root
        only and may be None elsewhere. Returns the array with the result.
        """
        is_root = self._root(root) == self.rank
        if out is None:
            where, count, kind, keep = look(x, "x", dtype, not is_root)
            to = where
        else:
            where, to, count, kind, keep = self._pair(x, out, dtype, False, (1 if is_root else 0, 1))
        return self._call(async_, x if out is None else out, keep, C["tuttiBroadcast"], where, to, count, kind, root)

    def reduce_scatter(self, x: Union[Array, Sequence[Array]], out: Array, op: Op = "sum", *,
                       counts: Optional[Sequence[int]] = None, dtype: Optional[str] = None,
                       async_: bool = False) -> Any:
        """Combines the arrays of all ranks; each rank gets its share: out[i] = op over all r of x_r[rank * n + i].

        ``out`` has n elements, ``x`` size * n. In place out is the share of this rank in x, ``x[rank * n:(rank + 1) *
        n]``; then the rest of x is undefined afterwards. Returns out.

        Shares of any lengths, also of none: ``counts`` has the elements of each rank's share, which lie one behind the
        other in x; or x is a list of arrays, one for each rank. All ranks have the same counts.
        """
        if not has_parts(x, counts):
            where, to, count, kind, keep = self._pair(x, out, dtype, True, (self.size, 1))
            return self._call(async_, out, keep, C["tuttiReduceScatter"], where, to, count, kind, self._op(op))
        parts = look_parts(x, "x", counts, "counts", self.size, dtype, False, True)
        to, count, kind, keep = look(out, "out", dtype, True, True)
        self._own_check("out", count, kind, parts)
        return self._call(async_, out, (parts.keep, keep), C["tuttiReduceScatterV"], parts.address, to, parts.counts,
                          parts.displs, kind, self._op(op))

    def all_gather(self, x: Array, out: Union[Array, Sequence[Array]], *, counts: Optional[Sequence[int]] = None,
                   dtype: Optional[str] = None, async_: bool = False) -> Any:
        """Gives each rank the arrays of all ranks: out[r * n + i] = x_r[i].

        ``x`` has n elements, ``out`` size * n. In place x is the share of this rank in out. Returns out.

        Arrays of any lengths, also of none: ``counts`` has the elements of each rank's x, which come one behind the
        other in out; or out is a list of arrays, one for each rank. All ranks have the same counts.
        """
        if not has_parts(out, counts):
            where, to, count, kind, keep = self._pair(x, out, dtype, False, (1, self.size))
            return self._call(async_, out, keep, C["tuttiAllGather"], where, to, count, kind)
        where, count, kind, keep = look(x, "x", dtype)
        parts = look_parts(out, "out", counts, "counts", self.size, dtype, True)
        self._own_check("x", count * SIZES[kind], kind, parts)
        return self._call(async_, out, (keep, parts.keep), C["tuttiAllGatherV"], where, count * SIZES[kind],
                          parts.address, parts.counts, parts.displs, parts.kind)

    def _own_check(self, name, count, kind, parts):
        """The array of this rank has its count, and the type of the parts."""
        own = parts.counts[self.rank]
        if kind != parts.element:
            raise refusal(f"{name} has elements of {NAMES[kind]}, and the others are of {NAMES[parts.element]}: pass "
                          "arrays of one type")
        if count != own:
            unit = "elements" if parts.kind != UINT8 else "bytes"
            raise refusal(f"{name} has {count} {unit}, and the count of rank {self.rank} is {own}: they must be equal")

    def all_to_all(self, x: Union[Array, Sequence[Array]], out: Optional[Union[Array, Sequence[Array]]] = None, *,
                   send_counts: Optional[Sequence[int]] = None, recv_counts: Optional[Sequence[int]] = None,
                   dtype: Optional[str] = None, async_: bool = False) -> Any:
        """Gives each rank its share of each rank's array: out[r * n + i] = x_r[rank * n + i].

        Both arrays have size * n elements. In place in ``x`` if there is no ``out``. Returns the array with the result.

        Shares of any lengths, also of none: ``send_counts`` has the elements of the share for each rank, which lie one
        behind the other in x, ``recv_counts`` those of the share from each rank, which come so in out; or x or out is a
        list of arrays, one for each rank. What a rank sends to another one, that one must receive. Then there is no in
        place.
        """
        if not has_parts(x, send_counts) and not has_parts(out, recv_counts):
            where, to, count, kind, keep = self._pair(x, out, dtype, False, (self.size, self.size))
            return self._call(async_, x if out is None else out, keep, C["tuttiAlltoAll"], where, to, count, kind)
        if out is None:
            raise refusal("out is None: shares of any lengths need an array for the results")
        sent = look_parts(x, "x", send_counts, "send_counts", self.size, dtype)
        taken = look_parts(out, "out", recv_counts, "recv_counts", self.size, dtype, True)
        if sent.element != taken.element:
            raise self._unlike(0, 0, sent.element, taken.element, (1, 1))
        return self._call(async_, out, (sent.keep, taken.keep), C["tuttiAlltoAllV"], sent.address, sent.counts,
                          sent.displs, taken.address, taken.counts, taken.displs, taken.kind)

    def barrier(self, *, async_: bool = False) -> Any:
        """Waits for all ranks: it returns once all ranks have called it. Returns None."""
        return self._call(async_, None, None, C["tuttiBarrier"])

    def gather(self, x: Array, out: Optional[Array] = None, root: int = 0, *, dtype: Optional[str] = None,
               async_: bool = False) -> Any:
        """Gives the root the arrays of all ranks: there out[r * n + i] = x_r[i].

        ``x`` has n elements, ``out`` size * n on the root; elsewhere it is not looked at. In place on the root x is its
        share in out. Returns out on the root, None on other ranks.
        """
        is_root = self._root(root) == self.rank
        if is_root and out is None:
            raise refusal("out is None on the root: pass an array of size * n elements")
        where, to, count, kind, keep = self._pair(x, out, dtype, False, (1, self.size if is_root else 0))
        return self._call(async_, out if is_root else None, keep, C["tuttiGather"], where, to, count, kind, root)

    def scatter(self, x: Optional[Array], out: Array, root: int = 0, *, dtype: Optional[str] = None,
                async_: bool = False) -> Any:
        """Gives each rank its share of the root's array: out[i] = the root's x[rank * n + i].

        ``out`` has n elements, ``x`` size * n on the root; elsewhere it is not looked at and may be None. In place on
        the root out is its share in x. Returns out.
        """
        is_root = self._root(root) == self.rank
        if out is None:
            raise refusal("out is None: pass an array of n elements")
        where, to, count, kind, keep = self._pair(x, out, dtype, False, (self.size if is_root else 0, 1))
        return self._call(async_, out, keep, C["tuttiScatter"], where, to, count, kind, root)

    # ---- messages ----

    def send(self, x: Array, peer: int, *, dtype: Optional[str] = None, async_: bool = False) -> Any:
        """Sends the array to rank ``peer``, which calls ``recv`` for this rank with as many bytes.

        Messages from one rank to another are received in the order of the calls. Ranks that send to each other and
        receive do both inside one ``tutti.group()``; so does a rank that sends to itself. There are no tags, and no
        receiving from any rank. Returns None.
        """
        where, count, kind, keep = look(x, "x", dtype)
        return self._call(async_, None, keep, C["tuttiSend"], where, count, kind, self._root(peer, "peer"))

    def recv(self, x: Array, peer: int, *, dtype: Optional[str] = None, async_: bool = False) -> Any:
        """Receives a message of rank ``peer`` into the array, see ``send``. Returns the array."""
        where, count, kind, keep = look(x, "x", dtype, True)
        return self._call(async_, x, keep, C["tuttiRecv"], where, count, kind, self._root(peer, "peer"))

    # ---- other operations and communicators ----

    def scaled_sum(self, factor: Union[int, float, Array], dtype: str = "float32") -> ReduceOp:
        """Makes an ``op``: the contributions of this rank are multiplied by ``factor``, and summed.

        It is for arrays of ``dtype`` on this communicator; ranks may have different factors, and all of them give such
        an op. ``factor`` is a number, or an array of one element (bfloat16 and the floats of 8 bits).
        """
        value, kind = c_int(), type_code(dtype)
        where, _, _, keep = look(element(factor, dtype), "factor", dtype)
        handle = self._open()
        while self._dropped:
            C["tuttiRedOpDestroy"](self._dropped.pop(), handle)
        check(C["tuttiRedOpCreatePreMulSum"](byref(value), where, kind, 1, handle))
        del keep
        return ReduceOp(self, value.value)

    def split(self, color: Optional[int], key: Optional[int] = None, **options) -> Optional["Comm"]:
        """Makes a communicator of the ranks that give the same ``color``, for each color; collective over this one.

        Ranks are in the order of their ``key`` (default: their rank here). With color None this rank gets None. This
        communicator stays as it is. ``options`` as for ``tutti.init``; default: those of this communicator.
        """
        part = -1 if color is None else whole("color", color)
        place = self.rank if key is None else whole("key", key, -INT_MOST)
        config, handle = config_of(options), c_void_p()
        code = self._watched(C["tuttiCommSplit"], self._open(), part, place, byref(handle), byref(config))
        if color is None:
            check(code)
            return None
        return _join(code, handle)

    def shrink(self, exclude: Sequence[int] = (), *, abort: bool = False, **options) -> "Comm":
        """Makes a communicator of the ranks that are not in ``exclude``; only they call it, with the same list.

        After a failure: ``comm.shrink(comm.failed(), abort=True)``. If another rank has died meanwhile do both again.
        ``abort``: operations of this communicator are ended first; without it, it must be healthy or revoked.
        ``options`` as for ``split``.

        Errors: TuttiArgumentError: a rank of the list is wrong. TuttiUsageError: the lists of two ranks differ.
        TuttiRemoteError: a survivor died, or this communicator has failed and ``abort`` is False.
        """
        ranks = [self._root(rank, "a rank in exclude") for rank in exclude]
        config, handle = config_of(options), c_void_p()
        code = self._watched(C["tuttiCommShrink"], self._open(), (c_int * len(ranks))(*ranks), len(ranks),
                             byref(handle), byref(config), 1 if abort else 0)
        return _join(code, handle)

    def grow(self, size: int, id: Optional[bytes] = None, **options) -> "Comm":
        """Makes a communicator of these ranks, with their numbers, and new ones behind them: ``size`` in all.

        It is collective over this communicator, which stays as it is. ``id`` is that of ``tutti.unique_id()``: one rank
        makes it, gives it here, and sends it to the new processes, which call ``tutti.init(id=id, rank=r, size=size)``
        with r from the present size on; other ranks may leave it out. ``options`` as for ``split``; those that this
        communicator was made with go to the ``tutti.init`` of the new ranks, too.

        Errors: TuttiArgumentError: size is not above the present one. TuttiUsageError: the calls of two ranks differ,
        no rank gave an id, or it was used before. TuttiRemoteError: a rank died, or did not come in time
        (``init_timeout_ms``); then another try needs another id.
        """
        unique = None if id is None else byref(unique_of(id))
        config, handle = config_of(options), c_void_p()
        code = self._watched(C["tuttiCommGrow"], self._open(), whole("size", size), unique, -1, byref(handle),
                             byref(config))
        return _join(code, handle)

    def _watched(self, function, *arguments):
        """A call that Ctrl-C can end by revoking this communicator."""
        self._inside = [get_ident()]
        try:
            return function(*arguments)
        finally:
            self._inside = None

    def failed(self) -> List[int]:
        """The ranks that have failed, as far as this rank knows, ascending; it never waits. See ``shrink``."""
        count = c_int(self._first_size)
        ranks = (c_int * self._first_size)()
        check(C["tuttiCommGetFailed"](self._open(), ranks, byref(count)))
        return list(ranks[:count.value])

    def revoke(self) -> None:
        """Ends all operations on all ranks with TuttiUsageError, but not the communicator: ``shrink`` it.

        It may be called from any thread, and does not wait for other ranks. With ``fault_level`` 1 only this rank ends.
        """
        with _interrupt.LOCK:  # a call that it ends may be followed by close at once
            check(C["tuttiCommRevoke"](self._open(), 0))

    def abort(self) -> None:
        """Stops everything in progress and closes the communicator; other ranks see this rank leave.

        It may be called from any thread. Calls that wait inside raise TuttiRemoteError. Its fusions are aborted, too:
        one with servers serves other ranks no more.
        """
        self._abort_fusions()
        self._end(C["tuttiCommAbort"])

    def _abort_fusions(self):
        for fusion in list(self._fusions):
            with _interrupt.LOCK:
                if fusion._handle is not None:
                    fusion._end_call()

    def close(self) -> None:
        """Waits for operations with handles, then frees the communicator and its fusions. Again: nothing happens.

        It does not wait for other ranks' close. Errors of operations are told by their handles, not here.
        """
        if self._handle is not None and self._pending:
            self._watched(C["tuttiCommFinalize"], self._handle)
        self._end(C["tuttiCommDestroy"])

    def _end(self, how):
        for fusion in list(self._fusions):
            fusion.close()
        with _interrupt.LOCK:
            handle, self._handle = self._handle, None
        if handle is not None:
            how(handle)
        while self._pending:  # all are done
            self._pending.popleft().done()

    def _end_call(self):
        """Ends a call that waits (see _interrupt)."""
        C["tuttiCommRevoke"](self._handle, 0)

    def _forget(self):
        """This is a child of the process whose communicator it is."""
        self._handle = None

    def _leave(self):
        """Ends it without waiting for anything."""
        busy = self._inside is not None or any(not handle.done() for handle in self._pending)
        self._end(C["tuttiCommAbort" if busy else "tuttiCommDestroy"])

    def __enter__(self) -> "Comm":
        return self

    def __exit__(self, kind, why, trace):
        if why is None:
            self.close()
        else:
            self.abort()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self._leave()


def _leave_all():
    """At the end of the process memory goes that operations may still use.

    A program that has ended by an exception serves nobody any more.
    """
    for thing in list(_interrupt.OBJECTS):
        if isinstance(thing, Comm):
            if hasattr(sys, "last_value"):
                thing._abort_fusions()
            thing._leave()


atexit.register(_leave_all)
