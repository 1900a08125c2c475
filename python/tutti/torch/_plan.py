# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of DistributedDataParallel's buckets, for whatever backend, by the planner of `tutti plan`."""
import json
import math
import subprocess
import tempfile
import time
from typing import Callable, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._library import TuttiRemoteError, TuttiSystemError, TuttiUsageError, refusal
from .._programs import find

_MIB = 2**20
_SIZES = (4096, 4 * _MIB)  # bytes of the all-reduces that are measured
_RUNS = 3                  # of a step, or of each all-reduce, after one that is not counted


def _cost(group, device):
    """What an all-reduce of m bytes takes over a group: (a, b) of a + b m in us, by the quickest of a few."""
    took = []
    for size in _SIZES:
        x = torch.zeros(size // 4, device=device)
        best = float("inf")
        for _ in range(_RUNS + 1):
            began = time.perf_counter()
            dist.all_reduce(x, group=group)
            x[:1].tolist()  # waits for a device that computes while the host goes on
            best = min(best, (time.perf_counter() - began) * 1e6)
        took.append(best)
    slope = max(took[1] - took[0], 0) / (_SIZES[1] - _SIZES[0])
    return max(took[0] - slope * _SIZES[0], 0), slope


def _ready(model, parameters, step):
    """When the gradient of each parameter is there, in us from the first one on: the medians of some steps."""
    all_of_them = list(model.parameters())  # step gives gradients to others, too
    kept = [p.grad for p in all_of_them], [x.detach().clone() for x in model.buffers()]
    runs, now = [], {}
    hooks = [p.register_hook(lambda _, i=i: now.__setitem__(i, time.perf_counter())) for i, p in enumerate(parameters)]
    try:
        with torch.random.fork_rng(devices=[]):
            for _ in range(_RUNS + 1):
                now.clear()
                for p in all_of_them:
                    p.grad = None  # else sums would be made in those that are kept
                step()
                runs.append(dict(now))
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for p, grad in zip(all_of_them, kept[0]):
                p.grad = grad
            for x, old in zip(model.buffers(), kept[1]):
                x.copy_(old)
    if not runs[-1]:
        raise refusal("step has given no parameter of the model a gradient: it must call backward()")
    last = [sorted(run.get(i, max(run.values())) - min(run.values()) for run in runs[1:])[_RUNS // 2]
            for i in range(len(parameters))]
    return [us * 1e6 for us in last]


def _groups(lengths, times, cost):
    """The planner's groups of gradients, as lists of their places; all are in the order of backward."""
    program = find("tutti")
    if program is None:
        raise TuttiSystemError("the program tutti, which plans, is neither beside this package nor in PATH: install it "
                               "with scripts/install, or take the wheel")
    n = len(lengths)
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("layer_index,params,bwd_time_us,fwd_time_us\n")
        for layer in range(1, n + 1):  # in forward order
            file.write(f"{layer},{max(-(-lengths[n - layer] // 4), 1)},{times[n - layer]:.3f},0\n")
        file.flush()
        done = subprocess.run([program, "plan", file.name, "--policy", "optimal", "--json", "--cost",
                               f"{cost[0]!r},{cost[1]!r}"], capture_output=True, text=True)
    if done.returncode:
        raise TuttiSystemError(f"{program} has failed: {done.stderr.strip()}")
    return [[n - layer for layer in group] for group in json.loads(done.stdout)["groups"]]


def plan(model: torch.nn.Module, step: Optional[Callable[[], object]] = None, group=None,
         cost: Optional[Tuple[float, float]] = None) -> List[float]:
    """Sizes of DistributedDataParallel's buckets over any backend: for ``bucket_cap_mb_list`` of torch 2.13 and later.

        sizes = tutti.torch.plan(net, lambda: loss(net(x), y).backward())
        model = DistributedDataParallel(net, bucket_cap_mb_list=sizes)

    These are the buckets with which an iteration ends first, if all-reduces of ``a + b m`` us for m bytes go one after
    the other while backward goes on. Returns MiB for each bucket, in the order in which DDP sends them.

    ``model``: what DDP will wrap. ``step``: runs it forward and backward; it is called 4 times and shows when each
    gradient is ready. The gradients, buffers and random numbers of the host are then what they were. The parameters
    must be in host memory. Without it, gradients are taken to be ready in the reverse order of ``model.parameters()``,
    in times proportional to their lengths, and backward to last as long as an all-reduce of all of them.
    ``cost``: (a, b); default: measured with torch.distributed's all-reduces over ``group``, of 4 KiB and 4 MiB.

    If torch.distributed has begun, the call is collective over ``group`` (default: all ranks): each rank runs ``step``,
    and all get the list that the first one plans, by its own ``cost``. Where parameters have several types, DDP applies
    the list to those of each type by themselves: it is made for the type with the most bytes.

    Errors: TuttiArgumentError: no parameter needs a gradient; ``step`` gives none; ``cost`` is no pair of finite
    numbers from 0. TuttiUsageError: no ``cost`` is given and torch.distributed has not begun. TuttiSystemError: there
    is no program tutti. TuttiRemoteError: one of these, or an exception of ``step``, on another rank, which is named.
    """
    has_group = dist.is_available() and dist.is_initialized()
    agreed = _agreed(lambda: _checked(model, step, cost, has_group), group, has_group)
    parameters = _parameters(model)
    if agreed is None:
        agreed = _cost(group, parameters[0].device)
    is_first = not has_group or dist.get_rank(group) == 0
    return _agreed(lambda: _sizes(model, parameters, step, agreed, is_first), group, has_group)


def _agreed(call, group, has_group):
    """What call() gives on the first rank; if it raises on one, all raise. Those that come must not be left waiting."""
    if not has_group:
        return call()
    own = value = None
    try:
        value = call()
    except Exception as why:
        own = why
    said: list = [None] * dist.get_world_size(group)
    dist.all_gather_object(said, (value, None if own is None else f"{type(own).__name__}: {own}"), group=group)
    if own is not None:
        raise own
    for rank, (_, sentence) in enumerate(said):
        if sentence is not None:
            raise TuttiRemoteError(f"plan has failed on rank {rank} of the group: {sentence}")
    return said[0][0]


def _checked(model, step, cost, has_group):
    """Checks the arguments; returns the cost in numbers of Python, or None: it is to be measured."""
    parameters = _parameters(model)
    if step is not None and any(p.device.type != "cpu" for p in parameters):
        raise refusal(f"step is given, and parameters are on device '{parameters[0].device}': only on the host does a "
                      "step show when gradients are ready; leave it out")
    if cost is None:
        if not has_group:
            raise TuttiUsageError("there is no process group to measure, and no cost is given: call torch.distributed."
                                  "init_process_group first, or give cost=(us of a message, us of a byte)")
        return None
    try:
        found = tuple(float(value) for value in cost)
    except (OverflowError, TypeError, ValueError):
        found = ()
    if len(found) != 2 or not all(value >= 0 and math.isfinite(value) for value in found):
        raise refusal(f"cost is {cost!r}: it must be (us of a message, us of a byte), finite numbers from 0")
    return found


def _parameters(model):
    """The parameters that the list is for, in DDP's first order."""
    ignored = set(getattr(model, "_ddp_params_and_buffers_to_ignore", ()))
    found = [p for name, p in model.named_parameters() if p.requires_grad and name not in ignored]
    if not found:
        raise refusal("model has no parameter that needs a gradient")
    lengths: dict = {}
    for p in found:
        lengths[p.dtype] = lengths.get(p.dtype, 0) + _length(p)
    most = max(lengths, key=lambda dtype: lengths[dtype])
    return [p for p in found if p.dtype == most][::-1]


def _length(p):
    return p.numel() * p.element_size()


def _sizes(model, parameters, step, cost, is_first):
    """MiB of each bucket; other ranks than the first only take part in steps, which may have collectives."""
    if step is not None:
        ready = _ready(model, parameters, step)
        order = sorted(range(len(parameters)), key=lambda i: ready[i])
        lengths = [_length(parameters[i]) for i in order]
        times = [0.0, *(ready[after] - ready[before] for before, after in zip(order, order[1:]))]
    else:
        lengths = [_length(p) for p in parameters]
        whole = cost[0] + cost[1] * sum(lengths)
        times = [whole * length / max(sum(lengths), 1) for length in lengths]
    if not is_first:
        return None
    groups = _groups(lengths, times, cost)
    # A bucket is full when it has as many bytes as its limit, so the sum of its gradients closes it with the last one.
    return [max(sum(lengths[i] for i in group), 1) / _MIB for group in groups]
