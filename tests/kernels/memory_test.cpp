// Where tensors of a run lie: the arena, the plan by size, and results in the place of inputs.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <thread>

#include "fmt/format.h"
#include "kernel_test_util.h"
#include "kernels/core/buffer.h"
#include "kernels/runtime/plan.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> large_requests{0};
constexpr std::size_t kLarge = 32'768;  // no scratch of a few lines, no list of values

void* counted(std::size_t bytes) {
  if (bytes >= kLarge && counting) ++large_requests;
  void* at = std::malloc(bytes == 0 ? 1 : bytes);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace

// Not inlined: the compiler would see free of what operator new gave, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}  // or AddressSanitizer's
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete[](void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete[](void* at, std::size_t) noexcept { std::free(at); }

namespace saturate {
namespace {

using test::floats;
using test::noise_tensor;
using test::session_of;
using Inputs = std::map<std::string, Value>;

// In a process of its own: what a limit leaves when there are several arenas.
int with_arenas_under(std::size_t limit) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{limit, limit};
    ::setrlimit(RLIMIT_AS, &most);
    std::array<Arena, 6> arenas;
    const std::unique_ptr<char, void (*)(void*)> rest(static_cast<char*>(std::malloc(limit / 2)), std::free);
    ::_exit(rest != nullptr && arenas[0].take(limit / 16) && arenas[1].take(limit / 32) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Arena, LeavesAddressesToOthers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more than the limit";
#endif
  EXPECT_EQ(with_arenas_under(std::size_t{2} << 30), 0);
  EXPECT_EQ(with_arenas_under(std::size_t{9} << 30), 0);
}

TEST(Arena, HandsOutNothingTwiceAndJoinsWhatComesBack) {
  Arena arena;
  std::mt19937 random(7);
  struct Held {
    std::size_t offset, bytes;
    std::byte mark;
  };
  std::vector<Held> held;
  for (int turn = 0; turn < 4000; ++turn) {
    if (held.size() < 40 && random() % 3 != 0) {
      const std::size_t bytes = 64 * (1 + random() % 50);
      std::optional<std::size_t> offset;
      if (random() % 4 == 0) {
        const std::size_t wish = 64 * (random() % 3000);
        const bool free =
            std::none_of(held.begin(), held.end(), [&](const Held& h) { return wish < h.offset + h.bytes && h.offset < wish + bytes; });
        ASSERT_EQ(arena.take_at(wish, bytes), free);
        if (free) offset = wish;
      } else {
        offset = arena.take(bytes);
        ASSERT_TRUE(offset.has_value());
      }
      if (!offset) continue;
      const auto mark = static_cast<std::byte>(random());
      std::fill_n(arena.at(*offset), bytes, mark);
      held.push_back({*offset, bytes, mark});
    } else if (!held.empty()) {
      const std::size_t k = random() % held.size();
      for (std::size_t i = 0; i < held[k].bytes; ++i) ASSERT_EQ(arena.at(held[k].offset)[i], held[k].mark);
      arena.give_back(held[k].offset, held[k].bytes);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(k));
      if (random() % 100 == 0) arena.trim(0);
    }
  }
  for (const Held& h : held) arena.give_back(h.offset, h.bytes);
  const std::size_t all = arena.most_used();
  EXPECT_EQ(arena.take(all), 0u) << "all gaps are one again";
  EXPECT_EQ(arena.most_used(), all);
}

TEST(MemoryPlan, BuffersThatLiveTogetherLieApart) {
  std::mt19937 random(3);
  for (int turn = 0; turn < 50; ++turn) {
    std::vector<MemoryTrace::Buffer> buffers;
    const int count = 1 + static_cast<int>(random() % 60);
    for (int i = 0; i < count; ++i) buffers.push_back({64 * (1 + random() % 100), i, i + 1 + static_cast<int>(random() % 12)});
    const MemoryPlan plan = plan_memory(buffers);
    std::size_t together = 0;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.size);
      std::size_t alive = 0;
      for (std::size_t k = 0; k < buffers.size(); ++k) {
        if (buffers[k].begin <= buffers[i].begin && buffers[i].begin <= buffers[k].end) alive += buffers[k].bytes;
        if (k == i || buffers[k].end < buffers[i].begin || buffers[i].end < buffers[k].begin) continue;
        EXPECT_TRUE(plan.offsets[i] + buffers[i].bytes <= plan.offsets[k] || plan.offsets[k] + buffers[k].bytes <= plan.offsets[i]);
      }
      together = std::max(together, alive);
    }
    EXPECT_GE(plan.size, together);
    EXPECT_LE(plan.size, together * 3 / 2) << "of " << count << " buffers";
  }
  // A chain needs its two largest neighbours.
  EXPECT_EQ(plan_memory({{640, 0, 2}, {128, 1, 4}, {640, 3, 6}}).size, 768u);
  EXPECT_EQ(plan_memory({}).size, 0u);
}

SessionOptions as_it_is() {
  SessionOptions options;
  options.prepare = false;
  return options;
}

constexpr const char* kHeader = R"(<ir_version: 8, opset_import: ["" : 17]> )";

TEST(Memory, NodesOfTheSameWeightsShareWhatIsPreparedOfThem) {
  const absl::StatusOr<Model> model = parse_model_text(std::string(kHeader) + R"(g (float[N, 2] x) => (float[N, 2] y)
    <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {5, 6, 7, 8}> {
    a = MatMul (x, w)  b = MatMul (a, w)  c = MatMul (b, v)  d = Gemm (c, w)  e = Gemm <transB = 1> (d, w)  f = MatMul (e, x)
    y = MatMul (f, x) })",
                                                       "test");
  ASSERT_TRUE(model.ok()) << model.status();
  std::size_t steps_left = 100;
  PlanContext context;
  context.opset_imports = model->opset_imports;
  context.steps_left = &steps_left;
  const auto plan = make_plan(std::make_shared<const Graph>(model->graph), context, [](const std::string&) { return -1; });
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<const NodeState*> states;
  for (const Step& step : (*plan)->steps) states.push_back(step.state.get());
  EXPECT_EQ(states[0], states[1]);
  for (std::size_t i = 1; i < states.size(); ++i)
    for (std::size_t k = i + 1; k < states.size(); ++k) EXPECT_NE(states[i], states[k]) << i << " and " << k;
}

