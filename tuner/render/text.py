"""The advice as a person reads it: in short, or all of it."""

import re
from collections.abc import Iterator

from tuner.advise import Advice
from tuner.consultation.result import Consultation
from tuner.counted import counted
from tuner.hardware import Cluster, MeasuredGpu
from tuner.language import N_, _
from tuner.memory import Estimate, RolloutMemory
from tuner.memory.rollout.share import FRACTION_MEANS
from tuner.render.bars import chart
from tuner.render.block import block, contributions
from tuner.render.brief import brief
from tuner.render.columns import left
from tuner.render.fitting import unset
from tuner.render.input_notes import lost, not_followed, open_values, project_options, remarks
from tuner.render.left_out import named
from tuner.render.lengths import images, premise
from tuner.render.named_in_paths import named_in_paths
from tuner.render.numbers import gib, parameters, tokens
from tuner.render.recommendations import recommendations
from tuner.render.releases import not_known
from tuner.render.terminal import Terminal, plain
from tuner.render.verdict import verdict
from tuner.render.words import clauses, full_stop, listed, titled, with_note
from tuner.units import BITS, GIGA
from tuner.workload import RolloutEngine, Workload

_LABEL = 10  # width of the premises' names
_NOT_FOLLOWED = 3  # things that are not run, in short
_BUNDLED = re.compile(r"\bconfig\.json of (?P<model>\S+) on (?P<site>\S+)")  # where a bundled model's stands


