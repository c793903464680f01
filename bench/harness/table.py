"""Tables for people to read."""


def lines_of(heads, rows):
    """The first column is text and stands left; the others stand right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    return ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
            for row in [heads, *rows]]


def figure(value):
    return "-" if value is None else f"{value:,.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:,.4f}"


def percent(part):
    return "-" if part is None else f"{100 * part:+.1f}%"
