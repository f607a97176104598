#include "tools/transform/precision/calibration.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "kernels/decode/encoder.h"
#include "tools/io/npz.h"

namespace saturate {
namespace {

bool holds_a_past(const Inputs& arrays, const Model& model, const Decoder& decoder) {
  return std::any_of(decoder.cache.begin(), decoder.cache.end(),
                     [&](const CachePair& pair) { return arrays.contains(model.graph.inputs[pair.past].name); });
}

}  // namespace

absl::StatusOr<Inputs> load_inputs(const std::string& path) {
  auto arrays = load_npz(path, kMostNamedData, within_memory(path, kMostNamedData), Pipes::kRefused);
  if (!arrays.ok()) return arrays.status();
  Inputs inputs;
  for (auto& [name, tensor] : *arrays) inputs.emplace(name, std::move(tensor));
  return inputs;
}

namespace {

absl::StatusOr<Tokens> tokens_of(const Inputs& arrays, const Model& model, const Decoder& decoder) {
  const auto& inputs = model.graph.inputs;
  const std::string& name = inputs[decoder.input_ids].name;
  const std::int64_t window = decoder.window.value_or(1);
  const auto is_given = [&](const std::string& array) {
    return std::any_of(decoder.given.begin(), decoder.given.end(), [&](std::size_t place) { return inputs[place].name == array; });
  };
  Tokens out;
  for (const auto& [array, value] : arrays) {
    if (is_given(array)) continue;
    const Tensor& tensor = value.tensor();
    if (array != name || tensor.rank() != 2 || tensor.size() == 0 || !is_integer(tensor.dtype()))
      return absl::InvalidArgumentError(fmt::format("array '{}': give tokens{}, as '{}', of rows and tokens", array,
                                                    decoder.given.empty() ? " alone" : " and what an encoder gives", name));
    const std::int64_t length = tensor.dims()[1] / window * window;
    if (length == 0) return absl::InvalidArgumentError(fmt::format("the model takes {} tokens a run; give as many at least", window));
    for (std::int64_t r = 0; r < tensor.dims()[0]; ++r)
      for (auto& row = out.emplace_back(); static_cast<std::int64_t>(row.size()) < length;)
        row.push_back(static_cast<std::int64_t>(*element_as_double(tensor, r * tensor.dims()[1] + static_cast<std::int64_t>(row.size()))));
  }
  if (out.empty()) return absl::InvalidArgumentError(fmt::format("it holds no array '{}'", name));
  if (decoder.batch && static_cast<std::int64_t>(out.size()) != *decoder.batch)
    return absl::InvalidArgumentError(fmt::format("array '{}': the model takes {} rows, not {}", name, *decoder.batch, out.size()));
  return out;
}

}  // namespace

absl::StatusOr<Texts> texts_of(const Inputs& arrays, const Model& model, const Decoder& decoder) {
  absl::StatusOr<Tokens> tokens = tokens_of(arrays, model, decoder);
  if (!tokens.ok()) return tokens.status();
  EncoderFeed feed;
  for (const std::size_t place : decoder.given) {
    const auto it = arrays.find(model.graph.inputs[place].name);
    if (it == arrays.end())
      return absl::InvalidArgumentError(fmt::format("it holds no array '{}', which an encoder gives", model.graph.inputs[place].name));
    feed.arrays.insert(*it);
  }
  absl::StatusOr<Inputs> given = given_inputs(model, decoder, feed, {}, *tokens);
  if (!given.ok()) return given.status();
  return Texts{*std::move(tokens), *std::move(given)};
}

absl::Status step_through(Stepper& stepper, const Texts& texts) {
  const Tokens& tokens = texts.tokens;
  const auto length = static_cast<std::int64_t>(tokens[0].size());
  const std::int64_t window = stepper.decoder().window.value_or(std::max<std::int64_t>(1, length - 1));
  const std::size_t rows = stepper.decoder().batch ? tokens.size() : 1;
  for (std::size_t row = 0; row < tokens.size(); row += rows) {
    if (absl::Status s = stepper.begin(std::vector<std::int64_t>(rows, 0)); !s.ok()) return s;
    std::vector<std::size_t> these(rows);
    std::iota(these.begin(), these.end(), row);
    stepper.give(rows_of(texts.given, these));
    for (std::int64_t at = 0; at < length; at += window) {
      Tokens step;
      for (std::size_t r = row; r < row + rows; ++r)
        step.emplace_back(tokens[r].begin() + at, tokens[r].begin() + std::min(at + window, length));
      if (const auto logits = stepper.step(step); !logits.ok()) return logits.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Ranges> ranges_on(const Inputs& arrays, const Model& model, bool keep) {
  const absl::StatusOr<Decoder> decoder = find_decoder(model);
  if (!decoder.ok() || decoder->cache.empty() || holds_a_past(arrays, model, *decoder)) return measure_ranges(model, {arrays}, keep);
  const absl::StatusOr<Texts> texts = texts_of(arrays, model, *decoder);
  if (!texts.ok()) return texts.status();
  return ranges_of_runs(
      model,
      [&](const RunModel& run) {
        Stepper stepper(model, *decoder, {}, run);
        return step_through(stepper, *texts);
      },
      keep);
}

}  // namespace saturate
