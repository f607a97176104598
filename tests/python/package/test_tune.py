"""onnx_saturate.tune: the search on a clock of its own, so that no test depends on how fast the machine is; and the command."""
import json
import math
import random
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from conftest import make_model, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
from onnx_saturate import _tune_ort as ort_lab  # noqa: E402
from onnx_saturate import _tune_search as search  # noqa: E402
from onnx_saturate import tune  # noqa: E402
from onnx_saturate._tune_search import OutOfTime, Refused, Search, Settings  # noqa: E402

KNOBS = {
    "intra": [{"intra_op_num_threads": n} for n in (0, 1, 2, 4)],
    "level": [{"graph_optimization_level": level} for level in ("extended", "basic", "disable", "all")],
    "binding": [{"io_binding": on} for on in (True, False)],
}
CHANGES = [change for changes in KNOBS.values() for change in changes]


class Lab:
    """Sessions that take `seconds(settings)`, with noise of each run, and luck of each session."""

    def __init__(self, seconds, noise=0.0, luck=None, opening=1.0, seed=0, end=math.inf):
        self.seconds, self.noise, self.luck, self.opening, self.end = seconds, noise, luck or (lambda settings, number: 1.0), opening, end
        self.now, self.rng, self.opened, self.is_open = 0.0, random.Random(seed), 0, 0
        self.busy = lambda now: False  # whether other work takes a processor then
        self.taken_by_others = 0.0

    def clock(self):
        return self.now

    def pass_time(self, seconds):
        self.now += seconds
        if self.now >= self.end:
            raise OutOfTime

    def open(self, settings):
        self.pass_time(self.opening)
        taken = self.seconds(settings)
        if taken is None:
            raise Refused("it does not load")
        self.opened += 1
        self.is_open += 1
        return taken * self.luck(settings, self.opened)

    def close(self, session):
        self.is_open -= 1

    def others(self):
        return self.taken_by_others

    def time(self, session):
        taken = session * math.exp(self.rng.gauss(0, self.noise))
        if self.busy(self.now):
            taken *= 2 if session < 1.2 else 1  # what takes all processors suffers
            self.taken_by_others += taken
        self.pass_time(taken)
        return taken


def find(lab, budget=1000.0, changes=CHANGES, gain=0.02, load=0.1, seed=0):
    told = []
    found = Search(lab, Settings(), budget=budget, gain=gain, confidence=0.95, load=load, seed=seed, told=told.append).run(changes)
    assert lab.is_open == 0
    assert told == [*found.trials, *([found.confirmed] if found.confirmed else [])]
    return found


def test_intervals_are_those_of_the_binomial():
    rng = random.Random(1)
    for confidence in (0.9, 0.95, 0.99):
        for n in range(1, 60):
            sample = [rng.random() for _ in range(n)]
            median, low, high = search.interval(sample, confidence)
            ordered = sorted(sample)
            assert median == pytest.approx(np.median(sample))

            def covered(k):  # probability that the median lies between the k-th from below and the k-th from above
                return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n

            if low == 0:
                assert high == math.inf and covered(1) < confidence
                continue
            k = ordered.index(low) + 1
            assert ordered[n - k] == high and covered(k) >= confidence
            assert covered(k + 1) < confidence or k + 1 > n - k, "a narrower one holds as well"
    assert search.interval([], 0.95)[1:] == (0.0, math.inf)
    assert search.interval([1.0] * (search.FEWEST - 1), 0.95)[1] == 0.0 and search.interval([1.0] * search.FEWEST, 0.95)[1] == 1.0


def factors(settings):
    """One thread and level basic are good, and better together."""
    return {0: 1.0, 1: 0.8, 2: 0.95, 4: 1.3}[settings.intra_op_num_threads] * {"basic": 0.9, "disable": 1.5}.get(settings.graph_optimization_level, 1.0)


