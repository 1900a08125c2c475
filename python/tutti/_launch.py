# SPDX-License-Identifier: BSD-3-Clause
"""How processes find each other: the launcher that started them, and ids."""
from ctypes import byref
from typing import NamedTuple

from . import _interrupt, _library
from ._library import C, check, refusal


class Launch(NamedTuple):
    """The job as the launcher describes it to this process."""

    launcher: str    #: "tutti", "pmix", "pmi", "torchrun", "comm_id"; "none": this process is a job of one
    rank: int        #: of this process, 0 .. size - 1
    size: int        #: processes of the job
    local_rank: int  #: of this process on this host
    local_size: int  #: processes on this host; 1 if the launcher does not tell
    id: bytes        #: 128 bytes, for one communicator over all processes


def launch() -> Launch:
    """Finds out which launcher started this process: `tutti run`, mpirun, srun, torchrun, or none.

    The call is collective over the job's processes; later calls give the same answer. Ctrl-C ends it.

    Errors: TuttiArgumentError: the environment contradicts itself. TuttiSystemError: the launcher did not answer.
    TuttiUsageError: the processes cannot meet, or have no secret; the sentence has the remedy.
    """
    job = _library.Launch()
    _interrupt.aside(lambda: check(C["tuttiGetLaunch"](byref(job))))
    return Launch(job.launcher.decode(), job.proc, job.nprocs, job.local_proc, job.local_nprocs, bytes(job.id))


def unique_id() -> bytes:
    """Makes the id of a new communicator: 128 bytes that all ranks give to ``tutti.init``.

    One process makes it and sends it to the others by any means; its ranks meet in this process, which must live until
    all have joined. One id serves one communicator. It carries the key: anyone who can read it can join.

    Errors: TuttiSystemError: no usable interface, no port, no thread.
    """
    made = _library.UniqueId()
    _interrupt.aside(lambda: check(C["tuttiGetUniqueId"](byref(made))))
    return bytes(made)


def unique_of(id):
    """An id as C has it."""
    if not isinstance(id, (bytes, bytearray)) or len(id) != _library.UNIQUE_ID_BYTES:
        raise refusal(f"id is {id!r:.80}: it must be the {_library.UNIQUE_ID_BYTES} bytes of tutti.unique_id()")
    return _library.UniqueId.from_buffer_copy(id)
