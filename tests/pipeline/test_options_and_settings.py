"""Options are declared once; a bad value gets one line that names it and says what is allowed."""

import contextlib
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import OPTIONS, parse_gates, parse_magic_line, parse_size
from inductor_debug_jupyter.pipeline.settings import resolve, unknown_variables


def test_all_options_of_the_magic_are_read():
    line = "--strict --target stick128 --alignment 64 --max-memory 1GiB --deny a,b --dtypes float16 --as s --no-panel"
    assert parse_magic_line(line) == {
        "strict": True,
        "target": "stick128",
        "alignment": 64,
        "max_memory": 1024**3,
        "deny": ("a", "b"),
        "dtypes": ("float16",),
        "as": "s",
        "no_panel": True,
    }


def test_warn_is_the_opposite_of_strict():
    assert parse_magic_line("--warn") == {"strict": False}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--strikt", "unknown option '--strikt'; did you mean --strict?"),
        ("--alignment x", "--alignment: 'x' is not allowed; allowed: a whole number from 1 up"),
        ("--alignment 0", "--alignment: '0' is not allowed"),
        ("--alignment -8", "--alignment"),
        ("--max-memory lots", "--max-memory: 'lots' is not allowed; allowed: bytes from 1 up"),
        ("--as 1x", "--as: '1x' is not allowed; allowed: the name of a Python variable"),
        ("--memory-limit 1MiB", "--memory-limit: '1MiB' is not allowed; allowed: bytes from 512MiB up"),
        ("--candidate a:b:c", "--candidate: 'a:b:c' is not allowed; allowed: a name, such as inductor or stick128, or"),
        ("--lower triton", "--lower: 'triton' is not allowed; allowed: dynamo, aot, inductor"),
        ("--target", "--target"),
        ("stray", "'stray' is no option: options begin with --"),
        ("--rtol -1", "--rtol"),
        ("--diff --atol nan", "--atol: 'nan' is not allowed; allowed: a number that is not negative"),
        ("--alignment 'x", "cannot read the options"),
    ],
)
def test_a_bad_option_is_one_line(line, expected):
    with pytest.raises(OptionError) as error:
        parse_magic_line(line)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("512KiB", 512 * 1024), ("2GB", 2 * 10**9), ("1.5 MiB", 1572864), ("1g", 1024**3)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


def test_call_beats_environment_beats_file_beats_default(tmp_path):
    (tmp_path / "inductor_debug.toml").write_text('alignment = 8\nmax_memory = "1KiB"\ntarget = "stick128"\n')
    settings = resolve({"alignment": 2}, environ={"MOCK_ALIGNMENT": "4", "MOCK_MAX_MEMORY": "2048"}, folder=tmp_path)
    assert (settings["alignment"], settings["max_memory"], settings["target"]) == (2, 2048, "stick128")
    assert settings["lower"] == "on-demand"
    assert settings.values["alignment"].origin == "call (--alignment)"
    assert settings.values["max_memory"].origin == "MOCK_MAX_MEMORY"
    assert settings.values["target"].origin.endswith("inductor_debug.toml, target")
    assert settings.values["lower"].origin == "default"


def test_a_bad_variable_is_named():
    with pytest.raises(OptionError, match="MOCK_ALIGNMENT: 'many' is not allowed"):
        resolve(environ={"MOCK_ALIGNMENT": "many"})


def test_what_is_not_asked_for_is_not_checked():
    settings = resolve(environ={"MOCK_ALIGNMENT": "many"}, names=("artifacts",))
    assert settings["artifacts"] == "debug_artifacts"


def test_a_bad_config_value_is_named_with_file_and_setting(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n[tool.inductor_debug]\nstrict = true\nalignment = -1\n"
    )
    with pytest.raises(OptionError, match=r"pyproject\.toml, alignment: '-1' is not allowed"):
        resolve(environ={}, folder=tmp_path)


