#include <cstdint>

#include "kernels/text/util.h"

namespace saturate {
namespace {

// Length of the UTF-8 sequence that starts with this byte; 1 for stray bytes.
std::size_t sequence_length(unsigned char lead) { return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1; }

// Two-byte code points: Latin-1, Latin Extended-A, Greek, Cyrillic.
std::uint32_t swap_case(std::uint32_t c, bool upper) {
  if (c >= 0xc0 && c <= 0xde && c != 0xd7) return upper ? c : c + 32;
  if (c >= 0xe0 && c <= 0xfe && c != 0xf7) return upper ? c - 32 : c;
  if (c == 0xff) return upper ? 0x178 : c;
  if (c == 0x178) return upper ? c : 0xff;
  const bool even_upper = (c >= 0x100 && c <= 0x137 && c != 0x130 && c != 0x131) || (c >= 0x14a && c <= 0x177) ||
                          (c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f);
  if (even_upper) return upper ? c & ~1u : c | 1u;
  const bool odd_upper = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e);
  if (odd_upper) return upper ? (c - 1) | 1u : (c + 1) & ~1u;
  if (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) return upper ? c : c + 32;
  if (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) return upper ? c - 32 : c;
  if (c >= 0x410 && c <= 0x42f) return upper ? c : c + 32;
  if (c >= 0x430 && c <= 0x44f) return upper ? c - 32 : c;
  if (c >= 0x400 && c <= 0x40f) return upper ? c : c + 80;
  if (c >= 0x450 && c <= 0x45f) return upper ? c - 80 : c;
  return c;
}

}  // namespace

std::string change_case(const std::string& text, bool upper) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t n = sequence_length(lead);
    if (n == 1 || i + n > text.size()) {
      const bool cased = upper ? lead >= 'a' && lead <= 'z' : lead >= 'A' && lead <= 'Z';
      out.push_back(static_cast<char>(cased ? lead ^ 0x20 : lead));
      ++i;
    } else if (n == 2) {
      const std::uint32_t c = swap_case(((lead & 0x1fu) << 6) | (static_cast<unsigned char>(text[i + 1]) & 0x3fu), upper);
      out.push_back(static_cast<char>(0xc0 | (c >> 6)));
      out.push_back(static_cast<char>(0x80 | (c & 0x3f)));
      i += 2;
    } else {
      out.append(text, i, n);
      i += n;
    }
  }
  return out;
}

}  // namespace saturate
