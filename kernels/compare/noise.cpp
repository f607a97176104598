#include "kernels/compare/noise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <span>

#include "kernels/core/buffer.h"
#include "kernels/inputs/widened.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

// std::minstd_rand's numbers modulo 3, less 1, many at a time. They are told in strands, each of which takes as many steps at once as there
// are strands: one alone would wait for its last number.
constexpr std::size_t kStrands = 16, kMovesAtOnce = 16 * kStrands;
constexpr std::uint64_t kModulus = std::minstd_rand::modulus;
constexpr std::uint64_t kFactor = [] {
  std::uint64_t factor = 1;
  for (std::size_t i = 0; i < kStrands; ++i) factor = factor * std::minstd_rand::multiplier % kModulus;
  return factor;
}();

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"), gnu::optimize("O3")]] void next_moves(std::uint32_t* strands,
                                                                                                           std::int8_t* moves) {
  for (std::size_t at = 0; at < kMovesAtOnce; at += kStrands) {
    for (std::size_t i = 0; i < kStrands; ++i) {
      moves[at + i] = static_cast<std::int8_t>(static_cast<int>(strands[i] % 3) - 1);
      const std::uint64_t product = strands[i] * kFactor;
      const auto sum = static_cast<std::uint32_t>((product & kModulus) + (product >> 31));  // the modulus is 2^31 - 1
      strands[i] = std::min(sum, sum - static_cast<std::uint32_t>(kModulus));               // wraps below it
    }
  }
}

// Calls f(i, move) for each i below n; a move is -1, 0 or 1.
template <typename F>
void for_each_move(std::int64_t n, std::uint32_t seed, const F& f) {
  std::minstd_rand random(seed);
  std::array<std::uint32_t, kStrands> strands;
  for (std::uint32_t& strand : strands) strand = static_cast<std::uint32_t>(random());
  std::array<std::int8_t, kMovesAtOnce> moves;
  constexpr auto kAtOnce = static_cast<std::int64_t>(kMovesAtOnce);
  for (std::int64_t begin = 0; begin < n; begin += kAtOnce) {
    next_moves(strands.data(), moves.data());
    for (std::int64_t i = begin, end = std::min(n, begin + kAtOnce); i < end; ++i) f(i, moves[static_cast<std::size_t>(i - begin)]);
  }
}

// Floats moved by up to one unit in the last place.
template <typename T>
void move_floats(const Tensor& t, std::uint32_t seed, std::byte* out) {
  T* to = reinterpret_cast<T*>(out);
  const T* from = t.data<T>();
  constexpr T kUnit = std::numeric_limits<T>::epsilon();
  constexpr T kFactors[] = {1 - kUnit, 1, 1 + kUnit};
  for_each_move(t.size(), seed + 1, [&](std::int64_t i, int by) { to[i] = from[i] * kFactors[by + 1]; });
}

// float16 and bfloat16 by their bits, away from 0, infinities and NaN.
void move_halves(const Tensor& t, std::uint32_t seed, std::byte* out) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(t.bytes().data());
  auto* to = reinterpret_cast<std::uint16_t*>(out);
  const std::uint16_t exponent = t.dtype() == DType::kFloat16 ? 0x7c00 : 0x7f80;
  for_each_move(t.size(), seed + 1, [&](std::int64_t i, int by) {
    const bool moves = (from[i] & 0x7fff) > 1 && (from[i] & 0x7fff) + 1 < exponent;
    to[i] = static_cast<std::uint16_t>(from[i] + (moves ? by : 0));
  });
}

