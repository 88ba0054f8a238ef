"""Options are declared once; a bad value gets one line that names it and says what is allowed."""

import pytest

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import parse_magic_line, parse_size
from inductor_debug_jupyter.pipeline.settings import resolve


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
        ("--lower triton", "--lower: 'triton' is not allowed; allowed: dynamo, aot, inductor"),
        ("--target", "--target"),
        ("stray", "unknown option 'stray'"),
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
    assert settings["lower"] == "inductor"
    assert settings.values["alignment"].origin == "call (--alignment)"
    assert settings.values["max_memory"].origin == "MOCK_MAX_MEMORY"
    assert settings.values["target"].origin.endswith("inductor_debug.toml, line 3")
    assert settings.is_default("lower")


def test_a_bad_variable_is_named():
    with pytest.raises(OptionError, match="MOCK_ALIGNMENT: 'many' is not allowed"):
        resolve(environ={"MOCK_ALIGNMENT": "many"})


def test_what_is_not_asked_for_is_not_checked():
    settings = resolve(environ={"MOCK_ALIGNMENT": "many"}, names=("artifacts",))
    assert settings["artifacts"] == "debug_artifacts"


def test_a_bad_config_value_is_named_with_file_and_line(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n[tool.inductor_debug]\nstrict = true\nalignment = -1\n"
    )
    with pytest.raises(OptionError, match=r"pyproject\.toml, line 5: '-1' is not allowed"):
        resolve(environ={}, folder=tmp_path)


def test_an_unknown_setting_is_named(tmp_path):
    (tmp_path / "inductor_debug.toml").write_text("allignment = 8\n")
    with pytest.raises(OptionError, match=r"line 1: unknown setting 'allignment'"):
        resolve(environ={}, folder=tmp_path)


def test_a_config_that_is_not_toml_is_named(tmp_path):
    (tmp_path / "inductor_debug.toml").write_text("alignment = = 8\n")
    with pytest.raises(OptionError, match="not valid TOML"):
        resolve(environ={}, folder=tmp_path)
