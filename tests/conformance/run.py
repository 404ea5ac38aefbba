"""Outside judges: clients and testers that others wrote, each in an environment of its own, on `qanat serve`.

    python tests/conformance/run.py [JUDGE ...]

Without names all judges run; `light` stands for those that CI runs. Environments lie in build/conformance and
are made anew when what they hold changes. Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "conformance"
LIMIT = 600
"""Seconds that a judge may take."""


@dataclass(frozen=True)
class Judge:
    """One of them. script: in `judges`; packages: of PyPI or npm, by its ending; light: CI runs it."""

    script: str
    packages: tuple[str, ...]
    light: bool = False
    options: tuple[str, ...] = ()
    """For the server."""

    @property
    def is_node(self) -> bool:
        """Whether Node runs it."""
        return self.script.endswith(".mjs")


JUDGES = {
    "openai": Judge("openai_python.py", ("openai==3.57.0",), light=True),
    "openai-1": Judge("openai_python.py", ("openai==1.109.1",), light=True),
    "openai-node": Judge("openai_node.mjs", ("openai@6.49.0", "zod@4.6.7"), light=True),
    "vercel-ai": Judge(
        "vercel_ai.mjs", ("ai@6.0.326", "@ai-sdk/openai-compatible@2.0.92", "zod@4.6.7"), light=True
    ),
    "schemathesis": Judge(
        "schemathesis_cli.py",
        ("schemathesis==4.32.5",),
        light=True,
        # Whatever it asks for ends soon: a time that is up is an answer that the document knows.
        options=("--max-model-len", "256", "--request-timeout", "2"),
    ),
    "litellm": Judge("litellm_python.py", ("litellm==1.110.2",)),
    "langchain": Judge("langchain_python.py", ("langchain-openai==1.7.4",)),
    "instructor": Judge("instructor_python.py", ("instructor==1.17.0",)),
    "lm-eval": Judge(
        "lm_eval_cli.py", ("lm-eval==0.4.13", "requests", "aiohttp", "tenacity", "transformers>=5,<6")
    ),
}


def main() -> int:
    """Run the judges that are asked for, and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("judges", nargs="*", metavar="JUDGE", help=", ".join([*JUDGES, "light"]))
    names = parser.parse_args().judges or list(JUDGES)
    if "light" in names:
        names = [name for name, judge in JUDGES.items() if judge.light or name in names]
    for name in names:
        if name not in JUDGES:
            parser.error(f"no judge is called {name}: choose of {', '.join([*JUDGES, 'light'])}")
    BUILD.mkdir(parents=True, exist_ok=True)
    failures = sum(judged(name, JUDGES[name]) for name in names)
    print(f"{'all checks passed' if not failures else f'{failures} checks failed'}")
    return 1 if failures else 0


def judged(name: str, judge: Judge) -> int:
    """Run a judge and print its checks; how many failed. One that breaks, or finds nothing, fails."""
    begin = time.monotonic()
    folder = BUILD / name
    log = BUILD / f"{name}.log"
    with log.open("w") as told:
        program = prepared(folder, judge, told)
        made = time.monotonic() - begin
        with server(*judge.options) as (url, key):
            environment = {**os.environ, "QANAT_URL": url, "QANAT_KEY": key, "NO_COLOR": "1"}
            # What a judge knows is the address: no key, proxy or model of this machine.
            environment |= {"OPENAI_API_KEY": key, "HF_HUB_OFFLINE": "1", "NO_PROXY": "127.0.0.1"}
            environment |= {"QANAT_BUILD": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            done = subprocess.run(
                program,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                env=environment,
                timeout=LIMIT,
                cwd=folder,
            )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = [check for check in found if not check["passed"]]
    took = time.monotonic() - begin
    broken = done.returncode != 0 or not found
    passed = f"{len(found) - len(failed)} of {len(found)} checks passed"
    print(f"{name}: {passed} ({made:.0f} s to make, {took:.0f} s in all)", flush=True)
    for check in found:
        print(f"  {'passed' if check['passed'] else 'FAILED'}  {check['check']}")
        if check["why"]:
            print(f"          {check['why']}")
    if broken:
        print(f"  FAILED  it ended with code {done.returncode}; see {log.relative_to(ROOT)}")
    return len(failed) + broken


def prepared(folder: Path, judge: Judge, told: object) -> list[str]:
    """The command of a judge, its environment made if it is not there."""
    stamp = folder / "made.json"
    wanted = json.dumps([judge.packages, sys.version])
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if judge.is_node:
            if shutil.which("npm") is None:
                raise SystemExit(f"{judge.script} needs Node.js 20 or newer, with npm: install it first")
            (folder / "package.json").write_text("{}")
            install = ["npm", "install", "--no-audit", "--no-fund", "--no-save", *judge.packages]
        else:
            venv.create(folder / "venv", with_pip=True)
            pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip"]
            install = [*pip, "install", "--quiet", "--disable-pip-version-check", *judge.packages]
        subprocess.run(install, cwd=folder, check=True, stdout=told, stderr=told)
        stamp.write_text(wanted)
    if not judge.is_node:
        return [str(folder / "venv" / "bin" / "python"), str(HERE / "judges" / judge.script)]
    for script in (HERE / "judges").glob("*.mjs"):  # Node looks for packages beside the script
        shutil.copy(script, folder)
    return ["node", judge.script]


@contextlib.contextmanager
def server(*options: str) -> Iterator[tuple[str, str]]:
    """`qanat serve` with the built-in model, ready; its address and a key."""
    key = secrets.token_hex(16)
    keys = BUILD / "keys"
    keys.write_text(key + "\n")
    command = [sys.executable, "-m", "qanat", "serve", "--port", "0", "--api-key-file", str(keys), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield _address(process), key
        finally:
            process.terminate()
            process.wait(60)


def _address(process: subprocess.Popen[str]) -> str:
    """Where the server answers, once it does. It may have more to say first: that kernels are compiled."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        if line.startswith("ready: "):
            return re.findall(r"http://[^\s/]+", line)[0] + "/v1"
        said += line
    raise SystemExit(f"the server did not start: {said}")


if __name__ == "__main__":
    # Told to stop, leave as by an error: the server that runs is ended on the way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
