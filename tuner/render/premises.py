"""What an answer takes to be so: in a few lines, or all of it with where each comes from."""

import re
from collections.abc import Iterator

from tuner.advise import Advice
from tuner.architectures import find_architecture
from tuner.consultation.result import Consultation
from tuner.counted import counted
from tuner.hardware import Cluster, MeasuredGpu
from tuner.language import N_, _
from tuner.render.document.marks import Mark, marked, user_text
from tuner.render.document.parts import Facts, Paragraph, Part
from tuner.render.fitting import unset
from tuner.render.input_notes import lost, not_followed, project_options, remarks
from tuner.render.left_out import named
from tuner.render.lengths import images, premise
from tuner.render.numbers import gib, parameters, tokens
from tuner.render.releases import not_known
from tuner.render.terminal import plain
from tuner.render.words import clauses, listed, titled, with_note
from tuner.shown_paths import shown_path
from tuner.units import BITS, GIGA
from tuner.workload import Workload

_LABEL = 10  # width of the premises' names
_OWN_KEYS = 6  # of a copy of the trainer that are named
_NOT_FOLLOWED = 3  # things that are not run, in short
_BUNDLED = re.compile(r"\bconfig\.json of (?P<model>\S+) on (?P<site>\S+)")  # where a bundled model's stands

Rows = Iterator[tuple[str, str]]


def premises_in_short(answer: Consultation) -> Iterator[Part]:
    """What was taken to be so, in a few lines; the reasons are in the full answer."""
    if answer.gpu_assumed:
        yield _assumed(answer)
    yield Paragraph(text=user_text(_job(answer)), level=1, further=1)
    for name, text in dict.fromkeys(_short_rows(answer)):  # of actor and critic alike
        yield Paragraph(text=titled(name, user_text(text)), level=1, further=1)


def _job(answer: Consultation) -> str:
    """The trainer, its engine, the model and the cards."""
    workload, engine = answer.advice.workload, answer.rollout_engine
    cluster = workload.cluster
    nodes = counted(cluster.nodes, "node")
    words = [
        listed([_release(answer), workload.actor.engine.name]),
        *([f"{engine.name} {engine.version}"] if engine is not None else []),
        with_note(workload.model.name, parameters(workload.model.parameters)),
        _("{gpus} x {gpu} on {nodes}").format(gpus=cluster.gpus, gpu=cluster.gpu.name, nodes=nodes),
    ]
    return clauses(words)


def _release(answer: Consultation) -> str:
    """The trainer and its version; of a tree that is read, what the tree says, and whose checks are used."""
    release, base = answer.advice.workload.release, answer.loaded.base
    own = base.checkout
    if not own:
        return str(release)
    if base.installed:
        return _("{trainer} {own} (installed; checks of {version})").format(
            trainer=release.trainer, own=own, version=release.version
        )
    if own == release.version:
        return _("{release} (this checkout)").format(release=release)
    return _("{trainer} {own} (this checkout; checks of {version})").format(
        trainer=release.trainer, own=own, version=release.version
    )


def _short_rows(answer: Consultation) -> Rows:
    workload = answer.advice.workload
    if answer.gpus_note:
        yield _("GPUs"), plain(answer.gpus_note)
    yield from _of_release(answer)
    yield from _passed_over(answer)
    yield from _of_copy(answer)
    yield from _named_in_paths(workload)
    if answer.advice.time.apart:
        from tuner.render.step_seconds import at_once  # few jobs generate on GPUs of their own

        yield _("at once"), at_once(answer.advice)
    yield from _unset(answer)
    yield from _project_settings(answer)
    yield from _network(workload.cluster)
    yield from _basis(answer)
    yield from _of_script(answer, most=_NOT_FOLLOWED)
    yield from _sequences(answer)
    yield from _left_out(answer)


def premises(answer: Consultation) -> Iterator[Part]:
    """Everything that was taken to be so, with where it comes from."""
    if answer.gpu_assumed:
        yield _assumed(answer)
    yield Facts(rows=tuple((name, user_text(text)) for name, text in _full_rows(answer)), width=_LABEL)


def _full_rows(answer: Consultation) -> Rows:
    from tuner.render.services import service_rows  # not in short

    workload = answer.advice.workload
    cluster = workload.cluster
    yield (
        _("trainer"),
        _("{release}, {backend} ({reason})").format(
            release=_release(answer),
            backend=workload.actor.engine.name,
            reason=answer.release_reason,
        ),
    )
    yield from _of_release(answer)
    yield from _of_copy(answer)
    yield from _rollout_engine(answer)
    yield from _passed_over(answer)
    yield from _models(answer)
    yield from service_rows(workload)
    yield _("GPUs"), _gpus(answer)
    if answer.gpus_note:
        yield _("GPUs"), plain(answer.gpus_note)
    yield from _project_settings(answer)
    if cluster.gpu.measured is not None:
        yield _("measured"), _measured_figures(cluster.gpu.measured)
    yield from _network(cluster)
    yield _("batch"), _batch(answer.advice)
    yield from _sequences(answer)
    yield from _of_script(answer)
    if answer.given.remarks:
        yield _("script"), remarks(answer.given)
    yield from _unset(answer)
    yield from _left_out(answer)


