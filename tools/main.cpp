#include "tools/command_line.h"
#include "tools/small_blocks.h"

int main(int argc, char** argv) { return saturate::command_line(argc, argv); }
