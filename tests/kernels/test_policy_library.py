"""The policy loss as torch knows it: checked by its own tests, and inside compiled models."""

import pytest
import torch
from torch import Tensor, nn

from tests.kernels.exact import DEVICE, IGNORED
from tests.kernels.exact_policy import random_policy_case
from tuner.kernels import PolicyLoss, linear_policy_loss, policy_ops

# What torch's tracers say of themselves.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)], ids=str)
def test_opcheck(wanted: tuple[bool, bool]) -> None:
    case = random_policy_case(6, 8, 33, torch.float32)
    hidden = case.head.hidden.detach().requires_grad_(wanted[0])
    weight = case.head.weight.detach().requires_grad_(wanted[1])
    numbers = torch.stack((case.old_log_probs, case.advantages, case.token_weights, case.ref_log_probs))
    tensors = (hidden, weight, case.head.labels, case.head.temperature.reciprocal(), numbers)
    # torch differentiates the absolute value of the loss. A backward pass scales what the operator returned
    # in place, by -1 where the loss is negative, and torch would see outputs that have changed: a large
    # coefficient of the KL divergence keeps it positive, whatever a device draws.
    arguments = (*tensors, IGNORED, 0.2, 0.2, 3.0, 0.1, 1e3, False, 4, *wanted)
    assert policy_ops.forward(*arguments)[0].detach() > 0
    torch.library.opcheck(policy_ops.forward, arguments)


class Model(nn.Module):
    """A layer and the policy loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.head = nn.Linear(8, 33, bias=False)

    def forward(self, inputs: Tensor, labels: Tensor, numbers: Tensor) -> PolicyLoss:
        hidden = self.layer(inputs).tanh()
        old, advantages, weights = numbers
        return linear_policy_loss(
            hidden, self.head.weight, labels, old, advantages, weights, 0.7, entropy_coeff=0.1
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_model_is_the_same_model(dynamic: bool) -> None:
    torch.manual_seed(0)
    model = Model().to(DEVICE)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for tokens in (5, 9):
        inputs = torch.randn(tokens, 8, device=DEVICE)
        labels = torch.randint(33, (tokens,), device=DEVICE)
        labels[1] = IGNORED
        numbers = torch.randn(3, tokens, device=DEVICE)
        losses, gradients = [], []
        for run in (model, compiled):
            result = run(inputs, labels, numbers)
            assert not result.log_probs.requires_grad and not result.entropy.requires_grad
            losses.append(result)
            gradients.append(torch.autograd.grad(0.5 * result.loss, list(model.parameters())))
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-6, atol=1e-6)
