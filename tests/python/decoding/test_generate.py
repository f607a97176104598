"""`saturate generate` and `saturate verify --stepping`: tokens are those of the whole model in ONNX Runtime, whatever the cache."""
import collections
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import DATA, assert_refused, listing, make_model, run, run_ok, tensor, value
from decoders import Shape, decoder
from onnx import TensorProto, helper

ort.set_default_logger_severity(4)
PROMPTS = [[5, 17, 40, 3, 28], [9, 2], [33]]
CACHES = {
    "none": Shape(),
    "none, of a fixed length": Shape(window=32, batch=1),
    "none, last token's logits": Shape(last_only=True),
    "growing": Shape(cache="growing"),
    "growing, int32": Shape(cache="growing", ids=TensorProto.INT32),
    "growing, genai's other names": Shape(cache="growing", names=("past_{1}_{0}", "present_{1}_{0}")),
    "growing, last token's logits": Shape(cache="growing", last_only=True),
    "growing, one row": Shape(cache="growing", batch=1),
    "growing, three rows": Shape(cache="growing", batch=3),
    "sliding": Shape(cache="sliding", window=1, past=30),
    "sliding, three at a time": Shape(cache="sliding", window=3, past=30),
    "sliding, new tokens alone": Shape(cache="sliding", window=1, past=30, presents_whole=False),
    "in place": Shape(cache="in-place", past=40),
    "in place, two at a time": Shape(cache="in-place", past=40, window=2),
}


needs_cache = pytest.mark.skipif("kv_cache" not in run_ok("transform", "--list-passes").stdout, reason="there is no pass kv_cache")


def refused(done, code, what):
    """One line that says what is wrong."""
    assert done.returncode == code and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("saturate: error: ") and what in done.stderr, done.stderr


def saved(tmp_path, shape, name="m.onnx"):
    model = decoder(shape)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / name)
    return tmp_path / name


def generated(path, prompts, *words):
    ids = [word for prompt in prompts for word in ("--prompt-ids", ",".join(map(str, prompt)))]
    return json.loads(run_ok("generate", path, *ids, "--json", *words).stdout)


def tokens(path, prompts, *words):
    return [row["tokens"] for row in generated(path, prompts, *words)["rows"]]


def whole_logits(sequence, shape=Shape()):
    """Of the last token, in ONNX Runtime."""
    session = whole_logits.sessions.setdefault(shape, ort.InferenceSession(decoder(shape).SerializeToString(), providers=["CPUExecutionProvider"]))
    ids = np.array([sequence], np.int64)
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(len(sequence))[None]}
    return session.run(["logits"], {i.name: feeds[i.name] for i in session.get_inputs()})[0][0, -1]


whole_logits.sessions = {}


def greedy(prompt, count, shape=Shape()):
    sequence = list(prompt)
    for _ in range(count):
        sequence.append(int(np.argmax(whole_logits(sequence, shape))))
    return sequence[len(prompt):]


@pytest.mark.parametrize("shape", CACHES.values(), ids=CACHES)
def test_tokens_of_the_whole_model(tmp_path, shape):
    path = saved(tmp_path, shape)
    made = generated(path, PROMPTS, "--max-new-tokens", 20)
    assert [row["tokens"] for row in made["rows"]] == [greedy(prompt, 20) for prompt in PROMPTS]
    assert {row["ended_by"] for row in made["rows"]} == {"length"}
    assert made["cache"] == {"in-place": "in place"}.get(shape.cache, shape.cache)
    assert made["prefill"]["tokens"] == 8 and made["decode"]["tokens"] == 3 * 19 and made["decode"]["tokens_per_second"] > 0
    assert (made["cache_bytes"] > 0) == (shape.cache != "none") and made["peak_bytes"] > 0


