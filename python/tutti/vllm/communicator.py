# SPDX-License-Identifier: BSD-3-Clause
"""The communicator that vLLM's groups of ranks get: vLLM's own, with Tutti in place of its module of collectives."""
import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

from .. import _comm
from .._launch import unique_id
from .._library import C
from ..torch._tensors import flat, is_flat, moved, reduced

_SUM = _comm.OPS["sum"]
_ALL_REDUCE, _ALL_GATHER, _GATHER = C["tuttiAllReduce"], C["tuttiAllGather"], C["tuttiGather"]

_comms: dict = {}  # by the numbers that operators have: these take tensors and numbers alone


def _all_reduce(x, comm):
    t = x if is_flat(x) else flat(x)
    count, kind = reduced(t)
    _comms[comm]._call(False, None, None, _ALL_REDUCE, t.data_ptr(), t.data_ptr(), count, kind, _SUM)
    if t is not x:
        x.copy_(t)


def _all_gather(out, x, comm):
    t = x if is_flat(x) else flat(x)
    _comms[comm]._call(False, None, None, _ALL_GATHER, t.data_ptr(), out.data_ptr(), *moved(t))


def _gather(out, x, root, comm):
    t = x if is_flat(x) else flat(x)
    to = out.data_ptr() if _comms[comm].rank == root else None
    _comms[comm]._call(False, None, None, _GATHER, t.data_ptr(), to, *moved(t), root)


def _nothing(*_):
    """The operators for tensors without elements, with which torch.compile traces a model."""


# As operators of torch, so that torch.compile keeps the calls in its graphs as they are.
_operators = torch.library.Library("tutti", "DEF")
for _name, _schema, _function in (
        ("all_reduce_", "(Tensor(a!) x, int comm) -> ()", _all_reduce),
        ("all_gather_", "(Tensor(a!) out, Tensor x, int comm) -> ()", _all_gather),
        ("gather_", "(Tensor(a!) out, Tensor x, int root, int comm) -> ()", _gather)):
    _operators.define(_name + _schema)
    _operators.impl(_name, _function, "CPU")
    _operators.impl(_name, _nothing, "Meta")


class _Collectives:
    """What CpuCommunicator calls in place of torch.distributed."""

    def __init__(self, number):
        self._number = number

    def all_reduce(self, input, group=None):
        torch.ops.tutti.all_reduce_(input, self._number)

    def all_gather_into_tensor(self, output, input, group=None):
        torch.ops.tutti.all_gather_(output, input, self._number)


class Communicator(CpuCommunicator):
    """One rank of a group of vLLM's ranks.

    Groups of pipeline stages are as vLLM makes them: their messages are operators of vLLM's own shared memory.
    """

    def __init__(self, cpu_group, device=None, device_group=None, unique_name=""):
        self._is_tutti = not unique_name.startswith("pp")
        super().__init__(cpu_group, device, device_group, unique_name)
        if not self._is_tutti:
            return
        made = [unique_id() if self.rank == 0 else None]
        dist.broadcast_object_list(made, src=self.ranks[0], group=cpu_group)
        self._comm = _comm.init(id=made[0], rank=self.rank, size=self.world_size, name=f"vllm {unique_name}"[:63])
        self._number = id(self._comm)
        _comms[self._number] = self._comm
        self.dist_module = _Collectives(self._number)

    def _all_group_ranks_share_shm_group_name(self):
        """Whether vLLM makes shared memory of its own, which only ranks of one host can have."""
        return not self._is_tutti and super()._all_group_ranks_share_shm_group_name()

    def gather(self, input_, dst=0, dim=-1):
        """As vLLM's; the root's parts need not be copied twice. ``dst``: the rank within the group."""
        if not self._is_tutti:
            return super().gather(input_, dst, dim)
        is_root = self.rank == dst
        out = input_.new_empty((self.world_size if is_root else 0, *input_.shape))
        torch.ops.tutti.gather_(out, input_, dst, self._number)
        return torch.cat(out.unbind(0), dim=dim) if is_root else None

    def destroy(self):
        if self._is_tutti:
            _comms.pop(self._number, None)
            self._comm.close()
        super().destroy()
