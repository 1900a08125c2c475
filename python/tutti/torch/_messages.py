# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks, which may come in any order of ranks, directions and tags.

The library carries out the operations of a communicator one after the other, so a rank that has called irecv could not
send on the same one. Hence each direction between two ranks, and each tag of it, is a channel: a communicator of these
two, made when its first message is. The ids go through the store of torch.distributed.
"""
import threading
import time

from .._comm import join, unique_id
from .._library import C, TuttiError, TuttiRemoteError, refusal
from ._tensors import moved, one, put
from ._work import DONE, UNKNOWN, WAITS, Work, caller

_SEND, _RECV = C["tuttiSend"], C["tuttiRecv"]


def wait_for_key(store, key, alive):
    """The value that another rank sets. alive() raises if it never will; no call on the store waits."""
    pause = 1e-4
    while store.add(key + "#", 0) == 0:
        alive()
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return store.get(key)


def set_key(store, key, value):
    """Sets a value for wait_for_key."""
    store.set(key, value)
    store.add(key + "#", 1)


class _Message:
    """The handle of a message, whose channel may still be in the making."""

    def __init__(self, channel):
        self._channel = channel
        self._known = threading.Event()
        self._handle, self._error = None, None

    def begin(self, comm, keep, call):
        try:
            self._handle = comm._call(True, None, keep, *call)
        except TuttiError as why:
            self._error = why
        self._known.set()

    def fail(self, error):
        self._error = error
        self._known.set()

    def done(self):
        return self._known.is_set() and (self._handle is None or self._handle.done())

    def wait(self, timeout=None):
        began = time.perf_counter()
        if not self._known.wait(timeout):
            raise TimeoutError
        try:
            if self._error is not None:
                raise self._error
            self._handle.wait(None if timeout is None else max(timeout - (time.perf_counter() - began), 0))
        except TuttiError as why:
            raise self._channel.error(why) from None


class Channel:
    """One direction between two ranks and a tag."""

    def __init__(self, name, make):
        self._name, self._make = name, make
        self._lock = threading.Lock()
        self._comm, self._error = None, None
        self._waiting = None  # messages of a channel that is being made

    def error(self, why):
        """The error of a message, in whose communicator the ranks have other numbers."""
        return type(why)(why if str(why).startswith(self._name) else f"{self._name}, here ranks 0 and 1: {why}")

    def call(self, is_waited, keep, call):
        """Sends or receives; returns the handle of a message that is not waited for."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._comm is not None and is_waited:
                return self._call(call)
            message = _Message(self)
            if self._comm is not None:
                message.begin(self._comm, keep, call)
                return message
            is_first, self._waiting = self._waiting is None, [*(self._waiting or ()), (message, keep, call)]
        if is_first and is_waited:
            self._open()
        elif is_first:
            threading.Thread(target=self._open, name="tutti-channel", daemon=True).start()
        return message.wait() if is_waited else message

    def _call(self, call):
        try:
            self._comm._call(False, None, None, *call)
        except TuttiError as why:
            raise self.error(why) from None

    def _open(self):
        """Makes the communicator, and begins the messages that wait for it."""
        comm = error = None
        try:
            comm = self._make()
        except BaseException as why:  # told by the messages
            error = self.error(why) if isinstance(why, TuttiError) else why
        with self._lock:
            waiting, self._waiting = self._waiting, None
            self._comm, self._error = comm, error
            for message, keep, call in waiting:
                message.begin(comm, keep, call) if error is None else message.fail(error)

    def close(self):
        with self._lock:  # a message that is waited for has it
            if self._comm is not None:
                self._comm.close()

    def abort(self):
        comm = self._comm
        if comm is not None:
            comm.abort()


class Messages:
    """The messages of a process group: a part of both kinds of backends, beside Collectives."""

    def _begin_messages(self, store, timeout, options):
        self._store, self._patience, self._options = store, timeout.total_seconds(), options
        self._channels, self._table = {}, threading.Lock()  # not that of collectives, which is held while one waits

    def send(self, tensors, peer, tag=0):
        x = one(tensors)
        t = self._in(x)
        return self._message(caller(None), (), (), (x, t), (_SEND, t.data_ptr(), *moved(t), 1), self._comm.rank,
                             peer, tag)

    def recv(self, tensors, peer, tag=0):
        x = one(tensors)
        t, copies = self._out(x, False)
        return self._message(caller(None), (x,), copies, (x, t), (_RECV, t.data_ptr(), *moved(t), 0), peer,
                             self._comm.rank, tag)

    def recv_anysource(self, tensors, tag=0):
        raise refusal("a message cannot be received from any rank: name its source (src=)")

    def _message(self, who, results, copies, keep, call, source, to, tag):
        size = self._comm.size
        for rank in (source, to):
            if not 0 <= rank < size:
                raise refusal(f"the other rank is {rank}: it must be from 0 to {size - 1}")
        if source == to:
            raise refusal(f"the other rank is {to}, which is this rank: copy the tensor")
        with self._table:
            channel = self._channels.get((source, to, tag))
            if channel is None:
                name = f"message from rank {source} to rank {to}" + (f" with tag {tag}" if tag else "")
                channel = self._channels[source, to, tag] = Channel(name, lambda: self._make(source, to, tag))
        if who == WAITS:
            channel.call(True, keep, call)
            put(copies)
            return DONE
        work = Work([channel.call(False, keep, call)], results, copies, source)
        return work.keep() if who == UNKNOWN else work

    def _make(self, source, to, tag):
        """Makes the communicator of a channel; both ranks come here."""
        key, is_source = f"{source}>{to}:{tag}", self._comm.rank == source
        peer, until = (to if is_source else source), time.monotonic() + self._patience

        def alive():
            if peer in self._comm.failed():
                raise TuttiRemoteError(f"rank {peer} has failed or left")
            if time.monotonic() > until:
                raise TuttiRemoteError(f"rank {peer} did not come in {self._patience:g} s: it has neither sent nor "
                                       "received")
        if is_source:
            made = unique_id()
            set_key(self._store, key, made.hex())
        else:
            made = bytes.fromhex(wait_for_key(self._store, key, alive).decode())
        return join(made, 0 if is_source else 1, 2, {**self._options, "name": f"torch {key}"}, alive)

    def _end_messages(self, how):
        with self._table:
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            how(channel)
