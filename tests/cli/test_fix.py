"""``tuner check --fix`` and ``--diff``, ``tuner advise --write``, on files as users have them."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.runner import RELEASE, Result, run

GRPO = Path(__file__).parent / "configs" / "grpo.yaml"
SCRIPT = """\
#!/usr/bin/env bash
N=8  # responses
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 data.max_response_length=3072 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.n=$N \\
    actor_rollout_ref.rollout.gpu_memory_utilization="0.4" \\
    actor_rollout_ref.ref.fsdp_config.param_offload="True" \\
    trainer.n_gpus_per_node=8 $@
"""
OFFLOAD = "actor_rollout_ref.ref.fsdp_config.param_offload"
OFFLOADED = """\
  ref:
    fsdp_config:
      param_offload: true  # which changes nothing
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "grpo.yaml"
    file.write_text(GRPO.read_text() + OFFLOADED)
    return file


def check(*words: str) -> Result:
    return run("check", *RELEASE, *words, "--gpu", "h100-sxm", "--isolated")


def fixed_codes(result: Result) -> list[str]:
    return [line.split()[2] for line in result.err.splitlines() if line.startswith("fixed ")]


def test_a_mended_file_has_no_finding_that_is_safe_to_mend_and_stays_as_it_is(config: Path) -> None:
    before, asked = config.read_text(), ("grpo.yaml", "--select", "CFG")
    result = check(*asked, "--fix")
    after = config.read_text()
    assert result.code == 1  # CFG001 is left, a warning
    assert fixed_codes(result) == ["CFG106"]
    assert "not fixed grpo.yaml" in result.err
    assert "to paste: '~actor_rollout_ref.rollot.n'" in result.err
    assert after == before.replace("param_offload: true", "param_offload: false")
    again = check(*asked, "--fix")
    assert "0 findings fixed" in again.err
    assert config.read_text() == after
    assert check(*asked).out == again.out == result.out


def test_what_may_change_the_training_is_mended_only_when_that_is_asked_for(config: Path) -> None:
    result = check("grpo.yaml", "--fix", "--unsafe-fixes", "--select", "CFG001")
    assert fixed_codes(result) == ["CFG001"]
    assert result.code == 0
    after = config.read_text().splitlines()
    gone = [line for line in GRPO.read_text().splitlines() if line not in after]
    assert [line.strip() for line in gone] == ["rollot:", "n: 4"]


def test_git_applies_the_diff_and_then_nothing_is_left_to_change(config: Path) -> None:
    Path("run it.sh").write_text(SCRIPT)
    before, asked = config.read_bytes(), ("grpo.yaml", "run it.sh", "--diff", "--select", "CFG106")
    result = check(*asked)
    assert result.code == 1
    assert config.read_bytes() == before
    subprocess.run(["git", "apply", "-"], input=result.out.encode(), cwd=config.parent, check=True)
    assert Path("run it.sh").read_text() == SCRIPT.replace('param_offload="True"', 'param_offload="False"')
    again = check(*asked)
    assert (again.code, again.out) == (0, "")


def test_what_is_no_file_of_the_users_stays(config: Path) -> None:
    text = config.read_text()
    for words, reason in (
        (("-", "--fix"), "standard input is no file"),
        (("grpo.yaml", f"{OFFLOAD}=True", "--fix"), "comes from the command line"),
        (("grpo.yaml", str(config.resolve()), "--fix"), "named twice"),
    ):
        result = run(
            "check", *RELEASE, *words, "--gpu", "h100-sxm", "--select", "CFG106", "--isolated", stdin=text
        )
        assert reason in result.err
        assert config.read_text() == text
    record = config.parent / ".hydra" / "config.yaml"
    record.parent.mkdir()
    record.write_text(text)
    assert "the record of a run stays as it is" in check(str(record), "--fix").err
    assert record.read_text() == text


def test_a_key_of_a_file_below_is_added_to_this_one_and_not_taken_out_of_it(config: Path) -> None:
    Path("base").mkdir()
    Path("base/common.yaml").write_text(
        f"# @package _global_\nactor_rollout_ref:\n  rollot:\n    n: 2\n{OFFLOADED}"
    )
    text = config.read_text().replace("  rollot:\n    n: 4\n", "").replace(OFFLOADED, "")
    config.write_text(text.replace("  - _self_\n", "  - base: common\n  - _self_\n"))
    result = check("grpo.yaml", "--fix", "--unsafe-fixes", "--select", "CFG001,CFG106")
    assert f"CFG106 ref-offload-noop: {OFFLOAD}=False" in result.err
    key = "actor_rollout_ref.rollot.n"
    assert f"not fixed base/common.yaml: CFG001 unknown-key: {key} is not written in this file" in result.err
    assert "param_offload: false" in config.read_text()
    shown = check("grpo.yaml", "-f", "full", "--select", "CFG001").out
    assert f"= no fix: {key} is not written in this file" in shown
    assert "--unsafe-fixes" not in shown


def test_one_broken_input_does_not_keep_the_others_from_being_mended(config: Path) -> None:
    Path("broken.yaml").write_text("a: [\n")
    result = check("broken.yaml", "grpo.yaml", "--fix", "--select", "CFG106")
    assert result.code == 2
    assert fixed_codes(result) == ["CFG106"]
    assert Path("broken.yaml").read_text() == "a: [\n"


def test_advice_is_written_into_the_configuration_or_beside_it(config: Path) -> None:
    before = config.read_text()
    named = ("--isolated", "--verl-version", "0.9.1")  # else what only some releases take is left out
    advise = ("advise", "grpo.yaml", "--gpu", "h100-sxm", *named, "--write")
    result = run(*advise, "new.yaml")
    assert (result.code, config.read_text()) == (0, before)
    assert "new.yaml is written, with" in result.err
    assert run(*advise, "new.yaml").code == 2  # there already
    assert run(*advise, "grpo.yaml").code == 0
    assert config.read_text() == Path("new.yaml").read_text() != before
    assert "there is no block to paste" in run(*advise, "grpo.yaml").err


def test_a_key_that_is_added_although_it_is_there_is_mended_in_a_script(config: Path) -> None:
    script = Path("run.sh")
    script.write_text(
        SCRIPT.replace("    data.max_prompt", "    '+data.train_batch_size=512' data.max_prompt")
    )
    result = check("run.sh", "--fix", "--select", "CFG160")
    assert fixed_codes(result) == ["CFG160"]
    assert script.read_text() == SCRIPT.replace(
        "    data.max_prompt", "    'data.train_batch_size=512' data.max_prompt"
    )


def test_a_fix_empties_what_it_leaves_without_effect(config: Path) -> None:
    switch = "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz"
    size = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"
    script = Path("run.sh")
    script.write_text(SCRIPT.replace(" $@", f" {switch}=False {size}=4 $@"))
    result = check("run.sh", "--fix", "--select", "CFG108")
    assert fixed_codes(result) == ["CFG108"]
    assert script.read_text() == SCRIPT.replace(" $@", f" {switch}=True {size}=null $@")
