# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own backend "nccl" on one GPU, with the libnccl.so.2 that is preloaded: collectives,
DistributedDataParallel and fully_shard beside gloo's losses, a CUDA graph with all-reduces, empty_cache beside calls,
and speed beside gloo. Started by torch.distributed.run."""
import ctypes
import os
import threading
import time

import torch
import torch.distributed as dist


def collectives(rank, ranks, device):
    for count in (1, 1000, 3_000_001):
        x = torch.full((count,), float(rank + 1), device=device)
        dist.all_reduce(x)
        assert torch.equal(x, torch.full_like(x, ranks * (ranks + 1) / 2)), count
        parts = [torch.empty(count, device=device) for _ in range(ranks)]
        dist.all_gather(parts, torch.full((count,), float(rank), device=device))
        assert all(torch.equal(p, torch.full_like(p, float(r))) for r, p in enumerate(parts)), count
        out = torch.empty(count, device=device)
        dist.reduce_scatter(out, [torch.full((count,), float(r), device=device) for r in range(ranks)])
        assert torch.equal(out, torch.full_like(out, float(rank * ranks))), count
        parts = torch.arange(ranks, dtype=torch.float32, device=device).repeat_interleave(count)
        out = torch.empty_like(parts)
        dist.all_to_all_single(out, parts + rank)
        mine = torch.arange(ranks, dtype=torch.float32, device=device).repeat_interleave(count) + rank
        assert torch.equal(out, mine), count
        y = torch.full((count,), float(rank), device=device)
        dist.broadcast(y, ranks - 1)
        assert torch.equal(y, torch.full_like(y, float(ranks - 1))), count
        out = torch.empty(count, device=device)
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(out, 0)
            assert torch.equal(out, x), count


def replicated(model, group=None):
    return torch.nn.parallel.DistributedDataParallel(model, process_group=group)


def sharded(model):
    from torch.distributed.fsdp import fully_shard
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    return model


def losses(device, wrap, rank):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
    model = wrap(model)
    step = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(rank)
    out = []
    for _ in range(20):
        x, y = torch.randn(32, 64, generator=data).to(device), torch.randint(10, (32,), generator=data).to(device)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        step.zero_grad()
        loss.backward()
        step.step()
        out.append(loss.item())
    return out


def graph(rank, ranks, device):
    x, total = torch.zeros(1000, device=device), torch.zeros(1000, device=device)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(50):
            x.fill_(rank + 1)
            dist.all_reduce(x)
            total.add_(x)
    total.zero_()
    for _ in range(100):
        captured.replay()
    torch.cuda.synchronize()
    assert torch.equal(total, torch.full_like(total, 100 * 50 * ranks * (ranks + 1) / 2)), total[0]


def storm(device):
    ends = threading.Event()

    def free():
        while not ends.is_set():
            torch.empty(1 << 20, device=device)
            torch.cuda.empty_cache()

    thread = threading.Thread(target=free)
    thread.start()
    x = torch.ones(100_000, device=device)
    for _ in range(300):
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
    torch.cuda.synchronize()
    ends.set()
    thread.join()


def speed(rank, device, gloo):
    for mib in (1, 16, 64):
        took = []
        for group, where in ((None, device), (gloo, torch.device("cpu"))):
            x = torch.ones(mib << 18, device=where)
            for k in range(12):
                if k == 2:
                    torch.cuda.synchronize()
                    began = time.monotonic()
                dist.all_reduce(x, op=dist.ReduceOp.MAX, group=group)
            torch.cuda.synchronize()
            took.append((time.monotonic() - began) / 10)
        if rank == 0:
            ours, theirs = (1e3 * seconds for seconds in took)
            print(f"| torch, all-reduce of {mib} MiB | {ours:.2f} ms, gloo on the CPU {theirs:.2f} ms |")


class Place(ctypes.Structure):
    _fields_ = [("library", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("at", ctypes.c_void_p)]


def library_of_nccl():
    """The one from which libtorch_cuda.so has its names; NVIDIA's may be open as well."""
    place, names = Place(), ctypes.CDLL(None)
    assert names.dladdr(ctypes.cast(names.ncclAllReduce, ctypes.c_void_p), ctypes.byref(place))
    return os.fsdecode(place.library)


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=None)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    collectives(rank, ranks, device)
    gloo = dist.new_group(backend="gloo")
    by_gloo = losses(torch.device("cpu"), lambda model: replicated(model, gloo), rank)
    for wrap in (replicated, sharded):
        by_nccl = losses(device, wrap, rank)
        assert all(abs(a - b) < 1e-3 * max(1.0, abs(b)) for a, b in zip(by_nccl, by_gloo)), (wrap, by_nccl, by_gloo)
    graph(rank, ranks, device)
    storm(device)
    speed(rank, device, gloo)
    dist.destroy_process_group()
    library = library_of_nccl()
    assert library in os.environ.get("LD_PRELOAD", library), library
    if rank == 0:
        print(f"| torch {torch.__version__} with {os.path.basename(library)} | {ranks} ranks, all right |")


if __name__ == "__main__":
    main()
