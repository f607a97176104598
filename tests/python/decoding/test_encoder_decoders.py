"""`saturate generate` and `verify --stepping` of decoders that an encoder gives something; the judge is the whole model in ONNX Runtime."""
import json

import numpy as np
import onnx
import pytest
from conftest import run, run_ok
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from test_generate import refused
from decoder_graphs import LAYERS, VOCABULARY, WIDTH, Graph
from test_kv_cross import MODELS, MODES, STATE, STATES, asked, both_parts, given, spelled_out

NEW = 9
TEXTS = [[5, 17, 24, 3, 28], [9, 2], [23, 8, 1]]
KEYS = [f"past_key_values.{i}.encoder.{p}" for i in range(LAYERS) for p in ("key", "value")]


def encoder(masked=True, names=("input_ids", "attention_mask", "last_hidden_state"), batch="b"):
    """Each token, and the mean of all that the mask shows."""
    ids, mask, states = names
    g = Graph(17)
    x = g.Gather(g.weight(VOCABULARY, STATE, scale=3), ids)
    if masked:
        seen = g.Unsqueeze(g.Cast(mask, to=T.FLOAT), [2])
        mean = g.Div(g.ReduceSum(g.Mul(x, seen), [1], keepdims=1), g.ReduceSum(seen, [1], keepdims=1))
    else:
        mean = g.ReduceMean(x, axes=[1], keepdims=1)
    made = g.model(g.Add(x, mean), [helper.make_tensor_value_info(name, T.INT64, [batch, "n"]) for name in names[:1 + masked]])
    made.graph.node[-1].output[0] = made.graph.output[0].name = states
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info(states, T.FLOAT, [batch, "n", STATE]))
    onnx.checker.check_model(made, full_check=True)
    return made


def encoded(text, masked=True):
    """What the encoder makes of one text, without padding."""
    ids = np.array([text])
    return {"encoder_hidden_states": asked(encoder(masked), {"input_ids": ids, "attention_mask": np.ones_like(ids)})["last_hidden_state"],
            "encoder_attention_mask": np.ones_like(ids)}


def greedy(model, feeds, prompt, count=NEW):
    sequence = list(prompt)
    for _ in range(count):
        ids = np.array([sequence])
        sequence.append(int(np.argmax(asked(model, feeds | {"input_ids": ids, "attention_mask": np.ones_like(ids)})["logits"][0, -1])))
    return sequence[len(prompt):]


def saved(tmp_path, **models):
    for name, model in models.items():
        onnx.save(model, tmp_path / f"{name}.onnx")
    return [tmp_path / f"{name}.onnx" for name in models]


def parts(tmp_path, model, fields="mode=growing"):
    """Files of the encoder, of what makes keys and values, and of the step."""
    made, cross, _ = both_parts(tmp_path, model, fields)
    return saved(tmp_path, encoder=encoder(), cross=cross, step=made)


def rows(option, texts):
    return [word for text in texts for word in (option, ",".join(map(str, text)))]


def generated(step, *words, count=NEW):
    return json.loads(run_ok("generate", step, "--max-new-tokens", count, "--json", *words).stdout)


