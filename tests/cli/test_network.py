"""``--network`` on the command line, and what seconds make of it."""

import json

import pytest

from tests.cli.runner import ROOT, run

CONFIG = str(ROOT / "tests/cli/configs/grpo.yaml")
GIVEN = ("--verl-version", "0.9.1", "--gpu", "8xh100-sxm")
APART = ("--nodes", "4")


def seconds(*arguments: str) -> dict[str, float]:
    result = run("advise", CONFIG, *GIVEN, *APART, "--output-format", "json", *arguments)
    assert result.code == 0, result.err
    return {phase["phase"]: phase["seconds"] for phase in json.loads(result.out)["time"]}


def test_a_slower_network_takes_longer_wherever_bytes_cross_it() -> None:
    fast, assumed, slow = (
        seconds(*given) for given in (("--network", "3.2Tb/s"), (), ("--network", "25Gb/s"))
    )
    for phase in ("update_actor", "update_weights"):
        assert fast[phase] <= assumed[phase] < slow[phase]
    assert fast["rollout"] == slow["rollout"]  # a replica stays within a node


def test_it_is_said_where_there_is_a_network() -> None:
    for command, arguments in (("advise", ()), ("advise", ("--full",))):
        said = " ".join(run(command, CONFIG, *GIVEN, *APART, *arguments).out.split())
        assert "400 Gb/s for each GPU (assumed); give --network" in said
        given = " ".join(
            run(command, CONFIG, *GIVEN, *APART, "--network", "12.5GB/s", *arguments).out.split()
        )
        assert "100 Gb/s for each GPU" in given
        assert "give --network" not in given
        assert "Gb/s" not in run(command, CONFIG, *GIVEN, "--nodes", "1", *arguments).out


@pytest.mark.parametrize("wrong", ["400", "fast", "-3Gb/s", "0Gb/s", "400GB"])
def test_no_rate_is_refused(wrong: str) -> None:
    result = run("advise", CONFIG, *GIVEN, "--network", wrong)
    assert result.code == 2
    assert f"{wrong!r} is no rate" in result.err
    assert "400Gb/s" in result.err


def test_a_profile_may_say_it(tmp_path) -> None:
    profile = tmp_path / "ours.yaml"
    shipped = (ROOT / "profiles/gpus/h100-sxm.yaml").read_text()
    profile.write_text(shipped + "network_gb_per_s: 25\n")
    for extra, rate in (((), 25e9), (("--network", "400Gb/s"), 50e9)):
        result = run(
            "advise", CONFIG, "--verl-version", "0.9.1", "--gpu", str(profile), *APART, "-f", "json", *extra
        )
        cluster = json.loads(result.out)["workload"]["cluster"]
        assert (cluster["network_bytes_per_s"], cluster["network_assumed"]) == (rate, False)
