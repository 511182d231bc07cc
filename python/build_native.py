#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the extension estoc._native: cffi's API mode over the public headers, with python/native/trampolines.c.

python/build_native.py FOLDER --library BUILD   makes an importable package in FOLDER/estoc: links to the files of
        python/estoc, the extension, and a link to BUILD/libestoc.so (what `make test-python` runs on)
python/build_native.py --declarations           prints the declarations that cffi is given

The declarations are made from include/estoc/*.h by the preprocessor, so that no function can be forgotten and the C
compiler checks every one of them against the headers.
"""
import argparse
import contextlib
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NATIVE = os.path.join(ROOT, "python", "native")
EXTENSION = "_native.abi3.so"
LOWEST_PYTHON = "0x03090000"
CC = os.environ.get("CC", "cc")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def preprocessed():
    """The text of the public headers after the preprocessor, without that of system headers."""
    output = subprocess.run([CC, "-std=c17", "-E", "-I", os.path.join(ROOT, "include"), "-include", "stdbool.h", "-"],
                            input="#include <estoc/estoc.h>\n", text=True, check=True, stdout=subprocess.PIPE).stdout
    kept, ours = [], False
    for line in output.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = "/include/estoc/" in marker[1]
        elif ours:
            kept.append(line)
    return "\n".join(kept)


def without_attributes(text):
    """The text without __attribute__((...)), whose parentheses nest."""
    parts, at = [], 0
    for match in re.finditer(r"__attribute__\s*\(", text):
        if match.start() < at:
            continue
        depth, end = 1, match.end()
        while depth > 0:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        parts.append(text[at:match.start()])
        at = end
    return "".join(parts) + text[at:]


def constants():
    """The macros that stand for an integer, as cffi declares them: the compiler fills in the value."""
    found = []
    folder = os.path.join(ROOT, "include", "estoc")
    for name in sorted(os.listdir(folder)):
        for line in read(folder, name).splitlines():
            match = re.match(r"#define (EST_\w+)\s+\(?(-?\d+|INT32_MIN)\)?\s*(/\*.*)?$", line)
            if match:
                found.append(f"#define {match[1]} ...")
    return "\n".join(found)


def declarations():
    text = without_attributes(preprocessed())
    text = re.sub(r"\bstatic inline\b[^{]*\{[^}]*\}", "", text)
    text = re.sub(r"sizeof\s*\(", "sizeof(", text)
    return "\n".join([constants(), text, read(NATIVE, "trampolines.cdef")])


def emit(path):
    """Writes the C source of the extension."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations())
    ffi.set_source("estoc._native", read(NATIVE, "trampolines.c"))
    with contextlib.redirect_stdout(io.StringIO()):  # it says what it writes
        ffi.emit_c_code(path)


SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-shared-libasan", "-g", "-fno-omit-frame-pointer"]


def compile_extension(folder, library, more=()):
    """FOLDER/_native.abi3.so, linked with libestoc of the folder `library`, which it looks for beside itself."""
    source, target = os.path.join(folder, "_native.c"), os.path.join(folder, EXTENSION)
    stamp = os.path.join(folder, "_native.stamp")
    inputs = hashlib.sha256("\n".join([declarations(), read(NATIVE, "trampolines.c"), read(__file__), sys.version,
                                       library, *more, CC]).encode()).hexdigest()
    if os.path.exists(target) and os.path.exists(stamp) and read(stamp) == inputs:
        return target
    emit(source)
    subprocess.run([CC, "-std=gnu17", "-O2", "-shared", "-fPIC", "-Wall", "-Wno-unused-function", "-pthread",
                    f"-DPy_LIMITED_API={LOWEST_PYTHON}", "-I", sysconfig.get_path("include"),
                    "-I", os.path.join(ROOT, "include"), *more, source, "-o", target, "-L", library, "-lestoc",
                    "-Wl,-rpath,$ORIGIN"], check=True)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(inputs)
    return target


def package_files():
    """The files of the package, relative to python/estoc."""
    top = os.path.join(ROOT, "python", "estoc")
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith(".py") or name == "py.typed":
                yield os.path.relpath(os.path.join(folder, name), top)


def soname(library):
    """The name that programs linked with BUILD/libestoc.so load, and the file."""
    path = os.path.join(library, "libestoc.so")
    text = subprocess.run(["readelf", "-d", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    return re.search(r"SONAME.*\[(.*)\]", text)[1], os.path.realpath(path)


def link(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(target) and os.readlink(target) == source:
        return
    if os.path.lexists(target):
        os.remove(target)
    os.symlink(source, target)


def develop(folder, library, more=()):
    package = os.path.join(folder, "estoc")
    os.makedirs(package, exist_ok=True)
    wanted = set(package_files())
    for name in wanted:
        link(os.path.join(ROOT, "python", "estoc", name), os.path.join(package, name))
    for top, _, names in os.walk(package):  # files that are gone
        for name in names:
            path = os.path.join(top, name)
            if name.endswith(".py") and os.path.relpath(path, package) not in wanted:
                os.remove(path)
    name, path = soname(library)
    link(path, os.path.join(package, name))
    compile_extension(package, library, more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--declarations", action="store_true")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer; needs CC=clang")
    arguments = parser.parse_args()
    if arguments.declarations:
        print(declarations())
    elif arguments.folder:
        develop(os.path.abspath(arguments.folder), os.path.abspath(arguments.library),
                SANITIZE if arguments.sanitize else ())
    else:
        parser.error("name a folder")


if __name__ == "__main__":
    main()