def test_a_window_that_slides_beyond_its_past(tmp_path):
    """What falls out of the past is forgotten; nothing else changes, and the tokens of the steps before are the whole model's."""
    path = saved(tmp_path, Shape(cache="sliding", window=1, past=6, positions="none"))
    made = tokens(path, [PROMPTS[0]], "--max-new-tokens", 30)[0]
    expected = greedy(PROMPTS[0], 3, Shape(positions="none"))
    assert made[:3] == expected and len(made) == 30
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {i.name: np.zeros([1, *i.shape[1:]], np.float32) for i in session.get_inputs() if i.name.startswith("past")}
    sequence, index = list(PROMPTS[0]), 0
    while len(sequence) < len(PROMPTS[0]) + 30:
        mask = (np.arange(7) >= 7 - (index + 1)).astype(np.int64)[None]
        outputs = session.run(None, {**feeds, "input_ids": np.array([[sequence[index]]]), "attention_mask": mask})
        named = dict(zip([o.name for o in session.get_outputs()], outputs))
        feeds = {name: named[name.replace("past_key_values", "present")][:, :, -6:] for name in feeds}
        index += 1
        if index == len(sequence):
            sequence.append(int(np.argmax(named["logits"][0, -1])))
    assert made == sequence[len(PROMPTS[0]):]


def test_prompts_that_cannot_be_padded_run_one_after_another(tmp_path):
    path = saved(tmp_path, Shape(cache="growing", mask=False))
    made = generated(path, PROMPTS, "--max-new-tokens", 6)
    assert [row["tokens"] for row in made["rows"]] == [greedy(prompt, 6) for prompt in PROMPTS]
    assert len(made["notes"]) == 1 and "takes no attention_mask" in made["notes"][0]
    assert generated(path, [PROMPTS[0]] * 2, "--max-new-tokens", 6)["notes"] == []
    path = saved(tmp_path, Shape(cache="growing", positions="arange"))
    made = generated(path, PROMPTS, "--max-new-tokens", 6)
    assert [row["tokens"] for row in made["rows"]] == [greedy(prompt, 6) for prompt in PROMPTS]
    assert "takes no position_ids" in made["notes"][0]


def test_ends(tmp_path):
    path = saved(tmp_path, Shape(cache="growing"))
    first = greedy(PROMPTS[0], 12)
    made = generated(path, PROMPTS, "--max-new-tokens", 12, "--eos-id", first[3])
    for row, prompt in zip(made["rows"], PROMPTS):
        expected = greedy(prompt, 12)
        end = expected.index(first[3]) + 1 if first[3] in expected else 12
        assert row == {"tokens": expected[:end], "ended_by": "eos" if first[3] in expected else "length"}
    later = tokens(path, [PROMPTS[0]], "--max-new-tokens", 12, "--min-new-tokens", 6, "--eos-id", first[3])[0]
    same = first.index(first[3])
    assert first[3] not in later[:6] and len(later) >= 6 and later[:same] == first[:same]
    both = tokens(path, [PROMPTS[0]], "--max-new-tokens", 12, "--eos-id", f"{first[5]},{first[2]}")[0]
    assert both == first[: min(first.index(first[2]), first.index(first[5])) + 1]


def test_draws_follow_the_seed(tmp_path):
    path = saved(tmp_path, Shape(cache="growing"))
    words = ("--max-new-tokens", 16, "--temperature", 1.5)
    a = tokens(path, PROMPTS, *words, "--seed", 3)
    assert a == tokens(path, PROMPTS, *words, "--seed", 3, "--threads", 2) != tokens(path, PROMPTS, *words, "--seed", 4)
    assert a[0] == tokens(path, PROMPTS[:1], *words, "--seed", 3)[0], "a row depends on the others"
    plain = [greedy(prompt, 16) for prompt in PROMPTS]
    assert tokens(path, PROMPTS, "--max-new-tokens", 16, "--top-k", 1) == plain
    assert tokens(path, PROMPTS, "--max-new-tokens", 16, "--top-p", 0) == plain
    assert tokens(path, PROMPTS, "--max-new-tokens", 16, "--temperature", 1e-6) == plain


