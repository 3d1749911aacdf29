"""Prints docs/configuration.md from the table of settings; with --check, compares instead. Run by `make docs`."""

from __future__ import annotations

import itertools
import pathlib
import sys

from hami_platform import env, env_flags, env_reading

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

HEAD = """# Configuration

<!-- Made from hami_platform/env.py by `make docs`; do not edit. -->

Every process reads its settings from environment variables. A name that begins with `HAMI_` and is not in this list, or
a value that cannot be read, stops the start with a message that names it. Durations are written `28s`, `5m`, `1h30m`;
lists are separated by commas; booleans are `true` or `false`.

A setting marked *secret* may also come from a file: `HAMI_SECRET_KEY_FILE=/run/secrets/key` for `HAMI_SECRET_KEY`.
`manage.py serve` accepts HAMi's own flags where they mean the same, after `--`:
`manage.py serve --role webhook -- --scheduler-name=hami-scheduler`.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for group, rows in itertools.groupby(env.TABLE, key=lambda row: row.group):
        parts.append(f"\n## {group}\n\n| variable | default | what it does |\n|---|---|---|\n")
        parts += [_line(row) for row in rows]
    parts.append("\n## HAMi flags that have no effect here\n\n| flag | why |\n|---|---|\n")
    parts += [f"| `--{flag}` | {why} |\n" for flag, why in sorted(env_flags.ACCEPTED_FLAGS.items())]
    return "".join(parts)


def _line(row: env_reading.Setting) -> str:
    notes = [row.help]
    if row.flags:
        notes.append("HAMi flag: " + ", ".join(f"`--{flag}`" for flag in row.flags) + ".")
    if row.also:
        notes.append("Also read from " + ", ".join(f"`{name}`" for name in row.also) + ".")
    if row.secret:
        notes.append("*Secret.*")
    default = f"`{row.default}`" if row.default else ""
    return f"| `{row.variable}` | {default} | {' '.join(notes)} |\n"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check say whether it is up to date."""
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        print("docs/configuration.md differs from hami_platform/env.py: run make docs", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
