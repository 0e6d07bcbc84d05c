"""A file or an import name -> a module object, and what to say where that fails."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from backproof.errors import BadInput, MalformedFunction
from backproof.inputs.raised import shortened
from backproof.inputs.registered import forget
from backproof.target.place import Place

TORCH_MISSING = "PyTorch is needed to check gradients: pip install 'backproof[torch]'"


def module_at(place: Place) -> ModuleType:
    """The module at `place`, imported afresh where it is a file of its own.

    Raises:
        BadInput: it does not import; the message has the user's part of the traceback.
    """
    with on_path(folder_of(place)):
        try:
            if place.file is not None:
                return _from_file(Path(place.file).resolve())
            return importlib.import_module(place.module or "")
        except SystemExit as error:
            raise BadInput(
                f"{place.text} ends the process while it is imported "
                f"(SystemExit: {error.code}); put what runs under "
                '`if __name__ == "__main__":`'
            ) from error
        except MalformedFunction as error:
            raise BadInput(f"{place.text} does not import:\n{error}") from error
        except Exception as error:
            raise BadInput(_does_not_import(place, error)) from error


def folder_of(place: Place) -> Path:
    """The folder that imports inside of the module start from, as for a script."""
    return Path.cwd() if place.file is None else Path(place.file).resolve().parent


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Let modules in `folder` be imported, and leave no bytecode beside them."""
    path, wrote = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = wrote


def _from_file(path: Path) -> ModuleType:
    """`path` as a module that is in `sys.modules` before it runs.

    torch.compile and pickle look classes up there. A file of a package is imported
    under its own name, so that its relative imports work.
    """
    if (path.parent / "__init__.py").is_file():
        module = _from_package(path)
        if module is not None:
            return module
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"backproof_target_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module")
    module = importlib.util.module_from_spec(spec)
    forget(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _from_package(path: Path) -> ModuleType | None:
    """The module of a package, None where its name leads to another file."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    with on_path(root):
        module = importlib.import_module(".".join(parts))
    found = getattr(module, "__file__", None)
    return module if found is not None and Path(found).samefile(path) else None


def _does_not_import(place: Place, error: Exception) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing == "torch":
        return f"{place.text} does not import: {TORCH_MISSING}"
    if missing and f"{place.module}.".startswith(f"{missing}."):
        return f"there is no file, folder or module {place.module}"
    text = f"{place.text} does not import:\n{shortened(error)}"
    if missing:
        text += f"\nThe Python that looked for it is {sys.executable}"
    return text
