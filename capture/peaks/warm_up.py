"""Brings a GPU to the temperature and the clock that it has under load."""

import time

import torch

_SIZE = 8192
_AT_ONCE = 20


def warm_up(seconds: float) -> None:
    """Multiplies matrices of random numbers on the current GPU."""
    until = time.monotonic() + seconds
    left, right = (torch.randn(_SIZE, _SIZE, dtype=torch.bfloat16) for _ in range(2))
    while time.monotonic() < until:
        for _ in range(_AT_ONCE):
            torch.mm(left, right)
        torch.cuda.synchronize()
