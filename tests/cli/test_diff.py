"""``tuner diff``: what an upgrade or another setting does to a job, held against data of other origin."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.golden import expect
from tests.cli.runner import ROOT, Result, run
from tests.cli.test_commands import CONFIG
from tests.corpus import flattened_defaults
from tests.trainers.reads import keys_read
from tuner.render.schemas import schema
from tuner.trainers.coverage import Read
from tuner.trainers.verl.coverage.tables import PPO_COVERAGE

GPU = ("--gpu", "h100-sxm")
SCRIPT = str(ROOT / "docs/examples/run-grpo.sh")
MODEL = "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct"
ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
#: A launch that leaves to the release what a release can decide, with a reference and with a critic.
PLAIN = (
    MODEL,
    f"{ROLLOUT}.name=vllm",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=4",
    f"{REF}.log_prob_micro_batch_size_per_gpu=4",
    f"{ACTOR}.use_kl_loss=True",
)
GRPO = (*PLAIN, "algorithm.adv_estimator=grpo", f"{ROLLOUT}.n=8")
PPO = (*PLAIN, "critic.ppo_micro_batch_size_per_gpu=2", "critic.model.path=Qwen/Qwen2.5-7B-Instruct")


def diff(*words: str, code: int = 0, stdin: str = "") -> Result:
    result = run("diff", *words, *GPU, stdin=stdin)
    assert result.code == code, result.err
    return result


@cache
def told(*words: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(diff(*words, "-f", "json").out)
    return content


def on(older: str, newer: str, *words: str) -> dict[str, Any]:
    return told("/dev/null", *words, "--verl-version", f"{older},{newer}")


def keys(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {key["after"]["key"]: key for key in content["keys"]} | {
        key["before"]["key"]: key for key in content["keys"]
    }


# -- which keys ------------------------------------------------------------------------------


@pytest.mark.parametrize("launch", [GRPO, PPO], ids=["grpo", "ppo"])
@pytest.mark.parametrize(("older", "newer"), [("0.5.0", "0.7.1"), ("0.7.1", "0.9.0"), ("0.6.1", "0.7.1")])
def test_every_default_that_changed_and_is_read_is_named(
    launch: tuple[str, ...], older: str, newer: str
) -> None:
    """The defaults are those that verl flattened itself; what is read is recorded while a job is read."""
    before, after = (flattened_defaults()[release, "ppo_trainer"] for release in (older, newer))
    read = keys_read(launch, older) & keys_read(launch, newer)
    assert read
    mine = {word.partition("=")[0] for word in launch}
    changed = [
        key
        for key in before.keys() & after.keys() & read - mine
        if before[key] != after[key]
        and after[key] is not None  # what is kept for those who still set it
        and "${" not in f"{before[key]}{after[key]}"
        and Read.MODELLED in (*PPO_COVERAGE.classes(key, older), *PPO_COVERAGE.classes(key, newer))
    ]
    assert changed
    named = keys(on(older, newer, *launch))
    for key in changed:
        state = named[key]
        assert (state["before"]["value"], state["after"]["value"]) == (before[key], after[key])
        assert state["change"] in ("default", "renamed")
        assert not state["before"]["by_user"]


BUCKET = "update_weights_bucket_megabytes"


@pytest.mark.parametrize(
    ("releases", "launch", "key", "change", "values"),
    [
        ("0.5.0,0.7.1", GRPO, "actor_rollout_ref.model.use_remove_padding", "default", (False, True)),
        ("0.5.0,0.7.1", GRPO, f"{ROLLOUT}.enforce_eager", "default", (True, False)),
        ("0.5.0,0.7.1", GRPO, f"{ROLLOUT}.mode", "default", ("sync", "async")),
        ("0.5.0,0.7.1", GRPO, f"{ROLLOUT}.load_format", "default", ("dummy_dtensor", "dummy")),
        ("0.5.0,0.7.1", GRPO, f"{ROLLOUT}.checkpoint_engine.{BUCKET}", "renamed", (512, 2048)),
        ("0.5.0,0.7.1", GRPO, f"{REF}.fsdp_config.model_dtype", "new", (None, "fp32")),
        ("0.5.0,0.7.1", GRPO, f"{ROLLOUT}.max_num_seqs", "read", (1024, 1024)),
        ("0.5.0,0.7.1", GRPO, f"{ROLLOUT}.max_model_len", "meaning", (None, None)),
        ("0.7.1,0.9.1", GRPO, f"{ROLLOUT}.max_num_seqs", "default", (1024, 256)),
        ("0.7.1,0.9.1", GRPO, f"{ROLLOUT}.calculate_log_probs", "default", (False, True)),
        ("0.7.1,0.9.1", PPO, "critic.model.use_remove_padding", "default", (False, True)),
        (
            "0.7.1,0.9.1",
            GRPO,
            f"{ACTOR}.fsdp_config.use_no_sync_for_gradient_accumulation",
            "new",
            (None, False),
        ),
    ],
)
def test_changes_that_are_known(
    releases: str, launch: tuple[str, ...], key: str, change: str, values: tuple[object, object]
) -> None:
    older, newer = releases.split(",")
    state = keys(on(older, newer, *launch))[key]
    assert (state["change"], state["before"]["value"], state["after"]["value"]) == (change, *values)


@pytest.mark.parametrize(
    ("releases", "word", "change", "read_instead"),
    [
        (
            "0.7.1,0.9.1",
            "critic.model.fsdp_config.param_offload=True",
            "renamed",
            "critic.fsdp.param_offload",
        ),
        (
            "0.7.1,0.9.1",
            f"{ACTOR}.use_torch_compile=False",
            "renamed",
            f"{ACTOR}.fsdp_config.use_torch_compile",
        ),
        ("0.5.0,0.7.1", f"{ROLLOUT}.{BUCKET}=1024", "renamed", f"{ROLLOUT}.checkpoint_engine.{BUCKET}"),
        (
            "0.7.1,0.9.1",
            "trainer.use_legacy_worker_impl=enable",
            "vanished",
            "trainer.use_legacy_worker_impl",
        ),
    ],
)
def test_what_the_user_set_and_the_later_release_does_not_read(
    releases: str, word: str, change: str, read_instead: str
) -> None:
    older, newer = releases.split(",")
    state = keys(on(older, newer, *PPO, word))[word.partition("=")[0]]
    assert (state["change"], state["after"]["key"]) == (change, read_instead)
    assert state["before"]["by_user"]


def test_behaviours_without_a_key_are_named_with_their_price() -> None:
    behaviours = on("0.5.0", "0.7.1", *GRPO)["behaviours"]
    by_field = {field["path"]: one for one in behaviours for field in one["fields"]}
    process = by_field["rollout.own_process"]
    assert (process["fields"][0]["before"], process["fields"][0]["after"]) == ("no", "yes")
    assert process["overrides"] == []
    rollout = next(one for one in process["effect"]["phases"] if one["phase"] == "rollout")
    assert rollout["with_bytes"] > rollout["without_bytes"]
    later = [field["path"] for one in on("0.7.1", "0.9.1", *GRPO)["behaviours"] for field in one["fields"]]
    assert "batch.loss_averages_micro_batches" in later


# -- what it does to the job -----------------------------------------------------------------

PAIRS = [
    ("/dev/null", *GRPO, "--verl-version", "0.5.0,0.7.1"),
    ("/dev/null", *PPO, "--verl-version", "0.7.1,0.9.1"),
    (CONFIG, "/dev/null", *PPO, "--verl-version", "0.9.1"),
    (CONFIG, SCRIPT, "RESPONSES=4", "--verl-version", "0.6.1,0.8.0"),
]


@pytest.mark.parametrize("words", PAIRS, ids=range(len(PAIRS)))
def test_parts_add_up_to_their_phases(words: tuple[str, ...]) -> None:
    content = told(*words)
    jsonschema.validate(content, schema("diff"))
    assert len(content["phases"]) > 3
    for phase in content["phases"]:
        assert phase["change_bytes"] == (phase["after_bytes"] or 0) - (phase["before_bytes"] or 0)
        for field in ("before_bytes", "after_bytes", "change_bytes"):
            assert sum(part[field] for part in phase["parts"]) == (phase[field] or 0)
    worst = max(phase["after_bytes"] or 0 for phase in content["phases"])
    assert content["after"]["worst_bytes"] == worst
    spent = sum(phase["change_seconds"] for phase in content["phases"])
    assert spent == pytest.approx(content["change_seconds"])


@pytest.mark.parametrize("config", [CONFIG, SCRIPT])
def test_nothing_differs_from_itself(config: str) -> None:
    words = ("RESPONSES=4",) if config == SCRIPT else ()
    content = told(config, *words, config, *words)
    assert (content["keys"], content["behaviours"], content["passed_over"]) == ([], [], 0)
    assert (content["findings_before"], content["findings_after"], content["worse"]) == ([], [], False)
    changes = [(phase["change_bytes"], phase["change_seconds"]) for phase in content["phases"]]
    assert set(changes) == {(0, 0.0)}
    assert "Nothing differs" in diff(CONFIG, CONFIG).out


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("0.5.0", "0.7.1", GRPO),
        ("0.7.1", "0.9.1", PPO),
        (CONFIG, SCRIPT, ()),
    ],
)
def test_the_other_way_round_is_the_negative(one: str, other: str, words: tuple[str, ...]) -> None:
    if words:
        there, back = on(one, other, *words), on(other, one, *words)
    else:
        there, back = told(one, other), told(other, one)
    assert (there["before"], there["after"]) == (back["after"], back["before"])
    for first, second in zip(there["phases"], back["phases"], strict=True):
        assert first["phase"] == second["phase"]
        assert first["change_bytes"] == -second["change_bytes"]
        assert first["change_seconds"] == -second["change_seconds"]
        mirrored = [(part["item"], -part["change_bytes"]) for part in second["parts"]]
        assert [(part["item"], part["change_bytes"]) for part in first["parts"]] == mirrored
    assert there["change_host_bytes"] == -back["change_host_bytes"]
    assert there["findings_after"] == back["findings_before"]


@pytest.mark.parametrize(("older", "newer"), [("0.5.0", "0.7.1"), ("0.7.1", "0.9.1")])
def test_what_undoes_a_difference_has_the_price_that_is_told(older: str, newer: str) -> None:
    launch = (*GRPO, MODEL.replace("7B", "1.5B"))  # whose embedding every bucket holds
    content = on(older, newer, *launch)
    assert content["after"]["refusals"] == []
    told_of = [one for key in content["keys"] for one in key["differences"] if one["overrides"]]
    assert told_of
    for one in told_of:
        words = ("/dev/null", *launch, *one["overrides"], "--verl-version", newer, "-f", "json")
        memory = json.loads(run("advise", *words, *GPU).out)["memory"]
        peaks = {phase["phase"]: phase["peak_bytes"] for phase in memory["phases"]}
        without = {phase["phase"]: phase["without_bytes"] for phase in one["effect"]["phases"]}
        assert without == {phase: peaks[phase] for phase in without}
        assert memory["host_bytes"] == one["effect"]["without_host_bytes"]


def test_what_follows_another_difference_is_part_of_it() -> None:
    """Without packing 0.5 computes the entropy by itself, not compiled; no key of its own says so."""
    content = on("0.5.0", "0.7.1", *GRPO)
    (packed,) = keys(content)["actor_rollout_ref.model.use_remove_padding"]["differences"]
    assert packed["overrides"] == ["actor_rollout_ref.model.use_remove_padding=False"]
    assert {field["path"] for field in packed["fields"]} >= {"actor.engine.packed", "actor.head.compiled"}
    assert f"{ACTOR}.use_torch_compile" not in keys(content)


def test_two_configurations_on_one_release(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(
        Path(CONFIG).read_text().replace("gpu_memory_utilization: 0.4", "gpu_memory_utilization: 0.3")
    )
    content = told(CONFIG, str(file), "--verl-version", "0.9.1")
    (key,) = content["keys"]
    assert (key["change"], key["before"]["value"], key["after"]["value"]) == ("value", 0.4, 0.3)
    assert key["after"]["location"]["source"] == str(file)
    (difference,) = key["differences"]
    assert difference["overrides"] == [f"{ROLLOUT}.gpu_memory_utilization=0.4"]
    rollout = next(phase for phase in content["phases"] if phase["phase"] == "rollout")
    told_rollout = next(phase for phase in difference["effect"]["phases"] if phase["phase"] == "rollout")
    assert told_rollout["with_bytes"] - told_rollout["without_bytes"] == rollout["change_bytes"] < 0


# -- the command -----------------------------------------------------------------------------


def test_turns_are_told_by_the_keys_that_decide_them(tmp_path: Path) -> None:
    multi_turn = f"{ROLLOUT}.multi_turn"
    for name, words in {
        "none": (),
        "six": (f"{multi_turn}.enable=True", f"{multi_turn}.max_assistant_turns=6"),
        "twenty": (f"{multi_turn}.enable=True", f"{multi_turn}.max_assistant_turns=20"),
    }.items():
        lines = " ".join((*GRPO, f"{ROLLOUT}.mode=async", *words))
        (tmp_path / f"{name}.sh").write_text(f"python3 -m verl.trainer.main_ppo {lines}\n")

    def between(one: str, other: str) -> str:
        out = diff(str(tmp_path / f"{one}.sh"), str(tmp_path / f"{other}.sh")).out
        assert "Without a key that shows it" not in out
        assert "without effect" not in out
        return " ".join(out.partition("\nKeys\n")[2].split())

    assert re.fullmatch(
        rf"{multi_turn}.enable set; False by default → True \(.*\); together with "
        rf"{multi_turn}.max_assistant_turns null → 6 \(set\) step [+-]\d+%",
        between("none", "six"),
    )
    assert re.fullmatch(
        rf"{multi_turn}.max_assistant_turns set; 6 \(.*\) → 20 \(.*\) step [+-]\d+%.*",
        between("six", "twenty"),
    )


def test_text_at_80_columns() -> None:
    upgrade = (CONFIG.removeprefix(f"{ROOT}/"), "--verl-version", "0.7.1,0.9.1")
    for name, options in (("diff.txt", ()), ("diff-full.txt", ("--full",))):
        text = diff(*upgrade, *options).out
        assert all(len(line) <= 80 for line in text.splitlines() if " " in line.strip())
        expect(name, text)


def test_one_input_on_two_releases_is_read_once() -> None:
    text = Path(CONFIG).read_text()
    from_stdin = json.loads(diff("-", "--verl-version", "0.7.1,0.9.1", "-f", "json", stdin=text).out)
    from_file = told(CONFIG, "--verl-version", "0.7.1,0.9.1")
    assert from_stdin["phases"] == from_file["phases"]


def test_engines_of_both_can_be_named() -> None:
    content = told(CONFIG, "--verl-version", "0.9.1", "--engine-version", "0.18.0,0.20.0")
    assert (content["before"]["engine"], content["after"]["engine"]) == ("vLLM 0.18.0", "vLLM 0.20.0")
    assert (
        "newest engine"
        not in diff(CONFIG, "--verl-version", "0.9.1", "--engine-version", "0.18.0,0.20.0").out
    )


def test_what_the_checks_say_of_the_second_alone() -> None:
    dead = f"{ACTOR}.grad_clip=0.5"
    result = diff("/dev/null", *GRPO, dead, "--verl-version", "0.7.1,0.9.1")
    assert "Said of the second alone" in result.out
    codes = [finding["code"] for finding in on("0.7.1", "0.9.1", *GRPO, dead)["findings_after"]]
    assert codes
    assert all(code in result.out for code in codes)


def test_what_a_script_leaves_open_and_loses_is_told(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        Path(SCRIPT)
        .read_text()
        .replace("    actor_rollout_ref.rollout.n", "    # n\n    actor_rollout_ref.rollout.n")
    )
    text = " ".join(diff(SCRIPT, str(script), "--verl-version", "0.9.1").out.split())
    assert "open: actor_rollout_ref.rollout.n is $RESPONSES" in text
    assert text.count("LOST: ") == 1


def test_worse_fails_where_that_is_asked_for() -> None:
    larger = f"{ROLLOUT}.gpu_memory_utilization=0.98"
    worse = ("/dev/null", *GRPO, CONFIG, larger, "--verl-version", "0.9.1")
    assert diff(*worse, "--fail-on", "worse", code=1).out == diff(*worse).out
    assert told(*worse)["worse"] is True
    better = (CONFIG, larger, "/dev/null", *GRPO, "--verl-version", "0.9.1", "--fail-on", "worse")
    assert diff(*better).code == 0


def test_workers_of_the_next_generation_are_read_by_their_release() -> None:
    content = on("0.7.1", "0.9.1", *GRPO, "trainer.use_legacy_worker_impl=disable")
    assert content["before"]["release"] == "0.7.1"
    assert f"{ROLLOUT}.max_num_seqs" in keys(content)


def test_a_release_that_cannot_read_it_is_named() -> None:
    words = ("/dev/null", *GRPO, f"{ROLLOUT}.n=many", "--verl-version", "0.7.1,0.9.1")
    error = diff(*words, code=2).err
    assert "on verl 0.7.1: expected a whole number >= 1, got 'many'" in error


def test_no_secret_is_told() -> None:
    secrets = ("+trainer.hf_token=hf_secretsecretsecret", "+trainer.wandb_api_key=0123456789abc")
    for output in ("text", "json"):
        text = diff("/dev/null", *GRPO, CONFIG, *secrets, "--full", "-f", output).out
        assert "hf_secret" not in text
        assert "0123456789" not in text
        assert "hidden" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((CONFIG,), "there is nothing to compare"),
        ((CONFIG, "--verl-version", "0.9.1"), "there is nothing to compare"),
        ((CONFIG, "--verl-version", "0.9,0.9.1"), "there is nothing to compare"),
        ((CONFIG, "--verl-version", "0.5.0,"), "expected one version, or two with a comma"),
        ((CONFIG, "--verl-version", "0.5.0,0.7.1,0.9.1"), "expected one version, or two with a comma"),
        ((CONFIG, "--verl-version", "0.5.0,x"), "'x' is not a verl release"),
        ((CONFIG, CONFIG, CONFIG), "two configurations are compared, not 3"),
        ((CONFIG, "missing.yaml"), "missing.yaml: there is no such file"),
        (("-", "-"), "standard input can be read once"),
        ((CONFIG, CONFIG, "--verl-versio", "1"), "did you mean --verl-version?"),
    ],
)
def test_bad_input_ends_in_one_message(words: tuple[str, ...], message: str) -> None:
    result = diff(*words, code=2)
    assert message in result.err
    assert (result.out, result.err.count("\n")) == ("", 1)
