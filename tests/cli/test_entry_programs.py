"""The configuration that the program of a launch names in its code, read without running it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import read_defaults

pytestmark = pytest.mark.sampled(12)

LAUNCH = "trainer.experiment_name=x actor_rollout_ref.model.path=Qwen/Qwen3-4B"
MINE = """defaults: [ppo_trainer, _self_]
algorithm: {adv_estimator: grpo}
data: {train_batch_size: 96, max_prompt_length: 1024}
agent: {max_turns: 5}
actor_rollout_ref:
  actor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 1}
  rollout: {name: sglang, log_prob_micro_batch_size_per_gpu: 1}
"""
HYDRA_MAIN = """import hydra
@hydra.main(config_path={path}, config_name={name}, version_base=None)
def main(config):
    raise SystemExit("nothing of a user's file is run")
"""


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.trainers.bundled_releases.installed_version", lambda name: None)


def write(folder: Path, **files: str) -> Path:
    """Files by their paths, with a ``__`` for each slash and ``_py``, ``_yaml`` or ``_sh`` at the end."""
    for name, text in files.items():
        stem, _, ending = name.replace("__", "/").rpartition("_")
        file = folder / f"{stem}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def answer(*words: str) -> dict[str, Any]:
    result = run("advise", "--gpu", "h200", "--output-format", "json", *words)
    assert result.code == 0, result.err
    content: dict[str, Any] = json.loads(result.out)
    return content


def prompts(*words: str) -> int:
    count: int = answer(*words)["workload"]["batch"]["prompts"]
    return count


def hydra_main(path: str = '"../configs"', name: str = '"mine"') -> str:
    return HYDRA_MAIN.format(path=path, name=name)


@pytest.mark.parametrize("program", ["scripts/entry.py", "-m scripts.entry", "$ROOT/scripts/entry.py"])
def test_the_configuration_that_the_code_names_is_read(program: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        run_sh=f"python3 {program} {LAUNCH}\n",
        scripts__entry_py=hydra_main(),
        configs__mine_yaml=MINE,
    )
    content = answer(str(tmp_path / "run.sh"))
    assert content["workload"]["batch"]["prompts"] == 96
    assert content["workload"]["rollout"]["engine"] == "sglang"
    assert content["verdict"] != "will_not_start"
    remarks = [remark["text"] for remark in content["premises"]["script_remarks"]]
    assert f"laid on {tmp_path / 'configs' / 'mine.yaml'}" in remarks
    shown = run("advise", str(tmp_path / "run.sh"), "--gpu", "h200").out
    assert "laidon:" + str(tmp_path / "configs" / "mine.yaml") in "".join(shown.split())


@pytest.mark.parametrize(
    ("before", "path"),
    [
        ("import os\n", "os.path.join(os.path.dirname(__file__), '..', 'configs')"),
        ("import os\nHERE = os.path.dirname(os.path.abspath(__file__))\n", "HERE + '/../configs'"),
        ("import os\nHERE = os.path.dirname(os.path.abspath(__file__))\n", "f'{HERE}/../configs'"),
        ("from pathlib import Path\n", "str(Path(__file__).resolve().parent.parent / 'configs')"),
        ("from pathlib import Path\n", "str(Path(__file__).parents[1].joinpath('configs'))"),
        ("FOLDER: str = '../configs'\n", "FOLDER"),
        ("", "'pkg://configs'"),
    ],
)
def test_paths_that_the_code_puts_together_are_followed(before: str, path: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        run_sh=f"python3 scripts/entry.py {LAUNCH}\n",
        scripts__entry_py=f"{before}NAME = 'mine'\n{hydra_main(path, 'NAME')}",
        configs__mine_yaml=MINE,
    )
    assert prompts(str(tmp_path / "run.sh")) == 96


@pytest.mark.parametrize(
    "code",
    [
        "from hydra import compose, initialize\n"
        "with initialize(version_base=None, config_path='../configs'):\n    compose(config_name='mine')\n",
        "import os\nimport hydra\nhydra.initialize_config_dir(os.path.dirname(__file__) + '/../configs')\n"
        "c = hydra.compose('mine.yaml')\n",
        "import hydra as h\n@h.main('../configs', 'mine')\ndef run(config): ...\n",
        "from hydra import main as configured\n@configured('../configs', 'mine')\ndef run(config): ...\n",
        "from scripts.other import run\nif __name__ == '__main__':\n    run()\n",
    ],
)
def test_each_way_to_name_one_is_known(code: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        run_sh=f"python3 scripts/entry.py {LAUNCH}\n",
        scripts__entry_py=code,
        scripts__other_py=hydra_main().replace("def main", "def run"),
        configs__mine_yaml=MINE,
    )
    assert prompts(str(tmp_path / "run.sh")) == 96


@pytest.mark.parametrize(
    "options",
    [
        "--config-name other",
        "--config-name=other.yaml",
        "-cn other",
        "--config-path ../more --config-name mine",
        "-cp ../more",
        "--config-path=../nothing --config-dir=more --config-name=mine",
        "-cd more -cn only",
    ],
)
def test_options_of_hydra_stand_above_the_code(options: str, tmp_path: Path) -> None:
    of_options = MINE.replace("96", "64")
    write(
        tmp_path,
        run_sh=f"python3 scripts/entry.py {options} {LAUNCH}\n",
        scripts__entry_py=hydra_main(),
        configs__mine_yaml=MINE,
        configs__other_yaml=of_options,
        more__mine_yaml=of_options,
        more__only_yaml=of_options,
    )
    assert prompts(str(tmp_path / "run.sh")) == 64


@pytest.mark.parametrize(
    "before",
    ['cd "$(dirname "$0")/tree"\n', "export PYTHONPATH={tree}:$PYTHONPATH\n", "PYTHONPATH={tree} "],
)
def test_a_module_is_looked_for_where_the_script_says(before: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    script = f"{before.format(tree=tree)}python3 -m pkg.entry {LAUNCH}\n"
    write(tmp_path, run_sh=script, tree__pkg__entry_py=hydra_main(), tree__configs__mine_yaml=MINE)
    assert prompts(str(tmp_path / "run.sh")) == 96


def test_the_configuration_of_a_recipe_declares_its_keys(tmp_path: Path) -> None:
    """Also one whose verl lies elsewhere: then the release's defaults stand for ``ppo_trainer``."""
    script = (
        f"python -m recipe.mine.main_mine {LAUNCH} agent.max_turns=3 agent.other=1 data.train_batch_siz=4\n"
    )
    write(
        tmp_path,
        recipe__mine__run_sh=script,
        recipe__mine__main_mine_py=hydra_main('"config"', '"mine_trainer"'),
        recipe__mine__config__mine_trainer_yaml="hydra: {searchpath: [pkg://verl.trainer.config]}\n" + MINE,
    )
    content = answer(str(tmp_path / "recipe" / "mine" / "run.sh"))
    unknown = [key["key"] for key in content["premises"]["unknown_keys"]]
    assert unknown == ["agent.other", "data.train_batch_siz"]


