"""Seconds in which Python handles a step's sequences one by one, where a trainer keeps them in a store.

TransferQueue holds a record of each sequence: tensors of its own length, and Python objects such as its
prompt's text or the row of the data that it came from. For each phase every data-parallel rank asks for all
fields of its records, the objects too, puts them into batches, picks those of a micro-batch and hands them to
its GPU; what it computed goes back record by record, and the trainer's one process reads, cuts and writes
that once more for all sequences. None of it lies beside kernels: a micro-batch ends with its loss being read.

Source: verl 0.9.1 ``utils/transferqueue_utils.py`` (``_async_meta_to_realdata``, which selects no fields),
``utils/seqlen_balancing.py`` (``rearrange_micro_batches``), ``utils/tensordict_utils.py``
(``index_select_tensor_dict``, ``make_iterator``), ``workers/engine/fsdp/transformer_impl.py``
(``forward_step``), ``trainer/ppo/v1/trainer_base.py`` (``_compute_old_log_prob`` and those behind it).
"""

from tuner.batching import local_sequences, pass_sequences
from tuner.timing import assumptions as assume
from tuner.timing.job import TimedPasses
from tuner.workload import Phase, Travel

#: Fields that the workers write: log-probabilities, with their entropy where they are those of the actor.
_WRITTEN_FIELDS = {Phase.OLD_LOG_PROB: 2, Phase.REF_LOG_PROB: 1, Phase.VALUES: 1}


def record_seconds(job: TimedPasses, *, mini_batches: int) -> float:
    """Seconds of a phase in which its sequences are read, picked, handed over and written, one by one.

    Nothing where no store holds them. Of a phase that trains, every mini-batch is picked from the rank's
    records first, and its micro-batches from that.

    Args:
        job: the phase.
        mini_batches: of the step, over all epochs; 1 where nothing is trained.
    """
    if job.batch.travel is not Travel.STORED:
        return 0.0
    records = local_sequences(job.batch, job.engine, optimizer_step=False)
    written = _WRITTEN_FIELDS.get(job.step_pass.phase, 0)
    seconds = reading_seconds(records) + written_seconds(records, written)
    seconds += driver_seconds(job.batch.sequences, written) + records * written * assume.CUT_OUTPUT_S
    batch = pass_sequences(job.batch, job.step_pass)
    if job.trains:
        seconds += mini_batches * picked_seconds(batch, of=records)
    return seconds + mini_batches * micro_batches_seconds(job, batch)


def reading_seconds(records: int, fields: int = assume.RECORD_TENSORS + assume.RECORD_OBJECTS) -> float:
    """Seconds in which one process gets so many fields of so many records, and puts them into batches."""
    return assume.STORE_CALL_S + records * fields * assume.READ_FIELD_S


def written_seconds(records: int, fields: int) -> float:
    """Seconds in which one process sends fields of records to the store; nothing of none."""
    return assume.STORE_CALL_S + records * fields * assume.WRITTEN_FIELD_S if fields else 0.0


def driver_seconds(sequences: int, fields: int) -> float:
    """Seconds in which the trainer's process reads what was computed, cuts the responses out and writes them.

    Beside the fields it reads the mask of each response, which tells how long that is.
    """
    if not fields:
        return 0.0
    cut = sequences * fields * assume.CUT_OUTPUT_S
    return reading_seconds(sequences, fields + 1) + cut + written_seconds(sequences, fields)


def picked_seconds(picked: float, *, of: int) -> float:
    """Seconds of one batch of records that are picked from others, all of whose tensors are made views first.

    Args:
        picked: records of the batch.
        of: records that it is picked from; 0 where a batch is the next ones in a row.
    """
    tensors = assume.PICKED_FIELD_S + of * assume.UNBOUND_TENSOR_S + picked * assume.PICKED_TENSOR_S
    return assume.RECORD_TENSORS * tensors + assume.RECORD_OBJECTS * picked * assume.PICKED_OBJECT_S


def micro_batches_seconds(job: TimedPasses, records: int) -> float:
    """Seconds in which so many records become the micro-batches of one pass, on the GPU.

    With a budget of tokens each micro-batch is picked from all of them; without, they are cut in a row.
    """
    count, of = job.micro.count, records if job.step_pass.batching.dynamic else 0
    moved = records * assume.RECORD_OBJECTS * assume.MOVED_OBJECT_S
    return count * picked_seconds(records / count, of=of) + moved
