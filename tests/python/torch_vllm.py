# SPDX-License-Identifier: BSD-3-Clause
"""The plugin of vLLM, against a stub of the interface: its groups give what vLLM's own communicator gives over gloo.

The stub has what the plugin touches of vLLM's public source: vllm/distributed/parallel_state.py of commit
0c175ae9295b575078961a68c4d3a2a838dce5ef, which makes the communicators, and
vllm/distributed/device_communicators/cpu_communicator.py of commit 02bdead9022e0ebd7159a4af93f74138fcf7bf10, of which
the plugin's is a kind. vLLM itself has not been tried.
"""
import importlib
import os
import sys
import types
import unittest

import torch
import torch.distributed as dist

import tutti
import tutti.vllm
from torch_ranks import run, values

SIZE = 3


class CpuPlatform:
    @classmethod
    def get_device_communicator_cls(cls):
        return "vllm.distributed.device_communicators.cpu_communicator.CpuCommunicator"

    def is_cpu(self):
        return True


class CpuCommunicator:
    """vLLM's, without its shared memory, and with the names of torch 1.13."""

    has_made_shm = False

    def __init__(self, cpu_group, device=None, device_group=None, unique_name=""):
        self.cpu_group, self.device_group, self.unique_name = cpu_group, device_group, unique_name
        self.rank, self.world_size = dist.get_rank(cpu_group), dist.get_world_size(cpu_group)
        self.ranks = [dist.distributed_c10d.get_global_rank(cpu_group, rank) for rank in range(self.world_size)]
        self.rank_in_group = self.rank
        self.dist_module = dist
        self.has_made_shm = unique_name[:2] in ("tp", "pp") and self._all_group_ranks_share_shm_group_name()

    def _all_group_ranks_share_shm_group_name(self):
        return True

    def all_reduce(self, input_):
        self.dist_module.all_reduce(input_, group=self.device_group)
        return input_

    def gather(self, input_, dst=0, dim=-1):
        is_root = self.rank_in_group == dst
        parts = [torch.empty_like(input_) for _ in range(self.world_size)] if is_root else None
        self.dist_module.gather(input_, parts, dst=self.ranks[dst], group=self.device_group)
        return torch.cat(parts, dim=dim) if is_root else None

    def all_gather(self, input_, dim=-1):
        dim %= input_.dim()
        size = input_.size()
        out = torch.empty((size[0] * self.world_size, *size[1:]), dtype=input_.dtype)
        if self.dist_module is dist:  # whose gloo has no all_gather_into_tensor in 1.13
            dist.all_gather(list(out.split(size[0])), input_, group=self.device_group)
        else:
            self.dist_module.all_gather_into_tensor(out, input_, group=self.device_group)
        out = out.reshape((self.world_size, *size)).movedim(0, dim)
        return out.reshape((*size[:dim], self.world_size * size[dim], *size[dim + 1:]))

    def destroy(self):
        pass


def _install(platform):
    """Makes the stub what `import vllm...` finds."""
    for name in ("vllm", "vllm.platforms", "vllm.distributed", "vllm.distributed.device_communicators",
                 "vllm.distributed.device_communicators.cpu_communicator"):
        made = sys.modules[name] = types.ModuleType(name)
        made.__path__ = []
    sys.modules["vllm.platforms"].current_platform = platform
    made.CpuCommunicator = CpuCommunicator


def communicator(unique_name, ranks=None):
    """As vLLM's GroupCoordinator makes it, of the class that the platform names."""
    from vllm.platforms import current_platform
    module, _, name = current_platform.get_device_communicator_cls().rpartition(".")
    group = dist.new_group(ranks, backend="gloo")
    return getattr(importlib.import_module(module), name)(
        cpu_group=group, device=torch.device("cpu"), device_group=group, unique_name=unique_name)


def plugged(**variables):
    """The platform behind the plugin's call, in the environment of a user."""
    class Platform(CpuPlatform):
        pass
    os.environ.update(variables)
    _install(Platform())
    tutti.vllm.register()
    tutti.vllm.register()  # vLLM may call it twice
    return Platform


