# SPDX-License-Identifier: Apache-2.0
"""The build backend of pyproject.toml (PEP 517): a wheel with the package, the extension, libestoc and the estoc tool.

libestoc is built by CMake in build/dist, as `make install` builds it; the Debian packages that it needs come from
scripts/bootstrap. The wheel is abi3: one for every CPython from 3.9 on, for this machine's architecture. It links the
system's jansson, zlib, libuv and OpenSSL: it is for this system. `make python` has auditwheel put them inside.
"""
import base64
import hashlib
import os
import re
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import build_native  # noqa: E402

ROOT = build_native.ROOT
TAG = "cp39-abi3-{}"


def version():
    text = build_native.read(ROOT, "include", "estoc", "version.h")
    return ".".join(re.search(rf"EST_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def metadata():
    lines = ["Metadata-Version: 2.1", "Name: estoc", f"Version: {version()}",
             "Summary: TensorFlow's Estimator on libestoc: train on one machine or a cluster", "License: Apache-2.0",
             "Requires-Python: >=3.9", "Requires-Dist: cffi>=1.15", "Requires-Dist: numpy>=1.22",
             "Description-Content-Type: text/markdown", ""]
    return "\n".join(lines) + "\n" + build_native.read(ROOT, "docs", "python.md")


def wheel_tag():
    return TAG.format(sysconfig.get_platform().replace("-", "_").replace(".", "_"))


class _Wheel:
    """A wheel file; RECORD is written at the end."""

    def __init__(self, folder):
        self.name = f"estoc-{version()}-{wheel_tag()}.whl"
        self.info = f"estoc-{version()}.dist-info"
        self.zip = zipfile.ZipFile(os.path.join(folder, self.name), "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
        info.external_attr = (stat.S_IFREG | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def add_file(self, name, path, mode=0o644):
        with open(path, "rb") as file:
            self.add(name, file.read(), mode)

    def close(self):
        self.add(f"{self.info}/METADATA", metadata().encode())
        self.add(f"{self.info}/WHEEL", (f"Wheel-Version: 1.0\nGenerator: estoc\nRoot-Is-Purelib: false\n"
                                        f"Tag: {wheel_tag()}\n").encode())
        self.record.append(f"{self.info}/RECORD,,")
        self.zip.writestr(f"{self.info}/RECORD", "\n".join(self.record) + "\n")
        self.zip.close()
        return self.name


def _build_library():
    """build/dist with libestoc.so and the tool."""
    folder = os.path.join(ROOT, "build", "dist")
    try:
        subprocess.run(["cmake", "--preset", "dist"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder, "--target", "libestoc.so", "estoc_cli"], cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"libestoc could not be built ({error}); scripts/bootstrap installs what it needs") from error
    return folder


def _stripped(path, folder):
    """A copy without debug information."""
    copy = os.path.join(folder, os.path.basename(path))
    subprocess.run(["strip", "--strip-unneeded", "-o", copy, path], check=True)
    return copy


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = _build_library()
    wheel = _Wheel(wheel_directory)
    with tempfile.TemporaryDirectory() as folder:
        extension = build_native.compile_extension(folder, library)
        for name in build_native.package_files():
            wheel.add_file(f"estoc/{name}", os.path.join(ROOT, "python", "estoc", name))
        wheel.add_file(f"estoc/{build_native.EXTENSION}", _stripped(extension, tempfile.mkdtemp(dir=folder)), 0o755)
        soname, path = build_native.soname(library)
        wheel.add_file(f"estoc/{soname}", _stripped(path, folder), 0o755)
        wheel.add_file(f"estoc-{version()}.data/scripts/estoc",
                       _stripped(os.path.join(library, "estoc"), tempfile.mkdtemp(dir=folder)), 0o755)
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    """The files that git knows."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    base = f"estoc-{version()}"
    with tempfile.TemporaryDirectory() as folder, \
            tarfile.open(os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:
        info = os.path.join(folder, "PKG-INFO")
        with open(info, "w", encoding="utf-8") as file:
            file.write(metadata())
        archive.add(info, f"{base}/PKG-INFO")
        for name in sorted(filter(None, names.decode().split("\0"))):
            archive.add(os.path.join(ROOT, name), f"{base}/{name}", recursive=False)
    return f"{base}.tar.gz"
