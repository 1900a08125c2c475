# SPDX-License-Identifier: BSD-3-Clause
"""The programs of an installed wheel: pip makes a script for each, which comes here and becomes the program."""
import os
import sys


def main():
    """Becomes the program of the same name in the package's folder bin."""
    name = os.path.basename(sys.argv[0])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as why:
        sys.exit(f"{name}: {path} cannot be started: {why.strerror}")
