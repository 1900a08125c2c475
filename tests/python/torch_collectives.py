# SPDX-License-Identifier: BSD-3-Clause
"""Every collective of torch.distributed over the backend tutti gives what it must: exact sums, every type of tensor,
lists and single tensors, uneven splits, tensors that are not contiguous, and nothing at all."""
import functools
import operator
import unittest

import torch
import torch.distributed as dist

import tutti
import tutti.torch
from torch_ranks import run, values

SIZE = 3
TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.bool, torch.complex64, torch.complex128]
OP = dist.ReduceOp
OPS = [(OP.SUM, operator.add), (OP.PRODUCT, operator.mul), (OP.MAX, torch.maximum), (OP.MIN, torch.minimum)]
BITS = [(OP.BAND, operator.and_), (OP.BOR, operator.or_), (OP.BXOR, operator.xor)]


def everyone(count, dtype=torch.float32, size=SIZE):
    return [values(rank, count, dtype) for rank in range(size)]


def same(x, y):
    assert x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y), f"{x} is not {y}"


def strided(x):
    """A tensor of the same values that is not contiguous."""
    wide = torch.zeros(*x.shape, 2, dtype=x.dtype)
    wide[..., 0] = x
    assert x.numel() < 2 or not wide[..., 0].is_contiguous()
    return wide[..., 0]


class Sums(unittest.TestCase):
    def test_all_reduce_of_every_type_and_operation(self):
        def body(rank):
            for dtype in TYPES:
                for op, combine in OPS if not dtype.is_complex and dtype != torch.bool else OPS[:1]:
                    x = values(rank, 13, dtype)
                    dist.all_reduce(x, op)
                    expected = functools.reduce(combine, everyone(13, dtype))
                    same(x, expected if dtype != torch.bool else sum(y.int() for y in everyone(13, dtype)).bool())
            for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool):
                for op, combine in BITS:
                    x = values(rank, 13, dtype)
                    dist.all_reduce(x, op)
                    same(x, functools.reduce(combine, everyone(13, dtype)))
        run(SIZE, body)

    def test_views_that_are_conjugate_or_negative(self):
        def body(rank):
            z = torch.tensor([complex(1, rank + 1)])
            x = z.conj().imag  # its memory has the number without the sign
            dist.all_reduce(x)
            same(x, torch.tensor([-6.0]))
            same(z, torch.tensor([complex(1, 6)]))
            parts = [torch.zeros(1) for _ in range(SIZE)]
            dist.all_gather(parts, torch.tensor([complex(1, rank)]).conj().imag)
            same(torch.cat(parts), torch.tensor([0.0, -1.0, -2.0]))
        run(SIZE, body)

    def test_averages(self):
        def body(rank):
            for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.complex64):
                x = values(rank, 5, dtype) * 4
                dist.all_reduce(x, OP.AVG)
                total = sum(everyone(5, dtype, 4)) * 4
                same(x, total // 4 if dtype == torch.int32 else total / 4)
        run(4, body)

    def test_reduce_gives_the_root_the_sum_and_leaves_the_others_alone(self):
        def body(rank):
            for root in range(SIZE):
                for shape in (lambda x: x, strided):
                    x = shape(values(rank, 9))
                    dist.reduce(x, root)
                    same(x, sum(everyone(9)) if rank == root else values(rank, 9))
        run(SIZE, body)

    def test_reduce_scatter_of_lists_and_of_one_tensor(self):
        def body(rank):
            total = sum(everyone(4 * SIZE))
            for shape in (lambda x: x, strided):
                x, out = shape(values(rank, 4 * SIZE)), shape(torch.zeros(4))
                dist.reduce_scatter_tensor(out, x)
                same(out, total[4 * rank:4 * rank + 4])
                dist.reduce_scatter(out.zero_(), [shape(part) for part in x.split(4)])
                same(out, total[4 * rank:4 * rank + 4])
            sizes = [1, 0, 5]
            out, total = torch.zeros(sizes[rank]), sum(everyone(6))
            dist.reduce_scatter(out, list(values(rank, 6).split(sizes)))
            same(out, total.split(sizes)[rank])
        run(SIZE, body)

    def test_coalesced_sums(self):
        def body(rank):
            for wait in (False, True):
                xs = [values(rank, 3), strided(values(rank, 4)), values(rank, 5)]
                work = dist.all_reduce_coalesced(xs, async_op=wait)
                assert work is None or work.wait()
                for x in xs:
                    same(x, sum(everyone(x.numel())))
        run(SIZE, body)

    def test_sparse_tensors_are_summed(self):
        def sparse(rank, size):
            """`rank` elements: none on rank 0, and one that all others have."""
            rows = torch.arange(size)[:rank] if rank else torch.zeros(0, dtype=torch.int64)
            return torch.sparse_coo_tensor(rows[None], values(rank, 2 * rank).view(rank, 2), (size, 2))

        def body(rank):
            total = sum(sparse(source, 4).to_dense() for source in range(4))
            x = sparse(rank, 4)
            dist.all_reduce(x)
            same(x.to_dense(), total)
            x = sparse(rank, 4)
            work = dist.all_reduce(x, async_op=True)
            assert work.wait() and torch.equal(work.result()[0].to_dense(), total)
        run(4, body)

    def test_a_factor_of_each_rank_or_a_refusal_where_torch_hides_it(self):
        def body(rank):
            x = values(rank, 4)
            try:
                dist.all_reduce(x, dist._make_nccl_premul_sum(rank + 2.0))
                same(x, sum(values(source, 4) * (source + 2) for source in range(SIZE)))
            except tutti.TuttiArgumentError as refused:
                assert "PREMUL_SUM, this torch does not tell its factor" in str(refused), refused
                assert torch.__version__.startswith("1.")
            dist.barrier()
        run(SIZE, body)

    def test_what_cannot_be_summed_is_refused_by_name_and_the_group_goes_on(self):
        def body(rank):
            quantized = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)
            sparse = torch.eye(2).to_sparse()
            for x, op, why in ((quantized, OP.SUM, "qint8, which cannot be combined"),
                               (sparse, OP.MAX, "not SUM.*sparse"),
                               (torch.ones(2, device="meta"), OP.SUM, "device 'meta'"),
                               (torch.ones(2), OP.BXOR, "op is xor, but type is float")):
                try:
                    dist.all_reduce(x, op)
                    raise AssertionError(f"{x} was not refused")
                except tutti.TuttiArgumentError as refused:
                    CASE.assertRegex(str(refused), why)
            dist.all_reduce(x)
            same(x, torch.full((2,), float(SIZE)))
        run(SIZE, body)


