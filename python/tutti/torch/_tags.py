# SPDX-License-Identifier: BSD-3-Clause
"""Messages with tags: those of one direction between two ranks share a channel, however many tags there are.

The library keeps the order of the messages from one rank to another and knows no tags. So before each message goes its
head, the tag and the length. What comes before it is wanted waits in memory here.
"""
import threading
from collections import deque
from ctypes import addressof, c_char, c_int64, memmove, sizeof

from .._arrays import UINT8
from .._library import C, TuttiError, TuttiUsageError

_RECV = C["tuttiRecv"]
Head = c_int64 * 2  # tag and bytes


def fresh(error):
    """A copy of a stored TuttiError, to be raised: raising the one that is kept would let its traceback grow."""
    return type(error)(str(error))


def told(name, why):
    """The error that others are told when `why` has ended a thread that worked for all."""
    if isinstance(why, TuttiError):
        return fresh(why)
    if isinstance(why, KeyboardInterrupt):
        return TuttiUsageError(f"{name}: a call of another thread, or before, was ended by Ctrl-C, and no more "
                               "messages come from there: make another group, or shrink() this one")
    return TuttiError(f"{name}: {type(why).__name__}: {why}")


class _Wanted:
    """The handle of a message that is to be received: bytes to an address."""

    def __init__(self, address, length, keep):
        self.address, self.length = address, length
        self._keep = keep
        self._ended = threading.Event()
        self._error = None

    def end(self, error=None):
        self._error, self._keep = error, None
        self._ended.set()

    def done(self):
        return self._ended.is_set()

    def wait(self, timeout=None):
        if not self._ended.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise fresh(self._error)


class Inbox:
    """What comes from one rank with tags, for whoever wants it.

    One thread reads: it is the one that waits for its message, or one of this class where nobody waits.
    """

    def __init__(self, name, channel):
        self._name, self._channel = name, channel
        self._lock = threading.Lock()
        self._wanted: dict = {}  # for each tag its handles, and below its messages, in their order
        self._kept: dict = {}
        self._is_reading = False
        self._error = None

    def receive(self, is_waited, tag, address, length, keep):
        """Receives a message; returns the handle of one that is not waited for."""
        wanted = _Wanted(address, length, keep)
        with self._lock:
            data = self._first(self._kept, tag)
            if data is not None:
                self._deliver(wanted, tag, data)
            elif self._error is not None:
                raise fresh(self._error)
            else:
                self._wanted.setdefault(tag, deque()).append(wanted)
            is_reader = data is None and not self._is_reading
            self._is_reading = self._is_reading or is_reader
        if is_reader and is_waited:
            self._read(wanted)
        elif is_reader:
            self._go_on()
        return wanted.wait() if is_waited else wanted

    @staticmethod
    def _first(table, tag):
        """Takes the first entry of a tag; None: there is none."""
        queue = table.get(tag)
        if queue is None:
            return None
        first = queue.popleft()
        if not queue:
            del table[tag]
        return first

    def _deliver(self, wanted, tag, data):
        """Ends a handle by a message that has come."""
        if len(data) != wanted.length:
            wanted.end(TuttiUsageError(f"{self._name} with tag {tag}: {len(data)} bytes were sent, and "
                                       f"{wanted.length} are to be received: both ranks must give as many"))
            return
        memmove(wanted.address, data, len(data))
        wanted.end()

    def _go_on(self):
        threading.Thread(target=self._read, name="tutti-tags", daemon=True).start()

    def _read(self, own=None):
        """Reads until nothing is wanted; the caller of a message until that has come."""
        try:
            while True:
                with self._lock:
                    self._is_reading = bool(self._wanted)
                    if not self._is_reading:
                        return
                if own is not None and own.done():
                    self._go_on()
                    return
                self._read_one()
        except Exception as why:
            self._fail(told(self._name, why))
        except BaseException as why:  # Ctrl-C is this thread's
            self._fail(told(self._name, why))
            raise

    def _read_one(self):
        head = Head()
        self._channel.call(True, None, (_RECV, addressof(head), sizeof(head), UINT8, 0))
        tag, length = head
        with self._lock:
            queue = self._wanted.get(tag)
            fits = queue is not None and queue[0].length == length
            wanted = self._first(self._wanted, tag) if fits else None
        if wanted is not None:
            try:
                self._channel.call(True, None, (_RECV, wanted.address, length, UINT8, 0))
            except BaseException as why:
                wanted.end(told(self._name, why))
                raise
            wanted.end()
            return
        data = (c_char * length)()
        self._channel.call(True, None, (_RECV, addressof(data), length, UINT8, 0))
        with self._lock:
            wanted = self._first(self._wanted, tag)  # it may be wanted by now
            if wanted is None:
                self._kept.setdefault(tag, deque()).append(data)
            else:
                self._deliver(wanted, tag, data)

    def _fail(self, error):
        with self._lock:
            self._is_reading, self._error = False, error
            for queue in self._wanted.values():
                for wanted in queue:
                    wanted.end(error)
            self._wanted = {}
