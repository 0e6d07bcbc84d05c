"""The table of codes: one page a code, `BPnnn.md` beside this file.

A code names a law, not the detector that saw it broken, and never changes its meaning.
The hundreds:

    1 derivatives                           5 structure, dtype, strides
    2 mutation, aliasing, saving            6 determinism, threads, global state
    3 torch.func                            7 memory and speed
    4 compile, export, fake tensors         8 ranks
                                            9 form

Numbers that are not used yet are free; a number that was used once is never given away.
Report, linter, docs and `backproof explain` read these pages and write nothing anew.
"""

from backproof.codes.page import Page, all_codes, as_text, page

__all__ = ["Page", "all_codes", "as_text", "page"]
