"""The model of a Function, read from source: shared by diagnosis, definition, linter.

    for function in functions_in(text, "softplus.py"):
        function.methods["backward"].returns

`source_of` and `method_of` start from live objects, `lines_run` sees which lines run,
and `gradient_place`, `save_place`, `write_place` say where something happens. Nothing
here imports torch.
"""

from backproof.source.file_name import shown_file
from backproof.source.live import has_source, method_of, source_of
from backproof.source.model import (
    Assignment,
    Attribute,
    ContextCall,
    Expression,
    FunctionSource,
    Method,
    Return,
    Statement,
    Write,
)
from backproof.source.outside import calls_out
from backproof.source.place import Place, gradient_place, save_place, write_place
from backproof.source.reading import functions_in
from backproof.source.running import lines_run

__all__ = [
    "Assignment",
    "Attribute",
    "ContextCall",
    "Expression",
    "FunctionSource",
    "Method",
    "Place",
    "Return",
    "Statement",
    "Write",
    "calls_out",
    "functions_in",
    "gradient_place",
    "has_source",
    "lines_run",
    "method_of",
    "save_place",
    "shown_file",
    "source_of",
    "write_place",
]
