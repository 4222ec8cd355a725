"""A process that draws charts of one width.

It reads pickled orders from stdin: a table, its chart, the picture's name and its text alternative.
For each order it writes one picture to stdout, ready to be put into a page.
"""

import gc
import os
import pickle
import sys

from altair.utils.schemapi import debug_mode

from traceql.chart.draw import drawn
from traceql.chart.files import svg
from traceql.report.picture import inline


def main() -> None:
    width = int(sys.argv[1])
    gc.disable()  # a collection scans many objects and finds little garbage
    while True:
        try:
            table, chart, name, description = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        with debug_mode(False):  # no validation against Altair's schema, which costs time
            picture = svg(drawn(table, chart, width=width))
        pickle.dump(inline(picture, f"{name}-{width}", description), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # skips the slow clean-up of the interpreter