def test_a_recipe_whose_repository_has_another_name_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        verl_recipes__mine__run_sh=f"python -m recipe.mine.main_mine {LAUNCH}\n",
        verl_recipes__mine__main_mine_py=hydra_main('"config"', '"mine_trainer"'),
        verl_recipes__mine__config__mine_trainer_yaml=MINE,
    )
    assert prompts(str(tmp_path / "verl_recipes" / "mine" / "run.sh")) == 96


def test_a_file_beside_the_trainers_own_is_found_by_its_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        run_sh=f"python -m verl.trainer.main_ppo --config-name named {LAUNCH} agent.max_turns=3\n",
        verl__trainer__config__named_yaml=MINE,
    )
    content = answer(str(tmp_path / "run.sh"))
    assert content["workload"]["batch"]["prompts"] == 96
    assert content["premises"]["unknown_keys"] == []


@pytest.mark.parametrize(
    "code", ["def f(:\n", "\0", "x = " + "(" * 500 + "\n", "import hydra\n", "(" * 5 + "1" + ")" * 5]
)
def test_a_program_that_tells_nothing_changes_nothing(code: str, tmp_path: Path) -> None:
    write(tmp_path, run_sh=f"python3 scripts/entry.py {LAUNCH}\n", scripts__entry_py=code)
    assert prompts(str(tmp_path / "run.sh")) == 1024


