"""Text -> a module in a file, so that messages can point at its lines."""

import importlib.util
import sys


def load(name, source, folder):
    """Import `source` from `folder`/`name`.py."""
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module
