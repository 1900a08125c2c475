# SPDX-License-Identifier: BSD-3-Clause
"""Process groups: how torch.distributed makes and ends them, as its versions have it; and groups without the dead."""
import contextlib
import inspect
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from .._comm import join
from .._launch import unique_id
from .._library import TuttiRemoteError, TuttiUsageError, refusal
from .._words import id_read
from ._collectives import Collectives, milliseconds
from ._messages import Messages, has_key, set_key, store_errors
from ._rendezvous import meet, share_store
from ._tensors import empty

_c10d = dist.distributed_c10d
_OVER = "over"  # in place of the id of an attempt that has failed
# Behind a creation these versions wait for all ranks once more, and look every 10 ms unless all are there at once. A
# few ranks can be; more of them, where they share cores, would only wait longer (8 on 2 cores: the same; 64: longer).
_MOST_AT_ONCE = 4 if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 1) else 0


class _Group(Collectives, Messages):
    """One rank of a group: what it has beside collectives and messages."""

    def _begin_group(self, comm, store, timeout, options):
        self._begin(comm)
        self._begin_messages(store, timeout, options)

    def getBackendName(self):
        return "tutti"

    def _start_coalescing(self, *_):
        """Messages of a batch are asynchronous, and go on together as they are."""

    def _end_coalescing(self, *_):
        """See _start_coalescing."""

    def supports_tensor_alloc(self, device):
        """Whoever asks (FSDP, on request) gets memory that the other ranks of the host read where it lies."""
        return torch.device(device).type == "cpu"

    def allocate_tensor(self, size, *, dtype, device):
        """A tensor of `size` elements in such memory."""
        if not self.supports_tensor_alloc(device):
            raise refusal(f"device is {device}: it must be the host (\"cpu\")")
        return empty(size, dtype)

    def _set_sequence_number_for_group(self):
        """The library numbers calls by itself."""

    def shutdown(self):
        """Ends the group; operations under way are waited for."""
        self._end_sends()
        self._comm.close()
        self._end_messages()

    def abort(self):
        """Ends the group; operations under way end with an error."""
        self._comm.abort()
        self._end_messages()


class ProcessGroup(_Group, dist.ProcessGroup):
    """For versions in which only a process group can be written in Python."""

    # Newer versions set or ask for these; theirs would go on to backends, of which it has none.
    group_name = group_desc = ""
    supports_splitting = supports_coalescing = supports_time_estimate = supports_shrinking = False
    supports_reconfigure = supports_window = False

    def __init__(self, comm, store, timeout, options):
        dist.ProcessGroup.__init__(self, comm.rank, comm.size)
        self._begin_group(comm, store, timeout, options)

    def _set_group_name(self, name):
        self.group_name = name

    def _set_group_desc(self, description):
        self.group_desc = description

    def _get_backend(self, device):
        """Newer versions ask for the backend of a device: all of this group's are this."""
        return self

    def __repr__(self):
        return f"<tutti.torch.ProcessGroup: rank {self._comm.rank} of {self._comm.size}>"


_Base = getattr(torch._C._distributed_c10d, "Backend", None)
_held: set = set()  # backends of groups: C++ of 2.14 holds only its half of them


def _can_be_made():
    """Whether Python can write a backend: in older versions the class is there, and has no constructor."""
    try:
        return _Base is not None and bool(_Base(0, 1))
    except TypeError:
        return False


if _can_be_made():
    class Backend(_Group, _Base):
        """For groups with several backends ("cpu:tutti,cuda:nccl"), in versions in which Python can write one."""

        def __init__(self, comm, store, timeout, options):
            _Base.__init__(self, comm.rank, comm.size)
            self._begin_group(comm, store, timeout, options)
            self._settings = _Base.Options("tutti", timeout=timeout)
            _held.add(self)

        @property
        def options(self):
            """What torch.distributed asks each backend for."""
            return self._settings

        # What it asks for, too: the properties of its own class would ask this one again.
        supports_splitting = supports_coalescing = _supports_time_estimate = property(lambda self: False)
        supports_shrinking = supports_reconfigure = supports_window = property(lambda self: False)
        start_coalescing, end_coalescing = _Group._start_coalescing, _Group._end_coalescing

        def shutdown(self):
            super().shutdown()
            _held.discard(self)

        def abort(self):
            super().abort()
            _held.discard(self)