GOOD = {
    "strict": ("1", True, ["true", "1", '"yes"', '"on"']),
    "target": ("stick128", "stick128", ['"stick128"']),
    "alignment": ("64", 64, ["64", '"64"']),
    "max_memory": ("1KiB", 1024, ["1024", '"1KiB"', '"1024"']),
    "dtypes": ("float16,bfloat16", ("float16", "bfloat16"), ['["float16", "bfloat16"]', '"float16, bfloat16"']),
    "deny": ("aten.mm", ("aten.mm",), ['["aten.mm"]', '"aten.mm"']),
    "lower": ("aot", "aot", ['"aot"']),
    "diff": ("eager", "eager", ['"eager"', "true"]),
    "candidate": ("my_chip:Adapter", "my_chip:Adapter", ['"my_chip:Adapter"']),
    "backward": ("yes", True, ["true"]),
    "atol": ("1e-3", 1e-3, ["1e-3", '"0.001"']),
    "rtol": ("0", 0.0, ["0", "0.0"]),
    "numerics": ("float16", "float16", ['"float16"']),
    "require": ("pcc=0.99", parse_gates("pcc=0.99"), ['"pcc=0.99"']),
    "localize": ("1", True, ["true"]),
    "profile": ("1", True, ["true"]),
    "tokens": ("1", True, ["true"]),
    "calls": ("7", "7", ['"7"', "7"]),
    "isolate": ("1", True, ["true"]),
    "timeout": ("2.5", 2.5, ["2.5", '"2.5"']),
    "memory_limit": ("4GiB", 4 * 1024**3, ["4294967296", '"4GiB"']),
    "as": ("run", "run", ['"run"']),
    "model": ("net", "net", ['"net"']),
    "no_panel": ("on", True, ["true"]),
    "quiet": ("true", True, ["true"]),
    "artifacts": ("/captures", "/captures", ['"/captures"']),
    "artifacts_limit": ("2GiB", 2 * 1024**3, ["2147483648", '"2GiB"']),
    "transfers": ("values", "values", ['"values"']),
    "native": ("0", False, ["false", "0"]),
    "faults": (
        "copy-first-stick,crash:aten.mm",
        ("copy-first-stick", "crash:aten.mm"),
        ['["copy-first-stick", "crash:aten.mm"]'],
    ),
}
"""For every option: a variable's text, the value it stands for, and how the same is written in TOML."""


def test_every_option_is_tried():
    assert set(GOOD) == set(OPTIONS)
    assert len({option.environment for option in OPTIONS.values()}) == len(OPTIONS)
    assert all(option.environment.startswith(("MOCK_", "INDUCTOR_DEBUG_")) for option in OPTIONS.values())


@pytest.mark.parametrize("name", GOOD)
def test_every_option_can_come_from_everywhere(name, tmp_path):
    text, value, written = GOOD[name]
    variable = OPTIONS[name].environment
    assert resolve(environ={}, folder=tmp_path).values[name].origin == "default"
    for form in written:
        (tmp_path / "inductor_debug.toml").write_text(f"{name} = {form}\n")
        found = resolve(environ={}, folder=tmp_path).values[name]
        assert (found.value, found.origin) == (value, f"{tmp_path / 'inductor_debug.toml'}, {name}")
    (tmp_path / "inductor_debug.toml").write_text(f"{name} = {written[0]}\n")
    found = resolve(environ={variable: text}, folder=tmp_path).values[name]
    assert (found.value, found.origin) == (value, variable)
    found = resolve({name: value}, environ={variable: text}, folder=tmp_path).values[name]
    assert (found.value, found.origin) == (value, f"call ({OPTIONS[name].flag})")
    assert resolve(environ={variable: ""}, folder=tmp_path).values[name].origin.endswith(f"toml, {name}")


