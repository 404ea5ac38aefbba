"""lm-eval's `local-completions` on two small tasks: its scores are those of our own answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from checks import KEY, MODEL, URL, report

HERE = Path(__file__).resolve().parents[1]
POCKET = HERE.parents[1] / "src" / "qanat" / "pocket_model"
CITIES = {
    "Japan": "Tokyo",
    "Peru": "Lima",
    "Norway": "Oslo",
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
}


def ask(path: str, **fields: Any) -> Any:
    data = json.dumps(fields).encode()
    request = urllib.request.Request(URL + path, data, {"X-Api-Key": KEY, "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def prompt(question: str) -> str:
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def documents(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Questions, and what our own server says to them without lm-eval between: written as the tasks' data."""
    names = list(CITIES.values())
    choices, answers = [], []
    for place, country in enumerate(CITIES):
        asked = prompt(f"What is the capital of {country}?")
        text = ask("/completions", model=MODEL, prompt=asked, max_tokens=30, temperature=0)["choices"][0][
            "text"
        ]
        answers.append({"prompt": asked, "answer": text})
        several = [f"The capital of {country} is {names[(place + i) % 6]}." for i in range(4)]
        choices.append({"prompt": asked, "choices": several, "answer": 0})
    for name, lines in (("capitals", choices), ("answers", answers)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        task = (HERE / "lm_eval_task" / f"{name}.yaml").read_text()
        (folder / f"{name}.yaml").write_text(task.replace(f"{name}.jsonl", str(folder / f"{name}.jsonl")))
    return choices, answers


def score(asked: str, choice: str) -> float:
    """The log probability of a continuation, from an echoed prompt."""
    fields = {"model": MODEL, "prompt": asked + choice, "max_tokens": 1, "echo": True, "logprobs": 1}
    found = ask("/completions", **fields)["choices"][0]["logprobs"]
    inside = [
        value
        for value, begin in zip(found["token_logprobs"], found["text_offset"], strict=True)
        if len(asked) <= begin < len(asked + choice)
    ]
    return sum(inside)


def main() -> None:
    folder = Path("tasks")
    folder.mkdir(exist_ok=True)
    choices, _answers = documents(folder.resolve())
    best = []
    for line in choices:
        scores = [score(line["prompt"], choice) for choice in line["choices"]]
        best.append(scores.index(max(scores)))
    expected = sum(place == 0 for place in best) / len(best)
    where = f"model={MODEL},base_url={URL}/completions,tokenizer={POCKET},tokenizer_backend=huggingface"
    command = [
        *(str(Path(sys.executable).parent / "lm_eval"), "--model", "local-completions"),
        *("--model_args", f"{where},num_concurrent=4,max_retries=1,max_length=1024"),
        *("--tasks", "qanat_capitals,qanat_answers", "--include_path", str(folder.resolve())),
        *("--output_path", "results", "--log_samples"),
    ]
    before = set(Path("results").rglob("results_*.json"))
    environment = {**os.environ, "OPENAI_API_KEY": KEY}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    print(done.stdout, done.stderr, file=sys.stderr)
    report("both tasks ran to their end", None if done.returncode == 0 else done.stderr[-300:])
    if done.returncode:
        return
    [file] = set(Path("results").rglob("results_*.json")) - before
    found = json.loads(file.read_text())["results"]
    accuracy = found["qanat_capitals"]["acc,none"]
    same = abs(accuracy - expected) < 1e-9
    report("its accuracy is that of our log probabilities", None if same else f"{accuracy}, not {expected}")
    why = None if 0.5 <= accuracy <= 1 else f"{accuracy}: worse than the model is"
    report("the model knows its capitals", why)
    matched = found["qanat_answers"]["exact_match,none"]
    report("what it generates is what the server says", None if matched == 1 else f"{matched} of 1")


main()