def tokens(step, *words, **options):
    return [row["tokens"] for row in generated(step, *words, **options)["rows"]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_tokens_of_the_whole_model(tmp_path, name, mode):
    """Of texts of different lengths where the decoder takes their mask; one prompt begins all."""
    model = MODELS[name]()
    enc, cross, step = parts(tmp_path, model, MODES[mode].replace("window=2", "window=1"))
    texts = TEXTS if name != "unmasked" else [TEXTS[0], [9, 2, 11, 6, 30]]
    expected = [greedy(model, encoded(text), [7]) for text in texts]
    assert len({tuple(row) for row in expected}) == len(texts), "the encoder gives nothing that matters"
    words = ("--encoder", enc, "--encoder", cross)
    made = generated(step, *words, *rows("--encoder-ids", texts), "--prompt-ids", 7)
    assert [row["tokens"] for row in made["rows"]] == expected and made["notes"] == []
    assert made["cache"] == {"growing": "growing", "window": "sliding"}.get(mode, "in place")
    onnx.save(model, tmp_path / "whole.onnx")
    assert tokens(tmp_path / "whole.onnx", "--encoder", enc, *rows("--encoder-ids", texts), "--prompt-ids", 7) == expected


def test_a_prompt_for_each_text(tmp_path):
    model = spelled_out(biased=False)
    enc, cross, step = parts(tmp_path, model)
    prompts = [[7, 12], [30], [4, 4, 9]]
    words = ("--encoder", enc, "--encoder", cross, *rows("--encoder-ids", TEXTS))
    assert tokens(step, *words, *rows("--prompt-ids", prompts)) == [greedy(model, encoded(t), p) for t, p in zip(TEXTS, prompts)]
    words = ("--encoder", enc, "--encoder", cross, *rows("--encoder-ids", TEXTS[:1]))
    assert tokens(step, *words, *rows("--prompt-ids", prompts)) == [greedy(model, encoded(TEXTS[0]), p) for p in prompts]


def test_draws_and_ends(tmp_path):
    enc, cross, step = parts(tmp_path, spelled_out())
    words = ("--encoder", enc, "--encoder", cross, "--prompt-ids", 7)
    drawing = ("--temperature", 2, "--seed", 3)
    made = tokens(step, *words, *rows("--encoder-ids", TEXTS), *drawing)
    assert made == tokens(step, *words, *rows("--encoder-ids", TEXTS), *drawing, "--threads", 2)
    assert made[0] == tokens(step, *words, *rows("--encoder-ids", TEXTS[:1]), *drawing)[0]
    assert made[0] != tokens(step, *words, *rows("--encoder-ids", TEXTS[:1]))[0]
    first = tokens(step, *words, *rows("--encoder-ids", TEXTS[:1]))[0]
    row = generated(step, *words, *rows("--encoder-ids", TEXTS[:1]), "--eos-id", first[2])["rows"][0]
    assert row["ended_by"] == "eos" and row["tokens"] == first[:first.index(first[2]) + 1]


def test_arrays_of_what_an_encoder_gives(tmp_path):
    """States and their mask, padded in front or with holes; without a mask all are seen; one row serves all prompts."""
    model = spelled_out()
    _, cross, step = parts(tmp_path, model)
    states = given(3)["encoder_hidden_states"]
    mask = np.ones((3, STATES), np.int64)
    mask[0, :4], mask[1, 3:5] = 0, 0
    for arrays in ({"encoder_hidden_states": states, "encoder_attention_mask": mask},
                   {"encoder_hidden_states": states.astype(np.float64), "encoder_attention_mask": mask.astype(bool)},
                   {"encoder_hidden_states": states}, {"encoder_hidden_states": states[:, :1]}):
        np.savez(tmp_path / "x.npz", **arrays)
        feeds = {"encoder_attention_mask": np.ones(states.shape[:2], np.int64), **arrays}
        feeds = {n: v[:, :arrays["encoder_hidden_states"].shape[1]] for n, v in feeds.items()}
        expected = [greedy(model, {n: v[r:r + 1].astype(np.float32 if "states" in n else np.int64) for n, v in feeds.items()}, [7]) for r in range(3)]
        assert tokens(step, "--encoder", cross, "--inputs", tmp_path / "x.npz", "--prompt-ids", 7) == expected
    np.savez(tmp_path / "x.npz", encoder_hidden_states=states[:1])
    feeds = {"encoder_hidden_states": states[:1], "encoder_attention_mask": np.ones((1, STATES), np.int64)}
    made = tokens(step, "--encoder", cross, "--inputs", tmp_path / "x.npz", "--prompt-ids", 7, "--prompt-ids", 8)
    assert made == [greedy(model, feeds, [7]), greedy(model, feeds, [8])]
    once = {n.replace("present", "past_key_values"): v for n, v in asked(onnx.load(cross), feeds).items()}
    np.savez(tmp_path / "x.npz", **once)
    assert tokens(step, "--inputs", tmp_path / "x.npz", "--prompt-ids", 7) == made[:1]


def test_files_as_optimum_names_them(tmp_path):
    """decoder_model.onnx makes keys and values of cross attention beside logits, and reads the decoder's first token."""
    model = spelled_out()
    enc, cross, step = parts(tmp_path, model)
    first, more = onnx.load_from_string(model.SerializeToString()), onnx.compose.add_prefix(onnx.load(cross), "once/", rename_inputs=False)
    for node in more.graph.node:
        node.input[:] = ["encoder_hidden_states" if name == "once/encoder_hidden_states" else name for name in node.input]
    first.graph.node.extend(more.graph.node)
    first.graph.initializer.extend(more.graph.initializer)
    for output in more.graph.output:
        first.graph.node.append(helper.make_node("Identity", [output.name], [output.name.removeprefix("once/")]))
        first.graph.output.append(output)
        first.graph.output[-1].name = output.name.removeprefix("once/")
    path, = saved(tmp_path, decoder_model=first)
    expected = [greedy(model, encoded(text), [7]) for text in TEXTS]
    assert tokens(step, "--encoder", enc, "--encoder", path, *rows("--encoder-ids", TEXTS), "--prompt-ids", 7) == expected
    assert tokens(path, "--encoder", enc, *rows("--encoder-ids", TEXTS), "--prompt-ids", 7) == expected


def test_an_encoder_and_a_decoder_in_one_file(tmp_path):
    model, enc = spelled_out(), encoder(names=("encoder_ids", "encoder_attention_mask", "encoder_hidden_states"))
    enc = onnx.compose.add_prefix(enc, "e/", rename_inputs=False, rename_outputs=False)
    for node in model.graph.node:
        node.input[:] = [{"input_ids": "decoder_input_ids", "attention_mask": "decoder_attention_mask"}.get(n, n) for n in node.input]
    names = {"e/encoder_ids": "input_ids", "encoder_ids": "input_ids", "e/encoder_attention_mask": "encoder_attention_mask"}
    for node in enc.graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
    both = helper.make_graph([*enc.graph.node, *model.graph.node], "both", [
        helper.make_tensor_value_info(name, T.INT64, dims)
        for name, dims in (("input_ids", ["b", "n"]), ("encoder_attention_mask", ["b", "n"]), ("decoder_input_ids", ["b", "s"]), ("decoder_attention_mask", ["b", "s"]))
    ], list(model.graph.output), [*enc.graph.initializer, *model.graph.initializer])
    path, = saved(tmp_path, both=helper.make_model(both, opset_imports=[helper.make_opsetid("", 14)], ir_version=8))
    made = tokens(path, *rows("--encoder-ids", TEXTS), "--prompt-ids", 7)
    assert made == [greedy(spelled_out(), encoded(text), [7]) for text in TEXTS]


def test_an_encoder_of_one_row(tmp_path):
    """Its rows run one by one."""
    _, cross, step = parts(tmp_path, spelled_out())
    path, = saved(tmp_path, one=encoder(batch=1))
    texts = [TEXTS[0], [9, 2, 11, 6, 30]]
    made = tokens(step, "--encoder", path, "--encoder", cross, *rows("--encoder-ids", texts), "--prompt-ids", 7)
    assert made == [greedy(spelled_out(), encoded(text), [7]) for text in texts]


def test_mistakes(tmp_path):
    enc, cross, step = parts(tmp_path, spelled_out())
    plain, = saved(tmp_path, plain=encoder(masked=False))
    words, chain = ("--prompt-ids", 7), ("--encoder", enc, "--encoder", cross)

    def wrong(what, *more, code=2, **arrays):
        if arrays:
            np.savez(tmp_path / "x.npz", **arrays)
            more = (*more, "--inputs", tmp_path / "x.npz")
        refused(run("generate", step, *words, *more), code, what)

    wrong("input 'past_key_values.0.encoder.key': nothing is given for it")
    wrong(f"input 'input_ids' of {enc}: nothing is given for it; give tokens by --encoder-ids", *chain)
    wrong(f"input 'encoder_hidden_states' of {cross}: nothing is given for it", "--encoder", cross, "--encoder", enc, "--encoder-ids", "5,6")
    wrong("--encoder-ids: no model reads them", "--encoder", cross, "--encoder-ids", "5,6", encoder_hidden_states=np.zeros((1, 3, STATE), np.float32))
    wrong("--encoder-ids 5,x: 'x' is no token's number", *chain, "--encoder-ids", "5,x")
    wrong("--encoder-ids: a row is empty", *chain, "--encoder-ids", "5", "--encoder-ids", " ")
    wrong(f"--encoder-ids: token {VOCABULARY}, and the encoder knows 0 to {VOCABULARY - 1}", *chain, "--encoder-ids", VOCABULARY)
    wrong("2 prompts, and 3 rows for the encoder", *chain, "--prompt-ids", 8, *rows("--encoder-ids", TEXTS))
    wrong("plain.onnx takes no mask, so that they can't be padded", "--encoder", plain, "--encoder", cross, *rows("--encoder-ids", TEXTS))
    wrong("nono.onnx", "--encoder", tmp_path / "nono.onnx", "--encoder-ids", "5", code=1)
    wrong("nono.npz", "--inputs", tmp_path / "nono.npz", code=1)
    states, mask = np.zeros((2, 3, STATE), np.float32), np.ones((2, 3), np.int64)
    wrong("array 'states' is none of what an encoder reads or gives", "--encoder", cross, encoder_hidden_states=states, states=states)
    wrong("its dim 2 is given 19, and has to be 20", "--encoder", cross, encoder_hidden_states=states[:, :, :19])
    wrong("it is given rank 2, and takes 3", "--encoder", cross, encoder_hidden_states=states[:, 0])
    wrong("it is given int64, and takes float", "--encoder", cross, encoder_hidden_states=states.astype(np.int64))
    wrong("its dim 1 is given 2, and has to be 3", "--encoder", cross, encoder_hidden_states=states, encoder_attention_mask=mask[:, :2])
    wrong("array 'encoder_hidden_states' has not a row for each of 3 texts", "--encoder", cross, encoder_hidden_states=states, encoder_attention_mask=np.ones((3, 3), np.int64))
    wrong("has not a row", "--encoder", cross, encoder_hidden_states=np.float32(1))
    once = {name: np.zeros((1, 4, 3, 8), np.float32) for name in KEYS[:-1]}
    wrong(f"input '{KEYS[-1]}': nothing is given for it", **once)
    from decoders import Shape, decoder
    alone, = saved(tmp_path, alone=decoder(Shape(cache="growing")))
    done = run("generate", alone, *words, "--encoder", enc, "--encoder-ids", "5")
    refused(done, 2, "the model takes nothing from an encoder")


def test_inputs_that_no_name_tells(tmp_path):
    model = spelled_out()
    for node in model.graph.node:
        node.input[:] = ["memory" if n == "encoder_hidden_states" else n for n in node.input]
    next(i for i in model.graph.input if i.name == "encoder_hidden_states").name = "memory"
    path, enc = saved(tmp_path, m=model, encoder=encoder(names=("input_ids", "attention_mask", "memory")))
    words = ("--encoder", enc, *rows("--encoder-ids", TEXTS), "--prompt-ids", 7)
    done = run("generate", path, *words)
    refused(done, 1, "nothing is known to feed input memory with")
    assert tokens(path, *words, "--given", "memory") == [greedy(spelled_out(), encoded(text), [7]) for text in TEXTS]
    refused(run("generate", path, *words, "--given", "other"), 1, "given: the model has no input 'other'")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_equal(tmp_path, name, mode):
    model = MODELS[name]()
    _, cross, step = parts(tmp_path, model, MODES[mode])
    whole, = saved(tmp_path, whole=model)
    report = json.loads(run_ok("verify", whole, step, "--stepping", "--encoder", cross, "--json").stdout)
    assert report["status"] == "equal" and any(case["sizes"]["batch"] > 1 for case in report["cases"])
    moves = [note for note in report["notes"] if note.startswith("zeros instead of")]
    assert len(moves) == 2 and "the past move" in moves[0] and "what an encoder gives move" in moves[1] and "little is proven" not in str(moves)


def test_steps_notice_mistakes(tmp_path):
    model = spelled_out()
    _, cross, step = parts(tmp_path, model)
    whole, = saved(tmp_path, whole=model)
    broken = onnx.load(cross)
    names = [output.name for output in broken.graph.output]
    swap = {names[1]: names[3], names[3]: names[1]}
    for node in broken.graph.node:
        node.output[:] = [swap.get(n, n) for n in node.output]
    path, = saved(tmp_path, broken=broken)
    done = run("verify", whole, step, "--stepping", "--encoder", path)
    assert done.returncode == 3 and "output 'logits' differs" in done.stderr, done.stderr
    done = run("verify", whole, step, "--stepping")
    assert done.returncode == 5 and "input 'past_key_values.0.encoder.key': nothing is given for it" in done.stderr, done.stderr
    states = given(2)
    np.savez(tmp_path / "x.npz", **states)
    words = ("verify", whole, step, "--stepping", "--encoder", cross, "--inputs", tmp_path / "x.npz")
    assert json.loads(run_ok(*words, "--json").stdout)["status"] == "equal"
    np.savez(tmp_path / "x.npz", other=np.zeros((2, 3)))
    done = run(*words)
    assert done.returncode == 5 and "takes no 'other' from an encoder" in done.stderr, done.stderr


CHANGES = {"half": "cache_dtype:float16", "int8": "cache_dtype:int8;scales=channel;rtol=0.5", "turned": "cache_layout:bsnh", "last": "last_logits"}


def changed(tmp_path, path, *passes):
    words = [word for one in passes for word in ("--pass", one)]
    made = tmp_path / "changed.onnx"
    run_ok("transform", path, "-o", made, *words, "--report", tmp_path / "r.json")
    return made, [note for one in json.loads((tmp_path / "r.json").read_text())["passes"] for note in one["notes"]]


def softened():
    """Attention that looks at many keys, so that a small error stays one."""
    model = spelled_out()
    table = next(w for w in model.graph.initializer if w.dims[0] == VOCABULARY)
    table.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(table) / 4, table.name))
    return model


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_cache(tmp_path, change, mode):
    if change == "turned" and mode == "grouped":
        pytest.skip("the operator has one layout")
    model = softened()
    enc, cross, step = parts(tmp_path, model, MODES[mode].replace("window=2", "window=1"))
    whole, = saved(tmp_path, whole=model)
    if change == "last" and mode == "window":
        done = run("transform", step, "-o", tmp_path / "o.onnx", "--pass", CHANGES[change])
        return refused(done, 1, "has logits of 1 tokens already")
    once = {n.replace("present", "past_key_values"): v for n, v in asked(onnx.load(cross), given()).items()}
    texts = np.random.RandomState(2).randint(0, VOCABULARY, (2, 14))
    np.savez(tmp_path / "x.npz", input_ids=texts, encoder_attention_mask=given()["encoder_attention_mask"], **once)
    made, notes = changed(tmp_path, step, CHANGES[change] + (f";calibrate={tmp_path / 'x.npz'}" if change == "int8" else ""))
    tolerance = {"half": 0.02, "int8": 0.5}.get(change, 1e-3)
    words = ("verify", whole, made, "--stepping", "--encoder", cross, "--inputs", tmp_path / "states.npz", "--check-rtol", tolerance, "--json")
    np.savez(tmp_path / "states.npz", **given())
    assert json.loads(run_ok(*words).stdout)["status"] == "equal"
    keeps = {"half": "dtype", "int8": "dtype", "turned": "layout"}.get(change)
    assert [n for n in notes if "an encoder gives keep" in n] == ([f"{len(KEYS)} keys and values that an encoder gives keep their {keeps}"] if keeps else [])
    types = {i.name: (i.type.tensor_type.elem_type, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in onnx.load(made).graph.input}
    if keeps == "dtype":
        assert types["past_key_values.0.decoder.key"][0] == {"half": T.FLOAT16, "int8": T.INT8}[change] and types[KEYS[0]][0] == T.FLOAT
        assert any("zeros instead of what an encoder gives move the logits by" in note for note in notes)
    made = tokens(made, "--encoder", enc, "--encoder", cross, "--encoder-ids", "5,17,24", "--prompt-ids", 7, count=4)
    assert len(made[0]) == 4 and (keeps == "dtype" or made[0] == greedy(model, encoded([5, 17, 24]), [7], 4))


def test_halves_of_what_an_encoder_gives(tmp_path):
    """By the passes that any model takes, in both."""
    model = spelled_out()
    _, cross, step = parts(tmp_path, model)
    made, _ = changed(tmp_path, step, "cache_dtype:float16", "cast_inputs:" + ",".join(f"{name}=float16" for name in KEYS))
    half = tmp_path / "half.onnx"
    run_ok("transform", cross, "-o", half, "--pass", "cast_outputs:" + ",".join(f"{n}=float16".replace("past_key_values", "present") for n in KEYS))
    whole, = saved(tmp_path, whole=model)
    for other in (half, cross):  # floats are brought to what an input takes
        words = ("verify", whole, made, "--stepping", "--encoder", other, "--check-rtol", 0.02, "--json")
        assert json.loads(run_ok(*words).stdout)["status"] == "equal"


def test_scales_of_given_texts(tmp_path):
    _, cross, step = parts(tmp_path, softened())
    once = {n.replace("present", "past_key_values"): v for n, v in asked(onnx.load(cross), given()).items()}
    texts = {"input_ids": np.arange(20).reshape(2, 10), "encoder_attention_mask": given()["encoder_attention_mask"], **once}
    words = "cache_dtype:int8;scales=channel;calibrate=" + str(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", **texts)
    assert "scales were measured on 2 rows of 10 given tokens" in changed(tmp_path, step, words)[1]
    for without, what in ((KEYS[1], f"it holds no array '{KEYS[1]}', which an encoder gives"), ("input_ids", "it holds no array 'input_ids'")):
        np.savez(tmp_path / "x.npz", **{n: v for n, v in texts.items() if n != without})
        refused(run("transform", step, "-o", tmp_path / "o.onnx", "--pass", words), 1, what)
    np.savez(tmp_path / "x.npz", **texts | {KEYS[1]: once[KEYS[1]][:, :3]})
    refused(run("transform", step, "-o", tmp_path / "o.onnx", "--pass", words), 1, f"input '{KEYS[1]}': its dim 1 is given 3")


def test_last_logits_without_a_cache(tmp_path):
    model = spelled_out()
    enc, whole = saved(tmp_path, encoder=encoder(), whole=model)
    made, _ = changed(tmp_path, whole, "last_logits")
    words = ("--encoder", enc, "--encoder-ids", "5,17,24", "--prompt-ids", 7)
    assert tokens(made, *words) == [greedy(model, encoded([5, 17, 24]), [7])]


def counting(pad=0, cast=True, other=None):
    """Learned positions, counted of the tokens that are not the padding token (M2M-100, fairseq)."""
    def add(g, x):
        ids = g.Cast("input_ids", to=T.INT32) if cast else "input_ids"
        shown = g.Cast(g.Not(g.Equal(ids, np.int32(pad) if cast else np.int64(pad))), to=T.INT32)
        at = g.Add(g.Mul(g.CumSum(shown, np.int64(1)), shown), np.int32(1))
        if other is not None:
            more = g.Cast(g.Not(g.Equal("input_ids", np.int64(other))), to=T.INT32)
            at = g.Add(at, g.Mul(g.CumSum(more, np.int64(1)), np.int32(0)))
        return g.Add(x, g.Gather(g.weight(64, WIDTH, scale=3), at))

    return spelled_out(biased=False, after=add)




@pytest.mark.parametrize("pad", [0, 11])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "window"])
def test_positions_counted_by_which_tokens_are_padding(tmp_path, mode, pad):
    model = counting(pad, cast=pad == 0)
    whole, = saved(tmp_path, whole=model)
    refused(run("transform", whole, "-o", tmp_path / "o.onnx", "--pass", "kv_cache"), 5, "it mixes tokens")
    step, notes = changed(tmp_path, whole, "padding_by_mask", f"kv_cache:{MODES[mode]}")
    assert f"as before in 3 cases, in which tokens are {pad} exactly where 'attention_mask' is 0" in notes
    step.rename(tmp_path / "step.onnx")
    cross, _ = changed(tmp_path, whole, "padding_by_mask", f"kv_cache:{MODES[mode]};model=cross")
    enc, = saved(tmp_path, encoder=encoder())
    texts, prompts = TEXTS, [[7, 12], [30], [4, 9, 2]]
    words = ("--encoder", enc, "--encoder", cross, *rows("--encoder-ids", texts), *rows("--prompt-ids", prompts), "--eos-id", 3)
    expected = [greedy(model, encoded(text), prompt) for text, prompt in zip(texts, prompts)]
    expected = [row[:row.index(3) + 1] if 3 in row else row for row in expected]
    assert pad not in sum(expected, []), "the padding token is one of what is made, so that the two differ"
    assert tokens(tmp_path / "step.onnx", *words) == expected


