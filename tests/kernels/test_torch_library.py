"""The operators as torch knows them: checked by its own tests, and inside compiled models."""

import pytest
import torch
from torch import Tensor, nn

from tests.kernels.exact import DEVICE, IGNORED, random_case
from tuner.kernels import Mode, entropy, linear_cross_entropy, log_prob_and_entropy, ops

# What torch's tracers say of themselves.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("keep_logits", [False, True])
def test_opcheck_of_the_head(keep_logits: bool) -> None:
    case = random_case(6, 8, 33, torch.float32)
    labels = case.labels
    if keep_logits:  # the rows of ignored labels are never written, so they differ from run to run
        labels = labels.where(labels != IGNORED, 3)
    arguments = (case.hidden, case.weight, labels, case.temperature, IGNORED, keep_logits, 0, "", True)
    torch.library.opcheck(ops.forward, arguments)
    outputs = [value.detach() for value in ops.forward(*arguments)]
    inputs = (case.hidden.detach(), case.weight.detach(), labels, case.temperature)
    for wanted in ((True, True), (True, False), (False, True)):
        rest = (IGNORED, 16, "", True, *wanted)
        torch.library.opcheck(ops.gradients, (case.d_log_probs, case.d_entropy, *inputs, *outputs, *rest))


def test_opcheck_of_log_prob_and_entropy() -> None:
    case = random_case(6, 8, 33, torch.float32)
    logits = (case.hidden @ case.weight.T).detach().requires_grad_()
    arguments = (logits, case.labels, case.temperature, IGNORED)
    torch.library.opcheck(entropy.forward, arguments)
    outputs = [value.detach() for value in entropy.forward(*arguments)]
    inputs = (logits.detach(), case.labels, case.temperature)
    torch.library.opcheck(entropy.gradient, (case.d_log_probs, case.d_entropy, *inputs, *outputs, IGNORED))


class Model(nn.Module):
    """A layer and a head of its own mode; where it has none, of logits that exist."""

    def __init__(self, mode: Mode | None) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.head = nn.Linear(8, 33, bias=False)
        self.mode = mode

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        hidden = self.layer(inputs).tanh()
        if self.mode is None:
            log_probs, entropy = log_prob_and_entropy(self.head(hidden), labels, 0.7)
        else:
            log_probs, entropy = linear_cross_entropy(
                hidden, self.head.weight, labels, 0.7, "mean", mode=self.mode
            )
        return log_probs.sum() + 0.1 * entropy.sum()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", [*Mode, None], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_model_is_the_same_model(mode: Mode | None, dynamic: bool) -> None:
    torch.manual_seed(0)
    model = Model(mode).to(DEVICE)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for tokens in (5, 9):
        inputs = torch.randn(tokens, 8, device=DEVICE)
        labels = torch.randint(33, (tokens,), device=DEVICE)
        labels[1] = IGNORED
        losses, gradients = [], []
        for run in (model, compiled):
            loss = run(inputs, labels)
            losses.append(loss.detach())
            gradients.append(torch.autograd.grad(loss, list(model.parameters())))
        torch.testing.assert_close(*losses, rtol=1e-6, atol=1e-6)
        for plain, traced in zip(*gradients, strict=True):
            torch.testing.assert_close(traced, plain, rtol=1e-6, atol=1e-6)


def test_a_label_out_of_range_is_named_from_a_compiled_model_too() -> None:
    torch.compiler.reset()
    compiled = torch.compile(Model(Mode.RECOMPUTE).to(DEVICE), fullgraph=True, backend="aot_eager")
    with pytest.raises(ValueError, match=r"labels .* not 33"):
        compiled(torch.randn(3, 8, device=DEVICE), torch.full((3,), 33, device=DEVICE))
