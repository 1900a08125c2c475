# SPDX-License-Identifier: BSD-3-Clause
"""The collectives of a process group, as c10d calls them: tensors in, one or a few calls of the library out.

A method returns DONE where the caller waits for the operation at once: then it was done in the caller's thread. Else it
returns a Work. The library carries out the operations of a communicator in the order of the calls.
"""
import threading
from ctypes import c_size_t
from datetime import timedelta

import torch
import torch.distributed as dist

from .. import _handles
from .._arrays import UINT8
from .._comm import OPS
from .._library import C, refusal
from ._tensors import (check_list, flat, gathered, is_flat, joined, moved, one, put, reduced, room, share,
                       spread, storage)
from ._work import DONE, UNKNOWN, WAITS, Work, caller

_ALL_REDUCE, _REDUCE, _BROADCAST = C["tuttiAllReduce"], C["tuttiReduce"], C["tuttiBroadcast"]
_ALL_GATHER, _REDUCE_SCATTER, _ALL_TO_ALL = C["tuttiAllGather"], C["tuttiReduceScatter"], C["tuttiAlltoAll"]
_GATHER, _SCATTER, _BARRIER = C["tuttiGather"], C["tuttiScatter"], C["tuttiBarrier"]
_ALL_GATHER_V, _REDUCE_SCATTER_V = C["tuttiAllGatherV"], C["tuttiReduceScatterV"]
_ALL_TO_ALL_V = C["tuttiAlltoAllV"]

# The number of each operation, keyed by the hash of torch's.
_OPS = {hash(getattr(dist.ReduceOp, theirs)): OPS[ours] for theirs, ours in (
    ("SUM", "sum"), ("PRODUCT", "prod"), ("MAX", "max"), ("MIN", "min"), ("AVG", "avg"), ("BAND", "and"),
    ("BOR", "or"), ("BXOR", "xor")) if hasattr(dist.ReduceOp, theirs)}


