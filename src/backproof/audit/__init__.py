"""A running program: which Functions it calls, and whether their gradients are right.

    hook ──calls──> recording: ledgers of kept calls ──> verification ──> Report
                                     replay: a kept call -> Subject and Case

`recording` is the only part of the package that patches torch, for as long as it lasts.
"""
