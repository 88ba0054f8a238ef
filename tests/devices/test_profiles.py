"""Device profiles are data; a bad one names its file and line."""

import pytest

from inductor_debug_jupyter.pipeline.devices import load_profile, profile_names, rules_for
from inductor_debug_jupyter.pipeline.errors import ProfileError


def test_every_built_in_profile_loads():
    assert set(profile_names()) == {"default", "edge-int8", "stick128", "systolic128"}
    for name in profile_names():
        profile = load_profile(name)
        assert profile.name == name
        assert profile.description
        assert rules_for(profile)


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text('[alignment]\nmultiple = 32\n[ops]\ndeny = ["default", "aten.gelu"]\n[memory]\nlimit = "1GiB"\n')
    profile = load_profile(str(path))
    assert (profile.name, profile.alignment, profile.memory_limit) == ("chip", 32, 1024**3)
    assert "aten.gelu" in profile.deny
    assert "aten.linalg_lu_factor" in profile.deny
    assert profile.dtypes is None


def test_the_documented_example_is_a_profile(tmp_path):
    """What the module's docstring shows can be copied as it is."""
    from inductor_debug_jupyter.pipeline.devices import profile as module

    example = module.__doc__.partition("::\n\n")[2].partition("\n\nAn unknown key")[0]
    path = tmp_path / "example.toml"
    path.write_text("\n".join(line.removeprefix("    ") for line in example.splitlines()))
    profile = load_profile(str(path))
    (rule,) = profile.alignments
    assert (profile.name, rule.bytes, rule.operands) == ("my-chip", 128, ("input", "weight"))
    assert rule.elements("float32", profile.narrow) == 64
    assert rule.elements("float64", profile.narrow) == 64  # it has to become one that the rule names
    assert rule.elements("int8", profile.narrow) == 1  # the rule names other dtypes
    assert profile.decompose == {"gelu": ("tanh", "mul", "add")}
    assert profile.seconds(32_000_000_000) == pytest.approx(1.00001)
    assert (profile.tensor_limit, profile.scratchpad) == (4 * 2**30, 2 * 2**20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[alignment]\nmultiple = -8\n", "line 2: multiple is -8; allowed: a whole number from 1 up"),
        ("[alignment]\nmultiple = 'many'\n", "line 2: multiple is 'many'; allowed: a whole number"),
        ("[alignment]\nmultiple = true\n", "line 2: multiple is True; allowed: a whole number"),
        ("[alignment]\ndims = 'innermost'\n", "line 1: .*neither multiple nor bytes is there"),
        ("[alignment]\nmultiple = 8\nbytes = 128\n", "line 1: .*multiple and bytes are both there"),
        ("[[alignment]]\nmultiple = 8\n\n[[alignment]]\nbytes = -128\n", "line 5: bytes is -128; allowed: a whole"),
        ("[[alignment]]\nmultiple = 8\ndims = 'inermost'\n", "line 3: dims is 'inermost'; .*did you mean innermost"),
        ("[[alignment]]\nmultiple = 8\nops = ['@matmull']\n", "line 3: ops is .*@matmul.*did you mean matmul"),
        ("[[alignment]]\nmultiple = 8\noperands = ['wieght']\n", "line 3: operands is .*did you mean weight"),
        ("alignment = 64\n", r"line 1: alignment is 64; allowed: a table \[alignment\]"),
        ("name = 'x'\n\n[dtypes]\nsupported = ['float33']\n", "line 4: supported is .*float33"),
        ("[dtypes]\nsupported = 'float32'\n", "line 2: supported is 'float32'; allowed: a list"),
        ("[dtypes.ops]\n'aten.mm' = ['float99']\n", "line 1: ops is .*float99"),
        ("[numerics]\nnarrow = { int64 = 'int31' }\n", "line 2: narrow is .*int31"),
        ("[ops]\nfallback = 'gpu'\n", "line 2: fallback is 'gpu'; allowed: cpu, none"),
        ("[ops]\ndecompose = ['gelu']\n", "line 2: decompose is .*allowed: a table"),
        ("[ops]\ndeny = [3]\n", r"line 2: deny is \[3\]; allowed: a text"),
        ("[layout]\ncontiguous = 1\n", "line 2: contiguous is 1; allowed: a true or false"),
        ("[layout]\nformat = 'tile'\n", "line 1: .*tile = .*only there together"),
        ("[layout]\nformat = 'tile'\ntile = [8, -1]\n", "line 3: tile is .*from 1 up"),
        ("[aligment]\nmultiple = 8\n", r"line 1: unknown table \[aligment\].*did you mean alignment"),
        ("[memory]\nlimitt = '1GiB'\n", "line 2: unknown key 'limitt'; allowed: limit.*did you mean limit"),
        ("[memory]\nlimit = 'lots'\n", "line 2: limit is 'lots'; allowed: bytes"),
        ("[transfer]\nlatency = -1\n", "line 2: latency is -1; allowed: seconds from 0 up"),
        ("colour = 'red'\n", "line 1: unknown key 'colour'"),
        ("name = 7\n", "line 1: name is 7; allowed: a text"),
        ("[alignment\n", "not valid TOML .*line 1"),
    ],
)
def test_a_bad_profile_names_file_line_and_what_is_allowed(tmp_path, text, message):
    path = tmp_path / "chip.toml"
    path.write_text(text)
    with pytest.raises(ProfileError, match=message) as error:
        load_profile(str(path))
    assert "chip.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_targets_suggest_the_nearest(tmp_path):
    with pytest.raises(ProfileError, match=r"unknown target 'stik128'; allowed: .* did you mean stick128"):
        load_profile("stik128")
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profile("nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="not UTF-8"):
        load_profile(str(tmp_path / "binary.toml"))


def test_what_the_user_sets_beside_a_profile_takes_over():
    from inductor_debug_jupyter.pipeline.settings import resolve

    settings = resolve({"alignment": 16, "max_memory": 1000, "deny": ("aten.mm",)})
    profile = load_profile("stick128").with_settings(settings)
    assert (profile.alignment, profile.alignment_dims, profile.memory_limit) == (16, "innermost", 1000)
    assert "aten.mm" in profile.deny
