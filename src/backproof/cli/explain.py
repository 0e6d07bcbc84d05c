"""`backproof explain CODE`: the page of a code."""

from __future__ import annotations

import click

_EXAMPLE = """\b
Example:
  backproof explain BP101
"""  # click takes the backspace as: do not rewrap what follows


@click.command(epilog=_EXAMPLE)
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """What a code means, with a wrong and a right example; all codes without one."""
    from backproof.codes import all_codes, as_text, page

    if code is not None:
        click.echo(as_text(page(code)))
        return
    for one in all_codes():
        click.echo(f"{one}  {page(one).title}")
