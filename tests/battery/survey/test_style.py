import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from backproof.battery.contexts import CONTEXTS
from backproof.battery.survey.control import control_of
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.style import Style, style_of
from backproof.battery.survey.survey import CellStatus, survey
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.subjects import normal


def scene_of(op, *inputs):
    return Scene(Trial(subject_of(op), Case(inputs)))


class Ctx(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class CtxOnce(Ctx):
    backward = staticmethod(once_differentiable(lambda ctx, g: g * 2))


class CtxCast(Ctx):
    """Marked under another decorator."""

    forward = staticmethod(
        torch.amp.custom_fwd(device_type="cpu")(lambda ctx, x: x * 2)
    )
    backward = staticmethod(
        torch.amp.custom_bwd(device_type="cpu")(
            once_differentiable(lambda ctx, g: g * 2)
        )
    )


class Setup(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2


class SetupVmap(Setup):
    generate_vmap_rule = True


class SetupJvp(SetupVmap):
    @staticmethod
    def jvp(ctx, t):
        return t * 2


class SetupRule(Setup):
    @staticmethod
    def vmap(info, in_dims, x):
        return SetupRule.apply(x), in_dims[0]


class Host(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(x.detach().numpy() * 2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class HostBackward(Ctx):
    @staticmethod
    def backward(ctx, g):
        return torch.from_numpy(g.numpy() * 2)


@torch.library.custom_op("tests_style::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


double.register_fake(torch.empty_like)
double.register_autograd(lambda ctx, g: g * 2)


@torch.compiler.allow_in_graph
class Whole(Setup):
    pass


class WithHook(torch.nn.Module):
    """Its hook puts a Function of torch's own into the graph."""

    def __init__(self):
        super().__init__()
        self.register_full_backward_hook(lambda module, g, _: (-g[0],))

    def forward(self, x):
        return x.sin()


def own_generator(x):
    generator = torch.Generator().manual_seed(3)
    return x * torch.rand(x.shape, generator=generator)


def own_state(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return x * torch.rand(x.shape)


@torch.library.custom_op("tests_style::factors", mutates_args=())
def factors(x: torch.Tensor) -> torch.Tensor:
    return own_state(torch.ones_like(x))


factors.register_fake(torch.empty_like)
factors.register_autograd(lambda ctx, g: 0 * g)


def own_state_in_a_kernel(x):
    return x * factors(x)


def state_set_and_not_used(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return x.sin()


STYLES = [
    (torch.tanh, Style("composed")),
    (torch.nn.Linear(3, 2), Style("composed")),
    (Ctx.apply, Style("ctx")),
    (lambda x: Ctx.apply(x).sin(), Style("ctx", inside=True)),
    (lambda x: Ctx.apply(Ctx.apply(x)), Style("ctx")),
    (CtxOnce.apply, Style("ctx", once=True)),
    (CtxCast.apply, Style("ctx", once=True)),
    (Setup.apply, Style("setup")),
    (SetupVmap.apply, Style("setup", vmap="generated")),
    (SetupJvp.apply, Style("setup", vmap="generated", jvp=True)),
    (SetupRule.apply, Style("setup", vmap="written")),
    (Host.apply, Style("ctx", opaque=True)),
    (HostBackward.apply, Style("ctx", opaque=True)),
    (double, Style("operator")),
    (torch.ops.tests_style.double, Style("operator")),
    (lambda x: double(x).sin(), Style("operator", inside=True)),
    (Whole.apply, Style("setup", uninlined=True)),
    (WithHook(), Style("composed")),
    (own_generator, Style("composed", draws="generator")),
    (own_state, Style("composed", draws="state")),
    (own_state_in_a_kernel, Style("operator", draws="state", inside=True)),
    (state_set_and_not_used, Style("composed")),
    (
        lambda x: torch.dropout(torch.dropout(x, 0.5, True), 0.5, True),
        Style("composed"),
    ),
]


@pytest.mark.parametrize(("op", "style"), STYLES, ids=range(len(STYLES)))
def test_a_style_is_recognised(op, style):
    dtype = torch.float32 if isinstance(op, torch.nn.Module) else torch.float64
    assert style_of(scene_of(op, normal(3, dtype=dtype))) == style


CONTROLS = [
    Style("composed"),
    Style("ctx"),
    Style("ctx", opaque=True),
    Style("ctx", jvp=True),
    Style("ctx", dirty=True),
    Style("ctx", draws="generator"),
    Style("composed", draws="generator"),
    Style("setup", vmap="generated", jvp=True, draws="generator"),
    Style("ctx", draws="state"),
    Style("composed", draws="state"),
    Style("setup", uninlined=True),
    Style("composed", uninlined=True),
    Style("ctx", once=True, inside=True),
    Style("operator", inside=True),
    Style("operator", draws="state"),
    Style("ctx", once=True),
    Style("ctx", opaque=True, once=True),
    Style("setup"),
    Style("setup", vmap="generated"),
    Style("setup", vmap="generated", jvp=True),
    Style("setup", vmap="written"),
    Style("setup", vmap="written", jvp=True),
    Style("setup", opaque=True, vmap="written"),
    Style("operator"),
]


@pytest.mark.parametrize("style", CONTROLS, ids=str)
def test_a_control_is_of_its_style(style):
    assert style_of(control_of(style)) == style


@pytest.mark.parametrize("style", CONTROLS, ids=str)
def test_a_control_is_right_and_no_fault_of_torch_is_blamed_on_it(style):
    cells = list(survey(control_of(style).trial, "fast"))
    assert [c.name for c in cells if c.status is CellStatus.WRONG] == []
    assert [c.name for c in cells if c.status is CellStatus.SKIPPED] == []


def test_the_composed_control_is_right_everywhere_and_our_code_refuses_nothing():
    """A context that fails in our own hands would call every subject a refusal."""
    cells = list(survey(control_of(Style("composed")).trial, "fast"))
    wanted = {CellStatus.RIGHT, CellStatus.NOT_APPLICABLE}
    assert {c.status for c in cells} == wanted
    off = [c.name for c in cells if c.status is not CellStatus.RIGHT]
    assert off == ["autocast"]


@pytest.mark.parametrize("group", ["compile,-inductor", "export"])
def test_the_composed_control_compiles_and_exports(group):
    cells = list(survey(control_of(Style("composed")).trial, group))
    off = [c.name for c in cells if c.status is not CellStatus.RIGHT]
    assert set(off) <= {"autocast_compiled"}  # of float64 there is nothing to say


def test_every_context_has_a_group_of_the_table():
    assert {c.group for c in CONTEXTS} == {"eager", "func", "vmap", "compile", "export"}
