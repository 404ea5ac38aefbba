"""Who is let in: names and origins against pages of other sites, keys over all but /health and the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qanat.errors import RequestError
from qanat.server.engine_client import EngineOptions
from qanat.server.http.address import listen
from qanat.server.http.api_keys import ApiKeys
from qanat.server.http.page_files import page_paths
from qanat.server.key_file import read_keys
from qanat.server.local_engine import LocalEngine
from tests.server.bodies import ask
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import Client, raw, served

CHAT = "/v1/chat/completions"
PATHS = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/pocket"),
    ("GET", "/metrics"),
    ("GET", "/no/such/path"),
    ("GET", "/health/"),
    ("GET", "//health"),
    ("GET", "/%2e/health"),
    ("GET", "/v1/models?/health"),
    ("GET", "/v1/models/../../health"),
    ("POST", CHAT),
    ("POST", "/v1/completions"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/apply-template"),
    ("POST", "/explain"),
    ("GET", "/page"),
    ("GET", "/page/"),
    ("GET", "/page/no-such-file.js"),
    ("GET", "/page/../v1/models"),
    ("GET", "/page/%2e%2e/v1/models"),
    ("OPTIONS", CHAT),
]


@pytest.fixture(scope="module")
def open_server() -> Iterator[Client]:
    with served(FakeEngine(), origins=("https://page.example",)) as client:
        yield client


@pytest.fixture(scope="module")
def keyed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# ours\nfirst\n\n second \n")
    with served(FakeEngine(), keys=keys) as client:
        yield client


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "", "[", "a:b"],
)
def test_other_names_for_this_machine_are_refused(open_server: Client, host: str) -> None:
    for path in ("/health", "/v1/models"):
        status, body, _ = open_server.ask("GET", path, headers={"Host": host})
        assert (status, body["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.0.0.2", "[::1]:80", "page.example"]
)
def test_its_own_names_are_let_in(open_server: Client, host: str) -> None:
    assert open_server.ask("GET", "/v1/models", headers={"Host": host})[0] == 200


def test_a_request_without_a_host_is_refused(open_server: Client) -> None:
    assert raw(open_server.port, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 403")
    twice = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert raw(open_server.port, twice).startswith(b"HTTP/1.1 400")


def test_pages_of_other_sites_are_refused_and_those_that_are_named_let_in(open_server: Client) -> None:
    for origin in ("https://evil.example", "null", "https://page.example.evil", "http://page.example"):
        status, body, headers = open_server.ask("GET", "/v1/models", headers={"Origin": origin})
        assert (status, body["error"]["code"]) == (403, "origin_not_allowed")
        assert "access-control-allow-origin" not in headers
    status, _, headers = open_server.ask("GET", "/v1/models", headers={"Origin": "https://page.example"})
    assert (status, headers["access-control-allow-origin"]) == (200, "https://page.example")
    assert headers["vary"].lower() == "origin"
    own = f"http://127.0.0.1:{open_server.port}"
    assert open_server.ask("GET", "/v1/models", headers={"Origin": own})[0] == 200


def test_a_browser_may_ask_beforehand(open_server: Client) -> None:
    headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    status, _, told = open_server.ask("OPTIONS", CHAT, headers=headers)
    assert (status, told["access-control-allow-origin"]) == (204, "https://page.example")
    assert "authorization" in told["access-control-allow-headers"]
    headers["Origin"] = "https://evil.example"
    assert open_server.ask("OPTIONS", CHAT, headers=headers)[0] == 403


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_every_path_but_health_and_the_page_asks_for_a_key(
    keyed_server: Client, method: str, path: str
) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"X-Api-Key": ""},
        {"Authorization": "Basic first"},
    ):
        status, body, told = keyed_server.ask(method, path, b"{}", headers)
        assert (status, body["error"]["code"]) == (401, "invalid_api_key"), headers
        assert told["www-authenticate"] == "Bearer"
    assert keyed_server.ask(method, path, b"{}", {"X-Api-Key": "first"})[0] != 401


def test_the_pages_own_files_need_no_key(keyed_server: Client) -> None:
    for path in page_paths():
        assert keyed_server.ask("HEAD", path)[0] == 200, path


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer first"}, {"authorization": "bearer second"}, {"X-Api-Key": "second"}],
)
def test_a_key_is_good_in_either_header_and_for_any_name(
    keyed_server: Client, headers: dict[str, str]
) -> None:
    assert keyed_server.ask("GET", "/v1/models", headers={**headers, "Host": "any.example"})[0] == 200
    assert keyed_server.ask("GET", "/health")[0] == 200
    for key in ("# ours", "firs", "firstsecond", "first\tsecond"):
        assert keyed_server.ask("GET", "/v1/models", headers={"X-Api-Key": key})[0] == 401


def test_keys_are_those_that_the_file_has_now(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n")
    keys = ApiKeys(file)
    assert keys.salt(["one"])
    assert not keys.salt(["two"])
    file.write_text("two!\n")
    assert not keys.salt(["one"])
    assert keys.salt(["two!"])
    other = tmp_path / "other"
    other.write_text("six!\n")
    other.replace(file)
    assert keys.salt(["x", "six!"])
    for gone in (file.unlink, lambda: file.write_text("# none\n")):
        gone()
        assert not keys.salt(["six!", "two!", "", "# none"])
    file.write_text("six!\n")
    assert keys.salt(["six!"])


def test_marks_remarks_and_blanks_are_no_keys_and_what_cannot_be_one_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys"
    for data, keys in (
        (b"\xef\xbb\xbffirst\n", ["first"]),
        (b"\xef\xbb\xbf# ours\r\n\r\n\t# theirs\r\n  first \r\nsecond", ["first", "second"]),
        (b"first#1\n", ["first#1"]),
    ):
        file.write_bytes(data)
        assert [key for _, key in read_keys(file)] == keys
        known = ApiKeys(file)
        assert all(known.salt([key]) for key in keys)
        assert not known.salt(["# theirs"])
    for data, line in ((b"# ours\n\ntwo words\n", 3), ("ключ".encode(), 1), ("first".encode("utf-16"), 1)):
        file.write_bytes(data)
        with pytest.raises(RequestError, match=f"keys: line {line}: a key has no blanks"):
            ApiKeys(file)


def test_a_file_of_keys_without_an_end_is_not_read() -> None:
    for read in (read_keys, ApiKeys):
        with pytest.raises(RequestError, match="no file of keys"):
            read(Path("/dev/zero"))


def test_a_file_without_a_key_is_refused_from_the_beginning(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        ApiKeys(tmp_path / "none")
    (tmp_path / "blank").write_text("\n# nobody\n")
    with pytest.raises(RequestError, match="no key"):
        ApiKeys(tmp_path / "blank")


def test_who_has_another_key_finds_nothing_in_the_cache(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("ann\nbob\n")
    engine = LocalEngine(EngineOptions(backend="reference", debug=True))
    with served(engine, keys=keys) as client:

        def cached(key: str) -> int:
            answer = client.post(CHAT, {"X-Api-Key": key}, messages=ask("A secret."), max_tokens=2)
            return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

        assert cached("ann") == 0
        assert cached("ann") > 0
        assert cached("bob") == 0


def test_other_machines_are_not_listened_to_without_keys() -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(RequestError, match="--api-key-file"):
            listen(host, 0, keys=False)
    with listen("0.0.0.0", 0, keys=True):
        pass
    with listen("localhost", 0, keys=False) as taken, pytest.raises(RequestError, match="--port"):
        listen("localhost", taken.getsockname()[1], keys=False)
    with pytest.raises(RequestError, match="no such address"):
        listen("no such host", 0, keys=False)
