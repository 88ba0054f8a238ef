"""Names of ops that a user writes: torch has the op, or one line names the slip, wherever it was written."""

import logging
import random
import subprocess
import sys

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DeviceProfile, UnsupportedOpsConstraint, capture
from inductor_debug_jupyter.pipeline.adapters.mock import MockAcceleratorAdapter
from inductor_debug_jupyter.pipeline.devices import load_profile, profile_names, rules_for
from inductor_debug_jupyter.pipeline.devices.alignment import AlignmentRule
from inductor_debug_jupyter.pipeline.devices.layouts import LayoutRule
from inductor_debug_jupyter.pipeline.devices.ops import DECOMPOSED, DEFAULT_DENY, LOWERED, OP_GROUPS, VIEWS, unknown_op
from inductor_debug_jupyter.pipeline.errors import OptionError, ProfileError
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.torch_compat.op_names import registered_ops

SLIP = "torch has no op 'convolutoin'; did you mean convolution"
LEGAL = (
    "convolution", "aten.convolution", "aten::convolution", "aten.convolution.default", "torch.ops.aten.convolution",
    "aten.add.Tensor", "aten.add", "add_", "conv2d", "torch.conv2d", "F.conv2d", "torch.nn.functional.conv2d",
    "nn.Conv2d", "nn.LayerNorm", "nn.BatchNorm2d", "operator.add", "operator.iadd", "softmax", "torch.Tensor.softmax",
    "torch.linalg.det", "linalg.det", "prims.convert_element_type", "quantized.add", "gelu_tanh", "@matmul", "RELU",
    "scaled_dot_product_attention",
)  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_every_way_to_write_an_op_is_legal(name):
    assert unknown_op(name) is None


def test_what_our_own_tables_and_profiles_name_is_there():
    ours = {*DEFAULT_DENY, *LOWERED, *DECOMPOSED, *VIEWS}.union(
        *LOWERED.values(), *DECOMPOSED.values(), *OP_GROUPS.values()
    )
    assert {name: problem for name in ours if (problem := unknown_op(name))} == {}
    for name in profile_names():
        assert rules_for(load_profile(name))


def with_a_slip(name, draw):
    """Two letters swapped, one lost, or one twice."""
    at = draw.randrange(len(name) - 1)
    kind = draw.randrange(3)
    if kind == 0:
        return name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    return name[:at] + name[at + 1 :] if kind == 1 else name[: at + 1] + name[at:]


def test_a_slip_in_the_name_of_any_op_is_named_and_the_op_is_among_the_near_ones():
    draw = random.Random(0)
    ops = sorted(op for op in registered_ops()["aten"] if len(op) > 7 and not op.startswith("_"))
    tried = 0
    for op in draw.sample(ops, 60):
        for written in (with_a_slip(op, draw), f"aten.{with_a_slip(op, draw)}"):
            bare = written.removeprefix("aten.")
            if unknown_op(bare) is None:
                continue  # the slip is another op
            tried += 1
            problem = unknown_op(written)
            assert problem is not None
            assert "\n" not in problem
            assert repr(written) in problem
            assert op in problem.partition("did you mean ")[2], problem
    assert tried > 80


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("aten.add.Tensr", "aten.add has no overload 'Tensr'; allowed: Scalar, "),
        ("relu.default", "has no namespace; did you mean 'aten.relu.default'?"),
        ("add.Tensor", "has no namespace; did you mean 'aten.add.Tensor'?"),
        ("convolution.defalt", "aten.convolution has no overload 'defalt'; allowed: "),
        ("quantized.ad", "did you mean quantized.add"),
        ("@matmull", "allowed: @matmul, @convolution, @reduction; did you mean matmul"),
        ("aten.conv*", "torch has no op 'aten.conv*'"),
        ("aten.", "torch has no op 'aten.'"),
        ("nn.LeakyReLU", "did you mean leaky_relu"),
        ("", "torch has no op ''"),
        ("xyzzy", "torch has no op 'xyzzy'"),
    ],
)
def test_what_is_wrong_with_a_name_is_told(name, told):
    assert told in unknown_op(name)


def chip(tmp_path, text):
    path = tmp_path / "chip.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("key", "text", "line"),
    [
        ("deny", "[ops]\ndeny = ['default', 'convolutoin']\n", 2),
        ("allow", "[ops]\nallow = ['mm', 'convolutoin']\n", 2),
        ("decompose", "[ops]\ndecompose = { convolutoin = ['mul'] }\n", 2),
        ("decompose", "[ops]\ndecompose = { gelu = ['convolutoin'] }\n", 2),
        ("ops", "[dtypes]\nsupported = ['float32']\nops = { convolutoin = ['float32'] }\n", 3),
        ("ops", "[[alignment]]\nmultiple = 8\n\n[[alignment]]\nmultiple = 4\nops = ['convolutoin']\n", 6),
        ("not_ops", "[alignment]\nmultiple = 8\nnot_ops = ['convolutoin']\n", 3),
        ("ops", "[layout]\nops = ['convolutoin']\n", 2),
    ],
)
def test_a_slip_in_a_profile_names_file_line_and_key(tmp_path, key, text, line):
    path = chip(tmp_path, text)
    with pytest.raises(ProfileError) as error:
        load_profile(path)
    assert str(error.value).startswith(f"{path}, line {line}: {key} is ")
    assert SLIP in str(error.value)


