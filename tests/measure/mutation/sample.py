"""Which mutants a survey tries: so many at random of those of some folders, by a seed."""

import random
from collections.abc import Iterator
from pathlib import Path

from tests.measure.mutation.operators import Mutant, compiles, mutants_of

#: What is surveyed: whatever decides a number or an advice.
FOLDERS = ("memory", "timing", "advise", "rules", "trainers/verl/fields", "inputs")
#: Folders and modules that import torch, which the surveyed ones never do.
WITH_TORCH = ("inside_verl", "kernels", "trace", "validate", "zero_advantage.py")
#: Chosen before the first run, and never for a result.
SEED = 20261128
NUMBER = 200


def files(root: Path, folders: tuple[str, ...] = FOLDERS) -> Iterator[str]:
    """The surveyed files, from the repository's root."""
    for folder in folders:
        for path in sorted((root / "tuner" / folder).rglob("*.py")):
            yield path.relative_to(root).as_posix()


def readers(root: Path) -> Iterator[str]:
    """The files whose functions may see what a surveyed module defines: all that import no torch."""
    for file in files(root, ("",)):
        if file.split("/")[1] not in WITH_TORCH and not file.endswith("__main__.py"):
            yield file


def drawn(root: Path, *, seed: int, number: int, folders: tuple[str, ...] = FOLDERS) -> list[Mutant]:
    """Mutants drawn at random, each place and operator as likely as any other.

    Args:
        root: of the repository.
        seed: of the draw.
        number: how many.
        folders: below ``tuner``.
    """
    sources = {file: (root / file).read_text() for file in files(root, folders)}
    everything = [mutant for file, source in sources.items() for mutant in mutants_of(file, source)]
    random.Random(seed).shuffle(everything)
    chosen: list[Mutant] = []
    for mutant in everything:
        if len(chosen) == number:
            break
        if compiles(mutant, sources[mutant.file]):
            chosen.append(mutant)
    return chosen
