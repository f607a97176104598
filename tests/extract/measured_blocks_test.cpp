// Attention as a whole, beside products and cache: which form pays at which length of the past, timed end to end as in
// measured_flips_test.cpp.
#include "flips.h"

namespace saturate::flips {
namespace {

constexpr double kHidden = 768, kHeads = 12, kSize = 64;

// Scores, Softmax and values of heads apart. ONNX Runtime takes the transposition of the keys and the scale into the product.
std::vector<OpUse> core(const Shape& q, double keys, bool masked) {
  const double groups = q[1], rows = q[2];
  const Shape k{1, groups, keys, kSize}, p{1, groups, rows, keys}, mask{1, 1, rows, keys};
  std::vector<OpUse> uses{
      use("com.microsoft::FusedMatMul", {q, k}, p, {}, {Attribute::of("alpha", 0.125F), Attribute::of("transB", std::int64_t{1})})};
  if (masked) uses.push_back(use("Add", {p, mask}, p));
  return std::move(uses) + std::vector{unary("Softmax", p), use("MatMul", {p, k}, q)};
}

OpUse attention(const std::string& op, double rows, double past, double groups, bool masked) {
  const Shape q{1, rows, kHidden}, k{1, rows, groups * kSize}, cache{1, groups, past, kSize}, joined{1, groups, past + rows, kSize};
  std::vector<Shape> inputs{q, k, k};
  if (masked) inputs.push_back({1, 1, rows, past + rows});
  if (past > 0) inputs.insert(inputs.end(), {cache, cache});
  std::vector<Attribute> attributes{Attribute::of("num_heads", std::int64_t{12})};
  if (op == "Attention")
    attributes = {Attribute::of("q_num_heads", std::int64_t{12}), Attribute::of("kv_num_heads", static_cast<std::int64_t>(groups))};
  OpUse u = use(op, std::move(inputs), q, {}, std::move(attributes));
  if (past > 0) u.outputs = {q, joined, joined};
  return u;
}

OpUse concat(const Shape& a, const Shape& b, Shape joined, std::int64_t axis) {
  return use("Concat", {a, b}, std::move(joined), {}, {Attribute::of("axis", axis)});
}

OpUse join(double groups, double past) { return concat({1, groups, past, kSize}, {1, groups, 1, kSize}, {1, groups, past + 1, kSize}, 2); }

// A step of GPT-2: one product for Q, K and V, then attention to the past, then the product after it. `packed` 0: with a short past it
// depends on whether the cache lies near (measured 1.00; the rows are timed with one that does).
std::vector<Flip> gpt2_step(double past, double multi_head, double standard, double packed) {
  const Shape x{1, 1, kHidden}, cache{1, kHeads, past, kSize}, both{2, 1, kHeads, past, kSize}, joined{2, 1, kHeads, past + 1, kSize};
  const std::vector<OpUse> around{product(x, 3 * kHidden), product(x, kHidden)};
  const std::vector<OpUse> spelled = std::vector{join(kHeads, past), join(kHeads, past)} + core({1, kHeads, 1, kSize}, past + 1, false);
  OpUse one = use("com.microsoft::Attention", {x, {kHidden, 3 * kHidden}, {3 * kHidden}, both}, x, {1, 2},
                  {Attribute::of("num_heads", std::int64_t{12})});
  one.outputs = {x, joined};
  OpUse apart = use("Split", {joined, {2}}, {1, 1, kHeads, past + 1, kSize}, {1}, {Attribute::of("axis", std::int64_t{0})});
  apart.outputs.push_back(apart.outputs[0]);
  const Shape single{1, 1, kHeads, past, kSize};
  const std::vector<OpUse> whole{concat(single, single, both, 0), one, apart, product(x, kHidden)};
  std::vector<Flip> flips{
      {"MultiHeadAttention with past", past, multi_head, around + spelled,
       around + std::vector{attention("com.microsoft::MultiHeadAttention", 1, past, kHeads, false)}},
      {"Attention with past", past, standard, around + spelled, around + std::vector{attention("Attention", 1, past, kHeads, false)}}};
  if (packed > 0) flips.push_back({"com.microsoft's Attention with past", past, packed, around + spelled, whole});
  return flips;
}

// A step of Llama, 12 heads for queries and 4 for keys: K and V repeated, or the queries of a group as rows, or one operator.
std::vector<Flip> llama_step(double past, double grouped_rows, double standard, double grouped_query) {
  constexpr double kGroups = 4;
  const Shape x{1, 1, kHidden};
  const std::vector<OpUse> around{product(x, kHidden), product(x, kGroups * kSize), product(x, kGroups * kSize), product(x, kHidden)};
  const std::vector<OpUse> joins{join(kGroups, past), join(kGroups, past)};
  const OpUse repeat = use("Expand", {{1, kGroups, 1, past + 1, kSize}, {5}}, {1, kGroups, 3, past + 1, kSize}, {1});
  const std::vector<OpUse> repeated = joins + std::vector{repeat, repeat} + core({1, kHeads, 1, kSize}, past + 1, false);
  const std::vector<OpUse> rows = joins + core({1, kGroups, 3, kSize}, past + 1, false);
  OpUse gqa = attention("com.microsoft::GroupQueryAttention", 1, past, kGroups, false);
  gqa.attributes = {Attribute::of("num_heads", std::int64_t{12}), Attribute::of("kv_num_heads", std::int64_t{4})};
  gqa.inputs.insert(gqa.inputs.end(), {{1}, {}});  // lengths
  return {{"queries of a group as rows", past, grouped_rows, around + repeated, around + rows},
          {"Attention of groups", past, standard, around + repeated, around + std::vector{attention("Attention", 1, past, kGroups, false)}},
          {"GroupQueryAttention", past, grouped_query, around + repeated, around + std::vector{gqa}}};
}

// The heart of attention alone, Q, K and V with heads packed.
std::vector<Flip> heart(double rows, bool masked, double multi_head, double standard) {
  const Shape apart{1, rows, kHeads, kSize}, q{1, kHeads, rows, kSize};
  const std::vector<std::int64_t> heads_first{0, 2, 1, 3};
  const std::vector<OpUse> spelled = std::vector{moved(apart, heads_first), moved(apart, heads_first), moved(apart, heads_first)} +
                                     core(q, rows, masked) + std::vector{moved(q, heads_first)};
  const std::string mask = masked ? " with a mask" : "";
  return {{"heart as MultiHeadAttention" + mask,
           rows,
           multi_head,
           spelled,
           {attention("com.microsoft::MultiHeadAttention", rows, 0, kHeads, masked)}},
          {"heart as Attention" + mask, rows, standard, spelled, {attention("Attention", rows, 0, kHeads, masked)}}};
}

TEST(MeasuredBlocks, FormsOfAttentionPayAndLoseAsTimedEndToEnd) {
  std::vector<Flip> flips;
  for (const std::vector<Flip>& more :
       {heart(128, false, 1.08, 0.97), heart(128, true, 1.15, 0.97), heart(512, false, 1.00, 0.99), heart(512, true, 0.98, 0.92),
        heart(1024, false, 0.89, 0.94), heart(1024, true, 0.95, 0.93), gpt2_step(128, 0.86, 0.86, 0), gpt2_step(1023, 0.95, 0.92, 1.53),
        llama_step(128, 0.83, 0.83, 0.88), llama_step(1023, 0.70, 0.73, 0.79)})
    flips.insert(flips.end(), more.begin(), more.end());
  expect_as_timed(flips);
}

}  // namespace
}  // namespace saturate::flips
