"""``tuner config``: what a configuration comes to, in forms that give the same settings again."""

import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.golden import expect
from tests.cli.runner import Result, run
from tests.cli.test_scripts import SCRIPT
from tests.corpus import launches
from tests.inputs.test_verl_corpus import arguments
from tuner.errors import TunerError
from tuner.inputs.override_syntax import same
from tuner.inputs.reading import read_given
from tuner.inputs.resolution import deleted, resolved
from tuner.render.schemas import schema
from tuner.trainers.protocol import Loaded
from tuner.trainers.verl import parse

MODEL = "actor_rollout_ref.model.path=Qwen/Qwen3-8B"
RELEASE = ("--verl-version", "0.9.1")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(SCRIPT)
    return "run.sh"


def config(*words: str, stdin: str = "") -> Result:
    result = run("config", *words, stdin=stdin)
    assert result.code == 0, result.err
    return result


def content(*words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(config(*words, "-f", "json").out)
    return told


def setting(told: dict[str, Any], key: str) -> dict[str, Any]:
    (only,) = (one for one in told["settings"] if one["key"] == key)
    return dict(only)


def loaded(version: str, config: str, *words: str) -> Loaded:
    given = read_given(config, words)
    return parse(given.document, given.arguments).on(version)


def leaves(settings: Loaded) -> dict[str, Any]:
    """All settings; what was deleted and what is null read alike."""
    return {leaf.key: leaf.value for leaf in resolved(settings.settings) if leaf.value is not None}


def alike(one: Loaded, other: Loaded) -> bool:
    mine, theirs = leaves(one), leaves(other)
    return (
        one.base == other.base
        and mine.keys() == theirs.keys()
        and all(same(mine[k], theirs[k]) for k in mine)
    )


def test_text(script: str) -> None:
    text = config(script, "trainer.nnodes=2", "+my.key=[1,2]", "~reward_model", *RELEASE).out
    prose = [line for line in text.splitlines() if " " in line.strip()]  # the others are one override each
    assert max(map(len, prose)) <= 80
    expect("config.txt", text)


def test_every_setting_has_its_place(script: str) -> None:
    told = content(script, "trainer.nnodes=2", *RELEASE)
    jsonschema.validate(told, schema("config"))
    assert (told["source"], told["release"], told["base"]) == ("run.sh", "0.9.1", "ppo_trainer")
    batch = setting(told, "data.train_batch_size")
    assert (batch["value"], batch["default"], batch["differs"]) == (256, 1024, True)
    assert (batch["layer"], batch["location"]) == ("override", {"source": "run.sh", "line": 9, "column": 5})
    follower = setting(told, "actor_rollout_ref.ref.log_prob_use_dynamic_bsz")
    assert (follower["layer"], follower["follows"]) == (
        "default",
        ["actor_rollout_ref.actor.use_dynamic_bsz"],
    )
    (open_value, *followers) = told["unknown"]
    assert (open_value["key"], open_value["variable"]) == ("actor_rollout_ref.rollout.n", "N")
    assert "actor_rollout_ref.actor.rollout_n" in [one["key"] for one in followers]
    assert content(script, "N=8", *RELEASE)["unknown"] == []


def test_a_file_has_lines_and_all_settings_can_be_had(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("actor_rollout_ref:\n  rollout:\n    n: 5\n    temperature: 1.0\n")
    few, every = content(str(file), MODEL, *RELEASE), content(str(file), MODEL, "--all", *RELEASE)
    assert setting(few, "actor_rollout_ref.rollout.n")["location"]["line"] == 3
    assert [one["key"] for one in few["settings"] if one["layer"] != "default"] == [
        "actor_rollout_ref.rollout.n",
        "actor_rollout_ref.model.path",
    ]
    same_as_default = setting(every, "actor_rollout_ref.rollout.temperature")
    assert (same_as_default["differs"], same_as_default["layer"]) == (False, "file")
    assert len(every["settings"]) > 400 > len(few["settings"])
    lines = config(str(file), MODEL, "--all", *RELEASE).out.splitlines()
    assert lines[lines.index("actor_rollout_ref.rollout.temperature=1.0") + 1] == f"    {file}:4:5"


LAUNCHES = [(launch, tag) for launch in launches() for tag in launch["tags"]]


def again(version: str, words: list[str], folder: Path) -> list[Loaded]:
    """The settings as each output gives them back."""
    options = ("--verl-version", version)
    said = config("/dev/null", *options, "-f", "overrides", "--", *words).out
    overrides = shlex.split(said.replace("\\\n", " "))
    read_back = [loaded(version, "/dev/null", *overrides)] if overrides else []
    for name, every in (("few.yaml", ()), ("all.yaml", ("--all",))):
        (folder / name).write_text(config("/dev/null", *options, *every, "-f", "yaml", "--", *words).out)
        read_back.append(loaded(version, str(folder / name)))
    return read_back


@pytest.mark.sampled(20)
@pytest.mark.parametrize("number", range(0, len(LAUNCHES), 3))
def test_real_launches_are_read_back_from_every_output(number: int, tmp_path: Path) -> None:
    launch, tag = LAUNCHES[number]
    version, words = tag.removeprefix("v"), arguments(launch)
    try:
        original = loaded(version, "/dev/null", *words)
    except TunerError:
        pytest.skip("no launch of the PPO trainer")
    for outcome in again(version, words, tmp_path):
        assert alike(outcome, original)


@pytest.mark.parametrize(
    "words",
    [
        ["~critic.optim", "~reward_model"],
        ["model_engine=megatron", "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2"],
        ["++actor_rollout_ref.rollout.engine_kwargs.vllm.some.list=[1,'1',1e-6,'1e-6','yes']"],
        ["actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192", "critic.ppo_max_token_len_per_gpu=8192"],
        # the default of the second follows the first, which is another now
        [
            "actor_rollout_ref.actor.use_dynamic_bsz=True",
            "actor_rollout_ref.ref.log_prob_use_dynamic_bsz=False",
        ],
        ["trainer.project_name='it is ${trainer.nnodes}'", "trainer.experiment_name='a: b # c'"],
        ["reward_model=null", "trainer.logger=[]"],
    ],
)
def test_odd_settings_are_read_back_from_every_output(words: list[str], tmp_path: Path) -> None:
    version = "0.9.1"
    original = loaded(version, "/dev/null", *words)
    from_overrides, *from_files = again(version, words, tmp_path)
    assert all(alike(outcome, original) for outcome in (from_overrides, *from_files))
    assert deleted(from_overrides.settings) == deleted(original.settings)


def test_a_recipe_is_named_again(tmp_path: Path) -> None:
    words = ["algorithm.filter_groups.enable=True", "reward_model.overlong_buffer.enable=True", MODEL]
    original = loaded("0.5.0", "/dev/null", *words)
    assert original.base.name == "dapo_trainer"
    assert all(alike(outcome, original) for outcome in again("0.5.0", words, tmp_path))


SECRETS = (
    "+trainer.wandb_api_key=0123456789abcdefghij",
    "+trainer.note='push with hf_secretsecretsecret'",
    "+ray_kwargs.ray_init.runtime_env.env_vars.HF_TOKEN=anythingatall",
    "+trainer.list=[ghp_0123456789abcdefghij]",
)


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_output_to_read_has_a_secret(output: str) -> None:
    told = config("/dev/null", "-f", output, *RELEASE, "--", *SECRETS, "+x.pad_token='<|endoftext|>'").out
    for secret in ("0123456789abcdef", "hf_secret", "anythingatall", "ghp_"):
        assert secret not in told
    assert told.count("hidden") >= 4
    assert "<|endoftext|>" in told


def test_what_is_not_known_goes_to_stderr_where_stdout_is_to_be_pasted(script: str) -> None:
    result = config(script, "-f", "overrides", *RELEASE)
    assert "rollout.n=" not in result.out
    assert result.err.startswith("actor_rollout_ref.rollout.n is not known: the script has $N (run.sh:12:5)")
    assert "# actor_rollout_ref.rollout.n is not known" in config(script, "-f", "yaml", *RELEASE).out


def test_what_a_script_loses_is_said(script: str) -> None:
    Path(script).write_text(SCRIPT.replace("    trainer.nnodes", "    # nodes\n    trainer.nnodes"))
    assert "LOST: these never reach the trainer" in config(script, "N=8", *RELEASE).out
    assert content(script, *RELEASE)["lost_overrides"][0]["text"] == "trainer.nnodes=1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.yaml",), "missing.yaml: there is no such file"),
        (("/dev/null", "--verl-version", "x"), "'x' is not a verl release"),
        (("/dev/null", "--al"), "there is no option --al; did you mean --all?"),
        (
            ("/dev/null", "--", "trainer.nnodes=1", "--verl-version", "0.7.0"),
            "--verl-version stands behind --, where the words of the launch begin; put the options of tuner",
        ),
        (("/dev/null", "a b"), "'a b' is not an override"),
    ],
)
def test_bad_input_ends_in_one_message(words: tuple[str, ...], message: str) -> None:
    result = run("config", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


ODD = """\
'a.b': 1
'x y': {'c.d': [1, '1', "it's"]}
w: "a\\nb"
z: [{a: 1}, null, 'x,y']
trainer: {default_local_dir: '${oc.env:HOME}/x', nnodes: '${q}'}
"""


def test_keys_and_values_that_hydra_cannot_name_are_read_back_from_yaml(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(ODD)
    original = loaded("0.9.1", str(file))
    for every in ((), ("--all",)):
        (tmp_path / "again.yaml").write_text(config(str(file), *every, "-f", "yaml", *RELEASE).out)
        assert alike(loaded("0.9.1", str(tmp_path / "again.yaml")), original)
    assert "oc.env" in config(str(file), *RELEASE).out  # nothing of the environment is looked up


LIST = ("algorithm.adv_estimator=grpo", "actor_rollout_ref.model.path=Qwen/Qwen3-8B")


@pytest.mark.parametrize("words", [("model_engine=megatron", *LIST), (*LIST, "model_engine=megatron")])
def test_a_key_without_a_dot_is_an_override_in_a_list_of_them(words: tuple[str, ...]) -> None:
    """verl 0.9.1 ``trainer/config/ppo_trainer.yaml:10``: ``model_engine`` chooses the engine that trains."""
    assert (
        setting(content(*words, *RELEASE, "--all"), "actor_rollout_ref.actor.strategy")["value"] == "megatron"
    )


def test_no_word_of_a_list_of_overrides_is_dropped_silently() -> None:
    given = ("NCCL_DEBUG=INFO", "house=1", *LIST, "ROOM=2")
    answer = json.loads(run("advise", *given, *RELEASE, "--gpu", "h100-sxm", "-f", "json").out)
    unknown = {key["key"] for key in answer["premises"]["unknown_keys"]}
    remarks = [remark["text"] for remark in answer["premises"]["script_remarks"]]
    assert unknown == {"house", "ROOM"}
    assert remarks[0].startswith("NCCL_DEBUG is taken for a variable")
