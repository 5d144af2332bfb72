"""The build cache: damaged, foreign, unwritable and concurrent; the errors of the compiler."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.backends import build as build_
from assay.backends.target import host, of
from assay.core.errors import InternalError, Unsupported

pytestmark = pytest.mark.cpp
TEXT = 'extern "C" long answer(){return %d;}'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own; nothing counts as loaded."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.setattr(build_, "_loaded", {})
    return tmp_path / "cpp"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_, "_loaded", {})


def test_a_second_build_is_read_from_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_.build(TEXT % 1)
    forget(monkeypatch)
    second = build_.build(TEXT % 1)
    assert (first.seconds > 0, second.seconds, second.library.answer()) == (True, 0.0, 1)
    assert [f.suffix for f in cache.iterdir()] == [".so"]


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "replaced"])
def test_a_damaged_entry_is_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    text = TEXT % (10 + len(damage))
    path = cache / f"{build_.build(text).key}.so"
    data = path.read_bytes()
    path.unlink()
    middle = len(data) // 2
    changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    wrong = {"truncated": data[:middle], "changed": changed, "empty": b"", "replaced": b"\x7fELF" * 99}
    path.write_bytes(wrong[damage])
    forget(monkeypatch)
    again = build_.build(text)
    assert (again.seconds > 0, again.library.answer()) == (True, 10 + len(damage))
    assert path.read_bytes() == data


def test_builds_under_each_others_names_are_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (cache / f"{build_.build(TEXT % n).key}.so" for n in (31, 32))
    kept = one.read_bytes(), two.read_bytes()
    one.unlink()  # a library that is in use is not overwritten in place
    two.unlink()
    two.write_bytes(kept[0])
    one.write_bytes(kept[1])
    forget(monkeypatch)
    assert [build_.build(TEXT % n).library.answer() for n in (31, 32)] == [31, 32]
    assert (one.read_bytes(), two.read_bytes()) == kept


FULL = """
import resource, signal
from assay.backends.build import build
from assay.core.errors import Unsupported
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    build({text!r})
except Unsupported as error:
    print(error)
