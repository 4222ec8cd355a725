"""Draws charts of one width in a process of its own.

Pickled orders come by stdin: a table, its chart, the picture's name and what it is called where it
cannot be seen. One picture as part of a page goes to stdout for each.
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
    gc.disable()  # there is little garbage, and much to look through for it
    while True:
        try:
            table, chart, name, description = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        with debug_mode(False):  # Altair checks nothing against its schema, which is for its users
            picture = svg(drawn(table, chart, width=width))
        pickle.dump(inline(picture, f"{name}-{width}", description), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # frees nothing one by one