def test_a_slip_in_the_configuration_of_a_program_is_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        run_sh=f"python3 scripts/entry.py {LAUNCH}\n",
        scripts__entry_py=hydra_main(),
        configs__mine_yaml=MINE.replace("max_prompt_length", "max_promt_length"),
    )
    unknown = answer(str(tmp_path / "run.sh"))["premises"]["unknown_keys"]
    assert [(key["key"], key["nearest"]) for key in unknown] == [
        ("data.max_promt_length", "data.max_prompt_length")
    ]


MISSING = "trainer.nnodes=1 actor_rollout_ref.model.path=Qwen/Qwen3-4B"


def missing_of(*words: str) -> dict[str, Any]:
    missing: dict[str, Any] = answer(*words)["premises"]["missing_configuration"]
    return missing


def test_a_configuration_that_is_not_in_the_tree_is_the_headline(tmp_path: Path) -> None:
    write(tmp_path, run_sh=f"python3 scripts/entry.py {MISSING}\n", scripts__entry_py=hydra_main())
    script = str(tmp_path / "run.sh")
    shown = run("advise", script, "--gpu", "h200").out
    assert shown.startswith("CANNOT SAY  the configuration mine is not here: looked for in")
    assert shown.partition(f"{tmp_path}/configs")[2].startswith(
        "\n  What follows is said of the trainer's own"
    )
    assert "\n  As far as it is known: " in shown
    assert "Paste this" not in shown
    assert "WILL NOT START" not in shown  # what is not set may stand in the file
    content = answer(script)
    assert content["verdict"] == "cannot_say"
    missing = content["premises"]["missing_configuration"]
    assert (missing["name"], missing["looked_in"]) == ("mine", [str(tmp_path / "configs")])
    assert missing["location"]["source"] == str(tmp_path / "scripts" / "entry.py")
    assert content["combination"] is None
    assert not any(finding["refuses"] for finding in content["findings"])


def test_a_check_says_first_that_the_configuration_is_missing(tmp_path: Path) -> None:
    write(tmp_path, run_sh=f"python3 scripts/entry.py {MISSING} actor_rollout_ref.rollout.mode=sync\n")
    write(tmp_path, scripts__entry_py=hydra_main())
    script = str(tmp_path / "run.sh")
    result = run("check", script, "--gpu", "h200", "--verl-version", "0.9.1", "-f", "concise")
    first, *rest = result.out.splitlines()
    assert "warning CFG185 missing-configuration: the configuration mine is not here" in first
    assert result.code == 1
    assert any("error CFG119" in line for line in rest)  # the launch itself says what is refused
    assert "override: " not in result.out
    before = (tmp_path / "run.sh").read_text()
    run("check", script, "--gpu", "h200", "--fix")
    assert (tmp_path / "run.sh").read_text() == before


@pytest.mark.parametrize(
    ("options", "folder"),
    [("--config-name=mine", "config"), ("--config-path=conf/more --config-name mine.yaml", "conf/more")],
)
def test_a_name_that_is_typed_and_nowhere_is_missing(options: str, folder: str, tmp_path: Path) -> None:
    write(tmp_path, run_sh=f"python3 -m verl.trainer.main_ppo {options} {MISSING}\n")
    missing = missing_of(str(tmp_path / "run.sh"))
    assert missing["name"].startswith("mine")
    assert missing["looked_in"][0] == str(tmp_path / folder)


@pytest.mark.parametrize(
    "code",
    [
        hydra_main(name="NAMES[0]"),
        "import hydra\nhydra.initialize('../configs')\nc = hydra.compose(config_name=pick())\n",
        "import hydra\n@hydra.main(**options())\ndef main(config): ...\n",
    ],
)
def test_a_configuration_that_code_computes_is_missing(code: str, tmp_path: Path) -> None:
    write(tmp_path, run_sh=f"python3 scripts/entry.py {MISSING}\n", scripts__entry_py=code)
    missing = missing_of(str(tmp_path / "run.sh"))
    assert missing["name"] == ""
    assert "scripts/entry.py computes which one it is" in missing["reason"]
    named = f"python3 scripts/entry.py --config-path {tmp_path} --config-name mine {MISSING}\n"
    write(tmp_path, run_sh=named, mine_yaml=MINE)
    assert missing_of(str(tmp_path / "run.sh")) is None


