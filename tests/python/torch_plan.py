# SPDX-License-Identifier: BSD-3-Clause
"""tutti.torch.plan: DDP makes of its list the buckets with which an iteration ends first, on all ranks alike; planning
leaves the model as it was."""
import inspect
import itertools
import time
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks  # noqa: F401 (TESTED_BINARY is there)
import tutti
import tutti.torch
from torch_ranks import run

COST = (50.0, 0.01)  # us of a message, us of a byte
LISTS = "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel.__init__).parameters


class Layers(nn.Module):
    """Parameters of these numbers of elements, whose gradients are ready in the reverse order of `use`."""

    def __init__(self, lengths, use=None):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.ones(length)) for length in lengths)
        self.use = use or range(len(lengths))

    def forward(self):
        x = torch.ones(())
        for i in self.use:
            x = x + (self.parts[i] * x).mean()
        return x


def buckets(parameters, sizes):
    """How DDP groups parameters, which are in the order of backward, by a list of MiB."""
    limits = [int(size * 2**20) for size in sizes]
    limits += [2**30] * (not limits)
    return dist._compute_bucket_assignment_by_size(parameters, limits)[0]


def end(groups, lengths, times):
    """When the last of the all-reduces ends."""
    ready, free = list(itertools.accumulate(times)), 0.0
    for group in groups:
        free = max(free, ready[group[-1]]) + COST[0] + COST[1] * sum(lengths[i] for i in group)
    return free


def ways(n):
    """Every way to cut n neighbours into groups."""
    for cuts in itertools.product((False, True), repeat=n - 1):
        groups = [[0]]
        for i, is_cut in enumerate(cuts, 1):
            groups.append([i]) if is_cut else groups[-1].append(i)
        yield groups


class Buckets(unittest.TestCase):
    def test_no_other_buckets_end_earlier(self):
        for counts in ([5000, 10, 20, 3000, 700, 700, 10], [1] * 6, [10000, 1], [64], [300, 0, 5, 9000, 2]):
            net = Layers(counts)
            parameters = list(net.parameters())[::-1]
            lengths = [4 * p.numel() for p in parameters]
            whole = COST[0] + COST[1] * sum(lengths)
            times = [whole * length / sum(lengths) for length in lengths]
            made = buckets(parameters, tutti.torch.plan(net, cost=COST))
            self.assertEqual([i for group in made for i in group], list(range(len(counts))))
            least = min(end(groups, lengths, times) for groups in ways(len(counts)))
            self.assertAlmostEqual(end(made, lengths, times), least, delta=0.05 + 1e-4 * least)

    def test_a_cost_may_be_of_any_type_of_number(self):
        class Number(float):
            def __repr__(self):  # as numpy's has it
                return "Number(20.0)"
        self.assertEqual(tutti.torch.plan(Layers([10]), cost=(Number(20), torch.tensor(1.0))), [40 / 2**20])

    def test_costs_decide(self):
        net = Layers([1000] * 8)
        self.assertEqual(len(tutti.torch.plan(net, cost=(1e6, 0))), 1)
        self.assertEqual(tutti.torch.plan(net, cost=(0, 1)), [4000 / 2**20] * 8)

    def test_a_step_shows_the_order(self):
        """The parameter whose gradient is ready last is the longest, whatever its place in the model."""
        def body(rank):  # children have autograd for themselves
            net = Layers([10, 100000, 20, 30], use=[1, 3, 0, 2])

            def step():
                hooks = [p.register_hook(lambda _: time.sleep(0.01)) for p in net.parameters()]
                net().backward()
                for hook in hooks:
                    hook.remove()
            return [round(size * 2**20) for size in tutti.torch.plan(net, step, cost=(1, 1e-6))]
        self.assertEqual(run(1, body), [[80, 40, 120, 400000]])

    def test_types_are_planned_for_the_one_with_the_most_bytes(self):
        net = Layers([10, 20])
        net.wide = nn.Parameter(torch.ones(100, dtype=torch.float64))
        net.still = nn.Parameter(torch.ones(1000), requires_grad=False)
        self.assertEqual(tutti.torch.plan(net, cost=(0, 1)), [800 / 2**20])

    @unittest.skipUnless(LISTS, "this DDP takes no list")
    def test_ddp_sends_these_buckets(self):
        def body(rank):
            net, seen = Layers([5000, 10, 20, 3000, 700]), []
            sizes = tutti.torch.plan(net, cost=COST)
            model = DistributedDataParallel(net, bucket_cap_mb_list=sizes)

            def hook(_, bucket):
                seen.append(bucket.buffer().numel() * 4 / 2**20)
                done = torch.futures.Future()
                done.set_result(bucket.buffer())
                return done
            model.register_comm_hook(None, hook)
            for _ in range(3):
                model().backward()
            assert seen[-len(sizes):] == sizes, (seen, sizes)
        run(2, body)