class Collectives:
    """What both kinds of backends of torch.distributed are made of."""

    def _begin(self, comm):
        self._comm = comm
        self._lock = threading.RLock()
        self._copying = []  # works under way that have copies to make at their end

    # ---- calls ----

    def _run(self, who, results, copies, keep, *calls):
        """Calls the library: each call is a function and its arguments. Several start together."""
        comm = self._comm
        with self._lock:
            if self._copying:
                self._settle()
            if who == WAITS:
                if len(calls) == 1:
                    comm._call(False, None, None, *calls[0])
                else:
                    with _handles.group():
                        for call in calls:
                            comm._call(False, None, keep, *call)
                put(copies)
                return DONE
            if len(calls) == 1:
                handles = [comm._call(True, None, keep, *calls[0])]
            else:
                with _handles.group():
                    handles = [comm._call(True, None, keep, *call) for call in calls]
            work = Work(handles, results, copies)
            if copies:
                self._copying.append(work)
        return work.keep() if who == UNKNOWN else work

    def _settle(self):
        """Ends the operations whose results still have to be copied: the next call may read them.

        An error of theirs is told by themselves: raised here it would keep this rank from a call that others make.
        """
        copying, self._copying = self._copying, []
        for work in copying:
            try:
                work.wait()
            except Exception:
                pass

    def _copied(self, *tensors):
        """Waits for operations under way on tensors that are read before the library is called."""
        if self._copying:
            with self._lock:
                self._settle()
        pending = [handle for handle in list(self._comm._pending) if not handle.done()]
        if pending:
            used = {storage(x) for x in tensors}
            for handle in pending:
                if any(isinstance(x, torch.Tensor) and storage(x) in used for x in handle._keep or ()):
                    handle.wait()

    def _in(self, x, name="tensor"):
        """A tensor that is read, as the library can use it."""
        if is_flat(x, name):
            return x
        self._copied(x)
        return flat(x)

    def _out(self, x, is_read, name="tensor"):
        """A tensor that is written: what the library writes, and the copies to make then."""
        if is_flat(x, name):
            return x, ()
        if is_read:
            self._copied(x)
            t = flat(x)
        else:
            t = torch.empty(x.shape, dtype=x.dtype)
        return t, ((x, t),)

    def _outs(self, tensors):
        """The same for several tensors."""
        pairs = [self._out(x, False) for x in tensors]
        return [t for t, _ in pairs], tuple(copy for _, copies in pairs for copy in copies)

    def _gathered(self, tensors):
        """One array of the elements of all tensors, which are read."""
        if not joined(tensors):
            self._copied(*tensors)
        return gathered(tensors)

    def _op(self, opts, dtype):
        """The number of the operation, and what has to live as long as the call."""
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        try:
            return _OPS[hash(op)], None
        except KeyError:
            pass
        made = self._comm.scaled_sum(*_factor(op, dtype))
        return made.value, made

    # ---- collectives of one tensor a rank ----

    def broadcast(self, tensors, opts=None):
        who = caller(opts)
        x = one(tensors)
        root = opts.rootRank if opts is not None else 0
        t, copies = (self._in(x), ()) if root == self._comm.rank else self._out(x, False)
        n, code = moved(t)
        at = t.data_ptr()
        return self._run(who, (x,), copies, (x, t), (_BROADCAST, at, at, n, code, root))

    def allreduce(self, tensors, opts=None):
        who = caller(opts)
        x = one(tensors)
        if x.is_sparse:
            return self._add_sparse(who, x, opts)
        t, copies = self._out(x, True)
        n, code = reduced(t)
        op, keep = self._op(opts, t.dtype)
        at = t.data_ptr()
        return self._run(who, (x,), copies, (x, t, keep), (_ALL_REDUCE, at, at, n, code, op))

    def _add_sparse(self, who, x, opts):
        """Sums sparse tensors: their elements are gathered, in this thread, and added there."""
        op, _ = self._op(opts, x.dtype)
        if op != OPS["sum"]:
            raise refusal("op is not SUM: only that is there for sparse tensors")
        own = x.coalesce()
        counts = torch.zeros(self._comm.size, dtype=torch.int64)
        self._allgather_base(counts, torch.tensor([own._nnz()])).wait()
        indices, values = own.indices().t().contiguous(), own.values()
        gathered = []
        for t in (indices, values):
            outs = [t.new_empty(count, *t.shape[1:]) for count in counts.tolist()]
            self.allgather([outs], [t]).wait()
            gathered.append(torch.cat(outs))
        with torch.no_grad():
            x.copy_(torch.sparse_coo_tensor(gathered[0].t(), gathered[1], x.shape).coalesce())
        work = Work((), (x,))
        return work.keep() if who == UNKNOWN else work

    def allreduce_coalesced(self, tensors, opts=None):
        who, parts = caller(opts), []
        for i, x in enumerate(tensors):
            t, copies = self._out(x, True, f"tensors[{i}]")
            n, code = reduced(t, f"tensors[{i}]")
            op, made = self._op(opts, t.dtype)
            parts.append(((_ALL_REDUCE, t.data_ptr(), t.data_ptr(), n, code, op), copies, (x, t, made)))
        return self._coalesced(who, tensors, parts)

    def reduce(self, tensors, opts=None):
        who = caller(opts)
        x = one(tensors)
        root = opts.rootRank if opts is not None else 0
        t, copies = self._out(x, True)
        n, code = reduced(t)
        op, keep = self._op(opts, t.dtype)
        at, to = t.data_ptr(), None
        if root == self._comm.rank:
            to = at
        else:
            copies = ()
        return self._run(who, (x,), copies, (x, t, keep), (_REDUCE, at, to, n, code, op, root))

    def barrier(self, opts=None):
        return self._run(caller(opts), (), (), (), (_BARRIER,))

    # ---- with a share for each rank ----

    def _pair(self, output, input):
        """The tensors of a call as the library can use them, and the copies to make then."""
        x = self._in(input, "input")
        t, copies = self._out(output, False, "output")
        if x.dtype != t.dtype:
            raise refusal(f"output has elements of {t.dtype}, and input of {x.dtype}: pass tensors of one type")
        return x, t, copies

    def _all_gather(self, output, input):
        """A call, the copies to make then, and what has to live."""
        x, t, copies = self._pair(output, input)
        share(x.numel(), t.numel(), self._comm.size, "input", "output")
        return (_ALL_GATHER, x.data_ptr(), t.data_ptr(), *moved(x)), copies, (output, x, t)

    def _allgather_base(self, output, input, opts=None):
        who = caller(opts)
        call, copies, keep = self._all_gather(output, input)
        return self._run(who, (output,), copies, keep, call)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._coalesced(caller(opts), outputs, [self._all_gather(*pair) for pair in zip(outputs, inputs)])

    def _coalesced(self, who, results, parts):
        """Several calls that start together."""
        calls, copies, keep = zip(*parts) if parts else ((), (), ())
        return self._run(who, tuple(results), sum(copies, ()), sum(keep, ()), *calls)

    def allgather(self, outputs, inputs, opts=None):
        who = caller(opts)
        outs, x = (outputs if isinstance(inputs, torch.Tensor) else one(outputs, "output_tensors")), one(inputs)
        check_list(outs, self._comm.size, "tensor_list", x)
        t = self._in(x)
        counts = [out.numel() for out in outs]
        if counts[self._comm.rank] != t.numel():
            raise refusal(f"tensor has {t.numel()} elements, and its place in tensor_list has "
                          f"{counts[self._comm.rank]}: they must be as many")
        if len(set(counts)) > 1:
            ts, copies = self._outs(outs)
            call = (_ALL_GATHER_V, t.data_ptr(), t.numel() * t.element_size(), *spread(ts), UINT8)
            return self._run(who, tuple(outs), copies, (*outs, *ts, t), call)
        to, copies = room(outs)
        n, code = moved(t)
        return self._run(who, tuple(outs), copies, (*outs, t, to), (_ALL_GATHER, t.data_ptr(), to.data_ptr(), n, code))

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        who, parts = caller(opts), []
        for i, x in enumerate(inputs):
            outs = [row[i] for row in output_lists]
            check_list(outs, self._comm.size, f"the lists' tensors {i}", x)
            self._equal(outs, x, f"the list of outputs {i}")
            t, (to, copies) = self._in(x), room(outs)
            parts.append(((_ALL_GATHER, t.data_ptr(), to.data_ptr(), *moved(t)), copies, (*outs, t, to)))
        return self._coalesced(who, [out for row in output_lists for out in row], parts)

    def gather(self, outputs, inputs, opts=None):
        who = caller(opts)
        x = one(inputs)
        root = opts.rootRank if opts is not None else 0
        t = self._in(x)
        n, code = moved(t)
        if root != self._comm.rank:
            return self._run(who, (), (), (x, t), (_GATHER, t.data_ptr(), None, n, code, root))
        outs = one(outputs, "output_tensors")
        check_list(outs, self._comm.size, "gather_list", x)
        self._equal(outs, x, "gather_list")
        to, copies = room(outs)
        return self._run(who, tuple(outs), copies, (*outs, t, to),
                         (_GATHER, t.data_ptr(), to.data_ptr(), n, code, root))

    def scatter(self, outputs, inputs, opts=None):
        who = caller(opts)
        x = one(outputs)
        root = opts.rootRank if opts is not None else 0
        t, copies = self._out(x, False)
        n, code = moved(t)
        source, at = None, None
        if root == self._comm.rank:
            parts = one(inputs, "input_tensors")
            check_list(parts, self._comm.size, "scatter_list", x)
            self._equal(parts, x, "scatter_list")
            source = self._gathered(parts)
            at = source.data_ptr()
        keep = (x, t) if source is None else (x, t, source, *parts)
        return self._run(who, (x,), copies, keep, (_SCATTER, at, t.data_ptr(), n, code, root))

    @staticmethod
    def _equal(parts, x, name):
        for i, part in enumerate(parts):
            if part.numel() != x.numel():
                raise refusal(f"{name}[{i}] has {part.numel()} elements, and tensor has {x.numel()}: all must have as "
                              "many")

    def _reduce_scatter(self, output, input, opts):
        """A call, the copies to make then, and what has to live."""
        x, t, copies = self._pair(output, input)
        share(t.numel(), x.numel(), self._comm.size, "output", "input")
        n, code = reduced(t, "output")
        op, made = self._op(opts, t.dtype)
        return (_REDUCE_SCATTER, x.data_ptr(), t.data_ptr(), n, code, op), copies, (output, x, t, made)

    def _reduce_scatter_base(self, output, input, opts=None):
        who = caller(opts)
        call, copies, keep = self._reduce_scatter(output, input, opts)
        return self._run(who, (output,), copies, keep, call)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        parts = [self._reduce_scatter(*pair, opts) for pair in zip(outputs, inputs)]
        return self._coalesced(caller(opts), outputs, parts)

    def reduce_scatter(self, outputs, inputs, opts=None):
        who = caller(opts)
        parts, x = (inputs if isinstance(outputs, torch.Tensor) else one(inputs, "input_tensors")), one(outputs)
        check_list(parts, self._comm.size, "input_list", x)
        counts = [part.numel() for part in parts]
        if counts[self._comm.rank] != x.numel():
            raise refusal(f"output has {x.numel()} elements, and its part of input_list has "
                          f"{counts[self._comm.rank]}: they must be as many")
        t, copies = self._out(x, False, "output")
        _, code = reduced(t, "output")
        op, made = self._op(opts, t.dtype)
        source = self._gathered(parts)
        if len(set(counts)) > 1:
            return self._run(who, (x,), copies, (x, t, source, made, *parts),
                             (_REDUCE_SCATTER_V, source.data_ptr(), t.data_ptr(), (c_size_t * len(counts))(*counts),
                              None, code, op))
        return self._run(who, (x,), copies, (x, t, source, made, *parts),
                         (_REDUCE_SCATTER, source.data_ptr(), t.data_ptr(), counts[0], code, op))

    # ---- from all ranks to all ranks ----

    def alltoall_base(self, output, input, output_split_sizes=(), input_split_sizes=(), opts=None):
        who = caller(opts)
        x, t, copies = self._pair(output, input)
        if not output_split_sizes and not input_split_sizes:
            size = self._comm.size
            if x.numel() != t.numel() or x.numel() % size:
                raise refusal(f"input has {x.numel()} elements, and output has {t.numel()}: without split sizes both "
                              f"must have the same multiple of the {size} ranks")
            n, code = moved(x)
            return self._run(who, (output,), copies, (output, x, t),
                             (_ALL_TO_ALL, x.data_ptr(), t.data_ptr(), n // size, code))
        outs, ins = self._parts(t, output_split_sizes, "output"), self._parts(x, input_split_sizes, "input")
        return self._exchange(who, outs, ins, (output, x, t), copies, (output,))

    def _parts(self, x, sizes, name):
        """The part of a tensor for each rank: `sizes` lengths along its first dimension, or equal ones."""
        size = self._comm.size
        length = x.shape[0] if x.dim() else 0
        if not sizes:
            if length % size:
                raise refusal(f"{name} has the length {length}, which is no multiple of the {size} ranks: give its "
                              "split sizes")
            sizes = [length // size] * size
        if len(sizes) != size or sum(sizes) != length or min(sizes) < 0:
            raise refusal(f"{name}_split_sizes are {list(sizes)}: there must be one for each of the {size} ranks, and "
                          f"their sum the length of {name}, {length}")
        return x.split(list(sizes))

    def alltoall(self, outputs, inputs, opts=None):
        who = caller(opts)
        check_list(inputs, self._comm.size, "input_tensor_list")
        check_list(outputs, self._comm.size, "output_tensor_list", inputs[0])
        return self._exchange(who, outputs, [self._in(x) for x in inputs], tuple(inputs))

    def _exchange(self, who, outs, ins, keep, copies=(), results=None):
        """Sends ins[r] to each rank r, and receives outs[r] from it."""
        ts, parts = self._outs(outs)
        return self._run(who, results or tuple(outs), (*parts, *copies), (*keep, *outs, *ts, *ins),
                         (_ALL_TO_ALL_V, *spread(ins), *spread(ts), UINT8))

    # ---- names of newer versions ----

    all_gather_single, all_gather_single_coalesced = _allgather_base, allgather_into_tensor_coalesced
    reduce_scatter_single, reduce_scatter_single_coalesced = _reduce_scatter_base, reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base


def _factor(op, dtype):
    """The factor of a PREMUL_SUM, and the name of the type."""
    try:
        kind, factor = op.__getstate__()
    except (AttributeError, TypeError, ValueError):
        raise refusal("op is none of SUM, PRODUCT, MIN, MAX, AVG, BAND, BOR and BXOR; if it is PREMUL_SUM, this torch "
                      "does not tell its factor: multiply the tensor before") from None
    return torch.as_tensor(factor).to(dtype).reshape(-1), dtype


def milliseconds(timeout):
    """A timedelta as the library has it."""
    return max(1, min(int(timeout / timedelta(milliseconds=1)), 2**31 - 1))
