# SPDX-License-Identifier: BSD-3-Clause
"""Training with shares of the weights (FSDP, DTensor), and checkpoints of it, have the losses and weights that they
have over gloo; what this version of torch lacks on a CPU is skipped. The torch of Debian 12 lacks all of it."""
import importlib
import os
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch import nn

import tutti.torch
from torch_ranks import run

STEPS = 3


def lacks(module, *names):
    """Why a part of torch cannot be tested here; None: it can."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        return f"this torch has no {module}"
    except ValueError:  # 1.13 with Python 3.11, whose data classes are stricter
        return f"this torch cannot import {module} with this Python"
    missing = [name for name in names if not hasattr(found, name)]
    return f"this torch has no {module}.{missing[0]}" if missing else None


FSDP2 = lacks("torch.distributed.fsdp", "fully_shard")
if FSDP2 is None and not hasattr(torch.cpu.Stream, "record_event"):
    FSDP2 = "this torch's fully_shard needs streams that a CPU lacks, over gloo, too"
DTENSOR = lacks("torch.distributed.tensor", "distribute_tensor")
MESH = lacks("torch.distributed.device_mesh", "init_device_mesh")
SAVE = lacks("torch.distributed.checkpoint", "save")
OLD_SAVE = lacks("torch.distributed.checkpoint", "save_state_dict")


class Net(nn.Module):
    """Layers whose lengths are no multiples of the ranks."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(7, 33), nn.LayerNorm(33), nn.Linear(33, 5)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


def data(rank, step):
    torch.manual_seed(100 * step + rank)
    return torch.randn(6, 7)