@pytest.mark.parametrize("words, keep", [((), None), (("--top-k", 4), "k"), (("--top-p", 0.6), "p"), (("--temperature", 2.0), "t")], ids=str)
def test_draws_are_as_likely_as_the_logits_say(tmp_path, words, keep):
    path, count = saved(tmp_path, Shape(cache="growing")), 600
    drawn = collections.Counter(row[0] for row in tokens(path, [PROMPTS[0]] * count, "--max-new-tokens", 1, *(words or ("--temperature", 1))))
    logits = whole_logits(PROMPTS[0]).astype(np.float64) / (2 if keep == "t" else 1)
    p = np.exp(logits - logits.max())
    p /= p.sum()
    order = np.argsort(-p)
    kept = order if keep in (None, "t") else order[:4] if keep == "k" else order[: int(np.searchsorted(np.cumsum(p[order]), 0.6)) + 1]
    p = np.where(np.isin(np.arange(len(p)), kept), p, 0) / p[kept].sum()
    assert set(drawn) <= set(kept.tolist())
    for token, share in enumerate(p):  # five deviations
        assert abs(drawn[token] - count * share) <= 5 * np.sqrt(count * share * (1 - share)) + 1, (token, drawn[token], count * share)


def test_names_by_patterns(tmp_path):
    path = saved(tmp_path, Shape(cache="growing", names=("k{0}{1}_before", "q{0}{1}_behind")))
    assert tokens(path, PROMPTS, "--max-new-tokens", 8) == [greedy(p, 8) for p in PROMPTS], "in order"
    model = onnx.load(path)
    outputs = list(model.graph.output)
    del model.graph.output[:]
    model.graph.output.extend(outputs[:1] + outputs[:0:-1])  # presents the other way round
    onnx.save(model, path)
    words = ("--past-names", "k%dkey_before,k%dvalue_before", "--present-names", "q%dkey_behind,q%dvalue_behind")
    assert tokens(path, PROMPTS, "--max-new-tokens", 8, *words) == [greedy(p, 8) for p in PROMPTS]
    refused(run("generate", path, "--prompt-ids", "1", *words[:2], "--present-names", "a%d,b%d"), 1, "has no output 'a0'")
    refused(run("generate", path, "--prompt-ids", "1", "--past-names", "z%d", "--present-names", "a%d"), 1, "like 'z%d'")
    refused(run("generate", path, "--prompt-ids", "1", "--past-names", "a%d"), 1, "give as many of each")
    refused(run("generate", path, "--prompt-ids", "1", "--past-names", "k%dkey_before", "--present-names", "logits"), 1, "differ in type or rank")


def test_tables(tmp_path):
    path = saved(tmp_path, Shape(cache="growing"))
    said = run_ok("generate", path, "--prompt-ids", "5, 17,40", "--max-new-tokens", 4).stdout
    assert ",".join(map(str, greedy([5, 17, 40], 4))) in said
    for word in ("prefill", "decode", "tokens/s", "cache: growing", "peak memory"):
        assert word in said
    assert run_ok("generate", path, "--prompt-ids", "5", "-q").stdout == ""


ENCODER = make_model(
    [helper.make_node("Gather", ["t", "input_ids"], ["e"]), helper.make_node("Add", ["e", "encoder_hidden_states"], ["logits"])],
    [value("input_ids", TensorProto.INT64, ["b", "s"]), value("encoder_hidden_states", TensorProto.FLOAT, ["b", "s", 4])],
    [value("logits", TensorProto.FLOAT, ["b", "s", 4])],
    [tensor("t", np.zeros((4, 4), np.float32))],
)
REFUSED = {
    "no prompt": ((), 2, "no prompt is given"),
    "empty prompt": (("--prompt-ids", ""), 2, "--prompt-ids: it is empty"),
    "one of them empty": (("--prompt-ids", "1", "--prompt-ids", " "), 2, "prompt 1 is empty"),
    "no number": (("--prompt-ids", "1,a"), 2, "'a' is no token's number"),
    "no number between commas": (("--prompt-ids", "1,,2"), 2, "'' is no token's number"),
    "beyond the vocabulary": (("--prompt-ids", "1,61"), 2, "token 1 is 61, and the model knows 0 to 60"),
    "negative": (("--prompt-ids=-1",), 2, "token 0 is -1"),
    "beyond the table": (("--prompt-ids", "1,2", "--max-new-tokens", "48"), 2, "--max-new-tokens 47 fits"),
    "a long prompt": (("--prompt-ids", ",".join(["1"] * 49)), 2, "give a shorter prompt"),
    "beyond the user's bound": (("--prompt-ids", "1,2", "--max-new-tokens", "9", "--max-context", "9"), 2, "--max-context is 9"),
    "an end that is no token": (("--prompt-ids", "1", "--eos-id", "61"), 2, "--eos-id 61"),
    "no temperature": (("--prompt-ids", "1", "--temperature", "0"), 2, "--temperature"),
    "no tokens wanted": (("--prompt-ids", "1", "--max-new-tokens", "0"), 2, "--max-new-tokens"),
    "no such input": (("--prompt-ids", "1", "--input-ids", "x"), 1, "the model has no input 'x'; its inputs are input_ids"),
}


