"""More GPUs on a node than such nodes have

What it checks
--------------
``trainer.n_gpus_per_node`` against the most GPUs of the named card that one machine has.
Where the number is a multiple of that, the override has as many GPUs on more nodes.

Why it matters
--------------
verl wants that many GPUs on one node: Ray waits for such a node, for ever if there is none.
On more nodes it runs, but messages between them go over the network, which is several times slower than NVLink.
Until that is clear, seconds are those of one node, and communicators are counted as within it.

When it does not apply
----------------------
Cards for a slot: how many a machine has is up to who built it.
A virtual node that a cloud makes of several machines with one fabric counts as one.
Where ``--gpus-per-node`` says that nodes have so many.
Where ``--gpu`` says the number, no override is given: that word stands above the configuration's.

Sources
-------
The row ``per_node`` of the GPU profiles, with its source.
verl 0.9.1 ``single_controller/ray/base.py``: ``_check_resource_available`` counts the GPUs of all nodes, ``get_placement_groups`` wants ``n_gpus_per_node`` of them on one node (``STRICT_PACK``).
"""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.workload import Workload

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
    cluster = workload.cluster
    most = cluster.gpu.per_node
    if most is None or cluster.gpus_per_node <= most:
        return
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
    own = settings.integer(_PER_NODE, default=8) == cluster.gpus_per_node
    yield report(
        RULE,
        settings,
        message,
        keys=[_PER_NODE, _NODES],
        overrides=[assign(settings, _PER_NODE, most), assign(settings, _NODES, nodes)]
        if whole and own
        else (),
        notes=(_("Seconds and communicators are those of one node with so many."),),
    )
