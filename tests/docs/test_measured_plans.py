"""What the page on runs of this machine says of measured plans is what was recorded."""

import json
from typing import Any

import pytest

from tests.cli.runner import ROOT

PAGE = (ROOT / "docs/validation/on-this-machine.rst").read_text(encoding="utf-8")
RUNS: list[dict[str, Any]] = json.loads(
    (ROOT / "docs/validation/data/plans-measured-2xh200.json").read_text(encoding="utf-8")
)["runs"]
SETTINGS = [(run["name"], setting) for run in RUNS for setting in run["settings"]]


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_the_table_has_the_recorded_figures(name: str, setting: dict[str, Any]) -> None:
    passes = [ratio for phase, ratio in setting["measured_over_modelled"].items() if phase != "rollout"]
    step = setting.get("engine_step")
    cells = (
        name,
        setting["place"],
        f"{min(passes):.2f} to {max(passes):.2f}" if passes else "\\-",
        f"{1e3 * step['measured_s']:.1f} of {1e3 * step['modelled_s']:.1f}" if step else "\\-",
        f"{setting['modelled_s']:.1f}",
        f"{setting['corrected_s']:.1f} ({setting['low_s']:.1f} to {setting['high_s']:.1f})",
        setting["rank_before"],
        setting["rank"],
    )
    assert "   * - " + "\n     - ".join(map(str, cells)) + "\n" in PAGE


def test_what_the_time_went_into_is_what_was_recorded() -> None:
    parts = [setting["seconds_of_parts"] for _, setting in SETTINGS if "seconds_of_parts" in setting]
    passes = [one["training-step"] for one in parts if one["training-step"]]
    engines = [setting["seconds_of_parts"]["rollout"] for _, setting in SETTINGS if "engine_step" in setting]
    assert f"passes took {min(passes)} to {max(passes)} s of a setting" in PAGE
    assert f"with its steps {min(engines)} to {max(engines)} s" in PAGE
    first, last = RUNS[0], RUNS[-1]
    assert f"{first['spent_s']:.0f} of the {first['budget_s']:.0f} s of the first run" in PAGE
    assert f"Of {last['budget_s']:.0f} s for three settings" in PAGE
