#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "tools/python/core.h"

namespace saturate::python {
namespace {

nb::handle borrowed(const std::shared_ptr<const void>& held) { return static_cast<PyObject*>(const_cast<void*>(held.get())); }

// What a Python function threw, as an error of ours.
api::Error error_from(const nb::python_error& thrown) {
  if (thrown.matches(PyExc_KeyboardInterrupt)) return {api::Code::kInterrupted, "interrupted"};
  const nb::handle value = thrown.value();
  const std::string message = nb::cast<std::string>(nb::str(value));
  if (nb::isinstance(value, nb::module_::import_("onnx_saturate._errors").attr("Error")))
    return {static_cast<api::Code>(nb::cast<int>(value.attr("code"))), message};
  return {api::Code::kFile, message};
}

// Calls Python, on whatever thread.
template <typename T, typename F>
api::Expected<T> called(F work) {
  const nb::gil_scoped_acquire gil;
  try {
    return work();
  } catch (const nb::python_error& thrown) {
    return error_from(thrown);
  }
}

api::Run run_from(nb::object run) {
  return [held = hold(std::move(run))](const api::Values& inputs, std::optional<double> seconds) {
    return called<api::Ran>([&] {
      nb::dict values;
      for (const auto& [name, value] : inputs) values[name.c_str()] = value_to(value);
      const auto made = nb::cast<nb::tuple>(borrowed(held)(values, seconds));
      api::Ran out;
      for (const nb::handle value : nb::cast<nb::list>(made[0])) out.outputs.push_back(value_from(value));
      out.seconds = nb::cast<double>(made[1]);
      return out;
    });
  };
}

}  // namespace

api::Runtime runtime_from(std::string name, nb::object open) {
  return {std::move(name), [held = hold(std::move(open))](const api::Model& model) {
            return called<api::Run>([&] { return run_from(borrowed(held)(model)); });
          }};
}

RuntimeMaker maker_from(std::string name, nb::object make) {
  return [name = std::move(name), held = hold(std::move(make))](int threads, const std::vector<std::string>& libraries) {
    const nb::gil_scoped_acquire gil;
    return api::to_internal(runtime_from(name, borrowed(held)(threads, libraries))).open;
  };
}

}  // namespace saturate::python
