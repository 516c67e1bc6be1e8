"""Processor seconds of reading, writing and picking records of TransferQueue, as verl 0.9.1 does it.

``python -m measure.record_store store 512 2`` starts Ray and the store with so many sequences and ranks;
``python -m measure.record_store pick`` needs neither. verl, transferqueue and tensordict have to be
importable. What is printed stands in ``docs/validation/data/store-host.json``.
"""

import asyncio
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from tensordict import NonTensorStack, TensorDict

PROMPT, MEDIAN, SIGMA, MOST = 275, 600, 0.7, 4800
OBJECTS = (
    *("raw_prompt", "data_source", "reward_model", "extra_info", "uid", "index", "agent_name"),
    *("global_steps", "multi_modal_inputs", "num_turns", "metrics", "extra_fields"),
)


def lengths(sequences: int) -> list[int]:
    """Tokens of the responses, the same ones at each start."""
    drawn = random.Random(1)
    return [max(16, min(MOST, round(MEDIAN * drawn.lognormvariate(0.0, SIGMA)))) for _ in range(sequences)]


def nested(tokens: list[int], dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """One tensor of each length."""
    return torch.nested.as_nested_tensor([torch.zeros(n, dtype=dtype) for n in tokens], layout=torch.jagged)


def records(responses: list[int]) -> TensorDict:
    """The records of sequences as the agent loop of verl 0.9.1 writes them."""
    whole = [PROMPT + tokens for tokens in responses]
    fields: dict[str, Any] = {name: nested(whole) for name in ("input_ids", "position_ids")}
    fields |= {name: nested(responses) for name in ("responses", "response_mask", "loss_mask")}
    fields["prompts"] = nested([PROMPT] * len(responses))
    fields["rm_scores"] = nested(responses, torch.float32)
    for name in OBJECTS:
        fields[name] = NonTensorStack(*[{"of": name, "words": "word " * 20} for _ in responses])
    return TensorDict(fields, batch_size=[len(responses)])


def thread_seconds(work: Callable[[], object], times: int = 9) -> float:
    """The median of what this thread's processor takes."""
    taken = []
    for _ in range(times):
        begun = time.thread_time()
        work()
        taken.append(time.thread_time() - begun)
    return statistics.median(taken)


def pick() -> None:
    """One field alone, by its kind: a batch picked of all records, and moved."""
    from verl.utils.tensordict_utils import index_select_tensor_dict

    for count in (64, 256):
        objects = NonTensorStack(*[{"a": 1} for _ in range(count)])
        for kind, field in (("tensors", nested(lengths(count))), ("objects", objects)):
            batch = TensorDict({"field": field}, batch_size=[count])
            selected = {
                some: thread_seconds(
                    lambda some=some, batch=batch: index_select_tensor_dict(batch, torch.arange(some))
                )
                for some in (8, count // 2)
            }
            moved = thread_seconds(lambda batch=batch: batch.to(torch.device("meta")))
            print(json.dumps({"records": count, "kind": kind, "select_s": selected, "move_s": moved}))


def store(sequences: int, ranks: int) -> None:
    """All fields of a rank's records read, two outputs of it written, and the same of all by the trainer."""
    import psutil
    import ray
    import transfer_queue as queue

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    queue.init()
    names = ("ray::TransferQueueController", "ray::SimpleStorageUnit")
    processes = [psutil.Process()] + [
        one
        for one in psutil.process_iter(["cmdline"])
        if " ".join(one.info["cmdline"] or []).startswith(names)
    ]
    loop, client = asyncio.new_event_loop(), queue.get_client()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    keys, responses = [f"record{number}" for number in range(sequences)], lengths(sequences)
    queue.kv_batch_put(keys=keys, partition_id="train", fields=records(responses), tags=[{}] * sequences)
    part, outputs = keys[: sequences // ranks], ("log_probs", "entropy")

    def timed(name: str, work: Callable[[], object], times: int = 5) -> None:
        before = [sum(one.cpu_times()[:2]) for one in processes]
        for _ in range(times):
            work()
        spent = [sum(one.cpu_times()[:2]) - was for one, was in zip(processes, before, strict=True)]
        print(json.dumps({name: {"client_s": spent[0] / times, "other_s": sum(spent[1:]) / times}}))

    async def read() -> object:
        meta = await client.async_kv_retrieve_meta(keys=part, partition_id="train", create=False)
        return await client.async_get_data(meta)

    def write(some: list[str]) -> None:
        whole = [PROMPT + tokens for tokens in responses[: len(some)]]
        fields = TensorDict({name: nested(whole, torch.float32) for name in outputs}, batch_size=[len(some)])
        queue.kv_batch_put(keys=some, partition_id="train", fields=fields)

    timed("read", lambda: asyncio.run_coroutine_threadsafe(read(), loop).result())
    timed("write_of_rank", lambda: write(part))
    timed("write_of_all", lambda: write(keys))
    fields = [*outputs, "response_mask"]
    timed("read_outputs", lambda: queue.kv_batch_get(keys=keys, partition_id="train", select_fields=fields))
    queue.close()
    ray.shutdown()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "pick":
        pick()
    else:
        store(int(sys.argv[2]), int(sys.argv[3]))
