# SPDX-License-Identifier: BSD-3-Clause
"""Operations that go on after the call has returned, as torch.distributed has them, and who waits at once."""
import contextlib
import inspect
import os
import select
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from .._handles import Handle, _give_event
from ._tensors import put

_LOCK = threading.Lock()
_KEPT = 1024  # operations that only C++ may hold
_LOOK_MS = 1000  # operations are looked at at least so often, whatever their events say
_WATCHED = 8  # operations of one communicator end in order: events of the first ones are enough
_kept: dict = {}


def _code(name):
    function = getattr(dist.distributed_c10d, name, None)
    return inspect.unwrap(function).__code__ if function is not None else None


# Functions of torch.distributed that wait for the operation before they return, if their async_op is False; and those
# that always do. Versions whose options do not say so tell it by the caller's variable.
_WITH_FLAG = {_code(name) for name in (
    "broadcast", "all_reduce", "all_reduce_coalesced", "reduce", "all_gather", "all_gather_into_tensor",
    "all_gather_coalesced", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all_single",
    "all_to_all", "barrier")} - {None}
_WAITING = {_code(name) for name in ("send", "recv")} - {None}
_ASYNCHRONOUS = {_code(name) for name in ("isend", "irecv")} - {None}
_TELLS = hasattr(dist.AllreduceOptions(), "asyncOp")

WAITS, RETURNS, UNKNOWN = range(3)


def caller(opts, depth=2):
    """What the caller of the backend's method does: it WAITS at once, RETURNS the work, or is UNKNOWN (C++)."""
    try:
        code = sys._getframe(depth).f_code
    except ValueError:  # a thread that has begun in C++
        return UNKNOWN
    if code in _WITH_FLAG:
        if _TELLS and opts is not None:
            return RETURNS if opts.asyncOp else WAITS
        return RETURNS if sys._getframe(depth).f_locals["async_op"] else WAITS
    if code in _WAITING:
        return WAITS
    return RETURNS if code in _ASYNCHRONOUS else UNKNOWN


class Done(dist._Work):
    """An operation that was done in the caller's thread."""

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True


DONE = Done()


class Work(dist._Work):
    """An operation under way: its handles, the tensors that it writes, and copies to make at its end."""

    def __init__(self, handles, results, copies=(), source=-1):
        super().__init__()
        self._handles, self._results, self._copies = handles, results, copies
        self._source = source
        self._future = None

    def keep(self):
        """C++ of older versions holds only its half of this object, until it has waited or asked for the future."""
        with _LOCK:
            _kept[id(self)] = self
            if len(_kept) > _KEPT:
                _kept.pop(next(iter(_kept)))
        return self

    def _let_go(self):
        if _kept:
            with _LOCK:
                _kept.pop(id(self), None)

    def settle(self):
        """Makes the copies once, when the handles are done."""
        if self._copies:  # until all are made, so that nobody goes on before
            with _LOCK:
                put(self._copies)
                self._copies = ()

    def is_completed(self):
        """Whether it has ended, also by an error. It never waits."""
        if not all(handle.done() for handle in self._handles):
            return False
        self._error()
        return True

    def wait(self, timeout=None):
        """Waits until it has ended; raises its error. `timeout`: a timedelta; then the operation goes on."""
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) and timeout else None
        until = None if limit is None else time.perf_counter() + limit
        try:
            for handle in self._handles:
                handle.wait(None if until is None else max(until - time.perf_counter(), 0))
        except TimeoutError:
            raise RuntimeError(f"the operation is not done after {limit} s, and goes on: not all ranks have come to "
                               "it, or it takes longer") from None
        finally:
            self._let_go()
        self.settle()
        return True

    def _error(self):
        """The error of an operation that has ended, or of its copies, which are made then."""
        try:
            for handle in self._handles:
                handle.wait()
            self.settle()
        except Exception as why:
            return why
        return None

    def is_success(self):
        return self.is_completed() and self._error() is None

    def exception(self):
        return self._error() if self.is_completed() else None

    def result(self):
        """The tensors with the result."""
        return list(self._results)

    def source_rank(self):
        return self._source

    _source_rank = source_rank

    def synchronize(self):
        self.wait()

    def get_future(self):
        """A torch.futures.Future of the tensors with the result."""
        if self._future is None:
            begun = torch.futures.Future()
            future = begun.then(self._outcome)  # so an exception is one for C++, too
            if self.is_completed():
                begun.set_result(None)
            else:
                _WATCHER.add(self, begun)
            self._future = future
        self._let_go()
        return self._future

    def _outcome(self, _):
        error = self._error()
        if error is not None:
            raise error
        return self.result()


