"""Writes where in released wheels the refusals of the checks rest.

``python -m tuner.trainers.verl.checks.build verl-0.9.1-py3-none-any.whl ...`` looks for the guards of all checks in
the code of each wheel and adds what it finds to ``guards.json``. Nothing of a wheel is imported or executed.
"""

import argparse
import json
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tuner.trainers.verl.checks import RULES
from tuner.trainers.verl.checks.guards import CodeGuard, guards_of
from tuner.trainers.verl.checks.guards_by_release import FILE, GuardsByRelease, read
from tuner.trainers.verl.trainer_code.package import TrainerCode
from tuner.versions import numbers


def lines_of(wheel: Path) -> dict[str, dict[str, list[str]]]:
    """The lines that the guards of each check have in a wheel, by its code and by what the guard says."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("verl/")])
        code = TrainerCode(Path(folder, "verl"))
        return {
            rule.code: {guard.name: _lines(guard, code) for guard in guards_of(module)}
            for rule, module in RULES
            if guards_of(module)
        }


def _lines(guard: CodeGuard, code: TrainerCode) -> list[str]:
    return [str(line).removeprefix("verl/") for line in guard.lines(code)]


def write(found: GuardsByRelease, file: Path = FILE) -> None:
    """Write the table, the oldest release first."""
    ordered = {release: found[release] for release in sorted(found, key=numbers)}
    file.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    read.cache_clear()


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: the wheels."""
    parser = argparse.ArgumentParser(description="Write where in released wheels refusals rest.")
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    table = dict(read())
    for wheel in parser.parse_args(arguments).wheels:
        table[wheel.name.split("-")[1]] = lines_of(wheel)
    write(table)


if __name__ == "__main__":
    main()
