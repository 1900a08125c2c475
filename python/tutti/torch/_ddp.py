# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of DistributedDataParallel through a fusion: planned, merged and prioritised messages."""
import warnings

import torch
from torch.nn.parallel import DistributedDataParallel

from .._arrays import NAMES
from .._fusion import Fusion
from .._library import Held, refusal
from ._group import found
from ._tensors import CODES


def _flat(tensor):
    """The elements in the order of memory: other strides, but still one piece."""
    return tensor if tensor.is_contiguous() else tensor.as_strided((tensor.numel(),), (1,))


def _is_piece(tensor):
    """Whether the elements are one piece of memory, in any order of the dimensions."""
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride()))
    return tensor.numel() in (0, last + 1)


class DDPHook(Held):
    """The fusion of a model, made by ``ddp_hook``; ``fusion`` has its plans and times (``fusion.info()``)."""

    def __init__(self, fusion, parameters, updates):
        self.fusion = fusion
        self._names = {id(parameter): name for name, parameter in parameters.items()}  # whom DDP holds
        self._pushed = 0  # gradients of this step: the first step of a static graph marks no bucket as the last
        self._weights = {}  # with an update: name -> (parameter, what comes for it while backward still reads it)
        for name, parameter in parameters.items() if updates else ():
            weights = _flat(parameter.detach())
            self._weights[name] = (weights, torch.empty_like(weights))
            fusion.set_state(name, 0, weights.float())
        self._taken = 0  # steps whose weights the model has got
        self._versions = {name: weights._version for name, (weights, _) in self._weights.items()}

    def _push(self, bucket):
        """Called by DDP for each bucket, in their order, as soon as its gradients are there."""
        if self._versions and not self._pushed:
            self._look()
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            name = self._names[id(parameter)]
            self.fusion.push(name, _flat(gradient), self._weights[name][1] if self._weights else None)
            self._pushed += 1
        if self._pushed == len(self._names):
            self._pushed = 0
            self.fusion.wait()
            self._weights_due()
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def _look(self):
        """Warns in the first or second step if something else changes weights: an optimizer that still steps."""
        name = next((name for name, (weights, _) in self._weights.items()
                     if weights._version != self._versions[name] + self._taken), None)
        if name is not None:
            when = "the last step" if self._taken else "ddp_hook"
            warnings.warn(f"parameter {name} was changed since {when}, which has no effect: with update= its owner "
                          "keeps the weights. Leave out optimizer.step(), and load weights before ddp_hook")
        if name is not None or self._taken:
            self._versions = {}

    def _weights_due(self):
        """Lets the model have its new weights when backward, which may still read the others, has ended."""
        if not self._weights:
            return
        try:
            torch.autograd.Variable._execution_engine.queue_callback(self._weights_take)
        except RuntimeError:  # no backward is under way: a rank without data, in ``join``
            self._weights_take()

    def _weights_take(self):
        self._taken += 1
        for weights, new in self._weights.values():
            weights.copy_(new)

    def close(self) -> None:
        """Ends the fusion; the model cannot be trained any more then. Again: nothing happens."""
        self.fusion.close()


def _sparse(net):
    """The ids of parameters with sparse gradients; DDP looks for the same modules."""
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return {id(module.weight) for module in net.modules() if isinstance(module, kinds) and module.sparse}


def ddp_hook(model: DistributedDataParallel, **options) -> DDPHook:
    """Lets a fusion of Tutti average the gradients of a DistributedDataParallel model, in place of DDP's all-reduces.

        model = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, bucket_cap_mb=1)
        hook = tutti.torch.ddp_hook(model)

    Each gradient is pushed when its bucket is full, so small buckets (``bucket_cap_mb``) let messages begin early; the
    fusion decides by itself which gradients travel together, and in what order. When ``backward`` returns, all averages
    are there: clipping, GradScaler, ``no_sync``, ``join`` and unused parameters work as ever. Without
    ``gradient_as_bucket_view`` DDP copies each gradient twice.

    ``options``: those of ``tutti.Fusion``: ``policy``, ``wire_type``, ``codec``, ... With a codec, each
    parameter keeps what was left out of its own gradients, whatever buckets DDP makes. The call is collective over the
    model's process group, which must be of the backend tutti. Close the hook, or drop the model, before the group ends.

    With ``update`` there is no optimizer (one that still steps has no effect, and is warned of): the owners of weights
    update them by the averages, and when ``backward`` returns the parameters are those of the next step.
    ``hook.fusion.rate(0.01)`` changes the rate between two steps, and ``hook.fusion.scale(1, 1 / s)`` undoes a factor s
    of the loss. Gradients are those of this rank alone then, so to clip them is of no use.

    Errors: TuttiArgumentError: no DDP model, another backend, parameters of a type that cannot be averaged or with
    sparse gradients (``Embedding(sparse=True)``). Else as ``tutti.Fusion``; errors of messages come out of
    ``backward``.
    """
    if not isinstance(model, DistributedDataParallel):
        raise refusal(f"model is of type {type(model).__name__}: it must be a DistributedDataParallel")
    tensors, parameters, sparse = {}, {}, _sparse(model.module)
    has_update = options.get("update") not in (None, "none")
    ignored = set(getattr(model, "parameters_to_ignore", ()))
    for name, parameter in model.module.named_parameters():
        if not parameter.requires_grad or name in ignored:
            continue
        if parameter.dtype not in CODES:
            raise refusal(f"parameter {name} has elements of {parameter.dtype}, which cannot be averaged")
        if id(parameter) in sparse:
            raise refusal(f"parameter {name} has sparse gradients, which a fusion cannot take: make its module with "
                          "sparse=False, or train without this hook")
        if has_update and not _is_piece(parameter):
            raise refusal(f"parameter {name} has gaps in memory (strides {tuple(parameter.stride())}), and update= is "
                          "given: make it of a tensor of its own (tensor.clone())")
        parameters[name] = parameter
        tensors[name] = (parameter.numel(), NAMES[CODES[parameter.dtype]])
    if str(options.get("update")).partition(":")[0] in ("easgd", "gossip"):
        raise refusal(f"update is {options['update']!r}: ranks that exchange weights train alone, without "
                      "DistributedDataParallel; push weights to a tutti.Fusion instead")
    fusion = Fusion(found(model.process_group)._comm, tensors, op="avg", **options)
    hook = DDPHook(fusion, parameters, has_update)
    model.register_comm_hook(hook, DDPHook._push)
    return hook