def test_changes_that_help_are_joined():
    found = find(Lab(factors, noise=0.02))
    assert found.settings == Settings(intra_op_num_threads=1, graph_optimization_level="basic") and found.complete
    assert found.confirmed.verdict == "faster" and found.confirmed.ratio[0] == pytest.approx(0.72, abs=0.03)
    assert found.seconds[1] / found.seconds[0] == pytest.approx(0.72, abs=0.03)


def test_a_change_that_helped_is_taken_back_where_another_makes_it_worse():
    def seconds(settings):
        basic = settings.graph_optimization_level == "basic"
        return {0: 0.5 if basic else 1.0, 1: 0.8 if basic else 0.9}.get(settings.intra_op_num_threads, 2.0)

    found = find(Lab(seconds, noise=0.01))
    assert found.settings == Settings(graph_optimization_level="basic")


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.3])
def test_defaults_stay_where_nothing_differs(noise):
    for seed in range(60):
        found = find(Lab(lambda settings: 1.0, noise=noise, seed=seed), seed=seed)
        assert found.settings == Settings(), found.confirmed


def test_never_slower_settings_however_noisy():
    """The truth is at most 10 % apart, the noise 30 %: whatever is found is at least no slower than the default settings."""
    taken = 0
    for seed in range(200):
        rng = random.Random(seed)
        truth = {}

        def seconds(settings):
            return 1.0 if settings == Settings() else truth.setdefault(repr(settings), rng.uniform(0.9, 1.1))

        found = find(Lab(seconds, noise=0.3, seed=seed), seed=seed)
        assert seconds(found.settings) <= 1.0
        taken += found.settings != Settings()
    assert taken < 100


def test_a_gain_below_the_wanted_one_is_none():
    assert find(Lab(lambda s: 0.97 if s.io_binding else 1.0), gain=0.05).settings == Settings()
    assert find(Lab(lambda s: 0.97 if s.io_binding else 1.0), gain=0.02).settings == Settings(io_binding=True)


def test_what_was_luck_of_one_session_is_dropped():
    lab = Lab(lambda settings: 1.0, noise=0.01, luck=lambda settings, number: 0.7 if number == 2 else 1.0)
    found = find(lab)
    assert found.confirmed is not None and found.confirmed.verdict != "faster" and found.settings == Settings()
    assert "measured again" in tune._told(found, Settings(), 0.02)


def test_faster_in_every_block_is_asked_for():
    """As a whole faster, but slower in the last of three blocks: noise of sessions."""
    lab = Lab(lambda s: 0.8 if s.io_binding else 1.0, luck=lambda s, number: 1.5 if s.io_binding and number > 6 else 1.0)
    found = find(lab, changes=KNOBS["binding"])
    assert found.confirmed.ratio[2] < 1 and found.confirmed.verdict == "within noise" and found.settings == Settings()


def test_refused_settings_are_told_and_left():
    found = find(Lab(lambda settings: None if settings.graph_optimization_level == "basic" else factors(settings)))
    assert found.settings == Settings(intra_op_num_threads=1)
    assert [trial.verdict for trial in found.trials if trial.settings.graph_optimization_level == "basic"] == ["refused: it does not load"]


def test_rounds_that_other_work_disturbs_do_not_count():
    """One thread takes 1.5 times what all take, but three quarters of it beside other work: that is no reason to take one."""
    seconds = lambda settings: 1.5 if settings.intra_op_num_threads else 1.0
    for share in (0.3, 0.7):
        lab = Lab(seconds, noise=0.01)
        lab.busy = lambda now: now % 100 < 100 * share
        found = find(lab, changes=KNOBS["intra"], budget=2000)
        assert found.settings == Settings() and 0 < found.left_out < found.rounds
        assert f"{found.left_out} of {found.rounds} rounds don't count" in tune._told(found, Settings(), 0.02)
    lab = Lab(seconds, noise=0.01)
    lab.busy = lambda now: True
    found = find(lab, changes=KNOBS["intra"], budget=300)
    assert found.settings == Settings() and found.left_out == found.rounds and lab.now <= 300
    assert found.trials and all(trial.verdict.startswith("not measured") for trial in found.trials)
    assert find(lab, changes=KNOBS["intra"], budget=300, load=math.inf).settings.intra_op_num_threads == 1


