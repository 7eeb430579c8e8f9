"""Team use: links of reviewers, TLS, a proxy with a secret, and what is refused."""

import ssl
import stat
import subprocess
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from conftest import Server
from finished_runs import photos_run
from typer.testing import CliRunner

from holdfast import HoldfastError, Run
from holdfast.cli import app
from holdfast.review.links import KEY, Links
from holdfast.review.serving import SHORTEST, VARIABLE, Serving, proxy_secret
from holdfast.review.store import Answer, Said, Store

SECRET = "s3cret-of-the-proxy-0123"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    photos_run(folder)
    return folder / "run"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
             "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
             "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]  # fmt: skip
    try:
        subprocess.run(words, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate of this test; apt-get install openssl")
    return folder / "cert.pem", folder / "key.pem"


def refused(run, *words):
    found = CliRunner().invoke(app, ["review", str(run), *map(str, words)])
    assert found.exit_code != 0
    return str(found.exception)


@contextmanager
def opened(link, home, **more):
    with httpx.Client(base_url=home, headers={"origin": home}, **more) as client:
        assert client.get(link, follow_redirects=True).status_code == 200
        yield client


@contextmanager
def serving(run, *words, environment=None):
    server = Server(run, *map(str, words), environment=environment)
    try:
        yield server
    finally:
        server.end()


def test_nothing_leaves_this_machine_in_the_clear(run, certificate, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    tls = ("--certificate", certificate[0], "--key", certificate[1])
    for host in ("0.0.0.0", "192.168.1.7", "::", "example.org"):
        assert "--certificate FILE" in refused(run, "--host", host)
    assert "both" in refused(run, "--host", "0.0.0.0", "--certificate", certificate[0])
    assert "--address" in refused(run, "--host", "0.0.0.0", *tls, "--reviewer", "ana")
    assert "no certificate" in refused(run, "--certificate", certificate[1], "--key", certificate[0])
    assert "no certificate" in refused(run, "--certificate", tmp_path / "none", "--key", certificate[1])
    assert "links of their own" in refused(run, *tls)
    assert VARIABLE in refused(run, "--behind-proxy", "--address", "https://review.example.org")
    monkeypatch.setenv(VARIABLE, "short")
    assert str(SHORTEST) in refused(run, "--behind-proxy", "--address", "https://review.example.org")
    monkeypatch.setenv(VARIABLE, SECRET)
    assert "--address" in refused(run, "--behind-proxy")
    assert "not both" in refused(run, "--behind-proxy", "--address", "https://review.example.org", *tls)
    assert "links of their own" in refused(run, "--behind-proxy", "--address", "https://review.example.org")
    for wrong in ("http://review.example.org", "review.example.org", "https://a.org/page", "https://u@a.org", "https://",
                  "https://a.org:x"):  # fmt: skip
        assert "no address" in refused(run, "--behind-proxy", "--address", wrong)
    assert "goes with" in refused(run, "--address", "https://review.example.org")
    assert "at most 60" in refused(run, "--reviewer", "x" * 61)


def test_a_secret_comes_from_a_file_or_the_environment(tmp_path):
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert proxy_secret(tmp_path / "secret", {}) == SECRET
    assert proxy_secret(None, {VARIABLE: SECRET}) == SECRET
    for wrong in ("", "two words are not enough", "\N{SNOWMAN}" * 20):
        with pytest.raises(HoldfastError, match="secret of at least"):
            proxy_secret(None, {VARIABLE: wrong})
    with pytest.raises(HoldfastError, match="cannot be read"):
        proxy_secret(tmp_path / "none", {})


def test_homes(certificate):
    assert Serving().home(80) == "http://127.0.0.1:80"
    assert Serving("::1").home(80) == "http://[::1]:80"
    assert Serving("10.0.0.1", *certificate).home(80) == "https://10.0.0.1:80"
    assert Serving(secret=SECRET, address="https://a.org/").home(80) == "https://a.org"


@pytest.mark.slow
def test_each_reviewer_answers_under_their_own_name(run):
    with serving(run, "--reviewer", "ana", "--reviewer", "ben") as server:
        ana, ben = server.links
        assert ana != ben
        with opened(ana, server.home) as first, opened(ben, server.home) as second:
            assert first.get("/api/setup").json()["reviewer"] == "ana"
            item = first.get("/api/next").json()["item"]
            assert second.get("/api/next").json()["item"]["row"] != item["row"]
            body = {"row": item["row"], "verdict": "keep"}
            assert first.post("/api/decide", json={**body, "reviewer": "ben"}).status_code == 400
            assert first.post("/api/undo", json={"reviewer": "ben"}).status_code == 400
            assert first.get("/api/next?reviewer=ben").status_code == 400
            assert first.post("/api/decide", json=body).status_code == 200
            assert second.post("/api/undo", json={}).status_code == 400, "ben has nothing to take back"
            assert first.post("/api/decide", json={**body, "reviewer": "ana"}).status_code == 200
            assert first.post("/api/undo", json={}).json()["rows"] == [item["row"]]

            assert CliRunner().invoke(app, ["review", str(run), "--revoke", "ben"]).exit_code == 0
            assert second.get("/api/setup").status_code == 403, "while the server runs"
            assert httpx.get(ben).status_code == 403
            assert first.get("/api/setup").status_code == 200
    with closing(Store(run / "reviews.sqlite", Run.records(run).config.fingerprint)) as store:
        entries = store.connection.execute("SELECT reviewer, link, signature FROM entries").fetchall()
        assert len(entries) == 3
        assert all(reviewer == "ana" and link and len(signature) == 64 for reviewer, link, signature in entries)
        assert Links(store, run / KEY).forged() == []
        kept = "\n".join(store.connection.iterdump())
    assert all(link.partition("token=")[2] not in kept for link in (ana, ben)), "no link can be read from the file"
    assert stat.S_IMODE((run / KEY).stat().st_mode) == 0o600
    with serving(run) as server:
        assert server.links[0] != ana
        with opened(server.link, server.home) as anybody:
            assert anybody.get("/api/next?reviewer=ana").status_code == 400, "ana has a link of her own"
            assert anybody.get("/api/next?reviewer=zoe").status_code == 200
        with opened(ana.replace(ana.split("/")[2], server.home.split("/")[2]), server.home) as first:
            assert first.get("/api/setup").json()["reviewer"] == "ana", "a link outlives the server"
    assert "nobody" not in refused(run, "--revoke", "zoe")
    assert "zoe has no link" in refused(run, "--revoke", "zoe")


def test_forged_answers_are_noticed(tmp_path):
    with closing(Store(tmp_path / "reviews.sqlite", "f")) as store:
        links = Links(store, tmp_path / KEY)
        ana, ben = (links.of(links.make(name)) for name in ("ana", "ben"))
        for link in (ana, ben):
            store.stroke(link.reviewer, [Said(1, Answer.keep, "cat"), Said(2, Answer.keep, "cat")], links.sign(link))
        store.undo("ana", links.sign(ana))
        assert links.forged() == []
        store.stroke("ben", [Said(3, Answer.keep, "cat")], links.sign(ana))
        assert links.forged() == [7]
        store.connection.execute("UPDATE entries SET label = '\"dog\"' WHERE number = 1")
        store.connection.execute("UPDATE entries SET signature = 'x' WHERE number = 2")
        assert links.forged() == [1, 2, 7]
        assert Links(store, tmp_path / "other.key").forged() == list(range(1, 8))


def test_a_new_link_takes_the_place_of_the_old(tmp_path):
    with closing(Store(tmp_path / "reviews.sqlite", "f")) as store:
        links = Links(store, tmp_path / KEY)
        first = links.make("ana")
        second = links.make("ana")
        assert links.of(first) is None
        assert links.of(second).reviewer == "ana"
        assert links.reviewers() == ["ana"]
        assert links.of("") is None
        assert links.of("\udcff") is None
        (tmp_path / KEY).write_bytes(b"short")
        with pytest.raises(HoldfastError, match="damaged"):
            Links(store, tmp_path / KEY)


def test_with_tls(run, certificate):
    words = ("--reviewer", "ana", "--host", "127.0.0.1", "--certificate", certificate[0], "--key", certificate[1])
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    with serving(run, *words) as server:
        assert server.home.startswith("https://127.0.0.1:")
        answer = httpx.get(server.link, verify=trusted)
        assert "secure" in answer.headers["set-cookie"].lower()
        with opened(server.link, server.home, verify=trusted) as client:
            assert client.get("/api/next").json()["item"]
            plain = "http" + server.home[5:]
            assert client.post("/api/undo", json={}, headers={"origin": plain}).status_code == 403
            assert client.get("/api/setup", headers={"host": f"localhost:{server.port}"}).status_code == 421
        with pytest.raises(httpx.HTTPError):
            httpx.get("http" + server.home[5:])


def test_behind_a_proxy(run):
    address, environment = "https://review.example.org", {VARIABLE: SECRET}
    with serving(run, "--reviewer", "ana", "--behind-proxy", "--address", address, environment=environment) as server:
        assert server.link.startswith(f"{address}/?token=")
        assert SECRET not in Path(f"/proc/{server.process.pid}/cmdline").read_text()
        here = "http://127.0.0.1:" + str(listening_port(server.process.pid))
        through = {"host": "review.example.org", "origin": address, "x-holdfast-secret": SECRET}
        token = server.link.partition("?")[2]
        with httpx.Client(base_url=here) as client:
            for wrong in ({"x-holdfast-secret": "x" * 20}, {"x-holdfast-secret": ""}, {"host": here[7:]}):
                assert client.get(f"/?{token}", headers={**through, **wrong}).status_code in (403, 421)
            assert client.get(f"/?{token}", headers={"host": "review.example.org"}).status_code == 403
            answer = client.get(f"/?{token}", headers=through)
            assert answer.status_code == 303
            assert "secure" in answer.headers["set-cookie"].lower()
            cookie = {**through, "cookie": answer.headers["set-cookie"].partition(";")[0]}
            assert client.get("/api/setup", headers=cookie).json()["reviewer"] == "ana"
            assert client.get("/api/setup", headers={**cookie, "origin": "https://evil.example"}).status_code == 403
            without = {name: value for name, value in cookie.items() if name != "x-holdfast-secret"}
            assert client.get("/api/setup", headers=without).status_code == 403


def listening_port(pid):
    """On which a process listens, since the link of one behind a proxy does not say."""
    inodes = {
        link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.readlink().name[:6] == "socket"
    }
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
            return int(words[1].split(":")[1], 16)
    raise AssertionError("it listens nowhere")
