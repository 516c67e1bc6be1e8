"""What PyTorch keeps while the rollout engine maps its weights."""

import json

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.cli.runner import run
from tests.loading import load
from tests.trainers.launches import GRPO
from tuner import memory
from tuner.hardware import Cluster
from tuner.memory.ledger.terms import Item, Moment, Term, paged_bytes, reserved_bytes
from tuner.models import find_model
from tuner.workload import Phase, Workload


def _late(workload: Workload) -> Workload:
    return replace(workload, sync=replace(workload.sync, empties_cache_first=False))


def _sync(workload: Workload) -> memory.PhaseEstimate:
    found = memory.estimate(workload).phase(Phase.UPDATE_WEIGHTS)
    assert found is not None
    return found


def test_the_engines_weights_return_beside_the_updates_peak() -> None:
    """Everything that the update's allocator held at its peak, and the weights."""
    workload = _late(workloads.grpo_7b())
    update = memory.estimate(workload).phase(Phase.UPDATE_ACTOR)
    assert update is not None
    moment = next(one for one in _sync(workload).moments if one.name == "weights_back")
    weights = next(term for term in moment.terms if term.name == "engine_weights")
    assert moment.bytes == update.peak_bytes + weights.bytes
    low, high = moment.interval
    assert low <= moment.bytes < high


def test_pages_of_expandable_segments_merge() -> None:
    """Freed tensors of all kinds serve the next one, and less stays than with blocks of each kind."""
    blocks = _late(workloads.grpo_7b())
    pages = replace(blocks, sync=replace(blocks.sync, maps_pages=True))
    of_blocks, of_pages = (_sync(workload).interval for workload in (blocks, pages))
    assert of_pages[0] == of_blocks[0]
    assert of_pages[0] < of_pages[1] < of_blocks[1]


def test_a_layers_tensors_leave_one_hole_beneath_what_stays() -> None:
    def moment(**sizes: int) -> Moment:
        items = {"states": Item.OPTIMIZER, "layer": Item.ACTIVATIONS, "head": Item.LOGITS}
        terms = [Term(item=items[name], name=name, bytes=size) for name, size in sizes.items()]
        return Moment(name="moment", terms=tuple(terms))

    moments = (moment(states=10, head=30), moment(states=10, layer=7), moment(states=10, layer=5))
    assert reserved_bytes(moments) == (40, 47)
    assert paged_bytes(moments) == 47
    assert paged_bytes((*moments, moment(states=10, head=4))) == 47
    assert paged_bytes((moment(states=10, head=30), moment(states=25))) == 40  # else 55
    assert paged_bytes(()) == 0


def test_they_have_a_name_of_their_own_in_an_answer() -> None:
    """verl 0.8.0 maps the engine's weights before it empties the cache: that is no context and no buffer."""
    given = ("--gpu", "8xh100-sxm", "--verl-version", "0.8.0")
    model = "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct"
    text = run("advise", "/dev/null", *given, *GRPO, model).out
    assert "F freed blocks that PyTorch keeps" in text
    parts = run("advise", "/dev/null", *given, "--output-format", "json", *GRPO, model).out
    phases = {phase["phase"]: phase for phase in json.loads(parts)["memory"]["phases"]}
    items = {
        term["name"]: term["item"]
        for moment in phases["update_weights"]["moments"]
        for term in moment["terms"]
    }
    assert items["freed_blocks"] == "freed"
    assert items["trainer_context"] == "overhead"


def test_a_release_that_empties_the_cache_first_has_no_such_moment() -> None:
    assert [moment.name for moment in _sync(workloads.grpo_7b()).moments] == ["transfer"]


def test_an_engine_on_gpus_of_its_own_needs_nothing_of_the_trainer() -> None:
    apart = _late(workloads.grpo_7b()).with_rollout(colocated=False)
    assert [moment.name for moment in _sync(apart).moments] == ["transfer"]


@pytest.mark.parametrize(
    ("version", "extra", "first"),
    [
        ("0.7.1", (), True),
        ("0.7.1", ("trainer.use_legacy_worker_impl=disable",), False),
        ("0.8.0", (), False),
        ("0.8.0", ("actor_rollout_ref.actor.fsdp_config.param_offload=True",), True),
        ("0.9.1", (), True),
    ],
)
def test_which_releases_empty_the_cache_first(version: str, extra: tuple[str, ...], first: bool) -> None:
    loaded = load(None, (*GRPO, *extra), version=version)
    cluster = Cluster(gpu=workloads.H100, gpus_per_node=8, nodes=1, network_bytes_per_s=5e10)
    model = find_model("qwen2.5-7b")
    workload = loaded.workload(model=model, critic_model=None, cluster=cluster)
    assert workload.sync.empties_cache_first is first
