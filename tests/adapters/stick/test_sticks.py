"""Sticks: where elements lie, what they are held as, and that nobody reads what was never written."""

import pytest
import torch

from inductor_debug_jupyter.pipeline.adapters.stick.memory import DeviceFormat, restrided, store, to_device
from inductor_debug_jupyter.pipeline.errors import OptionError, RefusedError

HALF, EXACT = DeviceFormat("float16"), DeviceFormat("float32")


@pytest.mark.parametrize(
    ("shape", "dtype", "form", "device_size", "held"),
    [
        ((65,), torch.float16, HALF, (2, 64), torch.float16),
        ((65,), torch.float32, HALF, (2, 64), torch.float16),
        ((65,), torch.float32, EXACT, (3, 32), torch.float32),
        ((3, 4, 5), torch.int64, HALF, (3, 4, 1, 32), torch.int32),
        ((), torch.float16, HALF, (1, 64), torch.float16),
        ((2, 129), torch.bool, HALF, (2, 2, 128), torch.uint8),
        ((4, 0), torch.float32, EXACT, (4, 0, 32), torch.float32),
        ((5,), torch.complex64, EXACT, (1, 16), torch.complex64),
    ],
)
def test_the_layout_of_a_tensor(shape, dtype, form, device_size, held):
    layout = form.layout(shape, dtype)
    assert (layout.device_size, layout.device_dtype) == (device_size, held)
    cells = 1
    for size in device_size:
        cells *= size
    assert layout.nbytes == cells * held.itemsize


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.bool])
@pytest.mark.parametrize("shape", [(), (1,), (65,), (3, 70), (2, 3, 5), (0,), (4, 0)])
def test_there_and_back(dtype, shape):
    torch.manual_seed(0)
    values = torch.randint(-100, 100, shape).to(dtype)
    held = to_device(values, HALF)
    assert held.buffer.numel() * held.buffer.itemsize == held.layout.nbytes
    assert torch.equal(held.load(), values)
    assert held.load().stride() == values.stride()


def test_padding_is_poisoned_and_only_padding():
    held = to_device(torch.ones(3, 65), HALF)
    row = held.buffer.view(3, 128)
    assert not row[:, :65].isnan().any()
    assert row[:, 65:].isnan().all()
    whole = to_device(torch.ones(65, dtype=torch.int64), HALF).buffer.view(-1)
    assert whole[:65].eq(1).all()
    assert whole[65:].eq(0x55555555).all()


def test_what_is_outside_the_range_is_never_written():
    layout = HALF.layout((2, 130), torch.float16)
    held = store(torch.ones(2, 130, dtype=torch.float16), layout, extent=(2, 1, 64))
    assert held.load()[:, :64].eq(1).all()
    assert held.load()[:, 64:].isnan().all()


def test_views_come_as_they_are():
    base = torch.arange(12.0).reshape(3, 4)
    for view in (base.T, base[:, 1:3], base.expand(2, 3, 4), base[::2], base.as_strided((3, 3), (1, 1))):
        held = to_device(view, EXACT)
        assert torch.equal(held.load(), view)
        assert held.load().stride() == view.stride()
        assert held.offset == view.storage_offset()


def test_strides_that_overlap_keep_their_values():
    values = torch.arange(3.0).unfold(0, 2, 1)
    assert torch.equal(restrided(values.contiguous(), values.stride()), values)


def test_formats():
    there = to_device(torch.tensor([1e9, -1e9, float("inf"), float("nan"), 1 / 3]), HALF).load()
    assert there[:3].tolist() == [65504.0, -65504.0, float("inf")]
    assert there[3].isnan()
    assert there[4] == torch.tensor(1 / 3).half().float()
    assert to_device(torch.tensor([1 / 3]), EXACT).load().item() == torch.tensor(1 / 3).item()
    with pytest.raises(OptionError, match=r"format='float8'; allowed: float16, float32"):
        DeviceFormat("float8")


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        (torch.tensor([2**31]), "the int64 value 2147483648 does not fit the device's int32"),
        (torch.tensor([-(2**40)]), "the int64 value -1099511627776 does not fit"),
        (torch.ones(2, dtype=torch.float64), "the device cannot hold float64; it holds bool, float16"),
        (torch.ones(2, 2).to_sparse(), "a sparse_coo tensor has no stick layout"),
        (torch.ones(2, dtype=torch.complex64), "cannot hold complex64"),
    ],
)
def test_what_the_device_cannot_hold_is_one_sentence(tensor, sentence):
    with pytest.raises(RefusedError, match=sentence):
        to_device(tensor, HALF)
