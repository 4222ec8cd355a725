"""Gives a slice in the Perfetto UI the color that it has in traceql's charts.

A trace cannot name a color. The UI computes it from a hash of the slice's correlation id: its hue,
and one of 40 degrees of lightness, in the color space HSLuv (`getColorForSlice` in its source). So
we search a suffix with which a text has the wanted hash. If the UI changes its hash, the colors
differ from those of the charts, but the same text still has one color.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from traceql.result.chart.theme import colour

_HUES, _DEGREES, _DARKEST = 360, 40, 40
_START, _FACTOR = 18652613, 16777619
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8).astype(np.int64)
_SUFFIX = 3  # letters, which is enough for most pairs of a hue and a lightness
_OWN = {  # without a color in charts
    "severe": "#C62828", "notable": "#D9A400", "even layer": "#3E8E8E", "odd layer": "#7CBDBD",
}  # fmt: skip
_LEAST_CHROMA = 15  # below it, a color counts as grey
_GREY_HUE = 265  # stands for grey, which the UI does not have: a pale blue

_Hashes = npt.NDArray[np.int64]


@cache
def colour_key(text: str) -> str:
    """The text, with a suffix for its color in the palette if it has one there."""
    wanted = _OWN.get(text) or colour(text)
    if wanted is None:
        return text
    hue, lightness = _hue_and_lightness(wanted)
    hashes = _with_letters(hash_of(f"{text} "))
    hue_off = np.abs((np.abs(hashes) % _HUES - hue + _HUES / 2) % _HUES - _HUES / 2)
    lightness_off = np.abs(np.abs(_next(hashes, ord("x"))) % _DEGREES + _DARKEST - lightness)
    best = int(np.argmin(hue_off + lightness_off))
    places = np.unravel_index(best, (len(_LETTERS),) * _SUFFIX)
    return f"{text} {''.join(chr(_LETTERS[place]) for place in places)}"


def hash_of(text: str) -> int:
    """The UI's hash of a text, before it is reduced to a hue or a lightness."""
    hashes = np.array([_START], np.int64)
    for letter in text:
        hashes = _next(hashes, ord(letter))
    return int(hashes[0])


def _with_letters(start: int) -> _Hashes:
    """The hashes of all suffixes of a text that has the hash `start`, in alphabetical order."""
    hashes = np.array([start], np.int64)
    for _ in range(_SUFFIX):
        hashes = _next(hashes[:, None], _LETTERS).ravel()
    return hashes


def _next(hashes: _Hashes, letters: _Hashes | int) -> _Hashes:
    """The hashes after one more letter, by JavaScript's arithmetic: a float, cut to 32 bits."""
    product = (hashes ^ letters).astype(np.float64) * float(_FACTOR)
    return product.astype(np.int64).astype(np.int32).astype(np.int64)


def _hue_and_lightness(hexadecimal: str) -> tuple[float, float]:
    """Degrees and percent of an sRGB color in CIELUV, on which HSLuv is based."""
    channels = np.array([int(hexadecimal[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(channels > 0.04045, ((channels + 0.055) / 1.055) ** 2.4, channels / 12.92)
    x, y, z = _TO_XYZ @ linear
    lightness = 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y
    total = x + 15 * y + 3 * z
    u = 13 * lightness * (4 * x / total - _WHITE_U)
    v = 13 * lightness * (9 * y / total - _WHITE_V)
    hue = np.degrees(np.arctan2(v, u)) % 360 if np.hypot(u, v) > _LEAST_CHROMA else _GREY_HUE
    return float(hue), float(lightness)


# sRGB with the white point D65.
_TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # fmt: skip
_WHITE_U, _WHITE_V = 0.19784, 0.46834
