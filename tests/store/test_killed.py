"""kill -9 in the middle of writing: what was saved stays, what was not is not there, nothing in between loads."""

from __future__ import annotations

import subprocess
from pathlib import Path

from real_faults import assert_consistent, environment, script

from inductor_debug_jupyter.pipeline.store import ArtifactStore


def run(body: str) -> list[str]:
    done = subprocess.run(script(body), capture_output=True, text=True, timeout=240, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_killed_at_every_step_of_a_save(tmp_path: Path) -> None:
    """The writer is killed before its first call that touches the disk (open, write, rename, SQL …), its second, …"""
    body = f"""
        import os, signal, sys
        touching_the_disk = {{"mkdir", "open", "write", "fsync", "close", "replace", "unlink", "connect", "execute"}}
        store = ArtifactStore({str(tmp_path)!r})
        before = record("kept", "before")
        store.save_session(before)

        def killed_at(step):
            if child := os.fork():
                return os.WIFSIGNALED(os.waitpid(child, 0)[1])
            left = step
            def count(frame, event, argument):
                nonlocal left
                if event == "c_call" and argument.__name__ in touching_the_disk:
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.setprofile(count)
            store.save_session(after)
            sys.setprofile(None)
            os._exit(0)

        step = 0
        outcomes = set()
        while True:
            step += 1
            after = record("kept", f"after {{step}}")
            killed = killed_at(step)
            loaded = store.load("kept")
            assert loaded in (before, after), step
            outcomes.add("after" if loaded == after else "before")
            before = loaded
            if not killed:
                break
        assert_consistent(store)
        store.save_session(after)
        assert store.load("last") == after
        print(step - 1, *sorted(outcomes))
    """
    steps, *outcomes = run(body)[-1].split()
    assert int(steps) > 30
    assert outcomes == ["after", "before"]
    store = ArtifactStore(tmp_path)
    report = store.clean()
    assert store.sessions() == ()
    assert all(file.reason.startswith("not in the index") for file in report.kept)


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Two writers of big files into one store, one of them killed again and again at no particular step."""
    body = f"""
        import os, random, signal, time
        store = ArtifactStore({str(tmp_path)!r})
        chance = random.Random(20)

        def writer(who):
            if child := os.fork():
                return child
            number = 0
            while True:
                number += 1
                store.save_session(record(f"{{who}}-{{number % 7}}", f"{{who}} {{os.getpid()}} {{number}} " * 5_000))

        steady = writer("steady")
        for _ in range(30):
            victim = writer("victim")
            time.sleep(chance.random() * 0.05)
            os.kill(victim, signal.SIGKILL)
            assert os.WTERMSIG(os.waitpid(victim, 0)[1]) == signal.SIGKILL
        os.kill(steady, signal.SIGKILL)
        os.waitpid(steady, 0)
        assert_consistent(store)
        print(len(store.sessions()))
    """
    assert int(run(body)[-1]) >= 7
    assert_consistent(ArtifactStore(tmp_path))
