"""The magic's own behaviour: options, strict mode, labels, help, completion, what is shown and what is not."""

import re

import pytest

SETUP = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(784, 512)
    def forward(self, x):
        return self.up(x)
block, x = Block(), torch.randn(3, 784)
"""


@pytest.fixture
def ready(kernel):
    kernel.run("for name in ('session', 'ran'):\n    globals().pop(name, None)")
    assert not kernel.run(SETUP).error
    return kernel


def test_a_strict_failure_shows_one_readable_error_and_stops_run_all(ready):
    cell = "%%inductor_debug --strict --target stick128 --no-panel --as session\nran = block(x).shape\nran"
    outcome = ready.run(cell)
    assert outcome.results == ["torch.Size([3, 512])"]
    assert outcome.error.startswith("ConstraintViolationError: stick128 refuses this: 1 error")
    text = "\n".join(outcome.traceback)
    assert "784 is not a multiple of 64" in text
    assert "return self.up(x)" in text
    assert "Standalone script" in text
    assert "Traceback" not in text
    assert ready.value("ran") == "torch.Size([3, 512])"
    assert ready.reply_status(cell) == "error"
    repro = ready.value("session.record.repros[0]").strip("'")
    assert (
        ready.value(
            f"__import__('subprocess').run([__import__('sys').executable, '-I', {repro!r}], cwd='/').returncode"
        )
        == "0"
    )


def test_findings_name_the_cell_and_its_line(ready):
    ready.run("%%inductor_debug --target stick128 --no-panel --as session\n\nblock(x)")
    assert ready.value("session.findings[0].source.label[:4]") == "'In ['"
    assert ready.value("session.findings[0].source.text.strip()") == "'return self.up(x)'"
    ready.run("%%inductor_debug --target stick128 --no-panel --as session\n\nnn.Linear(784, 3)(x)")
    assert ready.value("(session.findings[0].places[0].cell.line, session.findings[0].places[0].cell.text)") == (
        "(3, 'nn.Linear(784, 3)(x)')"
    )


def test_without_strict_the_cell_goes_on(ready):
    outcome = ready.run("%%inductor_debug --target stick128 --no-panel --as session\nblock(x).shape")
    assert (outcome.error, outcome.results) == ("", ["torch.Size([3, 512])"])
    assert ready.value("len(session.findings) > 0") == "True"


def test_no_panel_prints_and_shows_nothing(ready):
    outcome = ready.run("%%inductor_debug --target stick128 --no-panel\ny = block(x)")
    assert (outcome.stdout, outcome.stderr, outcome.displays, outcome.results) == ("", "", [], [])


def test_the_panel_comes_with_its_text_and_a_snapshot(ready):
    outcome = ready.run("%%inductor_debug --target stick128\ny = block(x)")
    assert outcome.stdout == ""
    *_, panel, snapshot = outcome.displays  # on a slow machine the progress line comes first
    assert "application/vnd.jupyter.widget-view+json" in panel
    assert "784 is not a multiple of 64" in panel["text/plain"]
    assert "784 is not a multiple of 64" in snapshot["text/html"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--strikt", "unknown option '--strikt'; did you mean --strict?"),
        ("--target stik128", "unknown target 'stik128'"),
        ("--target nowhere.toml", "the file cannot be read"),
        ("--alignment x", "--alignment: 'x' is not allowed"),
        ("--max-memory lots", "--max-memory: 'lots' is not allowed"),
        ("--dtypes float33", "dtype: 'float33' is not allowed"),
        ("--diff egaer", "--diff='egaer'; did you mean eager?"),
        ("--diff --candidate inductr", "--candidate='inductr'; did you mean inductor?"),
        ("--localize", "--localize searches what a comparison found wrong: give --diff as well"),
        ("--diff --localize --candidate eager", "--localize: --candidate eager runs nothing compiled; allowed: what"),
        ("--diff --memory-limit 4GiB", "--memory-limit limits a process of its own: give --isolate as well"),
        ("--memory-limit 1MiB --isolate", "--memory-limit: '1MiB' is not allowed; allowed: bytes from 512MiB up"),
        ("--timeout soon", "--timeout: 'soon' is not allowed"),
        ("--lower triton", "--lower: 'triton' is not allowed; allowed: dynamo, aot, inductor"),
        ("--model 1x", "--model: '1x' is not allowed"),
    ],
)
def test_a_bad_option_is_one_line_and_the_cell_does_not_run(ready, options, message):
    outcome = ready.run(f"%%inductor_debug {options}\nran = True")
    assert message in outcome.stderr + outcome.error
    assert (outcome.stderr + outcome.error).strip().count("\n") == 0
    assert ready.value("'ran' in globals()") == "False"


def test_an_unwritable_folder_is_one_warning_and_the_cells_results_stay(ready):
    ready.run("open('taken', 'w').close()")
    outcome = ready.run("%%inductor_debug --artifacts taken --as session\nblock(x).shape")
    assert outcome.results == ["torch.Size([3, 512])"]
    assert outcome.error == ""
    assert ready.value("[str(note) for note in session.notes][0][:30]").startswith("'artifacts: nothing was saved")


def test_help_is_complete(ready):
    from inductor_debug_jupyter.pipeline.options import MAGIC_OPTIONS, OPTIONS

    text = ready.value("get_ipython().find_line_magic('inductor_debug').__doc__")
    for name in MAGIC_OPTIONS:
        assert OPTIONS[name].flag in text
    assert "stick128" in text


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("%%inductor_debug --al", "--alignment"),
        ("%%inductor_debug --strict --target st", "stick128"),
        ("%%inductor_debug --lower ", "aot"),
        ("%inductor_debug --mem", "--memory-limit"),
        ("%%inductor_debug --diff --candidate st", "stick128"),
        ("%%inductor_debug --dtypes bf", "bfloat16"),
    ],
)
def test_tab_completes_options_and_targets(ready, typed, expected):
    reply = ready.client.complete(typed, reply=True, timeout=30)
    assert expected in reply["content"]["matches"]


def test_unloading_leaves_nothing(ready):
    ready.run("%unload_ext inductor_debug_jupyter")
    try:
        outcome = ready.run("%%inductor_debug\n1")
        assert "not found" in outcome.stderr + outcome.error
    finally:
        ready.run("%load_ext inductor_debug_jupyter")


def test_a_cell_with_a_syntax_error_is_just_that(ready):
    for cell in ("print(", "x = = 3", "if x:\n1"):
        plain = ready.run(f"#\n{cell}")
        debugged = ready.run(f"%%inductor_debug --no-panel\n{cell}")
        assert "Error" in debugged.error
        frames = ["".join(outcome.traceback).count("File ") for outcome in (debugged, plain)]
        assert frames[0] == frames[1], "no frames of IPython's"
        assert re.sub(r"\d+\.py", "", debugged.error) == re.sub(r"\d+\.py", "", plain.error)


def test_time_and_the_magic_go_together(ready):
    outcome = ready.run("%%time\n%%inductor_debug --no-panel --as session\ny = block(x)")
    assert "CPU times" in outcome.stdout
    assert ready.value("len(session.captures)") == "1"


def test_a_cell_that_runs_no_model_says_that_nothing_was_checked(ready):
    for options, error in (("", ""), ("--strict", "ConstraintViolationError")):
        outcome = ready.run(f"%%inductor_debug {options}\n1 + 1")
        assert outcome.results == ["2"]
        assert outcome.error.partition(":")[0] == error
        assert "nothing checked" in outcome.displays[0]["text/plain"].lower()


def test_a_full_disk_is_said_and_the_cells_results_stay(ready):
    cell = "%%inductor_debug --artifacts full --as session\nblock(x).shape"
    limit = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "limits = resource.getrlimit(resource.RLIMIT_FSIZE)\nresource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))"
    )
    ready.run(limit)
    try:
        outcome = ready.run(cell)
    finally:
        ready.run("resource.setrlimit(resource.RLIMIT_FSIZE, limits)")
    assert (outcome.results, outcome.error) == (["torch.Size([3, 512])"], "")
    assert ready.value("len(session.captures)") == "1"
    notes = ready.value("[str(note) for note in session.notes]")
    assert notes.count("nothing was saved") == 1
    assert outcome.stderr.count("nothing was saved") == 1


def test_a_cell_is_shown_as_it_was_typed(ready):
    ready.run("%%inductor_debug --target stick128 --no-panel --as session\nran = block.up(x).shape")
    texts = ready.value(
        "[text.splitlines()[0] for label, text in session.record.sources.items() if 'block.up(x)' in text]"
    )
    assert texts == "['%%inductor_debug --target stick128 --no-panel --as session']"


@pytest.mark.parametrize("first", ["# %% a cell of the user's editor", "# %%inductor_debug --strict"])
def test_a_comment_that_looks_like_a_magic_stays_in_the_source_and_in_the_patch(ready, first):
    body = "model = nn.Linear(784, 64)\n\ndef call(x):\n    return model(x)\n"
    ready.run(f"{first}\n{body}")
    ready.run("%%inductor_debug --target stick128 --no-panel --as session --lower aot\ncall(x)")
    assert ready.value("[text for text in session.record.sources.values() if 'def call' in text]") == repr(
        [f"{first}\n{body}"]
    )
    ready.run("patch = session.fix_all().patch")
    assert ready.value("[line for line in patch.splitlines() if 'editor' in line or '%%' in line]") == repr(
        [f" {first}"]
    )
