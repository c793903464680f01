"""Which rows are measured, and what kind each is."""
import fnmatch

# What GRADWIRE_BENCH_QUICK measures: a row of each kind that takes a second or two.
QUICK = ("call.blocking.function", "gradient.hops.1", "example.pipeline.small")
QUICK_OF_OTHERS = 2


def chosen(units, patterns, quick=False):
    """The rows that match one of the patterns; ValueError if a pattern matches none."""
    for pattern in patterns:
        if not fnmatch.filter(units, pattern):
            raise ValueError(f"no row matches '{pattern}'; there are: {', '.join(units)}")
    names = [name for name in units if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    if not quick:
        return names
    return [name for name in names if name in QUICK] or [name for name in names if not is_growth(units[name])][:QUICK_OF_OTHERS]


def is_growth(unit):
    """A row that says by how many percent the processes grow: it takes long, and one round says as much as seven."""
    return unit == "percent"


def is_rate(unit):
    """A row of which more is better."""
    return unit.startswith("per_")
