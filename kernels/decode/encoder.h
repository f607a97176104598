// What an encoder gives a decoder: its states and their mask, and keys and values made of them once for all tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"
#include "kernels/decode/stepper.h"

namespace saturate {

// A model that runs once, in front of the decoder.
struct EncoderModel {
  const Model* model = nullptr;
  RunModel run;
};

// What encoders read.
struct EncoderFeed {
  Tokens ids;                  // by row; the shorter ones are padded behind, and a mask hides that
  Inputs arrays;               // by name of an encoder's input, or of one that an encoder gives the decoder
  bool may_be_unread = false;  // arrays that nothing reads are no mistake
  // Of how many texts (or sounds) these are; 1 where they tell nothing.
  std::int64_t rows() const;
};

// What stays the same while the decoder goes on: its inputs `Decoder::given`, with a row for each prompt. Encoders run one after another.
// An input is an array of the feed, else an output of an encoder of the same name, "past" and "present" aside; masks and states are found
// by their roles. What reads a decoder's tokens, too, gets the first of each prompt. wrong_usage() where something is missing or does not
// fit: the input, what is wrong, and what to do.
absl::StatusOr<Inputs> given_inputs(const Model& model, const Decoder& decoder, const EncoderFeed& feed,
                                    std::span<const EncoderModel> encoders, const Tokens& prompts);

// One prompt serves all rows of the feed.
Tokens prompts_for(const Tokens& prompts, const EncoderFeed& feed);

// Drawn ones of a decoder by itself: states of an open number are 9, and masks hide some of them.
absl::StatusOr<Inputs> drawn_given(const Model& model, const Decoder& decoder, std::int64_t rows, const Sizes& sizes, std::uint64_t seed);

// These rows of each value.
Inputs rows_of(const Inputs& values, std::span<const std::size_t> rows);

}  // namespace saturate
