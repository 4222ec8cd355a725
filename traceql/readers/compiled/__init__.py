"""Parts of reading that take too long in Python, in C, compiled to WebAssembly.

Each does the same as Python code that takes its place in small files, and where WebAssembly cannot
run. The modules are part of the package, so that no compiler is needed; build.py makes them.
"""

from traceql.readers.compiled.instance import Instance, new_instance

__all__ = ["Instance", "new_instance"]
