# Writes respellings.rules as a C++ source: cmake -DOUTPUT=<file> -DFOLDER=<rules/check> -P embed_respellings.cmake
file(READ "${FOLDER}/respellings.rules" laws)
file(WRITE "${OUTPUT}"
  "#include \"rules/check/check_respelled.h\"\n\nnamespace saturate {\n\n"
  "std::string_view embedded_respellings() { return R\"rules(${laws})rules\"; }\n\n}  // namespace saturate\n")
