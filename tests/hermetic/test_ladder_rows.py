"""A matrix times one row: the same numbers as the library's, in 16, 32 and 8 bits."""

import pytest
import torch
from tests.tiny import random_inputs, tiny_model
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from inside_generate.ladder import rows
from inside_generate.ladder.rows import RowLinear, in_int8, times_row, with_row_kernels


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.fixture(params=["one after another", "compiling"])
def way(request, monkeypatch):
    """Both ways through ``RowLinear`` for a single row: the library's, and the compiler's."""
    compiling = request.param == "compiling"
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    return request.param


@pytest.mark.parametrize("out", [1, 3, 4, 6, 8])
@pytest.mark.parametrize("size", [1, 2, 64, 4096, 4097, 9000])
def test_times_row_is_the_matrix_product(out, size):
    weight, x = random(out, size), random(size, seed=1)
    found = times_row(weight, x)
    assert found.shape == (out,)
    torch.testing.assert_close(found, weight @ x, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("at_once", [1, 2, 4, 7])
def test_how_many_rows_go_side_by_side_does_not_change_their_order(at_once):
    weight = torch.arange(1.0, 13.0)[:, None]  # [12, 1]
    assert times_row(weight, torch.ones(1), rows=at_once).tolist() == list(range(1, 13))


def test_sums_of_16_bit_weights_are_taken_in_float32():
    weight = torch.ones(4, 1000, dtype=torch.bfloat16)  # bf16 would stop counting at 256
    found = times_row(weight, torch.ones(1000))
    assert (found.dtype, found.tolist()) == (torch.float32, [1000.0] * 4)


def test_long_sums_are_taken_in_parts(monkeypatch):
    monkeypatch.setattr(rows, "LONGEST_SUM", 3)
    weight, x = random(8, 10), random(10, seed=1)
    torch.testing.assert_close(times_row(weight, x), weight @ x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(64,), (1, 64), (1, 1, 64), (7, 64), (2, 5, 64)])
def test_a_row_linear_gives_what_a_linear_gives(way, dtype, bias, shape):
    usual = nn.Linear(64, 30, bias=bias)
    nn.init.normal_(usual.weight, std=0.1)
    usual = usual.to(dtype)
    ours = RowLinear(usual.weight, None, usual.bias)
    x = random(*shape, dtype=dtype, seed=2)
    found = ours(x)
    assert (found.shape, found.dtype) == ((*shape[:-1], 30), dtype)
    torch.testing.assert_close(
        found, usual(x), atol=1e-5 if dtype == torch.float32 else 0.02, rtol=0.01
    )


def test_only_a_compiler_is_given_the_product_written_out(monkeypatch):
    """Run step by step it makes a tensor as large as the weights: a prompt's last row would."""
    monkeypatch.setattr(rows, "times_row", lambda *_: pytest.fail("written out"))
    RowLinear(random(8, 4), None, None)(random(1, 1, 4))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    RowLinear(random(8, 4), None, None)(random(1, 3, 4))  # several rows
    with pytest.raises(pytest.fail.Exception):
        RowLinear(random(8, 4), None, None)(random(1, 1, 4))


# --- eight bits -----------------------------------------------------------------------------------


def test_each_8_bit_weight_is_off_by_half_a_scale_at_most():
    weight = random(50, 300) * torch.logspace(-20, 10, 50)[:, None]
    integers, scale = in_int8(weight)
    off = (integers.float() * scale[:, None] - weight).abs() / scale[:, None]
    assert off.max() <= 0.5 + 1e-4
    assert integers.abs().amax(dim=-1).tolist() == [127] * 50


def test_a_row_of_zeros_stays_zeros():
    integers, scale = in_int8(torch.zeros(2, 5))
    assert not integers.any()
    assert (scale > 0).all()  # dividing by it gives numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_row_and_many_rows_go_through_the_same_8_bit_weights(monkeypatch, dtype):
    integers, scale = in_int8(random(30, 64))
    ours = RowLinear(integers, scale, nn.Parameter(random(30, seed=3)))
    x = random(1, 64, dtype=dtype, seed=2)
    exact = (integers.double() * scale[:, None].double()) @ x[0].double() + ours.bias.double()
    many = ours(x.expand(5, 64))[0]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    one = ours(x)[0]
    assert one.dtype == many.dtype == dtype
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.15, torch.float16: 0.03}[dtype]
    for found in (one, many):
        torch.testing.assert_close(found.double(), exact, atol=tolerance, rtol=0)


