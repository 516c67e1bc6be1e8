"""Writes the digests of the functions that keys act through, from unpacked wheels.

``python -m tuner.trainers.verl.code_of_keys.build FOLDER`` reads ``FOLDER/verl-RELEASE/verl`` of every
bundled release. Nothing of the wheels is imported or executed: their modules are parsed.
"""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

from tuner.trainers.verl.code_of_keys.digest import digest, functions, sizes, words
from tuner.trainers.verl.code_of_keys.released import FILE
from tuner.trainers.verl.code_of_keys.rows import FUNCTIONS, WORDS
from tuner.trainers.verl.code_of_keys.trainer_function import TrainerFunction
from tuner.trainers.verl.releases import BUNDLED

_Bits = dict[str, int]


def build(folder: Path) -> str:
    """The text of the file, from the unpacked wheels in a folder."""
    return "".join(f"{line}\n" for line in sorted(_line(folder, function) for function in FUNCTIONS))


def _line(folder: Path, function: TrainerFunction) -> str:
    digests, said = _Bits(), _Bits()
    for bit, release in enumerate(BUNDLED):
        file = folder / f"verl-{release}" / "verl" / function.file
        if not file.is_file():
            continue
        of_file = dict(functions(ast.parse(file.read_text(encoding="utf-8")).body))
        node = of_file.get(f"{function.owner}.{function.name}")
        if node is None:
            continue
        for name, bits in (
            (digest(node), digests),
            *((word, said) for word in words(node) & WORDS | sizes(node)),
        ):
            bits[name] = bits.get(name, 0) | 1 << bit
    return " ".join((function.key, *_written(digests), "|", *_written(said)))


def _written(bits: _Bits) -> Iterator[str]:
    return (f"{name}={of_name:x}" for name, of_name in sorted(bits.items()))


def main() -> None:
    """Write the file beside this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="that holds verl-RELEASE of every bundled release")
    text = build(parser.parse_args().folder)
    Path(__file__).with_name(FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
