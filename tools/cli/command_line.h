// The `saturate` command as a function: arguments as main() has them, exit code out. (Alone, so that what only calls it reads nothing
// else.)
#pragma once

namespace saturate {

struct OtherRuntimes;

// `argv` as main gets it. Takes SIGINT, SIGTERM, SIGHUP, SIGXFSZ and SIGBUS over. `others`: what --runtime names beside our own runtime.
int command_line(int argc, char** argv, const OtherRuntimes* others = nullptr);

}  // namespace saturate
