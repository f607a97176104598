// What somebody else needs to repeat a run of `optimize`: the model with its data, the files and options given, and the command.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/cli/cli.h"

namespace saturate {

// Whether a run can be saved there: a folder that is empty, or a name that nothing has yet.
absl::Status check_repro_folder(const std::string& folder);

// Writes args.save_repro before the run, so that it is there whatever happens to the process.
//   run.sh: repeats the run, from any folder; SATURATE names the program (default: saturate).
//   repro.json: the command, the options, the seed, versions; exit status and message are null until the run has ended.
//   model/: the model and its data files, byte for byte.
//   inputs/ rules/ target/ costs/: the other files that the options name.
// Whole or not at all: what a failure leaves is removed. kCancelled once args.common.cancel is set.
absl::Status save_repro(const OptimizeArgs& args, const Model& model, const Setup& setup);

// Tells repro.json how the run ended; `message` is empty where all went well.
absl::Status end_repro(const std::string& folder, int exit_status, const std::string& message);

// A word as a POSIX shell reads it.
std::string shell_word(const std::string& word);

}  // namespace saturate
