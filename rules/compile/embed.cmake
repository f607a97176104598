# Writes the text of rule files as a C++ source: cmake -DOUTPUT=<file> -DFOLDER=<root> -DFILES=<a.rules|b.rules> -P embed.cmake
string(REPLACE "|" ";" files "${FILES}")
list(SORT files)
set(entries "")
foreach(file ${files})
  file(RELATIVE_PATH name "${FOLDER}" "${file}")
  file(READ "${file}" text)
  string(APPEND entries "    {\"${name}\", R\"rules(${text})rules\"},\n")
endforeach()
file(WRITE "${OUTPUT}.tmp"
  "#include \"rules/language/embedded.h\"\n\n#include <array>\n\nnamespace saturate {\nnamespace {\n\nconst auto kFiles = std::to_array<EmbeddedRules>({\n${entries}});\n\n"
  "}  // namespace\n\nstd::span<const EmbeddedRules> embedded_rules() { return kFiles; }\n\n}  // namespace saturate\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different "${OUTPUT}.tmp" "${OUTPUT}")