def test_a_slip_in_an_option_names_the_option_the_variable_or_the_file(tmp_path):
    (tmp_path / "inductor_debug.toml").write_text('strict = false\ndeny = ["convolutoin"]\n')
    for settings, origin in (
        (resolve({"deny": "convolutoin"}), "call (--deny)"),
        (resolve(environ={"INDUCTOR_DEBUG_DENY": "convolutoin"}), "INDUCTOR_DEBUG_DENY"),
        (resolve(environ={}, folder=tmp_path), f"{tmp_path / 'inductor_debug.toml'}, deny"),
    ):
        with pytest.raises(OptionError) as error:
            DebugSession(settings)
        assert str(error.value).startswith(f"{origin}: {SLIP}")


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_slip_in_a_what_if_is_named():
    with capture(eager=True, lower="aot") as session, torch.no_grad():
        nn.Sequential(nn.Linear(4, 4), nn.GELU())(torch.randn(2, 4))
    with pytest.raises(OptionError, match=SLIP):
        session.try_out(deny=["convolutoin"])
    with pytest.raises(OptionError, match=SLIP):
        session.try_out(decompose={"gelu": ["mul", "convolutoin"]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: UnsupportedOpsConstraint(["aten.mm", "convolutoin"]),
        lambda: UnsupportedOpsConstraint(unsupported_ops=("convolutoin",)),
        lambda: rules_for(DeviceProfile("chip", deny=("convolutoin",))),
        lambda: rules_for(DeviceProfile("chip", allow=("convolutoin",))),
        lambda: rules_for(DeviceProfile("chip", decompose={"gelu": ("convolutoin",)})),
        lambda: rules_for(DeviceProfile("chip", dtypes=("float32",), op_dtypes={"convolutoin": ("float32",)})),
        lambda: rules_for(DeviceProfile("chip", alignments=(AlignmentRule(multiple=8, not_ops=("convolutoin",)),))),
        lambda: rules_for(DeviceProfile("chip", layouts=(LayoutRule(ops=("convolutoin",)),))),
        lambda: MockAcceleratorAdapter(ops={"convolutoin"}).rules(),
    ],
)
def test_a_slip_in_python_is_named(make):
    with pytest.raises(OptionError, match=SLIP):
        make()


def test_one_text_is_not_a_list_of_its_letters():
    with pytest.raises(OptionError, match="allowed: names of ops"):
        UnsupportedOpsConstraint("sort")


def test_an_op_of_a_library_that_is_not_there_yet_is_taken_with_one_warning(caplog):
    with caplog.at_level(logging.WARNING, logger="inductor_debug_jupyter"):
        for _ in range(3):
            UnsupportedOpsConstraint(["library_of_tomorrow.op"])
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["'library_of_tomorrow.op'"]


@pytest.mark.usefixtures("fresh_dynamo")
def test_an_op_of_another_library_is_checked_once_it_is_registered_and_found(caplog):
    with torch.library._scoped_library("known_ops_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", torch.empty_like, "Meta")
        with pytest.raises(OptionError, match=r"no op 'known_ops_test.twcie'; did you mean known_ops_test.twice\?"):
            UnsupportedOpsConstraint(["known_ops_test.twcie"])
        rules = [UnsupportedOpsConstraint(["known_ops_test.twice"])]

        class Twice(nn.Module):
            def forward(self, x):
                return torch.ops.known_ops_test.twice(x) + 1

        with capture(eager=True, lower="aot", constraints=rules) as session, torch.no_grad():
            Twice()(torch.randn(4))
    (finding,) = session.findings
    assert finding.title == "the target has no known_ops_test.twice"
    assert [entry.op for entry in session.coverage.fallbacks] == ["twice"]


def test_reading_a_built_in_profile_and_a_deny_list_needs_no_torch(cold_python: None):
    code = (
        "import sys\n"
        "from inductor_debug_jupyter.pipeline.options import OPTIONS\n"
        "OPTIONS['deny'].read('aten.mm', '--deny')\n"
        "from inductor_debug_jupyter.pipeline.devices import ops\n"
        "from inductor_debug_jupyter.pipeline.devices.profile import load_profile\n"
        "load_profile('edge-int8')\n"
        "print('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "False"


def test_an_op_that_is_denied_as_it_is_written_in_place_is_denied():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True))
    for name in ("relu_", "aten.relu_", "relu", "nn.ReLU"):
        session = DebugSession(resolve({"deny": [name], "lower": "aot"}), eager=True)
        session.open()
        model(torch.ones(1, 4))
        session.close()
        assert [finding.rule_id for finding in session.findings] == ["op.unsupported"], name
