"""The arguments of bench/run."""
import argparse, os, sys

from .programs import Failed


def parsed(words):
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures Gradwire, torch's RPC and the physical floor in turn."
                                     " GRADWIRE_BENCH_QUICK=1: one round of a few rows, to see that it works.")
    parser.add_argument("patterns", metavar="PATTERN", nargs="*", help="rows whose names match (shell patterns; all by default)")
    parser.add_argument("--beside", metavar="COMMIT", help="measures this tree and that commit in turn; fails if a row is slower")
    parser.add_argument("--keep", metavar="NAME", help="keeps the results as bench/history/NAME.json")
    arguments = parser.parse_args(words)
    if arguments.beside and arguments.keep:
        parser.error("results that are kept have torch's column, which BESIDE leaves out: give one of both")
    # `make bench ROWS='call.* group.*'` gives all patterns as one word.
    arguments.patterns = [pattern for word in arguments.patterns for pattern in word.split()] or ["*"]
    return arguments


def main(words):
    from .beside import beside
    from .compare import compare
    arguments = parsed(words)
    quick = os.environ.get("GRADWIRE_BENCH_QUICK", "0") not in ("", "0")
    try:
        if arguments.beside:
            return beside(arguments.beside, arguments.patterns, quick)
        return compare(arguments.patterns, quick, arguments.keep)
    except (Failed, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
