"""Every false rule that changes a defined number beyond the tolerance is caught by verification: it is left out, or nothing is written."""
import json
import re

import pytest

from conftest import run
from false_rules import FALSE_RULES

DEAR, CHEAP = 10, 1


def operators(text):
    return set(re.findall(r"= ([A-Z]\w+) [(<]", text))


def rule_text(rule):
    examples = ", ".join(f"{name} = {example}" for name, (_, example) in rule.inputs.items())
    weights = re.findall(r"(\w+)(\[[\d, ]*\])? (\w+) = ({[^}]*})", rule.weights)
    inputs = ", ".join([*rule.inputs, *(name for _, _, name, _ in weights)])
    given = "".join(f", {name} = {dtype}{(dims or '[]').replace(' ', '')} {values.replace(' ', '')}" for dtype, dims, name, values in weights)
    where = f"  where {rule.where}\n" if rule.where else ""
    return f'opset "" 22, com.microsoft 1\n\nrule wrong ({inputs}) => (Y)\n  {{ {rule.left} }}\n{where}  =>\n  {{ {rule.right} }}\n  example {examples}{given}\n'


def model_text(rule):
    inputs = ", ".join(f"{kind} {name}" for name, (kind, _) in rule.inputs.items())
    weights = f" <{rule.weights}>" if rule.weights else ""
    return f'<ir_version: 10, opset_import: ["" : 21]>\ng ({inputs}) => ({rule.output}){weights} {{ {rule.left} }}'


@pytest.mark.parametrize("rule", FALSE_RULES, ids=lambda rule: rule.name.replace(" ", "_"))
def test_a_false_rule_is_caught(tmp_path, rule):
    import onnx

    onnx.save(onnx.parser.parse_model(model_text(rule)), tmp_path / "m.onnx")
    (tmp_path / "my.rules").write_text(rule_text(rule))
    left, right = operators(rule.left), operators(rule.right)
    costs = {op: CHEAP for op in right - left} | {"Constant": 0}
    (tmp_path / "costs.json").write_text(json.dumps({"costs": costs, "default": DEAR * 10 if left - right and not rule.signed else DEAR}))
    done = run("m.onnx", "out.onnx", "--rules", "none", "--rules", "my.rules", "--cost", "costs.json", "--report", "r.json", cwd=tmp_path)
    if done.returncode == 3:
        assert "verification failed" in done.stderr and not (tmp_path / "out.onnx").exists()
        return
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "r.json").read_text())
    assert [out["rule"] for out in told["left_out"]] == ["wrong"], (done.stdout, {r["rule"]: r["applied"] for r in told["saturation"]["rules"]})


def test_there_are_as_many_as_were_asked_for():
    assert len({rule.name for rule in FALSE_RULES}) == len(FALSE_RULES) >= 77