@pytest.mark.parametrize("name", sorted(set(GOOD) - {"target", "deny", "dtypes", "artifacts", "faults", "require"}))
def test_a_bad_value_names_where_it_stands_what_it_is_and_what_is_allowed(name, tmp_path):
    bad = "what is this?"
    sentence = f": '{bad}' is not allowed; allowed: "
    with pytest.raises(OptionError) as error:
        resolve(environ={OPTIONS[name].environment: bad})
    assert str(error.value).startswith(OPTIONS[name].environment + sentence)
    config = tmp_path / "inductor_debug.toml"
    config.write_text(f"# a comment\n\n{name} = '{bad}'\n")
    with pytest.raises(OptionError) as error:
        resolve(environ={}, folder=tmp_path)
    assert str(error.value).startswith(f"{config}, {name}{sentence}")
    config.unlink()
    with pytest.raises(OptionError) as error:
        resolve({name: bad}, environ={})
    assert str(error.value).startswith(f"call ({OPTIONS[name].flag}){sentence}")


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("form", ["{a = 1}", "1979-05-27", "[1, 2]", "[[]]", "nan", '""', "12.5"])
def test_a_wrong_toml_type_says_what_is_allowed(name, form, tmp_path):
    if name in ("timeout", "atol", "rtol") and form == "12.5":
        form = "-12.5"
    (tmp_path / "inductor_debug.toml").write_text(f"{name} = {form}\n")
    with pytest.raises(OptionError, match=rf"toml, {name}: .* is not allowed; allowed: ") as error:
        resolve(environ={}, folder=tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "form"), [("alignment", "true"), ("max_memory", "false"), ("as", "5"), ("target", "[]")]
)
def test_what_python_would_take_for_a_number_or_a_text_is_refused(name, form, tmp_path):
    (tmp_path / "inductor_debug.toml").write_text(f"{name} = {form}\n")
    with pytest.raises(OptionError, match="is not allowed; allowed: "):
        resolve(environ={}, folder=tmp_path)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("text", ["9" * 5000, "\0", "-1e999", "¹", "\ud800", "a\nb", "{}%s", "  "])
def test_no_text_breaks_a_parser(name, text):
    with contextlib.suppress(OptionError):  # anything else would be a crash
        resolve(environ={OPTIONS[name].environment: text}, names=[name])


@pytest.mark.parametrize("config", ["inductor_debug.toml", "pyproject.toml"])
def test_dashes_and_underlines_are_one(config, tmp_path):
    table = "" if config == "inductor_debug.toml" else "[tool.inductor_debug]\n"
    (tmp_path / config).write_text(f"{table}max-memory = 7\n'no-panel' = true\n")
    settings = resolve(environ={}, folder=tmp_path)
    assert (settings["max_memory"], settings["no_panel"]) == (7, True)
    (tmp_path / config).write_text(f"{table}max-memory = 7\nmax_memory = 8\n")
    with pytest.raises(OptionError, match="max_memory is said twice"):
        resolve(environ={}, folder=tmp_path)


def test_a_switch_can_be_turned_off_in_the_file(tmp_path):
    (tmp_path / "inductor_debug.toml").write_text("quiet = false\nno_panel = false\ndiff = false\n")
    settings = resolve(environ={}, folder=tmp_path)
    assert not settings["quiet"]
    assert not settings["no_panel"]
    assert settings["diff"] is None
    assert resolve(environ={"INDUCTOR_DEBUG_DIFF": "1"}, folder=tmp_path)["diff"] == "eager"
    assert resolve(environ={"INDUCTOR_DEBUG_DIFF": "off"}, folder=tmp_path)["diff"] is None


def test_the_nearest_file_wins_and_its_paths_are_its_own(tmp_path):
    inner = tmp_path / "notebooks" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "chip.toml").write_text("")
    (tmp_path / "pyproject.toml").write_text("[tool.inductor_debug]\nartifacts = 'out'\ntarget = 'chip.toml'\n")
    settings = resolve(environ={}, folder=inner)
    assert settings["artifacts"] == str(tmp_path / "out")
    assert settings["target"] == str(tmp_path / "chip.toml")
    (inner.parent / "pyproject.toml").write_text("[tool.ruff]\n# inductor_debug is not configured here\n")
    assert resolve(environ={}, folder=inner)["artifacts"] == str(tmp_path / "out")
    (inner.parent / "inductor_debug.toml").write_text("target = 'stick128'\n")
    settings = resolve(environ={}, folder=inner)
    assert (settings["artifacts"], settings["target"]) == ("debug_artifacts", "stick128")


