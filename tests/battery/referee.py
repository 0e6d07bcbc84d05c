"""The laws that rest on the referee's looks at the plain case, and ask for no other."""

REFEREE = frozenset(
    ["BP101", "BP104", "BP106", "BP107", "BP108", "BP109", "BP110", "BP501", "BP502"]
)
