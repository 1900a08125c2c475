# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks, with tags, from any rank: those of tutti_message.h, on the group's own communicator."""
import contextlib
import threading
import time
from collections import deque
from ctypes import byref, c_int, c_size_t, c_void_p, sizeof, Structure

from .._arrays import UINT8
from .._library import ARGUMENT, C, IN_PROGRESS, TuttiError, TuttiRemoteError, TuttiUsageError, error, refusal
from ._tensors import one, put
from ._work import DONE, UNKNOWN, WAITS, Work, caller

_SEND, _RECV, _WAIT = C["tuttiIsendTag"], C["tuttiIrecvTag"], C["tuttiMessageWait"]
_ANY = -1
_TURN_MS = 50  # so often a thread that waits looks for signals


@contextlib.contextmanager
def store_errors():
    """Errors of a store of torch.distributed, which knows no ranks, are errors of another rank."""
    try:
        yield
    except TuttiError:
        raise
    except RuntimeError as why:
        raise TuttiRemoteError("the store of torch.distributed fails; the rank that holds it may be dead: "
                               f"{why}") from None


@store_errors()
def wait_for_key(store, key, alive):
    """The value that another rank sets. alive() raises if it never will; no call on the store waits."""
    pause = 1e-4
    while not has_key(store, key):
        alive()
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return store.get(key)


def has_key(store, key):
    """Whether set_key has set a value; it does not wait."""
    return store.add(key + "#", 0) > 0


@store_errors()
def set_key(store, key, value):
    """Sets a value for wait_for_key."""
    store.set(key, value)
    store.add(key + "#", 1)


class _Info(Structure):
    _fields_ = [("size", c_size_t), ("bytes", c_size_t), ("source", c_int), ("tag", c_int)]


class _Message:
    """The handle of a message. Any threads may ask and wait: one at a time is in the library for it."""

    def __init__(self, group, function, x, keep, peer, tag):
        self.is_send = function is _SEND
        self._rank, self._patience, self._keep = group._comm.rank, group._patience, (x, keep)
        self._name = f"message {'to' if self.is_send else 'from'} {'any rank' if peer == _ANY else f'rank {peer}'}"
        self._length = x.numel() * x.element_size()
        self._handle, self._lock = c_void_p(), threading.Lock()
        self._info = _Info(sizeof(_Info))
        self._ended, self._error = False, None
        code = function(x.data_ptr(), self._length, UINT8, peer, tag, group._comm._open(), byref(self._handle))
        if code:
            raise error(code)

    @property
    def source(self):
        return self._info.source

    def done(self):
        """Whether it has ended. It never waits."""
        if not self._ended and self._lock.acquire(blocking=False):
            try:
                self._ask(0)
            finally:
                self._lock.release()
        return self._ended

    def wait(self, timeout=None):
        """Waits for `timeout` seconds, or as long as the group does."""
        until = time.perf_counter() + (self._patience if timeout is None else timeout)
        while not self._ended:
            left = until - time.perf_counter()
            with self._lock:
                self._ask(min(_TURN_MS, max(int(1e3 * left), 0)))
            if left <= 0 and not self._ended:
                break
        if not self._ended and timeout is not None:
            raise TimeoutError
        if not self._ended:
            raise TuttiRemoteError(f"{self._name}: the other rank did not come in {self._patience:g} s")
        if self._error is not None:
            raise type(self._error)(str(self._error))  # the one that is kept would keep its traceback

    def _ask(self, milliseconds):
        """The lock is held."""
        if self._ended:
            return
        code = _WAIT(byref(self._handle), milliseconds, byref(self._info))
        if code == IN_PROGRESS:
            return
        if code and (self.is_send or code != ARGUMENT):
            self._error = error(code)
        elif not self.is_send and self._info.bytes != self._length:
            self._error = TuttiUsageError(
                f"message from rank {self._info.source} to rank {self._rank} with tag {self._info.tag}: "
                f"{self._info.bytes} bytes were sent, and {self._length} are to be received: both ranks must give as "
                "many")
        self._keep, self._ended = None, True


class _Received(Work):
    """A message of which it is known when it is there whose it is."""

    def source_rank(self):
        return self._handles[0].source

    _source_rank = source_rank


class Messages:
    """The messages of a process group: a part of both kinds of backends, beside Collectives."""

    def _begin_messages(self, store, timeout, options):
        self._store, self._patience, self._options = store, timeout.total_seconds(), options
        self._begun: deque = deque()  # messages that may be under way, whose tensors have to live
        self._sweep_at = 64
        self._table = threading.Lock()

    def send(self, tensors, peer, tag=0):
        x, who = one(tensors), caller(None)
        self._check(peer)
        message = self._begin_message(_SEND, self._in(x), x, peer, tag)
        if who == WAITS:
            message.wait()
            return DONE
        return self._given(who, Work([message], (), (), self._comm.rank))

    def recv(self, tensors, peer, tag=0):
        x, who = one(tensors), caller(None)
        self._check(peer)
        t, copies = self._out(x, False)
        message = self._begin_message(_RECV, t, x, peer, tag)
        if who == WAITS:
            message.wait()
            put(copies)
            return DONE
        return self._given(who, Work([message], (x,), copies, peer))

    def recv_anysource(self, tensors, tag=0):
        x, who = one(tensors), caller(None)
        t, copies = self._out(x, False)
        return self._given(who, _Received([self._begin_message(_RECV, t, x, _ANY, tag)], (x,), copies))

    def _begin_message(self, *arguments):
        message = _Message(self, *arguments)
        with self._table:
            self._begun.append(message)
            while self._begun and self._begun[0].done():
                self._begun.popleft()
            if len(self._begun) >= self._sweep_at:  # one that goes on for long is not to keep all those behind it
                self._begun = deque(m for m in self._begun if not m.done())
                self._sweep_at = 64 + 2 * len(self._begun)
        return message

    @staticmethod
    def _given(who, work):
        return work.keep() if who == UNKNOWN else work

    def _check(self, peer):
        if not 0 <= peer < self._comm.size:
            raise refusal(f"the other rank is {peer}: it must be from 0 to {self._comm.size - 1}")
        if peer == self._comm.rank:
            raise refusal(f"the other rank is {peer}, which is this rank: copy the tensor")

    def _end_sends(self):
        """Waits for messages that are sent, also those for which nobody waits any more."""
        with self._table:
            begun = list(self._begun)
        for message in begun:
            if message.is_send:
                with contextlib.suppress(TuttiError):  # told by the message
                    message.wait()

    def _end_messages(self):
        """The communicator has ended, and all messages with it."""
        with self._table:
            begun, self._begun = self._begun, deque()
        for message in begun:
            message.done()
