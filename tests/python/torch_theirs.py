# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own tests of its backends (torch.testing._internal.distributed.distributed_test) pass with tutti.

Its tables of backends are extended from outside. A test that it keeps for gloo, or for MPI's all-to-all of the host, is
made to run; what it skips with gloo on a machine without GPUs is skipped here too. EXCEPT has the rest, with reasons.

    torch_theirs.py [NAME...]        the sample, or the tests that are named
    torch_theirs.py --all            all of them
"""
import importlib.util
import os
import sys
import tempfile
import types
import unittest

import ranks

EXCEPT = {
    "test_monitored_barrier_allreduce_hang": "torch refuses its monitored_barrier to other backends than gloo",
    "test_monitored_barrier_allreduce_hang_wait_all_ranks": "torch refuses monitored_barrier",
    "test_monitored_barrier_failure_order": "torch refuses monitored_barrier",
    "test_monitored_barrier_gloo": "torch refuses monitored_barrier",
    "test_monitored_barrier_gloo_rank_0_timeout": "torch refuses monitored_barrier",
    "test_monitored_barrier_gloo_subgroup": "torch refuses monitored_barrier",
    "test_monitored_barrier_wait_all_ranks": "torch refuses monitored_barrier",
}
# They pickle a class of a function where there are more than 3 ranks, which fails before a backend is asked.
OF_A_LOCAL_CLASS = ("test_gather_object", "test_gather_object_subgroup")
SAMPLE = """test_all_gather test_all_gather_coalesced_complex test_all_reduce_sum_async
    test_all_reduce_coalesced_group_max test_all_reduce_group_sum test_all_to_all_single_unequal_split
    test_all_to_all_group test_barrier_full_group test_barrier_timeout_group test_batch_isend_irecv_gloo
    test_batch_isend_irecv_gloo_tags test_broadcast_group test_gather_full_group test_get_future test_isend test_irecv
    test_sparse_all_reduce_sum test_reduce_sum_twice test_scatter_complex test_send_recv_with_tag
    test_send_recv_any_source
    test_DistributedDataParallelCPU test_DistributedDataParallelCPU_grad_is_view
    test_accumulate_gradients_no_sync test_ddp_logging_data_cpu test_ddp_create_graph""".split()


# Tests that look for gloo's own words in an error.
AS_ANOTHER = {"test_barrier_timeout_global", "test_barrier_timeout_group", "test_barrier_timeout_full_group"}


class Tutti(str):
    """The name of this backend, which is also gloo's where tests ask for that."""

    def __eq__(self, other):
        return other in ("tutti", "gloo")

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def load(backend):
    """The module as it is for a backend: it decides when it is imported which tests are skipped."""
    os.environ["BACKEND"] = backend
    spec = importlib.util.find_spec("torch.testing._internal.distributed.distributed_test")
    if spec is None:
        print("skipped: this torch has no distributed_test")
        sys.exit(77)
    spec = importlib.util.spec_from_file_location(f"theirs_{backend}", spec.origin)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tests_of(module):
    base = module.DistributedTest._DistTestBase
    return {name: getattr(base, name) for name in dir(base) if name.startswith("test_")}


def is_skipped(test):
    return getattr(test, "__unittest_skip__", False)


def unskipped(test):
    """A copy that is not skipped."""
    copy = types.FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    copy.__dict__.update({name: value for name, value in test.__dict__.items()
                          if not name.startswith("__unittest_skip")})
    return copy


def prepare():
    """The class of tests, with everything that runs over gloo."""
    if importlib.util.find_spec("expecttest") is None:  # a package for other tests, which their base class comes from
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    import torch
    import torch.testing._internal.common_distributed as common

    import tutti.torch  # noqa: F401 (makes the backend known)

    print(f"torch {torch.__version__} on Python {sys.version.split()[0]}", flush=True)
    torch.set_num_threads(1)
    try:
        import torch.distributed._shard  # noqa: F401
    except ValueError:  # 1.13 with Python 3.11, whose data classes are stricter; then DDP goes without it
        import torch.nn.parallel._replicated_tensor_ddp_utils as theirs
        theirs._set_ddp_with_replicated_tensor = lambda value: None
    for which in common.DistTestCases.backend_feature.values():
        which.clear()  # what needs nccl beside another backend is not run
        which.add("tutti")
    if int(os.environ["WORLD_SIZE"]) > 3 and not torch.__version__.startswith("1."):
        EXCEPT.update({name: "this torch's test cannot pickle its own class on 4 ranks" for name in OF_A_LOCAL_CLASS})
    elif torch.__version__.startswith("2.6.") and sys.version_info >= (3, 13):
        why = "this torch's test looks for words of an error that Python 3.13 has changed"
        EXCEPT.update({name: why for name in OF_A_LOCAL_CLASS})
    theirs, ours = tests_of(load("gloo")), load("tutti")

    class Theirs(ours.TestDistBackend, ours.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            ours.BACKEND = "tutti" if self._testMethodName in AS_ANOTHER else Tutti("tutti")
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    for name, test in tests_of(ours).items():
        why = getattr(test, "__unittest_skip_why__", "")
        if name in EXCEPT:
            setattr(Theirs, name, unittest.skip(EXCEPT[name])(unskipped(test)))
        elif is_skipped(test) and (not is_skipped(theirs[name]) or "Only MPI" in why):
            setattr(Theirs, name, unskipped(test))
    return Theirs


def main(names):
    folder = tempfile.TemporaryDirectory()
    os.environ.update(ranks.environment(WORLD_SIZE=os.environ.get("WORLD_SIZE", "3"), TEMP_DIR=folder.name,
                                        INIT_METHOD=f"file://{folder.name}/shared_init_file"))
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "120")
    tests = prepare()
    known = unittest.TestLoader().getTestCaseNames(tests)
    wanted = known if names == ["--all"] else names or [name for name in SAMPLE]
    unknown = [name for name in wanted if name not in known]
    if unknown and names:
        sys.exit(f"no tests: {', '.join(unknown)}")
    suite = unittest.TestSuite(tests(name) for name in wanted if name in known)
    done = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not done.wasSuccessful() or done.testsRun == 0)


if __name__ == "__main__":
    main(sys.argv[1:])
