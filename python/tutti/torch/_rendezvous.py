# SPDX-License-Identifier: BSD-3-Clause
"""init_method="tutti://": the ranks meet as tutti.init() does, under any launcher that it knows."""
import os
import socket
from datetime import timedelta

import torch.distributed as dist

from .._comm import init
from .._words import PLACE_BYTES, place_make, place_read

_PATIENCE = 5  # seconds for an address
_CONNECT = timedelta(seconds=60)  # for a store whose rank lives, as a broadcast has just shown

_met = None  # the communicator of the launcher, which can be made once


def _store(host, port, size, is_master, timeout):
    """A TCPStore, also of a torch that was built without libuv."""
    try:
        return dist.TCPStore(host, port, size, is_master, timeout, wait_for_workers=False)
    except RuntimeError as why:
        if "libuv" not in str(why):
            raise
        return dist.TCPStore(host, port, size, is_master, timeout, wait_for_workers=False, use_libuv=False)


def _network():
    """What ranks have in common that reach each other at a loopback address."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{file.read().strip()}/{os.stat('/proc/self/ns/net').st_ino}"


def _reached(places, port):
    """The first of some places at which somebody listens; the last one is not tried."""
    for place in places[:-1]:
        try:
            socket.create_connection((place, port), _PATIENCE).close()
            return place
        except OSError:
            pass
    return places[-1]


def share_store(comm, timeout, host=None):
    """A store for all ranks of a communicator, which is in rank 0. `host`: its address; default: that of rank 0.

    TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY choose that address, so it is what communicators between hosts use.
    """
    place, store = bytearray(PLACE_BYTES), None
    if comm.rank == 0:
        store = _store(host or "127.0.0.1", 0, comm.size, True, timeout)
        places = [host] if host else [comm.address, socket.gethostname()]
        place[:] = place_make(store.port, _network(), [name for name in places if name])
    comm.broadcast(place)
    if store is None:
        port, network, places = place_read(place)
        is_near = host is None and network == _network()
        where = "127.0.0.1" if is_near else _reached(places, port)
        store = _store(where, port, comm.size, False, min(timeout, _CONNECT))
        store.set_timeout(timeout)
    comm.barrier()  # rank 0 may end with its store as soon as this returns: all are connected
    return store


def meet(url, timeout=timedelta(minutes=30), **_):
    """A handler of torch.distributed.rendezvous: gives (store, rank, size). Rank 0 has the store."""
    global _met
    if _met is None:
        _met = init(name=".torch rendezvous")
    comm = _met
    # That of `tutti run` is the name by which ssh finds the host, perhaps on another network than the ranks use.
    host = None if "TUTTI_LAUNCH_FD" in os.environ else os.environ.get("MASTER_ADDR")
    yield share_store(comm, timeout, host), comm.rank, comm.size
    raise RuntimeError("ranks meet once: make another process group instead")
