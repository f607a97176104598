// Does a decoder with a cache, run step by step, give what the model without one gives of the whole sequence?
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/decode/decoder.h"
#include "kernels/verify/verify.h"

namespace saturate {

struct SteppingOptions {
  DecoderNames whole, cached;          // what is not found by itself
  std::vector<const Model*> encoders;  // that make what the model with a cache is given, of what the whole one is given
  Inputs arrays;                       // what an encoder gives the whole model, by name; what is missing is drawn
  bool both_cached = false;            // the first model has a cache, too, of whatever dtype and layout, and goes through the same steps
  std::vector<std::int64_t> lengths;   // of sequences; empty: several, up to what the models hold
  std::vector<std::int64_t>
      windows;  // tokens of a step beside single ones; empty: 3, and half of the sequence before single ones; or the fixed one
  // Default: 1e-3 of what is usual in a row of logits; 2e-2 of the largest where the models compute in 16 bits.
  std::optional<double> rtol, atol;
  std::uint64_t seed = 0;  // of the tokens
  int threads = 1;
  double seconds = 60;                        // a case that would end later is left out, and named in a note
  std::size_t memory = std::size_t{4} << 30;  // bytes of all tensors of a run that are alive at once
  const std::atomic<bool>* cancel = nullptr;
  OtherRuntime runtime = {};                        // that runs both instead of ours
  std::vector<std::shared_ptr<Judge>> judges = {};  // that run both, too
  std::string no_judge = {};                        // why there is none
};

// There are steps of one token and of several, and a prompt with single tokens behind it. Rows of a batch are padded in front by different
// amounts, and some sequences end where a table of positions ends. The sizes of a case are its batch, tokens, tokens of the first
// step and of a further one (window), and padding; its one output are the logits of all tokens that are no padding (of each step's last
// token, where one of the models gives no others). Rows run one by one, with a note, where the caches of two are large. A sequence never
// goes beyond what a sliding past holds: there the two differ rightly. A note tells how far the logits move where the past is zero; where
// they don't, nothing was learned of it. What an encoder gives is drawn, its masks too; another note tells how far the logits move where
// that is zero for the model with a cache.
VerifyReport verify_by_stepping(const Model& whole, const Model& cached, const SteppingOptions& options = {});

}  // namespace saturate
