"""`backproof explain CODE`: the page of a code."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from backproof.codes import Page

_EXAMPLE = """\b
Example:
  backproof explain BP101
"""  # click takes the backspace as: do not rewrap what follows


_ASKING = {"battery", "contexts"}  # the detectors that this version has


@click.command(epilog=_EXAMPLE)
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """What a code means, with a wrong and a right example; all codes without one."""
    from backproof.codes import all_codes, as_text, page

    if code is not None:
        found = page(code)
        click.echo(as_text(found))
        if not _is_asked(found):
            click.echo("\nNot asked yet in this version.")
        return
    pages = [page(one) for one in all_codes()]
    for found in filter(_is_asked, pages):
        click.echo(f"{found.code}  {found.title}")
    click.echo("\nNot asked yet in this version:")
    for found in itertools.filterfalse(_is_asked, pages):
        click.echo(f"{found.code}  {found.title}")


def _is_asked(page: Page) -> bool:
    """Whether anything in this version can find it broken."""
    return not _ASKING.isdisjoint(page.seen_by)
