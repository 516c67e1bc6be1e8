"""Step the optimizer by one kernel where its temporaries do not fit

What it checks
--------------

An update is over the limit in the optimizer's step, under FSDP, and AdamW takes its step over lists of tensors.

Why it matters
--------------

By itself PyTorch's AdamW on a card runs one operation after the other over all tensors (``foreach``).
One of them is the square root of the second moments, a new list as large as these: 4 bytes for each trained parameter of a shard in float32.
The fused kernel reads weight, gradient and moments of a tensor once and writes them back, and allocates nothing.
It moves less than half as many bytes, so that the step is shorter as well.

When it does not apply
----------------------

verl before 0.6.1, which hands no options on to its optimizer, and another optimizer than PyTorch's AdamW.
Megatron, whose optimizer is fused already, and states on the host, which take nothing of the card.
The fused kernel rounds in another order.

Sources
-------

PyTorch ``optim/adam.py`` (``_multi_tensor_adam``: ``torch._foreach_sqrt``; ``_fused_adam``); ``torch.optim.AdamW``, ``fused``.
verl 0.6.1 to 0.9.1 ``workers/config/optimizer.py`` (``build_optimizer``: ``override_optimizer_config``).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import optimizer_fused
from tuner.rules.wording import over

RULE = Rule(
    code="MEM018",
    name="fused-optimizer",
    summary=N_("an optimizer step does not fit, with temporaries as large as a moment"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Make the step by one kernel for each tensor."""
    rung = due_proposal(case, optimizer_fused)
    if rung is None:
        return None
    phase, proposal = rung
    return Finding(
        rule=RULE,
        message=_("{shortage}, where AdamW's step makes a list of square roots as large as a moment").format(
            shortage=over(case, phase)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
