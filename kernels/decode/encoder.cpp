#include "kernels/decode/encoder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "kernels/inputs/input_uses.h"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

constexpr std::int64_t kDrawnStates = 9;

bool tells(const std::string& name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

bool is_mask_name(const std::string& name) { return tells(name, {"mask"}); }
bool is_states_name(const std::string& name) { return tells(name, {"hidden_state", "encoder_output", "last_hidden"}); }
bool is_tokens_name(const std::string& name) { return tells(name, {"ids"}) && !tells(name, {"position", "token_type", "mask"}); }

// Whether an input belongs to the decoder's side of a model in front of the decoder, as of optimum's decoder_model.onnx.
bool is_decoders(const Graph& graph, const std::string& name) {
  const auto any = [&](auto is) { return std::any_of(graph.inputs.begin(), graph.inputs.end(), is); };
  if (any([](const ValueInfo& i) { return tells(i.name, {"decoder_input"}); })) return tells(name, {"decoder"});
  return any([](const ValueInfo& i) { return names_encoder(i.name); }) && !names_encoder(name);
}

std::int64_t rows_in(const Tensor& tensor) { return tensor.rank() > 0 ? tensor.dims()[0] : 0; }

Tensor some_rows(const Tensor& from, std::span<const std::size_t> rows) {
  Shape dims = from.dims();
  dims[0] = static_cast<std::int64_t>(rows.size());
  Tensor out(from.dtype(), std::move(dims));
  const std::size_t bytes = from.size() == 0 ? 0 : from.bytes().size() / static_cast<std::size_t>(rows_in(from));
  for (std::size_t i = 0; i < rows.size() && bytes > 0; ++i)
    std::memcpy(out.mutable_data() + i * bytes, from.bytes().data() + rows[i] * bytes, bytes);
  return out;
}

// One row stands for as many as are wanted.
Tensor repeated(const Tensor& row, std::int64_t times) {
  return some_rows(row, std::vector<std::size_t>(static_cast<std::size_t>(times), 0));
}

// Rows of tensors that are equal in all other dims, one behind another.
std::optional<Tensor> stacked(const std::vector<Tensor>& parts) {
  Shape dims = parts[0].dims();
  dims[0] = 0;
  for (const Tensor& part : parts) {
    if (part.rank() == 0 || part.dtype() != parts[0].dtype() ||
        !std::equal(dims.begin() + 1, dims.end(), part.dims().begin() + 1, part.dims().end()))
      return std::nullopt;
    dims[0] += part.dims()[0];
  }
  Tensor out(parts[0].dtype(), std::move(dims));
  std::size_t at = 0;
  for (const Tensor& part : parts) {
    if (part.size() > 0) std::memcpy(out.mutable_data() + at, part.bytes().data(), part.bytes().size());
    at += part.bytes().size();
  }
  return out;
}

// As another dtype, where both are floats or neither is.
std::optional<Tensor> as_dtype(const Tensor& from, DType dtype) {
  if (from.dtype() == dtype || dtype == DType::kUndefined) return from;
  if (is_floating(from.dtype()) != is_floating(dtype)) return std::nullopt;
  Tensor out(dtype, from.dims());
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const auto whole = is_floating(dtype) ? std::nullopt : element_as_int(from, i);
    const auto number = element_as_double(from, i);
    if (!(whole && store_int(out, i, *whole)) && !(number && store_double(out, i, *number))) return std::nullopt;
  }
  return out;
}

class Given {
 public:
  Given(const EncoderFeed& feed, const Tokens& prompts) : feed_(feed), prompts_(prompts) {}