def steps(model, optimizer, rank, first=0):
    """Trains; the losses of this rank."""
    losses = []
    for step in range(first, first + STEPS):
        optimizer.zero_grad()
        loss = model(data(rank, step)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def whole(model):
    """The weights of a model, put together."""
    return {name: (x.full_tensor() if hasattr(x, "full_tensor") else x).detach().clone()
            for name, x in model.named_parameters()}


def equal(ours, theirs):
    assert len(ours) == len(theirs)
    for (losses, weights), (losses2, weights2) in zip(ours, theirs):
        assert losses == losses2, (losses, losses2)
        assert weights.keys() == weights2.keys()
        for name, x in weights.items():
            assert torch.equal(x, weights2[name]), name


class Same(unittest.TestCase):
    """Two ranks: then the sum of two numbers has the same bits in either order."""

    def same(self, body, size=2):
        equal(run(size, body), run(size, body, "gloo"))

    @unittest.skipIf(FSDP2, FSDP2)
    def test_fsdp2(self):
        for policy in (False, True):
            def body(rank):
                from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
                torch.manual_seed(5)
                net = Net()
                half = {"mp_policy": MixedPrecisionPolicy(torch.float64)} if policy else {}  # not every gloo has halves
                mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
                for layer in (net.first, net.last):
                    fully_shard(layer, mesh=mesh, **half)
                fully_shard(net, mesh=mesh, **half)
                losses = steps(net, torch.optim.Adam(net.parameters(), 0.01), rank)
                return losses, whole(net)
            self.same(body)

    @unittest.skipIf(FSDP2, FSDP2)
    def test_fsdp2_in_memory_that_the_backend_gives(self):
        def body(rank):
            from torch.distributed.fsdp import fully_shard
            torch.manual_seed(5)
            net = fully_shard(Net(), mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
            group, given = dist.distributed_c10d._get_default_group(), []
            if isinstance(group, tutti.torch.ProcessGroup):
                theirs = group.allocate_tensor
                group.allocate_tensor = lambda *some, **named: given.append(theirs(*some, **named)) or given[-1]
                net.set_allocate_memory_from_process_group_for_comm(True)
            losses = steps(net, torch.optim.Adam(net.parameters(), 0.01), rank)
            assert bool(given) == isinstance(group, tutti.torch.ProcessGroup)
            return losses, whole(net)
        from torch.distributed.fsdp import FSDPModule
        if not hasattr(FSDPModule, "set_allocate_memory_from_process_group_for_comm"):
            self.skipTest("this torch asks no backend for memory")
        self.same(body)

    @unittest.skipIf(FSDP2, FSDP2)
    def test_fsdp2_with_copies_of_the_shares(self):
        def body(rank):
            from torch.distributed.fsdp import fully_shard
            torch.manual_seed(5)
            net = Net()
            fully_shard(net, mesh=dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copy", "share")))
            return steps(net, torch.optim.SGD(net.parameters(), 0.1), rank), whole(net)
        self.same(body, 4)

    @unittest.skipIf(FSDP2, FSDP2)  # before it there is none on a CPU
    def test_fsdp1(self):
        def body(rank):
            from torch.distributed.fsdp import FullyShardedDataParallel
            torch.manual_seed(5)
            model = FullyShardedDataParallel(Net(), device_id=torch.device("cpu"))
            losses = steps(model, torch.optim.SGD(model.parameters(), 0.1), rank)
            with FullyShardedDataParallel.summon_full_params(model):
                return losses, whole(model)
        self.same(body)

    @unittest.skipIf(DTENSOR or MESH, DTENSOR or MESH)
    def test_dtensor(self):
        def body(rank):
            from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
            mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
            torch.manual_seed(1)
            a, b = torch.randint(-9, 9, (5, 8)).float(), torch.randint(-9, 9, (8, 3)).float()
            product = distribute_tensor(a, mesh, [Shard(1)]) @ distribute_tensor(b, mesh, [Shard(0)])
            assert isinstance(product.placements[0], Partial)
            assert torch.equal(product.full_tensor(), a @ b)
            rows = product.redistribute(mesh, [Shard(0)])
            columns = rows.redistribute(mesh, [Shard(1)])
            assert torch.equal(columns.full_tensor(), a @ b)
            assert torch.equal(columns.redistribute(mesh, [Replicate()]).to_local(), a @ b)
            return [product.sum().full_tensor().item()], {"local": rows.to_local(), "other": columns.to_local()}
        self.same(body)

    @unittest.skipIf(DTENSOR or MESH, DTENSOR or MESH)
    def test_tensor_parallel_layers(self):
        def body(rank):
            from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
            torch.manual_seed(5)
            net = nn.Sequential(nn.Linear(7, 12), nn.Tanh(), nn.Linear(12, 5))
            parallelize_module(net, dist.device_mesh.init_device_mesh("cpu", (2,)),
                               {"0": ColwiseParallel(), "2": RowwiseParallel()})
            return steps(net, torch.optim.SGD(net.parameters(), 0.1), 0), whole(net)
        self.same(body)


class Checkpoints(unittest.TestCase):
    def both(self, body):
        said = []
        for backend in ("tutti", "gloo"):
            with tempfile.TemporaryDirectory() as folder:
                said.append(run(2, lambda rank: body(rank, folder), backend))
        equal(*said)

    @unittest.skipIf(FSDP2 or SAVE, FSDP2 or SAVE)
    def test_sharded_training_goes_on_from_a_checkpoint(self):
        def body(rank, folder):
            import torch.distributed.checkpoint as checkpoint
            from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
            from torch.distributed.fsdp import fully_shard

            def made(seed):
                torch.manual_seed(seed)
                net = Net()
                fully_shard(net, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
                return net, torch.optim.Adam(net.parameters(), 0.01)
            net, optimizer = made(5)
            steps(net, optimizer, rank)
            weights, state = get_state_dict(net, optimizer)
            checkpoint.save({"weights": weights, "state": state}, checkpoint_id=folder)
            losses = steps(net, optimizer, rank, STEPS)
            other, optimizer = made(6)
            weights, state = get_state_dict(other, optimizer)
            checkpoint.load({"weights": weights, "state": state}, checkpoint_id=folder)
            set_state_dict(other, optimizer, model_state_dict=weights, optim_state_dict=state)
            assert steps(other, optimizer, rank, STEPS) == losses
            return losses, whole(other)
        self.both(body)

    @unittest.skipIf(SAVE and OLD_SAVE, OLD_SAVE)
    def test_training_with_ddp_goes_on_from_a_checkpoint(self):
        def body(rank, folder):
            import torch.distributed.checkpoint as checkpoint

            def made(seed):
                torch.manual_seed(seed)
                net = Net()
                model = nn.parallel.DistributedDataParallel(net)
                return net, model, torch.optim.SGD(net.parameters(), 0.1)

            def call(name, state):
                if SAVE is None:
                    getattr(checkpoint, name)(state, checkpoint_id=folder)
                elif name == "save":
                    checkpoint.save_state_dict(state, checkpoint.FileSystemWriter(folder))
                else:
                    checkpoint.load_state_dict(state, checkpoint.FileSystemReader(folder))
            net, model, optimizer = made(5)
            steps(model, optimizer, rank)
            call("save", {"weights": net.state_dict()})
            losses = steps(model, optimizer, rank, STEPS)
            other, model, optimizer = made(6)
            weights = {name: torch.zeros_like(x) for name, x in other.state_dict().items()}
            call("load", {"weights": weights})
            other.load_state_dict(weights)
            assert steps(model, optimizer, rank, STEPS) == losses
            assert os.listdir(folder)
            return losses, whole(other)
        self.both(body)


if __name__ == "__main__":
    unittest.main()
