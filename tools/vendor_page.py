"""Fetch the page's libraries from npm again and hold every file to its hash, or take newer ones with --write.

`npm pack` checks a package against the registry's integrity hash; the table in the README of
src/qanat/server/http/page/vendor says which files we took and what their bytes are.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "src/qanat/server/http/page/vendor"
README = VENDOR / "README.md"


@dataclass(frozen=True)
class Package:
    """One npm package; `files` maps paths in it to ours, and a path that ends in * takes all that match."""

    name: str
    version: str
    licence: str
    purpose: str
    files: dict[str, str]


PACKAGES = [
    Package(
        "markdown-it",
        "15.0.3",
        "MIT",
        "Markdown to HTML",
        {"dist/browser/markdown-it.umd.min.js": "markdown-it.min.js", "LICENSE": "LICENSE.markdown-it"},
    ),
    Package(
        "dompurify",
        "3.5.0",
        "Apache-2.0 (or MPL-2.0)",
        "HTML to harmless HTML",
        {"dist/purify.min.js": "purify.min.js", "LICENSE": "LICENSE.dompurify"},
    ),
    Package(
        "katex",
        "0.19.1",
        "MIT",
        "formulas",
        {
            "dist/katex.min.js": "katex/katex.min.js",
            "dist/katex.min.css": "katex/katex.min.css",
            "dist/fonts/*.woff2": "katex/fonts/",
            "LICENSE": "LICENSE.katex",
        },
    ),
    Package(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "BSD-3-Clause",
        "colours in code, for 36 common languages",
        {"es/highlight.min.js": "highlight.min.js", "LICENSE": "LICENSE.highlightjs"},
    ),
]


def main() -> None:
    """Compare, or write. Exits with 1 if a file is not what the table says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="take the files, and write the table anew")
    write = parser.parse_args().write
    fetched = {}
    for package in PACKAGES:
        print(f"{package.name} {package.version}", file=sys.stderr)
        fetched |= {name: (package, data) for name, data in fetch(package).items()}
    if write:
        for name, (_, data) in fetched.items():
            target = VENDOR / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        README.write_text(table({name: (p, sha256(data)) for name, (p, data) in fetched.items()}))
    hashes = listed_hashes()
    wrong = [name for name, (_, data) in fetched.items() if hashes.get(name) != sha256(data)]
    wrong += [name for name in hashes if name not in fetched or sha256(vendored(name)) != hashes[name]]
    for name in sorted(set(wrong)):
        print(f"{name}: not the bytes that {README.name} lists", file=sys.stderr)
    print(f"{len(fetched)} files, {len(set(wrong))} differ")
    sys.exit(bool(wrong))


def fetch(package: Package) -> dict[str, bytes]:
    """The files that we take of a package, by our names."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        with tarfile.open(Path(folder) / done.stdout.split()[-1]) as archive:
            found = {}
            for member in archive.getmembers():
                ours = _our_name(package, member.name.removeprefix("package/"))
                stream = archive.extractfile(member) if ours and member.isfile() else None
                if ours and stream is not None:
                    found[ours] = stream.read()
    missing = [ours for ours in package.files.values() if not any(name.startswith(ours) for name in found)]
    if missing:
        sys.exit(f"{package.name} {package.version} has no {', '.join(missing)}")
    return found


def _our_name(package: Package, path: str) -> str | None:
    for pattern, ours in package.files.items():
        if path == pattern or ("*" in pattern and Path(path).match(pattern)):
            return ours + Path(path).name if ours.endswith("/") else ours
    return None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def vendored(name: str) -> bytes:
    file = VENDOR / name
    return file.read_bytes() if file.exists() else b""


def listed_hashes() -> dict[str, str]:
    """What the README's second table says: SHA-256 by file."""
    rows = (line.split("`") for line in README.read_text().splitlines() if line.startswith("| `"))
    return {row[1]: row[3] for row in rows}


def table(files: dict[str, tuple[Package, str]]) -> str:
    """The README."""
    lines = [
        "# Libraries of the page",
        "",
        "Unchanged files of npm packages, with their licences beside them. Written and checked by",
        "`python tools/vendor_page.py` (`--write` takes what its list names).",
        "",
        "| package | version | licence | for |",
        "|---|---|---|---|",
        *(f"| {p.name} | {p.version} | {p.licence} | {p.purpose} |" for p in PACKAGES),
        "",
        "| file | SHA-256 |",
        "|---|---|",
        *(f"| `{name}` | `{digest}` |" for name, (_, digest) in sorted(files.items())),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
