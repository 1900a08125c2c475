# SPDX-License-Identifier: BSD-3-Clause
"""JAX on one GPU with the libnccl.so.2 that is preloaded: a psum over two processes."""
import multiprocessing
import os
import socket
import sys


def rank_run(rank, ranks, address):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # both have the same GPU
    import jax
    import jax.numpy as jnp
    jax.distributed.initialize(address, ranks, rank, local_device_ids=[0])
    total = jax.pmap(lambda x: jax.lax.psum(x, "ranks"), axis_name="ranks")
    for count in (1, 1000, 3_000_001):
        y = total(jnp.full((1, count), float(rank + 1), dtype=jnp.float32))
        assert (y == ranks * (ranks + 1) / 2).all(), count
    if rank == 0:
        print(f"| JAX {jax.__version__} | {ranks} ranks, right sums |")


def main():
    try:
        import jax
    except ImportError as why:
        print(f"skipped: {why}")
        return 77
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ranks, start = 2, multiprocessing.get_context("spawn")
    processes = [start.Process(target=rank_run, args=(r, ranks, address)) for r in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return int(any(process.exitcode for process in processes))


if __name__ == "__main__":
    sys.exit(main())
