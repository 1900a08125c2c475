# SPDX-License-Identifier: BSD-3-Clause
"""Steps of DistributedDataParallel to measure: a small residual network on images, and a small transformer on words."""
import beside
import torch
import tutti.torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """Two convolutions and what goes past them."""

    def __init__(self, inside, outside):
        super().__init__()
        stride = 1 if inside == outside else 2
        self.past = nn.Identity() if stride == 1 else nn.Conv2d(inside, outside, 1, stride)
        self.layers = nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside),
                                    nn.ReLU(), nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
                                    nn.BatchNorm2d(outside))

    def forward(self, x):
        return torch.relu(self.layers(x) + self.past(x))


def resnet():
    """A ResNet of 8 layers for images of 32 x 32 (He et al., 2016, section 4.2), and 8 of these."""
    widths = (16, 16, 32, 64)
    blocks = [Block(inside, outside) for inside, outside in zip(widths, widths[1:])]
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return net, torch.randn(8, 3, 32, 32)


def transformer():
    """Two layers of width 256 between 4,000 words, and 4 sentences of 16 of these."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    net = nn.Sequential(nn.Embedding(4000, 256), nn.TransformerEncoder(layer, 2), nn.Linear(256, 4000))
    return net, torch.randint(4000, (4, 16))


MODELS = {"resnet": resnet, "transformer": transformer}


def step_of(net, x):
    """A step of training by gradient descent."""
    optimizer = torch.optim.SGD(net.parameters(), 0.01)

    def step():
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return step


def steps(name, groups):
    """The ways to make a step: with DDP over each group, with tutti.torch.ddp_hook, and alone, without messages."""
    ways, keep = {}, []
    for way in (*groups, "hook", "alone"):
        torch.manual_seed(1)
        net, x = MODELS[name]()
        if way == "hook":
            net = DistributedDataParallel(net, process_group=groups["tutti"], gradient_as_bucket_view=True,
                                          bucket_cap_mb=1)
            keep.append(tutti.torch.ddp_hook(net))
        elif way != "alone":
            net = DistributedDataParallel(net, process_group=groups[way], gradient_as_bucket_view=True)
        ways[way] = step_of(net, x)
    return ways, keep


def rank(number, folder, size, options):
    groups = beside.begin(number, size, folder)
    for name in MODELS:
        ways, hooks = steps(name, groups)
        for step in ways.values():
            for _ in range(5):  # DDP orders its buckets anew, and a fusion plans
                step()
        times = beside.medians(ways, options.rounds, options.budget)
        if number == 0:
            beside.row(f"{name}, {size} ranks", times, f"{times['hook']:.0f}", f"{times['alone']:.0f}")
        for hook in hooks:
            hook.close()
