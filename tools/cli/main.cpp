#include "tools/cli/command_line.h"
#include "tools/cli/small_blocks.h"

int main(int argc, char** argv) { return saturate::command_line(argc, argv); }
