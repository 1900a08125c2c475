# SPDX-License-Identifier: BSD-3-Clause
"""numpy: each rank has a part of the data, and all find the weights of the whole by averaged gradients."""
import numpy as np
import tutti

with tutti.init() as comm:
    draw = np.random.default_rng(comm.rank)                 # other data on each rank
    truth = np.arange(1.0, 6.0)
    x = draw.normal(size=(200, truth.size))
    y = x @ truth

    weights = np.zeros(truth.size)
    for step in range(200):
        gradient = x.T @ (x @ weights - y) / len(y)
        comm.all_reduce(gradient, op="avg")                 # in place; every rank has the same bits
        weights -= 0.3 * gradient

    loss = np.array([np.mean((x @ weights - y) ** 2)])
    comm.all_reduce(loss, op="max")
    everyone = np.empty((comm.size, truth.size))
    comm.all_gather(weights, everyone)                      # a row of each rank
    same = all((row == weights).all() for row in everyone)
    print(f"rank {comm.rank} of {comm.size}: weights {weights.round(3)}, the same on all: {same}, loss {loss[0]:.1e}")