def test_a_configuration_of_which_a_part_is_not_here_is_missing(tmp_path: Path) -> None:
    write(
        tmp_path,
        run_sh=f"python3 scripts/entry.py {MISSING}\n",
        scripts__entry_py=hydra_main(),
        configs__mine_yaml=MINE.replace("ppo_trainer", "ours"),
    )
    missing = missing_of(str(tmp_path / "run.sh"))
    assert missing["name"] == "mine"
    assert "'ours' is neither a configuration of verl nor found as" in missing["reason"]


def test_a_launch_without_a_model_says_that_its_configuration_is_missing(tmp_path: Path) -> None:
    write(tmp_path, run_sh="python3 scripts/entry.py trainer.nnodes=1\n", scripts__entry_py=hydra_main())
    result = run("advise", str(tmp_path / "run.sh"), "--gpu", "h200")
    assert result.code == 2
    assert "no model is named, and the configuration mine is not here: looked for in" in result.err


def test_a_configuration_that_is_here_is_not_missing(tmp_path: Path) -> None:
    write(
        tmp_path,
        run_sh=f"python3 scripts/entry.py {MISSING}\n",
        scripts__entry_py=hydra_main(),
        configs__mine_yaml=MINE,
    )
    assert missing_of(str(tmp_path / "run.sh")) is None


def test_a_folder_whose_beginning_nobody_knows_is_looked_for_from_the_launch(tmp_path: Path) -> None:
    write(
        tmp_path,
        examples__run_sh=f'python3 scripts/entry.py --config-path "$ROOT/more" -cn mine {LAUNCH}\n',
        scripts__entry_py=hydra_main(),
        more__mine_yaml=MINE,
    )
    assert prompts(str(tmp_path / "examples" / "run.sh")) == 96
    (tmp_path / "more" / "mine.yaml").unlink()
    missing = missing_of(str(tmp_path / "examples" / "run.sh"))
    assert missing["looked_in"][:2] == [str(tmp_path / "examples" / "more"), str(tmp_path / "more")]


@pytest.mark.parametrize("clone", ["", "Clone/", "/home/me/Clone/"])
def test_a_configuration_is_found_wherever_the_tree_was_cloned_to(clone: str, tmp_path: Path) -> None:
    options = f"--config-path {clone}src/config/more --config-name mine"
    write(
        tmp_path,
        examples__run_sh=f"python3 -m verl.trainer.main_ppo {options} {LAUNCH}\n",
        src__config__more__mine_yaml=MINE.replace("defaults: [ppo_trainer, _self_]\n", ""),
    )
    (tmp_path / ".git").mkdir()
    launch = str(tmp_path / "examples" / "run.sh")

    assert prompts(launch) == 96
    assert missing_of(launch) is None
    (tmp_path / "src" / "config" / "more" / "mine.yaml").rename(tmp_path / "mine_too.yaml")
    assert missing_of(launch) is not None


def test_a_recipe_rests_on_the_verl_that_its_launch_names(tmp_path: Path) -> None:
    """Its own file says where verl's stands from the folder in which the job is started."""
    project, verl = tmp_path / "project", tmp_path / "elsewhere" / "verl"
    write(
        project,
        run_sh=f"cd {verl.parent}\nPYTHONPATH={project} python -m recipe.mine.main_mine {LAUNCH}\n",
        recipe__mine__main_mine_py=hydra_main('"config"', '"mine_trainer"'),
        recipe__mine__config__mine_trainer_yaml=(
            "hydra: {searchpath: ['file://verl/trainer/config']}\n"
            + MINE.replace("train_batch_size: 96, ", "")
        ),
    )
    tree = dict(read_defaults("0.6.1", "ppo_trainer").tree)
    tree["data"] = {**tree["data"], "train_batch_size": 48}
    write(verl, trainer__main_ppo_py="", trainer__config__ppo_trainer_yaml=yaml.safe_dump(tree))
    content = answer(str(project / "run.sh"))
    assert content["workload"]["batch"]["prompts"] == 48
    assert content["premises"]["release"] == "0.6.1"