bool can_move(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

void move_by_one(const Tensor& t, std::uint32_t seed, std::byte* out) {
  if (t.dtype() == DType::kFloat) return move_floats<float>(t, seed, out);
  t.dtype() == DType::kDouble ? move_floats<double>(t, seed, out) : move_halves(t, seed, out);
}

Tensor moved_by_one(const Tensor& t, std::uint32_t seed) {
  Tensor out(t.dtype(), t.dims());
  move_by_one(t, seed, out.mutable_data());
  return out;
}
// In memory of `pool`: fresh memory would be paid for page by page, for each tensor of a run.
Tensor moved_by_one(const Tensor& t, std::uint32_t seed, BufferPool& pool) {
  const std::size_t bytes = t.bytes().size();
  std::shared_ptr<std::byte> out = pool.get(bytes);
  if (out == nullptr) throw std::bad_alloc();
  move_by_one(t, seed, out.get());
  const std::span<const std::byte> view(out.get(), bytes);
  return Tensor(t.dtype(), t.dims(), std::shared_ptr<const void>(std::move(out)), view);
}

bool has_floats(const Inputs& inputs) {
  for (const auto& [name, value] : inputs)
    if (value.is_tensor() && can_move(value.tensor().dtype())) return true;
  return false;
}

// The model with its weights moved alike. Single numbers stay (an exponent, a limit, a shape's factor), and large weights, so that they are
// not held twice. Where inputs stay on edges, so do the rows of few numbers that edges may be.
Model nudged(const Model& model, int run, bool inputs_stay) {
  constexpr std::int64_t kMost = 1 << 16, kFew = 16;
  Model out = model;
  for (Initializer& weight : out.graph.initializers) {
    Tensor& t = weight.tensor;
    if (weight.sparse || t.size() <= (inputs_stay ? kFew : 1) || t.size() > kMost || !can_move(t.dtype())) continue;
    t = moved_by_one(t, static_cast<std::uint32_t>(run) + static_cast<std::uint32_t>(t.size()));
    weight.origin = nullptr;
  }
  return out;
}

absl::StatusOr<Ran> run_once(const NoiseOf& original, const OpenModel& open, const Model& model, const Inputs& inputs) {
  const absl::StatusOr<RunOnce> run = open(model);
  return run.ok() ? (*run)(inputs, original.limits) : run.status();
}

void learn(const NoiseOf& original, const absl::StatusOr<Ran>& again, std::vector<Noise>& noise) {
  for (std::size_t i = 0; again.ok() && i < original.outputs.size(); ++i) noise[i].learn(original.outputs[i], again->outputs[i]);
}

// What the rounding to 16 bits makes of all values of the model: a run in float.
void learn_from_floats(const NoiseOf& original, std::vector<Noise>& noise) {
  const std::optional<Model> wide = widened(original.model, original.limits.memory / 2);
  if (!wide) return;
  const absl::StatusOr<Ran> ran = run_once(original, original.open, *wide, widened(original.inputs));
  for (std::size_t i = 0; ran.ok() && i < original.outputs.size(); ++i)
    if (original.in_16_bits[i]) noise[i].learn(original.outputs[i], narrowed(ran->outputs[i], original.outputs[i]));
}

// What operators compute, moved by up to one unit in the last place: each may be rounded so, and a difference of two that are nearly equal
// holds little else.
void learn_from_moved_values(const NoiseOf& original, std::uint32_t run, std::vector<Noise>& noise) {
  SessionOptions options = original.options;
  options.prepare = false;
  std::uint32_t seed = run;
  const auto pool = std::make_shared<BufferPool>(true, false);
  options.after_node = [&](const Node& node, std::vector<Value>& made) {
    if (node.inputs.empty() || has(Trait::kMovement, node) || has(Trait::kSelection, node) || node.op_type == "Cast") return;
    for (Value& value : made)
      if (value.is_tensor() && can_move(value.tensor().dtype()) && !is_16_bit_float(value.tensor().dtype()) && value.tensor().size() > 0)
        value = moved_by_one(value.tensor(), ++seed, *pool);
  };
  learn(original, run_once(original, open_here(options), original.model, original.inputs), noise);
}

}  // namespace

