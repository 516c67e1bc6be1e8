"""Advice that a reader with verl's code open called wrong or harmful does not come back.

``tests/data/judged-advice.jsonl`` has a job for each piece, as overrides of our own making, with the file and
line of the release that it was judged by; a ``gpu`` of null is a card that nobody names, and ``host_memory``
the GiB of a node that a batch system gives. Where the release was ``guessed``, nothing names it here either.
A piece that may be said and not pasted is ``pasted_only``.
What stands ``before`` the program in a script, and ``files`` beside it, are of our own making too.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.advise import Advice
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

FILE = Path(__file__).parent / "data" / "judged-advice.jsonl"
JUDGED: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def advised(judged: dict[str, Any], folder: Path) -> Advice:
    words = judged["job"]
    program = judged.get("program")
    source, words = ("/dev/null", words) if program is None else ("python3", ["-m", program, *words])
    if "before" in judged:
        (folder / ".git").mkdir()
        for name, text in judged.get("files", {}).items():
            (folder / name).write_text(text)
        script = folder / "run.sh"
        line = " ".join(("python3 -m verl.trainer.main_ppo", *judged["job"]))
        script.write_text(f"{judged['before']}\n{line}\n")
        source, words = str(script), []
    premises = Premises(
        gpu=judged.get("gpu", "h100-sxm"),
        verl_version=None if judged.get("guessed") else judged["release"],
        engine_version=judged.get("engine_version"),
        host_memory_gib=judged.get("host_memory"),
    )
    return consult(source, words, premises).advice


@pytest.mark.parametrize("judged", JUDGED, ids=[judged["name"] for judged in JUDGED])
def test_it_does_not_come_back(judged: dict[str, Any], tmp_path: Path) -> None:
    advice = advised(judged, tmp_path)
    block = () if advice.combination is None else advice.combination.contributions
    pasted = {part.finding.rule.code for part in block}
    said = {item.finding.rule.code for item in advice.recommendations}
    assert judged["piece"] not in (pasted if judged.get("pasted_only") else pasted | said), judged["why"]


def test_every_judgement_says_where_it_comes_from() -> None:
    for judged in JUDGED:
        assert judged["judged"] in ("wrong", "harmful")
        assert judged["release"] in judged["why"]
        assert ".py" in judged["why"] or "no SGLang code" in judged["why"]
        assert judged["by"]
