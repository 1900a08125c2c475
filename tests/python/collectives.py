# SPDX-License-Identifier: BSD-3-Clause
"""Every collective has the result of its formula, for each type and 1 to 4 ranks; memory around results stays."""
import array
import functools
import math
import operator
import unittest

import ranks
import tutti

N = 11  # elements of a share


def own(rank, i):
    """What a rank contributes: 1 or 2, so that sums and products are exact in all types."""
    return 1 + (rank + i // (rank + 1)) % 2


def vector(rank, count):
    return [own(rank, i) for i in range(count)]


def expect(what, got, wanted):
    if list(got) != list(wanted):
        raise AssertionError(f"{what}: {list(got)} instead of {list(wanted)}")


def combined(op, size, count, is_float):
    """The result, or None where rounding counts, or floats have no such operation."""
    columns = zip(*(vector(r, count) for r in range(size)))
    if is_float and op in ("avg", "and", "or", "xor"):
        return None
    if op == "avg":
        return [sum(column) // size for column in columns]
    bits = {"and": operator.and_, "or": operator.or_, "xor": operator.xor, "prod": operator.mul}
    how = {"sum": sum, "max": max, "min": min}.get(op) or functools.partial(functools.reduce, bits[op])
    return [how(column) for column in columns]


def reductions(comm, kind, op):
    rank, size, dtype = comm.rank, comm.size, kind.dtype
    what = f"{kind.name} {op}"
    total = combined(op, size, N * size, kind.is_float)
    if total is None:
        return
    x = kind.make(vector(rank, N * size))
    assert comm.all_reduce(x, op, dtype=dtype) is x
    expect(f"all_reduce {what}", kind.read(x), total)
    x, out = kind.make(vector(rank, N * size)), kind.make([0] * (N * size))
    assert comm.all_reduce(x, op, out=out, dtype=dtype) is out
    expect(f"all_reduce out {what}", kind.read(out), total)
    expect(f"all_reduce x {what}", kind.read(x), vector(rank, N * size))
    out = kind.make([0] * N)
    assert comm.reduce_scatter(x, out, op, dtype=dtype) is out
    expect(f"reduce_scatter {what}", kind.read(out), total[rank * N:(rank + 1) * N])
    whole = kind.make(vector(rank, N * size))
    share = whole[rank * N:(rank + 1) * N]
    comm.reduce_scatter(whole, share, op, dtype=dtype)
    expect(f"reduce_scatter in place {what}", kind.read(share), total[rank * N:(rank + 1) * N])
    for root in {0, size - 1}:
        out = kind.make([0] * (N * size)) if rank == root else None
        result = comm.reduce(x, root, op, out=out, dtype=dtype)
        assert result is out
        expect(f"reduce x {what}", kind.read(x), vector(rank, N * size))
        if rank == root:
            expect(f"reduce {what}", kind.read(out), total)
        inside = kind.make(vector(rank, N * size))
        result = comm.reduce(inside, root, op, dtype=dtype)
        assert result is (inside if rank == root else None)
        expect(f"reduce in place {what}", kind.read(inside), total if rank == root else vector(rank, N * size))


def moves(comm, kind):
    rank, size, dtype = comm.rank, comm.size, kind.dtype
    x = kind.make(vector(rank, N))
    all_of_them = [value for r in range(size) for value in vector(r, N)]
    out = kind.make([0] * (N * size))
    assert comm.all_gather(x, out, dtype=dtype) is out
    expect(f"all_gather {kind.name}", kind.read(out), all_of_them)
    out = kind.make([0] * (rank * N) + vector(rank, N) + [0] * ((size - 1 - rank) * N))
    comm.all_gather(out[rank * N:(rank + 1) * N], out, dtype=dtype)
    expect(f"all_gather in place {kind.name}", kind.read(out), all_of_them)
    whole, out = kind.make(vector(rank, N * size)), kind.make([0] * (N * size))
    wanted = [value for r in range(size) for value in vector(r, N * size)[rank * N:(rank + 1) * N]]
    assert comm.all_to_all(whole, out, dtype=dtype) is out
    expect(f"all_to_all {kind.name}", kind.read(out), wanted)
    assert comm.all_to_all(whole, dtype=dtype) is whole
    expect(f"all_to_all in place {kind.name}", kind.read(whole), wanted)
    for root in {0, size - 1}:
        moves_of_a_root(comm, kind, root, all_of_them)


def moves_of_a_root(comm, kind, root, all_of_them):
    rank, size, dtype = comm.rank, comm.size, kind.dtype
    x = kind.make(vector(rank, N))
    assert comm.broadcast(x, root, dtype=dtype) is x
    expect(f"broadcast {kind.name}", kind.read(x), vector(root, N))
    out = kind.make([0] * N)
    x = kind.make(vector(rank, N))
    assert comm.broadcast(x if rank == root else None, root, out=out, dtype=dtype) is out
    expect(f"broadcast out {kind.name}", kind.read(out), vector(root, N))
    gathered = kind.make([0] * (N * size)) if rank == root else None
    assert comm.gather(x, gathered, root, dtype=dtype) is gathered
    if rank == root:
        expect(f"gather {kind.name}", kind.read(gathered), all_of_them)
    whole = kind.make(vector(root, N * size)) if rank == root else None
    out = kind.make([0] * N)
    assert comm.scatter(whole, out, root, dtype=dtype) is out
    expect(f"scatter {kind.name}", kind.read(out), vector(root, N * size)[rank * N:(rank + 1) * N])


def messages(comm, kind):
    rank, size, dtype = comm.rank, comm.size, kind.dtype
    x, out = kind.make(vector(rank, N)), kind.make([0] * N)
    with tutti.group():
        comm.send(x, (rank + 1) % size, dtype=dtype)
        assert comm.recv(out, (rank - 1) % size, dtype=dtype) is out
    expect(f"ring {kind.name}", kind.read(out), vector((rank - 1) % size, N))
    if size > 1 and rank < 2:
        if rank == 0:
            comm.send(x, 1, dtype=dtype)
        else:
            comm.recv(out, 0, dtype=dtype)
            expect(f"message {kind.name}", kind.read(out), vector(0, N))


def averages(comm):
    """Of floats, where 1 / size is exact."""
    if comm.size == 3:
        return
    for name in ("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        kind = ranks.Numbers(name)
        x = kind.make([4 * value for value in vector(comm.rank, N)])
        comm.all_reduce(x, "avg", dtype=kind.dtype)
        expect(f"avg {name}", kind.read(x), [4 * sum(c) / comm.size
                                             for c in zip(*(vector(r, N) for r in range(comm.size)))])


def scaled(comm):
    """Each rank has a factor of its own."""
    for name in ("int32", "uint64", "float16", "float32", "float64", "bfloat16"):
        kind = ranks.Numbers(name)
        factor = kind.make([comm.rank + 1]) if kind.small else comm.rank + 1
        op = comm.scaled_sum(factor, name)
        x = kind.make(vector(comm.rank, N))
        comm.all_reduce(x, op, dtype=kind.dtype)
        expect(f"scaled sum {name}", kind.read(x), [sum((r + 1) * own(r, i) for r in range(comm.size))
                                                    for i in range(N)])


def with_options(comm):
    x, flag = array.array("f", vector(comm.rank, N)), array.array("i", [7])
    comm.all_reduce_with(x, wire_type="float16", scale_before=2, scale_after=0.5, overflow=flag)
    expect("all_reduce_with", x, combined("sum", comm.size, N, True))
    expect("no overflow", flag, [0])
    x = array.array("f", [1e30 if comm.rank == comm.size - 1 else 1])
    comm.all_reduce_with(x, wire_type="float16", overflow=flag)
    assert math.isinf(x[0])
    expect("overflow", flag, [1])


def bools(comm):
    """Any byte but 0 is true, and results are 0 or 1."""
    rank, size = comm.rank, comm.size
    for op, wanted in (("sum", [1, 1, 0]), ("or", [1, 1, 0]), ("max", [1, 1, 0]), ("prod", [1, size == 1, 0]),
                       ("and", [1, size == 1, 0]), ("min", [1, size == 1, 0]), ("xor", [size % 2, 1, 0])):
        x = bytearray([2 + rank, 7 * (rank == 0), 0])
        comm.all_reduce(memoryview(x).cast("?"), op)
        expect(f"all_reduce bool {op}", x, wanted)
    try:
        comm.all_reduce(x, "avg", dtype="bool")
    except tutti.TuttiArgumentError as refused:
        assert "op is avg, but type is bool" in str(refused), refused
    else:
        raise AssertionError("bool has an average")


def complex_numbers(comm):
    """They are pairs of floats."""
    for name, letter in (("complex64", "f"), ("complex128", "d")):
        x = memoryview(bytearray(array.array(letter, [1 + comm.rank, -2, 0.5, comm.rank])))
        comm.all_reduce(x, dtype=name)
        ranks_sum = comm.size * (comm.size - 1) / 2
        expect(f"all_reduce {name}", x.cast(letter), [comm.size + ranks_sum, -2 * comm.size, comm.size / 2, ranks_sum])
        out = memoryview(bytearray(len(x) * comm.size))
        comm.all_gather(x, out, dtype=name)
        expect(f"all_gather {name}", out, x.tolist() * comm.size)
        try:
            comm.all_reduce(x, "max", dtype=name)
        except tutti.TuttiArgumentError as refused:
            assert f"op is max, but type is {name}" in str(refused), refused
        else:
            raise AssertionError(f"{name} has a maximum")


def elements_of_any_type(comm):
    """They can be moved: here those of booleans and two bytes."""
    for format, value in (("?", True), ("h", -3)):
        x = memoryview(bytearray(8 if format == "?" else 16)).cast(format)
        x[3] = value if comm.rank == comm.size - 1 else 0
        comm.broadcast(x, comm.size - 1)
        assert x[3] == value, x.tolist()
    out = memoryview(bytearray(16 * comm.size)).cast("h")
    comm.all_gather(x, out)
    expect("all_gather of int16", out, x.tolist() * comm.size)


def long_vectors(comm):
    """Of some MiB, also without elements, and in memory that peers read where it lies."""
    for count in (0, 100003, 1 << 20):
        for x in (memoryview(bytearray(4 * count)).cast("f"), tutti.empty(count, "float32")):
            for i in range(0, count, 997):
                x[i] = comm.rank + i % 5
            comm.all_reduce(x)
            for i in range(0, count, 997):
                assert x[i] == comm.size * (comm.size - 1) / 2 + comm.size * (i % 5), (count, i, x[i])


def all_of_it():
    with tutti.init() as comm:
        for name in ranks.NUMBERS:
            kind = ranks.Numbers(name)
            for op in tutti.OPS:
                reductions(comm, kind, op)
            moves(comm, kind)
            messages(comm, kind)
        for part in (averages, scaled, with_options, bools, complex_numbers, elements_of_any_type, long_vectors):
            part(comm)


class Collectives(unittest.TestCase):
    def test_results_are_those_of_the_formulas(self):
        for size in (1, 2, 3, 4):
            with self.subTest(size=size):
                ranks.succeed(self, size, __file__, "all_of_it")


if __name__ == "__main__":
    unittest.main()
