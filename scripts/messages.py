"""Collects texts for translation into locale/*/LC_MESSAGES/django.po and compiles them to .mo. Run by `make messages`.

Babel does both, since GNU gettext is not on every machine. Templates pass through Django's own `templatize`, which
turns them into text that an extractor for Python reads. With --check nothing is written and differences are told.
"""

from __future__ import annotations

import io
import pathlib
import sys
from collections.abc import Iterator
from typing import Final

from babel.messages import catalog, extract, mofile, pofile
from django.utils.translation import template

ROOT: Final = pathlib.Path(__file__).resolve().parent.parent
LOCALE: Final = ROOT / "locale"
LANGUAGES: Final = ("zh_Hans",)
_PYTHON: Final = ("accounting", "hami_platform", "scheduler_ext")
_TEMPLATES: Final = ("templates", "accounting")
_KEYWORDS: Final = {
    **extract.DEFAULT_KEYWORDS,
    "gettext_lazy": None,
    "lazy": None,
    "gettext_noop": None,
    "row": (3,),  # what a setting means, in the table of settings
    "phrase": None,  # sentences of the domain, which knows no language
    "ngettext_lazy": (1, 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext_lazy": ((1, "c"), 2, 3),
}


def collected() -> catalog.Catalog:
    """Every text of the sources, each with the files it is in."""
    found = catalog.Catalog(domain="django", project="GPU quota platform", charset="utf-8", fuzzy=False)
    for file, source in _sources():
        messages = extract.extract(
            "python", io.BytesIO(source.encode()), keywords=_KEYWORDS, comment_tags=("Translators",)
        )
        for _line, message, comments, context in messages:
            found.add(message, locations=[(str(file.relative_to(ROOT)), 0)], auto_comments=comments, context=context)
    return found


def _sources() -> Iterator[tuple[pathlib.Path, str]]:
    for folder in _PYTHON:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file, file.read_text(encoding="utf-8")
    for folder in _TEMPLATES:
        for file in sorted((ROOT / folder).rglob("*.html")) + sorted((ROOT / folder).rglob("*.txt")):
            text = template.templatize(file.read_text(encoding="utf-8"), origin=str(file))
            # Its lines keep the template's indentation, which is none that Python would accept.
            yield file, "\n".join(line.lstrip() for line in text.splitlines())


def files_of(language: str, texts: catalog.Catalog) -> tuple[dict[pathlib.Path, bytes], list[str]]:
    """What the files of a language should hold, and which texts lack a translation that somebody has checked."""
    folder = LOCALE / language / "LC_MESSAGES"
    merged = _read(folder / "django.po", language)
    texts.creation_date = merged.creation_date  # or every run would be a difference
    merged.update(texts, no_fuzzy_matching=True)
    merged.obsolete.clear()
    written, compiled = io.BytesIO(), io.BytesIO()
    pofile.write_po(written, merged, width=0, sort_output=True, include_lineno=False)
    mofile.write_mo(compiled, merged)
    missing = [str(message.id) for message in merged if message.id and (message.fuzzy or not _translated(message))]
    return {folder / "django.po": written.getvalue(), folder / "django.mo": compiled.getvalue()}, missing


def _translated(message: catalog.Message) -> bool:
    forms = message.string if isinstance(message.string, tuple | list) else (message.string,)
    return all(forms)


def _read(file: pathlib.Path, language: str) -> catalog.Catalog:
    if not file.exists():
        return _empty(language)
    with file.open("rb") as lines:
        return pofile.read_po(lines, locale=language, domain="django")


def _empty(language: str) -> catalog.Catalog:
    return catalog.Catalog(
        locale=language,
        domain="django",
        project="GPU quota platform",
        header_comment="# Texts of the console. Made by `make messages`; translations are edited here.",
        last_translator="",
        language_team="",
        msgid_bugs_address="",
        charset="utf-8",
        fuzzy=False,
    )


def problems() -> list[str]:
    """What `make messages` would change, and every text without a translation."""
    found = []
    for language in LANGUAGES:
        files, missing = files_of(language, collected())
        found += [
            f"{file.relative_to(ROOT)} differs: run make messages"
            for file, content in files.items()
            if not file.exists() or file.read_bytes() != content
        ]
        found += [f"{language}: no translation of {text!r}" for text in missing]
    return found


def main(arguments: list[str]) -> int:
    """Write the files, or with --check say what is wrong."""
    if arguments == ["--check"]:
        found = problems()
        print("\n".join(found), file=sys.stderr, end="\n" if found else "")
        return bool(found)
    for language in LANGUAGES:
        files, missing = files_of(language, collected())
        for file, content in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        print(f"{language}: {len(missing)} texts without a translation")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
