"""Host memory of a node that images take: the pixels of a step, and what the rollout engine keeps of them."""

from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.workload import HeldBatch, Workload

SYMBOLS = {
    "P_h": "patches of all images of a step, each time that they are made",
    "c": "copies of the images",
    "c_i": "cache of processed images in a process of the engine",
    "n_e": "engines of a node",
    "v": "numbers of a patch",
}


def held_images_bytes(*, c: int, P_h: int, v: int) -> int:
    """Pixels of a step's images on the controller's node, in float32 as the processor returns them.

    Agent-loop workers process the images of every response anew; before, and where generation is
    synchronous, the data loader does once for each prompt, whose responses share them. :math:`c` copies, one
    for sure.

    Source: verl 0.9.1 ``experimental/agent_loop/agent_loop.py`` (``_compute_multi_modal_inputs``), 0.5.0
    ``utils/dataset/rl_dataset.py`` (``multi_modal_inputs``).
    """
    return c * P_h * 4 * v


def image_cache_bytes(*, n_e: int, c_i: int) -> int:
    """What the rollout engine's processes keep of images that they have processed, to reuse it.

    A cache fills with the images of the data until it is as large as it may be. Each engine has one in the
    process that takes requests and one in its core, whose copy later versions spare; the low end is that of
    few images, or of none that come again.

    Source: vLLM ``multimodal/cache.py``, ``config/multimodal.py`` (``mm_processor_cache_gb``).
    """
    return n_e * c_i


def _cached(workload: Workload) -> Term | None:
    """The caches of the engines of a node; None of a job without images, or where they are off."""
    rollout, cluster = workload.rollout, workload.cluster
    if rollout is None:
        return None
    most = rollout.image_cache_bytes
    if not most or workload.batch.images is None or not rollout.colocated:
        return None
    # Where the engine runs in the trainer's processes, each of them has one of its own.
    engines = (
        cluster.gpus_per_node if not rollout.own_process else cluster.gpus_per_node // rollout.replica_gpus
    )
    size = Constant(low=0, typical=most, high=2 * most, source="serving.vllm.IMAGE_CACHE_GIB")
    constants = {"c_i": size}
    return heuristic(Item.ENGINE, "image_cache", image_cache_bytes, constants, {"n_e": max(1, engines)})


def images_on_host(workload: Workload) -> tuple[Term, ...]:
    """What a node holds of images; nothing of a job without."""
    return tuple(term for term in (_images_term(workload), _cached(workload)) if term is not None)


def _images_term(workload: Workload) -> Term | None:
    """The images of a step; none where no tower of known dimensions sees any."""
    controller, batch, tower = workload.controller, workload.batch, workload.model.tower
    if controller is None or controller.held is None or batch.images is None or tower is None:
        return None
    times = batch.sequences if controller.agent_workers else batch.prompts
    token_counts = (batch.images.least_tokens, batch.images.tokens, batch.images.most_tokens)
    tokens = (times * min(count, batch.max_prompt_tokens) for count in token_counts)
    least, expected, most = (count * tower.patches_per_token for count in tokens)
    patches = Constant(low=least, typical=expected, high=most, source="workload.Images")
    constants = {"c": _image_copies(controller.held), "P_h": patches}
    return heuristic(Item.OVERHEAD, "controller_images", held_images_bytes, constants, {"v": tower.values})


def _image_copies(batch: HeldBatch) -> Constant:
    source = "the images that the controller holds; up to as many copies as of the batch"
    return Constant(low=1, typical=1, high=max(batch.copies), source=source)
