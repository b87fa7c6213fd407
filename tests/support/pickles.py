"""A check of whether the source of a module uses anything that opens pickles, under any local name."""

import ast
from collections.abc import Iterator

# Modules that can run code from the data they read, and such functions of other modules.
_MODULES = {"pickle", "_pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"}
_FUNCTIONS = {"torch.load", "torch.*", "torch.serialization.load", "torch.hub.load", "pandas.read_pickle"}
_IMPORTING = {"__import__", "importlib.import_module", "importlib.__import__", "pkgutil.resolve_name"}


def opens_pickles(source: str) -> bool:
    """Return whether ``source`` names a module or function that may open a pickle, or permits numpy to."""
    tree = ast.parse(source)
    imported = {local: name for node in ast.walk(tree) for local, name in _imports(node)}
    named = {*imported.values(), *(_name(node, imported) for node in ast.walk(tree))}
    return any(map(_is_unsafe, named)) or any(
        _is_unsafe_call(node, imported) for node in ast.walk(tree) if isinstance(node, ast.Call)
    )


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the local names that an import statement binds, each with the full name of the object."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            # Without ``as``, only the first part is bound.
            yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
            yield alias.name, alias.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"


def _name(node: ast.AST | None, imported: dict[str, str]) -> str:
    """Return the full name of the object of an expression; empty if it is not a name or not imported."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, "__import__" if node.id == "__import__" else "")
    if isinstance(node, ast.Attribute):
        owner = _name(node.value, imported)
        return f"{owner}.{node.attr}" if owner else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        owner, attribute = _name(node.args[0], imported), node.args[1]
        return f"{owner}.{attribute.value}" if owner and isinstance(attribute, ast.Constant) else ""
    return ""


def _is_unsafe(name: str) -> bool:
    return name in _FUNCTIONS or name.replace(":", ".").split(".")[0] in _MODULES


def _is_unsafe_call(call: ast.Call, imported: dict[str, str]) -> bool:
    """Return whether a call imports an unsafe module by name, or permits numpy to open pickles."""
    name = _name(call.func, imported)
    if name in _IMPORTING:
        return any(isinstance(each, ast.Constant) and _is_unsafe(str(each.value)) for each in call.args)
    if name == "numpy.load" and len(call.args) > 2:
        return True
    unsafe_keywords = {"allow_pickle", None} if name == "numpy.load" else {"allow_pickle"}
    return any(keyword.arg in unsafe_keywords for keyword in call.keywords)
