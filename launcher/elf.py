"""Programs and shared libraries as files (ELF, 64 bits): what they ask for, and where they look for it.

binutils tell the first; the second is changed here, for what is built looks in folders of this machine first.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

from launcher.console import Failure, numbers, output_of

# as elf.h has them
PT_LOAD, PT_DYNAMIC, DT_STRTAB, DT_RUNPATH = 1, 2, 5, 29
# the newest GLIBCXX_3.4.x that systems with at least glibc 2.y have, as the policies of manylinux tell
LIBSTDCXX = ((28, 31), (29, 34), (30, 35), (33, 39))


def needed(file: Path) -> list[str]:
    """The libraries that it asks for itself."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-dW", str(file)))


def found(file: Path) -> dict[str, Path]:
    """Where this machine's loader finds what it asks for, and what that asks for."""
    lines = output_of("ldd", str(file)).splitlines()
    pairs = (re.match(r"\s*(\S+) => (/.+) \(0x", line) for line in lines)
    return {pair[1]: Path(pair[2]) for pair in pairs if pair}


def least_glibc(files: list[Path]) -> int:
    """The oldest glibc 2.y whose systems have every symbol that these ask for."""
    told = output_of("readelf", "-VW", *map(str, files))
    glibc = [int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", told)]
    libstdcxx = [int(minor) for minor in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", told)]
    if not glibc or not libstdcxx:
        raise Failure(
            "[wheel] readelf of binutils does not tell which symbols of glibc the engine asks for"
        )
    here = numbers(os.confstr("CS_GNU_LIBC_VERSION"))[1]
    by_libstdcxx = next((least for newest, least in LIBSTDCXX if max(libstdcxx) <= newest), here)
    return max(*glibc, by_libstdcxx)


def looking_beside(content: bytes) -> bytes:
    """The same file, which looks for libraries only where its run path tells from where it lies ($ORIGIN)."""
    (first,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    # (type, flags, offset, address, address, size, ..)
    headers = [struct.unpack_from("<IIQQQQ", content, first + i * size) for i in range(count)]
    dynamic = next(h for h in headers if h[0] == PT_DYNAMIC)
    places = range(dynamic[2], dynamic[2] + dynamic[5], 16)
    # by tag: of those that are looked up here there is one each
    entries = {
        tag: (place, value)
        for place in places
        for tag, value in [struct.unpack_from("<qQ", content, place)]
    }
    if DT_RUNPATH not in entries:
        raise Failure("[wheel] the build has no run path: remove .build and build again")
    strings = entries[DT_STRTAB][1]
    load = next(h for h in headers if h[0] == PT_LOAD and h[3] <= strings < h[3] + h[5])
    place, offset = entries[DT_RUNPATH]
    begin = strings - load[3] + load[2] + offset
    path = content[begin : content.index(b"\0", begin)]
    # a string is named by where it begins, and this one ends with what is kept
    kept = path.find(b"$ORIGIN")
    if kept < 0 or not all(part.startswith(b"$ORIGIN/") for part in path[kept:].split(b":")):
        raise Failure(f"[wheel] a run path must end with its $ORIGIN folders, got {path.decode()}")
    return content[: place + 8] + struct.pack("<Q", offset + kept) + content[place + 16 :]