else:
    Backend = None


def _kind():
    """The class for the group that torch.distributed is about to make.

    A process group in Python takes the place of one with several backends; its works, which C++ of 2.14 would hide from
    Python, tell all that they know. So it is the class for groups that have this backend alone.
    """
    frame = sys._getframe(1)
    while Backend is not None and frame is not None:
        config = frame.f_locals.get("backend_config")
        if hasattr(config, "get_device_backend_map"):
            return ProcessGroup if set(config.get_device_backend_map().values()) == {"tutti"} else Backend
        frame = frame.f_back
    return ProcessGroup


def register() -> None:
    """Makes the name "tutti" known to torch.distributed. Again: nothing happens.

    So is "tutti" as an init_method ("tutti://"). Importing tutti.torch does it; versions of torch that look for
    backends by themselves call it.
    """
    if "TUTTI" not in dist.Backend._plugins:
        takes_devices = "devices" in inspect.signature(dist.Backend.register_backend).parameters
        dist.Backend.register_backend("tutti", _create, extended_api=True,
                                      **({"devices": ["cpu"]} if takes_devices else {}))
        dist.register_rendezvous_handler("tutti", meet)


@store_errors()
def _create(facts, options=None):
    """Joins the group that torch.distributed makes: the id of the communicator goes through its store."""
    rank, size, timeout = facts.group_rank, facts.group_size, facts.timeout
    options = _options(options, timeout)
    name, members = facts.group_id or "default", list(facts.global_ranks_in_group or ())
    store = dist.PrefixStore("tutti", facts.store)
    # The store may have served groups of this name before, or attempts that failed, so each attempt has its number.
    if rank == 0:
        number, made = store.add("attempts", 1), unique_id()
        set_key(store, f"id {number}", made.hex())
    else:
        number, made = _id(store, rank, name, members, timeout.total_seconds())
    try:
        comm = join(made, rank, size, {"name": f"torch group {name}"[:63], **options}, lambda: _look(name, members))
    except BaseException:
        if rank == 0:
            with contextlib.suppress(RuntimeError):
                set_key(store, f"id {number}", _OVER)
        raise
    group = _kind()(comm, dist.PrefixStore(f"attempt {number}", store), timeout, options)
    if comm.size <= _MOST_AT_ONCE:
        try:
            comm.barrier()
        except BaseException:
            group.abort()
            raise
    return group


def _look(name, members):
    """Raises if one of these ranks of all is known to be dead: then their group will never be made."""
    try:
        comm = found(None)._comm if members and dist.is_initialized() else None
        lost = [rank for rank in comm.failed() if rank in members] if comm is not None else []
    except RuntimeError:  # that of all ranks is another backend's, or closed
        return
    if lost:
        raise TuttiRemoteError(f"group {name} cannot be made: rank {lost[0]} has failed or left")


def _id(store, rank, name, members, patience):
    """The number of the newest attempt of the group's rank 0, and its id: one that this rank has not taken before."""
    until, pause, taken = time.monotonic() + patience, 1e-4, store.add(f"taken {rank}", 0)
    while True:
        number = store.add("attempts", 0)
        if number > taken and has_key(store, f"id {number}"):
            made = store.get(f"id {number}")
            if made != _OVER.encode():
                store.add(f"taken {rank}", number - taken)
                return number, _id_of(name, made)
        _look(name, members)
        if time.monotonic() > until:
            raise TuttiRemoteError(f"group {name} was not made in {patience:g} s: its rank 0 did not come")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _id_of(name, words):
    try:
        return id_read(words)
    except ValueError as why:
        raise TuttiRemoteError(f"what the store has for group {name} is no id of rank 0 ({why}): do all ranks have the "
                               "same version of Tutti, and is the store theirs alone?") from None


