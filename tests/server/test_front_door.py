"""What comes before a dialect: bounds on bytes and time, keys, hosts, origins, types, and logs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.scripted import ReadingRunner
from tests.patience import PATIENCE, until
from tests.server.harness import Served, scripted_server

from pyrite.errors import ParameterError, PyriteError
from pyrite.server import limits as limits_module
from pyrite.server.app import routes
from pyrite.server.decoding import check_values, converted, json_object
from pyrite.server.keys import Key, plain_keys
from pyrite.server.limits import DEFAULT_LIMITS, Limits
from pyrite.server.logs import JsonLines
from pyrite.server.openai.chat import ChatRequest
from pyrite.server.settings import ServerSettings
from work import counted

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "tin"}], "max_tokens": 3}
SECRET = "pyr-tin-lead-zinc"
QUICK = Limits(header_seconds=0.2, body_seconds=0.2, slow_reader_seconds=0.5, idle_seconds=1)


@pytest.fixture(scope="module")
def locked() -> Iterator[Served]:
    keys = (
        *plain_keys([SECRET]),
        Key("slow", hashlib.sha256(b"slow").digest(), requests_per_minute=2),
        Key("small", hashlib.sha256(b"small").digest(), tokens_per_minute=10),
        Key("told", hashlib.sha256(b"told").digest(), 2, 1000),
        Key("one", hashlib.sha256(b"one").digest(), concurrency=1),
    )
    with scripted_server(settings=ServerSettings(keys=keys)) as served:
        yield served


@pytest.fixture(scope="module")
def quick() -> Iterator[Served]:
    with scripted_server(settings=ServerSettings(limits=QUICK)) as served:
        yield served


def spoken(served: Served, data: bytes, *, enough: bytes = b"nothing") -> bytes:
    """What the server says to raw bytes, until it closes or has said enough."""
    host, port = served.url.removeprefix("http://").split(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as link:
        try:
            link.sendall(data)
            while enough not in said and (piece := link.recv(65536)):
                said += piece
        except (TimeoutError, ConnectionError):
            pass
    return said


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0


def answers(served: Served) -> bool:
    """The canary: the server still answers as it should, if not the first time: 408 says that we
    were slow."""
    codes = [408]
    with served.client() as client:
        while codes[-1] == 408 and len(codes) < 20:
            codes.append(client.post("/v1/chat/completions", json=CHAT).status_code)
    return codes[-1] in (200, 401)


# Bytes before the body


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", 414),
        (b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: " + b"b" * 2**20 + b"\r\n\r\n", 431),
        (b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 10_000 + b"\r\n", 431),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n", 400),
    ],
)
def test_a_head_out_of_bounds_is_refused(scripted: Served, head: bytes, expected: int) -> None:
    said = spoken(scripted, head)
    assert status(said) == expected
    assert json.loads(said.split(b"\r\n\r\n", 1)[1])["error"]["message"]
    assert answers(scripted)


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /livez HTTP/1.1\r\n\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ],
)
def test_lengths_that_contradict_each_other_desynchronise_nothing(
    scripted: Served, smuggled: bytes
) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    said = spoken(scripted, head + smuggled)
    assert status(said) == 400
    assert said.count(b"HTTP/1.1 ") == 1, "a smuggled request was answered"


def test_a_slow_head_and_a_slow_body_are_given_up(quick: Served) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
    for begun in (b"GET /livez HTTP/1.1\r\nhost: loc", head):
        said = spoken(quick, begun)
        assert status(said) == 408
        assert b"0.2 s" in said, "the limit as it was set"
    assert answers(quick)


# Bodies


NO_REQUESTS = [
    b"",
    b"[",
    b"[]",
    b'"text"',
    b"null",
    b"1",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"messages": NaN}',
    b'{"temperature": Infinity, "messages": []}',
    b'{"max_tokens": 1e400, "messages": [{"role": "user", "content": "x"}]}',
    b'{"max_tokens": 1' + b"0" * 400 + b', "messages": [{"role": "user", "content": "x"}]}',
    b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
    b'\xef\xbb\xbf{"messages": []}',
    b"{" + b",".join(b'"k%d": 1' % number for number in range(300_000)) + b"}",
]


@pytest.mark.parametrize("body", NO_REQUESTS)
def test_a_body_that_is_no_request_is_a_400(scripted: Served, body: bytes) -> None:
    with scripted.client() as client:
        reply = client.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
        )
    assert reply.status_code in (400, 413), reply.text
    assert reply.json()["error"]["message"]
    assert answers(scripted)


@pytest.mark.parametrize("body", NO_REQUESTS)
def test_a_body_that_is_no_request_is_little_work(body: bytes) -> None:
    def read() -> ChatRequest:
        check_values(body, DEFAULT_LIMITS.json_values)
        return converted(json_object(body), ChatRequest)

    with counted() as work, contextlib.suppress(PyriteError):
        read()
    assert work.lines < 200


def test_a_body_out_of_bounds_is_a_413(scripted: Served) -> None:
    with scripted.client() as client:
        reply = client.post("/v1/completions", json={"prompt": "a" * (17 * 2**20)})
    assert reply.status_code == 413
    assert reply.json()["error"]["code"] == "body_too_large"


@pytest.mark.parametrize(
    ("kind", "extra", "expected"),
    [
        ("application/json", {}, 200),
        ("application/json; charset=utf-8", {}, 200),
        ("application/x-www-form-urlencoded", {}, 200),
        ("application/x-www-form-urlencoded", {"origin": "http://{host}"}, 415),
        ("text/plain", {}, 415),
        ("multipart/form-data; boundary=x", {}, 415),
    ],
)
def test_bodies_are_json(scripted: Served, kind: str, extra: dict[str, str], expected: int) -> None:
    host = scripted.url.removeprefix("http://")
    headers = {"content-type": kind, **{key: text.format(host=host) for key, text in extra.items()}}
    with scripted.client() as client:
        reply = client.post("/v1/chat/completions", content=json.dumps(CHAT), headers=headers)
    assert reply.status_code == expected


# Where from


def test_a_foreign_host_name_is_refused(scripted: Served) -> None:
    with scripted.client() as client:
        assert client.get("/livez", headers={"host": "evil.example:8000"}).status_code == 403
        assert client.get("/livez", headers={"host": "localhost:1"}).status_code == 200


def test_a_page_of_another_origin_is_refused(scripted: Served) -> None:
    with scripted.client() as client:
        reply = client.post(
            "/v1/chat/completions", json=CHAT, headers={"origin": "https://evil.example"}
        )
        assert reply.status_code == 403
        asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        reply = client.options("/v1/chat/completions", headers=asked)
    assert reply.status_code == 403
    assert "access-control-allow-origin" not in reply.headers


def test_an_allowed_origin_is_told_so() -> None:
    settings = ServerSettings(allow_origins=("https://good.example",))
    with scripted_server(settings=settings) as served, served.client() as client:
        headers = {"origin": "https://good.example"}
        assert client.options("/v1/chat/completions", headers=headers).status_code == 204
        reply = client.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == "https://good.example"


# Keys


def every_path(served: Served) -> list[str]:
    assert served.service is not None
    paths = [re.sub(r"\{.*?\}", "x", route.path) for route in routes(served.service)]  # type: ignore[attr-defined]
    assert "/v1/chat/completions" in paths
    return paths


def test_every_route_but_liveness_wants_the_key(locked: Served) -> None:
    with locked.client() as client:
        for path in every_path(locked):
            for spelled in (path, path + "/", path.upper(), "/" + path, path.replace("/", "/%2e/")):
                for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE", "PUT"):
                    reply = client.request(method, locked.url + spelled)
                    if spelled == "/livez":
                        assert reply.status_code in (200, 405)
                    else:
                        assert reply.status_code == 401, (method, spelled)
        assert client.get("/readyz", headers={"x-api-key": SECRET}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"authorization": f"Bearer {SECRET}"}, 200),
        ({"authorization": f"bearer  {SECRET}"}, 200),
        ({"x-api-key": SECRET}, 200),
        ({"authorization": "Basic cHlyaXRlOnB5ci10aW4tbGVhZC16aW5j"}, 200),
        ({"authorization": f"Bearer {SECRET[:-1]}"}, 401),
        ({"authorization": f"Bearer {SECRET}x"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Basic !!!"}, 401),
        ({"authorization": "Digest x"}, 401),
        ({"authorization": "Bearer schlüssel".encode()}, 401),
        ({"x-api-key": ""}, 401),
    ],
)
def test_a_key_is_right_or_wrong(locked: Served, headers: Any, expected: int) -> None:
    with locked.client() as client:
        assert client.post("/v1/chat/completions", json=CHAT, headers=headers).status_code == (
            expected
        )


def test_allowances_of_a_key(locked: Served) -> None:
    with locked.client(headers={"x-api-key": "slow"}) as client:
        codes = [client.post("/v1/chat/completions", json=CHAT).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        assert int(client.post("/v1/chat/completions", json=CHAT).headers["retry-after"]) > 1
    with locked.client(headers={"x-api-key": "small"}) as client:
        codes = [
            client.post("/v1/chat/completions", json={**CHAT, "max_tokens": 20}).status_code
            for _ in range(2)
        ]
        assert codes == [200, 429]
    body = {**CHAT, "max_tokens": 300, "ignore_eos": True, "stream": True}
    with locked.client(headers={"x-api-key": "one"}) as client:
        with client.stream("POST", "/v1/chat/completions", json=body) as reply:
            lines = reply.iter_lines()
            next(lines)
            assert client.post("/v1/chat/completions", json=CHAT).status_code == 429
        until(lambda: client.post("/v1/chat/completions", json=CHAT).status_code == 200)


def test_what_is_left_of_an_allowance_is_told(locked: Served) -> None:
    with locked.client(headers={"x-api-key": "told"}) as client:
        replies = [client.post("/v1/chat/completions", json=CHAT) for _ in range(3)]
    left = [reply.headers["x-ratelimit-remaining-requests"] for reply in replies]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert left == ["1", "0", "0"]
    for reply in replies:
        assert reply.headers["x-ratelimit-limit-requests"] == "2"
        assert reply.headers["x-ratelimit-limit-tokens"] == "1000"
        assert 0 < float(reply.headers["x-ratelimit-reset-requests"].removesuffix("s")) <= 60
    assert int(replies[2].headers["x-ratelimit-remaining-tokens"]) < 1000
    with locked.client(headers={"x-api-key": SECRET}) as client:
        reply = client.post("/v1/chat/completions", json=CHAT)
    assert not [name for name in reply.headers if name.startswith("x-ratelimit")]


def test_each_dialect_has_its_own_list_of_models(scripted: Served) -> None:
    with scripted.client() as client:
        plain = client.get("/v1/models").json()
        theirs = client.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).json()
    assert plain["object"] == "list"
    assert theirs["has_more"] is False
    assert [one["id"] for one in plain["data"]] == [one["id"] for one in theirs["data"]]


def test_a_base_url_without_its_version_is_told_so(scripted: Served) -> None:
    with scripted.client() as client:
        reply = client.post("/chat/completions", json=CHAT)
        assert reply.status_code == 404
        assert "put /v1 into" in reply.json()["error"]["message"]
        assert "/v1" not in client.post("/nowhere", json=CHAT).json()["error"]["message"]


# Ids


@pytest.mark.parametrize("given", ["trace-1", "0af7651916cd43dd", "a" * 128, "svc/7:x=+_."])
def test_a_fit_id_of_the_client_is_the_requests(scripted: Served, given: str) -> None:
    with scripted.client(headers={"x-request-id": given}) as client:
        assert client.get("/v1/models").headers["x-request-id"] == given
        assert client.post("/v1/messages", json={}).headers["request-id"] == f"req_{given}"


@pytest.mark.parametrize("given", ["", "a b", "a" * 129, "schl\u00fcssel".encode(), '{"a":1}'])
def test_an_unfit_id_is_passed_over(scripted: Served, given: Any) -> None:
    with scripted.client(headers={"x-request-id": given}) as client:
        assert re.fullmatch("[0-9a-f]{16}", client.get("/v1/models").headers["x-request-id"])


def test_refusals_have_the_id_that_anthropics_clients_log(locked: Served) -> None:
    with locked.client() as client:
        reply = client.post("/v1/messages", json={})
        assert reply.status_code == 401
        assert reply.headers["request-id"] == f"req_{reply.headers['x-request-id']}"
        assert reply.json()["request_id"] == reply.headers["request-id"]
        assert "request-id" not in client.post("/v1/chat/completions", json={}).headers


def test_models_are_kept_from_the_public() -> None:
    settings = ServerSettings(host="0.0.0.0", allow_public_without_key=True)
    with scripted_server(settings=settings) as served, served.client() as client:
        for method, path in (("POST", "/api/pull"), ("DELETE", "/api/delete")):
            reply = client.request(method, path, json={"model": "other"})
            assert reply.status_code == 403
            assert "public server without keys" in reply.json()["error"]


def test_secrets_are_told_nobody(locked: Served, caplog: pytest.LogCaptureFixture) -> None:
    prompt = "a most private prompt"
    said = []
    with caplog.at_level(logging.DEBUG), locked.client() as client:
        for key in (SECRET, SECRET + "x"):
            headers = {"x-api-key": key}
            for path in ("/v1/chat/completions", "/v1/models", "/metrics", "/nope", "/v1/models/x"):
                said.append(client.get(path, headers=headers).text)
                body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": -1}
                said.append(client.post(path, headers=headers, json=body).text)
    logged = caplog.text + repr([record.__dict__ for record in caplog.records])
    for text in (*said, logged):
        assert SECRET not in text
        assert prompt not in text
        assert "Traceback" not in text
        assert "/src/pyrite" not in "".join(said)


def test_a_path_cannot_forge_a_line_of_the_log() -> None:
    record = logging.LogRecord("pyrite", logging.INFO, "", 0, "request", None, None)
    record.fields = {"path": '/x\n{"level":"error"}'}
    line = JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line)["path"].startswith("/x\n")


# Load


def test_a_full_queue_is_a_429_at_once() -> None:
    """Whatever the engine does: it is in the midst of a step here."""
    go, runner = threading.Event(), ReadingRunner()
    runner.fails = lambda number, _: number > 3 and not go.wait(PATIENCE)
    settings = ServerSettings(limits=Limits(queue=4))
    with (
        scripted_server(settings=settings, runner=runner) as served,
        served.client() as client,
    ):
        body = {"prompt": ["tin"] * 64, "max_tokens": 400, "ignore_eos": True, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as reply:
            assert reply.status_code == 200
            lines = reply.iter_lines()
            next(lines)
            refused = client.post("/v1/chat/completions", json=CHAT)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert client.get("/livez").status_code == 200
            go.set()
        served.wait_idle()
        assert client.post("/v1/chat/completions", json=CHAT).status_code == 200


def test_a_client_that_reads_nothing_is_given_up(quick: Served) -> None:
    host, port = quick.url.removeprefix("http://").split(":")
    body = json.dumps({"prompt": ["a"] * 64, "max_tokens": 400, "stream": True, "ignore_eos": True})
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect((host, int(port)))
        link.sendall((head + body).encode())
        assert answers(quick), "others are not held up"
        service = quick.service
        assert service is not None
        told = b'vllm:slow_reader_cancelled_total{engine="0",model_name="scripted"} 1.0'
        until(lambda: told in service.metrics.text())
        quick.wait_idle()


def test_metrics_have_the_names_of_dashboards(scripted: Served) -> None:
    with scripted.client() as client:
        client.post("/v1/chat/completions", json=CHAT)
        text = client.get("/metrics").text
    for name in (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:num_preemptions_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket",
        "vllm:e2e_request_latency_seconds_bucket",
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    ):
        assert f"{name}{{" in text, name


def test_a_public_address_wants_a_key() -> None:
    with pytest.raises(ParameterError, match="allow-public-without-key"):
        ServerSettings(host="0.0.0.0")
    ServerSettings(host="0.0.0.0", allow_public_without_key=True)
    ServerSettings(host="0.0.0.0", keys=tuple(plain_keys(["x"])))
    ServerSettings(host="::1")


@pytest.mark.parametrize("isolated", [False, True])
def test_a_miss_shows_nobody_elses_prompt(isolated: bool) -> None:
    keys = tuple(plain_keys(["first", "second"]))
    settings = ServerSettings(keys=keys, isolate_keys=isolated)
    secret = "the metal of which the casket is made " * 3

    def asked(served: Served, key: str, prompt: str) -> dict[str, Any]:
        body = {"prompt": prompt, "max_tokens": 1, "explain_cache": True}
        with served.client(headers={"x-api-key": key}) as client:
            return client.post("/v1/completions", json=body).json()  # type: ignore[no-any-return]

    with scripted_server(settings=settings) as served:
        asked(served, "first", secret + "is lead")
        miss = asked(served, "second", secret + "was tin")
        assert not miss.get("cache_miss", {}).get("cached_text")
        if isolated:
            assert miss["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
            own = asked(served, "first", secret + "was tin")
            assert "is lead".startswith(own["cache_miss"]["cached_text"][:2])


def test_every_limit_of_the_table_is_used() -> None:
    """One that is merely listed would be a lie: each is read somewhere beside its table."""
    source = Path(limits_module.__file__).parent
    texts = [path.read_text() for path in source.rglob("*.py") if path.name != "limits.py"]
    for row in limits_module.rows():
        assert any(f"limits.{row.name}" in text for text in texts), row.name


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_choices_and_answers_are_bounded_as_set(path: str) -> None:
    settings = ServerSettings(limits=Limits(choices=2, answers=3))
    with scripted_server(settings=settings) as served, served.client() as client:
        body = {**CHAT, "prompt": ["tin", "lead"]}
        assert client.post(path, json={**body, "n": 3}).status_code == 400
        two = client.post(path, json={**body, "n": 2}).status_code
        assert two == (200 if path == "/v1/chat/completions" else 400)


MANY = 200_000


@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt": [' + b",".join([b"[1]"] * MANY) + b"]}",
        b'{"prompt": [' + b",".join([b"1"] * MANY) + b"]}",
        b'{"messages": [' + b",".join([b"{}"] * MANY) + b"]}",
        b'{"stop": [' + b",".join([b'""'] * MANY * 2) + b"]}",
    ],
    ids=["lists", "numbers", "objects", "texts"],
)
def test_json_of_too_many_values_is_never_read(
    scripted: Served, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("pyrite.server.decoding.msgspec.json.decode")
    with scripted.client() as client:
        headers = {"content-type": "application/json"}
        reply = client.post("/v1/completions", content=body, headers=headers)
    assert reply.status_code == 413
    assert reply.json()["error"]["code"] == "too_many_values"


def test_commas_in_a_text_part_no_values(scripted: Served) -> None:
    text = '\\", [{' * 100_000
    with scripted.client() as client:
        reply = client.post("/tokenize", json={"prompt": text})
    assert reply.status_code == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("origin", "http://[::1")], 403),
        ([("origin", "null")], 403),
        ([("origin", "http://user@localhost")], 403),
        ([("host", "localhost:evil.example")], 403),
        ([("host", "evil.example"), ("host", "localhost")], 400),
        ([("origin", "http://evil.example"), ("origin", "http://localhost")], 400),
        ([("host", "LOCALHOST"), ("origin", "http://LocalHost")], 200),
        ([("host", "[::1]:8000")], 200),
    ],
)
def test_odd_hosts_and_origins(
    scripted: Served, headers: list[tuple[str, str]], expected: int
) -> None:
    names = [name for name, _ in headers]
    lines = [*headers, *([] if "host" in names else [("host", "localhost")])]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    said = spoken(scripted, f"GET /livez HTTP/1.1\r\n{head}connection: close\r\n\r\n".encode())
    assert status(said) == expected, said


def test_a_length_out_of_bounds_and_a_packed_body_are_refused_at_once(scripted: Served) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
    head += b"content-length: 99999999999\r\n\r\n{"
    assert status(spoken(scripted, head, enough=b"\r\n")) == 413
    with scripted.client() as client:
        packed = client.post(
            "/v1/completions", json={"prompt": "tin"}, headers={"content-encoding": "gzip"}
        )
    assert packed.status_code == 415


@pytest.mark.parametrize("token_id", [" 1", "+1", "1_0", "٣", "1.0", "-1", "9" * 30])
def test_a_key_of_the_bias_is_a_number(scripted: Served, token_id: str) -> None:
    with scripted.client() as client:
        body = {**CHAT, "logit_bias": {token_id: 1}}
        assert client.post("/v1/chat/completions", json=body).status_code == 400
