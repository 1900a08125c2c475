# SPDX-License-Identifier: BSD-3-Clause
"""Ray over Tutti: the backend "tutti" of ray.util.collective, for actors on any number of hosts.

    import numpy
    import ray
    from ray.util import collective
    import tutti.ray                                  # makes the backend known, in the driver too

    @ray.remote
    class Worker:
        def sum(self, rank, size):
            import tutti.ray                          # and in each actor
            collective.init_collective_group(size, rank, backend="tutti")
            x = numpy.full(4, rank + 1.0)
            collective.allreduce(x)
            return x.tolist()

    workers = [Worker.remote() for _ in range(4)]
    print(ray.get([worker.sum.remote(rank, 4) for rank, worker in enumerate(workers)]))

Arrays are those of numpy, and torch tensors in host memory; contiguous. Errors are kinds of ``tutti.TuttiError``: a
dead actor raises TuttiRemoteError in the others within a second.

The ranks meet through Ray's internal key-value store: who can read it can join. ``TUTTI_KEY_FILE`` mixes in a secret
that does not go through it.
"""
import os
import time

try:
    from ray.util.collective.backend_registry import register_collective_backend
except ImportError as why:
    raise ImportError(f"{why}: tutti.ray needs a Ray that has ray.util.collective.backend_registry") from None
from ray.experimental import internal_kv
from ray.util.collective.collective_group.base_collective_group import BaseGroup

from ._comm import join
from ._launch import unique_id
from ._library import TuttiRemoteError, refusal

__all__ = ["register", "Group"]

_OPS = {"SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "AVERAGE": "avg", "AVG": "avg"}
_NONCE = 16   # bytes
LIMIT = 1800  # seconds for which a rank waits for rank 0, as long as the library waits for a rank


class _Meeting:
    """How the ranks of a group get the id that rank 0 has made.

    A rank asks with a number of its own, and takes the answer that has this number: so what dead ranks of an earlier
    group of the same name have left in the store is no answer, and rank 0 answers again where a rank asks again.
    """

    def __init__(self, name, rank, size):
        self._name, self._rank, self._size = name, rank, size
        self._answered, self._looked = {}, 0.0
        self.id = unique_id() if rank == 0 else None

    def _key(self, what, rank):
        return f"tutti {what} {rank} {self._name}".encode()

    def answer(self):
        """Rank 0: answers those that have asked since. It is called often, and looks every 5 ms."""
        if time.monotonic() - self._looked < 5e-3:
            return
        self._looked = time.monotonic()
        for rank in range(1, self._size):
            nonce = internal_kv._internal_kv_get(self._key("asks", rank))
            if nonce is not None and nonce != self._answered.get(rank):
                internal_kv._internal_kv_put(self._key("told", rank), nonce + self.id, overwrite=True)
                self._answered[rank] = nonce

    def ask(self):
        """Other ranks: waits for the id."""
        nonce, pause, until = os.urandom(_NONCE), 1e-3, time.monotonic() + LIMIT
        internal_kv._internal_kv_put(self._key("asks", self._rank), nonce, overwrite=True)
        while time.monotonic() < until:
            told = internal_kv._internal_kv_get(self._key("told", self._rank))
            if told is not None and told[:_NONCE] == nonce:
                self.id = told[_NONCE:]
                return
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        raise TuttiRemoteError(f"rank 0 of group {self._name} did not come to make it in {LIMIT} s: create it in all "
                               "actors at once, with ranks 0 .. size - 1 and one name")

    def end(self):
        """Takes away what this rank has left in the store."""
        for what in ("asks", "told"):
            internal_kv._internal_kv_del(self._key(what, self._rank))


class Group(BaseGroup):
    """One rank of a group of actors: what the functions of ray.util.collective call. ``comm`` is its tutti.Comm."""

    def __init__(self, world_size: int, rank: int, group_name: str):
        super().__init__(world_size, rank, group_name)
        meeting = _Meeting(group_name, rank, world_size)
        try:
            if rank != 0:
                meeting.ask()
            self.comm = join(meeting.id, rank, world_size, {"name": f"ray group {group_name}"[:63]},
                             meeting.answer if rank == 0 else None)
        finally:
            meeting.end()

    @classmethod
    def backend(cls) -> str:
        return "TUTTI"

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def destroy_group(self) -> None:
        """Ends the group; it does not wait for other ranks."""
        self.comm.close()

    def allreduce(self, tensor, allreduce_options=None) -> None:
        self.comm.all_reduce(_one(tensor), _op(allreduce_options))

    def barrier(self, barrier_options=None) -> None:
        self.comm.barrier()

    def reduce(self, tensor, reduce_options=None) -> None:
        self.comm.reduce(_one(tensor), getattr(reduce_options, "root_rank", 0), _op(reduce_options))

    def broadcast(self, tensor, broadcast_options=None) -> None:
        self.comm.broadcast(_one(tensor), getattr(broadcast_options, "root_rank", 0))

    def allgather(self, tensor_list, tensor, allgather_options=None) -> None:
        self.comm.all_gather(_one(tensor), _one(tensor_list))

    def reducescatter(self, tensor, tensor_list, reducescatter_options=None) -> None:
        self.comm.reduce_scatter(_one(tensor_list), _one(tensor), _op(reducescatter_options))

    def send(self, tensor, send_options) -> None:
        self.comm.send(_one(tensor), send_options.dst_rank)

    def recv(self, tensor, recv_options) -> None:
        self.comm.recv(_one(tensor), recv_options.src_rank)


def _one(tensors):
    """Of the tensors that a rank's devices have, the host's."""
    if len(tensors) != 1:
        raise refusal(f"there are {len(tensors)} tensors: pass one, as a rank has one device, the host")
    return tensors[0]


def _op(options):
    op = getattr(options, "reduceOp", None)
    if op is None:
        return "sum"
    if op.name not in _OPS:
        raise refusal(f"op is {op.name}: it must be one of SUM, PRODUCT, MIN, MAX and AVERAGE")
    return _OPS[op.name]


def register() -> None:
    """Makes the name "tutti" known to ray.util.collective in this process; importing tutti.ray does it."""
    try:
        register_collective_backend("TUTTI", Group)
    except ValueError:
        pass  # it is known already


register()
