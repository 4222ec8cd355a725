"""Draws charts of one width in a process of its own.

Pickled pairs of a table and its chart come by stdin, one SVG goes to stdout for each.
"""

import pickle
import sys

from altair.utils.schemapi import debug_mode

from traceql.chart import drawn
from traceql.chart.files import svg


def main() -> None:
    width = int(sys.argv[1])
    while True:
        try:
            table, chart = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        with debug_mode(False):  # Altair checks nothing against its schema, which is for its users
            picture = svg(drawn(table, chart, width=width))
        pickle.dump(picture, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
