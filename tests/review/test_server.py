"""The page's server from outside: what it does, and what it refuses."""

import io
import os
import re
import shlex
import socket
import sqlite3
import struct
import zlib
from contextlib import closing
from pathlib import Path

import httpx
import pandas as pd
import pytest
from finished_runs import SCRIPT
from PIL import Image
from typer.testing import CliRunner

from holdfast import Run
from holdfast.cli import app
from holdfast.review.serving import listening

EVIL = "'; DROP TABLE entries; --"


def asked(client, **query):
    return client.get("/api/next", params={"reviewer": "Ada", **query}).json()


def post(client, path, **body):
    return client.post(path, json={"reviewer": "Ada", **body})


@pytest.mark.slow
def test_a_walk_through_suspects(digits, tmp_path):
    with digits.client() as client:
        first = asked(client)
        assert first["progress"]["decided"] == 0
        item = first["item"]
        assert item["given"] != item["suggested"]
        assert {group["label"] for group in item["neighbours"]} == {item["given"], item["suggested"]}
        assert all(group["rows"] for group in item["neighbours"])
        assert all(near["label"] == group["label"] for group in item["neighbours"] for near in group["rows"])
        picture = Image.open(io.BytesIO(client.get(f"/picture/{item['row']}").content))
        assert picture.size == (8, 8)
        second = post(client, "/api/decide", row=item["row"], verdict="suggestion").json()
        assert second["item"]["row"] != item["row"]
        assert second["progress"]["decided"] == 1
        back = post(client, "/api/undo").json()
        assert back["item"]["row"] == item["row"]
        assert post(client, "/api/undo").status_code == 400
        post(client, "/api/decide", row=item["row"], verdict="suggestion")
        other = next(name for name in client.get("/api/setup").json()["classes"] if name != item["given"])
        kept = second["item"]["row"]
        third = post(client, "/api/decide", row=kept, verdict="keep").json()["item"]["row"]
        fourth = post(client, "/api/decide", row=third, verdict="other", label=other).json()["item"]["row"]
        post(client, "/api/decide", row=fourth, verdict="unsure")
        assert post(client, "/api/decide", row=kept, verdict="keep", filter={"second": True}).status_code == 200
        again = asked(client, reviewer="Bob", second="true")["item"]
        assert again["row"] == item["row"]
        assert again["decisions"] == ["Ada: suggestion"]
        assert asked(client)["progress"]["own"] == 4
    out = tmp_path / "cleaned.csv"
    exported = CliRunner().invoke(app, ["export", str(digits.run), "--out", str(out)])
    assert exported.exit_code == 0, exported.output
    table = pd.read_csv(out)
    assert table["label"][item["row"]] == item["suggested"]
    assert table["label"][kept] == table["given"][kept]
    assert table["label"][third] == other
    assert table["reviewed"].to_numpy().nonzero()[0].tolist() == sorted([item["row"], kept, third])
    assert (table["label"] != table["given"]).sum() == 2
    assert table["reviewers"][fourth] == "Ada"


def test_the_modules_read_what_is_sent_and_what_is_on_the_page(digits):
    modules, wanted = {}, {"review.js"}
    with digits.client() as client:
        page, first = client.get("/").text, asked(client)
        while wanted - modules.keys():
            name = min(wanted - modules.keys())
            answer = client.get(f"/{name}")
            assert answer.headers["content-type"].startswith("text/javascript")
            modules[name] = answer.text
            wanted |= set(re.findall(r'from "\./(\w+\.js)"', answer.text))
        assert all(client.get(path).status_code == 200 for path in re.findall(r'(?:src|href)="(/[\w.]+)"', page))
    script = "".join(modules.values())
    assert (
        {"row", "decisions", "likely", "reasons"} <= set(re.findall(r"\bitem\.(\w+)", script)) <= first["item"].keys()
    )
    assert (
        {"decisions", "picture"}
        <= set(re.findall(r'\bat\("([\w-]+)"\)', script))
        <= set(re.findall(r'\bid="([\w-]+)"', page))
    )
    assert all("innerHTML" not in text and len(text.splitlines()) <= 200 for text in modules.values())


