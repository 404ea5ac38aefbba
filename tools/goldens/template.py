"""Record what transformers makes of the conversations of tests/text/template_cases.py.

Needs the parity environment and the published templates: `make goldens`.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

from tests.text import template_cases, template_reference, tool_functions  # noqa: E402

OUT = ROOT / "tests" / "golden" / "template.json.gz"


def main() -> None:
    from transformers.utils import get_json_schema

    missing = [str(file) for file in template_reference.PUBLISHED.values() if not file.is_file()]
    if missing:
        print(f"templates not recorded: not found: {', '.join(missing)}")
        return
    tokenizer = template_reference.reference_tokenizer()
    outcomes: dict[tuple[str, ...], int] = {}  # the templates agree more often than not
    results: dict[str, dict[str, int]] = {}
    cases = template_cases.cases()
    for template in template_reference.PUBLISHED:
        source = template_reference.published(template)
        results[template] = {
            case.name: outcomes.setdefault(
                tuple(template_reference.outcome(tokenizer, source, case)), len(outcomes)
            )
            for case in cases
        }
    schemas = {}
    for function in tool_functions.FUNCTIONS:
        try:
            schemas[function.__name__] = get_json_schema(function)
        except Exception as error:
            schemas[function.__name__] = f"{type(error).__name__}: {error}"
    recorded = {
        "python": list(sys.version_info[:2]),
        "digests": {case.name: case.digest for case in cases},
        "outcomes": list(outcomes),
        "results": results,
        "schemas": schemas,
    }
    text = json.dumps(recorded, ensure_ascii=True, separators=(",", ":"))
    OUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{OUT}: {len(cases)} conversations, {len(outcomes)} outcomes, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
