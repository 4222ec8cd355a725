"""A process that draws charts, because an error of the drawing library ends its process.

It reads pickled orders from stdin, and answers each on stdout with the picture or the reason why
there is none. It ends with its input, so it does not outlive the process that started it.
"""

import gc
import os
import pickle
import signal
import sys

from altair.utils.schemapi import debug_mode

from traceql.errors import TraceqlError, reason
from traceql.result.chart.draw import drawn
from traceql.result.chart.drawing import Order, Specified
from traceql.result.chart.files import picture, specified_picture


def _picture(order: Order | Specified) -> bytes:
    if isinstance(order, Specified):
        return specified_picture(order.spec, order.suffix)
    chart = drawn(order.table, order.chart, width=order.width, tagged=order.tagged)
    return picture(chart, order.suffix)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for us
    gc.disable()  # a collection scans many objects and finds little garbage
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed is no answer
    while True:
        try:
            order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[bytes | None, str]
        try:
            with debug_mode(False):  # no validation against Altair's schema, which costs time
                drawing = _picture(order)
            answer = (order.adapted(drawing) if order.adapted else drawing), ""
        except TraceqlError as error:
            answer = None, str(error)
        except Exception as error:
            answer = None, f"the chart cannot be drawn: {reason(error)}"
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
    os._exit(0)  # skips the slow clean-up of the interpreter