@pytest.mark.slow
def test_held_out_rows_are_reviewed_like_the_others(people, tmp_path):
    run, frame = Run.records(people.run), pd.read_csv(people.folder / "people.csv")
    table = run.issue_table()
    suspects = table[table["trust"] < 0.9]
    last = suspects.index[-1]
    assert 192 <= last < 240
    with people.client() as client:
        assert client.get("/api/setup").json()["suspects"] == len(suspects)
        post(client, "/api/decide", row=int(last), verdict="suggestion")
        item = post(client, "/api/undo").json()["item"]
        source = item["source_index"]
        assert item["given"] == frame["income"][source] != item["suggested"]
        assert [text[:2] for text in item["texts"]] == [["note", frame["note"][source]]]
        assert all(group["rows"] for group in item["neighbours"])
        assert post(client, "/api/decide", row=240, verdict="keep").status_code == 400
        post(client, "/api/decide", row=int(last), verdict="suggestion")
    out = tmp_path / "cleaned.csv"
    assert CliRunner().invoke(app, ["export", str(people.run), "--out", str(out)]).exit_code == 0
    cleaned = pd.read_csv(out)
    assert cleaned["row"].tolist() == list(range(240))
    assert cleaned["row"][cleaned["reviewed"]].tolist() == [source]
    assert cleaned["label"][source] == item["suggested"]


def test_filters(digits):
    with digits.client() as client:
        some = asked(client, given="digit 3", low=0.1, high=0.7)
        assert some["item"]["given"] == "digit 3"
        assert 0.1 <= some["item"]["trust"] <= 0.7
        assert some["progress"]["open"] < asked(client)["progress"]["open"]
        assert asked(client, given="no such class")["item"] is None
        for wrong in ({"low": "x"}, {"low": 0.9, "high": 0.1}, {"high": "nan"}):
            assert client.get("/api/next", params={"reviewer": "Ada", **wrong}).status_code == 400


def test_who_has_no_token_sees_nothing(digits):
    for path in ("/", "/review.js", "/api/setup", "/api/next?reviewer=Ada", "/picture/0"):
        assert httpx.get(digits.home + path).status_code == 403
        assert httpx.get(digits.home + path, cookies={f"holdfast_{digits.port}": "wrong"}).status_code == 403
    assert httpx.get(digits.home + "/?token=wrong").status_code == 403
    assert httpx.get(digits.home + "/api/setup?token=" + digits.token).status_code == 403
    assert httpx.post(digits.home + "/api/undo", json={}, headers={"origin": digits.home}).status_code == 403


def test_the_cookie_is_for_the_page_alone(digits):
    cookie = httpx.get(digits.link).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_foreign_hosts_and_origins(digits):
    with digits.client() as client:
        for host in ("evil.example", f"evil.example:{digits.port}", f"127.0.0.1:{digits.port + 1}", ""):
            assert client.get("/api/setup", headers={"host": host}).status_code in (400, 421)
        for origin in ("http://evil.example", "null", digits.home + ".evil.example", "https" + digits.home[4:]):
            assert client.get("/api/setup", headers={"origin": origin}).status_code == 403
            body = {"reviewer": "Ada", "row": 0, "verdict": "keep"}
            assert client.post("/api/decide", json=body, headers={"origin": origin}).status_code == 403
        del client.headers["origin"]
        assert client.get("/api/setup").status_code == 200
        assert client.post("/api/undo", json={"reviewer": "Ada"}).status_code == 403


def test_only_this_machine(digits):
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    bound = [line[1] for line in sockets if int(line[1].split(":")[1], 16) == digits.port and line[3] == "0A"]
    assert bound == [f"0100007F:{digits.port:04X}"]


def test_every_answer_is_sealed(digits):
    with digits.client() as client:
        for path in ("/", "/review.js", "/api/setup", "/nowhere", "/picture/999999"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
    assert "content-security-policy" in httpx.get(digits.home).headers


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/picture/../../etc/passwd", "/picture/%2e%2e%2f", "/picture/-1",
     "/picture/1.5", "/picture/etc", "/static/review.js", "//etc/passwd", "/review.js/../../run.json", "/run.json",
     "/picture/99999999999999999999"],
)  # fmt: skip
def test_no_path_reaches_a_file(digits, path):
    with digits.client() as client:
        request = client.build_request("GET", "/")
        request.url = request.url.copy_with(raw_path=path.encode())
        answer = client.send(request)
        assert answer.status_code in (400, 404)
        assert b"root:" not in answer.content
        assert b"fingerprint" not in answer.content


