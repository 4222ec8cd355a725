"""Finds the kinds of drills: the modules of drills.kinds."""

import pkgutil
from importlib import import_module

import drills.kinds
from drills.kind import Kind


def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    modules = sorted(module.name for module in pkgutil.iter_modules(drills.kinds.__path__))
    found: list[Kind] = [import_module(f"drills.kinds.{name}").KIND for name in modules]
    return {kind.name: kind for kind in found}
