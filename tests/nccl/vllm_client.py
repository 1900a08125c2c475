# SPDX-License-Identifier: BSD-3-Clause
"""Binds and calls what vLLM's NCCL wrapper binds, through ctypes with the same types, in 1 to 4 processes.

The library is VLLM_NCCL_SO_PATH, else libnccl.so.2. Buffers are ctypes arrays: host memory."""
import ctypes
import multiprocessing
import os
import sys
import traceback

COUNT = 1000
SUM, FLOAT32 = 0, 7

result_t, comm_t, window_t, stream_t, buffer_t = (
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
type_t = op_t = ctypes.c_int


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


MOVE = [buffer_t, buffer_t, ctypes.c_size_t, type_t]  # how most of the operations begin
END = [comm_t, stream_t]
FUNCTIONS = {
    "ncclGetErrorString": (ctypes.c_char_p, [result_t]),
    "ncclGetVersion": (result_t, [ctypes.POINTER(ctypes.c_int)]),
    "ncclGetUniqueId": (result_t, [ctypes.POINTER(UniqueId)]),
    "ncclCommInitRank": (result_t, [ctypes.POINTER(comm_t), ctypes.c_int, UniqueId, ctypes.c_int]),
    "ncclAllReduce": (result_t, MOVE + [op_t] + END),
    "ncclReduce": (result_t, MOVE + [op_t, ctypes.c_int] + END),
    "ncclAllGather": (result_t, MOVE + END),
    "ncclReduceScatter": (result_t, MOVE + [op_t] + END),
    "ncclSend": (result_t, [buffer_t, ctypes.c_size_t, type_t, ctypes.c_int] + END),
    "ncclRecv": (result_t, [buffer_t, ctypes.c_size_t, type_t, ctypes.c_int] + END),
    "ncclBroadcast": (result_t, MOVE + [ctypes.c_int] + END),
    "ncclCommDestroy": (result_t, [comm_t]),
    "ncclCommAbort": (result_t, [comm_t]),
    "ncclGroupStart": (result_t, []),
    "ncclGroupEnd": (result_t, []),
    "ncclCommWindowRegister": (
        result_t, [comm_t, buffer_t, ctypes.c_size_t, ctypes.POINTER(window_t), ctypes.c_int]),
    "ncclCommWindowDeregister": (result_t, [comm_t, window_t]),
}


class Library:
    """The wrapper: every call raises unless its result is 0."""

    def __init__(self):
        library = ctypes.CDLL(os.environ.get("VLLM_NCCL_SO_PATH", "libnccl.so.2"))
        for name, (restype, argtypes) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = restype, argtypes
            setattr(self, name, function if name == "ncclGetErrorString" else self.checked(function))

    def checked(self, function):
        def call(*arguments):
            result = function(*arguments)
            if result != 0:
                raise RuntimeError(f"{function.__name__}: {self.ncclGetErrorString(result).decode()}")
        return call


def buffer(values):
    return (ctypes.c_float * len(values))(*values)


def expect(what, got, wanted):
    if list(got) != list(wanted):
        raise AssertionError(f"{what}: {list(got)[:4]}... instead of {list(wanted)[:4]}...")


def share(rank):
    """What a rank contributes: whole numbers, so that sums are exact."""
    return [float(rank * 5000 + i) for i in range(COUNT)]


def reductions(nccl, comm, rank, nranks):
    shares = [share(r) for r in range(nranks)]
    total = [sum(column) for column in zip(*shares)]
    mine, out = buffer(shares[rank]), buffer([-1.0] * COUNT)
    nccl.ncclAllReduce(mine, out, COUNT, FLOAT32, SUM, comm, None)
    expect("all-reduce", out, total)
    out = buffer([-1.0] * COUNT)
    nccl.ncclReduce(mine, out, COUNT, FLOAT32, SUM, nranks - 1, comm, None)
    expect("reduce", out, total if rank == nranks - 1 else [-1.0] * COUNT)
    part = COUNT // nranks
    out = buffer([-1.0] * part)
    nccl.ncclReduceScatter(mine, out, part, FLOAT32, SUM, comm, None)
    expect("reduce-scatter", out, total[rank * part:(rank + 1) * part])


def moves(nccl, comm, rank, nranks):
    mine = buffer(share(rank))
    gathered, out = buffer([-1.0] * (COUNT * nranks)), buffer([-1.0] * COUNT)
    nccl.ncclAllGather(mine, gathered, COUNT, FLOAT32, comm, None)
    expect("all-gather", gathered, sum((share(r) for r in range(nranks)), []))
    nccl.ncclBroadcast(mine, out, COUNT, FLOAT32, nranks - 1, comm, None)
    expect("broadcast", out, share(nranks - 1))
    nccl.ncclGroupStart()
    nccl.ncclSend(mine, COUNT, FLOAT32, (rank + 1) % nranks, comm, None)
    nccl.ncclRecv(out, COUNT, FLOAT32, (rank - 1) % nranks, comm, None)
    nccl.ncclGroupEnd()
    expect("ring", out, share((rank - 1) % nranks))


def shares_of_different_lengths(nccl, comm, rank, nranks):
    """Broadcasts in a group gather them; reduces in a group, into one buffer on every rank, scatter the sum."""
    sizes = [3 + r for r in range(nranks)]
    starts = [sum(sizes[:r]) for r in range(nranks)]
    whole, mine = buffer([-1.0] * sum(sizes)), buffer(share(rank)[:sizes[rank]])
    nccl.ncclGroupStart()
    for root, size in enumerate(sizes):
        at = ctypes.addressof(whole) + 4 * starts[root]
        nccl.ncclBroadcast(ctypes.addressof(mine), at, size, FLOAT32, root, comm, None)
    nccl.ncclGroupEnd()
    expect("all-gather of shares", whole, sum((share(r)[:sizes[r]] for r in range(nranks)), []))
    out = buffer([-1.0] * sizes[rank])
    nccl.ncclGroupStart()
    for root, size in enumerate(sizes):
        at = ctypes.addressof(whole) + 4 * starts[root]
        nccl.ncclReduce(at, ctypes.addressof(out), size, FLOAT32, SUM, root, comm, None)
    nccl.ncclGroupEnd()
    expect("reduce-scatter of shares", out, [nranks * x for x in share(rank)[:sizes[rank]]])


def windows(nccl, comm):
    memory, window = buffer([0.0] * 1024), window_t()
    nccl.ncclCommWindowRegister(comm, memory, 4096, ctypes.byref(window), 1)
    nccl.ncclCommWindowDeregister(comm, window)


def run(rank, nranks, ids, barrier):
    nccl, version, comm, unique = Library(), ctypes.c_int(), comm_t(), UniqueId()
    nccl.ncclGetVersion(ctypes.byref(version))
    expect("version", [version.value], [22809])
    for end in (nccl.ncclCommDestroy, nccl.ncclCommAbort):
        if rank == 0:  # the id goes round as bytes
            nccl.ncclGetUniqueId(ctypes.byref(unique))
            for _ in range(nranks - 1):
                ids.put(bytes(unique.internal[i] & 255 for i in range(128)))
        else:
            ctypes.memmove(unique.internal, ids.get(), 128)
        nccl.ncclCommInitRank(ctypes.byref(comm), nranks, unique, rank)
        warm_up = buffer([1.0])
        nccl.ncclAllReduce(warm_up, warm_up, 1, FLOAT32, SUM, comm, None)
        expect("warm-up", warm_up, [float(nranks)])
        reductions(nccl, comm, rank, nranks)
        moves(nccl, comm, rank, nranks)
        shares_of_different_lengths(nccl, comm, rank, nranks)
        windows(nccl, comm)
        barrier.wait(30)  # an abort would end what another process is still in
        end(comm)


def process(rank, nranks, ids, barrier):
    try:
        run(rank, nranks, ids, barrier)
    except Exception:
        traceback.print_exc()
        os._exit(1)


def main():
    if len(FUNCTIONS) != 17:
        sys.exit("not vLLM's 17 functions")
    context = multiprocessing.get_context("spawn")
    for nranks in range(1, 5):
        ids, barrier = context.Queue(), context.Barrier(nranks)
        ranks = [context.Process(target=process, args=(r, nranks, ids, barrier)) for r in range(nranks)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(60)
        if any(rank.exitcode != 0 for rank in ranks):
            for rank in ranks:
                rank.kill()
            sys.exit(f"world of {nranks} processes failed: {[rank.exitcode for rank in ranks]}")


if __name__ == "__main__":
    main()