def test_home_is_the_users_own():
    assert resolve(environ={"INDUCTOR_DEBUG_ARTIFACTS": "~/captures"})["artifacts"] == str(Path.home() / "captures")


def test_calls_take_values_of_their_own_type_and_say_what_is_wrong(tmp_path):
    given = {"strict": True, "alignment": 8, "dtypes": ("float16",), "artifacts": tmp_path, "max_memory": 4096}
    settings = resolve(given, environ={})
    assert [settings[name] for name in given] == [True, 8, ("float16",), str(tmp_path), 4096]
    for name, value in {"alignment": 0, "strict": 3, "lower": 7, "dtypes": [1], "target": object()}.items():
        with pytest.raises(OptionError, match=rf"call \(--{name}\): .* is not allowed; allowed: "):
            resolve({name: value}, environ={})


def test_an_unknown_setting_is_named_with_the_nearest(tmp_path):
    (tmp_path / "inductor_debug.toml").write_text("strict = true\nallignment = 8\n")
    with pytest.raises(OptionError, match=r"toml: unknown setting 'allignment'; did you mean alignment\? allowed: al"):
        resolve(environ={}, folder=tmp_path)
    (tmp_path / "inductor_debug.toml").write_text("[tool.inductor_debug]\nalignment = 8\n")
    with pytest.raises(
        OptionError, match=r"toml: unknown setting 'tool'; in inductor_debug.toml settings stand at the"
    ):
        resolve(environ={}, folder=tmp_path)
    (tmp_path / "inductor_debug.toml").unlink()
    (tmp_path / "pyproject.toml").write_text("[project]\n[tool.inductor_debug.mock]\nalignment = 8\n")
    with pytest.raises(OptionError, match=r"toml: unknown setting 'mock'; allowed"):
        resolve(environ={}, folder=tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool]\ninductor_debug = 5\n")
    with pytest.raises(OptionError, match=r"toml, inductor_debug: 5 is not allowed; allowed: a table of settings"):
        resolve(environ={}, folder=tmp_path)


def test_a_config_that_is_not_toml_is_named(tmp_path):
    (tmp_path / "inductor_debug.toml").write_text("alignment = = 8\n")
    with pytest.raises(OptionError, match=r"inductor_debug\.toml: not valid TOML .*line 1"):
        resolve(environ={}, folder=tmp_path)
    (tmp_path / "inductor_debug.toml").unlink()
    (tmp_path / "pyproject.toml").write_text("this is = = not toml\n")
    assert resolve(environ={}, folder=tmp_path)["alignment"] is None, "not ours, so not our worry"
    (tmp_path / "pyproject.toml").write_text("this is = = not toml\n[tool.inductor_debug]\n")
    with pytest.raises(OptionError, match=r"pyproject\.toml: not valid TOML"):
        resolve(environ={}, folder=tmp_path)


def test_a_variable_with_a_slip_is_told():
    environ = {
        "INDUCTOR_DEBUG_TARGT": "x",
        "MOCK_ALIGNEMENT": "8",
        "MOCK_SERVER_PORT": "80",
        "MOCK_STRICT": "1",
        "INDUCTOR_DEBUG_CHROMIUM": "/usr/bin/chromium",
    }
    slips = unknown_variables(environ)
    assert [slip.split()[3] for slip in slips] == ["INDUCTOR_DEBUG_TARGT", "MOCK_ALIGNEMENT"]
    assert slips[0].endswith("did you mean INDUCTOR_DEBUG_TARGET?")
    assert slips[1].endswith("did you mean MOCK_ALIGNMENT?")
