"""What a plan is of, and what it takes to be so: the job, its lengths, the cards and their network."""

from collections.abc import Iterator

from tuner.consultation.planning import PlanAnswer
from tuner.consultation.premises import OPTIONS
from tuner.counted import counted
from tuner.language import _
from tuner.plan.gpus import apart_gpus
from tuner.render.document.marks import user_text
from tuner.render.document.parts import Paragraph, Part
from tuner.render.left_out import named
from tuner.render.lengths import premise
from tuner.render.numbers import parameters
from tuner.render.words import clauses, listed, titled, with_note
from tuner.units import BITS, GIGA
from tuner.workload import Workload


def premises_of(answer: PlanAnswer) -> Iterator[Part]:
    """What was planned, and what was taken to be so."""
    workload, engine = answer.job.reading.workload, answer.job.rollout_engine
    words = [
        listed([with_note(str(workload.release), answer.job.release.reason), workload.actor.engine.name]),
        *([f"{engine.name} {engine.version}"] if engine is not None else []),
        with_note(workload.model.name, parameters(workload.model.parameters)),
    ]
    yield Paragraph(text=user_text(titled(_("plan"), clauses(words))), further=1)
    if answer.job.card.assumed:
        text = _("no GPU was named and none was found; {gpu} is taken. Give --gpu NAME.")
        yield Paragraph(text=text.format(gpu=workload.cluster.gpu.name), level=1)
    if answer.job.left_out:
        text = titled(_("left out"), named(answer.job.left_out))
        yield Paragraph(text=user_text(text), level=1, further=1)
    yield Paragraph(text=user_text(titled(_("job"), _job(workload))), level=1, further=1)
    yield Paragraph(text=titled(_("lengths"), premise(workload, _of_run(answer))), level=1, further=1)
    if apart := apart_gpus(workload):
        text = _("{gpus} beside the trainer's are as the settings have them, and are counted in GPU-hours.")
        yield Paragraph(text=text.format(gpus=counted(apart, "GPU")), level=1)
    yield from _networks(answer)
    if answer.held:
        yield Paragraph(text=user_text(titled(_("held"), listed(answer.held))), level=1, further=1)


def _job(workload: Workload) -> str:
    """What a step learns from, and which models it does so with."""
    batch, critic, lora = workload.batch, workload.critic, workload.actor.engine.lora
    if workload.rollout is None:
        text = _("{sequences:,} sequences a step, up to {most:,} tokens")
        words = [text.format(sequences=batch.prompts, most=batch.sequence_tokens)]
    else:
        text = _("{prompts:,} prompts x {responses} a step, mini-batches of {mini:,}, up to {most} tokens")
        words = [
            text.format(
                prompts=batch.prompts,
                responses=batch.responses_per_prompt,
                mini=batch.mini_batch_prompts,
                most=f"{batch.max_prompt_tokens:,} + {batch.max_response_tokens:,}",
            )
        ]
    if lora is not None:
        words.append(_("LoRA of rank {rank}").format(rank=lora.rank))
    if critic is not None:
        text = _("a critic, {model}")
        words.append(text.format(model=with_note(critic.model.name, parameters(critic.model.parameters))))
    if workload.reference is not None:
        words.append(_("a reference model"))
    return clauses(words)


def _of_run(answer: PlanAnswer) -> tuple[str, ...]:
    """Names of the lengths that nobody gave and the job has: the log of a run tells them."""
    lengths = answer.job.reading.workload.batch.lengths
    known = (name for name in lengths.__struct_fields__ if getattr(lengths, name) is not None)
    return tuple(name for name in known if getattr(answer.premises, name, lengths) is None)


def _networks(answer: PlanAnswer) -> Iterator[Part]:
    """The network between nodes, for every card of which several nodes were planned."""
    rates = {
        (row.cluster.gpu.name, row.cluster.network_bytes_per_s, row.cluster.network_assumed): None
        for row in answer.rows
        if row.cluster.nodes > 1
    }
    for card, rate, assumed in rates:
        known = _("{card}: {rate:,.4g} Gb/s for each GPU between nodes")
        guess = _("{card}: {rate:,.4g} Gb/s for each GPU between nodes (assumed); give {option}")
        text = (guess if assumed else known).format(
            card=card, rate=rate * BITS / GIGA, option=OPTIONS["network"]
        )
        yield Paragraph(text=titled(_("network"), text), level=1, further=1)
