"""Placements over numbers of GPUs and cards: rows of the table, points of the trade-off, files and blocks."""

import csv
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import run
from tests.plan.jobs import TYPED
from tuner.consultation import placed_clusters
from tuner.consultation.planned_clusters import planned_on
from tuner.render.schemas import schema

pytestmark = pytest.mark.usefixtures("plans_are_kept")

MODEL = ("--model", "qwen2.5-0.5b", "--verl-version", "0.9.1")
SIZES = ("--gpu", "h100-sxm,l40s", "--nodes", "1-2", "--gpus-per-node", "2", "--price", "h100-sxm=2.5")
GIVEN = ("/dev/null", *MODEL, *SIZES, "--data-rows", "7473")
NAMES = ("colocated", "one-step-off", "separate")
ROWS = [("h100-sxm", 2), ("h100-sxm", 4), ("l40s", 2), ("l40s", 4)]
#: Responses so short that a step is training but for a wait, which overlap takes away.
JOB = (*TYPED, "data.max_response_length=256")


@cache
def shown(form: str) -> str:
    result = run("plan", *GIVEN, "--vary", f"placement={','.join(NAMES)}", "-f", form, "--", *JOB)
    assert result.code == 0, result.err
    return result.out


def answer() -> Any:
    made = json.loads(shown("json"))
    jsonschema.validate(made, schema("plan"), cls=jsonschema.Draft202012Validator)
    return made


def own(row: Any) -> Any:
    return row["plan"]["settings"][0]


def test_every_number_and_card_has_each_placement_and_names_the_fastest() -> None:
    rows = answer()["capacity"]
    assert [(row["plan"]["cluster"]["card"], row["plan"]["cluster"]["gpus"]) for row in rows] == ROWS
    for row in rows:
        gpus, placements = row["plan"]["cluster"]["gpus"], row["placements"]
        assert tuple(one["placement"] for one in placements) == NAMES
        assert placements[0]["setting"]["seconds"] == own(row)["seconds"]
        seconds = {one["placement"]: one["setting"]["seconds"] for one in placements if one["setting"]}
        assert len(seconds) == len(NAMES)
        fastest = min(NAMES, key=lambda name: seconds[name])
        assert row["fastest"] == ("" if fastest == "colocated" else fastest)
        for one in placements[1:]:
            assert one["split"]["training_gpus"] + one["split"]["generating_gpus"] == gpus
            assert one["setting"]["gpu_hours"] == pytest.approx(one["setting"]["seconds"] * gpus / 3600)
    assert {row["fastest"] for row in rows} != {""}
    assert answer()["placements"] == rows[1]["placements"]


def test_each_is_a_point_of_the_trade_off_and_a_row_of_the_csv() -> None:
    points = {(one["card"], one["gpus"], one["placement"]): one for one in answer()["trade_off"]}
    assert set(points) == {(*row, name) for row in ROWS for name in ("", "one-step-off", "separate")}
    assert any(key[2] and key[:2] != ROWS[1] and one["unbeaten"] for key, one in points.items())
    rows = list(csv.DictReader(io.StringIO(shown("csv"))))
    assert {(row["card"], int(row["gpus"]), row["placement"]) for row in rows} == set(points)


def test_the_tables_name_the_placement_of_each_row_in_eighty_columns() -> None:
    text = shown("text")
    for heading in ("Over numbers and cards", "The whole job on them"):
        table = text.partition(heading)[2].partition("\n\n")[0].splitlines()
        names = [line.split()[2] for line in table if line.split()[:1] in (["h100-sxm"], ["l40s"])]
        assert names == [row["fastest"] or "colocated" for row in answer()["capacity"]]
    assert max(len(line) for line in text.splitlines() if "=" not in line) <= 80
    assert "2 + 2 (whole nodes)" in text and "2 + 2 (each node divided)" in " ".join(text.split())


def test_a_placement_elsewhere_is_read_back_as_what_the_row_says() -> None:
    for row in answer()["capacity"]:
        one = next(one for one in row["placements"] if one["launch"])
        options = ("--gpu", row["plan"]["cluster"]["card"], *MODEL, "--output-format", "json")
        read = json.loads(run("advise", *options, *one["launch"]).out)
        assert read["verdict"] == "fits"
        assert read["step_time"]["seconds"] == pytest.approx(one["setting"]["seconds"], rel=1e-9)


def test_each_has_a_file_for_each_of_the_gpus(tmp_path: Path) -> None:
    vary = ("--vary", "placement=one-step-off,separate", "--write", str(tmp_path / "plans"))
    given = ("/dev/null", *MODEL, "--gpu", "l40s", "--nodes", "1-2", "--gpus-per-node", "2")
    result = run("plan", *given, *vary, "-f", "json", "--", *JOB)
    assert result.code == 0, result.err
    for row in json.loads(result.out)["capacity"]:
        nodes = "2x" if row["plan"]["cluster"]["nodes"] > 1 else ""
        for one in row["placements"]:
            suffix = ".sh" if one["launch"] else ".yaml"
            file = tmp_path / "plans" / f"{nodes}2xl40s-{one['placement']}{suffix}"
            read = json.loads(run("advise", str(file), "--output-format", "json").out)
            assert read["step_time"]["seconds"] == one["setting"]["seconds"]


def test_an_interrupted_placement_keeps_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search of the third placement is ended: two on the first cluster are told."""
    placed: list[object] = []

    def planned(*given: Any) -> Any:
        made = planned_on(*given)
        placed.append(made)
        if len(placed) > 2:
            raise KeyboardInterrupt
        return made

    monkeypatch.setattr(placed_clusters, "planned_on", planned)
    given = ("/dev/null", *MODEL, "--gpu", "2xh100-sxm", "--nodes", "1", "--gpus-per-node", "1,2")
    vary = ("--vary", "placement=one-step-off,fully-async,separate")
    made = json.loads(run("plan", *given, *vary, "-f", "json", "--", *JOB).out)
    assert made["stopped"]
    assert [one["placement"] for one in made["placements"]] == ["one-step-off", "fully-async"]
    assert all(one["setting"] for one in made["placements"])


def test_the_fewest_gpus_may_be_those_of_a_placement() -> None:
    """An engine that keeps three quarters of its cards leaves too little of them to train beside it."""
    rollout, states = "actor_rollout_ref.rollout", "actor_rollout_ref.actor.fsdp_config"
    sizes = (f"{rollout}.gpu_memory_utilization=0.75", f"{rollout}.free_cache_engine=False")
    kept = (f"{states}.{key}" for key in ("param_offload", "optimizer_offload", "offload_policy"))
    held = [word for key in (*sizes, *kept) for word in ("--hold", key)]
    where = ("--gpu", "h100-sxm", "--nodes", "1", "--gpus-per-node", "2", "--vary", "placement=one-step-off")
    given = ("/dev/null", "--model", "qwen2.5-3b", *MODEL[2:], *where, *held)
    made = run("plan", *given, "-f", "json", "--", *JOB)
    report = json.loads(made.out)
    assert made.code == 0, made.err
    assert not report["plan"]["settings"]
    assert (report["fewest"]["gpus"], report["fewest_placement"]) == (2, "one-step-off")
    text = run("plan", *given, "--", *JOB).out
    words = " ".join(text.split())
    assert "Fewest GPUs: 2 x h100-sxm on 1 node, one-step-off" in words
    assert "It would surely fit with: 2 x h100-sxm on 1 node, one-step-off" in words
    assert "one-step-off: it fits, and the job where it is does not." in words
    assert text.count("--config-name=one_step_off_ppo_trainer") == 1
