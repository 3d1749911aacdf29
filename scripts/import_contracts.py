"""Two import contracts that import-linter does not bring: an allow-list, and one door to a third-party package.

Used by .importlinter. Both look at direct imports only, and stay silent about a package that nobody imports yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def within(module: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name is one of the packages or lies inside one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


class OnlyImports(Contract):
    """Modules inside `source` import only themselves and what `allowed` names."""

    type_name = "only_imports"
    source: str = fields.StringField()  # type: ignore[assignment]  # a descriptor
    allowed: set[str] = fields.SetField(subfield=fields.StringField())  # type: ignore[assignment]

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Broken by the first import that is neither inside nor allowed; all are listed."""
        allowed = {*self.allowed, self.source}
        broken = sorted(
            (importer, imported)
            for importer in graph.modules
            if within(importer, [self.source])
            for imported in graph.find_modules_directly_imported_by(importer)
            if not within(imported, allowed)
        )
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each import that the allow-list lacks."""
        for importer, imported in check.metadata["broken"]:
            output.print_error(f"- {importer} may not import {imported}")


class OneDoor(Contract):
    """A `package`, a third party's or one of ours, is imported by the `doors` and by nobody else."""

    type_name = "one_door"
    package: str = fields.StringField()  # type: ignore[assignment]  # a descriptor
    doors: set[str] = fields.SetField(subfield=fields.StringField())  # type: ignore[assignment]

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Broken by any other importer; kept while nobody imports the package."""
        importers: set[str] = set()
        if self.package in graph.modules:
            ours = not graph.is_module_squashed(self.package)
            importers = graph.find_modules_that_directly_import(self.package, as_package=ours)
        broken = sorted(importer for importer in importers if not within(importer, self.doors))
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each importer that is not a door."""
        for importer in check.metadata["broken"]:
            output.print_error(f"- {importer} may not import {self.package}; only {', '.join(sorted(self.doors))} may")
