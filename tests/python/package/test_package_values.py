"""What the package gives: it goes from process to process, is told by logging, and is a mapping that prints."""
import concurrent.futures
import json
import logging
import multiprocessing
import pickle
import warnings

import numpy as np
import onnx
import pytest
from conftest import DATA, make_model, tensor, value
from onnx import TensorProto, helper

try:
    from onnxscript import FLOAT, script  # of the module: onnxscript looks for annotations there
    from onnxscript import opset18 as op
except ImportError:
    script = None

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
BART = DATA / "bart_encoder.onnx"
WRONG = 'opset "" 18\nrule wrong (X) => (Y)\n  { Y = Relu (X) }\n  =>\n  { Y = Abs (X) }\n  example X = float[2,3]\n'


def relus(n=2, weight=None):
    nodes = [helper.make_node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(n)]
    nodes.append(helper.make_node("MatMul", [f"v{n}", "w"], ["y"]))
    weights = [tensor("w", np.eye(4, dtype=np.float32) if weight is None else weight)]
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])], weights)


def again(one):
    return pickle.loads(pickle.dumps(one))


# From process to process

def test_a_report_comes_back():
    report = onnx_saturate.optimize_with_report(BART).report
    back = again(report)
    assert back == report and hash(back) == hash(report) and back is not report
    assert back.to_dict() == report.to_dict() and str(back) == str(report) and back.table(rules=True) == report.table(rules=True)
    assert back._repr_html_() == report._repr_html_() and back.not_fused == report.not_fused and again(back) == report
    assert report != onnx_saturate.optimize_with_report(relus()).report and report != 3


@pytest.mark.parametrize("kind", ["proto", "bytes", "path", "ir"])
def test_optimized_comes_back(kind, tmp_path):
    if kind == "ir":
        ir = pytest.importorskip("onnx_ir")
        one = onnx_saturate.optimize_with_report(ir.from_proto(relus()))
        back = again(one)
        assert isinstance(back.model, ir.Model) and ir.to_proto(back.model) == ir.to_proto(one.model) and back.report == one.report
        return
    given = {"proto": relus(), "bytes": relus().SerializeToString(), "path": relus()}[kind]
    one = onnx_saturate.optimize_with_report(given, tmp_path / "out.onnx" if kind == "path" else None)
    assert again(one) == one and type(again(one)) is onnx_saturate.Optimized


def test_other_results_come_back():
    result = onnx_saturate.optimize(BART)
    results = [
        onnx_saturate.verify(BART, result), onnx_saturate.diff(BART, result), onnx_saturate.prove(relus(), relus(1)), onnx_saturate.inspect(BART),
        onnx_saturate.explain(BART), onnx_saturate.transform_with_report(relus(), "strip_metadata"), onnx_saturate.bench(relus(), iterations=3),
    ]  # fmt: skip
    for one in results:
        assert again(one) == one and type(again(one)) is type(one) and str(again(one)) == str(one)
    assert results[1] != onnx_saturate.diff(BART, BART)


def test_errors_come_back():
    def caught(call):
        with pytest.raises(onnx_saturate.Error) as info:
            call()
        return info.value

    wrong = onnx_saturate.RuleSet.from_text(WRONG, "wrong.rules")
    costs = lambda op: 100 if op.op_type == "Relu" else 1  # noqa: E731
    errors = [
        caught(lambda: onnx_saturate.optimize(b"rubbish")), caught(lambda: onnx_saturate.optimize("no/such.onnx")),
        caught(lambda: onnx_saturate.optimize(BART, threads=-1)),
        caught(lambda: onnx_saturate.optimize(relus(), rules=wrong, cost=costs, strict_verify=True)),
        onnx_saturate.UnsupportedError("it can't be run"),
    ]  # fmt: skip
    kinds = [onnx_saturate.Error, onnx_saturate.MissingFileError, onnx_saturate.OptionError, onnx_saturate.VerificationError, onnx_saturate.UnsupportedError]
    assert [type(error) for error in errors] == kinds
    for error in errors:
        back = again(error)
        assert type(back) is type(error) and str(back) == str(error) and back.code == error.code and back.__dict__ == error.__dict__
    assert again(errors[1]).filename == "no/such.onnx" and again(errors[1]).errno == errors[1].errno
    assert again(errors[3]).report.to_dict()["verify"]["status"] == "different"


def test_rule_sets_come_back(tmp_path):
    (tmp_path / "mine.rules").write_text(WRONG)
    for rules in (onnx_saturate.RuleSet.builtin().without("function_by_hand"), onnx_saturate.RuleSet.from_text(WRONG), onnx_saturate.RuleSet.none() + (tmp_path / "mine.rules")):
        assert list(again(rules)) == list(rules) and len(rules) and all(again(rules).show(name) == rules.show(name) for name in list(rules)[:3])


def _task(model):
    return onnx_saturate.optimize_with_report(model, target="ort-cpu@1.20")


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_process_pool(start):
    """The same as one after the other, errors too."""
    models = [relus(n, np.full((4, 4), n, np.float32)) for n in (1, 2, 3)] + [onnx.load(BART)]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(start)) as pool:
        found = list(pool.map(_task, models))
        with pytest.raises(onnx_saturate.MissingFileError, match="no/such.onnx"):
            pool.submit(_task, "no/such.onnx").result()
    serial = [_task(model) for model in models]
    assert [one.model.SerializeToString(deterministic=True) for one in found] == [one.model.SerializeToString(deterministic=True) for one in serial]
    for one, other in zip(found, serial):
        a, b = one.report.to_dict(), other.report.to_dict()
        assert a.keys() == b.keys() and all(a[key] == b[key] for key in ("before", "after", "target", "made_by_rules", "not_fused", "warnings"))


