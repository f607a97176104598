// A result that verification refuses, traced to the application of a rule that brings the difference.
#pragma once

#include <cstdint>
#include <string>

#include "tools/pipeline/pipeline.h"

namespace saturate {

struct Culprit {
  bool found = false;
  std::uint64_t application = 0, applications = 0;  // which, of how many, in the order of the run (from 1)
  std::string rule, value;                          // the rule, and the value that it rewrites
  std::string message;                              // one sentence for the user; also where nothing was found
};

// Halves the number of rule applications that a run may make until one is left: with it the result differs, with those before it, it
// doesn't: neither the cheapest graph nor others of the e-graph. Runs on one thread; about log2(applications) runs of optimize and verify.
// `options.verify` has to be on; `options.check.inputs`, where given, are what it is judged by.
Culprit find_culprit(const Model& model, const Setup& setup, PipelineOptions options);

}  // namespace saturate