def advice_text(
    answer: Consultation, terminal: Terminal, *, full: bool = False, explain: bool = False
) -> str:
    """The answer in short: verdict, phases, what to paste, three findings.

    Args:
        answer: to be told.
        terminal: where.
        full: all premises, findings and prices instead.
        explain: the sum of every phase, written out, as well.
    """
    if full or explain:
        return _full(answer, terminal, explain=explain)
    advice = answer.advice
    sections = [
        _failed_allocation(answer, terminal),
        verdict(advice, terminal, answer.left_out, node_said=answer.node_said),
        _premises_in_short(answer, terminal),
        chart(advice.estimate, terminal),
        _observed(answer, terminal),
        block(advice, terminal, answer.left_out),
        brief(advice, terminal),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _full(answer: Consultation, terminal: Terminal, *, explain: bool) -> str:
    advice = answer.advice
    sections = [
        _failed_allocation(answer, terminal),
        verdict(advice, terminal, answer.left_out, node_said=answer.node_said),
        premises_text(answer, terminal),
        _title(_("GPU memory by phase, per GPU"), terminal) + "\n" + chart(advice.estimate, terminal),
        _aside(advice, terminal),
        _observed(answer, terminal),
        _sums(advice, terminal) if explain else "",
        _batches(advice, terminal),
        recommendations(advice, terminal),
        contributions(advice, terminal),
        block(advice, terminal, answer.left_out),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _failed_allocation(answer: Consultation, terminal: Terminal) -> str:
    if answer.allocation is None:
        return ""
    from tuner.render.allocation import allocation_parts  # few runs ask for it, and it has much behind it
    from tuner.render.document.parts import AnswerDocument
    from tuner.render.document.terminal import terminal_text

    section = tuple(allocation_parts(answer.allocation))
    return terminal_text(AnswerDocument(sections=(section,)), terminal).rstrip()


def _observed(answer: Consultation, terminal: Terminal) -> str:
    if answer.given.log is None:
        return ""
    from tuner.render.observations import observed_text  # no other input asks for it

    return observed_text(answer, terminal)


def _batches(advice: Advice, terminal: Terminal) -> str:
    from tuner.render.batches import batch_table  # an answer in short has none of it

    title = terminal.style(_("Batch sizes, in sequences"), "bold")
    return f"{title}\n{batch_table(advice.workload, terminal)}"


def _sums(advice: Advice, terminal: Terminal) -> str:
    from tuner.render.explain import explanation  # the same

    return explanation(advice.workload, advice.estimate, terminal)


def _title(text: str, terminal: Terminal) -> str:
    return terminal.style(terminal.prose(text), "bold")


def _premises_in_short(answer: Consultation, terminal: Terminal) -> str:
    """What was taken to be so, in a few lines; the reasons are in the full answer."""
    workload = answer.advice.workload
    cluster, engine = workload.cluster, answer.rollout_engine
    nodes = counted(cluster.nodes, "node")
    words = [
        listed([str(workload.release), workload.actor.engine.backend.value]),
        *([f"{engine.name} {engine.version}"] if engine is not None else []),
        with_note(workload.model.name, parameters(workload.model.parameters)),
        _("{gpus} x {gpu} on {nodes}").format(gpus=cluster.gpus, gpu=cluster.gpu.name, nodes=nodes),
    ]
    lines = [terminal.prose(plain(clauses(words)), indent="    ", first="  ")]
    if answer.advice.releases is not None:
        lines.append(
            terminal.prose(
                titled(_("not known"), not_known(answer.advice)),
                indent="    ",
                first="  ",
            )
        )
    if answer.gpu_assumed:
        lines.insert(0, _assumed(answer, terminal))
    lines += [
        terminal.prose(plain(titled(_("model"), text)), indent="    ", first="  ")
        for text in named_in_paths(workload)
    ]
    if answer.resting:
        lines.append(terminal.prose(titled(_("not set"), unset(answer)), indent="    ", first="  "))
    for name, text in (
        *_settled(answer),
        *_network(cluster),
        *_basis(answer),
        *_of_script(answer, most=_NOT_FOLLOWED),
    ):
        lines.append(terminal.prose(titled(name, text), indent="    ", first="  "))
    lines.append(
        terminal.prose(titled(_("lengths"), premise(workload, answer.of_run)), indent="    ", first="  ")
    )
    if workload.batch.images is not None:
        seen = images(workload.batch.images)
        lines.append(terminal.prose(titled(_("images"), seen), indent="    ", first="  "))
    if answer.left_out:
        lines.append(terminal.prose(titled(_("left out"), named(answer.left_out)), indent="    ", first="  "))
    return "\n".join(lines)


def _assumed(answer: Consultation, terminal: Terminal) -> str:
    assumed = _("ASSUMED")
    memory = gib(answer.advice.workload.cluster.gpu.memory_bytes)
    text = terminal.prose(
        titled(
            assumed,
            _("no GPU was named and none was found; {memory} are taken. Give --gpu NAME.").format(
                memory=memory
            ),
        ),
        indent="  ",
    )
    return text.replace(assumed, terminal.style(assumed, "bold", "yellow"), 1)


def premises_text(answer: Consultation, terminal: Terminal) -> str:
    """Everything that was taken to be so, with where it comes from."""
    from tuner.render.services import service_rows  # as batches: not in short

    advice = answer.advice
    workload = advice.workload
    cluster = workload.cluster
    model = workload.model
    nodes = counted(cluster.nodes, "node")
    rows = [
        (
            _("trainer"),
            _("{release}, {backend} ({reason})").format(
                release=workload.release,
                backend=workload.actor.engine.backend.value,
                reason=answer.release_reason,
            ),
        ),
        *(((_("not known"), not_known(advice)),) if advice.releases is not None else ()),
        *_rollout_engine(answer),
        (
            _("model"),
            _("{model}, {parameters} parameters ({model_reason})").format(
                model=model.name, parameters=parameters(model.parameters), model_reason=_model_reason(answer)
            ),
        ),
    ]
    if workload.critic is not None:
        critic = workload.critic.model
        rows.append(
            (
                _("critic"),
                _("{critic}, {parameters} parameters").format(
                    critic=critic.name, parameters=parameters(critic.parameters)
                ),
            )
        )
    rows += service_rows(workload)
    gpu = _("{gpus} x {gpu}, {capacity} each, on {nodes}").format(
        gpus=cluster.gpus, gpu=cluster.gpu.name, capacity=gib(cluster.gpu.capacity_bytes), nodes=nodes
    )
    rows += [
        (
            _("GPUs"),
            _("{gpu} ({gpu_reason}; number from {gpus_reason})").format(
                gpu=gpu, gpu_reason=answer.gpu_reason, gpus_reason=answer.gpus_reason
            ),
        ),
        *_settled(answer),
        *(((_("measured"), _measured(cluster.gpu.measured)),) if cluster.gpu.measured is not None else ()),
        *_network(cluster),
        (_("batch"), _batch(workload)),
        (_("lengths"), premise(workload, answer.of_run)),
        *(((_("images"), images(workload.batch.images)),) if workload.batch.images is not None else ()),
    ]
    rows += _of_script(answer)
    if answer.given.remarks:
        rows.append((_("script"), remarks(answer.given)))
    if answer.resting:
        rows.append((_("not set"), unset(answer)))
    if answer.left_out:
        rows.append((_("left out"), named(answer.left_out)))
    indent = " " * (_LABEL + 2)
    lines = [
        terminal.prose(plain(text), indent=indent, first=f"  {left(name, _LABEL)}") for name, text in rows
    ]
    if answer.gpu_assumed:
        lines.insert(0, _assumed(answer, terminal))
    return "\n".join(lines)


def _settled(answer: Consultation) -> Iterator[tuple[str, str]]:
    """What the settings of the project say in place of options."""
    if answer.from_project:
        yield _("settings"), project_options(answer.from_project)


def _network(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """What is taken of the network, where the job needs one."""
    if cluster.nodes < 2:
        return
    rate = cluster.network_bytes_per_s * BITS / GIGA
    text = _("{rate:,.4g} Gb/s for each GPU (assumed); give --network")
    known = _("{rate:,.4g} Gb/s for each GPU")
    yield _("network"), (text if cluster.network_assumed else known).format(rate=rate)


def _basis(answer: Consultation) -> Iterator[tuple[str, str]]:
    """What the settings rest on, where that is not the trainer as it was released."""
    settings = answer.settings
    if settings.program is not None:
        yield _("project"), settings.program.name
    if settings.default_origin.location is not None:
        yield _("laid on"), str(settings.default_origin.location)


def _of_script(answer: Consultation, *, most: int | None = None) -> Iterator[tuple[str, str]]:
    """What a launch script loses, what it leaves open, and what of the reading rests on what is not run."""
    for name, text in ((_("LOST"), lost(answer.given)), (_("open"), open_values(answer.given))):
        if text:
            yield name, plain(text)
    for text in not_followed(answer.given, most=most):
        yield _("script"), plain(text)


def _rollout_engine(answer: Consultation) -> Iterator[tuple[str, str]]:
    chosen = answer.rollout_engine
    if chosen is not None:
        text = _("{name} {version} ({reason})")
        yield _("engine"), text.format(name=chosen.name, version=chosen.version, reason=chosen.reason)


_MEASURED = {
    "usable_bytes": N_("usable memory"),
    "context_bytes": N_("the context of a process"),
    "memory_bytes_per_s": N_("bandwidth of the memory"),
    "dense_bf16_flop_per_s": N_("rate of matrix products"),
    "link_bytes_per_s": N_("bandwidth between GPUs"),
    "host_bytes_per_s": N_("bandwidth to the host"),
    "products_factor": N_("products of a layer"),
    "attention_factor": N_("attention"),
    "elementwise_factor": N_("element-wise kernels"),
    "head_factor": N_("the output projection"),
    "host_factor": N_("launching on the host"),
    "engine_factor": N_("the rollout engine's work on the host"),
    "engine_sequence_factor": N_("the same for each sequence"),
}


def _measured(measured: MeasuredGpu) -> str:
    """What the GPU's figures are read off, and with what."""
    figures = [_(text) for name, text in _MEASURED.items() if getattr(measured, name) is not None]
    versions = listed(f"{name} {version}" for name, version in measured.versions)
    return _("on such a card on {date} ({versions}): {figures}").format(
        date=measured.date, versions=versions, figures=listed(figures)
    )


def _batch(workload: Workload) -> str:
    batch = workload.batch
    if workload.rollout is None:
        return _("{sequences} of up to {most} tokens").format(
            sequences=counted(batch.sequences, "sequence"), most=tokens(batch.sequence_tokens)
        )
    return _(
        "{prompts} x {responses}, mini-batch of {mini_prompts}, up to {max_prompt_tokens} + "
        "{max_response_tokens} tokens"
    ).format(
        prompts=counted(batch.prompts, "prompt"),
        responses=counted(batch.responses_per_prompt, "response"),
        mini_prompts=counted(batch.mini_batch_prompts, "prompt"),
        max_prompt_tokens=tokens(batch.max_prompt_tokens),
        max_response_tokens=tokens(batch.max_response_tokens),
    )


def _engine_memory(rollout: RolloutMemory, advice: Advice, terminal: Terminal) -> list[str]:
    """The KV cache of the rollout engine, and what its memory fraction is a share of."""
    lines = []
    room, longest = advice.workload.batch.room_tokens, advice.workload.batch.sequence_tokens
    length = _("full length") if room == longest else _("{room:,} tokens").format(room=room)
    if rollout.kv_tokens > 0:
        cache = _(
            "KV cache: {kv} hold {kv_tokens:,} tokens per replica, {sequences} of {length} at a time (at "
            "most {max_sequences:,} are admitted)."
        ).format(
            kv=gib(rollout.kv_bytes),
            kv_tokens=rollout.kv_tokens,
            sequences=counted(rollout.concurrent_sequences, "sequence"),
            length=length,
            max_sequences=advice.workload.generator.max_sequences,
        )
        if rollout.preempted_sequences:
            cache += _(
                " When all {running_sequences:,} that run grow to {length}, {preempted_sequences:,} "
                "are preempted and computed again."
            ).format(
                running_sequences=rollout.running_sequences,
                length=length,
                preempted_sequences=rollout.preempted_sequences,
            )
        lines.append(terminal.prose(cache, indent="    ", first="  "))
    rollout_engine = advice.workload.generator
    if rollout_engine.engine is not RolloutEngine.TRANSFORMERS:
        means = FRACTION_MEANS[rollout_engine.fraction_of]
        fraction = _("The engine's memory fraction of {memory_fraction:.2f} is {means}.").format(
            memory_fraction=rollout_engine.memory_fraction, means=_(means)
        )
        lines.append(terminal.prose(fraction, indent="    ", first="  "))
    return lines


def _aside(advice: Advice, terminal: Terminal) -> str:
    lines = [] if advice.rollout is None else _engine_memory(advice.rollout, advice, terminal)
    lines += filter(None, [_seconds(advice, terminal), _saving(advice, terminal)])
    widest = max(advice.estimate.phases, key=lambda phase: phase.reserved_interval[1])
    kept = widest.reserved_interval[1] - widest.allocated_bytes
    if kept > 0:
        reserved = _(
            "Cache: PyTorch may keep up to {kept} of freed blocks beyond {phase}'s peak, which "
            "nvidia-smi shows as used; a request that fails gets them."
        ).format(kept=gib(kept), phase=widest.phase.value)
        lines.append(terminal.prose(reserved, indent="    ", first="  "))
    if advice.estimate.host_bytes > 0:
        lines.append(terminal.prose(_host(advice.estimate), indent="    ", first="  "))
    return "\n".join(lines)


def _seconds(advice: Advice, terminal: Terminal) -> str:
    from tuner.render.step_seconds import step_seconds  # the short answer has none of it

    return step_seconds(advice, terminal)


def _saving(advice: Advice, terminal: Terminal) -> str:
    if advice.saving is None:
        return ""
    from tuner.render.saving_seconds import saving_seconds  # as the seconds of a step

    return saving_seconds(advice, terminal)


def _model_reason(answer: Consultation) -> str:
    """Which option or key named the model, and where its dimensions stand."""
    return _BUNDLED.sub(
        lambda match: _("config.json of {model} on {site}").format(**match.groupdict()), answer.model_reason
    )


def _host(estimate: Estimate) -> str:
    """Host memory of a node, and whether it may be more than there is."""
    limit, most = estimate.host_capacity_bytes, estimate.host_high_bytes
    host = gib(estimate.host_bytes)
    if limit is None:
        text = _("Host memory per node: {host} for offloaded states and copies").format(host=host)
    else:
        text = _("Host memory per node: {host} of {limit} for offloaded states and copies").format(
            host=host, limit=gib(limit)
        )
    if most == estimate.host_bytes:
        return full_stop(text)
    pinned = _("{text}, up to {most} where pinned memory is rounded up to powers of two").format(
        text=text, most=gib(most)
    )
    if limit is None or estimate.host_is_short or most <= limit:
        return full_stop(pinned)
    return _("{pinned}, which is more than a node has.").format(pinned=pinned)
