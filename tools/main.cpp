#include "tools/cli.h"

int main(int argc, char** argv) { return saturate::command_line(argc, argv); }