def test_requests_that_are_too_large(digits):
    with digits.client() as client:
        assert client.post("/api/decide", content=b"x" * 100_000).status_code == 413

        def endless():
            for _ in range(1_000):
                yield b"x" * 1_000

        assert client.post("/api/decide", content=endless()).status_code == 413
        assert client.get("/api/setup").status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b"[" * 9_000, b'{"reviewer": "Ada"}',
     b'{"reviewer": "Ada", "row": "0", "verdict": "keep"}', b'{"reviewer": "Ada", "row": -1, "verdict": "keep"}',
     b'{"reviewer": "Ada", "row": 10000000, "verdict": "keep"}',
     b'{"reviewer": "Ada", "row": true, "verdict": "keep"}', b'{"reviewer": "Ada", "row": 0, "verdict": "undo"}',
     b'{"reviewer": "", "row": 0, "verdict": "keep"}', b'{"reviewer": 5, "row": 0, "verdict": "keep"}',
     b'{"reviewer": "Ada", "row": 0, "verdict": ["keep"]}', b'{"reviewer": "Ada", "row": 0, "verdict": "other"}',
     b'{"reviewer": "Ada", "row": 0, "verdict": "other", "label": "no class"}',
     b'{"reviewer": "Ada", "row": 0, "verdict": "other", "label": {"a": 1}}',
     b'{"reviewer": "Ada", "row": 0, "verdict": "other", "label": [1]}',
     b'{"reviewer": "Ada", "row": 0, "verdict": "keep", "filter": 3}', "\xff".encode("latin1")],
)  # fmt: skip
def test_bodies_that_are_no_decision(digits, body):
    with digits.client() as client:
        before = asked(client)["progress"]["decided"]
        answer = client.post("/api/decide", content=body)
        assert answer.status_code == 400
        assert answer.json()["error"]
        assert asked(client)["progress"]["decided"] == before


def test_sql_in_every_field(photos):
    with photos.client() as client:
        for row, reviewer in enumerate((EVIL, '" OR ""="', "Robert'); DELETE FROM entries;--")):
            assert "progress" in asked(client, reviewer=reviewer, given=EVIL, low="0", high="1")
            body = {"row": row, "reviewer": reviewer, "verdict": "other", "label": EVIL, "filter": {"given": EVIL}}
            assert client.post("/api/decide", json=body).status_code == 200
        assert asked(client, low="0; DROP TABLE entries")["error"]
        database = sqlite3.connect(photos.run / "reviews.sqlite")
        entries = database.execute("SELECT reviewer, label FROM entries").fetchall()
        database.close()
        assert (EVIL, f'"{EVIL}"') in entries
        assert len(entries) == 3


