"""Is a row slower than at another commit? Figures in, verdicts out: nothing is measured here."""
import dataclasses, math

from .rows import is_growth, is_rate

WORSE = 0.05  # a median that is worse by this much or less is not judged
UNSTEADY = 0.25  # a row that differs by more from itself is measured again, and named
GROWTH_BOUND = 1.0  # percent: memory stays flat (C17)


def worsening(old, new, unit):
    """By how much the new figure is worse, as a part of the old one: 0.1 is 10% worse, and -0.1 is better."""
    if is_rate(unit):
        old, new = new, old
    if old == 0:
        return 0.0 if new == 0 else math.inf
    return (new - old) / old


def difference(one, other):
    """By how much two figures of the same program differ, whichever is larger."""
    smaller, larger = sorted((one, other))
    return worsening(smaller, larger, "")


def is_unsteady(itself):
    return itself > UNSTEADY


@dataclasses.dataclass
class Row:
    """The medians of a row at both commits, and by how much the old one differed from itself (the first time, and again
    where that was unsteady). None: not there, or not measured."""
    name: str
    unit: str
    old: float | None = None
    new: float | None = None
    itself: float | None = None
    itself_again: float | None = None

    @property
    def change(self):
        return None if self.old is None or self.new is None else worsening(self.old, self.new, self.unit)

    @property
    def verdict(self):
        if self.new is None:
            return "gone"
        if is_growth(self.unit):
            return "grows" if self.new > GROWTH_BOUND else "same"
        if self.old is None:
            return "new"
        itself = self.itself if self.itself_again is None else self.itself_again
        margin = max(WORSE, itself)
        return "slower" if self.change > margin else "faster" if -self.change > margin else "same"

    @property
    def fails(self):
        return self.verdict in ("slower", "grows")

    @property
    def unsteady(self):
        return self.itself is not None and is_unsteady(self.itself)