def test_settings_that_fail_while_they_are_timed_are_refused():
    lab = Lab(factors)
    timed = lab.time

    def time(session):
        if session == pytest.approx(0.8):
            raise Refused("it fails now and then")
        return timed(session)

    lab.time = time
    found = find(lab)
    assert found.settings == Settings(intra_op_num_threads=1, graph_optimization_level="basic")
    assert found.trials[0].verdict == "refused: it fails now and then"


def test_comparisons_end_early():
    slow = [trial for trial in find(Lab(factors)).trials if trial.settings.graph_optimization_level == "disable"]
    assert slow and all(trial.verdict == "slower" and trial.rounds <= search.FEWEST for trial in slow)
    far = find(Lab(lambda s: 3.0 if s.io_binding else 1.0), changes=KNOBS["binding"]).trials
    assert [(trial.verdict, trial.rounds) for trial in far] == [("slower", 2)]


@pytest.mark.parametrize("taken", [0.001, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("budget", [1.0, 10.0, 60.0, 600.0])
def test_the_budget_is_kept(taken, budget):
    for seed in range(5):
        lab = Lab(lambda settings: factors(settings) * taken, noise=0.05, opening=0.5, seed=seed, end=budget)
        try:
            found = find(lab, budget, seed=seed)
        except OutOfTime:  # not even the default settings were run once
            assert budget < 0.5 + 2 * taken + 1
            continue
        # What runs at the end is ended by the lab (here at once); opening is not begun where it would go beyond.
        assert lab.now <= budget + max(0.5, 1.3 * 1.5 * taken * 2)
        if found.settings != Settings():
            assert found.confirmed.verdict == "faster" and factors(found.settings) < 1
        if budget >= 600 and taken <= 0.1:
            assert found.complete and found.settings.intra_op_num_threads == 1


def test_a_budget_that_ends_before_the_confirmation_keeps_the_defaults():
    lab = Lab(factors, opening=0.1)
    stop = lab.time

    def time(session):  # the settling never comes to its end
        if lab.now > 60:
            raise OutOfTime
        return stop(session)

    lab.time = time
    found = find(lab, budget=100)
    assert found.settings == Settings() and found.confirmed.verdict.startswith("not measured")


def test_the_changes_hold_the_way_back():
    chains = [(("CPUExecutionProvider", {}),)]
    changes = tune.changes(chains, [1, 2], [1, 2], {"session.mine": ["a", "b"]}, tune.KNOBS)
    for name in ("intra_op_num_threads", "inter_op_num_threads", "execution_mode", "graph_optimization_level", "io_binding"):
        assert any(change.get(name) == getattr(Settings(), name) for change in changes), name
    assert {"config_entries": {"session.mine": "b"}} in changes
    one = search.apply(Settings(), changes[-2])
    both = search.apply(one, {"config_entries": {"session.other": "a"}})
    assert one.config_entries == {"session.mine": "b"} and both.config_entries == {"session.mine": "b", "session.other": "a"}
    assert search.apply(one, changes[-1]) == Settings()
    only = tune.changes(chains, [1, 2], [1], {}, ["io_binding"])
    assert only == [{"io_binding": False}, {"io_binding": True}]


# ---- with ONNX Runtime ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ort():
    return pytest.importorskip("onnxruntime")


@pytest.fixture
def model(tmp_path):
    weights = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Gather", ["xw", "ids"], ["picked"], axis=1)]
    inputs = [value("x", TensorProto.FLOAT, ["batch", "seq", 8]), value("ids", TensorProto.INT64, ["few"])]
    path = tmp_path / "model.onnx"
    onnx.save(make_model(nodes, inputs, [value("picked", TensorProto.FLOAT, None)], [tensor("w", weights)]), path)
    return path


def command(*words):
    return subprocess.run([sys.executable, "-m", "onnx_saturate.tune", *map(str, words)], capture_output=True, text=True, timeout=300)


def test_the_command_writes_settings(ort, model, tmp_path):
    done = command(model, "--budget", "4", "--dim", "batch=2", "--intra", "1,2", "--knobs", "intra_op_num_threads,io_binding", "-o", tmp_path / "best.json")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "best.json").read_text())
    assert json.loads(done.stdout) == {"inference_settings": told["inference_settings"]}
    assert told["message"] in done.stderr
    assert told["inference_settings"]["execution_provider"] == ["CPUExecutionProvider"]
    assert told["inference_settings"]["session_options"]["graph_optimization_level"] == ort.GraphOptimizationLevel.ORT_ENABLE_ALL.value
    assert told["is_default"] == (told["confirmed"] is None or told["confirmed"]["verdict"] != "faster")
    tried = " ".join(trial["settings"] for trial in told["trials"])
    assert told["trials"] and not {"graph_optimization_level", "arena"} & set(tried.replace("=", " ").split())


