"""`backproof show FILE`: render a report that was saved as JSON."""

from __future__ import annotations

import click

_EXAMPLE = """\b
Example:
  backproof check ops.py --format json --output report.json
  backproof show report.json
\b
Exit codes: 0 it was shown, whatever it says; 2 it is no report, or could
not be read.
"""  # click takes the backspace as: do not rewrap what follows


@click.command(epilog=_EXAMPLE)
@click.argument("file")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also every outcome with its evidence."
)
def show(file: str, verbose: bool) -> None:
    """Render a report that `check --format json` wrote; - reads standard input."""
    from backproof.cli.output import as_shown
    from backproof.errors import BadInput
    from backproof.report import Report

    try:
        with click.open_file(file, encoding="utf-8", errors="replace") as saved:
            report = Report.from_json(saved.read())
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from error
    as_shown(report, verbose=verbose)