def bomb():
    """A PNG of 144 million pixels in a few hundred kilobytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 12_000, 12_000, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(12_001) * 12_000, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def test_an_image_bomb_is_not_decoded(photos):
    with photos.client() as client:
        path = photos.folder / "photos" / SCRIPT / f"05 {SCRIPT}.png"
        row = sorted(
            p.relative_to(photos.folder / "photos").as_posix() for p in path.parent.parent.rglob("*.png")
        ).index(path.relative_to(photos.folder / "photos").as_posix())
        original = path.read_bytes()
        assert client.get(f"/picture/{row}").status_code == 200
        try:
            path.write_bytes(bomb())
            answer = client.get(f"/picture/{row}")
            assert answer.status_code == 400
            assert "too many pixels" in answer.json()["error"]
            path.write_bytes(b"no picture at all")
            assert client.get(f"/picture/{row}").status_code == 400
        finally:
            path.write_bytes(original)
        status = Path(f"/proc/{photos.process.pid}/status").read_text()
        peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        assert peak < 1_500_000, f"{peak} kB"


def test_a_large_photograph_is_sent_small(photos):
    path = photos.folder / "photos" / SCRIPT / f"06 {SCRIPT}.png"
    original = path.read_bytes()
    with photos.client() as client:
        try:
            Image.new("RGB", (3_000, 2_000), (9, 200, 30)).save(path)
            sizes = {Image.open(io.BytesIO(client.get(f"/picture/{row}").content)).size for row in range(40)}
        finally:
            path.write_bytes(original)
    assert max(max(size) for size in sizes) == 640


def test_export_says_what_is_missing(tmp_path, digits):
    runner = CliRunner()
    empty = tmp_path / "run"
    empty.mkdir()
    for name in ("run.json", "ledger.npz", "history.csv"):
        os.link(digits.run / name, empty / name)
    for words, says in (
        (["export", str(empty), "--out", str(tmp_path / "a.csv")], "nothing is reviewed"),
        (["export", str(digits.run), "--out", str(tmp_path / "a.txt")], "must end in .csv"),
        (["review", str(tmp_path)], "holds no run"),
        (["review", str(digits.run), "--port", str(digits.port)], "cannot be used"),
    ):
        assert says in str(runner.invoke(app, words).exception)


def test_a_link_followed_before_the_server_runs_waits_and_is_not_refused():
    with closing(listening(0)) as waiting, socket.create_connection(waiting.getsockname(), timeout=5) as early:
        assert early.getpeername() == waiting.getsockname()


def test_groups_a_summary_and_the_end(digits, tmp_path):
    with digits.client() as client:
        setup = client.get("/api/setup").json()
        assert (setup["kind"], setup["reviewer"], setup["double"]) == ("picture", None, False)
        before = asked(client, reviewer="Grace")["progress"]
        group = client.get("/api/group", params={"reviewer": "Grace"}).json()["group"]
        rows = [item["row"] for item in group["items"]]
        assert {(item["given"], item["suggested"]) for item in group["items"]} == {(group["given"], group["suggested"])}
        body = {"reviewer": "Grace", "rows": rows, "exceptions": rows[:1], "verdict": "suggestion", "filter": {}}
        after = client.post("/api/decide-group", json=body).json()
        assert after["progress"]["decided"] == before["decided"] + len(rows) - 1
        assert ([item["row"] for item in after["group"]["items"]], after["group"]["aside"]) == (rows[:1], "suggestion")
        back = client.post("/api/undo", json={"reviewer": "Grace"}).json()
        assert back["rows"] == rows[1:]
        assert sorted(item["row"] for item in back["group"]["items"]) == sorted(rows)
        assert back["progress"]["decided"] == before["decided"]
        assert client.post("/api/undo", json={"reviewer": "Grace"}).status_code == 400
        client.post("/api/decide-group", json=body)
        item = client.get(f"/api/item/{rows[1]}", params={"reviewer": "Ada"}).json()["item"]
        assert item["decisions"] == ["Grace: suggestion"]
        assert item["reasons"][-1].startswith("The model gives ")
        likely = {line["label"]: line["probability"] for line in item["likely"]}
        assert item["likely"][0]["label"] in (item["given"], item["suggested"])
        assert len(likely) == 9
        assert list(likely.values()) == sorted(likely.values(), reverse=True)
        assert likely[item["given"]] == item["trust"]
        found = client.get("/api/summary", params={"reviewer": "Grace"}).json()
        assert found["corrected"] >= len(rows) - 1
        assert {"name": "Grace", "decided": len(rows) - 1} in [
            {"name": line["name"], "decided": line["decided"]} for line in found["reviewers"]
        ]
        # The same numbers as those of holdfast issues.
        told = Run.records(digits.run).wrong_labels()
        assert list(found["wrong"]["before"].values()) == list(told.review.before)
        assert list(found["wrong"]["after"].values()) == [told.rate, told.low, told.high]
        assert list(found["wrong"]["remaining"].values()) == [round(value) for value in told.review.left]
        progress = client.get("/api/next", params={"reviewer": "Grace"}).json()["progress"]
        assert progress["remaining"] == pytest.approx(told.review.left[0], abs=1)
        for _ in range(2):
            exported = client.post("/api/export", json={"reviewer": "Grace"}).json()
        assert exported["changed"] >= len(rows) - 1
        table = pd.read_csv(exported["path"])
        assert table["reviewed"].sum() == exported["reviewed"]
        assert (table["label"][rows[1:]] == group["suggested"]).all()
        assert table["label"][rows[0]] == group["given"]
        assert setup["commands"]["refit"] == exported["command"] == found["commands"]["refit"]
    words = shlex.split(exported["command"])
    assert words[:2] == ["holdfast", "fit"]
    again = CliRunner().invoke(app, [*words[1:], "--quiet"])
    assert again.exit_code == 0, again.output
    trained = Run.records(words[words.index("--out") + 1])
    assert trained.config.method == Run.records(digits.run).config.method
    assert (trained.issue_table()["given"][rows[1:]] == group["suggested"]).all()
    words = shlex.split(setup["commands"]["export"])
    assert CliRunner().invoke(app, words[1:]).exit_code == 0


HUGE = "1" + 400 * "0"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/decide", f'{{"reviewer": "Ada", "row": {HUGE}, "verdict": "keep"}}'),
        ("/api/decide", '{"reviewer": "Ada", "row": NaN, "verdict": "keep"}'),
        ("/api/decide", '{"reviewer": "Ada", "row": 1e400, "verdict": "keep"}'),
        ("/api/decide", f'{{"reviewer": "Ada", "row": 0, "verdict": "other", "label": [{HUGE}]}}'),
        ("/api/decide", '{"reviewer": "Ada", "row": 0, "verdict": "other", "label": [NaN]}'),
        ("/api/decide", f'{{"reviewer": "Ada", "row": 0, "verdict": "keep", "filter": {{"low": {HUGE}}}}}'),
        ("/api/decide", '{"reviewer": "Ada", "row": 0, "verdict": "keep", "filter": {"high": NaN}}'),
        ("/api/decide", '{"reviewer": "Ada", "row": 0, "verdict": "keep", "filter": {"order": "none"}}'),
        ("/api/decide", '{"reviewer": "Ada", "row": 0, "verdict": "keep", "filter": {"queue": ["open"]}}'),
        ("/api/decide", '{"reviewer": "Ada", "row": 0, "verdict": "keep", "filter": {"given": {"a": 1}}}'),
        ("/api/decide", '{"reviewer": "\\ud800", "row": 0, "verdict": "keep"}'),
        ("/api/decide", "9" * 5000),
        ("/api/decide-group", '{"reviewer": "Ada", "rows": [], "verdict": "keep"}'),
        ("/api/decide-group", '{"reviewer": "Ada", "rows": [0, "1"], "verdict": "keep"}'),
        ("/api/decide-group", '{"reviewer": "Ada", "rows": [0], "verdict": "other", "label": "digit 1"}'),
        ("/api/decide-group", f'{{"reviewer": "Ada", "rows": [0, {HUGE}], "verdict": "keep"}}'),
        ("/api/decide-group", '{"reviewer": "Ada", "rows": [0], "exceptions": [-1], "verdict": "keep"}'),
        ("/api/decide-group", '{"reviewer": "Ada", "rows": [0], "exceptions": 5, "verdict": "keep"}'),
        ("/api/decide-group", '{"reviewer": "Ada", "rows": {"0": 1}, "verdict": "keep"}'),
        ("/api/undo", '{"reviewer": "Ada", "filter": []}'),
        ("/api/export", '{"reviewer": ""}'),
    ],
)
def test_numbers_and_names_that_are_none(digits, path, body):
    with digits.client() as client:
        before = asked(client)["progress"]["decided"]
        answer = client.post(path, content=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]
        assert asked(client)["progress"]["decided"] == before


@pytest.mark.parametrize(
    "path",
    [f"/api/next?reviewer=Ada&after={HUGE}", "/api/next?reviewer=Ada&before=-1", "/api/next?reviewer=Ada&after=1.5",
     "/api/next?reviewer=Ada&after=99999", "/api/group?reviewer=Ada&after=99999", "/api/group?reviewer=Ada&after=x",
     f"/api/item/{HUGE}?reviewer=Ada", "/api/item/99999?reviewer=Ada", "/api/item/x?reviewer=Ada",
     "/api/item/0", "/api/summary", "/api/next?reviewer=Ada&order=best", f"/api/next?reviewer=Ada&low={HUGE}",
     "/api/next?reviewer=Ada&after=%D9%A3"],
)  # fmt: skip
def test_queries_that_are_none(digits, path):
    with digits.client() as client:
        answer = client.get(path)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]


def test_pictures_that_are_none(digits):
    with digits.client() as client:
        for row in ("9" * 5000, HUGE, "1e3", "%D9%A3", "99999"):
            assert client.get(f"/picture/{row}").status_code in (400, 404)


def test_a_browser_without_the_link_reads_a_sentence(digits):
    accept = {"accept": "text/html,application/xhtml+xml"}
    for query in ("", "?token=wrong"):
        answer = httpx.get(f"{digits.home}/{query}", headers=accept)
        assert answer.status_code == 403
        assert answer.headers["content-type"].startswith("text/html")
        assert "<p>The " in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert httpx.get(digits.home).json()["error"]