def test_the_function(ort, model):
    lines = []
    tuned = tune.tune(model, budget=3, dims={"batch": 2}, knobs=["enable_cpu_mem_arena"], progress=lines.append)
    assert isinstance(tuned, tune.Tuned) and len(lines) >= 1
    feeds = {"x": np.ones((2, 3, 8), np.float32), "ids": np.array([0])}
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    np.testing.assert_array_equal(tuned.session(model).run(None, feeds)[0], expected[0])
    assert isinstance(tuned.session_options(), ort.SessionOptions)
    assert tuned.is_default or tuned.settings == Settings(enable_cpu_mem_arena=False)


def test_settings_reach_the_session(ort, model):
    settings = Settings(
        intra_op_num_threads=3, inter_op_num_threads=2, execution_mode="parallel", graph_optimization_level="basic", enable_cpu_mem_arena=False,
        enable_mem_pattern=False, config_entries={"session.intra_op.allow_spinning": "0"},
    )  # fmt: skip
    options = ort_lab.make_session(str(model), settings).get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 2)
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert not options.enable_cpu_mem_arena and not options.enable_mem_pattern
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    trial = search.Trial(settings, Settings(), "faster", (0.5, 0.4, 0.6), 9)
    tuned = tune.Tuned(settings, Settings(), "", [trial], trial, (2.0, 1.0), 60.0, 1.0, True, 30, 2)
    assert tuned.inference_settings == {
        "execution_provider": ["CPUExecutionProvider"],
        "provider_options": [{}],
        "io_bind": False,
        "tuning_op_result": None,
        "session_options": {
            "execution_mode": 1,
            "graph_optimization_level": 1,
            "extra_session_config": {"session.intra_op.allow_spinning": "0"},
            "inter_op_num_threads": 2,
            "intra_op_num_threads": 3,
            "enable_cpu_mem_arena": False,
            "enable_mem_pattern": False,
        },
    }
    json.dumps(tuned.to_dict(), allow_nan=False)


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_all_settings_run_in_the_lab(ort, model):
    """Each change, alone: opened, timed, with the same outputs, bound or not."""
    feeds = {"x": np.ones((2, 3, 8), np.float32), "ids": np.array([0])}
    deadline = ort_lab.Deadline(time.perf_counter() + 600)
    lab = ort_lab.OrtLab(str(model), feeds, deadline, None)
    default = lab.open(Settings())
    chains = tune._chains(["CPUExecutionProvider"])
    for change in tune.changes(chains, [1, 2], [1, 2], {}, tune.KNOBS):
        session = lab.open(search.apply(Settings(), change))
        assert lab.time(session) > 0
        np.testing.assert_allclose(session.run()[0], default.run()[0], rtol=1e-6)
        lab.close(session)
    lab._expected = [lab._expected[0] + 1]
    with pytest.raises(Refused, match="outputs differ"):
        lab.open(Settings(io_binding=True))
    with pytest.raises(Refused):
        lab.open(Settings(providers=(("NoSuchProvider", {}),)))
    deadline.cancel()


