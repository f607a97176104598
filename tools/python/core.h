// The Python extension onnx_saturate._core: saturate.h in Python's terms. The package around it (onnx_saturate/*.py) has the types that
// users see.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tools/api/saturate.h"
#include "tools/api/saturate_impl.h"

namespace saturate::python {

namespace nb = nanobind;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Keeps a Python object alive from C++, on any thread.
std::shared_ptr<const void> hold(nb::object object);
// The onnx_saturate.Error that a code stands for, thrown.
[[noreturn]] void raise(const api::Error& error);
template <typename T>
T take(api::Expected<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

// Values travel as ("tensor", dtype, shape, bytes as uint8[n] | list[str]), ("sequence", dtype, items), ("optional", value | None).
api::Value value_from(nb::handle object);
nb::object value_to(const api::Value& value);
api::Values values_from(const nb::dict& values);

// Options by name, as in saturate.h; the caller's Python functions are `cost_model` and `progress`.
struct Call {
  api::Options options;
  std::atomic<bool> stop = false, abort = false;
  bool interrupted = false;  // by KeyboardInterrupt, with a result
  nb::object progress;
};
// `call` must live as long as its options are in use.
void fill_options(const nb::dict& given, Call& call);

// Runs `work` on a thread of its own without the GIL, while this one watches for signals and reports progress. The first KeyboardInterrupt
// ends the rewriting, a second one (or one where nothing is left to cut short) gives up. Errors of Python functions are thrown again here.
void run_watched(Call& call, const std::function<void()>& work);

// A runtime that is a Python function: it takes a Model and gives a function that takes values by name and seconds (or None), and gives a
// list of values and the seconds that they took.
api::Runtime runtime_from(std::string name, nb::object open);
// For the command: `make` takes threads and libraries, and gives such a function.
RuntimeMaker maker_from(std::string name, nb::object make);

// The JSON of api::generate. `run`, where not None, takes a dict of values by name and gives a list of values, instead of our runtime.
std::string generate(const api::Model& model, const std::vector<std::vector<std::int64_t>>& prompts, const nb::dict& given, nb::object run);

void bind_egraph(nb::module_& m);

}  // namespace saturate::python
