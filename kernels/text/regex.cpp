// RegexFullMatch (ONNX Operators) by RE2, whose syntax the standard names: no pattern can make it hang, and its memory is bounded.
#include <re2/re2.h>

#include "kernels/tensor/util.h"
#include "kernels/text/util.h"

namespace saturate {
namespace {

Outputs regex_full_match(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.dtype() != DType::kString) return ctx.invalid("the input must be strings");
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 pattern(ctx.attr_s("pattern", ""), options);
  if (pattern.error_code() == RE2::ErrorPatternTooLarge) return ctx.unsupported("a pattern of this size");
  if (!pattern.ok()) return ctx.invalid("the pattern is wrong: " + pattern.error());
  auto out = ctx.allocate(DType::kBool, x.dims());
  if (!out.ok()) return out.status();
  for (std::int64_t i = 0; i < x.size(); ++i) write<bool>(*out)[i] = RE2::FullMatch(x.string_data()[static_cast<std::size_t>(i)], pattern);
  return outputs_of(*std::move(out));
}

}  // namespace

void register_string_regex(Registry& registry) { registry.add("", "RegexFullMatch", regex_full_match); }

}  // namespace saturate