"""


@pytest.mark.parametrize("last", [False, True])  # there is no room for the compiler, or none for the last bytes of the file
def test_a_full_disk_is_said(cache: Path, *, last: bool) -> None:
    whole = cache / f"{build_.build(TEXT % 6).key}.so"
    limit = whole.stat().st_size - 10 if last else 100
    whole.unlink()
    environment = {**os.environ, "ASSAY_CACHE": str(cache.parent)}
    script = FULL.format(limit=limit, text=TEXT % 6)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert f"could not be made in the cache {cache}" in done.stdout, done.stderr
    assert "ASSAY_CACHE" in done.stdout
    assert list(cache.iterdir()) == []


def test_the_key_names_text_flags_compiler_and_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    other = of("x86_64", frozenset({"avx2", "fma"}), "another machine")
    keys = {build_.key("a"), build_.key("b"), build_.key("a", ("-O0",)), build_.key("a", target=other)}
    monkeypatch.setattr(build_, "compiler", lambda: ("/usr/bin/g++", "99.0"))
    assert len(keys | {build_.key("a")}) == 5


def test_an_unwritable_cache_warns_and_still_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file"))
    forget(monkeypatch)
    with pytest.warns(RuntimeWarning, match="cannot be written.*ASSAY_CACHE") as warned:
        assert build_.build(TEXT % 3).library.answer() == 3
    assert warned[0].filename == __file__  # the user's line is quoted, not Assay's


def test_refused_text_names_the_command_and_the_file(cache: Path) -> None:
    with pytest.raises(InternalError, match=r"command.*g\+\+ -O2[\s\S]*text.*\.cpp[\s\S]*error") as found:
        build_.build("int f( {")
    (kept,) = cache.glob("*.cpp")
    assert str(kept) in str(found.value)
    assert kept.read_text() == "int f( {"
    assert list(cache.glob("*.so")) == []


def test_no_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    build_.compiler.cache_clear()
    try:
        with pytest.raises(Unsupported, match="apt install g"):
            build_.compiler()
    finally:
        monkeypatch.undo()
        build_.compiler.cache_clear()


SCRIPT = "from assay.backends.build import build; print(build('extern \"C\" long answer(){return 5;}').library.answer())"


def test_concurrent_builds_of_one_text(cache: Path) -> None:
    environment = {**os.environ, "ASSAY_CACHE": str(cache.parent)}
    runs = [subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    assert [r.communicate()[0].strip() for r in runs] == [b"5"] * 3
    assert len(list(cache.iterdir())) == 1


def test_an_interrupted_build_ends_the_compiler(cache: Path, tmp_path: Path) -> None:
    slow = "".join(f"template<int N> struct A{k}{{enum{{v=A{k}<N-1>::v+1}};}};template<> struct A{k}<0>{{enum{{v=0}};}};"
                   f"long f{k}=A{k}<880>::v;" for k in range(300))  # fmt: skip
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = ("import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
              f"from assay.backends.build import build\nbuild({slow!r}, meanwhile=lambda: print('started', flush=True))")
    environment = {**os.environ, "ASSAY_CACHE": str(cache.parent), "TMPDIR": str(temporary)}
    run = subprocess.Popen([sys.executable, "-c", script], env=environment, start_new_session=True,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    assert run.stdout is not None
    with run.stdout as said:
        assert said.readline() == b"started\n"
    for _ in range(1000):
        if list(temporary.glob("cc*")):
            break
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)  # to this process only; of a terminal all would get it
    run.wait()
    assert [f.name for f in (*temporary.iterdir(), *cache.iterdir())] == []
    time.sleep(0.1)
    assert running(run.pid) == []


def running(group: int) -> list[str]:
    """The processes of the group that run (the dead wait there for whoever collects them)."""
    found: list[str] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, fields = stat.read_text().rpartition(") ")
            state, _, of_group = fields.split()[:3]
            if int(of_group) == group and state != "Z":
                found.append(name)
    return found


def test_a_relative_folder_of_caches_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build_.directory() == tmp_path / ".cache" / "assay" / "cpp"


def test_a_killed_build_leaves_nothing_that_is_read(cache: Path) -> None:
    slow = "".join(f"template<int N> struct A{k}{{enum{{v=A{k}<N-1>::v+1}};}};template<> struct A{k}<0>{{enum{{v=0}};}};"
                   f"long f{k}=A{k}<880>::v;" for k in range(60))  # fmt: skip
    script = f"from assay.backends.build import build; build({slow!r})"
    run = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "ASSAY_CACHE": str(cache.parent)})
    for _ in range(500):
        if cache.exists() and any(f.name.startswith("building-") for f in cache.iterdir()):
            break
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert [f.name for f in cache.iterdir() if not f.name.startswith("building-")] == []


def test_the_cache_is_tidied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_, "MOST", 10)
    for k in range(12):
        (tmp_path / f"{k}.so").write_text("")
        os.utime(tmp_path / f"{k}.so", (1e9 + k, 1e9 + k))
    for name, age in (("building-old.so", 1e9), ("building-new.so", time.time())):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (age, age))
    build_.tidy(tmp_path)
    assert {f.name for f in tmp_path.iterdir()} == {*(f"{k}.so" for k in range(6, 12)), "building-new.so"}


def test_targets() -> None:
    assert of("x86_64", frozenset({"avx2", "fma", "f16c"}), "").lanes == 8
    assert of("x86_64", frozenset({"avx512f", "avx512dq", "avx512vl", "avx2", "fma", "f16c"}), "").lanes == 16
    assert of("x86_64", frozenset({"avx2"}), "").lanes == 4
    assert of("aarch64", frozenset(), "").lanes == 4
    assert host().identity
