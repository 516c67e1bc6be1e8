"""What an option says of the cards where the launch itself says otherwise: a reader has to know."""

from tuner.consultation.job import JobReading
from tuner.consultation.premises import Premises
from tuner.errors import InputError
from tuner.gpus import find_gpu
from tuner.inputs.slurm import slurm_gpus
from tuner.language import _
from tuner.override_text import override_key


def overruled_number(job: JobReading, premises: Premises) -> str:
    """The number of cards that the launch itself says and an option does not; empty where they agree.

    A launcher's processes have a card each, whatever the option says: then the option is what yields.
    """
    option = "gpu" if job.card.per_node else "gpus_per_node" if premises.gpus_per_node else ""
    said, launched = job.card.per_node or premises.gpus_per_node, job.configuration.processes_per_node
    gpus, default = job.reading.workload.cluster.gpus_per_node, job.loaded.cluster_size()[0]
    if not option or said is None:
        return ""
    name, told = premises.source_of(option), dict(premises.places)  # by the script itself
    if launched is None:
        if gpus == default or (gpus < default and (option in told or not _sets_number(job, gpus))):
            return ""
        text = _("{gpus} of a node, as {option} says; the launch itself asks for {default}")
        return text.format(gpus=gpus, option=name, default=default)
    if launched.told and launched.value != said and option not in told:
        text = _("{gpus} of a node, as {option} says; {text} says {other} ({place})")
        if gpus == launched.value:
            text = _("{other} of a node, by {text} ({place}), whatever {option} says")
        place = launched.location
        return text.format(gpus=gpus, option=name, text=launched.text, other=launched.value, place=place)
    return ""


def _sets_number(job: JobReading, gpus: int) -> bool:
    """Whether the launch sets the key of the number, which a default would be no word of."""
    loaded = job.loaded
    lines = loaded.cluster_overrides(gpus, job.reading.workload.cluster.nodes)
    return any(loaded.settings.is_set(override_key(text)) for text in lines)


def overruled_card(job: JobReading, premises: Premises) -> str:
    """The card that a script itself names where an option names another; empty where it names none."""
    given = job.given
    if premises.gpu is None or "gpu" in dict(premises.places) or not given.program or not given.text:
        return ""
    from tuner.consultation.written_cards import own_card

    asked, own = slurm_gpus(given.text), own_card(given)
    named = asked.name if asked is not None and asked.name else "" if own is None else own.name
    line = asked.line if asked is not None and asked.name else None if own is None else own.place.line
    try:
        other = find_gpu(named) if named else job.card.gpu
    except InputError:  # a cluster has names of its own
        return ""
    if other.name == job.card.gpu.name or line is None:
        return ""
    text = _("{gpu}, as --gpu says; the launch itself names {other} ({place})")
    return text.format(gpu=job.card.gpu.name, other=other.name, place=f"{given.source}:{line}")
