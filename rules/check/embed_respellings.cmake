# Writes the text of respellings.rules as a C++ source: cmake -DOUTPUT=<file> -DFILE=<respellings.rules> -P embed_respellings.cmake
file(READ "${FILE}" text)
file(WRITE "${OUTPUT}"
  "#include \"rules/check/check_respelled.h\"\n\nnamespace saturate {\n\n"
  "std::string_view embedded_respellings() { return R\"rules(${text})rules\"; }\n\n}  // namespace saturate\n")
