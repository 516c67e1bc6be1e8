"""How long sequences are, in words: what was given and what is assumed."""

from tuner.advise import Advice
from tuner.render.numbers import tokens
from tuner.workload import Batch, Images


def premise(batch: Batch) -> str:
    """The lengths that the answer rests on, and the options that would make it sharper."""
    lengths = batch.lengths
    words = []
    missing = []
    for mean, kind, option, average in (
        (lengths.mean_prompt, "prompt", "--mean-prompt-length", batch.mean_prompt_tokens),
        (lengths.mean_response, "response", "--mean-response-length", batch.mean_response_tokens),
    ):
        words.append(f"mean {kind} {tokens(round(average))} ({option if mean is not None else 'assumed'})")
        missing += [] if mean is not None else [option]
    if lengths.mean_prompt is None and lengths.mean_response is None and lengths.response_p95 is None:
        halves = f"{tokens(round(batch.mean_prompt_tokens))} + {tokens(round(batch.mean_response_tokens))}"
        return f"half of the maxima assumed ({halves}); give --mean-response-length"
    if lengths.response_p95 is not None:
        words.append(f"95 % of responses up to {tokens(lengths.response_p95)} (--response-p95)")
    return ", ".join(words) + (f"; give {' and '.join(missing)}" if missing else "")


def images(found: Images) -> str:
    """The images that the answer rests on, what is assumed of them, and the options that would say it."""
    number = f"{found.per_prompt:,} of {found.pixels:,} pixels" + (" each" if found.per_prompt > 1 else "")
    size = f"{number}, {tokens(found.tokens)} tokens of a prompt"
    if not found.assumed:
        return size
    least, most = tokens(found.least_tokens), tokens(found.most_tokens)
    return f"{size}, assumed ({least} to {most}); give --image-pixels"


def average(advice: Advice) -> str:
    """The mean length up to which the job fits, beside that of its sequences where it is known."""
    batch, known = advice.workload.batch, advice.workload.batch.known_mean_tokens
    assert advice.mean_tokens is not None  # else no length decides
    may = f"sequences may average {advice.mean_tokens:,} of at most {batch.sequence_tokens:,} tokens"
    if known is None:
        return may
    does = f"{may}, and average {known:,.0f}"
    return does if known > advice.mean_tokens else f"{does}, so it fits while they stay so"
