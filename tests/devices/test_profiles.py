"""Device profiles are data; a bad one names its file and line."""

import pytest

from inductor_debug_jupyter.pipeline.devices import load_profile, profile_names
from inductor_debug_jupyter.pipeline.errors import ProfileError


def test_every_built_in_profile_loads():
    assert {"default", "stick128"} <= set(profile_names())
    for name in profile_names():
        assert load_profile(name).name == name


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text('[alignment]\nmultiple = 32\n[ops]\ndeny = ["default", "aten.gelu"]\n[memory]\nlimit = "1GiB"\n')
    profile = load_profile(str(path))
    assert (profile.name, profile.alignment, profile.memory_limit) == ("chip", 32, 1024**3)
    assert "aten.gelu" in profile.deny
    assert "aten.linalg_lu_factor" in profile.deny
    assert profile.dtypes is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[alignment]\nmultiple = -8\n", "line 2: multiple is -8; allowed: a whole number from 1 up"),
        ("[alignment]\nmultiple = 'many'\n", "line 2: multiple is 'many'; allowed: a whole number"),
        ("name = 'x'\n\n[dtypes]\nsupported = ['float33']\n", "line 4: supported is .*float33"),
        ("[layout]\ncontiguous = 1\n", "line 2: contiguous is 1; allowed: a true or false"),
        ("[aligment]\nmultiple = 8\n", r"line 1: unknown table \[aligment\]"),
        ("[memory]\nlimitt = '1GiB'\n", "line 2: unknown key 'limitt'; allowed: limit"),
        ("[memory]\nlimit = 'lots'\n", "line 2: limit is 'lots'; allowed: bytes"),
        ("colour = 'red'\n", "line 1: unknown key 'colour'"),
        ("[alignment\n", "not valid TOML"),
    ],
)
def test_a_bad_profile_names_file_line_and_what_is_allowed(tmp_path, text, message):
    path = tmp_path / "chip.toml"
    path.write_text(text)
    with pytest.raises(ProfileError, match=message) as error:
        load_profile(str(path))
    assert "chip.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_targets_suggest_the_nearest():
    with pytest.raises(ProfileError, match=r"unknown target 'stik128'; allowed: .* did you mean stick128"):
        load_profile("stik128")
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profile("nowhere.toml")
