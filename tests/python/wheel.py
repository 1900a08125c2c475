# SPDX-License-Identifier: BSD-3-Clause
"""A wheel has all that is installed, and works where it is unpacked, without the build tree; pip takes it."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import ranks


class Wheel(unittest.TestCase):
    def setUp(self):
        if subprocess.run(["cmake", "--version"], stdout=subprocess.DEVNULL).returncode:
            self.skipTest("no cmake")
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self):
        """The path of a wheel of the build tree."""
        done = subprocess.run(
            [sys.executable, "-c", "import build_tutti, sys; print(build_tutti.build_wheel(sys.argv[1]))", self.folder],
            env=ranks.environment(PYTHONPATH=os.path.join(ranks.SOURCE, "python"), WHEEL_BUILD=ranks.BINARY),
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return os.path.join(self.folder, done.stdout.split()[-1])

    def install(self, wheel, place):
        """By pip, or as it does where there is none; returns the folder of programs."""
        pip = [sys.executable, "-m", "pip"]
        if subprocess.run([*pip, "--version"], capture_output=True).returncode == 0:
            done = subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", "--target", place, wheel],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        else:
            zipfile.ZipFile(wheel).extractall(place)
        programs = os.path.join(place, "tutti", "bin")
        for path in glob.glob(os.path.join(programs, "*")):
            os.chmod(path, 0o755)  # pip does it by the record of the archive, zipfile does not
        return programs

    def test_it_works_where_it_is_unpacked(self):
        wheel = self.make()
        name = os.path.basename(wheel)
        self.assertRegex(name, rf"^tutti-{re.escape(ranks.tutti.__version__)}-py3-none-manylinux_2_\d+_\w+\.whl$")
        place = os.path.join(self.folder, "site")
        programs = self.install(wheel, place)
        said = subprocess.run(
            [os.path.join(programs, "tutti"), "run", "-n", "2", "--", sys.executable, "-c",
             "import tutti; c = tutti.init(); x = bytearray([1]); c.all_reduce(x); print(x[0], tutti.LIBRARY)"],
            env=ranks.environment(PYTHONPATH=place), capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(f"[0] 2 {place}/tutti/lib/libtutti.so.0", said.stdout)
        with open(glob.glob(os.path.join(place, "tutti-*.dist-info", "NOTICE"))[0]) as file:
            self.assertIn("Frank Denis", file.read())  # libsodium is inside
        drawn = subprocess.run([os.path.join(programs, "tutti"), "schedule", "allreduce", "--algo", "ring", "-n", "2",
                                "--svg", "/dev/stdout"], env=ranks.environment(PYTHONPATH=place), capture_output=True)
        self.assertTrue(drawn.stdout.endswith(b"</svg>\n"), drawn.stderr)
        for inside in ("lib/tutti/libnccl.so.2", "bin/allreduce_perf", "py.typed", "torch/__init__.py"):
            self.assertTrue(os.path.exists(os.path.join(place, "tutti", inside)), inside)

    def test_its_record_has_every_file(self):
        with zipfile.ZipFile(self.make()) as wheel:
            names = wheel.namelist()
            info = next(name[:-len("RECORD")] for name in names if name.endswith("/RECORD"))
            record = wheel.read(info + "RECORD").decode().splitlines()
            points = wheel.read(info + "entry_points.txt").decode()
        self.assertEqual(sorted(line.split(",")[0] for line in record), sorted(names))
        self.assertIn("[torch.distributed.backends]\ntutti = tutti.torch:register", points)
        self.assertIn("[vllm.general_plugins]\ntutti = tutti.vllm:register", points)
        self.assertIn("tutti = tutti._programs:main", points)


if __name__ == "__main__":
    unittest.main()
