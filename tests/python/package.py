# SPDX-License-Identifier: BSD-3-Clause
"""The package finds its library or says why not; its pages' programs run as they stand; its manual is whole."""
import inspect
import os
import pydoc
import shutil
import subprocess
import sys
import tempfile
import unittest

import ranks
import tutti

PYTHON = os.path.join(ranks.SOURCE, "python")


def python(program, **variables):
    return subprocess.run([sys.executable, "-c", program], env=ranks.environment(**variables), capture_output=True,
                          text=True, timeout=400)


class Finding(unittest.TestCase):
    FIND = "import os, tutti; print(os.path.realpath(tutti.LIBRARY))"

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.library = os.path.join(ranks.BINARY, "libtutti.so.0")

    def copy(self, *place):
        """The package in a folder."""
        shutil.copytree(os.path.join(PYTHON, "tutti"), os.path.join(self.folder, *place, "tutti"))
        return os.path.join(self.folder, *place)

    def found(self, folder, **variables):
        done = python(self.FIND, PYTHONPATH=folder, **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def test_beside_the_package_in_a_build_tree_and_installed(self):
        for package, library in (("wheel", "wheel/tutti"), ("build/python", "build"), ("lib/tutti/python", "lib")):
            folder = self.copy(*package.split("/"))
            path = os.path.join(self.folder, library, "libtutti.so.0")
            shutil.copy(self.library, path)
            self.assertEqual(self.found(folder), os.path.realpath(path))

    def test_the_one_that_is_named_comes_first(self):
        folder = self.copy("a")
        shutil.copy(self.library, os.path.join(folder, "tutti", "libtutti.so.0"))
        named = shutil.copy(self.library, os.path.join(self.folder, "named.so"))
        self.assertEqual(self.found(folder, TUTTI_LIBRARY=named), os.path.realpath(named))
        done = python("import tutti; tutti.init().close()", PYTHONPATH=folder, TUTTI_LIBRARY=named)
        self.assertEqual((done.returncode, done.stderr), (0, ""))  # no warning of an unknown setting

    def test_the_system_s_comes_last(self):
        done = python("import tutti; print(tutti.LIBRARY)", PYTHONPATH=self.copy("a"),
                      LD_LIBRARY_PATH=ranks.BINARY)
        self.assertEqual(done.stdout, "libtutti.so.0\n")

    def test_none_is_told_with_the_remedy(self):
        for variables in ({}, {"TUTTI_LIBRARY": "/nowhere/libtutti.so"}):
            done = python("import tutti", PYTHONPATH=self.copy(f"at{len(variables)}", "b", "c", "d"),
                          LD_LIBRARY_PATH="", **variables)
            if "No such file" not in done.stderr and "cannot open" not in done.stderr and not variables:
                self.skipTest("this system has a libtutti.so.0")
            self.assertRegex(done.stderr, r"ImportError: the library of Tutti cannot be used: .*cannot open shared "
                                          r"object file.* Set TUTTI_LIBRARY .* scripts/install")

    def test_a_library_of_another_version_is_told(self):
        folder = self.copy("a")
        path = os.path.join(folder, "tutti", "_library.py")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace('VERSION = "0.1', 'VERSION = "0.99'))
        done = python("import tutti", PYTHONPATH=folder, TUTTI_LIBRARY=self.library)
        self.assertRegex(done.stderr, r"ImportError: .*libtutti.so.0 is Tutti 0\.1\.\d, and this package is for 0\.99")

    def test_its_version_is_the_project_s(self):
        with open(os.path.join(ranks.SOURCE, "CMakeLists.txt")) as file:
            self.assertIn(f"VERSION {tutti.__version__} ", file.read())


class Pages(unittest.TestCase):
    def test_programs_run_as_they_stand(self):
        for page in (["README.md"], ["python", "README.md"]):
            programs = ranks.page_programs(*page)
            self.assertEqual(len(programs), 1, page)
            said = ranks.said_by(self, programs[0], "-n", "4")
            for rank in range(4):
                self.assertIn(f"[{rank}] rank {rank} of 4: [6.0, 4.0]\n", said)

    def test_the_program_of_the_manual_runs(self):
        """The first lines of help(tutti), as a job of one."""
        text = tutti.__doc__.split("\n\n")[1:3]
        program = "\n".join(line[4:] for line in "\n\n".join(text).split("\n"))
        self.assertEqual(python(program).stdout, "0 of 1 [0.0, 1.0]\n")

    def test_the_manual_tells_everything_that_is_public(self):
        manual = pydoc.plain(pydoc.render_doc(tutti))
        for name in set(tutti.__all__) - {"__version__"}:
            self.assertTrue(name in manual, name)
            thing = getattr(tutti, name)
            if callable(thing):
                self.assertEqual(thing.__module__, "tutti")
                self.assertTrue(inspect.getdoc(thing), name)
        for kind in (tutti.Comm, tutti.Fusion, tutti.Handle):
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_"):
                    self.assertTrue(method.__doc__, name)
                    self.assertIn("return", method.__annotations__, name)

    def test_it_says_that_it_has_types(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(tutti.__file__), "py.typed")))


if __name__ == "__main__":
    unittest.main()
