"""The conformance checks as pytest tests: subclass :class:`AdapterConformance` and set its adapter."""

from __future__ import annotations

from typing import Any, ClassVar

from inductor_debug_jupyter.pipeline.adapters.conformance.checks import CHECKS
from inductor_debug_jupyter.pipeline.adapters.conformance.suite import DEFAULT_SECONDS, run_conformance
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import ConformanceRecord
from inductor_debug_jupyter.pipeline.views.conformance import check_lines


class AdapterConformance:
    """One test for each check. A check that does not apply is skipped with its reason.

    Set ``adapter`` to an adapter, its class or a name. The adapter runs in a process of its own unless ``isolate`` is
    False; all checks run with the first test, so that torch is imported there once.
    """

    adapter: ClassVar[Any] = None
    isolate: ClassVar[bool] = True
    timeout: ClassVar[float] = DEFAULT_SECONDS
    _report: ClassVar[ConformanceRecord | None] = None

    @classmethod
    def report(cls) -> ConformanceRecord:
        """The conformance report, made once for the class.

        Raises:
            UsageError: the class names no adapter.
        """
        if cls.adapter is None:
            raise UsageError(f"{cls.__name__} names no adapter: set adapter = 'my_package:MyAdapter'")
        if cls.__dict__.get("_report") is None:
            cls._report = run_conformance(cls.adapter, isolate=cls.isolate, timeout=cls.timeout)
        assert cls._report is not None
        return cls._report

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Pytest's hook: one test for each check id."""
        if "check_id" in metafunc.fixturenames:
            metafunc.parametrize("check_id", [check.check_id for check in CHECKS])

    def test_conformance(self, check_id: str) -> None:
        """One check."""
        import pytest

        found = next(check for check in self.report().checks if check.check_id == check_id)
        if found.status == "does_not_apply":
            pytest.skip(found.detail)
        assert found.status == "holds", "\n".join(check_lines(found))
