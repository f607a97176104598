#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <deque>
#include <exception>

#include "tools/python/core.h"

namespace saturate::python {
namespace {

using namespace std::chrono_literals;
constexpr auto kGlance = 50ms;  // how often this thread looks for signals

// What goes between the working thread and the one that the user called on.
struct Watch {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::deque<api::Progress> progress;
  std::exception_ptr error;  // of a Python function, or std::bad_alloc
};

template <typename T>
void get(const nb::dict& given, const char* name, T& into) {
  if (given.contains(name) && !given[name].is_none()) into = nb::cast<T>(given[name]);
}
template <typename T>
void get(const nb::dict& given, const char* name, std::optional<T>& into) {
  if (given.contains(name) && !given[name].is_none()) into = nb::cast<T>(given[name]);
}

// What an exception that is being handled means for the run: the first KeyboardInterrupt that finds something to cut short does so.
void take_exception(Call& call, const std::string& stage, std::exception_ptr& error) {
  bool cut_short = false;
  try {
    throw;
  } catch (nb::python_error& e) {
    cut_short = e.matches(PyExc_KeyboardInterrupt) && !call.stop && stage != "verify";
  } catch (...) {
  }
  if (cut_short) {
    call.interrupted = true;
  } else {
    if (!error) error = std::current_exception();
    call.abort = true;
  }
  call.stop = true;
}

}  // namespace

void raise(const api::Error& error) {
  const nb::object report = error.report ? nb::cast(*error.report) : nb::object(nb::none());
  const nb::object exception =
      nb::module_::import_("onnx_saturate._errors").attr("error_of")(static_cast<int>(error.code), error.message, report);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

namespace {

// What runs the models, and on what.
void fill_inputs(const nb::dict& given, api::Options& o) {
  if (given.contains("runtime") && !given["runtime"].is_none()) {
    const auto named = nb::cast<nb::tuple>(given["runtime"]);
    o.runtime = runtime_from(nb::cast<std::string>(named[0]), named[1]);
  }
  if (given.contains("inputs") && !given["inputs"].is_none()) {
    const nb::list cases = nb::cast<nb::list>(given["inputs"]);
    for (const nb::handle one : cases) {
      api::Values values = values_from(nb::cast<nb::dict>(one));
      if (o.inputs)
        o.more_inputs.push_back(std::move(values));
      else
        o.inputs = std::move(values);
    }
  }
}

void fill_cost_model(const nb::dict& given, api::Options& o) {
  if (given.contains("cost_model") && !given["cost_model"].is_none()) {
    // Holds a reference for as long as the options live; called on the working thread.
    const auto function = hold(given["cost_model"]);
    o.cost_model = [function](const api::Operator& op) {
      const nb::gil_scoped_acquire gil;
      auto* callable = static_cast<PyObject*>(const_cast<void*>(function.get()));
      return nb::cast<double>(nb::handle(callable)(op));
    };
  }
}

}  // namespace

void fill_options(const nb::dict& given, Call& call) {
  api::Options& o = call.options;
  get(given, "target", o.target);
  get(given, "prefer", o.prefer);
  get(given, "cost", o.cost);
  get(given, "constant_cost", o.constant_cost);
  get(given, "memory_slack", o.memory_slack);
  get(given, "max_growth", o.max_growth);
  get(given, "skip_fusions", o.skip_fusions);
  get(given, "measure", o.measure);
  get(given, "measured", o.measured);
  get(given, "debug_rules", o.debug_rules);
  if (given.contains("cost_at"))
    for (auto& [dims, weight] : nb::cast<std::vector<std::pair<std::map<std::string, std::int64_t>, double>>>(given["cost_at"]))
      o.cost_at.push_back({std::move(dims), weight});
  get(given, "rules", o.rules);
  get(given, "assumed", o.assumed);
  get(given, "not_assumed", o.not_assumed);
  get(given, "extractor", o.extractor);
  get(given, "approximate", o.approximate);
  get(given, "rescale", o.rescale);
  get(given, "within_one_step", o.within_one_step);
  get(given, "opset", o.opset);
  get(given, "keep_opset", o.keep_opset);
  get(given, "keep_functions", o.keep_functions);
  get(given, "dims", o.dims);
  get(given, "input_shapes", o.input_shapes);
  get(given, "allow_empty", o.allow_empty);
  get(given, "io_rank", o.io_rank);
  get(given, "iterations", o.iterations);
  get(given, "node_limit", o.node_limit);
  get(given, "memory_limit", o.memory_limit);
  get(given, "time_limit", o.time_limit);
  get(given, "max_memory", o.max_memory);
  get(given, "threads", o.threads);
  get(given, "verify", o.verify);
  get(given, "annotate", o.annotate);
  get(given, "not_fused", o.not_fused);
  get(given, "strict_verify", o.strict_verify);
  get(given, "rtol", o.rtol);
  get(given, "atol", o.atol);
  get(given, "steps", o.steps);
  get(given, "seed", o.seed);
  get(given, "judge", o.judges);
  get(given, "onnxruntime", o.onnxruntime);
  fill_inputs(given, o);
  if (given.contains("progress") && !given["progress"].is_none()) call.progress = given["progress"];
  o.stop = &call.stop;
  o.abort = &call.abort;
  fill_cost_model(given, o);
}

namespace {

// Has the callbacks of the working thread leave their news, or what they threw, in `watch`.
void connect(Call& call, Watch& watch) {
  if (call.options.cost_model)
    call.options.cost_model = [&, inner = call.options.cost_model](const api::Operator& op) {
      if (call.abort) return 0.0;
      try {
        return inner(op);
      } catch (...) {
        const std::lock_guard lock(watch.mutex);
        if (!watch.error) watch.error = std::current_exception();
        call.stop = call.abort = true;
        return 0.0;
      }
    };
  call.options.progress = [&](const api::Progress& p) {
    const std::lock_guard lock(watch.mutex);
    watch.progress.push_back(p);
    watch.changed.notify_one();
  };
}

}  // namespace

void run_watched(Call& call, const std::function<void()>& work) {
  Watch watch;
  std::string stage;
  connect(call, watch);
  std::thread worker([&] {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(watch.mutex);
    if (error && !watch.error) watch.error = error;
    watch.done = true;
    watch.changed.notify_one();
  });
  std::exception_ptr error;
  for (bool done = false; !done;) {
    std::deque<api::Progress> news;
    {
      const nb::gil_scoped_release release;
      std::unique_lock lock(watch.mutex);
      watch.changed.wait_for(lock, kGlance, [&] { return watch.done || !watch.progress.empty(); });
      news.swap(watch.progress);
      done = watch.done;
    }
    for (const api::Progress& p : news) {
      stage = p.stage;
      if (!call.progress.is_valid() || error) continue;
      try {
        call.progress(p.stage, p.iteration, p.nodes);
      } catch (...) {
        take_exception(call, stage, error);
      }
    }
    if (PyErr_CheckSignals() == 0) continue;
    try {
      nb::raise_python_error();
    } catch (...) {
      take_exception(call, stage, error);
    }
  }
  {
    const nb::gil_scoped_release release;
    worker.join();
  }
  if (!error) error = watch.error;
  call.options.progress = nullptr;
  call.options.cost_model = nullptr;
  if (error) std::rethrow_exception(error);
}

namespace {

// A Python function as what runs a model; its exception is kept.
api::RunElsewhere elsewhere(nb::object run, std::exception_ptr& error) {
  return [run = hold(run), &error](const api::Values& inputs) -> api::Expected<std::vector<api::Value>> {
    const nb::gil_scoped_acquire gil;
    try {
      nb::dict values;
      for (const auto& [name, value] : inputs) values[name.c_str()] = value_to(value);
      const nb::handle function(static_cast<PyObject*>(const_cast<void*>(run.get())));
      const nb::list made = nb::cast<nb::list>(function(values));
      std::vector<api::Value> out;
      for (const nb::handle value : made) out.push_back(value_from(value));
      return out;
    } catch (...) {
      error = std::current_exception();
      return api::Error{api::Code::kFile, "the runtime failed"};
    }
  };
}

}  // namespace

std::string generate(const api::Model& model, const std::vector<std::vector<std::int64_t>>& prompts, const nb::dict& given,
                     nb::object run) {
  Call call;
  call.stop = true;  // there is no rewriting to end early
  api::Generating o;
  get(given, "max_new_tokens", o.max_new_tokens);
  get(given, "min_new_tokens", o.min_new_tokens);
  get(given, "eos_ids", o.eos_ids);
  get(given, "max_context", o.max_context);
  get(given, "temperature", o.temperature);
  get(given, "top_p", o.top_p);
  get(given, "top_k", o.top_k);
  get(given, "seed", o.seed);
  get(given, "input_ids", o.input_ids);
  get(given, "attention_mask", o.attention_mask);
  get(given, "position_ids", o.position_ids);
  get(given, "logits", o.logits);
  get(given, "past_names", o.past_names);
  get(given, "present_names", o.present_names);
  get(given, "cache", o.cache);
  get(given, "dims", o.dims);
  get(given, "threads", o.threads);
  get(given, "given", o.given);
  get(given, "encoder_ids", o.encoder_ids);
  if (given.contains("encoder_inputs")) o.encoder_inputs = values_from(nb::cast<nb::dict>(given["encoder_inputs"]));
  if (given.contains("encoders"))
    for (const nb::handle encoder : nb::cast<nb::list>(given["encoders"])) o.encoders.push_back(nb::cast<const api::Model&>(encoder));
  o.abort = &call.abort;
  std::exception_ptr error;  // of what runs elsewhere
  if (!run.is_none()) o.run = elsewhere(run, error);
  if (given.contains("run_encoders"))
    for (const nb::handle one : nb::cast<nb::list>(given["run_encoders"])) o.run_encoders.push_back(elsewhere(nb::borrow(one), error));
  std::optional<api::Expected<std::string>> result;
  run_watched(call, [&] { result = api::generate(model, prompts, o); });
  if (error) std::rethrow_exception(error);
  return take(*std::move(result));
}

}  // namespace saturate::python
