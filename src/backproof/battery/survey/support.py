"""How to get support where a subject refuses a context."""

from __future__ import annotations

from backproof.battery.survey.context import Context
from backproof.battery.survey.style import Style

_BY_MESSAGE = (
    ("declare `external(", "declare what the message names, if that can be done"),
    (
        "must override the setup_context",
        "leave the computation in `forward`, without ctx, and save in `setup_context`",
    ),
    (
        "Unsupported custom jvp",
        "torch.compile refuses a Function with a `jvp`; compile a twin without it",
    ),
    ("duplicate tensor input", "pass a view or a copy: `f(x, x.view_as(x))`"),
    ("generate_vmap_rule", "set `generate_vmap_rule = True`, or write a `vmap` rule"),
    ("vmap staticmethod", "set `generate_vmap_rule = True`, or write a `vmap` rule"),
    ("jvp function", "add a `jvp` staticmethod and `ctx.save_for_forward`"),
    ("forward mode AD", "add a `jvp` staticmethod and `ctx.save_for_forward`"),
    ("once_differentiable", "none is needed: `once_differentiable` refuses by design"),
    ("once differentiable", "none is needed: `once_differentiable` refuses by design"),
    (
        "numpy()",
        "wrap what is not torch code in `torch.library.custom_op` with `register_fake`",
    ),
    (
        "register_fake",
        "register a fake rule: `@op.register_fake`, with the result's shape and dtype",
    ),
    (
        "meta tensor",
        "wrap what is not torch code in `torch.library.custom_op` with `register_fake`",
    ),
    (
        "pickle",
        "define the function at the top of a module, and hold no operator object",
    ),
    ("Could not export Python function", "register it with `torch.library.custom_op`"),
    (
        "randomness",
        "draw the random numbers outside and pass them in",
    ),
)

_BY_GROUP = {
    "func": "write the Function with `setup_context`, `generate_vmap_rule` and a `jvp`",
    "vmap": "set `generate_vmap_rule = True`, or write a `vmap` rule",
    "compile": "write forward and backward in torch code that dynamo can trace, or "
    "register the op with `torch.library.custom_op`",
    "export": "register the op with `torch.library.custom_op`, `register_fake` and "
    "`register_autograd`",
    "eager": "write backward in torch code, so that it can be differentiated again",
}


_OURS = "do what the message asks for; a kernel belongs in `backproof.external`"


def support(context: Context, style: Style, message: str) -> str:
    """One sentence: what to add, so that the subject works in this context."""
    if style.kind == "operator" and "must override the setup_context" in message:
        return (
            "a custom operator has no torch.func support in torch; call it from a "
            "Function with `setup_context`"
        )
    for part, words in _BY_MESSAGE:
        if part in message:
            return words
    if style.ours and context.group != "eager":
        return _OURS
    if style.kind == "composed":
        return "torch itself does not support these operations here"
    return _BY_GROUP[context.group]
