"""The phases of Chrome's trace format: the letter in `ph` that says what kind an event is."""

COMPLETE = "X"
METADATA = "M"
INSTANTS = frozenset("iIRn")
FLOW_BEGINS, FLOW_PASSES, FLOW_FINISHES = FLOW_ENDS = ("s", "t", "f")