def test_a_run_is_ended_with_the_budget(ort):
    """A loop that would go on for years."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Add", ["s", "one"], ["s_out"])], "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [4])],
        [value("c_out", TensorProto.BOOL, []), value("s_out", TensorProto.FLOAT, [4])], [tensor("one", np.float32(1))],
    )  # fmt: skip
    forever = [tensor("often", np.int64(2**62)), tensor("go", np.bool_(True))]
    model = make_model([helper.make_node("Loop", ["often", "go", "x"], ["y"], body=body)], [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [4])], forever)
    with pytest.raises(onnx_saturate.OptionError, match="budget: 1 s are not enough"):
        tune.tune(model, budget=1, inputs={"x": np.ones(4, np.float32)})


def test_inputs_are_drawn_by_the_declared_shapes(ort):
    types = {"f": TensorProto.FLOAT, "h": TensorProto.FLOAT16, "i": TensorProto.INT32, "b": TensorProto.BOOL, "s": TensorProto.STRING, "u": TensorProto.UINT8}
    nodes = [helper.make_node("Identity", [name], [name + "_out"]) for name in types]
    shape = ["n", "t", 3, "n"]
    model = make_model(nodes, [value(name, t, shape) for name, t in types.items()], [value(name + "_out", t, shape) for name, t in types.items()])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    deadline = ort_lab.Deadline(time.perf_counter() + 600)
    deadline.cancel()
    feeds = ort_lab.drawn(session, {"t": 5}, 0, deadline)
    assert {name: array.shape for name, array in feeds.items()} == dict.fromkeys(types, (1, 5, 3, 1))
    assert feeds["h"].dtype == np.float16 and set(np.unique(feeds["i"])) <= {0, 1} and feeds["b"].dtype == np.bool_
    again = ort_lab.drawn(session, {"t": 5}, 0, deadline)
    np.testing.assert_array_equal(feeds["f"], again["f"])
    with pytest.raises(onnx_saturate.OptionError, match="dims: no input has a dim q; there are: n, t"):
        ort_lab.drawn(session, {"q": 5}, 0, deadline)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"budget": 0}, "budget: 0 is not seconds above 0"),
        ({"budget": math.nan}, "budget: nan is not"),
        ({"gain": 1}, "gain: 1 is not a share"),
        ({"confidence": 0.2}, "confidence: 0.2 is not a share"),
        ({"max_load": 0}, "max_load: 0 is not a share"),
        ({"knobs": ["threads"]}, "knobs: threads is none; there are: providers, "),
        ({"providers": ["NoExecutionProvider"]}, "providers: NoExecutionProvider is not there; there are: .*CPUExecutionProvider"),
        ({"providers": []}, "providers: none is given"),
        ({"intra": [-1]}, "intra: -1 is no number of threads"),
        ({"inputs": {"x": np.ones((1, 2, 8), np.float32)}}, "inputs: ids is missing; the model takes: x, ids"),
        ({"inputs": {"x": np.ones(3, np.float32), "ids": np.array([0])}}, "inputs: the model does not run on these"),
    ],
)
def test_wrong_options_are_named(ort, model, options, message):
    with pytest.raises(onnx_saturate.OptionError, match=message):
        tune.tune(model, **options)


def test_errors_of_the_command(ort, model, tmp_path):
    for words, code, text in (
        ([tmp_path / "none.onnx"], 1, "there is no such file"),
        ([model, "--inputs", tmp_path / "none.npz"], 1, "can't be read as an .npz"),
        ([model, "--provider", "CPUExecutionProvider=3"], 2, "--provider: '3' is no JSON object"),
        ([model, "--intra", "a"], 2, "--intra: 'a' is not whole numbers"),
        ([model, "--dim", "batch"], 2, "--dim: 'batch' is not SYMBOL=SIZE"),
        ([model, "-o", tmp_path / "no" / "x.json"], 1, "its folder does not exist"),
    ):
        done = command(*words, "--budget", "2")
        assert done.returncode == code and text in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_without_onnxruntime(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(onnx_saturate.UnsupportedError, match="onnxruntime is not installed; pip install onnxruntime"):
        tune.tune(model)
