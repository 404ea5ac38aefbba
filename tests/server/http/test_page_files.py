"""The page's files: complete, others' unchanged, and served with the rules that browsers hold them to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from qanat.server.http.page_files import page_paths
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import Client, served
from tools.vendor_page import VENDOR, listed_hashes, sha256, vendored

PAGE = VENDOR.parent


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(FakeEngine()) as client:
        yield client


def test_the_page_comes_with_a_strict_policy_and_is_asked_about_each_time(client: Client) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/page/js/main.js", "text/javascript"),
        ("/page/icon.svg", "image/"),
    ):
        status, _, headers = client.ask("GET", path)
        assert (status, headers["content-type"].startswith(kind)) == (200, True)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-cache"
        again = client.ask("GET", path, headers={"If-None-Match": f'"x", {headers["etag"]}'})
        assert again[:2] == (304, "")
        assert again[2]["content-security-policy"] == policy
        assert client.ask("GET", path, headers={"If-None-Match": '"x"'})[0] == 200
        assert client.ask("HEAD", path)[:2] == (200, "")


def test_no_file_but_the_pages_is_reached(client: Client) -> None:
    for path in (
        "/page/vendor/README.md",
        "/page/vendor/LICENSE.katex",
        "/page/../page_files.py",
        "/page/js/../../app.py",
        "/page/%2e%2e/app.py",
        "/page//js/main.js",
        "/page/js/main.js/",
        "/page/js",
    ):
        assert client.ask("GET", path)[0] == 404, path


def test_only_the_worker_may_answer_for_the_whole_page(client: Client) -> None:
    assert client.ask("GET", "/page/worker.js")[2]["service-worker-allowed"] == "/"
    assert "service-worker-allowed" not in client.ask("GET", "/page/js/main.js")[2]


def test_the_libraries_are_the_bytes_that_npm_gave() -> None:
    hashes = listed_hashes()
    found = {str(file.relative_to(VENDOR)) for file in VENDOR.rglob("*") if file.is_file()} - {"README.md"}
    assert found == set(hashes)
    assert len(found) == 29
    for name, digest in hashes.items():
        assert sha256(vendored(name)) == digest, name


def test_all_of_the_page_weighs_less_than_1_5_mb() -> None:
    weight = sum(file.stat().st_size for file in PAGE.rglob("*") if file.is_file())
    print(f"the page weighs {weight / 1e6:.2f} MB")
    assert weight < 1.5e6


def test_the_worker_keeps_every_file_that_reading_needs() -> None:
    text = (PAGE / "worker.js").read_text()
    [modules] = re.findall(r'\[("address".*?)\]\.map', text)
    kept = {f"/page/js/{name}.js" for name in re.findall(r'"([\w-]+)"', modules)}
    assert kept == {path for path in page_paths() if path.startswith("/page/js/")}
    [vendor] = re.findall(r'\[("markdown-it.*?)\]\.map', text)
    kept = {f"/page/vendor/{name}" for name in re.findall(r'"([^"]+)"', vendor)}
    assert kept == {p for p in page_paths() if p.startswith("/page/vendor/") and not p.endswith(".woff2")}


def test_modules_import_files_that_are_there_and_nothing_from_elsewhere() -> None:
    for file in (PAGE / "js").glob("*.js"):
        text = file.read_text()
        for name in re.findall(r'(?:^import |^\} from |^import .* from |import\()"([^"]+)"', text, re.M):
            assert name.startswith("."), (file.name, name)
            assert (file.parent / name).resolve().is_file(), (file.name, name)
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
        ), file.name