WHOLE = """data: {train_batch_size: 96, max_prompt_length: 1024, max_response_length: 1024}
algorithm: {adv_estimator: grpo}
actor_rollout_ref:
  model: {path: Qwen/Qwen3-4B}
  actor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 1, use_kl_loss: false}
  rollout: {name: vllm, log_prob_micro_batch_size_per_gpu: 1, n: 8}
trainer: {n_gpus_per_node: 8, nnodes: 1}
"""


def whole(tmp_path: Path, arguments: str, configuration: str = WHOLE) -> dict[str, Any]:
    write(
        tmp_path,
        run_sh=f"python3 scripts/entry.py {arguments}\n",
        scripts__entry_py=hydra_main(),
        configs__mine_yaml=configuration,
    )
    return answer(str(tmp_path / "run.sh"))


def test_a_configuration_without_a_defaults_list_refuses_what_the_release_alone_has(tmp_path: Path) -> None:
    """Hydra lays nothing below a primary configuration that names nothing: it has its own keys alone."""
    content = whole(tmp_path, "data.filter_overlong_prompts=True data.train_batch_size=128")
    (finding,) = (item for item in content["findings"] if item["code"] == "CFG001")

    assert content["verdict"] == "will_not_start"
    assert "configs/mine.yaml does not have the key data.filter_overlong_prompts" in finding["message"]
    assert "+data.filter_overlong_prompts" in finding["message"]
    assert content["workload"]["batch"]["prompts"] == 128


def test_what_such_a_configuration_lacks_is_proposed_as_new(tmp_path: Path) -> None:
    content = whole(tmp_path, "+data.filter_overlong_prompts=True")
    texts = [text for item in content["findings"] for text in item["overrides"]]

    assert content["verdict"] != "will_not_start"
    assert "+actor_rollout_ref.model.enable_gradient_checkpointing=False" in texts
    assert "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16" in texts
    assert "CFG160" not in {item["code"] for item in content["findings"]}


def test_a_defaults_list_has_the_keys_of_the_release(tmp_path: Path) -> None:
    content = whole(
        tmp_path, "data.filter_overlong_prompts=True", f"defaults: [ppo_trainer, _self_]\n{WHOLE}"
    )

    assert content["verdict"] != "will_not_start"


OF_FINE_TUNING = "defaults: [_self_]\ndata: {max_length: 3072, val_batch_size_per_gpu: 4}\n"
TUNING = (
    "torchrun --nproc_per_node=8 /path/to/clone/verl/trainer/fsdp_sft_trainer.py "
    "data.val_batch_size_per_gpu=2 model.partial_pretrain=Qwen/Qwen3-4B\n"
)


def tuning_tree(tmp_path: Path, *, config: str = "house/configs/tuned.yaml") -> Path:
    (tmp_path / ".git").mkdir()
    write(
        tmp_path,
        run_sh=TUNING,
        verl__trainer__fsdp_sft_trainer_py=hydra_main('"house/configs"', '"tuned"'),
        verl__trainer__config__sft_trainer_yaml=yaml.safe_dump(
            dict(read_defaults("0.5.0", "sft_trainer").tree)
        ),
    )
    if config:
        write(tmp_path, **{config.replace("/", "__").replace(".yaml", "_yaml"): OF_FINE_TUNING})
    return tmp_path / "run.sh"


@pytest.mark.parametrize("config", ["house/configs/tuned.yaml", "elsewhere/tuned.yaml"])
def test_a_configuration_that_lies_elsewhere_in_the_tree_is_read(config: str, tmp_path: Path) -> None:
    content = answer(str(tuning_tree(tmp_path, config=config)))
    assert content["verdict"] != "will_not_start"
    assert (
        content["workload"]["batch"]["max_response_tokens"]
        + content["workload"]["batch"]["max_prompt_tokens"]
        == 3072
    )
    remarks = [remark["text"] for remark in content["premises"]["script_remarks"]]
    looked_in = tmp_path / "verl" / "trainer" / "house" / "configs"
    assert any(str(tmp_path / config) in remark and str(looked_in) in remark for remark in remarks)


def test_a_configuration_that_is_nowhere_in_the_tree_is_named_and_refuses_nothing(tmp_path: Path) -> None:
    result = run("advise", str(tuning_tree(tmp_path, config="")), "--gpu", "h200")
    assert result.code == 0, result.err
    assert result.out.startswith("CANNOT SAY")
    assert "tuned" in result.out
    assert "CFG001" not in result.out
