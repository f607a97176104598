#include "tools/command_line.h"

int main(int argc, char** argv) { return saturate::command_line(argc, argv); }
