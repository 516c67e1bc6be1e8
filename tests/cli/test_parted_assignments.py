"""A value behind a blank leaves its variable empty, and the refusal of the key names the line."""

from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = """{line}
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \\
    data.max_response_length=${{LONGEST}} trainer.n_gpus_per_node=8
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("export LONGEST= 8192", True),
        ("export LONGEST= 8192  # tokens", True),
        ("export LONGEST=", False),
        ("export LONGEST= # later", False),
        ("export OTHER= 8192 LONGEST=", False),
        ("declare -x LONGEST= 8192", True),
    ],
)
def test_the_line_that_leaves_a_variable_empty_is_named(tmp_path: Path, line: str, told: bool) -> None:
    script = tmp_path / "run.sh"
    script.write_text(LAUNCH.format(line=line))
    result = run("advise", str(script), "--gpu", "h100-sxm")
    assert result.code == 2
    assert "data.max_response_length: expected a whole number >= 1, got ''" in result.err
    hint = f"{script}:1 leaves the variable empty: no blank may stand behind LONGEST="
    assert (hint in result.err) is told