def test_sums_of_8_bit_integers_stay_within_float16():
    integers, scale = in_int8(torch.ones(2, 4096))
    x = torch.full((3, 4096), 2.0, dtype=torch.float16)  # times 127 the sum would be infinite
    assert RowLinear(integers, scale, None)(x).isfinite().all()


# --- the model's copy -----------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["untied", "tied"])
def any_model(request):
    return tiny_model(tie_word_embeddings=request.param)


def test_the_copy_shares_every_weight_and_the_model_is_left_alone(any_model):
    before = [(name, type(module)) for name, module in any_model.named_modules()]
    twin = with_row_kernels(any_model)
    theirs = {name: weight.data_ptr() for name, weight in any_model.named_parameters()}
    assert {name: weight.data_ptr() for name, weight in twin.named_parameters()} == theirs
    assert [(name, type(module)) for name, module in any_model.named_modules()] == before
    kinds = [type(module) for module in twin.modules()]
    assert nn.Linear not in kinds
    assert kinds.count(RowLinear) == 2 * 7 + 1


def test_the_copy_gives_the_models_logits(any_model, way):
    inputs = random_inputs(9)
    with torch.inference_mode():
        ours, theirs = with_row_kernels(any_model)(**inputs), any_model(**inputs)
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-4, rtol=0)


def test_the_8_bit_copy_has_integers_for_every_matrix_and_leaves_the_models_own(any_model):
    kept = {name: weight.clone() for name, weight in any_model.named_parameters()}
    twin = with_row_kernels(any_model, int8=True)
    matrices = [module.weight for module in twin.modules() if isinstance(module, RowLinear)]
    assert {weight.dtype for weight in matrices} == {torch.int8}
    embedding = any_model.get_input_embeddings().weight
    assert twin.get_input_embeddings().weight is embedding
    for name, weight in any_model.named_parameters():
        assert torch.equal(weight, kept[name]), name


def test_a_model_with_matrices_of_another_kind_is_not_called_rounded():
    config = GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=16)
    model = GPT2LMHeadModel(config).eval()
    with pytest.raises(ValueError, match=r"attn\.c_attn holds weights in a Conv1D"):
        with_row_kernels(model, int8=True)
    with_row_kernels(model)  # the others stay what they were


@pytest.mark.parametrize(
    ("widen", "rows_in", "wide"), [(True, 3, True), (True, 2, False), (False, 3, False)]
)
def test_many_rows_of_16_bits_are_multiplied_in_float32_where_that_was_faster(
    monkeypatch, widen, rows_in, wide
):
    monkeypatch.setattr(rows, "MANY_ROWS", 3)
    seen = []
    genuine = rows.linear
    monkeypatch.setattr(rows, "linear", lambda x, *rest: seen.append(x.dtype) or genuine(x, *rest))
    weight, bias = random(8, 16, dtype=torch.bfloat16), random(8, dtype=torch.bfloat16, seed=1)
    x = random(1, rows_in, 16, dtype=torch.bfloat16, seed=2)
    found = RowLinear(weight, None, bias, widen)(x)
    assert seen == [torch.float32 if wide else torch.bfloat16]
    assert found.dtype == torch.bfloat16
    exact = x.float() @ weight.float().T + bias.float()
    torch.testing.assert_close(found.float(), exact, atol=0.05, rtol=0.01)


@pytest.mark.parametrize(("usual_s", "wide_s", "faster"), [(2.0, 1.0, True), (1.0, 2.0, False)])
def test_whether_float32_is_faster_is_measured(monkeypatch, usual_s, wide_s, faster):
    times = iter([usual_s, wide_s])
    monkeypatch.setattr(rows, "best_seconds", lambda run, clock: run() is None or next(times))
    assert rows.float32_is_faster(tiny_model().to(torch.bfloat16)) is faster
    assert rows.float32_is_faster(tiny_model()) is False  # float32 already: nothing to widen


def test_only_the_exact_twin_is_widened(monkeypatch):
    monkeypatch.setattr(rows, "float32_is_faster", lambda model: True)
    for int8 in (False, True):
        twin = with_row_kernels(tiny_model(), int8=int8)
        layers = [module for module in twin.modules() if isinstance(module, RowLinear)]
        assert {layer.widen for layer in layers} == {not int8}


def test_a_twin_does_not_pass_for_a_loaded_model_and_the_model_keeps_its_name():
    model = tiny_model()
    model.name_or_path = model.config.name_or_path = "somewhere"
    twin = with_row_kernels(model)
    assert (twin.name_or_path, twin.config.name_or_path) == ("", "")
    assert (model.name_or_path, model.config.name_or_path) == ("somewhere", "somewhere")
