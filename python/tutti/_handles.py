# SPDX-License-Identifier: BSD-3-Clause
"""Calls that go on after they have returned: handles, and groups of calls."""
import os
import threading
import time
from ctypes import byref, c_int, c_void_p
from typing import Any, Optional

from . import _interrupt
from ._library import C, Held, IN_PROGRESS, THREAD, TuttiUsageError, check, error, refusal

_query = C["tuttiStreamQuery"]
_LOCK = threading.RLock()  # the collector of garbage may end a communicator anywhere
_KEPT = 64    # streams for the next handles, and events for the next awaits
_idle: list = []
_events: list = []  # pairs of event and descriptor


def _forked():
    """In a child of this process: these are the parent's, and another thread of it may have held the lock."""
    global _LOCK
    _LOCK = threading.RLock()
    _idle.clear()
    _events.clear()


os.register_at_fork(after_in_child=_forked)

OPEN: list = []  # the groups that any thread has open


def take_stream():
    """A stream of its own for each call that is not waited for: so each can be asked whether it is done."""
    try:
        return _idle.pop()
    except IndexError:
        stream = c_void_p()
        check(C["tuttiStreamCreate"](byref(stream)))
        return stream.value


def give_stream(stream, code):
    """A stream that had an error keeps it, so it is not used again."""
    if code or len(_idle) >= _KEPT:
        C["tuttiStreamDestroy"](stream)
    else:
        _idle.append(stream)


def _take_event():
    """An event with its descriptor, which an event loop can watch."""
    try:
        return _events.pop()
    except IndexError:
        event, descriptor = c_void_p(), c_int()
        check(C["tuttiEventCreate"](byref(event)))
        code = C["tuttiEventDescriptor"](event, byref(descriptor))
        if code:
            why = error(code)
            C["tuttiEventDestroy"](event)
            raise why
        return event.value, descriptor.value


def _give_event(pair):
    if len(_events) >= _KEPT:
        C["tuttiEventDestroy"](pair[0])
    else:
        _events.append(pair)