  absl::Status run(const EncoderModel& encoder) {
    const Graph& graph = encoder.model->graph;
    const std::int64_t rows = feed_.rows();
    absl::StatusOr<Inputs> inputs = inputs_of(graph, places_without_default(graph), rows, encoder.model->path, false);
    if (!inputs.ok()) return inputs.status();
    absl::StatusOr<std::vector<Tensor>> outputs = run_rows(encoder, *inputs, rows);
    if (!outputs.ok()) return outputs.status();
    for (std::size_t i = 0; i < outputs->size() && i < graph.outputs.size(); ++i) {
      made_.insert_or_assign(graph.outputs[i].name, (*outputs)[i]);
      bare_.insert_or_assign(bare_name(graph.outputs[i].name), (*outputs)[i]);
      if (is_states_name(graph.outputs[i].name) || (graph.outputs.size() == 1 && (*outputs)[i].rank() == 3)) states_ = (*outputs)[i];
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Inputs> for_decoder(const Model& model, const Decoder& decoder) {
    const auto rows = static_cast<std::int64_t>(prompts_.size());
    absl::StatusOr<Inputs> out = inputs_of(model.graph, decoder.given, rows, "", true);
    if (out.ok())
      if (absl::Status s = all_used(); !s.ok()) return s;
    return out;
  }

 private:
  static std::vector<std::size_t> places_without_default(const Graph& graph) {
    std::set<std::string> defaults;
    for (const Initializer& initializer : graph.initializers) defaults.insert(initializer.name);
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
      if (!defaults.contains(graph.inputs[i].name)) out.push_back(i);
    return out;
  }

  absl::Status wrong(const std::string& input, const std::string& what) const {
    return wrong_usage(fmt::format("input '{}'{}: {}", input, place_.empty() ? "" : " of " + place_, what));
  }

  // Masks come last, when the sizes of what they hide are known.
  absl::StatusOr<Inputs> inputs_of(const Graph& graph, const std::vector<std::size_t>& places, std::int64_t rows, const std::string& path,
                                   bool of_decoder) {
    place_ = path;
    sizes_.clear();
    masked_ = reads_ids_ = false;
    Inputs out;
    for (const bool masks : {false, true})
      for (const std::size_t place : places) {
        const ValueInfo& info = graph.inputs[place];
        if (is_mask_name(info.name) != masks) continue;
        const bool decoders = !of_decoder && is_decoders(graph, info.name);
        absl::StatusOr<Tensor> value = decoders ? of_prompts(graph, info) : of_encoder(graph, info, rows);
        if (value.ok()) value = fitted(info, *value, rows);
        if (!value.ok()) return value.status();
        out.insert_or_assign(info.name, *std::move(value));
      }
    if (absl::Status s = may_pad(of_decoder); !s.ok()) return s;
    return out;
  }

  // What reads the decoder's tokens has the first of each.
  absl::StatusOr<Tensor> of_prompts(const Graph& graph, const ValueInfo& info) {
    std::vector<std::int64_t> first;
    for (const auto& prompt : prompts_) first.push_back(prompt.empty() || is_mask_name(info.name) ? 1 : prompt[0]);
    if (!is_mask_name(info.name) && !is_tokens_name(info.name)) return missing(graph, info);
    return Tensor::of<std::int64_t>(DType::kInt64, {static_cast<std::int64_t>(first.size()), 1}, std::span<const std::int64_t>(first));
  }

  absl::StatusOr<Tensor> of_encoder(const Graph& graph, const ValueInfo& info, std::int64_t rows) {
    masked_ = masked_ || is_mask_name(info.name);
    if (const Tensor* array = array_of(info.name)) return *array;
    if (const auto it = made_.find(info.name); it != made_.end()) return it->second;
    if (const auto it = bare_.find(bare_name(info.name)); it != bare_.end()) return it->second;
    if (is_mask_name(info.name)) return mask(info, rows);
    if (is_tokens_name(info.name) && !feed_.ids.empty()) return tokens(graph, info);
    if (is_states_name(info.name) && states_) return *states_;
    return missing(graph, info);
  }

  const Tensor* array_of(const std::string& name) {
    const auto it = feed_.arrays.find(name);
    if (it == feed_.arrays.end() || !it->second.is_tensor()) return nullptr;
    used_.insert(name);
    return &it->second.tensor();
  }

  absl::Status missing(const Graph& graph, const ValueInfo& info) const {
    const bool reads_tokens = is_tokens_name(info.name) && !names_encoder(info.name);
    const bool made_before =
        std::any_of(graph.inputs.begin(), graph.inputs.end(), [](const ValueInfo& i) { return names_encoder(i.name); });
    return wrong(info.name, fmt::format("nothing is given for it; give {}an array of this name by --inputs{}",
                                        reads_tokens ? "tokens by --encoder-ids, or " : "",
                                        made_before ? ", or name the model that makes it by --encoder" : ""));
  }

  absl::StatusOr<Tensor> tokens(const Graph& graph, const ValueInfo& info) {
    ids_used_ = reads_ids_ = true;
    const std::optional<std::int64_t> known = InputUses(graph).rows(info.name);
    for (const auto& row : feed_.ids)
      for (const std::int64_t token : row)
        if (token < 0 || (known && token >= *known))
          return wrong_usage(fmt::format("--encoder-ids: token {}, and the encoder knows {}; take its own tokenizer", token,
                                         known ? fmt::format("0 to {}", *known - 1) : "no negative ones"));
    return by_place([](std::int64_t token) { return token; });
  }

  std::int64_t longest() const {
    std::int64_t out = 0;
    for (const auto& row : feed_.ids) out = std::max(out, static_cast<std::int64_t>(row.size()));
    return out;
  }
  std::int64_t shortest() const {
    std::int64_t out = longest();
    for (const auto& row : feed_.ids) out = std::min(out, static_cast<std::int64_t>(row.size()));
    return out;
  }

  // Of each token; 0 of what is padding behind.
  template <typename Of>
  Tensor by_place(Of of) const {
    Tensor out(DType::kInt64, {static_cast<std::int64_t>(feed_.ids.size()), longest()});
    for (std::size_t r = 0; r < feed_.ids.size(); ++r)
      for (std::size_t i = 0; i < feed_.ids[r].size(); ++i)
        store_int(out, static_cast<std::int64_t>(r) * longest() + static_cast<std::int64_t>(i), of(feed_.ids[r][i]));
    return out;
  }

  // Of the tokens; else that of the arrays; else one that hides nothing.
  absl::StatusOr<Tensor> mask(const ValueInfo& info, std::int64_t rows) {
    if (ids_used_) return by_place([](std::int64_t) { return 1; });
    for (const char* name : {"encoder_attention_mask", "attention_mask"})
      if (const Tensor* array = array_of(name)) return *array;
    std::optional<std::int64_t> length;
    if (info.type.shape && info.type.shape->size() == 2) {
      const DimSpec& dim = (*info.type.shape)[1];
      if (const auto* number = std::get_if<std::int64_t>(&dim)) length = *number;
      if (const auto* text = std::get_if<std::string>(&dim)) length = evaluate_dim(*text, sizes_);
    }
    if (!length && states_ && states_->rank() == 3) length = states_->dims()[1];
    if (!length) return wrong(info.name, "how many states it hides is not known; give an array of this name by --inputs");
    Tensor out(DType::kInt64, {rows, *length});
    for (std::int64_t i = 0; i < out.size(); ++i) store_int(out, i, 1);
    return out;
  }

  // In the dtype and shape that the input is declared with.
  absl::StatusOr<Tensor> fitted(const ValueInfo& info, const Tensor& value, std::int64_t rows) {
    if (info.type.kind != ValueType::Kind::kTensor) return wrong(info.name, "it is no tensor, and nothing else can be given");
    std::optional<Tensor> typed = as_dtype(value, info.type.dtype);
    if (!typed)
      return wrong(info.name, fmt::format("it is given {}, and takes {}", dtype_name(value.dtype()), dtype_name(info.type.dtype)));
    if (rows_in(*typed) == 1 && rows > 1) typed = repeated(*typed, rows);
    if (rows_in(*typed) != rows)
      return wrong(info.name, fmt::format("it is given {} rows, where there are {}; give one, or as many", rows_in(*typed), rows));
    const auto& declared = info.type.shape;
    if (declared && declared->size() != static_cast<std::size_t>(typed->rank()))
      return wrong(info.name, fmt::format("it is given rank {}, and takes {}", typed->rank(), declared->size()));
    for (std::size_t k = 1; declared && k < declared->size(); ++k) {
      const std::int64_t size = typed->dims()[k];
      const DimSpec& dim = (*declared)[k];
      const auto* text = std::get_if<std::string>(&dim);
      const std::optional<std::int64_t> wanted = dim_size(dim, sizes_);
      if (wanted && *wanted != size)
        return wrong(info.name, fmt::format("its dim {} is given {}, and has to be {}{}", k, size, *wanted,
                                            text ? fmt::format(" ({} of another input)", *text) : ""));
      if (text && !text->empty()) sizes_.emplace(*text, size);
    }
    return *std::move(typed);
  }

  // All rows at once, or one by one where the model takes one alone.
  absl::StatusOr<std::vector<Tensor>> run_rows(const EncoderModel& encoder, const Inputs& inputs, std::int64_t rows) {
    const auto fixed_to_one = [](const ValueInfo& i) {
      return i.type.shape && !i.type.shape->empty() && i.type.shape->front() == DimSpec(std::int64_t{1});
    };
    const auto& declared = encoder.model->graph.inputs;
    const bool apart = rows > 1 && std::any_of(declared.begin(), declared.end(), fixed_to_one);
    std::vector<std::vector<Tensor>> by_output(encoder.model->graph.outputs.size());
    for (std::int64_t r = 0; r < (apart ? rows : 1); ++r) {
      const auto row = static_cast<std::size_t>(r);
      absl::StatusOr<std::vector<Value>> made = encoder.run(apart ? rows_of(inputs, std::span(&row, 1)) : inputs);
      if (!made.ok())
        return absl::Status(made.status().code(), fmt::format("{}: {}", encoder.model->path, std::string(made.status().message())));
      for (std::size_t i = 0; i < by_output.size() && i < made->size(); ++i)
        if ((*made)[i].is_tensor()) by_output[i].push_back((*made)[i].tensor());
    }
    std::vector<Tensor> out;
    for (std::size_t i = 0; i < by_output.size(); ++i) {
      std::optional<Tensor> whole = by_output[i].empty()       ? std::nullopt
                                    : by_output[i].size() == 1 ? by_output[i][0]
                                                               : stacked(by_output[i]);
      if (!whole)
        return absl::InvalidArgumentError(
            fmt::format("{}: output '{}' has not a row for each text", encoder.model->path, encoder.model->graph.outputs[i].name));
      out.push_back(*std::move(whole));
    }
    return out;
  }

  // What reads padding, and the decoder that attends to it, has to be told what it is.
  absl::Status may_pad(bool of_decoder) const {
    if ((reads_ids_ || of_decoder) && !masked_ && longest() > shortest() && ids_used_)
      return wrong_usage(
          fmt::format("--encoder-ids: rows of {} to {} tokens, and {} takes no mask, so that they can't be padded; give rows of one length",
                      shortest(), longest(), place_.empty() ? "the decoder" : place_));
    return absl::OkStatus();
  }

  absl::Status all_used() const {
    if (!feed_.ids.empty() && !ids_used_) return wrong_usage("--encoder-ids: no model reads them; name the encoder by --encoder");
    for (const auto& [name, value] : feed_.arrays)
      if (!feed_.may_be_unread && !used_.contains(name))
        return wrong_usage(fmt::format("--inputs: array '{}' is none of what an encoder reads or gives; leave it out", name));
    return absl::OkStatus();
  }

  const EncoderFeed& feed_;
  const Tokens& prompts_;
  std::string place_;                          // the model whose inputs are gathered; "": the decoder
  Sizes sizes_;                                // of its dims
  std::map<std::string, Tensor> made_, bare_;  // by encoders; by name, and by name without "past" and "present"
  std::optional<Tensor> states_;
  std::set<std::string> used_;  // arrays
  bool ids_used_ = false;
  bool reads_ids_ = false, masked_ = false;  // the model whose inputs are gathered
};

absl::Status check_rows(const EncoderFeed& feed, const Tokens& prompts) {
  for (const auto& row : feed.ids)
    if (row.empty()) return wrong_usage("--encoder-ids: a row is empty; give at least one token, such as the one that ends texts");
  const std::int64_t rows = feed.rows();
  for (const auto& [name, value] : feed.arrays)
    if (!value.is_tensor() || value.tensor().rank() == 0 || (rows_in(value.tensor()) != rows && rows_in(value.tensor()) != 1) ||
        bit_width(value.tensor().dtype()) < 8)
      return wrong_usage(fmt::format("--inputs: array '{}' has not a row for each of {} texts, as its first dim", name, rows));
  const auto count = static_cast<std::int64_t>(prompts.size());
  if (rows != 1 && count != 1 && rows != count)
    return wrong_usage(fmt::format("{} prompts, and {} rows for the encoder; give one prompt for all, or as many of each", count, rows));
  return absl::OkStatus();
}

}  // namespace

std::int64_t EncoderFeed::rows() const {
  auto out = static_cast<std::int64_t>(std::max<std::size_t>(1, ids.size()));
  for (const auto& [name, value] : arrays)
    if (value.is_tensor()) out = std::max(out, rows_in(value.tensor()));
  return out;
}

absl::StatusOr<Inputs> given_inputs(const Model& model, const Decoder& decoder, const EncoderFeed& feed,
                                    std::span<const EncoderModel> encoders, const Tokens& prompts) {
  if (decoder.given.empty()) {
    if (encoders.empty() && feed.ids.empty() && feed.arrays.empty()) return Inputs();
    return wrong_usage("the model takes nothing from an encoder; leave --encoder, --encoder-ids and --inputs out");
  }
  if (absl::Status s = check_rows(feed, prompts); !s.ok()) return s;
  Given given(feed, prompts);
  for (const EncoderModel& encoder : encoders)
    if (absl::Status s = given.run(encoder); !s.ok()) return s;
  return given.for_decoder(model, decoder);
}

Tokens prompts_for(const Tokens& prompts, const EncoderFeed& feed) {
  const std::int64_t rows = feed.rows();
  return prompts.size() == 1 && rows > 1 ? Tokens(static_cast<std::size_t>(rows), prompts[0]) : prompts;
}

absl::StatusOr<Inputs> drawn_given(const Model& model, const Decoder& decoder, std::int64_t rows, const Sizes& sizes, std::uint64_t seed) {
  if (decoder.given.empty()) return Inputs();
  const auto& inputs = model.graph.inputs;
  const InputDrawer drawer(model, sizes);
  const DimSpec& batch = (*inputs[decoder.input_ids].type.shape)[0];
  Sizes all = sizes;
  for (const std::string& symbol : drawer.symbols())
    all.emplace(symbol, batch == DimSpec(symbol) || symbol.ends_with("[0]") ? rows : kDrawnStates);
  DrawStyle style;
  for (const std::size_t place : decoder.given)
    if (is_mask_name(inputs[place].name)) style.masks.insert(inputs[place].name);
  const absl::StatusOr<Inputs> drawn = drawer.draw(all, style, seed);
  if (!drawn.ok()) return drawn.status();
  Inputs out;
  for (const std::size_t place : decoder.given) out.emplace(inputs[place].name, drawn->at(inputs[place].name));
  return out;
}

Inputs rows_of(const Inputs& values, std::span<const std::size_t> rows) {
  Inputs out;
  for (const auto& [name, value] : values) out.emplace(name, some_rows(value.tensor(), rows));
  return out;
}

}  // namespace saturate
