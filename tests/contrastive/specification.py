"""The queries, keys and queue of the specification, before they are normalised."""

import torch

Q = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
K = torch.tensor([[2.0, 1.0], [0.0, 1.0]])
BANK = torch.tensor([[-1.0, 0.0], [1.0, -1.0]])


def unit(x):
    return x / x.norm(dim=1, keepdim=True)


def close(got, wanted, atol=2e-6):
    torch.testing.assert_close(got.detach(), torch.tensor(wanted), atol=atol, rtol=0)
