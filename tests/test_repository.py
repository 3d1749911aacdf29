"""What holds for the repository as a whole: sizes, docstrings, contracts, generated pages, and words that stay out."""

from __future__ import annotations

import ast
import datetime
import pathlib
import re
import statistics
import subprocess
from collections.abc import Iterator

import grimp
import pytest

from hami_platform import env
from scripts import configuration, import_contracts

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("hami_platform", "accounting", "scheduler_ext", "deviceplugin", "scripts")
DOMAIN = ROOT / "hami_platform" / "domain"


def tracked() -> list[pathlib.Path]:
    """The files of the repository, also those not committed yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


def written_by_us(path: pathlib.Path) -> bool:
    """Whether a Python file is neither generated nor a migration."""
    return path.suffix == ".py" and "migrations" not in path.parts and not path.stem.endswith(("_pb2", "_pb2_grpc"))


def sources() -> list[pathlib.Path]:
    """The product's own Python files."""
    return [path for path in tracked() if written_by_us(path) and path.relative_to(ROOT).parts[0] in PACKAGES]


def functions(path: pathlib.Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def named(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_is_longer_than_400_lines() -> None:
    python = [path for path in tracked() if written_by_us(path)]
    lengths = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


def test_no_function_is_longer_than_50_lines() -> None:
    long = [
        f"{named(path)}:{function.lineno} {function.name} ({length(function)})"
        for path in sources()
        for function in functions(path)
        if length(function) > 50
    ]
    assert long == []


def test_the_median_function_is_shorter_than_10_lines() -> None:
    assert statistics.median(length(function) for path in sources() for function in functions(path)) < 10


def test_every_module_says_what_it_is() -> None:
    silent = [
        named(path)
        for path in sources()
        if path.read_text(encoding="utf-8").strip()
        and ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


def test_what_the_agent_imports_first_stays_empty() -> None:
    assert (ROOT / "hami_platform" / "__init__.py").read_text(encoding="utf-8") == ""


def test_the_domain_reads_no_clock() -> None:
    clock = re.compile(r"\b(?:datetime|date)\.(?:now|utcnow|today)\(")
    assert [named(path) for path in DOMAIN.rglob("*.py") if clock.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_pins_and_nothing_else(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("-") or "//" in line] == []
    pins = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9._-]+==[\w.!+-]+(?: ; .+)?", line)] == []


@pytest.mark.parametrize("name", ["requirements.in", "requirements-dev.in"])
def test_every_requirement_has_its_reason(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line.strip() and not line.startswith(("#", "-c"))]
    assert [line for line in wanted if not re.search(r"\S\s+# \S", line)] == []


@pytest.mark.parametrize("name", ["requirements.in", "requirements-dev.in"])
def test_every_requirement_is_pinned(name: str) -> None:
    def project(text: str) -> str:
        return re.sub(r"[-_.]+", "-", text).lower()

    pinned = {project(line.split("==")[0]) for line in (ROOT / name.replace(".in", ".txt")).read_text().splitlines()}
    wanted = re.findall(r"^([A-Za-z][\w.-]*)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [word for word in wanted if project(word) not in pinned] == []


def test_the_configuration_page_is_made_from_the_table() -> None:
    assert configuration.PAGE.read_text(encoding="utf-8") == configuration.page(), "run make docs"


def test_every_setting_is_on_the_configuration_page() -> None:
    page = configuration.PAGE.read_text(encoding="utf-8")
    assert [row.variable for row in env.TABLE if f"`{row.variable}`" not in page] == []


# In pieces, so that this file does not hold what it forbids.
FORBIDDEN = {
    "a package registry's address": "|".join(
        re.escape("".join(parts))
        for parts in (
            ("py", "pi.org"),
            ("python", "hosted.org"),
            ("proxy.", "golang.org"),
            ("sum.", "golang.org"),
            ("registry.", "npmjs"),
            ("deb.", "debian.org"),
            ("static.", "crates.io"),
            ("repo1.", "maven.org"),
        )
    ),
    "a path of one machine": "|".join(("/wo" + "rk/", "/tmp/" + "brief", "/ho" + r"me/\w", "/ro" + r"ot/\.")),
    "a private key": "BEGIN (?:RSA |EC )?PRIVATE" + r" KEY-----\n[A-Za-z0-9+/]{20}",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{named(path)}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []


def test_every_to_do_names_an_issue() -> None:
    bare = re.compile("TO" + r"DO(?!.*#\d)")
    assert [named(path) for path in sources() if bare.search(path.read_text(encoding="utf-8"))] == []


def test_no_lint_exception_without_its_rule() -> None:
    bare = re.compile(r"# (?:no" + r"qa|type: ig" + r"nore)(?![:\[])")
    assert [
        named(path) for path in tracked() if path.suffix == ".py" and bare.search(path.read_text(encoding="utf-8"))
    ] == []


def test_import_contracts_hold() -> None:
    checked = subprocess.run(
        [ROOT / ".venv" / "bin" / "lint-imports", "--no-cache"]
        if (ROOT / ".venv").exists()
        else ["lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout[-3000:]


def test_import_contracts_have_no_exceptions() -> None:
    assert "ignore_imports" not in (ROOT / ".importlinter").read_text(encoding="utf-8")


def graph(*imports: tuple[str, str]) -> grimp.ImportGraph:
    made = grimp.ImportGraph()
    for importer, imported in imports:
        for module in (importer, importer.partition(".")[0], imported, imported.partition(".")[0]):
            if module not in made.modules:
                made.add_module(module, is_squashed=module not in {"a", "app"} and "." not in module)
        made.add_import(importer=importer, imported=imported, line_number=1, line_contents="")
    return made


def contract(kind: type, **options: object) -> import_contracts.OneDoor:
    made: import_contracts.OneDoor = kind(name="n", session_options={"root_packages": "a"}, contract_options=options)
    return made


def test_the_one_door_contract_breaks_for_a_second_importer() -> None:
    rule = contract(import_contracts.OneDoor, package="redis", doors="a.door")
    assert rule.check(graph(("a.door", "redis")), verbose=False).kept
    assert not rule.check(graph(("a.door", "redis"), ("a.other", "redis")), verbose=False).kept


def test_the_one_door_contract_sees_into_packages_of_ours() -> None:
    rule = contract(import_contracts.OneDoor, package="app", doors=["app", "a.urls"])
    inside = (("app.x", "app.y"), ("a.urls", "app.x"))
    assert rule.check(graph(*inside), verbose=False).kept
    assert not rule.check(graph(*inside, ("a.env", "app.y")), verbose=False).kept


def test_the_allow_list_contract_breaks_for_anything_else() -> None:
    rule = contract(import_contracts.OnlyImports, source="a.pure", allowed=["math"])
    assert rule.check(graph(("a.pure.x", "math"), ("a.pure.x", "a.pure.y")), verbose=False).kept
    assert not rule.check(graph(("a.pure.x", "threading")), verbose=False).kept
    assert not rule.check(graph(("a.pure.x", "mathematics")), verbose=False).kept


def test_the_changelog_speaks_of_this_version() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert version is not None
    assert "## [Unreleased]" in changelog or f"## [{version[1]}]" in changelog
    dates = re.findall(r"^## \[[\d.]+\] - (\S+)$", changelog, re.MULTILINE)
    assert all(datetime.date.fromisoformat(text) for text in dates)