@pytest.mark.parametrize("words, code, what", REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path, words, code, what):
    path = saved(tmp_path, Shape(cache="growing"))
    refused(run("generate", path, *words), code, what)


@pytest.mark.parametrize("place", ["tokens", "mask"])
@pytest.mark.parametrize("length", [2**29, 2**62, 2**63 - 1])
def test_runs_of_more_tokens_than_fit(tmp_path, place, length):
    """Tokens and mask were filled to the end of their fixed length: for ever, deaf to signals, or until memory was out."""
    model = decoder(Shape())
    for held in model.graph.input:
        if held.name == ("input_ids" if place == "tokens" else "attention_mask"):
            held.type.tensor_type.shape.dim[1].dim_value = length
    onnx.save(model, tmp_path / "m.onnx")
    refused(run("generate", tmp_path / "m.onnx", "--prompt-ids", "1", timeout=60), 1, f"rows of {length} tokens")


@pytest.mark.parametrize("verb", ["generate", "verify"])
@pytest.mark.parametrize("rows", [2**21, 2**40])
def test_more_rows_than_fit(tmp_path, verb, rows):
    """Prompts were repeated to fill the batch until memory was out, whatever --max-memory and --time-limit said."""
    model = decoder(Shape(cache="growing"))
    for held in model.graph.input:
        if held.name == "input_ids":
            held.type.tensor_type.shape.dim[0].dim_value = rows
    onnx.save(model, tmp_path / "m.onnx")
    path = tmp_path / "m.onnx"
    words = (path, "--prompt-ids", "1") if verb == "generate" else (saved(tmp_path, Shape(), "whole.onnx"), path, "--stepping")
    refused(run(verb, *words, timeout=60), 1 if verb == "generate" else 5, f"{rows} rows of 1 tokens")


@pytest.mark.parametrize("verb", ["generate", "verify"])
@pytest.mark.parametrize("place", ["input_ids", "attention_mask"])
@pytest.mark.parametrize("axis, what", [(0, "rows"), (1, "tokens")])
def test_declared_sizes_of_zero(tmp_path, verb, place, axis, what):
    """A window of 0 tokens was divided by, and prompts were cut into batches of 0 for ever."""
    model = decoder(Shape(cache="growing"))
    for held in model.graph.input:
        if held.name == place:
            held.type.tensor_type.shape.dim[axis].dim_value = 0
    onnx.save(model, tmp_path / "m.onnx")
    path = tmp_path / "m.onnx"
    words = (path, "--prompt-ids", "1") if verb == "generate" else (saved(tmp_path, Shape(), "whole.onnx"), path, "--stepping")
    refused(run(verb, *words, timeout=60), 1 if verb == "generate" else 5, f"'{place}' is declared with 0 {what}")