TEST(Memory, RunsOfKnownSizesAskTheSystemForNothing) {
  const std::string text = std::string(kHeader) + R"(g (float[N, 64] x, float[64, 64] w) => (float[N, 64] y) {
    a = MatMul (x, w)  b = Relu (a)  c = Sigmoid (b)  d = Add (c, a)  e = Softmax (d)  f = MatMul (e, w)  s = Transpose (f)
    t = Transpose (s)  u = Mul (t, d)  y = Tanh (u) })";
  for (const bool prepare : {true, false}) {
    SessionOptions options;
    options.prepare = prepare;
    const Session s = session_of(text, options);
    const Tensor w = noise_tensor({64, 64}, 2);
    std::map<std::int64_t, Tensor> first;
    for (int round = 0; round < 4; ++round) {
      const std::size_t before = s.memory().system_requests;
      for (const std::int64_t n : {300, 137, 512}) {
        const Inputs inputs{{"x", noise_tensor({n, 64}, 1)}, {"w", w}};
        large_requests = 0;
        counting = true;
        const auto out = s.run(inputs);
        counting = false;
        ASSERT_TRUE(out.ok()) << out.status();
        if (round == 0)
          first[n] = aligned((*out)[0].tensor());
        else
          EXPECT_TRUE(identical((*out)[0].tensor(), first[n])) << n;
        if (round > 1) {
          EXPECT_EQ(large_requests, 0) << (prepare ? "prepared, " : "") << n << " rows";
        }
      }
      if (round > 1) {
        EXPECT_EQ(s.memory().system_requests, before);
      }
    }
    // At the largest size 128 KiB a tensor; never are more than three needed at once.
    EXPECT_LE(s.memory().most, 4u * 131072);
  }
}

