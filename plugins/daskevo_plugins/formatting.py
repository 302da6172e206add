"""Format numbers for people: bytes, seconds, shares, qualities; and make foreign text safe to show."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence


def say_bytes(count: float | None) -> str:
    """Return bytes as Dask's pages do.

    Examples
    --------
    >>> say_bytes(1234567), say_bytes(None)
    ('1.18 MiB', '–')
    """
    if count is None:
        return "–"
    from dask.utils import format_bytes  # not imported for a `--help`

    return str(format_bytes(round(count)))


def byte_unit(largest: float) -> tuple[int, str]:
    """Return the divisor and the unit's name for numbers up to `largest`, as :func:`say_bytes` has them.

    Examples
    --------
    >>> byte_unit(1234567)
    (1048576, 'MiB')
    """
    unit = say_bytes(largest).split()[1]
    from dask.utils import parse_bytes

    return parse_bytes(unit), unit


def say_seconds(seconds: float | None) -> str:
    """Return a duration as Dask's pages do.

    Examples
    --------
    >>> say_seconds(0.0421), say_seconds(754), say_seconds(None)
    ('42.10 ms', '12m 34s', '–')
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    from dask.utils import format_time

    return str(format_time(seconds))


def time_unit(largest_s: float) -> tuple[float, str]:
    """Return the divisor and the unit's name for an axis up to `largest_s`."""
    if largest_s >= 3 * 3600:
        return 3600.0, "h"
    if largest_s >= 180:
        return 60.0, "min"
    return 1.0, "s"


def say_share(share: float | None) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> say_share(0.4237)
    '42 %'
    """
    if share is None:
        return "–"
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 9.5 or percent == 0 else f"{percent:.1f} %"


def say_count(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> say_count(1, "evaluation"), say_count(2, "evaluation")
    ('1 evaluation', '2 evaluations')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def say_quality(quality: float | None) -> str:
    """Return a quality, or another metric, with four significant digits; large ones as whole numbers.

    Examples
    --------
    >>> say_quality(0.93333), say_quality(25098), say_quality(None)
    ('0.9333', '25,098', '–')
    """
    if quality is None:
        return "–"
    return f"{quality:,.0f}" if 1e3 <= abs(quality) < 1e15 else f"{quality:.4g}"


def say_qualities(qualities: Sequence[float | None]) -> list[str]:
    """Return several qualities with the same number of decimals, to be shown below each other.

    Examples
    --------
    >>> say_qualities([0.7334, 0.732, None, 25098])
    ['0.7334', '0.7320', '–', '25,098']
    """
    said = [say_quality(quality) for quality in qualities]
    decimals = max((len(word.partition(".")[2]) for word in said if "e" not in word), default=0)
    return [
        f"{quality:.{decimals}f}" if quality is not None and word[-1].isdigit() and not set(word) & set(",e") else word
        for quality, word in zip(qualities, said, strict=True)
    ]


def say_times(ratio: float | None) -> str:
    """Return a ratio.

    Examples
    --------
    >>> say_times(3.456)
    '3.5×'
    """
    return "–" if ratio is None or not math.isfinite(ratio) else f"{ratio:.2g}×" if ratio < 10 else f"{ratio:.0f}×"


def say_saved(asked: int, trained: int) -> str:
    """Return the share of steps that was saved by training equal steps only once.

    Examples
    --------
    >>> say_saved(320, 140), say_saved(320, 320), say_saved(320, 0), say_saved(320, 330)
    ('56 % saved', 'none saved', 'all saved', '3.1 % more than were asked for')
    """
    if not asked or not trained:
        return "all saved" if asked else "none saved"
    share = 1 - trained / asked
    if abs(share) < 0.0005:
        return "none saved"
    return f"{say_share(share)} saved" if share > 0 else f"{say_share(-share)} more than were asked for"


def plain(text: object, limit: int = 500) -> str:
    """Return text from users or exceptions without control and direction-changing characters, shortened.

    Examples
    --------
    >>> plain("a\\x1b[31mred\\nb")
    'a[31mred b'
    """
    kept = "".join(
        " " if character in "\n\r\t" else character
        # Cut first: a text may be megabytes long, and most of what is left out is dropped anyway.
        for character in str(text)[: limit * 4]
        if character in "\n\r\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")
    )
    kept = " ".join(kept.split())
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def sentence(words: str) -> str:
    """Return words as a sentence: with a capital and a full stop; nothing of nothing.

    Examples
    --------
    >>> sentence("nothing was lost"), sentence("")
    ('Nothing was lost.', '')
    """
    return f"{words[0].upper()}{words[1:]}." if words else ""


FILTERS: Mapping[str, Callable[..., str]] = {
    "bytes": say_bytes,
    "figure": "{:,}".format,
    "nouns": say_count,
    "quality": say_quality,
    "seconds": say_seconds,
    "share": say_share,
    "times": say_times,
}
"""How templates name them."""
