"""``tuner check --fix`` on recorded launches: it mends; what buys memory or time is for the block."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Result, run
from tests.corpus import launches
from tuner.advise import Advice
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.errors import TunerError
from tuner.rules import modules

SLICES = 31
OF_PROPOSALS = {module.RULE.code for module in modules() if not module.RULE.refuses}
_FIXED = re.compile(r"fixed [^:]+: (\w+) [\w-]+: (.*)")


def script_of(launch: dict[str, Any]) -> str:
    words = [f"--config-name={launch['config_name'] or 'ppo_trainer'}", *launch["overrides"]]
    return f"python3 -m {launch['entry']} \\\n    {shlex.join(words)}\n"


def checked(launch: dict[str, Any], *words: str) -> Result:
    release = launch["tags"][0].removeprefix("v")
    return run("check", "run.sh", *words, "--gpu", "h100-sxm", "--isolated", "--verl-version", release)


def advised(launch: dict[str, Any], *overrides: str) -> Advice | None:
    """The advice on the script as it lies there; None where it cannot be used."""
    premises = Premises(gpu="h100-sxm", verl_version=launch["tags"][0].removeprefix("v"))
    try:
        return consult("run.sh", overrides, premises, block=False).advice
    except TunerError:
        return None


def figures(advice: Advice) -> dict[str, float]:
    peaks: dict[str, float] = {phase.phase.value: phase.peak_bytes for phase in advice.estimate.phases}
    return {**peaks, "seconds": advice.time.seconds}


def set_keys_without_effect(result: Result) -> set[tuple[str, str]]:
    """Errors and warnings of checks at keys that the script sets."""
    findings = json.loads(result.out)["findings"]
    return {
        (finding["code"], finding["key"])
        for finding in findings
        if finding["severity"] != "advice" and finding["key"] and not finding["origin"]
        if finding["code"] not in OF_PROPOSALS
    }


@pytest.mark.sampled(24)
@pytest.mark.parametrize("part", range(SLICES))
def test_a_fix_changes_the_estimate_by_what_it_mends_alone(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.sh"
    judged = 0
    for launch in launches()[part::SLICES][:8]:
        file.write_text(script_of(launch), encoding="utf-8")
        if advised(launch) is None:
            continue
        judged += 1
        before = set_keys_without_effect(checked(launch, "-f", "json"))
        fixes = [match for line in checked(launch, "--fix").err.splitlines() if (match := _FIXED.match(line))]
        where = f"{launch['path']} {launch['tags'][0]}: {[match[0] for match in fixes]}"
        assert not {match[1] for match in fixes} & OF_PROPOSALS, where
        fixed = file.read_text(encoding="utf-8")
        after = advised(launch)
        file.write_text(script_of(launch), encoding="utf-8")
        mended = advised(launch, *(word for match in fixes for word in shlex.split(match[2])))
        assert after is not None and mended is not None, where
        assert figures(after) == figures(mended), where
        assert bool(fixes) is (fixed != script_of(launch)), where
        file.write_text(fixed, encoding="utf-8")
        assert "0 findings fixed" in checked(launch, "--fix").err, where
        assert file.read_text(encoding="utf-8") == fixed, where
        assert set_keys_without_effect(checked(launch, "-f", "json")) <= before, where
    assert judged
