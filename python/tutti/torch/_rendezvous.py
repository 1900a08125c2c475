# SPDX-License-Identifier: BSD-3-Clause
"""init_method="tutti://": the ranks meet as tutti.init() does, under any launcher that it knows."""
import os
import socket
from datetime import timedelta

import torch.distributed as dist

from .._comm import init, launch

_met = None  # the communicator of the launcher, which can be made once


def _store(host, port, size, is_master, timeout):
    """A TCPStore, also of a torch that was built without libuv."""
    try:
        return dist.TCPStore(host, port, size, is_master, timeout, wait_for_workers=False)
    except RuntimeError as why:
        if "libuv" not in str(why):
            raise
        return dist.TCPStore(host, port, size, is_master, timeout, wait_for_workers=False, use_libuv=False)


def meet(url, timeout=timedelta(minutes=30), **_):
    """A handler of torch.distributed.rendezvous: gives (store, rank, size). Rank 0 has the store."""
    global _met
    if _met is None:
        _met = init(name="torch rendezvous")
    comm, place = _met, bytearray(512)
    store = None
    if comm.rank == 0:
        host = os.environ.get("MASTER_ADDR")
        host = host or ("127.0.0.1" if launch().local_size == comm.size else socket.gethostname())
        store = _store(host, 0, comm.size, True, timeout)
        text = f"{host} {store.port}".encode()
        place[:len(text)] = text
    comm.broadcast(place)
    if store is None:
        host, port = place.rstrip(b"\0").decode().split()
        store = _store(host, int(port), comm.size, False, timeout)
    yield store, comm.rank, comm.size
    raise RuntimeError("ranks meet once: make another process group instead")
