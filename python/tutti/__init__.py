# SPDX-License-Identifier: BSD-3-Clause
"""Collective communication between processes: NCCL's programming model for arrays in host memory.

    import array
    import tutti

    with tutti.init() as comm:                        # launched by `tutti run -n 4 -- python3 sum.py`
        x = array.array("f", [comm.rank, 1])          # or a numpy array, a torch tensor in host memory, ...
        comm.all_reduce(x)                            # in place; out= for another array
        print(comm.rank, "of", comm.size, list(x))

Joining: ``init``, ``launch``, ``unique_id``. Collectives and messages: the methods of ``Comm``; ``group`` starts
several calls together; ``Handle`` is one that goes on after it has returned (``async_=True``). ``Fusion`` sums many
gradients in few messages. ``empty`` makes arrays that the other ranks of the host read where they lie.

Arrays are contiguous and belong to the caller. Results are written in place, or to ``out``; nothing is allocated. A
wrong argument is refused before anything is sent, by a TuttiArgumentError that says what would be right. All errors
are kinds of TuttiError. No call waits for ever: a dead rank ends it within a second by a TuttiRemoteError on all
others, a rank that is late after the communicator's ``timeout_ms``. Calls let other threads run Python, and Ctrl-C
ends them.

The library is the file TUTTI_LIBRARY, else libtutti.so.0 beside this package, in the build tree or installation of
which the package is a part, or where the system looks for libraries; ``LIBRARY`` is its path. Settings are environment
variables (``man tutti-settings``).
"""
from ._arrays import TYPES as _TYPES
from ._arrays import empty
from ._comm import OPS as _OPS
from ._comm import Comm, ReduceOp, init
from ._fusion import Fusion, FusionInfo, Shard
from ._handles import Group, Handle, group
from ._launch import Launch, launch, unique_id
from ._library import PATH as LIBRARY
from ._library import VERSION as __version__
from ._library import (TuttiArgumentError, TuttiCudaError, TuttiError, TuttiInternalError, TuttiRemoteError,
                       TuttiSystemError, TuttiUsageError)

TYPES = tuple(_TYPES)  # names of the types that can be combined
OPS = tuple(_OPS)      # names of the operations

__all__ = ["init", "launch", "unique_id", "group", "empty", "Comm", "Fusion", "FusionInfo", "Group", "Handle",
           "Launch", "ReduceOp", "Shard", "TuttiError", "TuttiArgumentError", "TuttiCudaError", "TuttiInternalError",
           "TuttiRemoteError", "TuttiSystemError", "TuttiUsageError", "TYPES", "OPS", "LIBRARY", "__version__"]

for _name in __all__:  # where users know them from, not the file
    if callable(globals()[_name]):
        globals()[_name].__module__ = __name__
del _name
