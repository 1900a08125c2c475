# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks, which may come in any order of ranks, directions and tags.

The library carries out the operations of a communicator one after the other, so a rank that has called irecv could not
send on the same one. Hence each direction between two ranks is a channel: a communicator of these two, made when its
first message is; and so are all messages of a direction that have a tag. The ids go through the store of
torch.distributed.
"""
import contextlib
import threading
import time
import weakref

from ctypes import addressof, sizeof

from .._arrays import UINT8
from .._comm import join, unique_id
from .._library import C, TuttiError, TuttiRemoteError, refusal
from ._tags import Head, Inbox, fresh, told
from ._tensors import moved, one, put
from ._work import DONE, UNKNOWN, WAITS, Work, caller

_SEND, _RECV = C["tuttiSend"], C["tuttiRecv"]


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


class _Message:
    """The handle of a message, whose channel may still be in the making."""

    def __init__(self, channel):
        self._channel = channel
        self._known = threading.Event()
        self._handle, self._error = None, None

    def begin(self, comm, keep, calls):
        try:
            for call in calls:  # the last one ends last
                self._handle = comm._call(True, None, keep, *call)
        except TuttiError as why:
            self._error = self._channel.error(why)
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
        if self._error is not None:
            raise fresh(self._error)
        try:
            self._handle.wait(None if timeout is None else max(timeout - (time.perf_counter() - began), 0))
        except TuttiError as why:
            raise self._channel.error(why) from None


class Channel:
    """One direction between two ranks."""

    def __init__(self, name, make):
        self.name, self._make = name, make
        self._lock = threading.Lock()
        self._comm, self._error = None, None
        self._waiting = None  # messages of a channel that is being made

    def error(self, why):
        """The error of a message, in whose communicator the ranks have other numbers."""
        return type(why)(str(why) if str(why).startswith(self.name) else f"{self.name}, here ranks 0 and 1: {why}")

    def call(self, is_waited, keep, *calls):
        """Sends or receives; returns the handle of a message that is not waited for, which may be several calls."""
        with self._lock:
            if self._error is not None:
                raise fresh(self._error)
            if self._comm is not None and is_waited:
                return self._call(*calls)
            message = _Message(self)
            if self._comm is not None:
                message.begin(self._comm, keep, calls)
                return message
            is_first, self._waiting = self._waiting is None, [*(self._waiting or ()), (message, keep, calls)]
        if is_first and is_waited:
            self._open()
        elif is_first:
            threading.Thread(target=self._open, name="tutti-channel", daemon=True).start()
        return message.wait() if is_waited else message

    def _call(self, *calls):
        try:
            for call in calls:
                self._comm._call(False, None, None, *call)
        except TuttiError as why:
            raise self.error(why) from None

    def _open(self):
        """Makes the communicator, and begins the messages that wait for it."""
        comm = error = None
        try:
            comm = self._make()
        except Exception as why:  # told by the messages
            error = self.error(told(self.name, why))
        except BaseException as why:  # Ctrl-C is this thread's
            error = told(self.name, why)
            raise
        finally:
            self._begin(comm, error)

    def _begin(self, comm, error):
        with self._lock:
            waiting, self._waiting = self._waiting, None
            self._comm, self._error = comm, error
            for message, keep, calls in waiting:
                message.begin(comm, keep, calls) if error is None else message.fail(error)

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
        self._channels, self._inboxes = {}, {}
        self._table = threading.Lock()  # not that of collectives, which is held while one waits

    def send(self, tensors, peer, tag=0):
        x, who = one(tensors), caller(None)
        t = self._in(x)
        channel = self._channel(self._comm.rank, peer, tag)
        if tag:  # not in this thread: another one may send with another tag before this message is received
            head = Head(tag, t.numel() * t.element_size())
            handle = channel.call(False, (x, t, head), (_SEND, addressof(head), sizeof(head), UINT8, 1),
                                  (_SEND, t.data_ptr(), head[1], UINT8, 1))
            if who == WAITS:
                handle.wait()
        else:
            handle = channel.call(who == WAITS, (x, t), (_SEND, t.data_ptr(), *moved(t), 1))
        return self._sent(who, handle, (), (), self._comm.rank)

    def recv(self, tensors, peer, tag=0):
        x, who = one(tensors), caller(None)
        t, copies = self._out(x, False)
        channel = self._channel(peer, self._comm.rank, tag)
        if tag:
            handle = channel.receive(who == WAITS, tag, t.data_ptr(), t.numel() * t.element_size(), (x, t))
        else:
            handle = channel.call(who == WAITS, (x, t), (_RECV, t.data_ptr(), *moved(t), 0))
        return self._sent(who, handle, (x,), copies, peer)

    @staticmethod
    def _sent(who, handle, results, copies, source):
        if who == WAITS:
            put(copies)
            return DONE
        work = Work([handle], results, copies, source)
        return work.keep() if who == UNKNOWN else work

    def recv_anysource(self, tensors, tag=0):
        raise refusal("a message cannot be received from any rank: name its source (src=)")

    def _channel(self, source, to, tag):
        """The channel of a direction: of its messages without a tag, or of those with one, which are received through
        an inbox."""
        size, key = self._comm.size, (source, to, bool(tag))
        for rank in (source, to):
            if not 0 <= rank < size:
                raise refusal(f"the other rank is {rank}: it must be from 0 to {size - 1}")
        if source == to:
            raise refusal(f"the other rank is {to}, which is this rank: copy the tensor")
        with self._table:
            channel = self._channels.get(key)
            if channel is None:
                name, make = f"message from rank {source} to rank {to}", weakref.WeakMethod(self._make)
                # A reference to this group would keep it, and all its communicators, when it is dropped.
                self._channels[key] = channel = Channel(name, lambda: make()(*key))
            if not tag or source == self._comm.rank:
                return channel
            inbox = self._inboxes.get(source)
            if inbox is None:
                inbox = self._inboxes[source] = Inbox(channel.name, channel)
            return inbox

    def _make(self, source, to, has_tags):
        """Makes the communicator of a channel; both ranks come here."""
        key, is_source = f"{source}>{to}" + (" with tags" if has_tags else ""), self._comm.rank == source
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
            channels, self._channels, self._inboxes = self._channels, {}, {}
        for channel in channels.values():
            how(channel)
