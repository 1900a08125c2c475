# SPDX-License-Identifier: BSD-3-Clause
"""The backend of ray.util.collective, against a stub of what it needs of Ray: groups meet, and carry out each call.

The stub has the interface of Ray 2.60.0 (python/ray/util/collective of its wheel). `scripts/test-long ray` tries Ray
itself.
"""
import abc
import array
import enum
import importlib
import sys
import threading
import time
import types
import unittest

import tutti

STORE: dict = {}


class ReduceOp(enum.Enum):
    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    XOR = 9  # none that Ray has


class Options:
    """Those of every call."""

    def __init__(self, op=ReduceOp.SUM, root=0, peer=0):
        self.reduceOp, self.root_rank, self.dst_rank, self.src_rank = op, root, peer, peer


def _begin(self, world_size, rank, group_name):
    self._world_size, self._rank, self._group_name = world_size, rank, group_name


BaseGroup = abc.ABCMeta("BaseGroup", (), {"__init__": _begin, **{
    name: abc.abstractmethod(lambda self, *_: None) for name in (
        "check_backend_availability", "allreduce", "barrier", "reduce", "allgather", "broadcast", "reducescatter",
        "send", "recv")}})
REGISTERED: dict = {}


def register_collective_backend(name, group):
    assert issubclass(group, BaseGroup)
    if name.upper() in REGISTERED:
        raise ValueError(f"Backend {name.upper()} already registered")
    REGISTERED[name.upper()] = group


def put(key, value, overwrite=True):
    assert isinstance(key, bytes) and isinstance(value, bytes) and overwrite
    STORE[key] = value


def _install():
    """Makes the stub what `import ray...` finds."""
    def module(name, **things):
        made = sys.modules[name] = types.ModuleType(name)
        made.__dict__.update(things, __path__=[])
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, made)
    module("ray")
    module("ray.experimental")
    module("ray.experimental.internal_kv", _internal_kv_put=put, _internal_kv_get=STORE.get,
           _internal_kv_del=lambda key: STORE.pop(key, None))
    module("ray.util")
    module("ray.util.collective")
    module("ray.util.collective.backend_registry", register_collective_backend=register_collective_backend)
    module("ray.util.collective.collective_group")
    module("ray.util.collective.collective_group.base_collective_group", BaseGroup=BaseGroup)


_install()
import tutti.ray  # noqa: E402


def floats(*values):
    return array.array("d", values)


def groups(size, body, name="default"):
    """Calls body(group, rank) in `size` threads, as actors would; raises the first exception of one."""
    wrong = []

    def actor(rank):
        try:
            group = REGISTERED["TUTTI"](size, rank, name)
            try:
                body(group, rank)
            finally:
                group.destroy_group()
        except BaseException as why:  # told by the caller
            wrong.append(why)
    actors = [threading.Thread(target=actor, args=(rank,)) for rank in range(size)]
    for thread in actors:
        thread.start()
    for thread in actors:
        thread.join()
    if wrong:
        raise wrong[0]


class Registering(unittest.TestCase):
    def test_it_is_known_and_can_be_registered_again(self):
        tutti.ray.register()
        self.assertEqual(list(REGISTERED), ["TUTTI"])
        self.assertTrue(REGISTERED["TUTTI"].check_backend_availability())
        self.assertEqual(REGISTERED["TUTTI"].backend(), "TUTTI")

    def test_a_ray_without_the_registry_is_told(self):
        registry = sys.modules.pop("ray.util.collective.backend_registry")
        module = sys.modules.pop("tutti.ray")
        try:
            with self.assertRaisesRegex(ImportError, "tutti.ray needs a Ray that has"):
                importlib.import_module("tutti.ray")
        finally:
            sys.modules["ray.util.collective.backend_registry"], sys.modules["tutti.ray"] = registry, module
            tutti.ray = module


class Calls(unittest.TestCase):
    def test_every_call_of_ray(self):
        def body(group, rank):
            for op, wanted in ((ReduceOp.SUM, 6), (ReduceOp.PRODUCT, 6), (ReduceOp.MIN, 1), (ReduceOp.MAX, 3)):
                x = floats(rank + 1, rank + 1)
                group.allreduce([x], Options(op))
                self.assertEqual(list(x), [wanted, wanted])
            x = floats(rank)
            group.reduce([x], Options(ReduceOp.MAX, root=1))
            self.assertEqual(list(x), [2 if rank == 1 else rank])
            group.broadcast([x], Options(root=1))
            self.assertEqual(list(x), [2])
            parts = [floats(-1, -1) for _ in range(3)]
            group.allgather([parts], [floats(rank, 9)], Options())
            self.assertEqual([list(part) for part in parts], [[0, 9], [1, 9], [2, 9]])
            x = floats(0)
            group.reducescatter([x], [[floats(10 * r + rank) for r in range(3)]], Options())
            self.assertEqual(list(x), [30 * rank + 3])
            group.barrier(Options())
            if rank == 0:
                group.send([floats(7)], Options(peer=2))
            elif rank == 2:
                group.recv([x], Options(peer=0))
                self.assertEqual(list(x), [7])
            group.barrier()
        groups(3, body)

    def test_calls_that_cannot_be_are_refused_by_name(self):
        def body(group, rank):
            with self.assertRaisesRegex(tutti.TuttiArgumentError, "op is XOR: it must be one of SUM"):
                group.allreduce([floats(1)], Options(ReduceOp.XOR))
            with self.assertRaisesRegex(tutti.TuttiArgumentError, "there are 2 tensors"):
                group.allreduce([floats(1), floats(2)])
        groups(1, body)


class Meeting(unittest.TestCase):
    def test_what_an_earlier_group_left_in_the_store_is_no_answer(self):
        def body(group, rank):
            x = floats(1)
            group.allreduce([x])
            self.assertEqual(list(x), [3])
        groups(3, body, "again")
        self.assertEqual(STORE, {})
        STORE[b"tutti told 1 again"] = bytes(16) + tutti.unique_id()  # of actors that died while they met
        STORE[b"tutti asks 1 again"] = bytes(16)
        groups(3, body, "again")
        self.assertEqual(STORE, {})

    def test_two_groups_meet_beside_each_other(self):
        def both(name):
            groups(2, lambda group, rank: group.barrier(), name)
        other = threading.Thread(target=both, args=("a",))
        other.start()
        both("b")
        other.join()

    def test_a_rank_0_that_does_not_come_is_named(self):
        limit, tutti.ray.LIMIT = tutti.ray.LIMIT, 0.05
        try:
            with self.assertRaisesRegex(tutti.TuttiRemoteError, "rank 0 of group late did not come"):
                REGISTERED["TUTTI"](2, 1, "late")
        finally:
            tutti.ray.LIMIT = limit
        self.assertEqual(STORE, {})

    def test_a_rank_that_asks_again_is_answered_again(self):
        rank_0 = tutti.ray._Meeting("twice", 0, 2)
        for _ in range(2):
            rank_1 = tutti.ray._Meeting("twice", 1, 2)
            asker = threading.Thread(target=rank_1.ask)
            asker.start()
            while asker.is_alive():
                rank_0.answer()
                time.sleep(1e-3)
            self.assertEqual(rank_1.id, rank_0.id)
        rank_1.end()


if __name__ == "__main__":
    unittest.main()
