"""Bundles released verl wheels: their defaults, and where in their code the refusals of checks rest.

``python -m tuner.trainers.verl.bundle verl-0.9.1-py3-none-any.whl ...``
Nothing of a wheel is imported or executed.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tuner.trainers.verl.checks import build as guards
from tuner.trainers.verl.defaults import build as defaults


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: the wheels."""
    parser = argparse.ArgumentParser(description="Bundle what is known of released verl wheels.")
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    for wheel in parser.parse_args(arguments).wheels:
        defaults.main([str(wheel)])
        guards.main([str(wheel)])


if __name__ == "__main__":
    main()