def test_models_that_are_no_decoders(tmp_path):
    refused(run("generate", DATA / "bart_encoder.onnx", "--prompt-ids", "1"), 1, "none of its outputs are logits")
    onnx.save(ENCODER, tmp_path / "m.onnx")
    refused(run("generate", tmp_path / "m.onnx", "--prompt-ids", "1"), 2, "input 'encoder_hidden_states': nothing is given for it")
    image = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", TensorProto.FLOAT, [1, 3, 8, 8])], [value("y", TensorProto.FLOAT, [1, 3, 8, 8])], [])
    onnx.save(image, tmp_path / "m.onnx")
    refused(run("generate", tmp_path / "m.onnx", "--prompt-ids", "1"), 1, "it has no input_ids")
    refused(run("generate", tmp_path / "none.onnx", "--prompt-ids", "1"), 1, "none.onnx")


def test_positions_that_end_are_told_where_the_run_fails(tmp_path):
    path = saved(tmp_path, Shape(cache="growing", positions="arange", table=12))
    assert len(tokens(path, [PROMPTS[0]], "--max-new-tokens", 8)[0]) == 8
    done = run("generate", path, "--prompt-ids", "5,17,40,3,28", "--max-new-tokens", 9)
    refused(done, 1, "tokens 12 to 12")


STEPPED = [name for name in CACHES if not name.startswith("none")]


@pytest.mark.parametrize("name", STEPPED)
def test_steps_are_equal(tmp_path, name):
    whole, cached = saved(tmp_path, Shape(), "whole.onnx"), saved(tmp_path, CACHES[name], "cached.onnx")
    report = json.loads(run_ok("verify", whole, cached, "--stepping", "--json").stdout)
    assert report["status"] == "equal" and report["cases"]
    sizes = [case["sizes"] for case in report["cases"]]
    if CACHES[name].batch == "batch":
        assert any(s["batch"] > 1 and s["padding"] > 0 for s in sizes) and any(s["tokens"] >= 24 for s in sizes)
    assert any(s["tokens"] > s["first"] + s["window"] for s in sizes)
    assert "move the logits by" in report["notes"][0] and "little is proven" not in report["notes"][0]


@pytest.mark.parametrize("whole", [Shape(last_only=True), Shape(window=32, batch=1), Shape(positions="arange"), Shape(mask=False)], ids=str)
def test_steps_against_other_whole_models(tmp_path, whole):
    other = Shape(cache="growing", positions=whole.positions)
    paths = saved(tmp_path, whole, "whole.onnx"), saved(tmp_path, other, "cached.onnx")
    assert json.loads(run_ok("verify", *paths, "--stepping", "--json").stdout)["status"] == "equal"


@pytest.mark.parametrize("broken", ["shifted", "dropped", "zeroed"])
def test_steps_notice_mistakes(tmp_path, broken):
    whole, cached = saved(tmp_path, Shape(), "whole.onnx"), saved(tmp_path, Shape(cache="growing", broken=broken), "cached.onnx")
    done = run("verify", whole, cached, "--stepping")
    assert done.returncode == 3 and "output 'logits' differs with batch" in done.stderr, done.stderr + done.stdout


def with_a_logit_moved(model, by):
    """Adds to the logits of token 0, for every token of the sequence."""
    for node in model.graph.node:
        node.output[:] = ["before" if name == "logits" else name for name in node.output]
    shift = np.zeros(61, np.float32)
    shift[0] = by
    model.graph.initializer.append(tensor("shift", shift))
    model.graph.node.append(helper.make_node("Add", ["before", "shift"], ["logits"]))
    return model


@pytest.mark.parametrize("share, status", [(0.5, 0), (2, 3)])
def test_steps_in_halves_are_measured_by_the_largest_logit(tmp_path, share, status):
    """What a half loses is of the size of what it is summed of; a small logit may miss as much of it as a large one."""
    whole, half = saved(tmp_path, Shape(), "whole.onnx"), tmp_path / "half.onnx"
    run_ok("transform", saved(tmp_path, Shape(cache="growing"), "cached.onnx"), "-o", half, "--pass", "precision:float16", "--no-verify")
    largest = max(np.abs(whole_logits(np.random.default_rng(seed).integers(0, 61, 11))).max() for seed in range(8))
    onnx.save(with_a_logit_moved(onnx.load(half), share * 2e-2 * largest), half)
    assert run("verify", whole, half, "--stepping", "--lengths", 11, "--windows", 1).returncode == status


