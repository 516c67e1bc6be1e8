"""Five verdicts in one enumeration: every output says the same word, and no other word is left anywhere."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polib
import pytest

from tests.cli.runner import Result, run
from tests.corpus import launches
from tuner.advise import Condition, Verdict
from tuner.render.verdict_words import word

pytestmark = pytest.mark.sampled(6)

ROOT = Path(__file__).parents[1]
CATALOGUES = ROOT / "locale" / "zh_CN" / "LC_MESSAGES"
#: Words that other verdicts had, or that said with other words what one of the five says.
OLD = re.compile(
    r"\bfits?(?: \S+){0,2} for certain\b|\b(?:if|where) nothing else uses\b|\bfits while short\b"
    r"|\bwill not fit\b|CONFIGURATION MISSING|CANNOT START|RAN OUT OF MEMORY|FITS IF|FITS WHILE"
    r"|\bfits_(?:alone|while_short|for_certain)\b|\bdepends_on_release\b",
)
IN_CAPITALS = re.compile(r"\b(?:(?:WILL|DOES|MAY|CAN|DO|IS)(?: ?NOT)\b|FITS\b|RAN OUT\b)(?: [A-Z]{2,})*")
WORDS = {verdict.value.upper().replace("_", " ") for verdict in Verdict}
SLICES = 8
FORMS = ("markdown", "html")


def messages() -> Iterator[tuple[str, str]]:
    """Every text that the program and the documentation have for a reader, with where it stands."""
    for catalogue in sorted(CATALOGUES.glob("*.po")):
        for entry in polib.pofile(str(catalogue)):
            if not entry.obsolete:
                yield f"{catalogue.name}: {entry.msgid}", f"{entry.msgid} {entry.msgid_plural}"


def pages() -> Iterator[tuple[str, str]]:
    """The lines of the documentation's sources and of the README."""
    sources = [path for path in (ROOT / "docs").rglob("*.rst") if "_build" not in path.parts]
    for path in (*sources, *ROOT.glob("README*.md")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}: {line}", line


def test_no_text_has_a_word_of_another_verdict() -> None:
    assert [place for place, text in (*messages(), *pages()) if OLD.search(text)] == []


def test_what_is_written_in_capitals_is_a_verdict() -> None:
    said = {found for _, text in messages() for found in IN_CAPITALS.findall(text)}
    assert said <= WORDS, said - WORDS


def test_the_word_of_a_verdict_is_its_value() -> None:
    assert {word(verdict) for verdict in Verdict} == WORDS
    predictions = {verdict.value for verdict in Verdict} - {"ran_out"}
    assert predictions == {"fits", "may_not_fit", "does_not_fit", "will_not_start", "cannot_say"}


CONFIG = str(ROOT / "tests" / "cli" / "configs" / "grpo.yaml")
ON_A_NODE = ("--gpu", "h100-sxm", "--verl-version", "0.9.1")


def test_two_jobs_side_by_side_have_the_same_verdicts_as_alone() -> None:
    """The second wants nodes that nobody has: neither memory nor the trainer says so."""
    words = (CONFIG, CONFIG, "trainer.n_gpus_per_node=16", *ON_A_NODE)
    sides = json.loads(run("diff", *words, "-f", "json").out)
    verdicts = (sides["before"]["verdict"], sides["after"]["verdict"], sides["after"]["memory_verdict"])
    assert verdicts == ("fits", "will_not_start", "fits")
    shown = " ".join(run("diff", *words).out.split())
    assert (
        " WILL NOT START it wants 16 GPUs on one node, and the largest known ones have 8 h100-sxm; " in shown
    )
    assert "; on such nodes: FITS, " in shown
    assert "**FITS → WILL NOT START**" in run("diff", *words, "-f", "markdown").out.replace("** → **", " → ")
    assert run("diff", *words, "--fail-on", "worse").code == 1
    assert run("diff", *words, "--fail-on", "worse", "--gpus-per-node", "16").code == 0


@pytest.mark.parametrize("refused", [False, True])
def test_a_configuration_that_is_missing_is_the_reason_of_a_verdict(tmp_path: Path, refused: bool) -> None:
    batch = " data.train_batch_size=100 actor_rollout_ref.actor.ppo_mini_batch_size=200" if refused else ""
    model = "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct trainer.n_gpus_per_node=8"
    (tmp_path / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo --config-name=mine {model}{batch}\n")
    script = str(tmp_path / "run.sh")
    expected = "will_not_start" if refused else "cannot_say"
    report = json.loads(run("advise", script, *ON_A_NODE, "-f", "json").out)
    assert (report["verdict"], report["combination"]) == (expected, None)
    assert report["premises"]["missing_configuration"]["name"] == "mine"
    text = run("advise", script, *ON_A_NODE).out
    assert text.startswith(f"{word(Verdict(expected))}  ")
    assert " ".join(text.split()).count("the configuration mine is not here".casefold()[4:]) == 1
    assert json.loads(run("config", script, "-f", "json").out)["missing_configuration"]["name"] == "mine"
    settings = " ".join(run("config", script).out.split())
    assert " CANNOT SAY: the configuration mine is not here: looked for in " in settings
    side = json.loads(run("diff", script, CONFIG, *ON_A_NODE, "-f", "json").out)["before"]
    assert side["verdict"] == expected


def advised(launch: dict[str, Any], form: str) -> Result:
    release = launch["tags"][0].removeprefix("v")
    premises = ("--verl-version", release, "--gpu", "h100-sxm", "--output-format", form)
    return run("advise", "/dev/null", *premises, "--", *launch["overrides"])


@pytest.mark.sampled(24)
@pytest.mark.parametrize("part", range(SLICES))
def test_every_output_says_the_same_word(part: int) -> None:
    answered = 0
    for launch in launches()[part :: 3 * SLICES]:
        result = advised(launch, "json")
        if result.code:
            continue
        answered += 1
        report, where = json.loads(result.out), f"{launch['path']} {launch['tags'][0]}"
        said = Verdict(report["verdict"])
        text = advised(launch, "text").out
        assert text.partition("  ")[0] == word(said), where
        assert all(len(line) <= 80 or " " not in line.strip() for line in text.split("\n\n")[0].splitlines())
        for form in FORMS:
            heading = re.search(r"^(?:## |<h1>)(.*)$", advised(launch, form).out, re.MULTILINE)
            assert heading is not None, where
            assert re.sub(r"<[^>]+>|\*", "", heading[1]).rpartition(": ")[2] == word(said), where
        _is_consistent(report, text, where)
    assert answered > 0


def _is_consistent(report: dict[str, Any], text: str, where: str) -> None:
    """What refuses the launch comes first, of the job as of its block, and a doubt has its condition."""
    refusals = [finding for finding in report["findings"] if finding["refuses"]]
    of_memory, block = Verdict(report["memory_verdict"]), report["combination"]
    doubtful = of_memory in (Verdict.MAY_NOT_FIT, Verdict.CANNOT_SAY)
    assert doubtful == (report["memory_condition"] in {condition.value for condition in Condition}), where
    nodes = any(finding["name"] == "node-too-large" for finding in report["findings"])
    if not refusals and not nodes:
        assert report["verdict"] == report["memory_verdict"], where
    else:
        assert report["verdict"] == "will_not_start", where
        assert f"{word(of_memory)}, " in text, where
    if block is not None:
        stays = [one for one in refusals if one["yours"] or not one["overrides"]]
        assert block["verdict"] == ("will_not_start" if stays or nodes else "fits"), where
        assert f"Paste this: {word(Verdict(block['verdict']))} " in text, where
