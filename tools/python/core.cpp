#include "tools/python/core.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdio>

#include "kernels/verify/choice.h"
#include "tools/cli/cli.h"
#include "tools/cli/command_line.h"
#include "tools/cli/words/foreign_words.h"
#include "tools/io/terminal.h"

namespace saturate::python {
namespace {

// Work that no signal can cut short, without the GIL.
template <typename F>
auto unlocked(F work) {
  const nb::gil_scoped_release release;
  return work();
}

api::Model parse(const Bytes& bytes, const std::string& folder, const nb::list& weights) {
  std::vector<api::Model::Weight> apart;
  for (const nb::handle item : weights) {
    const auto pair = nb::cast<nb::tuple>(item);
    const auto data = nb::cast<Bytes>(pair[1]);
    apart.push_back(
        {nb::cast<std::size_t>(pair[0]), {reinterpret_cast<const std::byte*>(data.data()), data.size()}, hold(nb::borrow(pair[1]))});
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return take(unlocked([&] { return api::Model::parse(text, folder, std::move(apart)); }));
}

nb::tuple detach(const api::Model& model, std::size_t threshold) {
  std::vector<api::Model::Weight> weights;
  const std::string bytes = take(unlocked([&] { return model.serialize(threshold, &weights); }));
  nb::list apart;
  for (const auto& w : weights) {
    api::Tensor view;
    view.dtype = 2;  // TensorProto.UINT8
    view.shape = {static_cast<std::int64_t>(w.data.size())};
    view.data = w.data;
    view.owner = w.owner;
    apart.append(nb::make_tuple(w.index, nb::cast<nb::tuple>(value_to({std::move(view)}))[3]));
  }
  return nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), apart);
}

// (Model, Report, interrupted)
nb::tuple optimize(const api::Model& model, const nb::dict& options) {
  Call call;
  fill_options(options, call);
  std::optional<api::Expected<api::Result>> result;
  run_watched(call, [&] { result = api::optimize(model, call.options); });
  api::Result out = take(*std::move(result));
  return nb::make_tuple(std::move(out.model), std::move(out.report), call.interrupted);
}

// What `run` makes with these options, stopped by Ctrl-C: there is no rewriting to end early.
template <typename Run>
auto watched(const nb::dict& options, Run run) {
  Call call;
  fill_options(options, call);
  call.stop = true;
  std::optional<decltype(run(call.options))> result;
  run_watched(call, [&] { result = run(call.options); });
  return take(*std::move(result));
}

// (Model, table, JSON)
nb::tuple transform(const api::Model& model, const std::string& passes, const nb::dict& options) {
  api::Transformed out = watched(options, [&](const api::Options& o) { return api::transform(model, passes, o); });
  return nb::make_tuple(std::move(out.model), out.table, out.json);
}

std::vector<std::string> split_passes(const api::Model& model, const std::vector<std::string>& values) {
  return take(api::split_passes(model, values));
}

// (equal, message, JSON)
nb::tuple verify(const api::Model& original, const api::Model& other, const nb::dict& options) {
  const api::Verification out = watched(options, [&](const api::Options& o) { return api::verify(original, other, o); });
  return nb::make_tuple(out.equal, out.message, out.json);
}

// (equal, text, JSON)
nb::tuple diff(const api::Model& first, const api::Model& second, const nb::dict& options) {
  const api::Difference out = watched(options, [&](const api::Options& o) { return api::diff(first, second, o); });
  return nb::make_tuple(out.equal, out.text, out.json);
}

// (verdict, text, JSON)
nb::tuple prove(const api::Model& first, const api::Model& second, const nb::dict& options) {
  const api::Proof out = watched(options, [&](const api::Options& o) { return api::prove(first, second, o); });
  return nb::make_tuple(out.verdict, out.text, out.json);
}

std::string inspect_after_load(const api::Model& model, const nb::dict& options) {
  return watched(options, [&](const api::Options& o) { return api::inspect_after_load(model, o); });
}

std::string explain(const api::Model& model, const std::string& op, const std::string& rule, const std::string& value,
                    const nb::dict& options) {
  Call call;
  fill_options(options, call);
  std::optional<api::Expected<std::string>> result;
  run_watched(call, [&] { result = api::explain(model, {op, rule, value}, call.options); });
  return take(*std::move(result));
}

nb::list run_session(const api::Session& session, const nb::dict& inputs) {
  const api::Values values = values_from(inputs);
  auto outputs = take(unlocked([&] { return session.run(values); }));
  nb::list out;
  for (const auto& [name, value] : outputs) out.append(nb::make_tuple(name, value_to(value)));
  return out;
}

void bind_model(nb::module_& m) {
  nb::class_<api::Model>(m, "Model")
      .def_static("load", [](const std::string& path) { return take(unlocked([&] { return api::Model::load(path); })); })
      .def_static("parse", &parse)
      .def(
          "save",
          [](const api::Model& model, const std::string& path, bool external_data, std::size_t threshold, const std::string& format) {
            take(unlocked([&] { return model.save(path, {external_data, threshold, format}); }));
          },
          nb::arg(), nb::arg() = false, nb::arg() = api::Model::SaveOptions().external_threshold, nb::arg() = "")
      .def("serialize",
           [](const api::Model& model) {
             const std::string bytes = take(unlocked([&] { return model.serialize(); }));
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("detach", &detach)
      .def("inspect", [](const api::Model& model) { return unlocked([&] { return model.inspect(); }); })
      .def("text", [](const api::Model& model) { return unlocked([&] { return model.text(); }); });
  nb::class_<api::Report>(m, "Report").def("table", &api::Report::table).def("json", &api::Report::json);
  nb::class_<api::Session>(m, "Session")
      .def_static("create", [](const api::Model& model, int threads,
                               bool reference) { return take(unlocked([&] { return api::Session::create(model, threads, reference); })); })
      .def("run", &run_session);
}

void bind_rules(nb::module_& m) {
  nb::class_<api::RuleSet>(m, "RuleSet")
      .def_static("builtin", [] { return take(api::RuleSet::builtin()); })
      .def_static("none", &api::RuleSet::none)
      .def("with_file", [](const api::RuleSet& rules, const std::string& path) { return take(rules.with_file(path)); })
      .def("with_text",
           [](const api::RuleSet& rules, const std::string& text, const std::string& name) { return take(rules.with_text(text, name)); })
      .def("without", [](const api::RuleSet& rules, const std::vector<std::string>& names) { return take(rules.without(names)); })
      .def("names", &api::RuleSet::names)
      .def("show", [](const api::RuleSet& rules, const std::string& name) { return rules.show(name); });
}

int command_line(std::vector<std::string> words, const nb::dict& runtimes, std::string onnxruntime) {
  OtherRuntimes others;
  others.onnxruntime = std::move(onnxruntime);
  for (const auto& [name, make] : runtimes) {
    const auto text = nb::cast<std::string>(name);
    others.makers.emplace(text, maker_from(text, nb::borrow(make)));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return unlocked([&] {
    const int code = saturate::command_line(static_cast<int>(argv.size()), argv.data(), &others);
    std::fflush(stdout);
    return code;
  });
}

nb::object shape_of(const api::Operator::Type& type) {
  if (!type.shape) return nb::none();
  return nb::tuple(nb::cast(*type.shape));
}

void bind_operator(nb::module_& m) {
  nb::class_<api::Operator::Type>(m, "OperatorType", "Type of a value: `dtype` (a number of TensorProto.DataType, 0: unknown) and `shape`.")
      .def_ro("dtype", &api::Operator::Type::dtype)
      .def_prop_ro("shape", &shape_of);
  nb::class_<api::Operator>(m, "Operator", "An operator to be priced by a cost model.")
      .def_ro("domain", &api::Operator::domain, "Its domain; \"\" is ai.onnx.")
      .def_ro("op_type", &api::Operator::op_type, "Its name.")
      .def_ro("inputs", &api::Operator::inputs, "Types of its inputs.")
      .def_ro("outputs", &api::Operator::outputs, "Types of its outputs.")
      .def_prop_ro(
          "attributes",
          [](const api::Operator& op) {
            nb::dict out;
            for (const auto& [name, value] : op.attributes)
              out[name.c_str()] = std::holds_alternative<std::monostate>(value) ? nb::object(nb::none()) : nb::cast(value);
            return out;
          },
          "Values by name; None for tensors and graphs.");
}

}  // namespace
}  // namespace saturate::python

NB_MODULE(_core, m) {
  using namespace saturate::python;
  m.doc() = "The compiled part of saturate.";
  bind_model(m);
  bind_rules(m);
  bind_operator(m);
  bind_egraph(m);
  m.def("optimize", &optimize);
  m.def("transform", &transform);
  m.def("split_passes", &split_passes);
  m.def("passes", &saturate::api::passes);
  m.def("verify", &verify);
  m.def("diff", &diff);
  m.def("prove", &prove);
  m.def("inspect_after_load", &inspect_after_load);
  m.def("explain", &explain);
  m.def("generate", &generate, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("tell_installed_onnxruntime", &saturate::tell_installed_onnxruntime, nb::arg());
  m.def("command_line", &command_line, nb::arg(), nb::arg() = nb::dict(), nb::arg() = "");
  m.def("targets", &saturate::api::targets);
  m.def("wrong_model", &saturate::wrong_model);
  m.def("wrong_result", &saturate::wrong_result);
  m.def("what_instead", &saturate::api::what_instead);
  m.def("printable", &saturate::printable);
  m.attr("__version__") = saturate::api::version();
}