class Registering(unittest.TestCase):
    def test_it_acts_on_cpus_and_where_it_is_named(self):
        theirs, ours = CpuPlatform.get_device_communicator_cls(), "tutti.vllm.communicator.Communicator"
        self.assertEqual(plugged(VLLM_PLUGINS="").get_device_communicator_cls(), theirs)
        self.assertEqual(plugged(VLLM_PLUGINS="another,tutti").get_device_communicator_cls(), ours)
        is_cpu, CpuPlatform.is_cpu = CpuPlatform.is_cpu, lambda self: False
        try:
            self.assertEqual(plugged(VLLM_PLUGINS="tutti").get_device_communicator_cls(), theirs)
        finally:
            CpuPlatform.is_cpu = is_cpu

    def test_its_entry_point_is_vllm_s(self):
        path = os.path.join(os.environ["TESTED_SOURCE"], "python", "pyproject.toml")
        with open(path) as file:
            self.assertIn('[project.entry-points."vllm.general_plugins"]\ntutti = "tutti.vllm:register"\n', file.read())


class Groups(unittest.TestCase):
    def test_tensor_parallel_calls_give_what_gloo_gives(self):
        def body(rank):
            plugged(VLLM_PLUGINS="tutti")
            ours, theirs = communicator("tp:0"), CpuCommunicator(dist.group.WORLD, None, dist.group.WORLD, "dp:0")
            assert not ours.has_made_shm
            for dtype in (torch.float32, torch.float64):  # not every gloo has halves
                x = values(rank, 24, dtype).reshape(2, 3, 4)
                assert torch.equal(ours.all_reduce(x.clone()), theirs.all_reduce(x.clone()))
                for y in (x, x.transpose(0, 2)):  # the second is not contiguous
                    for dim in (0, 1, -1):
                        mine = ours.all_gather(y, dim)
                        assert torch.equal(mine, theirs.all_gather(y.contiguous(), dim)), (y.shape, dim)
                        for dst in range(SIZE):
                            mine, other = ours.gather(y, dst, dim), theirs.gather(y.contiguous(), dst, dim)
                            assert (mine is None) == (rank != dst) and (mine is None or torch.equal(mine, other))
            y = values(rank, 24).reshape(4, 6).t()
            assert torch.equal(ours.all_reduce(y), sum(values(r, 24) for r in range(SIZE)).reshape(4, 6).t())
            z = torch.full((5,), rank + 1, dtype=torch.bfloat16)
            assert ours.all_reduce(z).tolist() == [6] * 5
            ours.destroy()
        run(SIZE, body, "gloo")

    def test_groups_of_some_ranks_and_of_pipeline_stages(self):
        def body(rank):
            plugged(VLLM_PLUGINS="tutti")
            pairs = [communicator(f"tp:{pair}", [2 * pair, 2 * pair + 1]) if rank // 2 == pair else
                     dist.new_group([2 * pair, 2 * pair + 1], backend="gloo") for pair in range(2)]
            x = torch.tensor([rank + 1.0])
            assert pairs[rank // 2].all_reduce(x).item() == (3 if rank < 2 else 7)
            stages = communicator("pp:0")
            assert stages.has_made_shm and stages.dist_module is dist
            pairs[rank // 2].destroy()
            stages.destroy()
        run(4, body, "gloo")

    def test_tracing_tells_shapes_and_calls_nobody(self):
        plugged(VLLM_PLUGINS="tutti")
        importlib.import_module("tutti.vllm.communicator")
        with torch.inference_mode():  # as vLLM has it
            x = torch.empty(2, 3, device="meta")
            torch.ops.tutti.all_reduce_(x, 0)
            torch.ops.tutti.all_gather_(torch.empty(4, 3, device="meta"), x, 0)
            torch.ops.tutti.gather_(torch.empty(2, 2, 3, device="meta"), x, 0, 0)

    def test_what_cannot_be_summed_is_refused_by_name(self):
        def body(rank):
            plugged(VLLM_PLUGINS="tutti")
            ours = communicator("tp:0")
            try:
                ours.all_reduce(torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8))
                raise AssertionError("not refused")
            except (tutti.TuttiArgumentError, NotImplementedError) as why:
                assert "qint8" in str(why) or "Quantized" in str(why), why
            ours.destroy()
        run(2, body, "gloo")


if __name__ == "__main__":
    unittest.main()
