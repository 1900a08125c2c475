# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel over tutti, by itself and through a fusion, ends with the weights that it has over gloo, bit
for bit: whatever is done between backward and step, and however a model uses its parameters."""
import time
import unittest
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti
import tutti.torch
from tutti.torch import _rendezvous
from torch_ranks import die, run

STEPS = 4
RATE = 2 ** -7  # whose products are exact, so it does not matter where they are rounded


def refused(words, model, **options):
    try:
        tutti.torch.ddp_hook(model, **options)
        raise AssertionError("not refused")
    except tutti.TuttiArgumentError as why:
        assert all(word in str(why) for word in words), why


class Plain(nn.Module):
    """Convolution, normalisation with buffers, and layers of two sizes."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.first, self.second = nn.Linear(64, 50), nn.Linear(50, 3)

    def forward(self, x):
        return self.second(torch.tanh(self.first(torch.relu(self.norm(self.conv(x))).flatten(1))))


class Shared(Plain):
    """A layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.middle = nn.Linear(50, 50)

    def forward(self, x):
        x = self.first(torch.relu(self.conv(x)).flatten(1))
        return self.second(self.middle(torch.tanh(self.middle(x)))) + self.norm.weight.sum() + self.norm.bias.sum()


class Unused(Plain):
    """A layer that rank 1 does not use in odd steps, and one that nobody uses."""

    def __init__(self):
        super().__init__()
        self.sometimes, self.never = nn.Linear(50, 3), nn.Linear(50, 3)
        self.step = 0

    def forward(self, x):
        x = torch.tanh(self.first(torch.relu(self.norm(self.conv(x))).flatten(1)))
        self.step += 1
        return self.second(x) if dist.get_rank() and self.step % 2 else self.second(x) + self.sometimes(x)


def half():
    """The type of 16 bits that gloo can reduce, if it has one (that of Debian's torch 2 has not)."""
    try:
        dist.all_reduce(torch.zeros(1, dtype=torch.float16))
    except RuntimeError as why:
        if "scalar type" not in str(why):
            raise
        return torch.float64
    return torch.float16


class Mixed(Plain):
    """Parameters of three types."""

    def __init__(self):
        super().__init__()
        self.second.double()
        self.factor = nn.Parameter(torch.ones(5, dtype=half()))

    def forward(self, x):
        x = torch.tanh(self.first(torch.relu(self.norm(self.conv(x))).flatten(1)))
        return self.second(x.double()) * self.factor.sum().double()


def data(rank, step):
    torch.manual_seed(100 * step + rank)
    return torch.randn(6, 2, 6, 6)


def simple(model, optimizer, rank, step):
    model(data(rank, step)).square().sum().backward()


def accumulate(model, optimizer, rank, step):
    with model.no_sync():
        simple(model, optimizer, rank, 10 + step)
    simple(model, optimizer, rank, step)


def clip(model, optimizer, rank, step):
    simple(model, optimizer, rank, step)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def scale(model, optimizer, rank, step):
    """What a GradScaler does."""
    (model(data(rank, step)).square().sum() * 1024).backward()
    for parameter in model.parameters():
        parameter.grad /= 1024


def train(kind, group, rank, backward=simple, hook=None, steps=STEPS, optimizes=True, **options):
    """The weights, buffers and gradients of a model after some steps."""
    torch.manual_seed(5)
    net = kind()
    if options.pop("channels_last", False):
        net = net.to(memory_format=torch.channels_last)
    model = DistributedDataParallel(net, process_group=group, **options)
    made = None if hook is None else tutti.torch.ddp_hook(model, **hook)
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        backward(model, optimizer, rank, step)
        if optimizes:
            optimizer.step()
    if made is not None:
        assert made.fusion.info().steps >= steps
        made.close()
    grads = {f"grad of {name}": p.grad for name, p in net.named_parameters()}
    return {**net.state_dict(), **grads}


def compare(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, x in theirs.items():
        y = ours[name]
        assert (x is None) == (y is None), name
        assert x is None or torch.equal(x, y), f"{name}: {y} is not {x}"


class Equal(unittest.TestCase):
    """Two ranks: then the sum of two numbers has the same bits in either order."""

    def same(self, kind, backward=simple, hooks=(None, {}), **options):
        def body(rank):
            theirs = train(kind, None, rank, backward, **options)
            ours = dist.new_group(backend="tutti")
            for hook in hooks:
                compare(train(kind, ours, rank, backward, hook, **options), theirs)
        run(2, body, "gloo")

    def test_a_plain_model_with_and_without_views(self):
        for views in (True, False):
            self.same(Plain, gradient_as_bucket_view=views, bucket_cap_mb=0.005)

    def test_every_policy_of_the_fusion(self):
        self.same(Plain, hooks=[{"policy": policy} for policy in ("wfbp", "single", "p3:100", "mgwfbp")],
                  gradient_as_bucket_view=True, bucket_cap_mb=0.005)

    def test_gradients_that_accumulate_without_messages(self):
        self.same(Plain, accumulate, gradient_as_bucket_view=True, bucket_cap_mb=0.005)

    def test_clipping_and_scaling_see_the_averages(self):
        self.same(Plain, clip, gradient_as_bucket_view=True, bucket_cap_mb=0.005)
        self.same(Plain, scale, bucket_cap_mb=0.005)

    def test_shared_parameters(self):
        self.same(Shared, bucket_cap_mb=0.005)

    def test_unused_parameters(self):
        self.same(Unused, find_unused_parameters=True, gradient_as_bucket_view=True, bucket_cap_mb=0.005)

    def test_a_static_graph(self):
        self.same(Plain, static_graph=True, gradient_as_bucket_view=True, bucket_cap_mb=0.005)
        self.same(Mixed, static_graph=True, bucket_cap_mb=0.005)  # a bucket for each type from the start

    def test_mixed_types(self):
        self.same(Mixed, gradient_as_bucket_view=True, bucket_cap_mb=0.005)

    def test_channels_last(self):
        self.same(Plain, channels_last=True, gradient_as_bucket_view=True)

    def test_ranks_with_more_data_than_others(self):
        def body(rank):
            def joined(group, hook):
                torch.manual_seed(5)
                net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
                model = DistributedDataParallel(net, process_group=group, bucket_cap_mb=0.0001)
                made = tutti.torch.ddp_hook(model) if hook else None
                optimizer = torch.optim.SGD(model.parameters(), 0.01)
                with model.join():
                    for step in range(3 + 2 * rank):
                        torch.manual_seed(10 * step + rank)
                        optimizer.zero_grad()
                        model(torch.randn(4, 8)).square().sum().backward()
                        optimizer.step()
                assert made is None or made.close() is None
                return dict(net.state_dict())
            theirs, ours = joined(None, False), dist.new_group(backend="tutti")
            compare(joined(ours, False), theirs)
            compare(joined(ours, True), theirs)
        run(2, body, "gloo")


class Hook(unittest.TestCase):
    def test_options_of_the_fusion_count(self):
        def body(rank):
            exact = train(Plain, None, rank)
            narrow = train(Plain, None, rank, hook={"wire_type": "bfloat16"})
            assert any(not torch.equal(x, narrow[name]) for name, x in exact.items())
        run(2, body)

    def test_a_codec_keeps_the_ranks_equal(self):
        def body(rank):
            exact = train(Plain, None, rank)
            coded = train(Plain, None, rank, hook={"codec": "1bit", "codec_least": 1}, bucket_cap_mb=0.005,
                          gradient_as_bucket_view=True)
            assert any(not torch.equal(x, coded[name]) for name, x in exact.items())
            found = [None, None]
            dist.all_gather_object(found, {name: x for name, x in coded.items() if "norm" not in name})
            compare(*found)
        run(2, body)

    def test_weights_that_owners_update_are_those_of_sgd(self):
        def body(rank):
            theirs = dist.new_group(backend="gloo")
            for channels_last in (False, True):
                options = {"channels_last": channels_last, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.005}
                sgd = {name: x for name, x in train(Plain, theirs, rank, **options).items() if "grad" not in name}
                hook = {"update": "momentum:0.9", "rate": RATE, "quorum": 2 if channels_last else 0}  # with servers
                found = train(Plain, None, rank, hook=hook, optimizes=False, **options)
                compare({name: found[name] for name in sgd}, sgd)
        run(2, body)

    def test_servers_give_the_weights_of_an_update_without_them(self):
        def body(rank):
            for narrow in {"codec": "1bit", "codec_least": 1}, {"wire_type": "bfloat16"}, {"weights_type": "bfloat16"}:
                hook = {"update": "momentum:0.9", "rate": RATE, **narrow}
                options = {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.005}
                found = [train(Plain, None, rank, hook={**hook, "quorum": quorum}, optimizes=False, **options)
                         for quorum in (0, 2)]
                compare(found[1], found[0])
        run(2, body)

    def test_an_optimizer_beside_an_update_is_warned_of(self):
        def body(rank):
            for optimizes, when in (True, "the last step"), (False, "ddp_hook"), (False, None):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    net = nn.Linear(2, 2)
                    model = DistributedDataParallel(net)
                    hook = tutti.torch.ddp_hook(model, update="sgd", rate=0.1)
                    if when == "ddp_hook":
                        net.load_state_dict({name: x + 1 for name, x in net.state_dict().items()})
                    optimizer = torch.optim.SGD(model.parameters(), RATE)
                    for step in range(3):
                        model(torch.ones(1, 2)).sum().backward()
                        if optimizes:
                            optimizer.step()
                    assert hook.fusion.info().updates == 3
                    hook.close()
                texts = [str(one.message) for one in caught if "with update=" in str(one.message)]
                assert len(texts) == bool(when) and (not when or f"since {when}" in texts[0]), (when, texts)
        run(2, body)

    def test_a_rank_without_data_gets_the_weights_of_the_others(self):
        def body(rank):
            torch.manual_seed(5)
            net = nn.Linear(8, 2)
            model = DistributedDataParallel(net)
            hook = tutti.torch.ddp_hook(model, update="sgd", rate=0.01)
            with model.join():
                for step in range(2 + 2 * rank):
                    model(torch.ones(1, 8) + step).square().sum().backward()
            found = [None, None]
            dist.all_gather_object(found, dict(net.state_dict()))
            compare(*found)
            hook.close()
        run(2, body)

    def test_what_is_no_model_of_this_backend_is_refused(self):
        def body(rank):
            refused(["must be a DistributedDataParallel"], nn.Linear(2, 2))
            refused(["backend tutti"], DistributedDataParallel(nn.Linear(2, 2)))
        run(1, body, "gloo")

    def test_weights_that_ranks_exchange_are_no_gradients(self):
        def body(rank):
            refused(["update is 'gossip'"], DistributedDataParallel(nn.Linear(2, 2)), update="gossip")
        run(1, body)

    def test_weights_that_are_not_one_piece_of_memory_have_no_owners(self):
        def body(rank):
            net = nn.Linear(4, 2)
            net.weight = nn.Parameter(torch.zeros(2, 8)[:, ::2])
            model = DistributedDataParallel(net)
            refused(["weight has gaps in memory (strides (8, 2))", "clone"], model, update="sgd")
            tutti.torch.ddp_hook(model).close()  # their gradients are one
        run(1, body)

    def test_sparse_gradients_are_refused_by_name(self):
        def body(rank):
            net = nn.ModuleDict({"words": nn.Embedding(4, 2, sparse=True), "out": nn.Linear(2, 2)})
            refused(["words.weight", "sparse"], DistributedDataParallel(net))
        run(1, body)

    def test_a_dead_rank_raises_in_backward_and_shrink_leaves_it_out_at_once(self):
        def body(rank):
            model = DistributedDataParallel(nn.Linear(2, 2))
            hook = tutti.torch.ddp_hook(model)
            model(torch.ones(2)).sum().backward()
            if rank == 1:
                dist.barrier()
                die()
            try:
                dist.barrier()
                model(torch.ones(2)).sum().backward()
                raise AssertionError("nothing was raised")
            except RuntimeError as why:
                assert "rank 1" in str(why), why
            hook.close()
            if rank == 2:  # rank 0 has the new store, and would end before this one is connected to it
                store = _rendezvous._store
                _rendezvous._store = lambda *places: (time.sleep(0.5), store(*places))[1]
            assert tutti.torch.shrink().size() == 2
        run(3, body, dies=[1])


if __name__ == "__main__":
    unittest.main()
