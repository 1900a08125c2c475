# SPDX-License-Identifier: BSD-3-Clause
"""Buffers with a part of any length for each rank: one array with counts, or a list of arrays."""
from ctypes import c_size_t
from typing import Any, NamedTuple, Optional

from ._arrays import NAMES, SIZES, TYPES, UINT8, look, see
from ._library import refusal, whole

COUNT_MOST = 2**62


class Parts(NamedTuple):
    """As the library takes them."""

    address: Optional[int]  # of the first byte of all
    counts: Any             # per rank: elements, or bytes where nothing is combined
    displs: Any             # likewise, where each begins behind the address; None: one behind the other
    kind: int               # number of the type; of bytes where nothing is combined
    element: int            # number of the arrays' own type, as look() tells it
    keep: Any               # owners


def _numbers(values):
    return (c_size_t * len(values))(*values)


def _of_list(arrays, name, size, dtype, is_output, reduces):
    if len(arrays) != size:
        raise refusal(f"{name} is a list of {len(arrays)} arrays: it must have one for each of the {size} ranks")
    seen = [look(part, f"{name}[{r}]", dtype, is_output, reduces) for r, part in enumerate(arrays)]
    kind = seen[0][2]
    for r, (_, _, other, _) in enumerate(seen):
        if other != kind:
            raise refusal(f"{name}[{r}] has elements of {NAMES[other]}, and {name}[0] of {NAMES[kind]}: pass arrays of "
                          "one type")
    unit = SIZES[kind] if reduces else 1
    counts = [count * SIZES[kind] // unit for _, count, _, _ in seen]
    base = min((address for address, count, _, _ in seen if count), default=0)
    places = [address - base if count else 0 for address, count, _, _ in seen]
    for r, place in enumerate(places):
        if place % unit:
            raise refusal(f"{name}[{r}] lies {place} bytes behind the first of {name}, which is no multiple of the "
                          f"{unit} bytes of an element: pass one array with counts")
    displs = [place // unit for place in places]
    return Parts(base or None, _numbers(counts), _numbers(displs), kind if reduces else UINT8, kind,
                 [keep for *_, keep in seen])


def _of_array(x, name, counts, counts_name, size, dtype, is_output, reduces):
    if len(counts) != size:
        raise refusal(f"{counts_name} has {len(counts)} numbers: it must have one for each of the {size} ranks")
    numbers = [whole(f"{counts_name}[{r}]", count, 0, COUNT_MOST) for r, count in enumerate(counts)]
    address, count, kind, keep = look(x, name, dtype, is_output, reduces)
    unit = SIZES[kind]
    if kind == UINT8 and dtype is None and sum(numbers) != count:
        seen = see(x, name)
        if seen.type not in TYPES:  # its elements count, and look() has counted bytes
            unit, count = seen.itemsize, seen.length
    if sum(numbers) != count:
        raise refusal(f"{name} has {count} elements, and {counts_name} add up to {sum(numbers)}: they must be equal")
    if not reduces:
        numbers = [number * unit for number in numbers]
    return Parts(address, _numbers(numbers), None, kind if reduces else UINT8, kind, keep)


def look_parts(x, name, counts, counts_name, size, dtype, is_output=False, reduces=False):
    """The parts of a list of arrays, or of one array with counts."""
    if isinstance(x, (list, tuple)):
        if counts is not None:
            raise refusal(f"{name} is a list of arrays and {counts_name} are given as well: the arrays tell the counts")
        return _of_list(x, name, size, dtype, is_output, reduces)
    if counts is None:
        raise refusal(f"{counts_name} is None and {name} is one array: give the elements of each rank's part, or pass "
                      "a list of arrays")
    return _of_array(x, name, counts, counts_name, size, dtype, is_output, reduces)


def has_parts(x, counts):
    """Whether parts may have any lengths."""
    return counts is not None or isinstance(x, (list, tuple))
