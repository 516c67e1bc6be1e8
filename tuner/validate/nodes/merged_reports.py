"""The reports of several nodes as one for each kind of node."""

from collections.abc import Sequence

from tuner.language import _
from tuner.validate.report.schema import ValidationFile

#: Seconds beyond a run's budget that are waited for nodes which begin late.
GRACE_S = 300.0


def merged(files: Sequence[ValidationFile], silent: Sequence[str] = ()) -> tuple[ValidationFile, ...]:
    """One report for each kind of node: the same GPUs, as many, with the same versions.

    The one that stands for its kind is one that refutes something, if any does.

    Args:
        files: one of each node.
        silent: nodes without a report, each with the reason.
    """
    kinds: dict[tuple[object, ...], list[ValidationFile]] = {}
    for file in files:
        machine = file.validation.machine
        key = (machine.device, machine.devices, tuple(sorted(machine.versions.items())))
        kinds.setdefault(key, []).append(file)
    missing = tuple(_("No report of {text}.").format(text=text) for text in silent)
    return tuple(_for_all(alike, missing) for alike in kinds.values())


def _for_all(alike: list[ValidationFile], missing: tuple[str, ...]) -> ValidationFile:
    refuting = [file for file in alike if file.validation.refuted]
    chosen = (refuting or alike)[0]
    machine = chosen.validation.machine.model_copy(update={"nodes": len(alike)})
    notes = (*chosen.notes, *missing)
    if len(alike) > 1:
        notes += (
            _(
                "{alike} nodes of this kind reported, {refuting} of them refuted something; the "
                "figures are those of one node."
            ).format(alike=len(alike), refuting=len(refuting)),
        )
    return chosen.model_copy(
        update={"notes": notes, "validation": chosen.validation.model_copy(update={"machine": machine})}
    )
