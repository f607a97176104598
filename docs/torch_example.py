"""From PyTorch to ONNX Runtime by way of saturate: export, optimize, run, compare.

usage: torch_example.py       (needs torch, onnxscript and onnxruntime)
"""
import numpy as np
import onnxruntime
import torch

import onnx_saturate


class Block(torch.nn.Module):
    """Self-attention and a feed-forward part, as in any transformer, written by hand."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (torch.nn.Linear(width, width) for _ in range(4))
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape

        def split(t):
            return t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = torch.softmax(q @ k.transpose(2, 3) * (width // self.heads) ** -0.5, dim=-1)
        x = self.first(x + self.o((scores @ v).transpose(1, 2).reshape(batch, length, width)))
        return self.second(x + self.down(torch.nn.functional.gelu(self.up(x))))


def main():
    torch.manual_seed(0)
    network, x = Block().eval(), torch.randn(2, 5, 64)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    program = torch.onnx.export(network, (x,), dynamo=True, dynamic_shapes=({0: batch, 1: length},))
    model = program.model_proto
    optimized, report = onnx_saturate.optimize_with_report(model, target="ort-cpu", cost="nodes")
    print(report)
    session = onnxruntime.InferenceSession(optimized.SerializeToString(), providers=["CPUExecutionProvider"])
    for shape in ((2, 5, 64), (1, 9, 64)):
        x = torch.randn(*shape)
        (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(output, network(x).detach().numpy(), rtol=1e-3, atol=1e-4)
    print("the same as PyTorch")


main()