class Moves(unittest.TestCase):
    def test_broadcast_of_every_type(self):
        def body(rank):
            for dtype in TYPES:
                for root in range(SIZE):
                    for shape in (lambda x: x, strided):
                        x = shape(values(rank, 7, dtype))
                        dist.broadcast(x, root)
                        same(x, values(root, 7, dtype))
            x = torch.quantize_per_tensor(torch.ones(4) * rank, 1.0, 0, torch.qint8)
            dist.broadcast(x, 1)
            assert x.dequantize().tolist() == [1] * 4
        run(SIZE, body)

    def test_all_gather_into_lists_and_one_tensor(self):
        def body(rank):
            for shape in (lambda x: x, strided):
                out = shape(torch.zeros(SIZE * 4))
                dist.all_gather_into_tensor(out, shape(values(rank, 4)))
                same(out, torch.cat(everyone(4)))
                outs = [shape(torch.zeros(4)) for _ in range(SIZE)]
                dist.all_gather(outs, shape(values(rank, 4)))
                same(torch.stack(outs), torch.stack(everyone(4)))
            outs = list(torch.zeros(SIZE, 4))
            dist.all_gather(outs, values(rank, 4))  # they lie one behind the other
            same(torch.stack(outs), torch.stack(everyone(4)))
            outs = [torch.zeros(size) for size in (2, 0, 3)]
            dist.all_gather(outs, values(rank, outs[rank].numel()))
            for source, x in enumerate(outs):
                same(x, values(source, x.numel()))
        run(SIZE, body)

    def test_coalesced_shares(self):
        def body(rank):
            outs = [[torch.zeros(2), torch.zeros(3)] for _ in range(SIZE)]
            dist.all_gather_coalesced(outs, [values(rank, 2), values(rank, 3)])
            for source, (x, y) in enumerate(outs):
                same(x, values(source, 2))
                same(y, values(source, 3))
            outs, strided_out = [torch.zeros(2 * SIZE), torch.zeros(3 * SIZE)], strided(torch.zeros(SIZE))
            dist.group.WORLD.allgather_into_tensor_coalesced(
                [*outs, strided_out], [values(rank, 2), values(rank, 3), values(rank, 1)]).wait()
            for n, x in zip((2, 3, 1), (*outs, strided_out)):
                same(x, torch.cat(everyone(n)))
            sums = [torch.zeros(2), torch.zeros(1)]
            dist.group.WORLD.reduce_scatter_tensor_coalesced(
                sums, [values(rank, 2 * SIZE), values(rank, SIZE)]).wait()
            same(sums[0], sum(everyone(2 * SIZE))[2 * rank:2 * rank + 2])
            same(sums[1], sum(everyone(SIZE))[rank:rank + 1])
        run(SIZE, body)

    def test_gather_and_scatter(self):
        def body(rank):
            for root in range(SIZE):
                for shape in (lambda x: x, strided):
                    outs = [shape(torch.zeros(4)) for _ in range(SIZE)] if rank == root else None
                    dist.gather(shape(values(rank, 4)), outs, root)
                    if rank == root:
                        same(torch.stack(outs), torch.stack(everyone(4)))
                    out = shape(torch.zeros(4))
                    dist.scatter(out, [shape(values(10 + to, 4)) for to in range(SIZE)] if rank == root else None, root)
                    same(out, values(10 + rank, 4))
        run(SIZE, body)

    def test_all_to_all_with_equal_and_uneven_splits(self):
        def body(rank):
            x, out = values(rank, 2 * SIZE), torch.zeros(2 * SIZE)
            dist.all_to_all_single(out, x)
            same(out, torch.cat([y[2 * rank:2 * rank + 2] for y in everyone(2 * SIZE)]))
            counts = [[(source + 2 * to) % 4 for to in range(SIZE)] for source in range(SIZE)]  # rows; some are none
            data = [values(source, 3 * sum(counts[source])).view(-1, 3) for source in range(SIZE)]
            ours = [counts[source][rank] for source in range(SIZE)]
            expected = [data[source].split(counts[source])[rank] for source in range(SIZE)]
            for shape in (lambda x: x, strided):
                out = shape(torch.zeros(sum(ours), 3))
                dist.all_to_all_single(out, shape(data[rank]), ours, counts[rank])
                same(out, torch.cat(expected))
                outs = [shape(torch.zeros(n, 3)) for n in ours]
                dist.all_to_all(outs, [shape(part) for part in data[rank].split(counts[rank])])
                for x, y in zip(outs, expected):
                    same(x, y)
        run(SIZE, body)

    def test_tensors_without_elements(self):
        def body(rank):
            x = torch.zeros(0, 3)
            dist.all_reduce(x)
            dist.broadcast(x, 1)
            dist.all_gather([torch.zeros(0) for _ in range(SIZE)], torch.zeros(0))
            dist.all_gather_into_tensor(torch.zeros(0), torch.zeros(0))
            dist.reduce_scatter_tensor(torch.zeros(0), torch.zeros(0))
            dist.all_to_all_single(torch.zeros(0), torch.zeros(0))
            dist.barrier()
        run(SIZE, body)

    def test_objects(self):
        def body(rank):
            things = [{"rank": source, "text": "x" * (100 * source)} for source in range(SIZE)]
            found = [None] * SIZE
            dist.all_gather_object(found, things[rank])
            assert found == things
            found = [None] * SIZE
            dist.gather_object(things[rank], found if rank == 1 else None, 1)
            assert found == (things if rank == 1 else [None] * SIZE)
            found = things if rank == 2 else [None] * SIZE
            dist.broadcast_object_list(found, 2)
            assert found == things
            found = [None]
            dist.scatter_object_list(found, things if rank == 0 else None, 0)
            assert found == [things[rank]]
        run(SIZE, body)

    def test_wrong_shapes_are_refused_with_the_numbers_that_would_be_right(self):
        def body(rank):
            for call, why in (
                    (lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(2)), "output must have 6"),
                    (lambda: dist.all_gather([torch.zeros(2)], torch.zeros(2)), "1 tensors.*each of the 3 ranks"),
                    (lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4)), "4 elements.*3 ranks"),
                    (lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 1, 1], [2, 1, 1]),
                     r"output_split_sizes are \[1, 1, 1\].*length of output, 4"),
                    (lambda: dist.reduce_scatter(torch.zeros(2), [torch.zeros(3)] * 3), "2 elements.*3")):
                try:
                    call()
                    raise AssertionError(f"{why}: not refused")
                except tutti.TuttiArgumentError as refused:
                    CASE.assertRegex(str(refused), why)
            dist.barrier()
        run(SIZE, body)


