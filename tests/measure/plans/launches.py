"""The launches that plans are held to: verl's own example scripts, public ones, or files that are named."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.corpus import launches
from tuner.consultation.premises import Premises

_TRAIN_NOTHING = ("generation", "eval")  # words of entry points
_BUNDLED = "ppo_"  # how configurations of the releases themselves are called
_CARDS = {"h100": "h100-sxm", "h800": "h800-sxm", "h20": "h20-sxm", "npu": "ascend-910b"}
_CARD = "h100-sxm"  # where the name of a launch has none
_SIZES = {0.5: "0.5b", 1.5: "1.5b", 3: "3b", 7: "7b", 14: "14b", 32: "32b", 72: "72b"}  # of Qwen2.5
_USUAL = 7


class Launch(Struct, frozen=True, kw_only=True):
    """One launch, as ``tuner advise`` would be given it."""

    name: str
    source: str
    words: tuple[str, ...] = ()
    premises: Premises

    @property
    def usual_model(self) -> str:
        """A model of the size in its name, for one whose own is a folder of whoever runs it."""
        sizes = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z])", self.name.lower().replace("_", " "))
        size = float(sizes[0]) if sizes else _USUAL
        return f"qwen2.5-{_SIZES[min(_SIZES, key=lambda one: abs(one - size))]}"

    @property
    def tuned(self) -> bool:
        """Whether it is of a folder of launches that were tuned for the cards in their names."""
        return "/tuning/" in self.name


def verl_launches() -> Iterator[Launch]:
    """Every launch of verl's own example scripts that trains."""
    for launch in launches():
        if not any(word in launch["entry"] for word in _TRAIN_NOTHING):
            yield _of_record(launch)


def _of_record(launch: dict[str, Any]) -> Launch:
    config = launch.get("config_name") or ""
    chosen = (f"--config-name={config}",) if config.startswith(_BUNDLED) else ()
    words = (*chosen, *launch["overrides"])
    release = launch["tags"][0].removeprefix("v")
    premises = Premises(gpu=_card(launch["path"]), verl_version=release)
    return Launch(name=f"{launch['path']} {release}", source="/dev/null", words=words, premises=premises)


def _card(path: str) -> str:
    """The card that the name of a script has, which is written as ``2_h100`` or ``npu``."""
    named = re.findall(r"[a-z]+\d*", path.lower().replace("_", " "))
    return next((_CARDS[word] for word in named if word in _CARDS), _CARD)


def of_files(files: Sequence[Path], card: str | None) -> Iterator[Launch]:
    """Scripts and YAML, each with the card that is said."""
    for file in files:
        premises = Premises(gpu=card or _CARD)
        yield Launch(name="/".join(file.parts[-4:]), source=str(file), premises=premises)


def of_lists(lists: Sequence[Path], trees: Sequence[Path], card: str | None) -> Iterator[Launch]:
    """Public launches whose repositories are here.

    Args:
        lists: files with a repository and a path in it on each line, behind comments.
        trees: folders in which repositories lie unpacked, as ``owner+name``.
        card: that they are planned on.
    """
    for line in (line for one in lists for line in one.read_text(encoding="utf-8").splitlines()):
        repository, _, path = line.partition("\t")
        for tree in () if line.startswith("#") else trees:
            file = tree / repository.replace("/", "+") / path
            if file.is_file():
                premises = Premises(gpu=card or _CARD)
                yield Launch(name=f"{repository} {path}", source=str(file), premises=premises)
                break
