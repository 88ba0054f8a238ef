"""Every session says where it ran, with the settings of torch that were changed."""

import platform

import torch
import torch._inductor.config as inductor_config

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.records import EnvironmentRecord, dump_session, load_session
from inductor_debug_jupyter.pipeline.torch_compat import environment


def test_a_session_knows_the_machine_and_keeps_it_in_its_file(tmp_path):
    with capture(artifacts=str(tmp_path)) as session:
        torch.compile(lambda x: x + 1, backend="inductor")(torch.ones(3))
    found = load_session(dump_session(session.record)).environment
    assert found == session.record.environment
    assert platform.python_version() in found.python
    assert platform.system() in found.system
    assert "logical cores" in found.cpu
    assert found.torch_build.startswith(torch.__version__)
    assert found.compiler
    assert not [name for name in found.settings if name.startswith("torch.")]


def test_only_changed_settings_are_listed(monkeypatch):
    monkeypatch.setenv("TORCH_LOGS_FORMAT", "short")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    before = environment.changed_settings()
    assert before["TORCH_LOGS_FORMAT"] == "short"
    assert "TORCHINDUCTOR_CACHE_DIR" not in before
    with inductor_config.patch(max_fusion_size=3):
        changed = environment.changed_settings()
    assert {name: changed[name] for name in changed.keys() - before.keys()} == {
        "torch._inductor.config.max_fusion_size": "3"
    }
    assert environment.changed_settings() == before


def test_what_cannot_be_found_out_is_empty_and_the_rest_is_there(monkeypatch):
    environment._machine.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(environment.subprocess, "run", lambda *_, **__: 1 / 0)
        found = environment.environment()
    environment._machine.cache_clear()
    assert found.compiler == ""
    assert found.torch_build
    assert "C++ compiler" not in dict(found.rows)


def test_it_is_shown_row_by_row():
    shown = EnvironmentRecord(python="CPython 3.11.7", settings={"x": "1"}, backends={"chip": "chip 2.0"})
    assert str(shown) == "python: CPython 3.11.7\nsetting x: 1\nbackend chip: chip 2.0"
    assert str(EnvironmentRecord()) == "nothing is known about it"
