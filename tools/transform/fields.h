// Parameters of a pass. Each is declared once; JSON, the command line, help, documents and errors come from its declaration.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace saturate {

enum class FieldType : std::uint8_t {
  kFlag,    // true or false
  kWhole,   // a whole number
  kNumber,  // any number
  kText,
  kTexts,   // a list of texts
  kWholes,  // a list of whole numbers
  kPairs,   // texts by text
  kSizes,   // whole numbers by text
  kShapes,  // by text a list of dims, each a whole number or a name
};

struct Field {
  std::string_view name;
  FieldType type = FieldType::kText;
  std::string_view says;                                        // one sentence
  std::string_view otherwise = "";                              // JSON that it is where it is not given; "": it must be given
  std::vector<std::string_view> allowed = {};                   // the texts that it may be (of kPairs: the values); empty: any
  std::int64_t low = std::numeric_limits<std::int64_t>::min();  // of whole numbers
  bool required() const { return otherwise.empty(); }
};

// "a list of texts", "one of nchw, nhwc".
std::string allowed_text(const Field& field);

// What was given for the fields of a pass, checked; defaults are filled in.
class Arguments {
 public:
  // `given`: an object. kInvalidArgument with one line that begins with `pass` and names field, value and what is allowed.
  static absl::StatusOr<Arguments> from_json(std::string_view pass, const std::vector<Field>& fields, const nlohmann::json& given);
  // The short form of the command line: "FIELD=VALUE;FIELD=VALUE", where the first field of a pass needs no name: "old=new,a=b".
  static absl::StatusOr<Arguments> from_text(std::string_view pass, const std::vector<Field>& fields, std::string_view text);

  bool flag(const char* field) const { return values_.at(field).get<bool>(); }
  std::int64_t whole(const char* field) const { return values_.at(field).get<std::int64_t>(); }
  double number(const char* field) const { return values_.at(field).get<double>(); }
  std::string text(const char* field) const { return values_.at(field).get<std::string>(); }
  std::vector<std::string> texts(const char* field) const { return values_.at(field).get<std::vector<std::string>>(); }
  std::vector<std::int64_t> wholes(const char* field) const { return values_.at(field).get<std::vector<std::int64_t>>(); }
  std::map<std::string, std::string> pairs(const char* field) const { return values_.at(field).get<std::map<std::string, std::string>>(); }
  std::map<std::string, std::int64_t> sizes(const char* field) const {
    return values_.at(field).get<std::map<std::string, std::int64_t>>();
  }
  const nlohmann::json& all() const { return values_; }
  // An error about what was given for a field: "pass rename_inputs: names: 'x': WHAT".
  absl::Status wrong(const char* field, std::string_view value, std::string_view what) const;

 private:
  std::string pass_;
  nlohmann::json values_ = nlohmann::json::object();
};

}  // namespace saturate
