"""Device and dtype: what is chosen, what is refused, and why a GPU is not seen."""

import json
from pathlib import Path

import pytest
import torch

from inside_generate import device
from inside_generate.device import choose_device, choose_dtype, gpu_torch_cannot_see
from inside_generate.errors import InsideGenerateError
from inside_generate.home import settings_file


@pytest.fixture
def cuda(monkeypatch):
    """Let torch report one CUDA device of the given compute capability."""

    def pretend(*capability):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)

    return pretend


@pytest.fixture
def no_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device, "_driver_files", list)
    monkeypatch.setattr(device.shutil, "which", lambda _: None)


@pytest.fixture
def measured(monkeypatch):
    """Replace the measurement by given seconds; return the list of its runs."""
    runs = []

    def give(bfloat16, float32):
        def measure():
            runs.append(1)
            return {"bfloat16": bfloat16, "float32": float32}

        monkeypatch.setattr(device, "measure_dtypes", measure)
        return runs

    return give


def test_auto_is_the_cpu_where_there_is_no_cuda(no_cuda):
    assert choose_device() == torch.device("cpu")


def test_auto_is_cuda_where_there_is_one(cuda):
    cuda(8, 0)
    assert choose_device("auto") == torch.device("cuda")


def test_argument_wins_over_environment_and_environment_over_auto(cuda, monkeypatch):
    cuda(8, 0)
    monkeypatch.setenv("INSIDE_GENERATE_DEVICE", "cpu")
    assert choose_device() == torch.device("cpu")
    assert choose_device("cuda") == torch.device("cuda")
    assert choose_device(torch.device("cuda:0")) == torch.device("cuda:0")
    monkeypatch.setenv("INSIDE_GENERATE_DTYPE", "float16")
    assert choose_dtype(device="cpu")[0] is torch.float16
    assert choose_dtype("float32", device="cpu")[0] is torch.float32


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "CUDA", "cpu,cuda", ""])
def test_unknown_device_is_refused_with_the_valid_ones(no_cuda, name):
    with pytest.raises(InsideGenerateError, match=rf"unknown device '{name}'; choose auto, cpu"):
        choose_device(name)


def test_cuda_without_cuda_is_refused_with_what_to_choose(no_cuda):
    with pytest.raises(InsideGenerateError, match="no CUDA device here; choose --device cpu"):
        choose_device("cuda")


def test_a_cuda_number_that_does_not_exist_is_refused(cuda):
    cuda(8, 0)
    with pytest.raises(InsideGenerateError, match=r"no cuda:1: torch sees 1 CUDA device"):
        choose_device("cuda:1")


def test_mps_is_taken_only_when_asked_for_and_there(no_cuda, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cpu")
    assert choose_device("mps") == torch.device("mps")
    assert "not tested" in choose_dtype("auto", "mps")[1]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InsideGenerateError, match="no Apple GPU"):
        choose_device("mps")


@pytest.mark.parametrize("sign", ["nvidia-smi", "driver file"])
@pytest.mark.parametrize(
    ("built_for", "hidden", "cause"),
    [
        (None, None, "built for the CPU only; install the build for your CUDA version"),
        ("12.8", None, "built for CUDA 12.8; type `nvidia-smi`"),
        ("12.8", "", "CUDA_VISIBLE_DEVICES hides it; unset"),
        ("12.8", "-1", "CUDA_VISIBLE_DEVICES hides it; unset"),
    ],
)
def test_a_gpu_that_torch_cannot_see_is_named_with_its_cause(
    no_cuda, monkeypatch, tmp_path, sign, built_for, hidden, cause
):
    if sign == "nvidia-smi":
        monkeypatch.setattr(device.shutil, "which", lambda name: f"/usr/bin/{name}")
    else:
        monkeypatch.setattr(device, "_driver_files", lambda: [tmp_path])
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert cause in gpu_torch_cannot_see()
    with pytest.raises(InsideGenerateError, match="torch sees no GPU"):
        choose_device("cuda")
    assert choose_device("auto") == torch.device("cpu")