def _assumed(answer: Consultation) -> Paragraph:
    gpu, device = answer.advice.workload.cluster.gpu, answer.loaded.card_vendor
    text = _("no GPU was named and none was found; {memory} are taken. Give --gpu NAME.")
    if device == gpu.vendor:
        text = _("the launch is for cards of {vendor} and none was named; {gpu} is taken. Give --gpu NAME.")
    elif device is not None:
        text = _(
            "the launch is for the device {device}, of which no card is known: the figures are those of "
            "{gpu}. Give --gpu FILE."
        )
    if answer.gpu_size_said:
        text = _("of the card its size alone is known; {reason}. Give --gpu NAME.")
    said = text.format(
        memory=gib(gpu.memory_bytes),
        reason=answer.gpu_reason,
        gpu=gpu.name,
        vendor=gpu.vendor.capitalize(),
        device=plain(device or ""),
    )
    shown = titled(marked(_("ASSUMED"), Mark.DOUBTFUL), said)
    return Paragraph(text=shown, level=1)


def _of_release(answer: Consultation) -> Rows:
    if answer.advice.releases is not None:
        yield _("not known"), not_known(answer.advice)


def _of_copy(answer: Consultation) -> Rows:
    """The keys of the launch of which no release tells what they do."""
    keys = answer.loaded.keys_of_copy()
    if not keys:
        return
    names, further = listed(keys[:_OWN_KEYS]), len(keys) - _OWN_KEYS
    if further > 0:
        names = _("{names} and {further} more").format(names=names, further=further)
    text = _("keys of {copy} alone: {keys}").format(copy=answer.settings.defaults_of, keys=names)
    yield _("not modelled"), plain(text)


def _models(answer: Consultation) -> Rows:
    workload = answer.advice.workload
    model = workload.model
    text = _("{model}, {parameters} parameters ({model_reason})")
    yield (
        _("model"),
        text.format(
            model=model.name, parameters=parameters(model.parameters), model_reason=_model_reason(answer)
        ),
    )
    if workload.critic is not None:
        critic = workload.critic.model
        text = _("{critic}, {parameters} parameters")
        yield _("critic"), text.format(critic=critic.name, parameters=parameters(critic.parameters))


def _gpus(answer: Consultation) -> str:
    cluster = answer.advice.workload.cluster
    gpu = _("{gpus} x {gpu}, {capacity} each, on {nodes}").format(
        gpus=cluster.gpus,
        gpu=cluster.gpu.name,
        capacity=gib(cluster.gpu.capacity_bytes),
        nodes=counted(cluster.nodes, "node"),
    )
    return _("{gpu} ({gpu_reason}; number from {gpus_reason})").format(
        gpu=gpu, gpu_reason=answer.gpu_reason, gpus_reason=answer.gpus_reason
    )


def _sequences(answer: Consultation) -> Rows:
    workload = answer.advice.workload
    yield _("lengths"), premise(workload, answer.of_run)
    if workload.batch.images is not None:
        yield _("images"), images(workload.batch.images)
    elif _may_see(workload) and not any(part.name == _("the images") for part in answer.left_out):
        yield _("images"), _("none assumed, as no setting names them; give --images-per-prompt")


def _may_see(workload: Workload) -> bool:
    """Whether the model sees images beside text, and nobody said whether prompts have any."""
    unsaid = workload.rollout is not None and workload.batch.lengths.images_per_prompt is None
    return unsaid and find_architecture(workload.model.architecture).sees_beside_text


def _named_in_paths(workload: Workload) -> Rows:
    """The models, of the actor and of the critic, that were told by a longer name that contains theirs."""
    text = _("{model} is taken, whose name stands in {part}; --model NAME where it is another")
    for model in dict.fromkeys([workload.model, *([workload.critic.model] if workload.critic else [])]):
        if model.contained_in:
            yield _("model"), text.format(model=model.name, part=model.contained_in)


def _unset(answer: Consultation) -> Rows:
    """The values that nobody set, where any decides."""
    if answer.resting:
        yield _("not set"), unset(answer)


