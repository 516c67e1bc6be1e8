"""``python -m tests.fuzz --minutes N``: generated inputs at the command line, for as long as is wanted."""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import Failure, campaign
from tests.fuzz.case import Case
from tests.fuzz.generate import case
from tests.fuzz.shrink import shrunk
from tests.fuzz.summary import added_up, state, summary
from tests.fuzz.worker import Runner


def main() -> int:
    """Run what the options ask for.

    Returns:
        1 where an input fails.
    """
    options = _options()
    if options.add:
        try:
            total = added_up(options.add)
        except ValueError as error:
            sys.exit(str(error))
        print(json.dumps(total, indent=1))
        return int(bool(total["failures"]))
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.input is not None:
        return _one(seed, options.input)
    print(f"seed {seed}; an input again: python -m tests.fuzz --seed {seed} --input NUMBER", flush=True)

    of_state = state()  # before the first input, so that an edit meanwhile is no other state

    def say(failure: Failure) -> None:
        print(f"input {failure.number}: {failure.problem}", flush=True)

    tally = campaign(
        seed,
        first=options.first,
        seconds=options.minutes * 60,
        processes=options.processes,
        say=say,
        most=options.inputs,
    )
    codes = ", ".join(f"{count:,} ended with {code}" for code, count in sorted(tally.codes.items()))
    print(f"{tally.inputs:,} inputs: {codes}; {len(tally.failures):,} failures")
    for seconds, number in tally.slowest[:1]:
        print(f"the slowest took {seconds:.2f} s of processor time (input {number})")
    for size, number in tally.largest[:1]:
        print(f"the largest took {size / 1000**2:.0f} MB (input {number})")
    print(f"a process grew by at most {tally.growth / 1000**2:.0f} MB after its first hundred inputs")
    if options.summary is not None:
        options.summary.write_text(json.dumps(summary(seed, options.first, tally, of_state), indent=1) + "\n")
    return int(bool(tally.failures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long")
    parser.add_argument("--inputs", type=int, help="at most so many, however long there is")
    parser.add_argument("--processes", type=int, default=1, help="side by side")
    parser.add_argument("--seed", type=int, help="of all inputs; one of its own for each run")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--summary", type=Path, help="a file of JSON for what was counted")
    parser.add_argument("--add", type=Path, nargs="+", help="add up such files, and run nothing")
    parser.add_argument("--input", type=int, help="run this one alone, make it smaller and say how to run it")
    return parser.parse_args()


def _one(seed: int, number: int) -> int:
    runner = Runner()
    try:
        made = case(seed, number)
        outcome = runner.run(made)
        folder = Path(tempfile.mkdtemp(prefix=f"tuner-fuzz-{seed}-{number}-"))
        print(made.reproduced(folder))
        print(f"exit code {outcome.code}, {outcome.seconds:.2f} s, {outcome.bytes / 1000**2:.0f} MB")
        sys.stdout.write(outcome.err[-2_000:])
        if not outcome.problems:
            print("nothing is wrong with it")
            return 0
        print("\n".join(outcome.problems))
        kinds = {_kind(problem) for problem in outcome.problems}

        def fails(candidate: Case) -> bool:
            return bool(kinds & {_kind(problem) for problem in runner.run(candidate).problems})

        small = shrunk(made, fails)
        print(f"{small.size:,} characters instead of {made.size:,}: {small.reproduced(folder / 'smaller')}")
        print(runner.run(small).err[-2_000:])
    finally:
        runner.close()
    return 1


def _kind(problem: str) -> str:
    """A problem without its figures."""
    return " ".join(problem.split()[:2])


if __name__ == "__main__":
    sys.exit(main())