def test_no_gpu_and_a_gpu_in_use_are_nothing_to_remark_on(no_cuda, cuda):
    assert gpu_torch_cannot_see() is None
    cuda(8, 0)
    assert gpu_torch_cannot_see() is None


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [((9, 0), torch.bfloat16), ((8, 0), torch.bfloat16), ((7, 5), torch.float16)],
)
def test_cuda_computes_in_bf16_from_capability_8_and_in_fp16_below(cuda, capability, dtype):
    cuda(*capability)
    chosen, why = choose_dtype("auto", "cuda")
    assert chosen is dtype
    assert f"{capability[0]}.{capability[1]}" in why


@pytest.mark.parametrize(
    ("bfloat16", "float32", "chosen", "why"),
    [
        (0.010, 0.020, torch.bfloat16, "bfloat16 is faster here"),
        (0.100, 0.010, torch.float32, "float32 is faster here"),
        (0.0101, 0.010, torch.bfloat16, "as fast as float32 here and takes half the memory"),
    ],
)
def test_a_cpu_computes_in_what_was_measured_to_be_faster(measured, bfloat16, float32, chosen, why):
    measured(bfloat16, float32)
    dtype, reason = choose_dtype("auto", "cpu")
    assert dtype is chosen
    assert why in reason
    assert f"{1e3 * bfloat16:.0f} ms for sample products in bfloat16" in reason


def test_a_cpu_is_measured_once_and_the_result_kept(measured):
    runs = measured(0.01, 0.02)
    first = choose_dtype("auto", "cpu")
    assert choose_dtype("auto", "cpu") == first
    assert runs == [1]
    (key,) = json.loads(settings_file().read_text("utf-8"))["cpu_dtype"]
    assert torch.__version__ in key
    assert f"{torch.get_num_threads()} threads" in key


def test_where_it_is_kept_is_said_without_the_users_name(measured, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    measured(0.01, 0.02)
    _, why = choose_dtype("auto", "cpu")
    assert why.endswith("measured once and kept in ~/home/settings.json")


def test_another_number_of_threads_is_measured_anew(measured, monkeypatch):
    runs = measured(0.01, 0.02)
    choose_dtype("auto", "cpu")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    choose_dtype("auto", "cpu")
    assert runs == [1, 1]


def test_where_nothing_can_be_kept_it_is_measured_all_the_same(measured, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("INSIDE_GENERATE_HOME", str(tmp_path / "file" / "home"))
    runs = measured(0.01, 0.02)
    dtype, reason = choose_dtype("auto", "cpu")
    assert dtype is torch.bfloat16
    assert "not kept: the folder cannot be written" in reason
    choose_dtype("auto", "cpu")
    assert runs == [1]  # this process still knows


def test_a_settings_file_that_is_broken_is_replaced(measured):
    measured(0.01, 0.02)
    settings_file().parent.mkdir(parents=True)
    settings_file().write_text("{half", encoding="utf-8")
    choose_dtype("auto", "cpu")
    assert "cpu_dtype" in json.loads(settings_file().read_text("utf-8"))


def test_the_real_measurement_gives_seconds_for_both_dtypes():
    seconds = device.measure_dtypes()
    assert seconds.keys() == {"bfloat16", "float32"}
    assert all(0 < value < 60 for value in seconds.values())


@pytest.mark.parametrize("name", ["bf16", "int8", "double", "Float32"])
def test_unknown_dtype_is_refused_with_the_valid_ones(name):
    message = rf"unknown dtype '{name}'; choose auto, float32, bfloat16, float16"
    with pytest.raises(InsideGenerateError, match=message):
        choose_dtype(name, "cpu")


def test_a_torch_dtype_will_do_as_well_as_its_name():
    assert choose_dtype(torch.bfloat16, "cpu")[0] is torch.bfloat16
    with pytest.raises(InsideGenerateError, match="unknown dtype 'int8'"):
        choose_dtype(torch.int8, "cpu")


def test_the_processor_has_a_name():
    assert device.cpu_name().strip()
    if Path("/proc/cpuinfo").exists() and "model name" in Path("/proc/cpuinfo").read_text("utf-8"):
        assert device.cpu_name() in Path("/proc/cpuinfo").read_text("utf-8")
