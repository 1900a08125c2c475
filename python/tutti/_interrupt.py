# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C while the main thread waits inside the library.

Python runs a handler of signals in the main thread, between two instructions, so not while that thread is inside a
call of C. Such a call, and only such a one, is ended by another thread: Python writes the number of each signal that
comes to a descriptor (signal.set_wakeup_fd), where that thread reads it. A call that ends by itself within GRACE is
left alone. Handlers other than Python's own, which raises KeyboardInterrupt, may want the call to go on: then it does.
It also does where the program has given set_wakeup_fd another descriptor.
"""
import os
import signal
import threading
import time
import weakref

GRACE = 0.1  # seconds

LOCK = threading.RLock()  # held while a call is ended, and while an object is freed
OBJECTS: "weakref.WeakSet" = weakref.WeakSet()

_write = None


def track(thing):
    """Notes an object whose calls can be ended.

    It has _inside, which during a call is [number of the thread], a new list each time, and _end_call(), which ends the
    call that is under way.
    """
    with LOCK:
        OBJECTS.add(thing)
    if threading.current_thread() is threading.main_thread():
        _install()


def _install():
    global _write
    if _write is None:
        read, _write = os.pipe()
        os.set_blocking(_write, False)
        threading.Thread(target=_listen, args=(read,), name="tutti-interrupt", daemon=True).start()
    before = signal.set_wakeup_fd(_write, warn_on_full_buffer=False)
    if before not in (-1, _write):  # somebody else listens, such as an event loop
        signal.set_wakeup_fd(before)


def _listen(read):
    while True:
        if signal.SIGINT in os.read(read, 64) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            _end_calls()


def _end_calls():
    main = threading.main_thread().ident
    with LOCK:
        calls = [(thing, thing._inside) for thing in OBJECTS]
    calls = [(thing, call) for thing, call in calls if call is not None and call[0] == main]
    if not calls:
        return
    time.sleep(GRACE)
    for thing, call in calls:
        with LOCK:
            if thing._inside is call:
                thing._end_call()


def aside(call):
    """Calls a function that waits before there is an object, such as for the name of a host. The main thread lets
    another one do it, so that Ctrl-C ends the wait at once; the function itself then goes on to its own limit."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    over, ends = threading.Lock(), []

    def run():
        try:
            ends.append((call(), None))
        except BaseException as why:
            ends.append((None, why))
        over.release()
    over.acquire()
    thread = threading.Thread(target=run, name="tutti-start", daemon=True)
    thread.start()
    over.acquire()  # a signal ends this, but not in all versions of Python the next one
    thread.join()
    result, why = ends[0]
    if why is not None:
        raise why
    return result


def _forked():
    """In a child of this process: its communicators are the parent's."""
    global _write, LOCK
    LOCK = threading.RLock()
    for thing in list(OBJECTS):
        thing._forget()
    OBJECTS.clear()
    if _write is not None:
        before = signal.set_wakeup_fd(-1)
        if before != _write:
            signal.set_wakeup_fd(before)
        _write = None


os.register_at_fork(after_in_child=_forked)
