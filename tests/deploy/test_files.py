"""The files of deploy/ say what `qanat serve` understands: options, paths, times, and one another's names."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from assets import ROOT
from qanat.checkpoint.config import ModelConfig
from qanat.cli.app import app
from qanat.engine.memory import plan
from qanat.server.http.app import create_routes
from qanat.server.http.run import LAST_WORDS
from qanat.server.http.service import Service
from qanat.server.http.settings import ServerSettings
from qanat.server.ray_serve.arguments import read_arguments
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import served
from tools.published_sizes import published_config

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENDING = LAST_WORDS + 5
"""Seconds that a server may need beyond --drain, until it has ended."""


def serve_options(arguments: list[str]) -> dict[str, Any]:
    """What `qanat serve` reads in a command line; a wrong one raises."""
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return dict(command.make_context("serve", list(arguments)).params)


def paths() -> set[str]:
    return {route.path for route in create_routes(Service(FakeEngine(), ServerSettings()))}


# -- the container ------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines]


def instruction(name: str) -> list[str]:
    return [value for word, value in instructions() if word == name]


def test_the_container_installs_an_extra_that_there_is_from_files_that_there_are() -> None:
    [build] = [value for value in instruction("RUN") if "pip install" in value]
    [extra] = re.findall(r"'\.\[(\w+)\]'", build)
    assert extra in PROJECT["optional-dependencies"]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for value in instruction("COPY"):
        if not value.startswith("--from"):
            for source in value.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{Path(source)}" in ignored


def test_the_container_serves_as_somebody_who_may_do_little_and_ends_within_its_time() -> None:
    [entry], [default] = instruction("ENTRYPOINT"), instruction("CMD")
    program, *arguments = json.loads(entry) + json.loads(default)
    assert program == "qanat"
    assert arguments.pop(0) == "serve"
    options = serve_options(arguments)
    assert [str(options["port"])] == instruction("EXPOSE")
    assert options["api_key_file"] is not None
    assert instruction("USER") == ["10001"]
    [patience] = re.findall(r"--stop-timeout (\d+)", (DEPLOY / "Dockerfile").read_text())
    assert int(patience) >= options["drain"] + ENDING


def test_the_containers_health_check_tells_ready_from_loading() -> None:
    [line] = instruction("HEALTHCHECK")
    command = json.loads(line[line.index("[") :])
    assert command[:2] == ["python", "-c"]
    for state, code in (("ready", 0), ("loading", 1)):
        with served(FakeEngine(state=state)) as client:
            snippet = command[2].replace(":8000/", f":{client.port}/")
            assert snippet != command[2]
            check = [sys.executable, "-c", snippet]
            assert subprocess.run(check, capture_output=True, timeout=20, check=False).returncode == code


# -- systemd ------------------------------------------------------------------------------------------


def unit() -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in (DEPLOY / "qanat.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)
    return values


def test_the_unit_starts_a_command_that_we_have_and_gives_it_time_to_drain() -> None:
    values = unit()
    program, word, *arguments = shlex.split(values["ExecStart"][0])
    assert (Path(program).name, word) == ("qanat", "serve")
    options = serve_options(arguments)
    assert options["model"] == "${MODEL}"
    assert any(value.startswith("MODEL=") for value in values["Environment"])
    assert str(options["api_key_file"]) == "%d/" + values["LoadCredential"][0].partition(":")[0]
    assert int(values["TimeoutStopSec"][0]) >= options["drain"] + ENDING


def test_the_unit_keeps_its_caches_where_it_may_write() -> None:
    values = unit()
    [folder] = values["CacheDirectory"]
    kept = dict(part.split("=") for value in values["Environment"] for part in value.split())
    for name in ("HF_HOME", "QANAT_CACHE"):
        assert kept[name].startswith(f"%C/{folder}/")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / "qanat.service"
    copy.write_text((DEPLOY / "qanat.service").read_text().replace("/opt/qanat/bin/qanat", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- Kubernetes ---------------------------------------------------------------------------------------


@pytest.fixture
def manifest() -> dict[str, Any]:
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    return {document["kind"]: document["spec"] for document in documents}


def test_everything_in_the_manifest_refers_to_something(manifest: dict[str, Any]) -> None:
    replicas, service = manifest["StatefulSet"], manifest["Service"]
    labels = replicas["template"]["metadata"]["labels"]
    for selector in (replicas["selector"]["matchLabels"], service["selector"],
                     manifest["PodDisruptionBudget"]["selector"]["matchLabels"]):  # fmt: skip
        assert selector == labels
    pod = replicas["template"]["spec"]
    [container] = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [port["targetPort"] for port in service["ports"]] == list(ports)
    volumes = [*pod["volumes"], *(claim["metadata"] for claim in replicas["volumeClaimTemplates"])]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in volumes}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in paths()
        assert container[probe]["httpGet"]["port"] in ports
    assert container["image"] == f"qanat:{PROJECT['version']}"


def test_the_manifest_fits_the_container_that_it_runs(manifest: dict[str, Any]) -> None:
    pod = manifest["StatefulSet"]["template"]["spec"]
    [container] = pod["containers"]
    [entry] = instruction("ENTRYPOINT")
    options = serve_options(json.loads(entry)[2:] + container["args"])
    assert container["ports"][0]["containerPort"] == options["port"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(options["api_key_file"].parent) in mounts
    [environment] = instruction("ENV")
    for word in environment.split():
        if "CACHE" in word or "HF_HOME" in word:
            assert str(Path(word.partition("=")[2]).parent) in mounts
    assert [str(pod["securityContext"]["runAsUser"])] == instruction("USER")
    assert pod["securityContext"]["runAsNonRoot"]
    before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= before + options["drain"] + ENDING
    liveness = container["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] > options["drain"]


def test_the_manifest_gives_enough_memory_and_processors_for_its_model(manifest: dict[str, Any]) -> None:
    [container] = manifest["StatefulSet"]["template"]["spec"]["containers"]
    options = serve_options(container["args"])
    assert options["model"] == "Qwen/Qwen3.5-2B"
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
    config = ModelConfig.from_dict(published_config("2B")).text
    planned = plan(config, backend="cpu", sequences=options["max_batch"], available=limit)
    assert planned.context == 32768
    assert int(container["resources"]["requests"]["cpu"]) >= options["threads"]


# -- Ray Serve ----------------------------------------------------------------------------------------


def test_the_ray_application_is_one_that_we_have_with_arguments_that_it_takes() -> None:
    config = yaml.safe_load((DEPLOY / "ray_serve.yaml").read_text())
    [application] = config["applications"]
    module, _, name = application["import_path"].partition(":")
    source = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    assert f"def {name}(" in source.read_text()
    read = read_arguments(application["args"])
    assert read.keys is not None, "its proxies listen on every address"
    assert "ray" in PROJECT["optional-dependencies"]
