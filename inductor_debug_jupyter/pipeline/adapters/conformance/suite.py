"""Run the checks, in a process of their own or in this one, also as pytest tests, and collect the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.conformance.checks import CHECKS
from inductor_debug_jupyter.pipeline.adapters.conformance.subject import AdapterUnderTest, DoesNotApplyError, FailsError
from inductor_debug_jupyter.pipeline.adapters.graph_server import report_ops
from inductor_debug_jupyter.pipeline.adapters.lookup import adapter_of, arguments, check_name, find_adapter, reference
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.isolation import Limits, Worker
from inductor_debug_jupyter.pipeline.records import CheckRecord, ConformanceRecord, CrashRecord

SERVER = f"{__name__}:CheckServer"
DEFAULT_SECONDS = 60.0
"""The time limit of one check, whose graphs are tiny."""

_BY_ID = {check.check_id: check for check in CHECKS}


def run_conformance(
    adapter: AcceleratorAdapter | type[AcceleratorAdapter] | str,
    *,
    isolate: bool = True,
    timeout: float = DEFAULT_SECONDS,
    memory_limit: int | None = None,
    checks: Sequence[str] | None = None,
) -> ConformanceRecord:
    """Run the conformance checks of an adapter.

    Args:
        adapter: an adapter, its class, or a name (``module:attribute``, a registered adapter, a backend).
        isolate: run in a process of its own, which may crash. An adapter of a notebook needs False.
        timeout: with ``isolate``, seconds for each check.
        memory_limit: with ``isolate``, bytes that the process may have, torch included.
        checks: ids of the checks to run; all by default.

    Raises:
        UsageError: there is no such adapter or check, or it cannot be built, here or in another process.
    """
    ids = [check.check_id for check in CHECKS] if checks is None else list(checks)
    if unknown := [each for each in ids if each not in _BY_ID]:
        raise OptionError(f"checks={unknown[0]!r}; allowed: {', '.join(_BY_ID)}")
    if memory_limit is not None and not isolate:
        raise UsageError("memory_limit limits a process of its own: leave it out, or isolate")
    if isolate:
        return _run_there(adapter if isinstance(adapter, str) else _made(adapter), ids, Limits(timeout, memory_limit))
    subject = AdapterUnderTest(find_adapter(adapter) if isinstance(adapter, str) else _made(adapter))
    name, introduction = _introduction(subject.adapter)
    return ConformanceRecord(name, tuple(look(subject, each) for each in ids), introduction)


def _run_there(made: AcceleratorAdapter | str, ids: Sequence[str], limits: Limits) -> ConformanceRecord:
    """Run checks in a process of their own."""
    if isinstance(made, str) and ":" not in made:
        check_name(made, "adapter")
    written = reference(made)
    name = made if isinstance(made, str) else _introduction(made)[0]
    with Worker(SERVER, limits, name=name) as worker:
        first = worker.ask("open", written, phase="import")
        if isinstance(first, CrashRecord):
            introduction = f"it cannot be made: {first.sentence}"
        elif first.error:
            raise UsageError(first.message.splitlines()[0] if first.message else first.error)
        else:
            introduction = first.value
        found = tuple(_checked_there(worker, written, each) for each in ids)
    return ConformanceRecord(name, found, introduction)


def look(subject: AdapterUnderTest, check_id: str) -> CheckRecord:
    """Run one check in this process."""
    check = _BY_ID[check_id]
    try:
        return CheckRecord(check_id, check.title, "holds", check.look(subject))
    except DoesNotApplyError as error:
        return CheckRecord(check_id, check.title, "does_not_apply", str(error))
    except FailsError as error:
        return CheckRecord(check_id, check.title, "fails", error.detail, error.advice)
    except Exception as error:  # an adapter's own code, in a place where nothing is expected of it
        advice = "the adapter's own code raised this where the interface lets nothing raise"
        return CheckRecord(check_id, check.title, "fails", f"{type(error).__name__}: {error}", advice)


_ADVICE = {
    "timeout": "a step must end: look at what the device waits for, or give it more time with --timeout",
    "out_of_memory": "a small graph must fit: look at what the adapter keeps, or give it more with --memory-limit",
}
_NO_CRASH = "nothing that a graph asks for may end the process: refuse in compile() what the device cannot do"


def _checked_there(worker: Worker, written: dict[str, Any], check_id: str) -> CheckRecord:
    answer = worker.ask("check", written, check_id, phase=f"check {check_id}")
    title = _BY_ID[check_id].title
    if isinstance(answer, CrashRecord):
        return CheckRecord(check_id, title, "fails", answer.sentence, _ADVICE.get(answer.kind, _NO_CRASH), answer)
    if answer.error:
        return CheckRecord(check_id, title, "fails", f"{answer.error}: {answer.message}", "it cannot be made again")
    status, detail, advice = answer.value
    return CheckRecord(check_id, title, status, detail, advice)


class CheckServer:
    """In the other process: builds the adapter under test and runs checks on it."""

    def __init__(self) -> None:
        self._subject: AdapterUnderTest | None = None
        report_ops()

    def open(self, written: dict[str, Any]) -> str:
        """Build the adapter; returns its capabilities as text."""
        return _introduction(self._made(written).adapter)[1]

    def check(self, written: dict[str, Any], check_id: str) -> list[str]:
        """Run one check."""
        record = look(self._made(written), check_id)
        return [record.status, record.detail, record.advice]

    def _made(self, written: dict[str, Any]) -> AdapterUnderTest:
        if self._subject is None:
            args, kwargs = arguments(written)
            self._subject = AdapterUnderTest(find_adapter(written["name"], *args, **kwargs))
        return self._subject


def _introduction(adapter: AcceleratorAdapter) -> tuple[str, str]:
    """The adapter's name and its capabilities as text, or why it cannot declare them."""
    try:
        declared = adapter.capabilities()
    except Exception as error:
        return type(adapter).__name__, f"it does not say what it can do: {type(error).__name__}"
    return declared.name, str(declared)


def _made(adapter: Any) -> AcceleratorAdapter:
    return adapter_of(adapter, str(getattr(adapter, "__name__", type(adapter).__name__)), "adapter")


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
        """Run one check; a check that does not apply is skipped."""
        import pytest

        found = next(check for check in self.report().checks if check.check_id == check_id)
        if found.status == "does_not_apply":
            pytest.skip(found.detail)
        assert found.status == "holds", str(found)
