# SPDX-License-Identifier: BSD-3-Clause
"""Tensors as the library takes them: addresses, numbers of elements, types; and what is copied where it cannot."""
from ctypes import c_size_t
from typing import Optional, Sequence, Union

import torch
from torch import Tensor

from .._arrays import TYPES, UINT8, _allocate
from .._library import refusal

# The number of each type that can be combined. Elements of other types are moved as bytes.
CODES = {getattr(torch, name): code for name, (code, _) in TYPES.items()
         if isinstance(getattr(torch, name, None), torch.dtype)}
_strided = torch.strided


def empty(shape: Union[int, Sequence[int]], dtype: Optional[torch.dtype] = None) -> Tensor:
    """Makes a tensor of zeros in memory that the other ranks of this host read where it lies.

    Collectives of some MiB are faster there. ``dtype``: default torch.get_default_dtype(). The memory is freed with the
    last tensor that shares it.

    Errors: TuttiArgumentError: a negative length. TuttiSystemError: out of memory.
    """
    dtype = dtype or torch.get_default_dtype()
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in lengths):
        raise refusal(f"shape is {lengths}: no length may be below 0")
    count = 1
    for length in lengths:
        count *= length
    if count == 0:
        return torch.zeros(lengths, dtype=dtype)
    size = torch.empty((), dtype=dtype).element_size()
    return torch.frombuffer(_allocate(count * size), dtype=dtype).view(lengths)


def one(tensors, what="tensors"):
    """The only tensor of a list, as the calls of one device in a process have it."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise refusal(f"{what} has {len(tensors)} entries: pass one, as a rank has one device, the host")
    return tensors[0]


def check(x, name="tensor"):
    """Refuses what is not an array in host memory."""
    if not isinstance(x, Tensor):
        raise refusal(f"{name} is of type {type(x).__name__}: it must be a tensor")
    if not x.is_cpu:
        raise refusal(f"{name} is on device '{x.device}': pass a tensor in host memory ({name}.cpu())")
    if x.layout is not _strided:
        raise refusal(f"{name} has the layout {x.layout}: pass a dense tensor ({name}.to_dense())")


def is_flat(x, name="tensor"):
    """Whether the library can use the tensor where it lies. Refuses what is no array in host memory."""
    try:
        if x.is_cpu and x.layout is _strided:
            return x.is_contiguous() and not x.is_neg() and not (x.is_complex() and x.is_conj())
    except AttributeError:
        pass
    check(x, name)
    return True


def flat(x):
    """A copy of a tensor whose elements lie one behind the other."""
    return x.detach().resolve_conj().resolve_neg().contiguous()


def reduced(x, name="tensor"):
    """The number of elements, and of the type, of a tensor that is combined."""
    code = CODES.get(x.dtype)
    if code is None:
        known = ", ".join(str(dtype).replace("torch.", "") for dtype in CODES)
        raise refusal(f"{name} has elements of {x.dtype}, which cannot be combined: convert them to one of {known}")
    return x.numel(), code


def moved(x):
    """The number of elements, and of the type, of a tensor that is copied to other ranks."""
    code = CODES.get(x.dtype)
    return (x.numel(), code) if code is not None else (x.numel() * x.element_size(), UINT8)


def share(n, total, shares, of, whole):
    """Refuses a tensor that has not `shares` times the elements of another."""
    if n * shares != total:
        raise refusal(f"{whole} has {total} elements, and {of} has {n}: {whole} must have {n * shares}, {n} for each "
                      f"of the {shares} ranks")


def check_list(tensors, size, name, like=None):
    """Refuses a list that has not one tensor for each rank, all of one type."""
    if len(tensors) != size:
        raise refusal(f"{name} has {len(tensors)} tensors: pass one for each of the {size} ranks")
    dtype = tensors[0].dtype if like is None else like.dtype
    for i, x in enumerate(tensors):
        check(x, f"{name}[{i}]")
        if x.dtype != dtype:
            raise refusal(f"{name}[{i}] has elements of {x.dtype}, and another tensor of the call of {dtype}: pass "
                          "tensors of one type")


def joined(tensors):
    """Whether the tensors lie one behind the other, so that they are one array without a copy."""
    address = tensors[0].data_ptr()
    for x in tensors:
        if x.numel() and (x.data_ptr() != address or not is_flat(x)):
            return False
        address += x.numel() * x.element_size()
    return True


def gathered(tensors):
    """One array of the elements of all tensors; it is the first of them if they lie one behind the other."""
    if joined(tensors):
        return tensors[0]
    return torch.cat([flat(x).reshape(-1) for x in tensors])


def room(tensors):
    """An array for the elements of all tensors, and the copies to make once it is filled: (to, from) each."""
    if joined(tensors):
        return tensors[0], ()
    array = torch.empty(sum(x.numel() for x in tensors), dtype=tensors[0].dtype)
    parts = array.split([x.numel() for x in tensors])
    return array, tuple((x, part.view(x.shape)) for x, part in zip(tensors, parts))


def spread(tensors):
    """Tensors as the parts of one array of bytes: its address, and the lengths and places of the parts."""
    address = min((x.data_ptr() for x in tensors if x.numel()), default=None)
    numbers = c_size_t * len(tensors)
    return (address, numbers(*(x.numel() * x.element_size() for x in tensors)),
            numbers(*(x.data_ptr() - address if x.numel() else 0 for x in tensors)))


def put(copies):
    """Makes the copies that are left when an operation is done."""
    for to, part in copies:
        to = to.detach()
        with torch.inference_mode(to.is_inference()):  # a tensor that was made in it is written in it alone
            to.copy_(part)


def storage(x):
    """What tells tensors apart that share no memory."""
    return x.untyped_storage().data_ptr() if hasattr(x, "untyped_storage") else x.storage().data_ptr()
