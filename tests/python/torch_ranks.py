# SPDX-License-Identifier: BSD-3-Clause
"""Ranks for the tests with torch: children of this process, which has torch already."""
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401 (makes the backend known)

os.environ["TUTTI_CACHE"] = "none"
torch.set_num_threads(1)  # threads of a pool do not survive a fork
LIMIT = 200  # seconds


def _child(out, rank, size, body, folder, backend, options):
    """Runs body(rank) and writes (is_well, what it returned or how it failed)."""
    warnings.filterwarnings("ignore", message=".*_coalesced.* will be deprecated")
    try:
        dist.init_process_group(backend, store=dist.FileStore(os.path.join(folder, "store"), size), rank=rank,
                                world_size=size, **{"timeout": timedelta(seconds=60), **options})
        said = (True, body(rank))
        dist.destroy_process_group()
    except BaseException:  # told by the parent
        said = (False, traceback.format_exc())
    with os.fdopen(out, "wb") as file:
        pickle.dump(said, file)


def _fork(rank, *arguments):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            signal.alarm(LIMIT)
            _child(write, rank, *arguments)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(0)
    os.close(write)
    return child, read


def run(size, body, backend="tutti", dies=(), **options):
    """Calls body(rank) in `size` processes with a default group; returns what they returned. Ranks in `dies` may die.

    `options` are those of init_process_group. An exception of a rank is raised here, with all that failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        children = [_fork(rank, size, body, folder, backend, options) for rank in range(size)]
        said = []
        for child, read in children:
            with os.fdopen(read, "rb") as file:
                data = file.read()
            os.waitpid(child, 0)
            said.append(pickle.loads(data) if data else (False, "died\n"))
    wrong = [f"rank {rank}: {why}" for rank, (is_well, why) in enumerate(said) if not is_well and rank not in dies]
    if wrong:
        raise AssertionError("\n".join(wrong))
    return [result for _, result in said]


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(LIMIT)


def values(rank, count, dtype=torch.float32):
    """Small whole numbers, other ones on each rank: sums of a few ranks are exact in every type."""
    return ((torch.arange(count) * (rank + 3)) % 7 + rank).to(dtype)