def test_steps_of_what_is_no_pair(tmp_path):
    whole, cached = saved(tmp_path, Shape(), "whole.onnx"), saved(tmp_path, Shape(cache="growing"), "cached.onnx")
    for pair in ((cached, whole), (whole, whole), (cached, cached)):
        done = run("verify", *pair, "--stepping")
        assert done.returncode == 5 and "give the model without a cache first" in done.stderr, done.stderr
    done = run("verify", whole, DATA / "bart_encoder.onnx", "--stepping")
    assert done.returncode == 5 and "no past among its inputs" in done.stderr or "the model with a cache" in done.stderr


def test_steps_of_given_lengths(tmp_path):
    whole, cached = saved(tmp_path, Shape(), "whole.onnx"), saved(tmp_path, Shape(cache="growing"), "cached.onnx")
    report = json.loads(run_ok("verify", whole, cached, "--stepping", "--lengths", "40,17", "--windows", "5", "--json").stdout)
    assert {(c["sizes"]["tokens"], c["sizes"]["window"]) for c in report["cases"]} == {(40, 5), (17, 5), (40, 1), (17, 1)}
    done = run("verify", whole, cached, "--stepping", "--lengths", "49")
    assert done.returncode == 5 and "more than the 48 that the models hold" in done.stderr
    done = run("verify", whole, saved(tmp_path, Shape(cache="sliding", window=1, past=20)), "--stepping", "--lengths", "22")
    assert done.returncode == 5 and "more than the 21" in done.stderr


def test_slm_tells_its_passes(tmp_path):
    words = ("--window", 1, "--sequence", 256, "--max-context", 2048, "--dtype", "fp16", "--opset", 14, "--dim", "batch=1")
    passes = json.loads(run_ok("slm", "in.onnx", "--print-passes", *words).stdout)
    assert [p["pass"] for p in passes] == ["kv_cache", "optimize", "precision", "optimize", "set_dims"]
    assert passes[0] | {"mode": "window", "window": 1, "sequence": 256, "max_context": 2048} == passes[0]
    assert passes[1]["avoid"][0] == "Attention" and passes[2]["dtype"] == "float16" and passes[3]["opset"] == 14
    assert passes[4]["sizes"] == {"batch": 1}
    assert [p["pass"] for p in json.loads(run_ok("slm", "in.onnx", "--print-passes").stdout)] == ["kv_cache", "optimize"]
    cache = json.loads(run_ok("slm", "in.onnx", "--print-passes", "--cache", "buffer", "--max-context", 9).stdout)[0]
    assert cache["mode"] == "buffer" and cache["max_context"] == 9 and "window" not in cache


def as_good_as_greedy(prompt, made, tolerance, shape):
    """Whether each token is the whole model's likeliest, or as likely but for the tolerance."""
    for i, token in enumerate(made):
        logits = whole_logits([*prompt, *made[:i]], shape)
        if logits.max() - logits[token] > tolerance * np.abs(logits).max():
            return False
    return True


@needs_cache
def test_slm_as_the_document_does(tmp_path):
    shape = Shape(positions="none")
    path, out, report = saved(tmp_path, shape), tmp_path / "out" / "model.onnx", tmp_path / "r.json"
    words = ("--window", 1, "--sequence", 24, "--max-context", 32, "--dtype", "fp16", "--opset", 14, "--report", report)
    run_ok("slm", path, "-o", out, *words)
    assert sorted(p.name for p in out.parent.iterdir()) == ["model.onnx", "model.onnx.data"]
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert [(o.domain, o.version) for o in model.opset_import if not o.domain] == [("", 14)]
    floats = {v.name: v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output]}
    assert floats["logits"] == floats["past_key_values.0.key"] == floats["present.1.value"] == TensorProto.FLOAT16
    past = next(v for v in model.graph.input if v.name == "past_key_values.0.key")
    assert [d.dim_value for d in past.type.tensor_type.shape.dim][1:] == [4, 31, 8]
    halves = {v.name: v.type.tensor_type.elem_type for v in onnx.shape_inference.infer_shapes(model).graph.value_info}
    for node in model.graph.node:
        if node.op_type in ("Softmax", "ReduceMean"):
            assert halves[node.input[0]] == TensorProto.FLOAT, node
    assert sum(node.op_type == "MatMul" and halves[node.output[0]] == TensorProto.FLOAT16 for node in model.graph.node if node.output[0] in halves) >= 16
    told = json.loads(report.read_text())
    assert told["stepping"]["status"] == "equal" and [p["pass"] for p in told["passes"]] == ["kv_cache", "optimize", "precision", "optimize"]
    made = tokens(out, PROMPTS, "--max-new-tokens", 16)
    assert all(as_good_as_greedy(prompt, row, 2e-2, shape) for prompt, row in zip(PROMPTS, made))
    ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])


