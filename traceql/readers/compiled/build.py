"""Compiles the C files of this folder to WebAssembly with the clang of `ziglang`.

    python -m traceql.readers.compiled.build

The result depends on nothing but the sources, the options and the version of ziglang. The last
section of a module holds the SHA-256 of its sources, by which a test sees that they fit.
"""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAMES = ("scan",)
_OPTIONS = [
    "-O3",
    "--target=wasm32-freestanding",
    "-msimd128",
    "-nostdlib",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
]
_SECTION = b"traceql.sources"


def main() -> None:
    for name in NAMES:
        source, module = FOLDER / f"{name}.c", FOLDER / f"{name}.wasm"
        compiler = [sys.executable, "-m", "ziglang", "cc"]
        subprocess.run([*compiler, *_OPTIONS, "-o", str(module), str(source)], check=True)
        module.chmod(0o644)
        module.write_bytes(module.read_bytes() + _section(digest(name)))


def digest(name: str) -> bytes:
    """The SHA-256 of what a module is made of."""
    texts = [(FOLDER / file).read_bytes() for file in (f"{name}.c", "memory.h")]
    return sha256(b"\0".join([*texts, " ".join(_OPTIONS).encode()])).hexdigest().encode()


def _section(text: bytes) -> bytes:
    """A custom section of WebAssembly, which engines skip."""
    content = bytes([len(_SECTION)]) + _SECTION + text
    return bytes([0, len(content)]) + content


if __name__ == "__main__":
    main()
