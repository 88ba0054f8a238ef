"""The magic's own behaviour: options, strict mode, labels, help, completion, what is shown and what is not."""

import re

import pytest

from inductor_debug_jupyter.pipeline.options import MAGIC_OPTIONS, OPTIONS

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


OF_DIFF = ("--candidate aot_eager", "--localize", "--backward", "--isolate", "--timeout 5", "--atol 0", "--rtol 0")
"""Options that do nothing without ``--diff``."""


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
    assert panel["text/plain"].count("\n") <= 4, "the header and the first findings"
    assert "784 is not a multiple of 64" in snapshot["text/html"]
    assert snapshot["text/plain"] == "", "one copy only"


def test_a_session_in_the_last_line_shows_the_panel(ready):
    ready.run("%%inductor_debug --target stick128 --no-panel --as session --lower aot\nblock(x);")
    for line in ("session", "display(session)"):
        outcome = ready.run(line)
        assert outcome.results == []
        assert "application/vnd.jupyter.widget-view+json" in outcome.displays[0]
        assert "Static snapshot" in outcome.displays[1]["text/html"]
    assert ready.value("print(session)") == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--strikt", "unknown option '--strikt'; did you mean --strict?"),
        ("--target stik128", "unknown target 'stik128'"),
        ("--target nowhere.toml", "the file cannot be read"),
        ("--alignment x", "--alignment: 'x' is not allowed"),
        ("--max-memory lots", "--max-memory: 'lots' is not allowed"),
        ("--dtypes float33", "--dtypes: 'float33' is not allowed; did you mean float32"),
        ("--strict=1", "--strict is a switch and takes no value: give it alone"),
        ("--diff egaer", "--diff='egaer'; did you mean eager?"),
        ("--diff --candidate inductr", "--candidate='inductr'; did you mean inductor?"),
        ("--diff --localize --candidate eager", "--localize: --candidate eager runs nothing compiled; allowed: what"),
        *((option, f"{option.split()[0]} does nothing without --diff: give --diff as well") for option in OF_DIFF),
        ("--diff --memory-limit 4GiB", "--memory-limit does nothing without --isolate: give --isolate as well"),
        ("--deny convolutoin", "%%inductor_debug: --deny: torch has no op 'convolutoin'; did you mean convolution"),
        ("--diff --candidate nobody:backend", "--candidate: there is no module 'nobody' here or among the installed"),
        ("--diff --candidate os:nope", "--candidate: os has no 'nope'"),
        ("--diff --candidate os:sep", "--candidate: os:sep is a str; allowed: an adapter, its class, or a backend"),
        ("--diff --candidate broken_chip:backend", "--candidate: broken_chip cannot be imported: OSError: no driver"),
        ("--diff --candidate my_chip", "allowed: eager, dynamo, aot_eager, cudagraphs, inductor"),
        ("--diff --candidate tvm", "--candidate: tvm needs the package tvm, which is not installed"),
        ("--diff --rtol much", "--rtol: 'much' is not allowed; allowed: a number that is not negative"),
        ("--model blok", "--model: there is no variable 'blok'; did you mean block?"),
        ("--model x", "--model: x is of type Tensor and cannot be called; allowed: a model or a function"),
        ("--faults nonsense", "unknown fault 'nonsense'; allowed: copy-first-stick"),
        ("--target /proc/nope", "unknown target '/proc/nope'"),
        ("--alignment", "--alignment: its value is missing; allowed: a whole number from 1 up"),
        ("model(x)", "'model(x)' is no option: options begin with --, and code goes into the lines below"),
        ("--memory-limit 1MiB --isolate", "--memory-limit: '1MiB' is not allowed; allowed: bytes from 512MiB up"),
        ("--timeout soon", "--timeout: 'soon' is not allowed"),
        ("--lower triton", "--lower: 'triton' is not allowed; allowed: dynamo, aot, inductor"),
        ("--model 1x", "--model: '1x' is not allowed"),
    ],
)
def test_a_bad_option_is_one_line_and_the_cell_does_not_run(ready, options, message):
    ready.run("open('broken_chip.py', 'w').write('raise OSError(\"no driver\")')")
    outcome = ready.run(f"%%inductor_debug {options}\nran = True")
    assert message in outcome.stderr + outcome.error
    assert (outcome.stderr + outcome.error).strip().count("\n") == 0
    assert ready.value("'ran' in globals()") == "False"


