"""One op, written in every style that a Function can have.

Forward is piecewise constant, so that wherever a rule is lost the derivative is zero. Each
gate takes x of shape (..., 3) and w of shape (3,), and means what `reference` does.
"""

import torch
from torch.autograd.function import once_differentiable

import backproof

STEEP = 1.5


def soft(x, w):
    return w * x * torch.sigmoid(STEEP * x)


def hard(x, w):
    return torch.round(4 * soft(x, w)) / 4


def reference(x, w):
    smooth = soft(x, w)
    return smooth + (hard(x, w) - smooth).detach()


def pulled(g, x, w, s=None):
    """Gradients in broadcast shape; `s` is the sigmoid where forward has kept it."""
    s = torch.sigmoid(STEEP * x) if s is None else s
    return g * w * (s + x * STEEP * s * (1 - s)), g * x * s


def pushed(dx, dw, x, w):
    of_x, of_w = pulled(torch.ones_like(x), x, w)
    moved = torch.zeros_like(x)
    if dx is not None:
        moved = moved + dx * of_x
    return moved if dw is None else moved + dw * of_w


class InContext(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return hard(x, w)

    @staticmethod
    def backward(ctx, g):
        return pulled(g, *ctx.saved_tensors)


class SetUp(backproof.Function):
    @staticmethod
    def forward(x, w):
        return hard(x, w)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return pulled(g, *ctx.saved_tensors)


class OwnJvp(SetUp):
    @staticmethod
    def jvp(ctx, dx, dw):
        return pushed(dx, dw, *ctx.saved_tensors)


class OwnVmap(SetUp):
    @staticmethod
    def vmap(info, in_dims, x, w):
        dx, dw = in_dims
        x = x.unsqueeze(0) if dx is None else x.movedim(dx, 0)
        if dw is not None:
            w = w.movedim(dw, 0)
            w = w.reshape(len(w), *[1] * (x.dim() - 2), w.shape[-1])
        x, _ = torch.broadcast_tensors(x, x.new_empty(info.batch_size, *x.shape[1:]))
        return SetUp.apply(x, w), 0


class OwnBoth(OwnVmap):
    jvp = staticmethod(OwnJvp.jvp)


class JvpInContext(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)
        return hard(x, w)

    backward = staticmethod(InContext.backward)
    jvp = staticmethod(OwnJvp.jvp)


class SavedIntermediate(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        s = torch.sigmoid(STEEP * x)
        ctx.save_for_backward(x, s, w)
        return hard(x, w)

    @staticmethod
    def backward(ctx, g):
        x, s, w = ctx.saved_tensors
        return pulled(g, x, w, s)


class SetUpIntermediate(SetUp):
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w = inputs
        ctx.save_for_backward(x, w, torch.sigmoid(STEEP * x))

    @staticmethod
    def backward(ctx, g):
        x, w, s = ctx.saved_tensors
        return pulled(g, x, w, s)


class OnContext(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.x = x
        ctx.kept = {"s": [torch.sigmoid(STEEP * x)], "w": w, "name": "gate"}
        return hard(x, w)

    @staticmethod
    def backward(ctx, g):
        return pulled(g, ctx.x, ctx.kept["w"], ctx.kept["s"][0])


class SavedOutput(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        s = torch.sigmoid(STEEP * x)
        ctx.save_for_backward(x, w, s)
        ctx.set_materialize_grads(False)
        return hard(x, w), s

    @staticmethod
    def backward(ctx, g, of_s):
        x, w, s = ctx.saved_tensors
        none = torch.zeros_like(s)
        of_x, of_w = pulled(none if g is None else g, x, w, s)
        of_s = none if of_s is None else of_s
        return of_x + of_s * STEEP * s * (1 - s), of_w


class Several(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        y = hard(x, w)
        signs = torch.sign(x)
        ctx.mark_non_differentiable(signs)
        return y, (y > 0).long(), None, signs, 2 * y

    @staticmethod
    def backward(ctx, g, _index, _none, _signs, twice):
        return pulled(g + 2 * twice, *ctx.saved_tensors)


class ShapeOnContext(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.shape, ctx.width = x.shape, w.shape[0]
        return hard(x, w)

    @staticmethod
    def backward(ctx, g):
        of_x, of_w = pulled(g, *ctx.saved_tensors)
        assert isinstance(ctx.shape, torch.Size)
        leading = tuple(range(len(ctx.shape) - 1))
        summed = of_w.expand(ctx.shape).sum(leading) if leading else of_w
        return of_x.reshape(ctx.shape), summed.reshape(ctx.width)


class InPlace(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x.clone(), w)
        ctx.mark_dirty(x)
        x.copy_(hard(x, w))
        return x

    backward = staticmethod(InContext.backward)


class AsksWhatIsNeeded(InContext):
    @staticmethod
    def backward(ctx, g):
        pairs = zip(ctx.needs_input_grad, pulled(g, *ctx.saved_tensors), strict=True)
        return tuple(gradient if needed else None for needed, gradient in pairs)


class ReadsAValue(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.largest = float(x.abs().max()) + 1
        return hard(x, w)

    @staticmethod
    def backward(ctx, g):
        of_x, of_w = pulled(g * ctx.largest, *ctx.saved_tensors)
        return of_x / ctx.largest, of_w / ctx.largest


class Once(InContext):
    backward = staticmethod(once_differentiable(InContext.backward))


def several(x, w):
    y, _, none, _, twice = Several.apply(x, w)
    assert none is None
    return 0.2 * y + 0.4 * twice


STYLES = {
    "ctx": InContext.apply,
    "setup_context": SetUp.apply,
    "own jvp": OwnJvp.apply,
    "own vmap": OwnVmap.apply,
    "own jvp and vmap": OwnBoth.apply,
    "own jvp, ctx": JvpInContext.apply,
    "saved intermediate": SavedIntermediate.apply,
    "intermediate of setup_context": SetUpIntermediate.apply,
    "tensors on ctx": OnContext.apply,
    "saved output": lambda x, w: SavedOutput.apply(x, w)[0],
    "several outputs": several,
    "shape on ctx": ShapeOnContext.apply,
    "in place": lambda x, w: InPlace.apply(x * 1, w),
    "needs_input_grad": AsksWhatIsNeeded.apply,
}
READS = {"reads a value": ReadsAValue.apply}
ONCE = {"once": Once.apply}
