# Writes respellings.rules and stay_silent.txt as a C++ source: cmake -DOUTPUT=<file> -DFOLDER=<rules/check> -P embed_respellings.cmake
file(READ "${FOLDER}/respellings.rules" laws)
file(READ "${FOLDER}/stay_silent.txt" silence)
file(WRITE "${OUTPUT}"
  "#include \"rules/check/check_respelled.h\"\n\nnamespace saturate {\n\n"
  "std::string_view embedded_respellings() { return R\"rules(${laws})rules\"; }\n"
  "std::string_view embedded_silence() { return R\"rules(${silence})rules\"; }\n\n}  // namespace saturate\n")