def test_what_the_cell_makes_itself_is_not_refused(ready):
    """The variable of ``--model`` and a backend in the notebook need not be there before the cell runs."""
    cell = (
        "def my_backend(gm, inputs):\n    return gm.forward\n"
        "made_here = nn.Linear(3, 3)\nran = made_here(torch.ones(2, 3)).shape\nblock(x).shape"
    )
    options = "--model made_here --diff --candidate __main__:my_backend --lower aot --no-panel --as session"
    assert ready.run(f"%%inductor_debug {options}\n{cell}").results == ["torch.Size([3, 512])"]
    assert ready.value("session.record.diff.verdict, len(session.captures)") == "('match', 1)"


def test_a_model_that_was_not_called_is_said(ready):
    outcome = ready.run("%%inductor_debug --model block --no-panel\n1 + 1")
    assert "--model block: it was not called in this cell, so nothing was captured" in outcome.stderr


def test_a_comparison_that_fails_leaves_the_panel(ready):
    ready.run("open('late_chip.py', 'w').write('def backend(gm, inputs):\\n    raise OSError(\"unplugged\")')")
    outcome = ready.run("%%inductor_debug --diff --candidate late_chip:backend --lower aot\nblock(x).shape")
    assert outcome.results == ["torch.Size([3, 512])"]
    assert "unplugged" in outcome.stderr + str(outcome.displays)
    assert any("application/vnd.jupyter.widget-view+json" in shown for shown in outcome.displays)


@pytest.mark.parametrize("line", ["%%inductor_debug --help\nran = True", "%inductor_debug --strict --help"])
def test_help_is_printed_and_nothing_runs(ready, line):
    outcome = ready.run(line)
    assert outcome.stdout.startswith("See what torch.compile makes of a cell")
    assert "--rtol NUMBER" in outcome.stdout
    assert (outcome.error, outcome.stderr) == ("", "")
    assert ready.value("'ran' in globals()") == "False"


def test_tolerances_of_the_line_are_those_of_the_comparison(ready):
    ready.run("def off_by_one(gm, inputs):\n    return lambda *values: [each + 1 for each in gm.forward(*values)]\n")
    cell = "%%inductor_debug --diff --candidate __main__:off_by_one --lower aot --no-panel --as session"
    for options, verdict in (("", "'mismatch'"), ("--atol 2", "'rounding'")):
        ready.run(f"{cell} {options}\nblock(x);")
        assert ready.value("session.record.diff.verdict") == verdict
        assert ready.value("session.diff().verdict") == verdict
    assert ready.value("session.diff().record.outputs[0].reason").find("atol 2") > 0


def test_what_is_asked_later_is_about_the_cells_candidate(ready):
    ready.run(
        "open('wrong_chip.py', 'w').write('def backend(gm, inputs):\\n"
        "    return lambda *values: [each * 2 for each in gm.forward(*values)]')"
    )
    ready.run("%%inductor_debug --diff --candidate wrong_chip:backend --lower aot --no-panel --as session\nblock(x);")
    assert ready.value("session.diff().verdict") == "'mismatch'"
    assert "aten.addmm.default" in ready.value("[each.op for each in session.localize().culprits]")
    assert "wrong_chip:backend" in ready.value("str(session.bisect())")
    assert "wrong_chip:backend" in ready.value("open(session.reproduce()).read()")


