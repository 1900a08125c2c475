# SPDX-License-Identifier: BSD-3-Clause
"""vLLM over Tutti, an experiment: tensor parallelism on CPUs, on one host and between hosts.

    VLLM_PLUGINS=tutti vllm serve MODEL --tensor-parallel-size 4

The package is a plugin of vLLM (entry point ``vllm.general_plugins``), which acts only where ``VLLM_PLUGINS`` names it
and vLLM runs on CPUs. Then the all-reduces, all-gathers and gathers of tensor parallel layers go through Tutti: over
shared memory between ranks of a host, over RDMA or TCP between hosts, in one communicator for both. What coordinates
the ranks (objects, barriers) stays with gloo, and messages between pipeline stages stay with vLLM.
"""
import os

__all__ = ["register"]


def register() -> None:
    """Lets vLLM's CPU platform make Tutti's communicators. vLLM calls it in each of its processes, perhaps twice."""
    if "tutti" not in os.environ.get("VLLM_PLUGINS", "").split(","):
        return
    from vllm.platforms import current_platform
    if current_platform.is_cpu():
        type(current_platform).get_device_communicator_cls = classmethod(
            lambda cls: "tutti.vllm.communicator.Communicator")
