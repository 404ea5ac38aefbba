"""schemathesis: data made from the OpenAPI document, good and bad, and every answer held against it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from checks import KEY, URL, report

LARGE = 200
"""Longer texts and lists are not made: their bounds are megabytes apart, and our own tests try them."""
EXAMPLES = os.environ.get("QANAT_EXAMPLES", "15")
ROOT = URL.removesuffix("/v1")


def without_large_bounds(value: Any) -> Any:
    if isinstance(value, dict):
        bounds = ("maxLength", "maxItems", "maxProperties")
        return {k: without_large_bounds(v) for k, v in value.items() if not (k in bounds and v > LARGE)}
    return [without_large_bounds(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    asked = urllib.request.Request(f"{ROOT}/openapi.json", headers={"X-Api-Key": KEY})
    with urllib.request.urlopen(asked) as answer:
        document = json.load(answer)
    file = Path("document.json")
    file.write_text(json.dumps(without_large_bounds(document)))
    command = [
        *(str(Path(sys.executable).parent / "st"), "run", str(file), "--url", ROOT),
        *("-H", f"Authorization: Bearer {KEY}", "--phases", "coverage,fuzzing"),
        *("--max-examples", EXAMPLES, "--seed", "1", "--continue-on-failure", "--no-shrink"),
        # Bodies that fit their schemas may still ask for what does not go together, or for a token that the
        # model has not. tests/server/http/test_openapi.py lists the reasons, and allows no other.
        *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
        *("--request-timeout", "20", "--report", "ndjson", "--report-ndjson-path", "events.ndjson"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout, done.stderr, file=sys.stderr)
    count = int(re.findall(r"(\d+) generated", done.stdout)[0])
    tested = re.findall(r"Tested: (\d+)", done.stdout)[0]
    paths = len(document["paths"])
    report(f"all {paths} paths were tried", None if int(tested) == paths else f"{tested} of {paths}")
    report("at least 1000 requests were made", None if count >= 1000 else f"only {count}")
    failures = re.findall(r"❌ (ST\d+ [^\n]+)", done.stdout)
    why = None if done.returncode == 0 else "; ".join(failures) or done.stdout[-300:]
    report("no answer is a 500 or breaks the document", why)


main()