class Ranks(unittest.TestCase):
    def test_all_ranks_get_the_list_of_the_first(self):
        for backend in ("gloo", "tutti"):
            def body(rank):
                net = Layers([100, 20000, 3, 4000])

                def step():
                    time.sleep(0.005 * rank)
                    net().backward()
                part = dist.new_group([1, 2])
                said = [tutti.torch.plan(net), tutti.torch.plan(Layers([100 + rank]), cost=COST)]
                if rank:
                    said.append(tutti.torch.plan(net, step, group=part))
                    assert tutti.torch.plan(Layers([100 + rank]), group=part, cost=COST) == [404 / 2**20]
                return said
            first, second, third = run(3, body, backend)
            self.assertEqual(first, second[:2])
            self.assertEqual(second, third)
            self.assertEqual(first[1], [400 / 2**20])


class Unchanged(unittest.TestCase):
    def test_gradients_buffers_and_chance_are_what_they_were(self):
        def body(rank):
            torch.manual_seed(3)
            net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())
            net(torch.randn(8, 4)).sum().backward()
            state, chance = {name: x.clone() for name, x in net.state_dict().items()}, torch.get_rng_state()
            grads = [p.grad.clone() for p in net.parameters()]
            tutti.torch.plan(net, lambda: net(torch.randn(8, 4)).sum().backward(), cost=COST)
            assert torch.equal(chance, torch.get_rng_state())
            for name, x in net.state_dict().items():
                assert torch.equal(x, state[name]), name
            for p, grad in zip(net.parameters(), grads):
                assert torch.equal(p.grad, grad) and not p._backward_hooks
        run(1, body)


    def test_gradients_that_are_not_planned_for_are_kept_too(self):
        def body(rank):
            net = Layers([100, 10])
            net.wide, net.ignored = nn.Parameter(torch.ones(3, dtype=torch.float64)), nn.Parameter(torch.ones(2))
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["ignored"])

            def step():
                (net() + net.wide.sum() + net.ignored.sum()).backward()
            for is_there in (False, True):  # gradients before
                before = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
                assert is_there == all(grad is not None for grad in before)
                tutti.torch.plan(net, step, cost=COST)
                for p, grad in zip(net.parameters(), before):
                    assert p.grad is None if grad is None else torch.equal(p.grad, grad)
                step()
        run(1, body)


class Failures(unittest.TestCase):
    def test_what_one_rank_raises_ends_the_call_on_all(self):
        def body(rank):
            for backend in ("tutti", "gloo"):
                group = dist.new_group(backend=backend)
                net = Layers([100, 10])

                def step():
                    if rank == 1:
                        raise ValueError("no data")
                    net().backward()
                said = []
                for arguments in ((net if rank != 1 else nn.ReLU(), None, group), (net, step, group)):
                    for cost in (None, COST):
                        try:
                            tutti.torch.plan(*arguments, cost=cost)
                        except (tutti.TuttiError, ValueError) as why:
                            said.append(f"{type(why).__name__}: {why}")
                empty = "TuttiArgumentError: model has no parameter that needs a gradient"
                if rank != 1:
                    empty, other = (f"TuttiRemoteError: plan has failed on rank 1 of the group: {sentence}"
                                    for sentence in (empty, "ValueError: no data"))
                else:
                    other = "ValueError: no data"
                assert said == [empty] * 2 + [other] * 2, said
                assert tutti.torch.plan(net, group=group, cost=(0, 1)) == [40 / 2**20, 400 / 2**20]
        run(3, body)

    def test_the_first_rank_plans_for_all(self):
        def body(rank):
            if rank:
                tutti.torch._plan.find = lambda _: self.fail("it plans")
            return tutti.torch.plan(Layers([100]), cost=COST)
        self.assertEqual(run(2, body), [[400 / 2**20]] * 2)


class Refusals(unittest.TestCase):
    def test_each_names_its_argument(self):
        net = Layers([3])
        for arguments, sentence in (((nn.ReLU(),), "no parameter that needs a gradient"),
                                    ((net, lambda: None), "step has given no parameter"),
                                    ((net, None, None, (1,)), r"cost is \(1,\)"),
                                    ((net, None, None, 7), "cost is 7"),
                                    ((net, None, None, ("a", 1)), "cost is"),
                                    ((net, None, None, (float("inf"), 1)), "finite numbers"),
                                    ((net, None, None, (1, float("nan"))), "finite numbers"),
                                    ((net, None, None, (1, -1)), r"cost is \(1, -1\)")):
            with self.assertRaisesRegex(tutti.TuttiArgumentError, sentence):
                tutti.torch.plan(*arguments, **({} if len(arguments) == 4 else {"cost": COST}))
        with self.assertRaisesRegex(tutti.TuttiUsageError, "init_process_group"):
            tutti.torch.plan(net)


if __name__ == "__main__":
    unittest.main()
