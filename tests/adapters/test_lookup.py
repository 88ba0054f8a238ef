"""An adapter by its name: an import string, an entry point, one of ours, or any torch.compile backend."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inductor_debug_jupyter.pipeline.adapters import BackendAdapter, MockAcceleratorAdapter, find_adapter
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError

pytestmark = pytest.mark.usefixtures("fresh_dynamo", "vendor")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that registers two adapters, one of which cannot be imported."""
    info = tmp_path / "site" / "fake_chip-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-chip\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[inductor_debug.adapters]\nfake_chip = vendor:Says\nbroken_chip = no_such_vendor:Adapter\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.mark.usefixtures("installed")
def test_an_entry_point() -> None:
    adapter = find_adapter("fake_chip")
    assert type(adapter).__name__ == "Says"
    with pytest.raises(UsageError, match=r"broken_chip \(no_such_vendor:Adapter\) cannot be imported: ModuleNotFound"):
        find_adapter("broken_chip")
    with pytest.raises(OptionError, match="did you mean fake_chip"):
        find_adapter("fakechip")


def test_an_import_string_may_name_a_class_or_a_backend() -> None:
    import vendor

    assert isinstance(find_adapter("vendor:Says"), vendor.Says)
    made = find_adapter("vendor:Faulty", vendor.Fault("relu"), offset=2.0)
    assert made.made_with == ((vendor.Fault("relu"),), {"offset": 2.0})
    assert isinstance(find_adapter("vendor:plain"), BackendAdapter)
    with pytest.raises(UsageError, match="must be an AcceleratorAdapter, not a Fault"):
        find_adapter("vendor:Fault", "relu")
    with pytest.raises(UsageError, match=r"vendor:Faulty\(\) failed: TypeError"):
        find_adapter("vendor:Faulty")
    with pytest.raises(UsageError, match="vendor has no 'Say'; did you mean Says"):
        find_adapter("vendor:Say")


def test_ours_and_torchs_by_name() -> None:
    assert isinstance(find_adapter("mock", alignment=8), MockAcceleratorAdapter)
    adapter = find_adapter("aot_eager")
    assert isinstance(adapter, BackendAdapter)
    assert adapter.capabilities().unknown == ("dtypes", "ops", "memory_limit")
    assert str(adapter.capabilities()) == "aot_eager: dtypes unknown; ops unknown; memory unknown"
    x = torch.ones(3)
    out = torch.compile(lambda x: x.sin() + 1, backend=adapter.as_backend(strict=True))(x)
    assert torch.equal(out, x.sin() + 1)
    with pytest.raises(OptionError, match="backend='inductr'; allowed: dynamo"):
        BackendAdapter("inductr")
