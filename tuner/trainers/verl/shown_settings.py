"""Settings that the metrics of verl's steps show: the GPUs of a job, and the prompts of a step.

Source: verl ``trainer/ppo/metric_utils.py`` (``compute_throughout_metrics``: ``perf/throughput`` is
``perf/total_num_tokens`` over ``perf/time_per_step`` and the GPUs; ``compute_data_metrics``: the mean lengths
are those of all sequences that the tokens are counted of).
"""

from collections.abc import Sequence

from tuner.inputs.log.metrics import StepMetrics
from tuner.trainers.protocol import Loaded, ShownSetting

_TOKENS, _SECONDS, _THROUGHPUT = "perf/total_num_tokens", "perf/time_per_step", "perf/throughput"
_LENGTHS = ("prompt_length/mean", "response_length/mean")
_OF_A_NODE = 8  # GPUs, where a job has more
_ROUNDED = 0.02  # by which a quotient of printed figures may miss a whole number


def shown_settings(steps: Sequence[StepMetrics], loaded: Loaded) -> tuple[ShownSetting, ...]:
    """The numbers of GPUs and nodes, and of prompts, where the metrics of a step tell each as a whole one."""
    shown: list[ShownSetting] = []
    gpus = _whole_number([_gpus(step) for step in steps])
    if gpus is not None:
        per_node = loaded.cluster_size()[0] if loaded.settings.is_set("trainer.n_gpus_per_node") else None
        per_node = per_node or min(gpus, _OF_A_NODE)
        if gpus % per_node == 0:
            shown.append(
                ShownSetting(
                    key="trainer.n_gpus_per_node", value=per_node, metric=_THROUGHPUT, of_cluster=True
                )
            )
            shown.append(
                ShownSetting(
                    key="trainer.nnodes", value=gpus // per_node, metric=_THROUGHPUT, of_cluster=True
                )
            )
    sequences = _whole_number([_sequences(step) for step in steps])
    responses = loaded.settings.integer("actor_rollout_ref.rollout.n", default=1, minimum=1)
    if sequences is not None and responses and sequences % responses == 0:
        shown.append(ShownSetting(key="data.train_batch_size", value=sequences // responses, metric=_TOKENS))
    return tuple(shown)


def _gpus(step: StepMetrics) -> float | None:
    tokens, seconds, each = (step.values.get(name) for name in (_TOKENS, _SECONDS, _THROUGHPUT))
    return tokens / (seconds * each) if tokens and seconds and each else None


def _sequences(step: StepMetrics) -> float | None:
    tokens, lengths = step.values.get(_TOKENS), [step.values.get(name) for name in _LENGTHS]
    total = sum(length for length in lengths if length is not None)
    return tokens / total if tokens and total and None not in lengths else None


def _whole_number(numbers: Sequence[float | None]) -> int | None:
    """The whole number that nearly all of these are; None where they are of none, or of several."""
    known = sorted(number for number in numbers if number is not None)
    if not known:
        return None
    middle = known[len(known) // 2]
    whole = round(middle)
    return whole if whole >= 1 and abs(middle - whole) <= _ROUNDED * max(1.0, whole / 100) else None
