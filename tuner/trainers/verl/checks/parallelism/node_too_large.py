"""More GPUs on a node than such nodes have

What it checks
--------------
``trainer.n_gpus_per_node`` against the most GPUs of the named card that one machine has.
Where the number is a multiple of that, the override has as many GPUs on more nodes.
In a copy of verl whose program makes an actor of its own with GPUs, such as a judge of rewards, before the workers or beside them, these count as well.

Why it matters
--------------
verl wants that many GPUs on one node: Ray waits for such a node, for ever if there is none.
The GPUs of an actor are reserved for it alone: with every GPU of the nodes asked for as well, the workers or the actor wait for ever.
On more nodes it runs, but messages between them go over the network, which is several times slower than NVLink.
Until that is clear, seconds are those of one node, and communicators are counted as within it.

When it does not apply
----------------------
Cards for a slot: how many a machine has is up to who built it.
A virtual node that a cloud makes of several machines with one fabric counts as one.
Where ``--gpus-per-node`` says that nodes have so many.
An actor that is made under a condition, in a part of the code that is not followed, or in a placement group is not seen.
Where ``--gpu`` says the number, no override is given: that word stands above the configuration's.

Sources
-------
The row ``per_node`` of the GPU profiles, with its source.
verl 0.9.1 ``single_controller/ray/base.py``: ``_check_resource_available`` counts the GPUs of all nodes, ``get_placement_groups`` wants ``n_gpus_per_node`` of them on one node (``STRICT_PACK``).
Ray documentation, scheduling: resources of an actor outside a placement group are none of the group's.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.started_program import FurtherGpus, further_gpus
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG147",
    name="node-too-large",
    summary=N_("more GPUs on a node than such nodes have"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)

_PER_NODE, _NODES = "trainer.n_gpus_per_node", "trainer.nnodes"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where a node has more GPUs than the card comes in."""
    yield from _findings(settings, workload, FurtherGpus())


def check_of_copy(
    settings: Settings, workload: Workload, _version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """Findings of the check, with the actors of a copy's program."""
    yield from _findings(settings, workload, further_gpus(settings, code))


def _findings(settings: Settings, workload: Workload, further: FurtherGpus) -> Iterator[Finding]:
    cluster = workload.cluster
    most = cluster.gpu.per_node
    if most is None:
        return
    if cluster.gpus_per_node > most:
        yield _too_many(settings, workload, most, further)
    elif further.count > cluster.nodes * (most - cluster.gpus_per_node):
        yield _none_left(settings, workload, most, further)


def _none_left(settings: Settings, workload: Workload, most: int, further: FurtherGpus) -> Finding:
    """The workers' nodes have no GPU for the actors."""
    cluster = workload.cluster
    message = _(
        "{release} takes {gpus} of each node, {actors} {further} more, and a node has at most {most} of {gpu}"
    ).format(
        release=workload.release,
        gpus=counted(cluster.gpus_per_node, "GPU"),
        actors=further,
        further=further.count,
        most=most,
        gpu=cluster.gpu.name,
    )
    left = most - further.count
    notes = [_("Ray waits until a GPU more is there.")]
    if cluster.nodes == 1 and left > 0:
        notes.append(_("{key}={left} leaves room for it.").format(key=_PER_NODE, left=left))
    return report(RULE, settings, message, keys=[_PER_NODE, _NODES], notes=notes)


def _too_many(settings: Settings, workload: Workload, most: int, further: FurtherGpus) -> Finding:
    """The workers alone want more."""
    cluster = workload.cluster
    whole = cluster.gpus_per_node % most == 0
    nodes = cluster.nodes * cluster.gpus_per_node // most
    message = _("{release} takes {gpus} of each node, and a node has at most {most} of {gpu}").format(
        release=workload.release,
        gpus=counted(cluster.gpus_per_node, "GPU"),
        most=most,
        gpu=cluster.gpu.name,
    )
    if whole:
        message = _("{message}: {nodes} of {most}?").format(
            message=message, nodes=counted(nodes, "node"), most=most
        )
    notes = [_("Seconds and communicators are those of one node with so many.")]
    if further.count:
        beside = _("{actors} takes {gpus} beside the workers.")
        notes.append(beside.format(actors=further, gpus=counted(further.count, "further GPU")))
    own = settings.integer(_PER_NODE, default=8) == cluster.gpus_per_node
    return report(
        RULE,
        settings,
        message,
        keys=[_PER_NODE, _NODES],
        overrides=[assign(settings, _PER_NODE, most), assign(settings, _NODES, nodes)]
        if whole and own and not further.count
        else (),
        notes=notes,
    )
