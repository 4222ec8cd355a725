"""Reads the column of NVTX ranges that `ncu --nvtx` adds to each launch."""

import re

_RANGE = re.compile(r'"([^"]*)"')
# Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg. A name may hold colons.
_FIELDS = re.compile(
    r"(?:<default domain>|[^:]*):(?P<name>.*):(?:none|[A-Z0-9_]+):[^:]*"
    r":(?:none|[A-Z]+):[^:]*:(?:none|[A-Z_]+):(?P<message>.*)"
)


def ranges(cell: str) -> list[str]:
    """The names of the ranges around a launch, the outermost one first."""
    return [_name(found) for found in _RANGE.findall(cell)]


def _name(text: str) -> str:
    fields = _FIELDS.fullmatch(text)
    return fields["name"] if fields else text
