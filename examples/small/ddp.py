# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch: DistributedDataParallel over Tutti; its gradients go through a fusion."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import tutti.torch

dist.init_process_group("tutti", "tutti://")                # finds its launcher: tutti run, torchrun, mpirun, srun
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
model = DistributedDataParallel(model)
hook = tutti.torch.ddp_hook(model)                          # without it DDP's own buckets are all-reduced
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

torch.manual_seed(rank + 1)                                 # other data on each rank
x = torch.randn(256, 8)
y = x.sum(1, keepdim=True)
for step in range(100):
    loss = torch.nn.functional.mse_loss(model(x), y)
    if step == 0:
        first = loss.item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

weights = torch.cat([p.detach().flatten() for p in model.parameters()])
largest = weights.clone()
dist.all_reduce(largest, dist.ReduceOp.MAX)
equal = bool((weights == largest).all())
print(f"rank {rank} of {size}: loss halved: {loss.item() < first / 2}, equal weights: {equal}")
hook.close()
dist.destroy_process_group()
