# Writes a file's text as a function of C++: cmake -DOUTPUT=<file> -DINPUT=<file> -DNAME=<function> -P embed_text.cmake
file(READ "${INPUT}" text)
file(WRITE "${OUTPUT}"
  "#include \"rules/language/embedded.h\"\n\nnamespace saturate {\n\n"
  "std::string_view ${NAME}() { return R\"text(${text})text\"; }\n\n}  // namespace saturate\n")
