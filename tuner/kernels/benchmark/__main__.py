"""Measures the heads on this machine's GPU and prints JSON; no speed for one whose numbers are wrong."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton

from tuner.kernels import Mode
from tuner.kernels.benchmark.heads import EXACT_LIMITS, HEADS, Head
from tuner.kernels.benchmark.problem import (
    Problem,
    Results,
    Shape,
    exact_results,
    random_problem,
    rounded_results,
)
from tuner.kernels.benchmark.products import BURST_FLOP, bare_products, burst
from tuner.kernels.benchmark.timing import interleaved, peak_bytes
from tuner.units import GIB

SHAPES = "4096x3584x152064,16384x3584x152064,16384x2048x128256,16384x896x151936"
ZERO_GRADIENT = 0.75

Report = dict[str, Any]


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def limits(head: Head, rounded: dict[str, float]) -> dict[str, float]:
    """The largest error of each result with which the head's speed is told.

    Args:
        head: one that keeps rounded logits may be off as far as any head with such logits; 1 % more,
            since equal roundings do not give equal errors.
        rounded: the errors of such a head.
    """
    if head.mode is Mode.RECOMPUTE:
        return EXACT_LIMITS
    return {name: max(EXACT_LIMITS[name], 1.01 * error) for name, error in rounded.items()}


def wrong_results(found: Results, errors: dict[str, float], allowed: dict[str, float]) -> list[str]:
    """What is not finite or further off than allowed."""
    return [
        name
        for name, limit in allowed.items()
        if not errors[name] <= limit or not bool(getattr(found, name).isfinite().all())
    ]


def check(head: Head, problem: Problem, exact: Results, rounded: dict[str, float]) -> Report:
    """Errors of both passes, and what is wrong with them."""
    found = head.both(problem)
    errors = found.errors(exact)
    again = head.both(problem)
    same = all(torch.equal(value, getattr(again, name)) for name, value in vars(found).items())
    wrong = wrong_results(found, errors, limits(head, rounded))
    return {"errors": errors, "wrong": wrong + ([] if same else ["other bits the second time"])}


def _times(heads: list[Head], problem: Problem, sparse: Problem, rounds: int) -> dict[str, dict[str, float]]:
    runs = {**bare_products(problem), "burst": burst()}
    for head in heads:
        runs[f"{head.name}: forward"] = partial(head.forward, problem)
        runs[f"{head.name}: both"] = partial(head.both, problem)
        runs[f"{head.name}: both, few gradients"] = partial(head.both, sparse)
    return interleaved(runs, rounds)


def _speed(head: Head, shape: Shape, times: dict[str, dict[str, float]]) -> Report:
    """Times of the head and their shares of the products measured beside it."""

    def median(name: str) -> float:
        return times[name]["median_ms"]

    both, forward = median(f"{head.name}: both"), median(f"{head.name}: forward")
    gradients = median("bare d_hidden") + median("bare d_weight")
    floor = (head.products - 2) * median("bare logits") + gradients
    burst_ms = shape.product_flop / BURST_FLOP * median("burst")
    return {
        "forward": times[f"{head.name}: forward"],
        "both": times[f"{head.name}: both"],
        "few_gradients_of_both": median(f"{head.name}: both, few gradients") / both,
        "forward_over_bare_logits": forward / median("bare logits"),
        "share_of_bare_products": floor / both,
        "share_of_burst_products": head.products * burst_ms / both,
    }


def measure(shape: Shape, heads: list[Head], rounds: int) -> Report:
    """All heads on one shape."""
    problem = random_problem(shape)
    sparse = random_problem(shape, zero_gradient=ZERO_GRADIENT)
    exact = exact_results(problem)
    rounded = rounded_results(problem).errors(exact)
    found = {head.name: check(head, problem, exact, rounded) for head in heads}
    del exact
    right = [head for head in heads if not found[head.name]["wrong"]]
    for head in right:
        found[head.name]["peak_gib"] = {
            "forward": peak_bytes(partial(head.forward, problem)) / GIB,
            "both": peak_bytes(partial(head.both, problem)) / GIB,
        }
    _say(f"{shape}: {', '.join(head.name for head in right)} right; timing")
    times = _times(right, problem, sparse, rounds)
    for head in right:
        found[head.name].update(_speed(head, shape, times))
    products = {name: value for name, value in times.items() if name.startswith(("bare", "burst"))}
    return {"shape": asdict(shape), "products": products, "rounded_errors": rounded, "heads": found}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tuner.kernels.benchmark", description=__doc__)
    parser.add_argument("--shapes", default=SHAPES, help="TxHxV, separated by commas")
    parser.add_argument("--heads", help="names, separated by commas; all where it is not given")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="a file for the JSON, beside standard output")
    return parser.parse_args()


def main() -> None:
    """Run the command; exit status 1 where a head's numbers are wrong."""
    arguments = _arguments()
    known = [head.name for head in HEADS]
    named = arguments.heads.split(",") if arguments.heads else known
    if unknown := set(named) - set(known):
        raise SystemExit(f"unknown heads: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    heads = [head for head in HEADS if head.name in named]
    report: Report = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "date": date.today().isoformat(),
        "shapes": [],
    }
    for text in arguments.shapes.split(","):
        report["shapes"].append(measure(Shape.parse(text), heads, arguments.rounds))
        torch.cuda.empty_cache()
    text = json.dumps(report, indent=1)
    if arguments.output:
        arguments.output.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")
    if any(head["wrong"] for shape in report["shapes"] for head in shape["heads"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