Inputs moved_inputs(Inputs inputs, int run) {
  for (auto& [name, value] : inputs)
    if (value.is_tensor() && can_move(value.tensor().dtype()) && value.tensor().size() > 0)
      value = moved_by_one(value.tensor(), static_cast<std::uint32_t>(run));
  return inputs;
}

DType coarsest_float(const Model& model, Bodies bodies) {
  DType coarsest = DType::kDouble;
  const auto see = [&](DType dtype) {
    if (is_floating(dtype) && bit_width(dtype) >= 16 && dtype_tolerance(dtype) > dtype_tolerance(coarsest)) coarsest = dtype;
  };
  std::set<std::string> given;  // attributes of calls that functions take as a type
  const auto see_nodes = [&](const auto& self, const std::vector<Node>& nodes) -> void {
    for (const Node& node : nodes) {
      for (const Attribute& a : node.attributes) {
        const bool is_type = a.type == AttributeType::kInt && (a.name == "to" || given.contains(a.name));
        if (is_type && !a.ref.empty())
          given.insert(a.ref);
        else if (is_type)
          see(static_cast<DType>(a.i()));
        else if (std::holds_alternative<Tensor>(a.value) && bodies == Bodies::kToo)
          see(a.t().dtype());
      }
      if (bodies == Bodies::kNot) continue;
      for_each_body(node, [&](const Graph& body) {
        for (const Initializer& initializer : body.initializers) see(initializer.tensor.dtype());
        self(self, body.nodes);
      });
    }
  };
  for (const ValueInfo& input : model.graph.inputs) see(input.type.dtype);
  for (const Initializer& initializer : model.graph.initializers) see(initializer.tensor.dtype());
  see_nodes(see_nodes, model.graph.nodes);
  // A call hands on what its own function was given: again as long as something new is given.
  for (std::size_t known = bodies == Bodies::kToo ? given.size() + 1 : given.size(); known != given.size();) {
    known = given.size();
    for (const Function& f : model.functions) see_nodes(see_nodes, f.nodes);
    if (!given.empty()) see_nodes(see_nodes, model.graph.nodes);
  }
  return coarsest;
}

void measure_noise(const NoiseOf& original, std::vector<Noise>& noise, const std::function<bool()>& enough) {
  constexpr int kMoves = 11;
  const bool floats = has_floats(original.inputs) && !original.inputs_stay;
  if (std::find(original.in_16_bits.begin(), original.in_16_bits.end(), true) != original.in_16_bits.end()) {
    learn_from_floats(original, noise);
    if (enough()) return;
  }
  for (std::uint32_t run = 0; run < 2 && !original.between_steps; ++run) {
    learn_from_moved_values(original, 1000 * run, noise);
    if (enough()) return;
  }
  for (int move = 0; move < kMoves; ++move) {
    if (move < 2 && !floats) continue;
    if (move < 2)
      learn(original, original.run(moved_inputs(original.inputs, move), original.limits), noise);
    else
      learn(original,
            run_once(original, original.open, nudged(original.model, move, original.inputs_stay),
                     floats ? moved_inputs(original.inputs, move) : original.inputs),
            noise);
    if (enough()) return;
  }
}

void measure_exactly(const NoiseOf& original, std::initializer_list<std::vector<Noise>*> noise) {
  SessionOptions in_double = original.options;
  in_double.reference = true;
  const absl::StatusOr<Ran> exact = run_once(original, open_here(in_double), original.model, original.inputs);
  for (std::vector<Noise>* one : noise) learn(original, exact, *one);
}

bool overflows_somewhere(const Model& model, SessionOptions options, const RunLimits& limits, const Inputs& inputs) {
  options.check_finite = true;
  const auto session = Session::create(model, options);
  return session.ok() && absl::IsOutOfRange(session->run(inputs, nullptr, limits).status());
}

bool leaves_its_range(const Model& model, SessionOptions options, const RunLimits& limits, const Inputs& inputs) {
  options.check_underflow = true;
  return overflows_somewhere(model, options, limits, inputs);
}

}  // namespace saturate