class Rest(unittest.TestCase):
    def test_the_backend_says_who_it_is(self):
        def body(rank):
            assert (dist.get_backend(), dist.get_rank(), dist.get_world_size()) == ("tutti", rank, 2)
            assert dist.group.WORLD.name() == "tutti"
        run(2, body)

    def test_memory_that_peers_read(self):
        def body(rank):
            x = tutti.torch.empty((3, 5), torch.bfloat16)
            assert x.shape == (3, 5) and not x.any()
            x += rank
            dist.all_reduce(x)
            same(x, torch.full((3, 5), 3, dtype=torch.bfloat16))
            assert tutti.torch.empty(0).shape == (0,)
        run(SIZE, body)

    def test_options_of_the_communicator_come_as_pg_options(self):
        def body(rank):
            x = torch.full((1000,), 0.1 * (rank + 1))
            dist.all_reduce(x)
            return x[:3].tolist()
        exact = run(2, body, pg_options={"deterministic": True})[0]
        narrow = run(2, body, pg_options={"wire_type": "bfloat16"})[0]
        self.assertNotEqual(exact, narrow)
        with self.assertRaisesRegex(AssertionError, "must be a dict of options"):
            run(1, body, pg_options=3)


CASE = unittest.TestCase()

if __name__ == "__main__":
    unittest.main()