def _options(options, timeout):
    """The options of the communicator, from pg_options= of torch.distributed."""
    if options is not None and not isinstance(options, dict):
        raise refusal(f"pg_options is of type {type(options).__name__}: for tutti it must be a dict of options of "
                      "tutti.init, such as {'deterministic': True}")
    patience = milliseconds(timeout)
    return {"timeout_ms": patience, "init_timeout_ms": patience, **(options or {})}


def _theirs(group):
    """The process group of torch.distributed that its argument `group` stands for."""
    return _c10d._get_default_group() if group is None or group is getattr(_c10d.group, "WORLD", None) else group


def found(group):
    """The group of this backend that torch.distributed's argument `group` stands for."""
    group = _theirs(group)
    if not isinstance(group, _Group) and hasattr(group, "_get_backend"):
        with contextlib.suppress(RuntimeError):  # it has no backend for tensors of the host
            group = group._get_backend(torch.device("cpu"))
    if not isinstance(group, _Group):
        raise refusal(f"group is {group!r}: it must be a process group of the backend tutti")
    return group


def shrink(group=None, exclude=None, timeout=None):
    """Makes a process group of the ranks that are left; only they call it.

    ``group``: a group of the backend tutti, also one that has failed; default: that of all ranks. ``exclude``: its
    ranks that are left out; default: those that have failed, as far as this rank knows (it waits up to a second for
    the first). Operations under way end with TuttiRemoteError, and of the old group nothing but its ranks' numbers is
    of use. Returns the new group, for
    ``group=`` of the functions of torch.distributed; ranks keep their order. If another rank has died meanwhile, shrink
    again.

    Errors: TuttiUsageError: the lists of two ranks differ. TuttiRemoteError: a survivor died.
    """
    old = found(group)
    if exclude is None:  # the fusion of a hook may know of a death a moment before the group does
        until = time.monotonic() + 1
        while not old._comm.failed() and time.monotonic() < until:
            time.sleep(0.01)
        exclude = old._comm.failed()
    exclude = list(exclude)
    members = [rank for rank in range(old._comm.size) if rank not in exclude]
    comm = old._comm.shrink(exclude, abort=True, **old._options)
    patience = timeout if isinstance(timeout, timedelta) else timedelta(seconds=old._patience)
    # A new store: the rank that held the old one may be dead.
    new = ProcessGroup(comm, share_store(comm, patience), patience, old._options)
    _enter(new, _theirs(group), members)
    return new


def _enter(new, old, members):
    """Makes a group known to torch.distributed."""
    world = getattr(_c10d, "_world", None)
    groups, names, ranks = ((world.pg_map, world.pg_names, world.pg_group_ranks) if world is not None else
                            (_c10d._pg_map, _c10d._pg_names, _c10d._pg_group_ranks))
    theirs = next((numbers for pg, numbers in ranks.items() if pg is old), None)
    if theirs is None:
        raise refusal("the group is not known to torch.distributed: it was destroyed", TuttiUsageError)
    whole = {own: everywhere for everywhere, own in theirs.items()}
    groups[new] = ("tutti", new._store)
    names[new] = f"{names[old]} without {len(whole) - len(members)}, {new._comm.size} ranks {len(names)}"
    ranks[new] = {whole[member]: number for number, member in enumerate(members)}
    if hasattr(world, "pg_to_tag"):  # newer versions ask for these, at the latest when they destroy the group
        tag = f"ptd:{names[new]}"
        world.pg_backend_config[new], world.pg_to_tag[new] = "cpu:tutti", tag
        for its in ("", tag):
            world.tags_to_pg.setdefault(its, []).append(new)
    if hasattr(_c10d, "_register_process_group"):
        new._set_group_name(names[new])
        _c10d._register_process_group(names[new], new)
