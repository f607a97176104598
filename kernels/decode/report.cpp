#include "kernels/decode/report.h"

#include <string>

#include "nlohmann/json.hpp"

namespace saturate {
namespace {

using nlohmann::json;

json phase_json(std::int64_t tokens, double seconds) {
  const bool timed = tokens > 0 && seconds > 0;
  return {{"tokens", tokens}, {"seconds", seconds}, {"tokens_per_second", timed ? json(static_cast<double>(tokens) / seconds) : json()}};
}

}  // namespace

json to_json(const Generation& made) {
  json rows = json::array();
  for (const GeneratedRow& row : made.rows) rows.push_back({{"tokens", row.tokens}, {"ended_by", std::string(to_string(row.end))}});
  return {{"rows", std::move(rows)},
          {"cache", std::string(to_string(made.cache))},
          {"cache_bytes", made.cache_bytes},
          {"runs", made.runs},
          {"new_tokens", made.new_tokens},
          {"prefill", phase_json(made.prompt_tokens, made.prefill_seconds)},
          {"decode", phase_json(made.decoded_tokens, made.decode_seconds)},
          {"notes", made.notes}};
}

}  // namespace saturate