class Handle(Held):
    """An operation that was started with ``async_=True``.

    Its arrays must not be touched until it is done; they are kept alive. Operations of one communicator are carried out
    in the order of the calls. A handle can be dropped: the operation goes on.
    """

    __slots__ = ("_comm", "_stream", "_keep", "_result", "_error", "_group")

    def __init__(self, comm, stream, keep, result, group):
        self._comm, self._stream, self._keep, self._result = comm, stream, keep, result
        self._error: Optional[BaseException] = None
        self._group = group  # it has not started while this is there

    def done(self) -> bool:
        """Whether the operation has ended, also by an error. It never waits."""
        with _LOCK:
            if self._stream is None:
                return True
            if self._group is not None:
                return False
            code = _query(self._stream)
            if code == IN_PROGRESS:
                return False
            self._end(code, error(code) if code else None)
            return True

    def _end(self, code, why):
        """A KeyboardInterrupt may come between any two lines: the stream is never given twice."""
        self._error = why
        stream, self._stream = self._stream, None
        give_stream(stream, code)
        self._keep = self._comm = self._group = None

    def _start(self, why):
        """Its group has ended, by the error `why` if there is one: then what has not started never will."""
        with _LOCK:
            self._group = None
            if why is not None and self._stream is not None and _query(self._stream) == 0:
                self._end(0, why)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits until the operation has ended; returns the array with the result.

        ``timeout``: seconds. Ctrl-C ends the wait, not the operation.

        Errors: TimeoutError: it was not done in time, and goes on. TuttiUsageError: its group is still open in this
        thread. Else the error of the operation.
        """
        if self._group is not None and self._group is THREAD.group:
            raise refusal("wait() was called inside the group of the call: leave the group first", TuttiUsageError)
        began = now = time.perf_counter()
        while not self.done():
            waited = now - began
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"the operation is not done after {timeout} s")
            # The processor is left to the thread that does the work; later the wait is at most an eighth too long.
            time.sleep(0 if waited < 1e-4 else min(waited / 8, 1e-3))
            now = time.perf_counter()
        if self._error is not None:
            raise self._error
        return self._result

    def __await__(self):
        """``await handle`` gives the array with the result; the event loop goes on meanwhile, and is woken."""
        import asyncio  # takes long, and few need it

        while not self.done() and (self._group is not None or THREAD.group is not None):
            yield from asyncio.sleep(1e-3).__await__()  # another task may leave the group
        if not self.done():
            yield from self._watch(asyncio.get_running_loop()).__await__()
        return self.wait()

    def _event(self):
        """A pair of an event and its descriptor, which becomes readable when the operation has ended; None: it has
        ended, or has not started. Whoever asks gives it back (_give_event)."""
        with _LOCK:
            if self._stream is None or self._group is not None:
                return None
            pair = _take_event()
            code = C["tuttiEventRecord"](pair[0], self._stream)
            if code:
                _give_event(pair)
                raise error(code)
            return pair

    async def _watch(self, loop):
        """Waits until the operation has ended, which makes the descriptor of an event readable."""
        pair = self._event()
        if pair is None:
            return
        ended = loop.create_future()
        try:
            loop.add_reader(pair[1], lambda: ended.done() or ended.set_result(None))
            try:
                await ended
            finally:
                loop.remove_reader(pair[1])
        finally:
            _give_event(pair)


class Group(Held):
    """Collects the calls of this thread and starts them together; made by ``tutti.group()``."""

    _inside = None

    def __init__(self):
        self._depth = 0
        self._comms: set = set()
        self._keep: list = []
        self._handles: list = []

    def __enter__(self) -> "Group":
        self._depth += 1
        if THREAD.group is not None:
            return self
        try:
            check(C["tuttiGroupStart"]())
            THREAD.group = self
            OPEN.append(self)
            return self
        except KeyboardInterrupt:  # the library's group may be open: calls of this thread would only be collected there
            self._depth, THREAD.group = 0, None
            OPEN[:] = [group for group in OPEN if group is not self]
            C["tuttiRefuse"](TuttiUsageError.code, b"the group was interrupted when it began")
            C["tuttiGroupEnd"]()
            raise

    def __exit__(self, kind, why, trace):
        self._depth -= 1
        if why is not None:
            said = f"the group was left by {kind.__name__}: {why}"
            C["tuttiRefuse"](TuttiUsageError.code, said.encode(errors="replace")[:511])
        if THREAD.group is not self or self._depth:
            return
        _interrupt.track(self)
        wrong = None
        try:
            self._inside = [threading.get_ident()]
            code = C["tuttiGroupEnd"]()
            wrong = error(code) if code else None
        finally:
            self._inside = THREAD.group = None
            OPEN.remove(self)
            for handle in self._handles:
                handle._start(wrong)
            self._keep, self._handles, self._comms = [], [], set()
        if wrong is not None and why is None:
            raise wrong

    def _add(self, comm, keep, handle):
        """Notes a call of the group: its buffers live until all calls have been started, or are done."""
        self._comms.add(comm)
        self._keep.append(keep)
        if handle is not None:
            self._handles.append(handle)

    def _end_call(self):
        """Ends the waiting of tuttiGroupEnd."""
        for comm in list(self._comms):
            comm._end_call()

    def _forget(self):
        """This is a child of the process that opened it."""


def group() -> Group:
    """``with tutti.group():`` starts the calls inside together, and waits for all of them at the end.

    Ranks that send to each other and receive must do both inside a group. Until the group is left, calls are only
    checked and collected; arrays must not be touched. Calls with ``async_=True`` return handles, which are not waited
    for. If a call is refused, or the block ends with an exception, none of them starts. Groups nest; they are of one
    thread. Communicators cannot be made inside.

    Errors, at the end: the first refusal or error of a call of the group.
    """
    return Group()
