// Loads and runs models in onnxruntime-web under node: bench/runtime/ort_web.py says how it is called.
//
//     node ort_web.mjs FOLDER wasm|webgpu|webgpu-native < cases
//
// FOLDER has node_modules. A case is a line of JSON: {"model": path, "feeds": {name: {"type", "dims", "data": base64}}}.
// What comes out is a line for each: {"model", "loads", "outputs"} or {"model", "loads", "error"}.
// `webgpu` are the kernels in TypeScript, `webgpu-native` those in C++ (onnxruntime-web has both);
// both want the package `webgpu` beside it, and a Vulkan driver (VK_ICD_FILENAMES names one of Chromium's, which needs no GPU).
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, provider] = process.argv.slice(2);
const require = createRequire(path.resolve(folder, "package.json"));
const dist = path.join(folder, "node_modules", "onnxruntime-web", "dist");
const builds = {
  wasm: ["ort.node.min.mjs", "ort-wasm-simd-threaded.wasm"],
  webgpu: ["ort.all.bundle.min.mjs", "ort-wasm-simd-threaded.jsep.wasm"],
  "webgpu-native": ["ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm"],
};

// What a browser has and node lacks.
async function become_a_browser() {
  const { create, globals } = await import(pathToFileURL(require.resolve("webgpu")));
  Object.assign(globalThis, globals);
  globalThis.GPUSupportedFeatures.prototype.forEach ??= function (visit) {
    for (const feature of this) visit(feature);
  };
  Object.defineProperty(globalThis, "navigator", { value: { gpu: create([]), userAgent: "node", hardwareConcurrency: 1 } });
}

const arrays = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int64: BigInt64Array, uint64: BigUint64Array,
  int32: Int32Array, uint32: Uint32Array, int16: Int16Array, uint16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
};

function decode(ort, { type, dims, data }) {
  const bytes = Buffer.from(data, "base64");
  const own = new Uint8Array(bytes).buffer; // aligned
  return new ort.Tensor(type, new arrays[type](own), dims);
}

function encode(tensor) {
  const { buffer, byteOffset, byteLength } = tensor.data;
  return { type: tensor.type, dims: tensor.dims, data: Buffer.from(buffer, byteOffset, byteLength).toString("base64") };
}

async function judge(ort, { model, feeds }) {
  let loads = false;
  try {
    const options = { executionProviders: [provider === "wasm" ? "wasm" : "webgpu"], logSeverityLevel: 4 };
    const session = await ort.InferenceSession.create(fs.readFileSync(model), options);
    loads = true;
    const given = Object.fromEntries(session.inputNames.map((name) => [name, decode(ort, feeds[name])]));
    const got = await session.run(given);
    const outputs = Object.fromEntries(Object.entries(got).map(([name, tensor]) => [name, encode(tensor)]));
    await session.release();
    return { model, loads, outputs };
  } catch (error) {
    return { model, loads, error: String(error).slice(0, 400) };
  }
}

if (provider !== "wasm") await become_a_browser();
const [script, binary] = builds[provider];
const ort = await import(pathToFileURL(path.resolve(dist, script)));
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = fs.readFileSync(path.join(dist, binary));
ort.env.logLevel = "fatal";
for await (const line of readline.createInterface({ input: process.stdin })) {
  const row = await judge(ort, JSON.parse(line));
  fs.writeSync(1, JSON.stringify(row) + "\n");
  if ("error" in row && provider !== "wasm") break; // A kernel that fails leaves the provider unfit for the next session.
}
process.exit(0); // Dawn keeps node alive.
