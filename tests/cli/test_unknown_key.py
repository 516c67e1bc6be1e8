"""A misspelled key is a finding: in the text, in JSON, in a line of ``check`` and in the exit code."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import ROOT, Result, run
from tuner.trainers.verl.defaults import read_defaults

pytestmark = pytest.mark.sampled(12)

#: Has ``rollot`` for ``rollout``.
MISSPELLED = ROOT / "tests/cli/configs/grpo.yaml"
GIVEN = ("--verl-version", "0.9.1", "--gpu", "h100-sxm")
ADDED = "+actor_rollout_ref.actor.use_dynamic_bzs=False"
REMOVED = "~actor_rollout_ref.actor.use_dynamic_bzs"
UNSET = "~actor_rollout_ref.actor.use_dynamic_bsz"
REFUSED = "actor_rollout_ref.rollot.n=4"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The same without it."""
    file = tmp_path / "config.yaml"
    file.write_text(MISSPELLED.read_text(encoding="utf-8").partition("  rollot:")[0], encoding="utf-8")
    return file


def advise(config: Path, *arguments: str) -> Result:
    overrides = [argument for argument in arguments if "=" in argument or argument.startswith("~")]
    options = [argument for argument in arguments if argument not in overrides]
    return run("advise", str(config), *GIVEN, *options, "--", *overrides)


def finding(config: Path, *overrides: str) -> dict[str, Any]:
    """The finding on an unknown key; empty without one."""
    findings = json.loads(advise(config, "--output-format", "json", *overrides).out)["findings"]
    return next((finding for finding in findings if finding["code"] == "CFG001"), {})


def test_the_value_is_moved_to_the_nearest_key(config: Path) -> None:
    moved = finding(config, UNSET, ADDED)
    assert moved["severity"] == "error"  # the class of the section has no such field
    assert moved["location"] == {"source": "command line", "line": 2, "column": 1}
    assert moved["overrides"] == ["+actor_rollout_ref.actor.use_dynamic_bsz=False", REMOVED]
    assert finding(config, UNSET, ADDED, *moved["overrides"]) == {}


@pytest.mark.parametrize(("version", "severity"), [("0.5.0", None), ("0.6.0", "error"), ("0.6.1", "error")])
@pytest.mark.parametrize("section", ["actor", "rollout", "model"])
def test_the_workers_make_dataclasses_of_sections_from_0_6_0_on(
    config: Path, section: str, version: str, severity: str | None
) -> None:
    """0.6.0 workers/fsdp_workers.py:568-569 and 791: ``omega_conf_to_dataclass`` of all three."""
    added = f"+actor_rollout_ref.{section}.my_own_switch=True"
    told = finding(config, added, "--verl-version", version)
    assert told.get("severity") == severity


def test_a_key_that_is_set_as_well_keeps_its_value(config: Path) -> None:
    assert finding(config, ADDED)["overrides"] == [REMOVED]
    assert finding(config, ADDED, REMOVED) == {}


