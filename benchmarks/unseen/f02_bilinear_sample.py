"""Bilinear sampling of a feature map at normalised coordinates (corners aligned).

Fault: the horizontal coordinate's gradient is scaled by the map's height instead of
its width; on square maps nothing is wrong.
"""

import torch
from torch import Tensor

FAULT = "coordinate-scale-of-other-axis"
KIND = "formula"


def corners(grid, height, width):
    """Return the four neighbours' flat indices, and the offsets in the cell."""
    gx = (grid[..., 0] + 1) * (width - 1) / 2
    gy = (grid[..., 1] + 1) * (height - 1) / 2
    x0 = gx.floor().clamp(0, width - 2)
    y0 = gy.floor().clamp(0, height - 2)
    base = (y0 * width + x0).long()
    return base, base + 1, base + width, base + width + 1, gx - x0, gy - y0


class BilinearSample(torch.autograd.Function):
    @staticmethod
    def forward(ctx, image, grid):
        channels, height, width = image.shape
        nw, ne, sw, se, dx, dy = corners(grid, height, width)
        flat = image.reshape(channels, -1)
        ctx.save_for_backward(image, grid)
        north = flat[:, nw] * (1 - dx) + flat[:, ne] * dx
        south = flat[:, sw] * (1 - dx) + flat[:, se] * dx
        return north * (1 - dy) + south * dy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        image, grid = ctx.saved_tensors
        channels, height, width = image.shape
        nw, ne, sw, se, dx, dy = corners(grid, height, width)
        flat = image.reshape(channels, -1)

        grad_image = torch.zeros_like(flat)
        grad_image.index_add_(1, nw, grad_output * ((1 - dx) * (1 - dy)))
        grad_image.index_add_(1, ne, grad_output * (dx * (1 - dy)))
        grad_image.index_add_(1, sw, grad_output * ((1 - dx) * dy))
        grad_image.index_add_(1, se, grad_output * (dx * dy))

        east = (flat[:, ne] - flat[:, nw]) * (1 - dy)
        east = east + (flat[:, se] - flat[:, sw]) * dy
        down = (flat[:, sw] - flat[:, nw]) * (1 - dx)
        down = down + (flat[:, se] - flat[:, ne]) * dx
        grad_gx = (grad_output * east).sum(dim=0) * (height - 1) / 2
        grad_gy = (grad_output * down).sum(dim=0) * (height - 1) / 2
        return grad_image.view_as(image), torch.stack([grad_gx, grad_gy], dim=-1)


op = BilinearSample.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    image = torch.randn(3, 6, 9, generator=gen, dtype=torch.float64)
    grid = torch.rand(40, 2, generator=gen, dtype=torch.float64) * 1.9 - 0.95
    return image.requires_grad_(), grid.requires_grad_()