TEST(Memory, ResultsStayWhenTheNextRunAndTheEndOfTheSessionCome) {
  std::vector<Value> kept;
  const std::string text =
      std::string(kHeader) + "g (float[4] x) => (float[4] y, float[4] z) { a = Neg (x)  b = Add (a, x)  y = Identity (a)  z = Sub (b, a) }";
  {
    const Session s = session_of(text, as_it_is());
    for (int i = 0; i < 5; ++i) {
      const auto out = s.run({{"x", floats({4}, {1.0f + static_cast<float>(i), 2, 3, 4})}});
      ASSERT_TRUE(out.ok()) << out.status();
      kept.insert(kept.end(), out->begin(), out->end());
    }
  }
  for (int i = 0; i < 5; ++i) {
    const float x = 1.0f + static_cast<float>(i);
    test::expect_near(kept[static_cast<std::size_t>(2 * i)].tensor(), floats({4}, {-x, -2, -3, -4}), 0);
    test::expect_near(kept[static_cast<std::size_t>(2 * i + 1)].tensor(), floats({4}, {x, 2, 3, 4}), 0);
  }
}

TEST(Memory, AResultTakesThePlaceOfAnInputThatNobodyNeeds) {
  const Session chain = session_of(
      std::string(kHeader) +
          "g (float[1024] x) => (float[1024] y) { a = Neg (x)  b = Exp (a)  c = Tanh (b)  d = Abs (c)  e = Add (d, x)  y = Neg (e) }",
      as_it_is());
  ASSERT_TRUE(chain.run({{"x", noise_tensor({1024}, 1)}}).ok());
  EXPECT_EQ(chain.memory().most, 4096u) << "one buffer, through all of them";
}

TEST(Memory, ACacheThatGrowsFindsItsBuffersAgain) {
  const Session s = session_of(
      std::string(kHeader) + "g (float[n] past, float[64] news) => (float[m] present) { present = Concat <axis = 0> (past, news) }",
      as_it_is());
  Tensor past = noise_tensor({1024}, 1);
  for (int step = 0; step < 400; ++step) {
    auto out = s.run_over({{"past", std::move(past)}, {"news", noise_tensor({64}, 2)}});
    ASSERT_TRUE(out.ok()) << out.status();
    past = (*out)[0].tensor();
  }
  EXPECT_EQ(past.dims(), Shape{1024 + 400 * 64});
  EXPECT_LT(s.memory().system_requests, 100u) << "two buffers for each eighth of a doubling";
}

TEST(Memory, AGivenCacheIsWrittenInPlace) {
  const Session s = session_of(std::string(kHeader) +
                                   "g (float[4] past, int64[1] at, float[1] news) => (float[4] present, float[4] twice) {"
                                   " present = ScatterElements (past, at, news)  twice = Add (present, present) }",
                               as_it_is());
  const auto inputs_at = [](Tensor past, std::int64_t at, float news) {
    return Inputs{{"past", std::move(past)}, {"at", Tensor::vector_int64(std::span(&at, 1))}, {"news", floats({1}, {news})}};
  };
  Tensor first = floats({4}, {0, 0, 0, 0});
  const std::byte* place = first.bytes().data();
  auto out = s.run_over(inputs_at(std::move(first), 1, 5));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].tensor().bytes().data(), place) << "the past's memory";
  Tensor present = (*out)[0].tensor();
  out->clear();
  out = s.run_over(inputs_at(std::move(present), 3, 7));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].tensor().bytes().data(), place) << "a result's memory";
  test::expect_near((*out)[0].tensor(), floats({4}, {0, 5, 0, 7}), 0);
  test::expect_near((*out)[1].tensor(), floats({4}, {0, 10, 0, 14}), 0);
  const Tensor held = (*out)[0].tensor();
  for (const bool given : {true, false}) {
    const Inputs inputs = inputs_at(held, 0, 1);
    const auto other = given ? s.run_over(inputs) : s.run(inputs);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_NE((*other)[0].tensor().bytes().data(), place);
    test::expect_near((*other)[0].tensor(), floats({4}, {1, 5, 0, 7}), 0);
    test::expect_near(held, floats({4}, {0, 5, 0, 7}), 0);
  }
  const Inputs alone = inputs_at(floats({4}, {9, 9, 9, 9}), 2, 3);
  ASSERT_TRUE(s.run(alone).ok());
  test::expect_near(alone.at("past").tensor(), floats({4}, {9, 9, 9, 9}), 0);
}

