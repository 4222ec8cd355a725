"""The cut of a text: where one layer ends and the next one begins."""

from typing import NamedTuple


class Cut(NamedTuple):
    """Where the kernels between two anchors are divided.

    Attributes:
        tail: the number of kernels of the first layer; -1 if it is unknown.
        head: the place of the first kernel of the second layer; -1 if it is unknown. Kernels
            between the tail and the head belong to one of the two, but it is unknown to which.
        joined: whether no layer is missing between the two, as far as the text tells.
        whole: whether no kernels are missing, as far as other texts tell. Where some are, whole
            layers may be missing too.
    """

    tail: int
    head: int
    joined: bool
    whole: bool = True


UNCUT = Cut(-1, -1, False, False)
