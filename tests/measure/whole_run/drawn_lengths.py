"""An agent loop of verl that ends each response after the tokens that were drawn for it.

verl imports it in its own workers, by the file that ``rollout.agent.agent_loop_config_path`` names, and
``rollout.agent.default_agent_loop`` chooses it. Everything else is verl's ``single_turn_agent``: the server
takes ``max_tokens`` from the request where it has one (verl 0.9.1,
``workers/rollout/vllm_rollout/vllm_async_server.py:602``), else the configured response length. With
``rollout.ignore_eos=True`` no response ends earlier.
"""

from typing import Any

from measure.whole_run.lengths import Lengths
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop


class DrawnLengths(SingleTurnAgentLoop):  # type: ignore[misc]
    """One turn of a drawn length.

    Args:
        lengths: the fields of :class:`Lengths`.
    """

    def __init__(self, *args: Any, lengths: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lengths = Lengths(**lengths)

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any) -> Any:
        """Generate one response; verl numbers prompts by ``index``, responses to one by ``session_id``."""
        tokens = self._lengths.of(int(kwargs["index"]), int(kwargs["session_id"]))
        return await super().run({**sampling_params, "max_tokens": tokens}, priority=priority, **kwargs)
