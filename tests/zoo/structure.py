"""BP501 and BP502: how many gradients, and what they look like."""

import torch

from tests.zoo.healthy import Affine, Product, Softmax, Tanh
from tests.zoo.member import FINE, FLOAT64, fixed, guilty, normal


@guilty("BP501", normal(40), normal(40))
class NoneForATrainableInput(Product):
    @staticmethod
    def backward(ctx, g):
        _, y = ctx.saved_tensors
        return g * y, None


@guilty("BP501", normal(64))
class NoneForTheOnlyInput(Tanh):
    @staticmethod
    def backward(ctx, g):
        return None


@guilty("BP501", normal(40), normal(40))
class OneTooFew(Product):
    @staticmethod
    def backward(ctx, g):
        _, y = ctx.saved_tensors
        return g * y


@guilty("BP501", normal(40), normal(40))
class OneTooMany(Product):
    @staticmethod
    def backward(ctx, g):
        return *Product.backward(ctx, g), g.clone()


@guilty("BP502", normal(8, 10))
class FlatGradient(Softmax):
    @staticmethod
    def backward(ctx, g):
        return Softmax.backward(ctx, g).reshape(-1)


@guilty("BP502", normal(16, 8), normal(8, 8), normal(8))
class TransposedShape(Affine):
    @staticmethod
    def backward(ctx, g):
        of_x, of_w, of_b = Affine.backward(ctx, g)
        return of_x.mT, of_w, of_b


@guilty("BP502", normal(64), dtypes=FINE)
class CoarserGradient(Tanh):
    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g).to(torch.bfloat16)


@guilty("BP101", normal(64), fixed(normal(64)), dtypes=(FLOAT64,))
class IntegerGradient(Product):
    """The engine casts it back, and the digits after the point are gone."""

    @staticmethod
    def backward(ctx, g):
        of_x, _ = Product.backward(ctx, g)
        return of_x.to(torch.int64), None
