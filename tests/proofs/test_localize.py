"""``proofs localize``: what is planted is what is said, and clean runs are clean."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.benchmarks.models import Built
from tests.proofs import localize_cases
from tests.proofs.kernel_faults import KernelFault

SOURCE = "auto tmp3 = tmp2.erf();\nauto tmp4 = 1 / std::sqrt(tmp3);\ntmp3.store(out_ptr0 + 1);"


def test_a_fault_is_where_it_says() -> None:
    assert "tmp2.erf() * decltype(tmp2.erf())(1.5)" in KernelFault("erf", "erf", 0.5)._rewritten(SOURCE)
    assert KernelFault("erf", "erf", 0.5, only_fused=True)._rewritten(SOURCE) == SOURCE
    assert "std::sqrt(tmp3) * decltype" in KernelFault("rsqrt", "rsqrt", 0.5)._rewritten(SOURCE)
    assert KernelFault("erf", "erf", 0.5, beside="int8")._rewritten(SOURCE) == SOURCE
    assert KernelFault("erf", "erf", 0.5, without="sqrt")._rewritten(SOURCE) == SOURCE
    half = KernelFault("mul.Scalar", "-0.5", 0.5)
    assert half._rewritten("auto tmp7 = static_cast<float>(-0.5);") == "auto tmp7 = static_cast<float>(-0.5 * 1.5);"
    assert (half.blamed, KernelFault("erf", "erf").blamed) == ("aten.mul.Scalar", "aten.erf.default")
    scalar = "auto tmp1 = std::exp(tmp0);\nout_ptr0[static_cast<int64_t>(x0)] = tmp1;"
    assert KernelFault("exp", "exp", 0.5)._rewritten(scalar) != scalar
    assert KernelFault("exp", "exp", 0.5, only_fused=True)._rewritten(scalar) == scalar
    elsewhere = "{ { auto tmp1 = tmp0.exp(); } }\n{ tmp1.store(out_ptr0); }"
    assert "tmp0.exp() * " in KernelFault("exp", "exp", 0.5, only_fused=True)._rewritten(elsewhere)


def test_each_model_has_faults_of_each_kind() -> None:
    found = list(localize_cases.cases(list(localize_cases.MODELS)))
    for model in localize_cases.MODELS:
        names = {case.name for case in found if case.model == model}
        assert names >= {"copy-first-stick", "negative-zero", "wrong-accumulation", "read-padding"}
        assert any("Inductor's" in name for name in names)
        assert names >= {"only under fusion", "in backward", "amplified later"}
    assert set(localize_cases.SWEPT) == set(localize_cases.MODELS)


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.erf(self.one(x))}


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_clean_run_compiles_once_and_a_faulty_one_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(localize_cases.MODELS, "mamba", lambda: Built(Tiny(), (torch.randn(4, 8),)))
    clean = localize_cases.run_clean("mamba", torch.float32, 3)
    assert (clean.seeds, clean.compiles, clean.alarms) == (3, 2, [])
    assert clean.values >= 6
    with KernelFault("erf", "erf", 0.01).seeded():
        faulty = localize_cases.run_clean("mamba", torch.float32, 2)
    assert len(faulty.alarms) >= 2