// Graphs of operators that write in place, view or copy, wired at random.
std::string random_graph(std::mt19937& random) {
  std::string body;
  std::vector<std::string> flat{"x"}, square;  // of 64 elements, of 8 x 8
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  const int nodes = 3 + static_cast<int>(random() % 20);
  for (int i = 0; i < nodes; ++i) {
    const std::string name = fmt::format("v{}", i);
    const bool of_square = !square.empty() && random() % 2 == 0;
    const std::vector<std::string>& from = of_square ? square : flat;
    switch (random() % 9) {
      case 0:
        body += fmt::format("{} = Add ({}, {})  ", name, pick(from), pick(from));
        break;
      case 1:
        body += fmt::format("{} = Mul ({}, {})  ", name, pick(from), of_square ? "row" : pick(from));
        break;
      case 2:
        body += fmt::format("{} = {} ({})  ", name, random() % 2 == 0 ? "Sin" : "Sigmoid", pick(from));
        break;
      case 3:
        body += fmt::format("{} = Softmax ({})  ", name, pick(from));
        break;
      case 4:
        body += fmt::format("{} = Reshape ({}, {})  ", name, pick(from), of_square ? "flat" : "square");
        (of_square ? flat : square).push_back(name);
        continue;
      case 5:
        body += fmt::format("{0}a, {0}b = Split ({1})  {0} = Concat <axis = 0> ({0}b, {0}a)  ", name, pick(from));
        break;
      case 6:
        if (!of_square) {
          body += fmt::format("{} = Identity ({})  ", name, pick(from));
        } else if (random() % 2 == 0) {
          body += fmt::format("{} = Transpose ({})  ", name, pick(from));
        } else {
          body += fmt::format("{0}a = Gather <axis = 0> ({1}, one)  {0}b = Sin ({0}a)  {0} = Add ({0}b, {1})  ", name, pick(from));
        }
        break;
      case 7:
        body += of_square ? fmt::format("{} = ScatterElements <axis = 1> ({}, corner, one_by_one)  ", name, pick(from))
                          : fmt::format("{} = ScatterElements ({}, few, row)  ", name, pick(from));
        break;
      default:
        body += fmt::format("{} = Max ({}, {}, {})  ", name, pick(from), pick(from), pick(from));
    }
    (of_square ? square : flat).push_back(name);
  }
  std::string outputs = "float[64] " + flat.back();
  if (flat.back() == "x") {
    body += "end = Neg (x)  ";
    outputs = "float[64] end";
  }
  if (!square.empty()) outputs += ", float[8, 8] " + square.back();
  return fmt::format(
      "{} g (float[64] x, float[8] row, int64[1] flat, int64[2] square, int64 one, int64[8] few, int64[1, 1] corner, float[1, 1] "
      "one_by_one)"
      " => ({}) {{ {} }}",
      kHeader, outputs, body);
}