class _Watcher:
    """Threads that complete futures; one is there once somebody has asked for a future.

    One of them watches. When it completes a future it leaves the watch to another: callbacks may wait for futures, too.
    """

    def __init__(self):
        self._changed = threading.Condition()
        self._watched = []
        self._is_watching = False
        self._idle = 0  # threads that wait for the watch, or have just been started
        self._events = {}  # of handles, with their descriptors
        self._again = 0.0  # until then operations are asked every millisecond
        self._pipe = None  # a byte in it tells who watches that there is one more

    def add(self, work, future):
        with self._changed:
            if self._pipe is None:
                self._pipe = os.pipe()
                os.set_blocking(self._pipe[0], False)
                os.set_blocking(self._pipe[1], False)
            self._watched.append((work, future))
            if self._is_watching:
                with contextlib.suppress(BlockingIOError):  # it is full of bytes already
                    os.write(self._pipe[1], b" ")
            self._call()

    def _call(self):
        """Sees to it that somebody watches. The lock is held."""
        if self._is_watching or not self._watched:
            return
        if self._idle:
            self._changed.notify()
        else:
            self._idle += 1
            threading.Thread(target=self._run, name="tutti-futures", daemon=True).start()

    def _run(self):
        while True:
            with self._changed:
                while self._is_watching or not self._watched:
                    self._changed.wait()
                self._idle -= 1
                self._is_watching = True
            try:
                future = self._next()
            finally:
                with self._changed:
                    self._is_watching = False
                    self._call()
            future.set_result(None)
            with self._changed:
                self._idle += 1

    def _next(self):
        """The future of the first operation that ends; others may end meanwhile, and are left for the next watch."""
        while True:
            with self._changed:
                watched = list(self._watched)
            for pair in watched:
                if self._has_ended(pair[0]):
                    with self._changed:
                        self._watched.remove(pair)
                    return pair[1]
            if time.monotonic() < self._again:
                time.sleep(1e-3)
                continue
            try:
                self._pause([handle for work, _ in watched for handle in work._handles if not handle.done()])
            except BaseException:  # told by the future; or no descriptors are left, which the library logs each time
                self._again = time.monotonic() + 1

    @staticmethod
    def _has_ended(work):
        """Whether a future can be completed: also by whatever is raised here, even a KeyboardInterrupt of before."""
        try:
            return work.is_completed()
        except BaseException:  # told by the future
            return True

    def _pause(self, handles):
        """Waits until one of them may have ended, or another operation is added."""
        for handle in self._events.keys() - set(handles):
            _give_event(self._events.pop(handle))
        counts: dict = {}
        for handle in handles:
            comm = getattr(handle, "_comm", None)
            counts[id(comm)] = count = counts.get(id(comm), 0) + 1
            if handle not in self._events and (comm is None or count <= _WATCHED):
                pair = handle._event() if isinstance(handle, Handle) else None
                if pair is None:  # a message goes on only while somebody waits for it
                    with contextlib.suppress(TimeoutError):
                        handle.wait(1e-3)
                    return
                self._events[handle] = pair
        poll = select.poll()
        for descriptor in (self._pipe[0], *(pair[1] for pair in self._events.values())):
            poll.register(descriptor, select.POLLIN)
        if any(descriptor == self._pipe[0] for descriptor, _ in poll.poll(_LOOK_MS)):
            with contextlib.suppress(BlockingIOError):
                os.read(self._pipe[0], 4096)

    def _forked(self):
        """In a child of this process: the threads have stayed in the parent, and the descriptors are the parent's."""
        for descriptor in (*(self._pipe or ()), *(pair[1] for pair in self._events.values())):
            os.close(descriptor)
        self.__init__()


def _forked():
    """In a child of this process: another thread of the parent may have held the lock."""
    global _LOCK
    _LOCK = threading.Lock()
    _kept.clear()
    _WATCHER._forked()


_WATCHER = _Watcher()
os.register_at_fork(after_in_child=_forked)