def test_padding_by_mask_gives_the_same_where_the_mask_hides_padding(tmp_path):
    whole, = saved(tmp_path, whole=counting())
    made, _ = changed(tmp_path, whole, "padding_by_mask")
    assert "Equal" not in [node.op_type for node in onnx.load(made).graph.node]
    ids = np.random.RandomState(3).randint(1, VOCABULARY, (2, 9))
    mask = np.ones_like(ids)
    mask[0, :3], mask[1, 7:] = 0, 0
    feeds = given() | {"input_ids": ids * mask, "attention_mask": mask}
    np.testing.assert_allclose(asked(onnx.load(made), feeds)["logits"], asked(onnx.load(whole), feeds)["logits"], rtol=1e-4, atol=1e-4)
    feeds["input_ids"] = ids  # hidden tokens that are no padding: the mask decides now
    a, b = (asked(onnx.load(path), feeds)["logits"][0, 3:] for path in (made, whole))
    assert np.abs(a - b).max() > 0.1


def test_padding_by_mask_refuses(tmp_path):
    def wrong(model, what, fields=""):
        path, = saved(tmp_path, m=model)
        refused(run("transform", path, "-o", tmp_path / "o.onnx", "--pass", "padding_by_mask" + fields), 1, what)

    wrong(spelled_out(), "nothing counts those of its tokens that are no padding")
    wrong(counting(), "no such input", ":tokens=ids")
    wrong(counting(), "no such input; without a mask", ":mask=m")
    wrong(counting(), "its dims are not those of 'input_ids'", ":mask=encoder_attention_mask")
    wrong(counting(other=9), "those that are not 0 are counted, and those that are not 9")
