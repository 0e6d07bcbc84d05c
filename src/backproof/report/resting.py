"""What a verdict rests on, in a line or two: laws, resolution, calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from backproof.records import Judgement, Status

_LISTED = 4  # inputs named one by one; a module has dozens of parameters


def rests_on(subject: Judgement) -> Iterator[str]:
    """The lines below a pass."""
    if sees := sees_in_words(subject):
        yield sees
    held = {o.code for o in subject.outcomes if o.status is Status.HELD}
    laws = f"{len(held)} law{'' if len(held) == 1 else 's'} held"
    calls = " and ".join(f"{number} {kind}" for kind, number in subject.calls.items())
    yield f"{laws} in {calls} calls" if calls else laws


def sees_in_words(subject: Judgement) -> str:
    """The smallest relative error that would have been seen, for each input."""
    if not subject.resolution:
        return ""
    return f"would have seen a relative error of {_by_input(subject.resolution)}"


def _by_input(resolution: Mapping[str, float]) -> str:
    if len(resolution) > _LISTED:
        worst = max(resolution, key=lambda name: resolution[name])
        others = f"less in {len(resolution) - 1} other inputs"
        return f"{share(resolution[worst])} in {worst}, {others}"
    grouped: dict[str, list[str]] = {}
    for name, smallest in resolution.items():
        grouped.setdefault(share(smallest), []).append(name)
    parts = [f"{size} in {', '.join(names)}" for size, names in grouped.items()]
    return "; ".join(parts)


def share(value: float) -> str:
    """A relative size as people read it: 2e-10, 0.1 %, 30 %."""
    if value < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{100 * value:.2g} %"