@needs_cache
def test_slm_by_default(tmp_path):
    path = saved(tmp_path, Shape())
    run_ok("slm", path, "--no-external-data")
    made = tokens(tmp_path / "m.slm.onnx", PROMPTS, "--max-new-tokens", 16)
    assert made == [greedy(prompt, 16) for prompt in PROMPTS]
    run_ok("slm", path, "-o", tmp_path / "buffer.onnx", "--cache", "buffer", "--max-context", 40)
    made = generated(tmp_path / "buffer.onnx", PROMPTS, "--max-new-tokens", 16)
    assert [row["tokens"] for row in made["rows"]] == [greedy(prompt, 16) for prompt in PROMPTS] and made["cache"] == "in place"
    passes = run_ok("slm", path, "--print-passes", "--dtype", "bf16").stdout
    (tmp_path / "passes.json").write_text(passes)
    run_ok("transform", path, "-o", tmp_path / "b.onnx", "--passes", tmp_path / "passes.json")
    assert json.loads(run_ok("verify", path, tmp_path / "b.onnx", "--stepping", "--check-rtol", 0.2, "--json").stdout)["status"] == "equal"
    encoder = run("slm", DATA / "bart_encoder.onnx", "-o", tmp_path / "e.onnx")
    assert encoder.returncode in (1, 3, 5) and not (tmp_path / "e.onnx").exists() and len(encoder.stderr.splitlines()) == 1


def test_stepping_tells_what_it_leaves_out(tmp_path):
    """A case that would take much longer than there is time is not begun."""
    whole = saved(tmp_path, Shape(positions="none"), "whole.onnx")
    cached = saved(tmp_path, Shape(positions="none", cache="growing"), "cached.onnx")
    words = ("verify", whole, cached, "--stepping", "--lengths", "5,3000000", "--windows", 1, "--time-limit", 2, "--json")
    told = json.loads(run_ok(*words).stdout)
    assert {case["sizes"]["tokens"] for case in told["cases"]} == {5}
    left = next(note for note in told["notes"] if note.startswith("left out"))
    assert "batch 1, 3000000 tokens" in left and "--time-limit gives more" in left


@needs_cache
def test_slm_of_large_caches(tmp_path):
    """They take more memory than may be: the result is run by single rows, and nothing in between is verified."""
    path, report = saved(tmp_path, Shape(positions="none")), tmp_path / "r.json"
    run_ok("slm", path, "-o", tmp_path / "o.onnx", "--window", 1, "--sequence", 24, "--max-context", 600_000, "--time-limit", 1, "--report", report)
    told = json.loads(report.read_text())
    assert told["stepping"]["status"] == "equal" and all(case["sizes"]["batch"] == 1 for case in told["stepping"]["cases"])
    assert any("batches of 2 were not compared" in note for note in told["stepping"]["notes"])
    assert all("not verified by itself" in p["notes"][0] for p in told["passes"]) and [check["status"] for check in told["verify"]] == ["not run"]


