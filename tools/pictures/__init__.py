# SPDX-License-Identifier: BSD-3-Clause
"""The pictures of `tutti draw`."""
