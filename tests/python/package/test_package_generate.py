"""onnx_saturate.generate and `python -m onnx_saturate.generate`: our runtime and ONNX Runtime, tokens and text."""
import json
import os
import subprocess
import sys
import types

import numpy as np
import onnx
import pytest
from decoders import Shape, decoder

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")

PROMPTS = [[5, 17, 40, 3, 28], [9, 2], [33]]
VOCABULARY = {f"w{i}": i for i in range(61)}


@pytest.fixture
def path(tmp_path):
    onnx.save(decoder(Shape(cache="growing")), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def command(*words, cwd=None, module="onnx_saturate.generate"):
    return subprocess.run([sys.executable, "-m", module, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=120)


def test_both_runtimes_give_the_same(path):
    pytest.importorskip("onnxruntime")
    shapes = [Shape(), Shape(cache="growing"), Shape(cache="sliding", window=1, past=30), Shape(cache="in-place", past=40)]
    made = [onnx_saturate.generate(decoder(s), PROMPTS, max_new_tokens=12, runtime=r).tokens for s in shapes for r in ("saturate", "onnxruntime")]
    assert all(tokens == made[0] for tokens in made) and [len(t) for t in made[0]] == [12] * 3
    drawn = [onnx_saturate.generate(path, PROMPTS, max_new_tokens=12, runtime=r, temperature=1.2, top_k=9, seed=5).tokens for r in ("saturate", "onnxruntime")]
    assert drawn[0] == drawn[1] != made[0]


def test_one_prompt_and_what_is_told(path):
    made = onnx_saturate.generate(path, np.array(PROMPTS[0]), max_new_tokens=6)
    assert made.tokens == [onnx_saturate.generate(path, PROMPTS, max_new_tokens=6).tokens[0]] and made.ended_by == ["length"]
    assert made.tokens_per_second > 0 and made.report["cache"] == "growing"
    ended = onnx_saturate.generate(path, PROMPTS[0], max_new_tokens=6, eos_ids=made.tokens[0][0])
    assert ended.tokens == [made.tokens[0][:1]] and ended.ended_by == ["eos"] and ended.tokens_per_second is None
    import onnx_saturate.generate as module  # the function of the package's name stays callable

    assert module(path, PROMPTS[0], max_new_tokens=6).tokens == made.tokens
    assert onnx_saturate.generate(path, PROMPTS[0], max_new_tokens=6).tokens == made.tokens


@pytest.mark.parametrize("words, kind, what", [
    ({"prompt_ids": []}, onnx_saturate.OptionError, "is empty"), ({"prompt_ids": [61]}, onnx_saturate.OptionError, "0 to 60"),
    ({"temperature": 0.0}, onnx_saturate.OptionError, "temperature"), ({"runtime": "torch"}, onnx_saturate.OptionError, "onnxruntime"),
    ({"cache": "none at all"}, onnx_saturate.OptionError, "give one of growing"), ({"input_ids": "x"}, onnx_saturate.Error, "no input 'x'"),
    ({"max_new_tokens": 99}, onnx_saturate.OptionError, "48"), ({"beams": 2}, TypeError, "beams"),
])  # fmt: skip
def test_refused(path, words, kind, what):
    with pytest.raises(kind, match=what):
        onnx_saturate.generate(path, **{"prompt_ids": [1], **words})


def test_what_a_runtime_raises_arrives(path):
    pytest.importorskip("onnxruntime")
    bounded = decoder(Shape(cache="growing", positions="arange", table=6))
    with pytest.raises(onnx_saturate.Error, match="ONNX Runtime"):
        onnx_saturate.generate(bounded, [1, 2, 3], max_new_tokens=9, runtime="onnxruntime")


def tokenizer(folder):
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
        "pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel", "vocab": VOCABULARY, "unk_token": "w0"},
    }))  # fmt: skip


def test_text(path):
    pytest.importorskip("tokenizers")
    tokenizer(path.parent)
    done = command(path, "--prompt", "w5 w17 w40", "--prompt", "w9 w2", "--max-new-tokens", 4)
    assert done.returncode == 0, done.stderr
    expected = onnx_saturate.generate(path, [[5, 17, 40], [9, 2]], max_new_tokens=4).tokens
    assert done.stdout.splitlines() == [" ".join(f"w{t}" for t in row) for row in expected] and "tokens/s" in done.stderr
    told = json.loads(command(path, "--prompt", "w5 w17 w40", "--max-new-tokens", 4, "--json").stdout)
    assert told["rows"][0]["tokens"] == expected[0] and told["texts"] == [" ".join(f"w{t}" for t in expected[0])]
    done = command("generate", path, "--prompt", "w9 w2", "--max-new-tokens", 4, module="onnx_saturate")
    assert done.stdout.split() == [f"w{t}" for t in expected[1]]
    (path.parent / "tokenizer.json").write_text("{}")
    done = command(path, "--prompt", "w5")
    assert done.returncode == 1 and "is no tokenizer" in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_command(path):
    expected = onnx_saturate.generate(path, PROMPTS[:2], max_new_tokens=4).tokens
    done = command(path, "--prompt-ids", "5,17,40,3,28", "--prompt-ids", "9, 2", "--max-new-tokens", 4)
    assert done.stdout.splitlines() == [",".join(map(str, row)) for row in expected], done.stderr
    for words, code, what in (
        ((), 2, "no prompt is given"), (("--prompt-ids", "1,x"), 2, "'x' is no token's number"), (("--prompt-ids", "99"), 2, "0 to 60"),
        (("--prompt-ids", "1", "--dim", "a"), 2, "not SYMBOL=SIZE"), (("--prompt-ids", "1", "--logits", "y"), 1, "no output 'y'"),
    ):  # fmt: skip
        done = command(path, *words)
        assert done.returncode == code and what in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("package, words", [("tokenizers", ("--prompt", "w1")), ("onnxruntime", ("--prompt-ids", "1", "--runtime", "onnxruntime"))])
