# SPDX-License-Identifier: BSD-3-Clause
"""Makes a wheel: what pip calls (PEP 517) for `pip install ./python`.

The wheel has the package, and in it what `cmake --install` gives of the libraries and programs. It serves every Python
from 3.8 on, so its tag is py3-none; the platform's part says which C library is needed at least. WHEEL_BUILD names a
build folder that is there already, of preset release, and built; else one is made in build/wheel.
"""
import base64
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NAME = "tutti"


def _version():
    with open(os.path.join(HERE, "tutti", "_library.py")) as file:
        return re.search(r'^VERSION = "(.*?)"', file.read(), re.M).group(1)


def _table(title):
    """The lines of a table of pyproject.toml, which Python reads by itself from 3.11 on only."""
    with open(os.path.join(HERE, "pyproject.toml")) as file:
        text = file.read()
    return re.search(r"^\[" + re.escape(title) + r"\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S).group(1).strip()


def _value(key):
    return re.search(rf'^{key} = (?:\{{text = )?"(.*?)"', _table("project"), re.M).group(1)


def _metadata():
    with open(os.path.join(HERE, "README.md")) as file:
        text = file.read()
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {_version()}\nSummary: {_value('description')}\n"
            f"License: {_value('license')}\nRequires-Python: {_value('requires-python')}\n"
            f"Description-Content-Type: text/markdown\n\n{text}")


def _entry_points():
    def lines(title):
        return _table(title).replace('"', "")
    return f"[console_scripts]\n{lines('project.scripts')}\n" + "".join(
        f"\n[{group}]\n" + lines(f'project.entry-points."{group}"') + "\n"
        for group in ("torch.distributed.backends", "vllm.general_plugins"))


def _built():
    """A build folder in which everything that is installed has been built."""
    folder = os.environ.get("WHEEL_BUILD")
    if folder:
        return folder
    folder = os.path.join(ROOT, "build", "wheel")
    subprocess.check_call(["cmake", "--preset", "release", "-B", folder, "-DCMAKE_INSTALL_LIBDIR=lib",
                           "-DTUTTI_TESTS=OFF"], cwd=ROOT)
    subprocess.check_call(["cmake", "--build", folder, "--parallel", "--target", "tutti_installed"])
    return folder


def _installed(folder, into):
    """The libraries and programs, as installed: {path in the package: path of the file}."""
    subprocess.check_call(["cmake", "--install", folder, "--strip", "--prefix", into], stdout=subprocess.DEVNULL)
    files = {f"bin/{os.path.basename(path)}": path for path in glob.glob(os.path.join(into, "bin", "*"))}
    lib = os.path.dirname(glob.glob(os.path.join(into, "lib*", "**", "libtutti.so.0"), recursive=True)[0])
    files["lib/libtutti.so.0"] = os.path.join(lib, "libtutti.so.0")
    files["lib/tutti/libnccl.so.2"] = os.path.join(lib, "tutti", "libnccl.so.2")
    scripts = glob.glob(os.path.join(lib, "tutti", "pictures", "*.py"))
    for script in [os.path.join(lib, "tutti", name) for name in ("draw", "doctor", "timeline")] + scripts:
        files["lib/" + os.path.relpath(script, lib)] = script
    return files


def _machine(path):
    """The processor that a program or library is for; None: it is neither."""
    with open(path, "rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF":
        return None
    return {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(head[18:20], "little"), platform.machine())


def _platform(files):
    """The platform's tag: the newest symbol of the C library that a file needs."""
    needed, machine = 17, platform.machine()
    for path in files:
        machine = _machine(path) or machine
        if _machine(path):
            objdump = shutil.which(f"{machine}-linux-gnu-objdump") or "objdump"
            said = subprocess.run([objdump, "-T", path], stdout=subprocess.PIPE, check=True).stdout.decode()
            needed = max([needed, *(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", said))])
    return f"manylinux_2_{needed}_{machine}"


def _package():
    """The files of the package."""
    found = {}
    for folder, folders, names in os.walk(os.path.join(HERE, "tutti")):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        for name in sorted(names):
            if name.endswith((".py", ".typed")):
                path = os.path.join(folder, name)
                found[os.path.relpath(path, HERE)] = path
    return found


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder; returns its name."""
    info = f"{NAME}-{_version()}.dist-info"
    with tempfile.TemporaryDirectory() as stage:
        installed = _installed(_built(), stage)
        tag = f"py3-none-{_platform(installed.values())}"
        files = {**_package(), **{f"{NAME}/{inside}": path for inside, path in sorted(installed.items())}}
        texts = {f"{info}/METADATA": _metadata(), f"{info}/entry_points.txt": _entry_points(),
                 f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: build_tutti\nRoot-Is-Purelib: false\nTag: {tag}\n"}
        for name in ("LICENSE", "NOTICE"):
            with open(os.path.join(ROOT, name)) as file:
                texts[f"{info}/{name}"] = file.read()
        name = f"{NAME}-{_version()}-{tag}.whl"
        _write(os.path.join(wheel_directory, name), files, texts, f"{info}/RECORD")
    return name


def _write(path, files, texts, record):
    """A wheel is a zip file whose record has the digest of each file in it."""
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name, data, mode):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
        for name, source in files.items():
            with open(source, "rb") as file:
                add(name, file.read(), 0o755 if os.access(source, os.X_OK) else 0o644)
        for name, text in texts.items():
            add(name, text.encode(), 0o644)
        lines.append(f"{record},,\n")
        wheel.writestr(record, "".join(lines))


def build_sdist(sdist_directory, config_settings=None):
    """The sources: the whole project, as git knows it; pyproject.toml stands in its folder python."""
    raise SystemExit("there is no source distribution: clone the repository, then pip install ./python")


def get_requires_for_build_wheel(config_settings=None):
    """What pip has to fetch first: nothing."""
    for program in ("cmake", "ninja", "cc"):
        if shutil.which(program) is None and "WHEEL_BUILD" not in os.environ:
            raise SystemExit(f"there is no {program}: install build-essential, cmake, ninja-build, pkg-config and "
                             "libsodium-dev")
    return []
