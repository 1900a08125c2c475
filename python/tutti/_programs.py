# SPDX-License-Identifier: BSD-3-Clause
"""The programs beside the package: in a wheel, in a build tree, or installed; and what pip's scripts become."""
import os
import shutil
import sys


def find(name):
    """The path of a program of Tutti; None: there is none."""
    here = os.path.dirname(os.path.abspath(__file__))
    # In a wheel; from build/release/python/tutti; from lib/tutti/python/tutti, where lib may be lib/x86_64-linux-gnu.
    for above in ((), ("..",) * 2, ("..",) * 4, ("..",) * 5):
        path = os.path.normpath(os.path.join(here, *above, "bin", name))
        if os.path.exists(path):
            return path
    return shutil.which(name)


def main():
    """Becomes the program of the same name in the package's folder bin; pip makes a script for each that comes here."""
    name = os.path.basename(sys.argv[0])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as why:
        sys.exit(f"{name}: {path} cannot be started: {why.strerror}")
