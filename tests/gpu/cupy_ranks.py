# SPDX-License-Identifier: BSD-3-Clause
"""CuPy's cupy.cuda.nccl on one GPU with the libnccl.so.2 that is preloaded: two ranks as processes."""
import multiprocessing
import sys


def rank_run(rank, ranks, uid):
    import cupy
    from cupy.cuda import nccl
    comm = nccl.NcclCommunicator(ranks, uid, rank)
    for count in (1, 1000, 3_000_001):
        x = cupy.full(count, rank + 1, dtype=cupy.float32)
        y = cupy.empty_like(x)
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        comm.allReduce(x.data.ptr, y.data.ptr, count, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
        stream.synchronize()
        assert (y == ranks * (ranks + 1) / 2).all(), count
    if rank == 0:
        print(f"| CuPy {cupy.__version__} | {ranks} ranks, right sums |")


def main():
    try:
        from cupy.cuda import nccl
    except ImportError as why:
        print(f"skipped: {why}")
        return 77
    ranks, uid = 2, nccl.get_unique_id()
    start = multiprocessing.get_context("spawn")
    processes = [start.Process(target=rank_run, args=(r, ranks, uid)) for r in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return int(any(process.exitcode for process in processes))


if __name__ == "__main__":
    sys.exit(main())
