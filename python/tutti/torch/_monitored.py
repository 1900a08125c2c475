# SPDX-License-Identifier: BSD-3-Clause
"""A barrier that tells who is missing. It goes through the store, so it also works where the ranks have lost step."""
import time
from datetime import timedelta

from .._library import TuttiRemoteError
from ._messages import set_key, store_errors, wait_for_key

_GRACE = 5.0  # seconds beyond the time limit for the word of rank 0


@store_errors()
def monitored_barrier(group, timeout):
    """All ranks of the group come here, or each that came raises the names of those that did not."""
    group._barriers = number = getattr(group, "_barriers", 0) + 1
    key, limit = f"barrier {number}", timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    comm, store = group._comm, group._store
    until = time.monotonic() + limit
    if comm.rank:
        store.add(f"{key} {comm.rank}", 1)

        def alive():
            if time.monotonic() > until + _GRACE:
                raise TuttiRemoteError(f"monitored barrier: rank 0 did not come in {limit:g} s")
            if 0 in comm.failed():
                raise TuttiRemoteError("monitored barrier: rank 0 has failed or left")
        verdict = wait_for_key(store, key, alive).decode()
    else:
        verdict = _missing(comm, store, key, until, limit)
        set_key(store, key, verdict or "all")
    if verdict not in ("", "all"):
        raise TuttiRemoteError(verdict)


def _missing(comm, store, key, until, limit):
    """Rank 0 waits for the others; returns a sentence that names those that are missing, or none."""
    waiting, pause = list(range(1, comm.size)), 1e-4
    while True:
        waiting = [rank for rank in waiting if store.add(f"{key} {rank}", 0) == 0]
        failed = [rank for rank in waiting if rank in comm.failed()]
        if failed:
            return f"monitored barrier: {_ranks(failed)} failed or left"
        if not waiting:
            return ""
        if time.monotonic() > until:
            return f"monitored barrier: {_ranks(waiting)} did not come in {limit:g} s"
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _ranks(numbers):
    """Ranks in words."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(str(number) for number in numbers[:-1])} and {numbers[-1]}"