@needs_cache
@pytest.mark.parametrize("words", [("--window", 1, "--sequence", 24), (), ("--window", 2, "--sequence", 24)])
def test_slm_calibrates_on_tokens(tmp_path, words):
    """Given as the whole model takes them, and run step by step through the one with a cache: one token has large numbers."""
    model = decoder(Shape(positions="none"))
    table = next(w for w in model.graph.initializer if list(w.dims)[:1] == [61])
    numbers = onnx.numpy_helper.to_array(table).copy()
    numbers[60] = 40000  # a half, but more than half of the largest one
    table.CopyFrom(onnx.numpy_helper.from_array(numbers, table.name))
    onnx.save(model, tmp_path / "m.onnx")

    def done(**arrays):
        np.savez(tmp_path / "x.npz", **arrays)
        return run("slm", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--dtype", "fp16", "--no-verify", "--report", tmp_path / "r.json",
                   "--calibrate", tmp_path / "x.npz", *words)

    for token, large in ((60, True), (3, False)):
        ids = np.full((3, 5), 3)
        ids[1, 1] = token
        told = done(input_ids=ids)
        assert told.returncode == 0, told.stderr
        notes = next(p for p in json.loads((tmp_path / "r.json").read_text())["passes"] if p["pass"] == "precision")["notes"]
        assert any("numbers beyond the type" in note for note in notes) == large, notes
    refused(done(other=np.ones((1, 3), np.int64)), 1, "array 'other': give tokens alone, as 'input_ids'")


def test_genai_config(tmp_path):
    path = saved(tmp_path, Shape(cache="growing"))
    before = listing(tmp_path)
    assert_refused(run("generate", path, "--genai-config", tmp_path / "genai_config.json"), 1, tmp_path, before, "give --eos-id")
    run_ok("generate", path, "--genai-config", tmp_path / "genai_config.json", "--eos-id", 2)
    config = json.loads((tmp_path / "genai_config.json").read_text())
    told = config["model"]
    assert told["context_length"] == 48 == config["search"]["max_length"] and told["vocab_size"] == 61 and told["eos_token_id"] == 2
    assert told["decoder"]["filename"] == "m.onnx" and told["decoder"]["head_size"] == 8 and told["decoder"]["hidden_size"] == 32
    assert told["decoder"]["num_hidden_layers"] == 2 and told["decoder"]["num_key_value_heads"] == 4 == told["decoder"]["num_attention_heads"]
    assert told["decoder"]["inputs"] == {
        "input_ids": "input_ids", "attention_mask": "attention_mask", "position_ids": "position_ids",
        "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value",
    }  # fmt: skip
    assert told["decoder"]["outputs"] == {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    assert told["type"] == "llama" and "bos_token_id" not in told
    run_ok("generate", path, "--genai-config", tmp_path / "genai_config.json", "--eos-id", "2,3", "--bos-id", 1, "--genai-type", "qwen2")
    told = json.loads((tmp_path / "genai_config.json").read_text())["model"]
    assert told["type"] == "qwen2" and told["bos_token_id"] == 1 and told["eos_token_id"] == [2, 3]
    for words, what in ((("--eos-id", 61), "--eos-id 61: the model knows 61 tokens"), (("--eos-id", 2, "--bos-id", 70), "--bos-id 70")):
        done = run("generate", path, "--genai-config", tmp_path / "c.json", *words)
        assert done.returncode == 1 and what in done.stderr and not (tmp_path / "c.json").exists(), done.stderr
    model = decoder(Shape(cache="growing"))
    next(i for i in model.graph.input if i.name == "past_key_values.1.value").type.tensor_type.shape.dim[1].dim_value = 2
    onnx.save(model, tmp_path / "heads.onnx")
    done = run("generate", tmp_path / "heads.onnx", "--genai-config", tmp_path / "c.json", "--eos-id", 2)
    assert done.returncode == 1 and "'past_key_values.1.value' has 2 heads of 8" in done.stderr and not (tmp_path / "c.json").exists(), done.stderr
    for shape, what in ((Shape(), "this one's is none"), (Shape(cache="sliding", window=1), "this one's is sliding"), (Shape(cache="growing", mask=False), "attention_mask")):
        done = run("generate", saved(tmp_path, shape), "--genai-config", tmp_path / "c.json", "--eos-id", 2)
        assert done.returncode == 1 and what in done.stderr and not (tmp_path / "c.json").exists(), done.stderr