@pytest.mark.parametrize(
    "line", ["%inductor_debug --explain dtype.narrowed", "%%inductor_debug --explain=dtype.narrowed\n1"]
)
def test_a_rule_is_explained(ready, line):
    outcome = ready.run(line)
    assert outcome.displays[0]["text/markdown"].startswith("# dtype.narrowed: integers are kept in fewer bits")
    assert (outcome.error, outcome.results) == ("", [])


def test_a_rule_that_there_is_not_is_one_line_with_the_nearest(ready):
    outcome = ready.run("%inductor_debug --explain align.inermost")
    assert "no rule is called 'align.inermost'; did you mean align.innermost" in outcome.stderr + outcome.error
    assert "`memory.limit`" in ready.run("%inductor_debug --explain").displays[0]["text/markdown"]


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
        ("%%inductor_debug --dtypes float16,bf", "bfloat16"),
        ("%%inductor_debug --target=st", "stick128"),
        ("%%inductor_debug --target my_", "my_chip.toml"),
        ("%%inductor_debug --target=chips/", "chips/other.toml"),
        ("%%inductor_debug --artifacts ch", "chips/"),
        ("%%inductor_debug --model bl", "block"),
        ("%%inductor_debug --model=", "block"),
        ("%%inductor_debug --diff --candidate=", "inductor"),
        ("%%inductor_debug --deny conv", "convolution"),
        ("%%inductor_debug --explain align", "align.innermost"),
        ("%%inductor_debug --he", "--help"),
    ],
)
def test_tab_completes_options_and_targets(ready, typed, expected):
    ready.run(
        "from pathlib import Path\nPath('chips').mkdir(exist_ok=True)\n"
        "for name in ('my_chip.toml', 'my_notes.txt', 'chips/other.toml'):\n    Path(name).touch()"
    )
    content = ready.client.complete(typed, reply=True, timeout=30)["content"]
    completed = [typed[: content["cursor_start"]] + match for match in content["matches"]]
    assert expected in content["matches"]
    assert all(
        re.search(rf"[ =,]{re.escape(match)}$", each) for match, each in zip(content["matches"], completed, strict=True)
    )
    assert "my_notes.txt" not in content["matches"]


@pytest.mark.parametrize("name", [name for name in MAGIC_OPTIONS if not OPTIONS[name].is_switch])
def test_tab_behind_an_option_offers_values_and_not_what_ipython_would(ready, name):
    content = ready.client.complete(f"%%inductor_debug {OPTIONS[name].flag} ", reply=True, timeout=30)["content"]
    assert content["matches"]
    assert not {"and", "%%bash", "%cd"} & set(content["matches"])


def test_tab_behind_compare_offers_sessions(ready):
    ready.run("%inductor_debug --lower aot --no-panel --as first block(x)\nsecond = first")
    for typed in ("", "first "):
        line = f"%inductor_debug --compare {typed}"
        matches = ready.client.complete(line, reply=True, timeout=30)["content"]["matches"]
        assert {"first", "second", "last"} <= set(matches)
        assert "block" not in matches


def test_tab_offers_no_backend_that_is_for_tests(ready):
    for option in ("--candidate ", "--diff "):
        matches = ready.client.complete(f"%%inductor_debug {option}", reply=True, timeout=30)["content"]["matches"]
        assert {"inductor", "aot_eager", "stick128", "mock"} <= set(matches)
        assert not [
            each
            for each in matches
            if "TESTING" in each or "minifier" in each or "pre_dispatch" in each or each == "tvm"
        ]


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


def test_a_folder_that_cannot_be_made_was_not_deleted_or_moved(ready):
    outcome = ready.run("%%inductor_debug --artifacts /proc/nope --no-panel --lower aot\nblock(x);")
    assert "cannot create the artifact folder /proc/nope" in outcome.stderr
    assert "choose a folder that you can write to" in outcome.stderr
    assert "deleted" not in outcome.stderr


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
    assert ready.value("len(session.record.captures)") == "1"
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
