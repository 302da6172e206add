"""Draw a hyper-parameter over the steps as a word-sized chart."""

from __future__ import annotations

from html import escape

from daskevo.errors import InvalidInput
from daskevo.tuning import StepSequence

WIDTH, HEIGHT = 120, 22
MOST_POINTS = 240


def sparkline(sequence: StepSequence, steps: int) -> str:
    """Return an ``<svg>`` of a sequence's first steps, with a title for users who can't see it.

    At most 240 evenly spaced steps are drawn.
    """
    try:
        values = sequence.values(0, steps).tolist()
    except InvalidInput:
        return ""
    places = (
        range(steps) if steps <= MOST_POINTS else [n * (steps - 1) // (MOST_POINTS - 1) for n in range(MOST_POINTS)]
    )
    low, high = min(values), max(values)
    scale = (HEIGHT - 6) / (high - low) if high > low else 0.0
    middle = HEIGHT / 2 if high == low else None

    def y(value: float) -> float:
        return middle if middle is not None else 3 + (high - value) * scale

    # The value at a step holds until the next one.
    points = [(WIDTH * place / steps, y(values[place])) for place in places]
    line = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{x:.1f}V{height:.1f}" for x, height in points[1:])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" class="spark">'
        f"<title>{escape(repr(sequence))}</title>"
        f'<path d="{line}H{WIDTH}" style="fill: none; stroke: var(--blue); stroke-width: 1.6"/></svg>'
    )