TEST(Memory, RandomGraphsComputeWhatTheyDoWithoutReuse) {
  std::mt19937 random(11);
  for (int turn = 0; turn < 400; ++turn) {
    const std::string text = random_graph(random);
    absl::StatusOr<Model> model = parse_model_text(text, "test");
    ASSERT_TRUE(model.ok()) << model.status() << "\n" << text;
    const Inputs inputs{{"x", noise_tensor({64}, static_cast<std::uint32_t>(turn))},
                        {"row", noise_tensor({8}, 5)},
                        {"flat", test::ints({1}, {64})},
                        {"square", test::ints({2}, {8, 8})},
                        {"one", test::ints({}, {1})},
                        {"few", test::ints({8}, {0, 3, 9, 2, 63, 33, 12, 5})},
                        {"corner", test::ints({1, 1}, {2})},
                        {"one_by_one", floats({1, 1}, {0.5})}};
    std::map<std::string, Value> values(inputs.begin(), inputs.end());  // node by node, all kept
    for (const Node& node : model->graph.nodes) {
      std::vector<Value> arguments;
      for (const std::string& name : node.inputs) arguments.push_back(values.at(name));
      auto out = make_evaluator()->evaluate(node, 17, arguments);
      ASSERT_TRUE(out.ok()) << out.status() << "\n" << text;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) values[node.outputs[i]] = (*out)[i];
    }
    absl::StatusOr<Session> session = Session::create(*model, as_it_is());
    ASSERT_TRUE(session.ok()) << session.status();
    const Tensor x = aligned(inputs.at("x").tensor());
    for (int run = 0; run < 3; ++run) {
      const auto out = session->run(inputs);
      ASSERT_TRUE(out.ok()) << out.status() << "\n" << text;
      for (std::size_t i = 0; i < out->size(); ++i)
        ASSERT_TRUE(identical((*out)[i].tensor(), values.at(model->graph.outputs[i].name).tensor())) << "run " << run << "\n" << text;
    }
    EXPECT_TRUE(identical(inputs.at("x").tensor(), x)) << "an input was written to\n" << text;
    Inputs given;
    for (const auto& [name, value] : inputs) {
      Tensor copy(value.tensor().dtype(), value.tensor().dims());
      std::memcpy(copy.mutable_data(), value.tensor().bytes().data(), value.tensor().bytes().size());
      given[name] = std::move(copy);
    }
    const auto over = session->run_over(std::move(given));
    ASSERT_TRUE(over.ok()) << over.status() << "\n" << text;
    for (std::size_t i = 0; i < over->size(); ++i)
      ASSERT_TRUE(identical((*over)[i].tensor(), values.at(model->graph.outputs[i].name).tensor())) << "given away\n" << text;
  }
}

TEST(Memory, CheckFiniteSeesInputsAsTheyWere) {
  SessionOptions options;
  options.check_finite = true;
  const Session s = session_of(std::string(kHeader) + "g (float[2] x) => (float[2] y) { a = Neg (x)  b = Log (a)  y = Neg (b) }", options);
  const auto out = s.run({{"x", floats({2}, {1, 1})}});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(std::string(out.status().message()).find("Log"), std::string::npos) << out.status();
}

TEST(Memory, LoopsOfAnyLengthGoOnWithoutThePlan) {
  const Session s = session_of(std::string(kHeader) + R"(g (int64 n, bool c, float[32] x) => (float[32] y) {
    y = Loop (n, c, x) <body = b (int64 i, bool k, float[32] v) => (bool k2, float[32] v2) { k2 = Identity (k)  t = Neg (v)  u = Add (t, x)  v2 = Sub (u, v) }>
  })",
                               as_it_is());
  for (const std::int64_t n : {3, 3, 7, 3, 0, 7}) {
    const auto out =
        s.run({{"n", test::ints({}, {n})}, {"c", test::make<bool>({}, {true})}, {"x", floats({32}, std::vector<float>(32, 1.0f))}});
    ASSERT_TRUE(out.ok()) << out.status();
    float want = 1;
    for (std::int64_t i = 0; i < n; ++i) want = 1 - 2 * want;
    test::expect_near((*out)[0].tensor(), floats({32}, std::vector<float>(32, want)), 0);
  }
}

TEST(Memory, RunsAtTheSameTimeDoNotMeet) {
  const Session s = session_of(
      std::string(kHeader) +
          "g (float[N] x) => (float[N] y) { a = Neg (x)  b = Add (a, a)  c = Mul (b, x)  d = Relu (b)  e = Sub (c, d)  y = Neg (e) }",
      as_it_is());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&s, &wrong, k] {
      for (int turn = 0; turn < 200; ++turn) {
        const auto n = static_cast<std::size_t>(100 + 50 * (turn % 3));
        const float x = static_cast<float>(k + turn % 7);
        const auto out = s.run({{"x", floats({static_cast<std::int64_t>(n)}, std::vector<float>(n, x))}});
        const bool right = out.ok() && std::all_of((*out)[0].tensor().data<float>(), (*out)[0].tensor().data<float>() + n,
                                                   [&](float y) { return y == 2 * x * x; });
        if (!right) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace saturate