def test_a_key_of_a_file_that_an_override_spells_right_is_not_told(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "misspelled.yaml"
    file.write_text(f"{config.read_text()}trainer:\n  log_var_generations: 10\n")
    assert finding(file)["keys"] == ["trainer.log_var_generations"]
    assert finding(file, "trainer.log_val_generations=20") == {}


def test_a_value_of_another_kind_is_not_moved(config: Path) -> None:
    key = "actor_rollout_ref.model.enable_gradient_checkpoint"
    assert finding(config, f"+{key}=often")["overrides"] == [f"~{key}"]


def test_an_override_that_hydra_refuses_is_an_error_that_no_other_one_mends(config: Path) -> None:
    refused = finding(config, REFUSED)
    assert refused["severity"] == "error"
    assert refused["overrides"] == []
    assert refused["message"] == (
        "verl 0.9.1 does not have the key actor_rollout_ref.rollot.n, and Hydra refuses to start; "
        "the nearest known key is actor_rollout_ref.rollout.n"
    )
    assert finding(config, REFUSED, "~actor_rollout_ref.rollot.n")["severity"] == "error"


def test_a_key_that_needs_a_plus_says_so(config: Path) -> None:
    message = finding(config, "critic.ppo_infer_max_token_len_per_gpu=8")["message"]
    assert message.endswith("Hydra takes it as +critic.ppo_infer_max_token_len_per_gpu=...")


def test_other_releases_that_know_the_key_are_named(config: Path) -> None:
    assert finding(config, "data.gen_batch_size=8") == {}
    old = finding(config, "data.gen_batch_size=8", "--verl-version", "0.5.0")
    assert old["notes"] == ["verl 0.9.0 and 0.9.1 have it"]


def test_the_text_counts_it_and_names_key_and_place(config: Path) -> None:
    text = advise(config, REFUSED).out
    assert text.startswith("WILL NOT START  refused by CFG001\n")
    assert "nearest known key is actor_rollout_ref.rollout.n" in " ".join(text.split())
    assert "set in override 1 of the command line" in text


@pytest.mark.parametrize(("override", "worst"), [(ADDED, "warning"), (REFUSED, "error")])
def test_the_exit_code_of_advise_counts_it(config: Path, override: str, worst: str) -> None:
    assert advise(config, "--fail-on", worst).code == 0
    assert advise(config, "--fail-on", worst, override).code == 1


def test_a_file_with_one_fails_a_check(config: Path) -> None:
    assert run("check", str(config), *GIVEN).code == 0
    result = run("check", str(MISSPELLED), *GIVEN, "-f", "concise")
    assert result.code == 1
    (line,) = [line for line in result.out.splitlines() if "CFG001" in line]
    assert line.startswith(f"{os.path.relpath(MISSPELLED)}:31:5: warning CFG001 unknown-key: ")
    assert line.endswith("(override: '~actor_rollout_ref.rollot.n')")


def test_keys_that_differ_in_nothing_else_are_told_once(config: Path) -> None:
    """A fork's keys are many, and each had three lines of its own."""
    words = ("actor_rollout_ref.actor.use_dynamic_bzs=True", "my.own=1", "data.foo=2", "trainer.bar=3")
    text = " ".join(advise(config, *words).out.split())
    assert text.count("CFG001 unknown-key") == 2  # the other one has a known key near it
    assert "does not have the key my.own, and Hydra refuses to start" in text
    assert "The same of data.foo, trainer.bar." in text
    assert text.count("give its configuration") == 1
    alone = " ".join(advise(config, *words[:2]).out.split())
    assert "The same of" not in alone
    assert alone.count("Take it away or fix it") == 2


PATCH = """--- a/verl/trainer/config/ppo_trainer.yaml
+++ b/verl/trainer/config/ppo_trainer.yaml
@@ -250,3 +250,4 @@ trainer:
   project_name: examples
+  my_proxy: null
   seed: 1
--- a/verl/trainer/main_ppo.py
+++ b/verl/trainer/main_ppo.py
@@ -1,2 +1,3 @@ trainer:
+  their_proxy: null
"""


@pytest.mark.parametrize(
    ("key", "readme", "known"),
    [
        ("trainer.my_proxy", "git apply patches/verl.patch", True),
        ("trainer.my_proxy", "cd verl && patch -p1 < ../patches/verl.patch", True),
        ("trainer.my_proxy", "nothing is applied", False),
        ("algorithm.my_proxy", "git apply patches/verl.patch", False),
        ("trainer.their_proxy", "git apply patches/verl.patch", False),
    ],
)
def test_a_key_that_the_projects_own_patch_adds_to_verl_is_known(
    tmp_path: Path, key: str, readme: str, known: bool
) -> None:
    (tmp_path / "README.md").write_text(f"    {readme}\n")
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches/verl.patch").write_text(PATCH)
    script = tmp_path / "run.sh"
    script.write_text(
        f"python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo {key}=1 "
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B actor_rollout_ref.actor.use_dynamic_bsz=True\n"
    )
    findings = json.loads(run("advise", str(script), *GIVEN, "-f", "json").out)["findings"]
    assert any(finding["code"] == "CFG001" for finding in findings) is not known


def test_a_key_of_no_release_may_be_a_forks_where_nothing_names_the_release(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    script = tmp_path / "run.sh"
    job = (
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct trainer.n_gpus_per_node=8 "
        "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.name=vllm"
    )
    for key, release, refused in (
        ("env.max_turn", (), False),
        ("env.max_turn", ("--release", "0.9.1"), True),
        ("actor_rollout_ref.rollot.n", (), True),  # it is like a known one
    ):
        script.write_text(f"python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo {job} {key}=4\n")
        told = run("advise", str(script), "--gpu", "h100-sxm", *release)
        assert told.out.startswith("WILL NOT START") is refused
        checked = run("check", str(script), "--gpu", "h100-sxm", *release, "-f", "concise").out
        (line,) = [line for line in checked.splitlines() if "CFG001" in line]
        assert ("error" in line, "may" in line and "a fork or a patch" in line) == (refused, not refused)
    (tmp_path / "requirements.txt").write_text("verl==0.7.1\n")
    script.write_text(script.read_text().replace("actor_rollout_ref.rollot.n", "env.max_turn"))
    assert run("advise", str(script), "--gpu", "h100-sxm").out.startswith("WILL NOT START")


def test_a_module_of_a_fork_that_is_not_here_may_have_the_key(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    script = tmp_path / "run.sh"
    words = "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct env.max_turn=4 trainer.n_gpus_per_node=8"
    for module, word in (("main_agent_ppo", "CANNOT SAY"), ("main_ppo", "WILL NOT START")):
        if module == "main_ppo":
            (tmp_path / "requirements.txt").write_text("verl==0.4.1\n")
        script.write_text(f"python3 -m verl.trainer.{module} algorithm.adv_estimator=grpo {words}\n")
        result = run("advise", str(script), "--gpu", "h100-sxm")
        assert result.out.startswith(word)
        assert ("CFG001" in result.out) is (module == "main_ppo")
        assert module == "main_ppo" or "Paste this" not in result.out
    package = tmp_path / "third" / "rl" / "verl"  # a copy of which nobody knows more than its defaults
    (package / "trainer" / "config").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "trainer" / "main_agent_ppo.py").write_text("")
    defaults = yaml.safe_dump(dict(read_defaults("0.4.1", "ppo_trainer").tree))
    (package / "trainer" / "config" / "ppo_trainer.yaml").write_text(defaults)
    script.write_text(f"python3 -m verl.trainer.main_agent_ppo algorithm.adv_estimator=grpo {words}\n")
    assert run("advise", str(script), "--gpu", "h100-sxm").out.startswith("WILL NOT START")
