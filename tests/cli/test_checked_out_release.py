"""The release of a launch whose script or README checks verl out at a tag or a commit."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run
from tuner.trainers.verl.commits import place_of_commit, place_of_day
from tuner.trainers.verl.releases import BUNDLED

pytestmark = pytest.mark.sampled(12)

SIZES = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8"
LAUNCH = f"""python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
    {SIZES} \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm"""
URL = "https://github.com/volcengine/verl"
BETWEEN = "4de3ecf06a"  # the first commit behind 0.5.0


def advice(folder: Path, readme: str, *, script: str = "", more: str = "", name: str = "README.md") -> Any:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / name).write_text(readme)
    (folder / "run.sh").write_text(f"{script}\n{LAUNCH} {more}")
    return json.loads(run("advise", str(folder / "run.sh"), "--gpu", "h100-sxm", "-f", "json").out)


def premises(folder: Path, readme: str, *, script: str = "", name: str = "README.md") -> dict[str, Any]:
    told: dict[str, Any] = advice(folder, readme, script=script, name=name)["premises"]
    return told


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (f"pip install git+{URL}.git@v0.5.0", "0.5.0"),
        (f'pip install "verl[vllm] @ git+{URL}@v0.6.1"', "0.6.1"),
        (f"git clone {URL}.git\ncd verl\ngit checkout v0.4.1\npip install -e .", "0.4.1"),
        (f"git clone -b v0.5.0 --depth 1 {URL}", "0.5.0"),
        (f"git clone {URL} && cd verl && git checkout tags/v0.6.0 && cd ..", "0.6.0"),
        (f"git clone {URL}\ncd verl && git reset --hard 8fdc4d3", "0.5.0"),  # the commit of its tag
        (
            f"git clone {URL}\ngit clone https://github.com/you/house\ncd house\ngit checkout v0.4.1",
            BUNDLED[-1],
        ),
        (f"git clone {URL}\ncd verl\ngit checkout main", BUNDLED[-1]),
        (f'VERL_COMMIT="8fdc4d3"\ngit clone {URL} "$D"\ncd "$D"\ngit checkout "$VERL_COMMIT"', "0.5.0"),
        (f"VERL_REF=${{VERL_REF:-v0.6.1}}\npip install git+{URL}@${{VERL_REF}}", "0.6.1"),
        ("HOUSE_COMMIT=8fdc4d3\ngit checkout $HOUSE_COMMIT", BUNDLED[-1]),
    ],
)
def test_a_tag_that_is_checked_out_tells_the_release(tmp_path: Path, text: str, release: str) -> None:
    told = premises(tmp_path, f"```bash\n{text}\n```\n")
    assert told["release"] == release
    assert (told["release_likely"] == []) is (release != BUNDLED[-1])
    assert premises(tmp_path, "", script=f"# {text}".replace("\n", "\n# "))["release"] == release


def test_a_requirement_from_the_repository_tells_the_release(tmp_path: Path) -> None:
    assert premises(tmp_path, f"verl @ git+{URL}@v0.5.0\n", name="requirements.txt")["release"] == "0.5.0"


@pytest.mark.parametrize("word", ["git reset --hard", "git checkout"])
def test_a_commit_between_releases_is_a_guess_among_both(tmp_path: Path, word: str) -> None:
    readme = f"```\ngit clone {URL}\ncd verl\n{word} {BETWEEN}\n```\n"
    answer = advice(tmp_path, readme, more="trainer.of_that_commit=1")
    told = answer["premises"]
    assert told["release_likely"] == ["0.5.0", "0.6.0"] and told["release"] == "0.5.0"
    said = f"README.md asks for the commit {BETWEEN} of verl, which lies between 0.5.0 and 0.6.0"
    assert any(remark["text"].endswith(said) for remark in told["script_remarks"])
    assert [one["refuses"] for one in answer["findings"] if one["code"] == "CFG001"] == [False]
    gone = advice(
        tmp_path, readme, more="actor_rollout_ref.rollout.calculate_log_probs=True algorithm.rollout_is=True"
    )
    assert gone["premises"]["release"] == "0.6.0"  # which has the key


def test_a_commit_that_nobody_knows_is_no_release(tmp_path: Path) -> None:
    readme = f"```\npip install git+{URL}@{{commit}}\n```\n"
    answer = advice(tmp_path, readme.format(commit="0123456789abcdef"), more="trainer.of_that_commit=1")
    assert answer["premises"]["release_likely"] == list(BUNDLED)
    assert answer["verdict"] != "will_not_start"
    dated = "```\ncd verl\ngit checkout 0123456789abcdef  # 2025-09-01\n```\n"
    assert premises(tmp_path, dated)["release_likely"] == ["0.5.0", "0.6.0"]


def test_places_of_commits_and_days() -> None:
    assert place_of_commit("0123456789") is None and place_of_commit("4de3e") is None
    first = place_of_commit("30911f13")
    assert first is not None and (first.before, first.plausible) == ("", ("0.3.0.post1",))
    tagged = place_of_commit("ddd86f527a5d2d3b8a0b5a1b1a2c1f3e4d5c6b7a")
    assert tagged is not None and tagged.is_release and tagged.nearest == "0.6.0"
    assert place_of_day("2025-06-10").plausible == ("0.4.0", "0.4.1")
    assert place_of_day("2030-01-01").plausible == (BUNDLED[-1],)


@pytest.mark.parametrize(
    ("commit", "release"), [("8fdc4d3f202", "0.5.0"), (BETWEEN, "0.5.0"), ("main", "0.7.0")]
)
def test_fine_tuning_is_of_the_commit_as_well(tmp_path: Path, commit: str, release: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(f"```\ngit clone {URL}\ncd verl\ngit checkout {commit}\n```\n")
    (tmp_path / "run.sh").write_text(
        "torchrun --nproc_per_node=2 -m verl.trainer.fsdp_sft_trainer data.max_length=1024 "
        "data.train_batch_size=8 model.partial_pretrain=Qwen/Qwen2.5-0.5B\n"
    )
    told = json.loads(run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm", "-f", "json").out)
    assert told["premises"]["release"] == release


LOCK = f"VERL_URL={URL}.git\nVERL_COMMIT=8fdc4d3  # of 0.5.0\n\nHOUSE_URL=https://github.com/you/house\n"
BOOTSTRAP = '#!/bin/bash\nsource "$ROOT/frameworks.lock"\nfetch_pinned verl "$VERL_URL" "$VERL_COMMIT"\n'


def of_lock(folder: Path, lock: str, script: str, launch: str = LAUNCH) -> dict[str, Any]:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "frameworks.lock").write_text(lock)
    (folder / "scripts" / "bootstrap_frameworks.sh").write_text(script)
    (folder / "run.sh").write_text(launch)
    told = run("advise", str(folder / "run.sh"), "--gpu", "h100-sxm", "-f", "json").out
    premises: dict[str, Any] = json.loads(told)["premises"]
    return premises


@pytest.mark.parametrize(
    ("lock", "script", "release"),
    [
        (LOCK, BOOTSTRAP, "0.5.0"),
        ("export VERL_TAG='v0.6.1'\n", BOOTSTRAP, "0.6.1"),
        (LOCK, BOOTSTRAP.replace("source", "."), "0.5.0"),
        (LOCK, "#!/bin/bash\necho nothing reads frameworks.lock here\n", BUNDLED[-1]),
        (LOCK.replace("VERL_COMMIT", "# VERL_COMMIT"), BOOTSTRAP, BUNDLED[-1]),
    ],
)
def test_a_file_of_pins_counts_that_an_installing_script_reads(
    lock: str, script: str, release: str, tmp_path: Path
) -> None:
    assert of_lock(tmp_path, lock, script)["release"] == release


def test_a_launch_that_fine_tunes_is_of_the_commit_that_is_checked_out(tmp_path: Path) -> None:
    tuning = (
        "torchrun --nproc_per_node=4 -m verl.trainer.sft_trainer data.train_batch_size=8 "
        "data.max_length=1024 data.micro_batch_size_per_gpu=1 model.path=Qwen/Qwen2.5-7B-Instruct"
    )
    told = of_lock(tmp_path, LOCK.replace("8fdc4d3", "983cb0f24443"), BOOTSTRAP, tuning)
    assert told["release_likely"] == ["0.8.0", "0.9.0"]
