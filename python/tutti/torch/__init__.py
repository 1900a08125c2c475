# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch over Tutti: the backend "tutti" of torch.distributed.

    import torch
    import torch.distributed as dist
    import tutti.torch                                # makes the backend known

    dist.init_process_group("tutti", "tutti://")      # "tutti://": any launcher that tutti.init finds, torchrun too
    x = torch.tensor([dist.get_rank(), 1.0])
    dist.all_reduce(x)
    print(dist.get_rank(), "of", dist.get_world_size(), x.tolist())

Every other way to begin works as ever (``init_method=``, ``store=``, torchrun's ``env://``). All functions of
torch.distributed for tensors in host memory work, and so do DistributedDataParallel and what else is
built on them. A call that waits (``async_op=False``) does the work in the caller's thread. ``pg_options=`` is a dict of
options of ``tutti.init``: ``pg_options={"deterministic": True}``.

Errors are kinds of ``tutti.TuttiError``, which is a RuntimeError: a dead rank raises TuttiRemoteError in the others
within a second, with a sentence that names it.

Beside it: ``ddp_hook`` lets a fusion average the gradients of a DistributedDataParallel model in planned messages;
``plan`` gives the sizes of DDP's buckets, for any backend;
``monitored_barrier`` names the ranks that are missing; ``shrink`` makes a group without the dead; ``empty``
makes tensors that other ranks of the host read where they lie.
"""
from datetime import timedelta
from typing import Optional

import torch.distributed as dist

if not dist.is_available():
    raise ImportError("this torch was built without torch.distributed (USE_DISTRIBUTED=1)")

from ._ddp import DDPHook, ddp_hook
from ._group import Backend, ProcessGroup, found, register, shrink
from ._monitored import monitored_barrier as _monitored_barrier
from ._plan import plan
from ._tensors import empty

__all__ = ["register", "ddp_hook", "plan", "monitored_barrier", "shrink", "empty", "DDPHook", "ProcessGroup"]


def monitored_barrier(group=None, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
    """Waits for all ranks of a group; if some do not come in time, all that came get an error that names them.

    As torch.distributed.monitored_barrier, which refuses other backends than gloo. ``timeout``: default 30 minutes.
    ``wait_all_ranks``: accepted; all missing ranks are named in any case. It goes through the store: slower than
    ``barrier``, but it needs nothing of the group's communicator, which may have failed.

    Errors: TuttiRemoteError: ranks are missing, or have died.
    """
    if group is not None and group == dist.GroupMember.NON_GROUP_MEMBER:
        return
    _monitored_barrier(found(group), timeout if timeout is not None else timedelta(minutes=30))


register()