# Told by logging

def test_logging(caplog):
    caplog.set_level(logging.DEBUG, "onnx_saturate")
    _, report = onnx_saturate.optimize_with_report(BART)
    told = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "onnx_saturate"]
    stages = [text for level, text in told if level == logging.INFO]
    assert list(dict.fromkeys(stages)) == ["lower", "saturate", "extract", "emit", "verify", f"{BART}: {report.summary}"]
    rounds = [text for level, text in told if level == logging.DEBUG]
    assert rounds and all(text.startswith("saturate: round ") and text.endswith(" e-nodes") for text in rounds)


def test_warnings_are_logged_too(caplog):
    wrong = onnx_saturate.RuleSet.from_text(WRONG, "wrong.rules")
    with pytest.warns(RuntimeWarning, match="rule wrong") as caught:
        onnx_saturate.optimize(relus(), rules=wrong, cost=lambda op: 100 if op.op_type == "Relu" else 1)
    assert caught[0].filename == __file__
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [str(one.message) for one in caught]


def test_nothing_is_said_where_nobody_listens(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx_saturate.optimize(relus(), rules=onnx_saturate.RuleSet.from_text(WRONG), cost=lambda op: 100 if op.op_type == "Relu" else 1)
    assert capfd.readouterr() == ("", "")
    assert not any(type(handler) is not logging.NullHandler for handler in logging.getLogger("onnx_saturate").handlers)


def test_progress_and_log_at_once(caplog):
    caplog.set_level(logging.INFO, "onnx_saturate")
    stages = []
    onnx_saturate.optimize(relus(), progress=lambda stage, iteration, nodes: stages.append(stage))
    told = [record.getMessage() for record in caplog.records]
    assert list(dict.fromkeys(stages)) == list(dict.fromkeys(told))[:-1]


# Results are mappings that print

def test_inspected():
    found = onnx_saturate.inspect(BART)
    assert found["nodes"] == 125 and json.loads(json.dumps(found)) == found == found.to_dict() and type(found.to_dict()) is dict
    assert repr(found) == "<onnx_saturate.Inspected: 125 nodes, 77,653 parameters, opsets ai.onnx 18>" and "Softmax             2" in str(found)
    assert {"operator": "Softmax", "count": 2} in found.rows() and found.rows("inputs")[0]["name"] == "input_ids"
    assert found.rows("fused") and found.rows("outputs") and found.rows("initializers")[1]["type"] == "float"
    assert found._repr_html_().count("<tr>") == len(found["operators"]) + 1
    with pytest.raises(onnx_saturate.OptionError, match="operators, fused, inputs"):
        found.rows("nodes")


def test_explained():
    found = onnx_saturate.explain(BART)
    kinds = {row["kind"]: row for row in found.rows()}
    assert kinds["attention"]["found"] == kinds["attention"]["expected"] == 2 and "attention" in str(found) and "predicted" in repr(found)
    asked = onnx_saturate.explain(BART, "Attention")
    assert [row["op_type"] for row in asked.rows()] == ["Softmax", "Softmax"] and asked.rows("rules")[0]["applied"] and "Softmax" in str(asked)
    missing = onnx_saturate.explain(BART, target="onnx", opset=18)
    assert any(row["rest"] and "opset" in row["rest"][0] for row in missing.rows()), missing.rows()


def test_benched():
    found = onnx_saturate.bench(relus(), relus(1), iterations=5)
    assert found.seconds == found["models"][0]["seconds"]["median"] > 0 and found.ratio == found["ratio"]["median"]
    assert len(found.rows("runs")) == 10 and {row["op_type"] for row in found.rows("operators")} >= {"MatMul"} and len(found.rows()) == 2
    assert onnx_saturate.bench(relus(), iterations=3).ratio is None and " ms in saturate" in repr(found)


def test_dataframes():
    found = onnx_saturate.inspect(BART)
    try:
        import pandas
    except ImportError:
        with pytest.raises(onnx_saturate.UnsupportedError, match="pip install pandas"):
            found.to_dataframe()
        return
    frame = found.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == ["operator", "count"] and frame["count"].sum() == 125
    assert len(onnx_saturate.bench(relus(), iterations=4).to_dataframe("runs")) == 4 and len(onnx_saturate.explain(BART).to_dataframe())


# Functions of onnxscript

class Script:
    """What onnxscript.script() makes, as far as we ask it."""

    def __init__(self, write):
        self.name = "block"
        self.to_model_proto = write


def test_a_function_of_onnxscript_by_its_method():
    model = relus()
    assert onnx_saturate.optimize(Script(lambda: model)) == onnx_saturate.optimize(model)
    assert onnx_saturate.verify(Script(lambda: model), model) and onnx_saturate.inspect(Script(lambda: model))["nodes"] == 3
    with pytest.raises(onnx_saturate.OptionError, match="block: it can't be written as a model: no type of x; annotate"):
        onnx_saturate.optimize(Script(lambda: (_ for _ in ()).throw(ValueError("no type of x"))))
    with pytest.raises(TypeError, match="gives no onnx.ModelProto, but a str"):
        onnx_saturate.optimize(Script(lambda: "text"))


@pytest.mark.skipif(script is None, reason="onnxscript is not installed: pip install onnxscript")
def test_a_function_of_onnxscript():
    @script(default_opset=op)
    def block(x: FLOAT[4, 8]) -> FLOAT[4, 8]:
        return op.Relu(op.Relu(x))

    assert [node.op_type for node in onnx_saturate.optimize(block, cost="nodes").graph.node] == ["Relu"]
