// Optimizes a model by the installed library, runs the result, and rewrites a term by the engine alone: consumer IN.onnx OUT.onnx
#include <saturate/egraph/rewrite.h>
#include <saturate/saturate.h>

#include <iostream>

namespace sat = saturate::api;

namespace {

int fail(const sat::Error& error) {
  std::cerr << error.message << "\n";
  return static_cast<int>(error.code);
}

// f(f(x)) = x leaves one class for x and f(f(f(f(x)))).
bool engine_works() {
  saturate::EGraph egraph;
  const saturate::OpId x = egraph.add_op({0}), f = egraph.add_op({1});
  const saturate::Id start = egraph.add(x, {});
  saturate::Id top = start;
  for (int i = 0; i < 4; ++i) top = egraph.add(f, std::span(&top, 1));
  saturate::Rewrite rule{.name = "f_f"};
  rule.left.nodes = {{.type = saturate::PatternNode::Type::kVariable},
                     {.type = saturate::PatternNode::Type::kOperator, .kind = 1, .children = {0}},
                     {.type = saturate::PatternNode::Type::kOperator, .kind = 1, .children = {1}}};
  rule.right = saturate::Template{{{.slot = 0}}};
  const auto report = saturate::run(egraph, std::span(&rule, 1), {});
  return report.stop == saturate::StopReason::kSaturated && egraph.find(top) == egraph.find(start);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto model = sat::Model::load(argv[1]);
  if (!model) return fail(model.error());
  const auto result = sat::optimize(*model, {.target = "ort-cpu", .cost = "nodes"});
  if (!result) return fail(result.error());
  if (const auto same = sat::verify(*model, result->model); !same) return fail(same.error());
  if (const auto session = sat::Session::create(result->model); !session) return fail(session.error());
  if (const auto saved = result->model.save(argv[2]); !saved) return fail(saved.error());
  std::cout << result->report.table();
  return engine_works() ? 0 : 1;
}
