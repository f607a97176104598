"""`--pass remove_cache` of windows: those that kv_cache has put in, those of others, and what is refused."""
import numpy as np

import pytest
import decoder_graphs as kv
from conftest import run_ok
from decoders import Shape, decoder
from onnx import helper
from test_cache_change import changed, feeds, refused, session, shapes, tensor

KINDS = {**{name: kv.MODELS[name] for name in kv.RELATIVE}, **{f"learned_{n}": lambda n=n: kv.learned(kv.LEARNED[n], **kv.MASKED) for n in kv.LEARNED}}


def of_windows(window, room=20):
    return f"kv_cache:mode=window;window={window};sequence=16;max_context={room}"


@pytest.mark.parametrize("room", [16, 20])
@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("name", KINDS)
def test_remove_a_window(tmp_path, name, window, room):
    """What kv_cache has made is as before, of as many tokens as are given, up to the sequence."""
    model = KINDS[name]()
    made, told = changed(tmp_path, model, of_windows(window, room), "remove_cache")
    inputs = shapes(made.graph.input)
    assert inputs == {"input_ids": ["b", "sequence_length"], "attention_mask": ["b", "sequence_length"]}
    assert [(name, dims[1]) for name, dims in shapes(made.graph.output).items()] == [("logits", "sequence_length")]
    assert any("step by step as before" in note for note in told["notes"]), told["notes"]
    for tokens in (1, 5, 16):
        ids, mask = kv.drawn(tokens=tokens, padding=min(2, tokens - 1))
        seen = mask.astype(bool)
        np.testing.assert_allclose(kv.whole(made, ids, mask)[seen], kv.whole(model, ids, mask)[seen], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["growing", "buffer;max_context=16", "buffer;max_context=16;write=group_query_attention", "window;window=3;sequence=12"])
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("name", ["spelled_out", "sliding", "biased", "learned_by_place", "learned_by_mask"])
def test_convert_a_window(tmp_path, name, window, mode):
    model = KINDS[name]()
    made, _ = changed(tmp_path, model, of_windows(window), "remove_cache", f"kv_cache:mode={mode}")
    assert len([i for i in shapes(made.graph.input) if i.startswith("past_key_values")]) == 2 * kv.LAYERS
    run_ok("verify", tmp_path / "m.onnx", tmp_path / "o.onnx", "--stepping", "--lengths", "12")


@pytest.mark.parametrize("more", ["cache_dtype:float16", "cache_dtype:int8", "cache_layout", "set_dims:b=1"])
def test_remove_a_window_that_was_changed(tmp_path, more):
    """Halves and int8 of the cache stay at the keys and values of the tokens."""
    model = KINDS["spelled_out"]()
    made, _ = changed(tmp_path, model, of_windows(1), more, "remove_cache:rtol=0.1" if "int8" in more else "remove_cache")
    ids, mask = kv.drawn(batch=1 if "b=1" in more else 2, padding=0)
    want = kv.whole(model, ids, mask)
    assert np.abs(kv.whole(made, ids, mask) - want).max() < (0.1 if "dtype" in more else 1e-3) * np.abs(want).max()


@pytest.mark.parametrize("presents_whole", [True, False])
@pytest.mark.parametrize("positions", ["input", "none"])
@pytest.mark.parametrize("window", [1, 3])
def test_remove_the_window_of_others(tmp_path, window, positions, presents_whole):
    """Positions come as an input; presents hold the new tokens alone; names are others."""
    shape = Shape(cache="sliding", window=window, past=30, positions=positions, presents_whole=presents_whole, names=("cache_in.{}.{}", "cache_out.{}.{}"))
    made, _ = changed(tmp_path, decoder(shape), "remove_cache")
    whole = decoder(Shape(positions=positions))
    assert list(shapes(made.graph.input)) == [i.name for i in whole.graph.input]
    for tokens in (1, 8, 30):
        given = feeds(whole, tokens=tokens)
        np.testing.assert_allclose(session(made).run(None, given)[0], session(whole).run(None, given)[0], rtol=1e-4, atol=1e-4)


def test_a_position_that_is_the_same_in_each_window(tmp_path):
    """One row of a table for the one token of a window: it is that of every token."""
    shape = Shape(cache="sliding", window=1, past=30, positions="arange")
    made, _ = changed(tmp_path, decoder(shape), "remove_cache")
    assert not [n for n in made.graph.node if n.op_type == "Range" and n.input[0] == "past_sequence"]
    run_ok("verify", tmp_path / "o.onnx", tmp_path / "m.onnx", "--stepping", "--lengths", "9")
    said = refused(tmp_path, decoder(Shape(cache="sliding", window=3, past=30, positions="arange")), "remove_cache")
    assert "which has a row for each token of the window, goes on is not known" in said, said


@pytest.mark.parametrize("broken", ["dropped", "zeroed"])
def test_a_broken_window_is_noticed(tmp_path, broken):
    model = decoder(Shape(cache="sliding", window=1, past=30, positions="none", broken=broken))
    if broken == "zeroed":
        assert "step by step the result gives something else" in refused(tmp_path, model, "remove_cache", 3)
    else:  # never the first run: one place is hidden, in which the last of thirty tokens stands
        changed(tmp_path, model, "remove_cache")


def edited(edit, **more):
    model = decoder(Shape(cache="sliding", window=2, past=30, positions="none", **more))
    joined = next(n for n in model.graph.node if n.op_type == "Concat")
    edit(model, joined, list(model.graph.node).index(joined))
    return model


def test_windows_that_stay(tmp_path):
    def other_side(model, joined, at):
        joined.input[:] = joined.input[::-1]

    def sorted_along(model, joined, at):
        kept, joined.output[0] = joined.output[0], "unsorted"
        model.graph.initializer.append(tensor("all_of_them", np.array([32])))
        model.graph.node.insert(at + 1, helper.make_node("TopK", ["unsorted", "all_of_them"], [kept, ""], axis=2))

    def first_places(model, joined, at):
        """All but the last place: the newest token is not seen."""
        for node in model.graph.node:
            if node.op_type == "Softmax":
                hidden = np.zeros((2, 32), np.float32)
                hidden[0, 3], hidden[1, 7] = -9, -9
                model.graph.initializer.append(tensor("odd", hidden))
                place = list(model.graph.node).index(node)
                model.graph.node.insert(place, helper.make_node("Add", [node.input[0], "odd"], ["oddly"]))
                node.input[0] = "oddly"
                return

    assert "(Attention): it reads 'v" in refused(tmp_path, edited(other_side), "remove_cache")
    said = refused(tmp_path, edited(sorted_along), "remove_cache")
    assert "(TopK): it mixes tokens along axis 2 of 'unsorted'" in said, said
    said = refused(tmp_path, edited(first_places), "remove_cache")
    assert "depends on more than how far tokens are from each other" in said, said


def test_no_more_tokens_than_places(tmp_path):
    """Tables and distances hold as many as the sequence: more of them fail, and give nothing else."""
    made, _ = changed(tmp_path, KINDS["sliding"](), of_windows(2), "remove_cache")
    ids, mask = kv.drawn(tokens=17)
    with pytest.raises(Exception, match="(?i)bounds|indices|shape|broadcast|dimension"):
        kv.whole(made, ids, mask)
