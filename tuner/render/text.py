"""The advice as a person reads it: in short, or all of it."""

from collections.abc import Iterator

from tuner.advise import Advice
from tuner.counted import counted
from tuner.hardware import MeasuredGpu
from tuner.memory import Estimate
from tuner.memory.rollout.share import FRACTION_MEANS
from tuner.render.answer import Answer
from tuner.render.bars import chart
from tuner.render.batches import batch_table
from tuner.render.block import block, contributions
from tuner.render.brief import brief
from tuner.render.fitting import unset
from tuner.render.left_out import named
from tuner.render.lengths import images, premise
from tuner.render.numbers import gib, parameters, percent, tokens
from tuner.render.recommendations import recommendations
from tuner.render.releases import not_known
from tuner.render.services import service_rows
from tuner.render.terminal import Terminal, plain
from tuner.render.verdict import verdict
from tuner.workload import RolloutEngine, Workload

_LABEL = 10  # width of the premises' names


def advice_text(answer: Answer, terminal: Terminal, *, full: bool = False, explain: bool = False) -> str:
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
        verdict(advice, terminal, answer.left_out),
        _premises_in_short(answer, terminal),
        chart(advice.estimate, terminal),
        block(advice, terminal, answer.left_out),
        brief(advice, terminal),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _full(answer: Answer, terminal: Terminal, *, explain: bool) -> str:
    advice = answer.advice
    sections = [
        _failed_allocation(answer, terminal),
        verdict(advice, terminal, answer.left_out),
        premises_text(answer, terminal),
        _title("GPU memory by phase, per GPU", terminal) + "\n" + chart(advice.estimate, terminal),
        _aside(advice, terminal),
        _sums(advice, terminal) if explain else "",
        _batches(advice, terminal),
        recommendations(advice, terminal),
        contributions(advice, terminal),
        block(advice, terminal, answer.left_out),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _failed_allocation(answer: Answer, terminal: Terminal) -> str:
    if answer.allocation is None:
        return ""
    from tuner.render.allocation import allocation_text  # few runs ask for it, and it has much behind it

    return allocation_text(answer.allocation, terminal)


def _batches(advice: Advice, terminal: Terminal) -> str:
    title = terminal.style("Batch sizes, in sequences", "bold")
    return f"{title}\n{batch_table(advice.workload, terminal)}"


def _sums(advice: Advice, terminal: Terminal) -> str:
    from tuner.render.explain import explanation  # the same

    return explanation(advice.workload, advice.estimate, terminal)


def _title(text: str, terminal: Terminal) -> str:
    return terminal.style(terminal.prose(text), "bold")


def _premises_in_short(answer: Answer, terminal: Terminal) -> str:
    """What was taken to be so, in a few lines; the reasons are in the full answer."""
    workload = answer.advice.workload
    cluster, engine = workload.cluster, answer.rollout_engine
    nodes = counted(cluster.nodes, "node")
    words = [
        f"{workload.release}, {workload.actor.engine.backend.value}",
        *([f"{engine.name} {engine.version}"] if engine is not None else []),
        f"{workload.model.name} ({parameters(workload.model.parameters)})",
        f"{cluster.gpus} x {cluster.gpu.name} on {nodes}",
    ]
    lines = [terminal.prose(plain("; ".join(words)), indent="    ", first="  ")]
    if answer.advice.releases is not None:
        lines.append(terminal.prose(f"not known: {not_known(answer.advice)}", indent="    ", first="  "))
    if answer.gpu_assumed:
        lines.insert(0, _assumed(answer, terminal))
    if answer.resting:
        lines.append(terminal.prose(f"not set: {unset(answer)}", indent="    ", first="  "))
    lines.append(terminal.prose(f"lengths: {premise(workload.batch)}", indent="    ", first="  "))
    if workload.batch.images is not None:
        seen = images(workload.batch.images)
        lines.append(terminal.prose(f"images: {seen}", indent="    ", first="  "))
    if answer.left_out:
        lines.append(terminal.prose(f"left out: {named(answer.left_out)}", indent="    ", first="  "))
    return "\n".join(lines)


def _assumed(answer: Answer, terminal: Terminal) -> str:
    memory = gib(answer.advice.workload.cluster.gpu.memory_bytes)
    text = terminal.prose(
        f"ASSUMED: no GPU was named and none was found; {memory} are taken. Give --gpu NAME.", indent="  "
    )
    return text.replace("ASSUMED", terminal.style("ASSUMED", "bold", "yellow"), 1)


def premises_text(answer: Answer, terminal: Terminal) -> str:
    """Everything that was taken to be so, with where it comes from."""
    advice = answer.advice
    workload = advice.workload
    cluster = workload.cluster
    model = workload.model
    nodes = counted(cluster.nodes, "node")
    rows = [
        ("trainer", f"{workload.release}, {workload.actor.engine.backend.value} ({answer.release_reason})"),
        *((("not known", not_known(advice)),) if advice.releases is not None else ()),
        *_rollout_engine(answer),
        ("model", f"{model.name}, {parameters(model.parameters)} parameters ({answer.model_reason})"),
    ]
    if workload.critic is not None:
        critic = workload.critic.model
        rows.append(("critic", f"{critic.name}, {parameters(critic.parameters)} parameters"))
    rows += service_rows(workload)
    gpu = f"{cluster.gpus} x {cluster.gpu.name}, {gib(cluster.gpu.capacity_bytes)} each, on {nodes}"
    rows += [
        ("GPUs", f"{gpu} ({answer.gpu_reason}; number from {answer.gpus_reason})"),
        *((("measured", _measured(cluster.gpu.measured)),) if cluster.gpu.measured is not None else ()),
        ("batch", _batch(workload)),
        ("lengths", premise(workload.batch)),
        *((("images", images(workload.batch.images)),) if workload.batch.images is not None else ()),
    ]
    if answer.resting:
        rows.append(("not set", unset(answer)))
    if answer.left_out:
        rows.append(("left out", named(answer.left_out)))
    indent = " " * (_LABEL + 2)
    lines = [terminal.prose(plain(text), indent=indent, first=f"  {name:<{_LABEL}}") for name, text in rows]
    if answer.gpu_assumed:
        lines.insert(0, _assumed(answer, terminal))
    return "\n".join(lines)


def _rollout_engine(answer: Answer) -> Iterator[tuple[str, str]]:
    chosen = answer.rollout_engine
    if chosen is not None:
        yield "engine", f"{chosen.name} {chosen.version} ({chosen.reason})"


_MEASURED = {
    "usable_bytes": "usable memory",
    "context_bytes": "the context of a process",
    "memory_bytes_per_s": "bandwidth of the memory",
    "dense_bf16_flop_per_s": "rate of matrix products",
    "link_bytes_per_s": "bandwidth between GPUs",
    "host_bytes_per_s": "bandwidth to the host",
}


def _measured(measured: MeasuredGpu) -> str:
    """What the GPU's figures are read off, and with what."""
    figures = [text for name, text in _MEASURED.items() if getattr(measured, name) is not None]
    versions = ", ".join(f"{name} {version}" for name, version in measured.versions)
    return f"on such a card on {measured.date} ({versions}): {', '.join(figures)}"


def _batch(workload: Workload) -> str:
    batch = workload.batch
    return (
        f"{counted(batch.prompts, 'prompt')} x {counted(batch.responses_per_prompt, 'response')}, "
        f"mini-batch of {counted(batch.mini_batch_prompts, 'prompt')}, "
        f"up to {tokens(batch.max_prompt_tokens)} + {tokens(batch.max_response_tokens)} tokens"
    )


def _aside(advice: Advice, terminal: Terminal) -> str:
    lines = []
    rollout = advice.rollout
    room, longest = advice.workload.batch.room_tokens, advice.workload.batch.sequence_tokens
    length = "full length" if room == longest else f"{room:,} tokens"
    if rollout.kv_tokens > 0:
        cache = (
            f"KV cache: {gib(rollout.kv_bytes)} hold {rollout.kv_tokens:,} tokens per replica, "
            f"{counted(rollout.concurrent_sequences, 'sequence')} of {length} at a time "
            f"(at most {advice.workload.rollout.max_sequences:,} are admitted)."
        )
        if rollout.preempted_sequences:
            cache += (
                f" When all {rollout.running_sequences:,} that run grow to {length}, "
                f"{rollout.preempted_sequences:,} are preempted and computed again."
            )
        lines.append(terminal.prose(cache, indent="    ", first="  "))
    rollout_engine = advice.workload.rollout
    if rollout_engine.engine is not RolloutEngine.TRANSFORMERS:
        means = FRACTION_MEANS[rollout_engine.fraction_of]
        fraction = f"The engine's memory fraction of {rollout_engine.memory_fraction:.2f} is {means}."
        lines.append(terminal.prose(fraction, indent="    ", first="  "))
    if advice.time.seconds > 0:
        ranked = sorted(advice.time.phases, key=lambda time: time.seconds, reverse=True)
        shares = ", ".join(
            f"{time.phase.value} {percent(time.seconds / advice.time.seconds)}"
            for time in ranked
            if time.seconds >= 0.005 * advice.time.seconds
        )
        lines.append(terminal.prose(f"Step time, modelled: {shares}.", indent="    ", first="  "))
    widest = max(advice.estimate.phases, key=lambda phase: phase.reserved_interval[1])
    kept = widest.reserved_interval[1] - widest.allocated_bytes
    if kept > 0:
        reserved = (
            f"Cache: PyTorch may keep up to {gib(kept)} of freed blocks beyond {widest.phase.value}'s peak, "
            "which nvidia-smi shows as used; a request that fails gets them."
        )
        lines.append(terminal.prose(reserved, indent="    ", first="  "))
    if advice.estimate.host_bytes > 0:
        lines.append(terminal.prose(_host(advice.estimate), indent="    ", first="  "))
    return "\n".join(lines)


def _host(estimate: Estimate) -> str:
    """Host memory of a node, and whether it may be more than there is."""
    limit, most = estimate.host_capacity_bytes, estimate.host_high_bytes
    of = f" of {gib(limit)}" if limit is not None else ""
    text = f"Host memory per node: {gib(estimate.host_bytes)}{of} for offloaded states and copies"
    if most == estimate.host_bytes:
        return f"{text}."
    pinned = f"{text}, up to {gib(most)} where pinned memory is rounded up to powers of two"
    if limit is None or estimate.host_is_short or most <= limit:
        return f"{pinned}."
    return f"{pinned}, which is more than a node has."