def test_a_package_that_is_missing(path, package, words):
    code = f"import sys; sys.modules[{package!r}] = None; from onnx_saturate.generate import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, str(path), *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 5 and f"{package} is not installed; pip install {package}" in done.stderr, done.stderr


@pytest.fixture
def translator(tmp_path):
    """Files of an encoder-decoder: of the step, and of what runs once in front."""
    import test_encoder_decoders as made

    model = made.spelled_out(biased=False)
    step, cross = (onnx_saturate.transform(model, [{"pass": "kv_cache", **more}]) for more in ({}, {"model": "cross"}))
    for name, one in (("encoder", made.encoder()), ("step", step), ("cross", cross)):
        onnx.save(one, tmp_path / f"{name}.onnx")
    return model, [tmp_path / f"{name}.onnx" for name in ("step", "encoder", "cross")]


def test_an_encoder_decoder(translator):
    pytest.importorskip("onnxruntime")
    import test_encoder_decoders as made

    model, (step, *encoders) = translator
    expected = [made.greedy(model, made.encoded(text), [7]) for text in made.TEXTS]
    for runtime in ("saturate", "onnxruntime"):
        options = {"encoders": encoders, "max_new_tokens": made.NEW, "runtime": runtime}
        assert onnx_saturate.generate(step, [7], encoder_ids=made.TEXTS, **options).tokens == expected
        assert onnx_saturate.generate(step, [7], encoder_ids=made.TEXTS[0], **options).tokens == expected[:1]
        options["encoders"] = encoders[1:]
        arrays = made.encoded(made.TEXTS[0])
        assert onnx_saturate.generate(step, [7], encoder_inputs=arrays, **options).tokens == expected[:1]
    with pytest.raises(onnx_saturate.OptionError, match="input 'input_ids' of .*encoder.onnx: nothing is given for it"):
        onnx_saturate.generate(step, [7], encoders=encoders)
    bad = {"encoder_hidden_states": arrays["encoder_hidden_states"][:, :, 1:]}
    with pytest.raises(onnx_saturate.OptionError, match="its dim 2 is given 19, and has to be 20"):
        onnx_saturate.generate(step, [7], encoders=encoders[1:], encoder_inputs=bad)


def test_the_command_of_an_encoder_decoder(translator):
    pytest.importorskip("tokenizers")
    import test_encoder_decoders as made

    model, (step, *encoders) = translator
    tokenizer(step.parent)
    words = (step, *(word for encoder in encoders for word in ("--encoder", encoder)), "--max-new-tokens", made.NEW)
    expected = made.greedy(model, made.encoded(made.TEXTS[0]), [7])
    text = " ".join(f"w{token}" for token in made.TEXTS[0])
    done = command(*words, "--encoder-prompt", text)
    assert done.returncode == 2 and "tells decoder_start_token_id" in done.stderr, done.stderr
    (step.parent / "config.json").write_text('{"decoder_start_token_id": 7}')
    for runtime in ("saturate", "onnxruntime"):
        done = command(*words, "--encoder-prompt", text, "--runtime", runtime)
        assert done.stdout.split() == [f"w{token}" for token in expected], done.stderr
    done = command("generate", *words, "--encoder-prompt", text, module="onnx_saturate")
    assert done.stdout.split() == [f"w{token}" for token in expected], done.stderr
    np.savez(step.parent / "x.npz", **made.encoded(made.TEXTS[0]))
    done = command(step, "--encoder", encoders[1], "--inputs", step.parent / "x.npz", "--prompt-ids", 7, "--max-new-tokens", made.NEW)
    assert done.stdout.strip() == ",".join(map(str, expected)), done.stderr
    for words, code, what in ((("--inputs", step), 1, "no arrays can be read"), (("--inputs", step.parent / "none.npz"), 1, "none.npz"),
                              (("--encoder-ids", "1,x"), 2, "'x' is no token's number"), (("--encoder-ids", "1"), 2, "input 'encoder_hidden_states' of")):  # fmt: skip
        done = command(step, "--prompt-ids", 7, "--encoder", encoders[1], *words)
        assert done.returncode == code and what in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("kind", ["panic", "large", "pipe"])
def test_a_tokenizer_of_strangers(tmp_path, monkeypatch, kind):
    class Panic(BaseException):
        """As Rust's panics are told."""

    class Tokenizer:
        @staticmethod
        def from_str(text):
            raise Panic("index out of bounds:\n the len is 0")

        from_file = from_str

    from onnx_saturate._generate import find_tokenizer

    monkeypatch.setitem(sys.modules, "tokenizers", types.SimpleNamespace(Tokenizer=Tokenizer))
    path = tmp_path / "tokenizer.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("{}")
        os.truncate(path, 65 << 20 if kind == "large" else 2)
    with pytest.raises(onnx_saturate.Error) as error:
        find_tokenizer(str(tmp_path / "m.onnx"), None)
    said = str(error.value)
    assert {"panic": "is no tokenizer: index out of bounds: the len is 0", "large": "it has more than", "pipe": "there is no such file"}[kind] in said and "\n" not in said
