"""Measures output heads on this machine: whether they are right, how fast they are and what memory they take.

A head whose numbers are wrong gets no speed. Exit status: 0; 1 where one of this package's own heads is
wrong; 2 where nothing can be measured.
"""

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from tuner.extras import install
from tuner.kernels.benchmark.shapes import DEFAULT_SHAPES

CPU_SHAPES = ("37x16x203",)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tuner.kernels.benchmark", description=__doc__)
    parser.add_argument(
        "--shapes",
        nargs="+",
        metavar="TxHxV",
        help="tokens x hidden size x vocabulary; seven by default",
    )
    parser.add_argument(
        "--heads",
        nargs="+",
        metavar="NAME",
        help="names, in quotes where they have spaces; 'list' lists them",
    )
    parser.add_argument("--rounds", type=int, default=7, help="most timed calls of each pass (default: 7)")
    parser.add_argument("--no-rivals", action="store_true", help="leave out other packages' kernels")
    parser.add_argument(
        "--no-hard-logits", action="store_true", help="leave out the logits that break kernels"
    )
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for the flow without any speed")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report as JSON to it")
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="of standard output (default: table)"
    )
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: its arguments; those of the process where it is None.
    """
    arguments = _arguments(argv)
    if missing := [name for name in ("torch", "triton") if find_spec(name) is None]:
        sys.stderr.write(f"The benchmark needs {' and '.join(missing)}: {install('gpu')}\n")
        return 2
    import torch

    if arguments.device == "cpu":
        # Chosen when the kernels are defined, so before anything imports them.
        os.environ.setdefault("TRITON_INTERPRET", "1")
    elif not torch.cuda.is_available():
        sys.stderr.write(
            "There is no CUDA device here, and a CPU has no speed to measure. "
            "--device cpu runs everything on tiny shapes without times.\n"
        )
        return 2
    from tuner.kernels.benchmark.command import run

    if not arguments.shapes:
        arguments.shapes = CPU_SHAPES if arguments.device == "cpu" else DEFAULT_SHAPES
    return run(
        arguments, ["python", "-m", "tuner.kernels.benchmark", *(sys.argv[1:] if argv is None else argv)]
    )


if __name__ == "__main__":
    raise SystemExit(main())