def _left_out(answer: Consultation) -> Rows:
    if answer.left_out:
        yield _("left out"), named(answer.left_out)


def _project_settings(answer: Consultation) -> Rows:
    """What the settings of the project say in place of options."""
    if answer.from_project:
        yield _("settings"), project_options(answer.from_project)


def _network(cluster: Cluster) -> Rows:
    """What is taken of the network, where the job needs one."""
    if cluster.nodes < 2:
        return
    rate = cluster.network_bytes_per_s * BITS / GIGA
    text = _("{rate:,.4g} Gb/s for each GPU (assumed); give --network")
    known = _("{rate:,.4g} Gb/s for each GPU")
    yield _("network"), (text if cluster.network_assumed else known).format(rate=rate)


def _basis(answer: Consultation) -> Rows:
    """What the settings rest on, where that is not the trainer as it was released."""
    settings = answer.settings
    if settings.program is not None:
        yield _("project"), settings.program.name
    if answer.loaded.base.laid_on:
        yield _("laid on"), shown_path(answer.loaded.base.laid_on)
    if settings.default_origin.location is not None:
        yield _("laid on"), str(settings.default_origin.location)
    if lacks := answer.loaded.base.lacks:
        text = _(
            "{sections}, whose files are not in this checkout, without which Hydra stops: taken from the "
            "generated configuration beside them"
        )
        yield _("not here"), text.format(sections=listed(lacks))


def _of_script(answer: Consultation, *, most: int | None = None) -> Rows:
    """What a launch script loses, what it leaves open, and what of the reading rests on what is not run."""
    given = answer.given
    if given.lost:
        yield _("LOST"), plain(lost(given))
    if given.unsettled or given.open_paths or given.alternatives:
        # Most inputs leave nothing open.
        from tuner.render.open_settings import open_settings, other_ways, without_other_ways

        text = open_settings(answer, short=most is not None)
        if text:
            yield _("open"), plain(text)
        for text in other_ways(answer):
            yield _("other way"), plain(text)
        if most is not None:  # a full answer has the whole sentences as well
            given = without_other_ways(answer)
    for text in not_followed(given, most=most):
        yield _("script"), plain(text)


def _rollout_engine(answer: Consultation) -> Rows:
    chosen = answer.rollout_engine
    if chosen is not None:
        text = _("{name} {version} ({reason})")
        yield _("engine"), text.format(name=chosen.name, version=chosen.version, reason=chosen.reason)


def _passed_over(answer: Consultation) -> Rows:
    """The engine that files ask for, where the trainer does not start with it."""
    chosen = answer.rollout_engine
    if chosen is not None and chosen.passed_over:
        yield _("engine"), plain(chosen.passed_over)


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


def _measured_figures(measured: MeasuredGpu) -> str:
    """What the GPU's figures are read off, and with what."""
    figures = [_(text) for name, text in _MEASURED.items() if getattr(measured, name) is not None]
    versions = listed(f"{name} {version}" for name, version in measured.versions)
    return _("on such a card on {date} ({versions}): {figures}").format(
        date=measured.date, versions=versions, figures=listed(figures)
    )


def _batch(advice: Advice) -> str:
    workload, batch = advice.workload, advice.workload.batch
    if workload.rollout is None:
        return _("{sequences} of up to {most} tokens").format(
            sequences=counted(batch.sequences, "sequence"), most=tokens(batch.sequence_tokens)
        )
    words = _sizes(advice)
    if batch.engine_tokens is None:
        return words
    return _("{words}, at most {most} together, where the rollout engine ends them").format(
        words=words, most=tokens(batch.engine_tokens)
    )


def _sizes(advice: Advice) -> str:
    """Prompts, responses and lengths; mini-batches where something is trained."""
    batch = advice.workload.batch
    sizes = {
        "prompts": counted(batch.prompts, "prompt"),
        "responses": counted(batch.responses_per_prompt, "response"),
        "max_prompt_tokens": tokens(batch.max_prompt_tokens),
        "max_response_tokens": tokens(batch.max_response_tokens),
    }
    if advice.validates_only:
        return _("{prompts} x {responses}, up to {max_prompt_tokens} + {max_response_tokens} tokens").format(
            **sizes
        )
    return _(
        "{prompts} x {responses}, mini-batch of {mini_prompts}, up to {max_prompt_tokens} + "
        "{max_response_tokens} tokens"
    ).format(mini_prompts=counted(batch.mini_batch_prompts, "prompt"), **sizes)


def _model_reason(answer: Consultation) -> str:
    """Which option or key named the model, and where its dimensions stand."""
    return _BUNDLED.sub(
        lambda match: _("config.json of {model} on {site}").format(**match.groupdict()), answer.model_reason
    )
