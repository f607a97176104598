#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "fmt/format.h"
#include "tools/io/npz.h"

namespace saturate {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMostStrings = 1 << 25, kMostEmptyStrings = 1 << 20;  // one takes 32 bytes and more, whatever it takes in the file

absl::Status bad_npy(const std::string& place, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}; save it again with numpy.save or numpy.savez", place, what));
}

// The text after `'key':` in the header's Python dict.
std::optional<std::string_view> dict_value(std::string_view header, std::string_view key) {
  std::size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find(':', at);
  if (at == std::string_view::npos) return std::nullopt;
  header.remove_prefix(at + 1);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

struct Header {
  char order = '|', kind = 0;
  std::uint64_t item = 0;  // bytes of an element
  bool fortran = false;
  Shape dims;
};

bool holds_text(const Header& h) { return h.kind == 'U' || h.kind == 'S'; }

std::optional<std::uint64_t> number(std::string_view& text) {
  std::uint64_t value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (digits == 18) return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(text[digits++] - '0');
  }
  if (digits == 0) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

std::optional<Header> parse_header(std::string_view text) {
  Header h;
  const auto descr = dict_value(text, "descr"), fortran = dict_value(text, "fortran_order"), shape = dict_value(text, "shape");
  if (!descr || !fortran || !shape || descr->size() < 4 || shape->empty() || (*descr)[0] != '\'' || (*shape)[0] != '(') return std::nullopt;
  h.order = (*descr)[1];
  h.kind = (*descr)[2];
  std::string_view item = descr->substr(3);
  if (h.kind != 'O') {
    const auto bytes = number(item);
    if (!bytes || *bytes > (1u << 28)) return std::nullopt;
    h.item = *bytes;
    if (h.kind == 'U') h.item *= 4;
  }
  h.fortran = fortran->starts_with("True");
  std::string_view rest = shape->substr(1);
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(", "), rest.size()));
    if (rest.empty()) return std::nullopt;
    if (rest[0] == ')') return h;
    const auto dim = number(rest);
    if (!dim || h.dims.size() == 64) return std::nullopt;
    h.dims.push_back(static_cast<std::int64_t>(*dim));
  }
}

std::optional<DType> dtype_of(char kind, std::uint64_t item) {
  switch (kind) {
    case 'b':
      return item == 1 ? std::optional(DType::kBool) : std::nullopt;
    case 'f':
      return item == 2   ? std::optional(DType::kFloat16)
             : item == 4 ? std::optional(DType::kFloat)
             : item == 8 ? std::optional(DType::kDouble)
                         : std::nullopt;
    case 'c':
      return item == 8 ? std::optional(DType::kComplex64) : item == 16 ? std::optional(DType::kComplex128) : std::nullopt;
    case 'V':
      return item == 2 ? std::optional(DType::kBfloat16) : std::nullopt;
    case 'i':
      return item == 1   ? std::optional(DType::kInt8)
             : item == 2 ? std::optional(DType::kInt16)
             : item == 4 ? std::optional(DType::kInt32)
             : item == 8 ? std::optional(DType::kInt64)
                         : std::nullopt;
    case 'u':
      return item == 1   ? std::optional(DType::kUint8)
             : item == 2 ? std::optional(DType::kUint16)
             : item == 4 ? std::optional(DType::kUint32)
             : item == 8 ? std::optional(DType::kUint64)
                         : std::nullopt;
    default:
      return std::nullopt;
  }
}

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xf0 | ((c >> 18) & 7));
    out += static_cast<char>(0x80 | ((c >> 12) & 63));
    out += static_cast<char>(0x80 | ((c >> 6) & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

std::vector<std::uint32_t> code_points(std::string_view s) {
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < s.size();) {
    const auto lead = static_cast<unsigned char>(s[i++]);
    int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    std::uint32_t c = more == 3 ? lead & 7u : more == 2 ? lead & 15u : more == 1 ? lead & 31u : lead;
    for (; more > 0 && i < s.size(); --more) c = (c << 6) | (static_cast<unsigned char>(s[i++]) & 63u);
    out.push_back(c);
  }
  return out;
}

// Element i of the result is element source(i) of the data.
std::vector<std::uint64_t> fortran_order(const Shape& dims, std::uint64_t count) {
  std::vector<std::uint64_t> stride(dims.size(), 1), index(dims.size(), 0), out(count);
  for (std::size_t d = 1; d < dims.size(); ++d) stride[d] = stride[d - 1] * static_cast<std::uint64_t>(dims[d - 1]);
  for (std::uint64_t& source : out) {
    source = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) source += index[d] * stride[d];
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < static_cast<std::uint64_t>(dims[d])) break;
      index[d] = 0;
    }
  }
  return out;
}

Tensor string_tensor(const Header& h, std::string_view data, std::uint64_t count) {
  std::vector<std::string> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view item = data.substr(i * h.item, h.item);
    if (h.kind == 'S') {
      values[i] = item.substr(0, item.find_last_not_of('\0') + 1);
      continue;
    }
    std::string units(item);
    if (h.order == '>')
      for (std::size_t k = 0; k < units.size(); k += 4)
        std::reverse(units.begin() + static_cast<std::ptrdiff_t>(k), units.begin() + static_cast<std::ptrdiff_t>(k) + 4);
    for (std::size_t k = 0; k < units.size(); k += 4) {
      std::uint32_t c = 0;
      std::memcpy(&c, units.data() + k, 4);
      if (c == 0) break;
      append_utf8(values[i], c);
    }
  }
  return Tensor::strings(h.dims, std::move(values));
}

// NumPy's name of a dtype, little-endian; empty where it has none (strings: print_texts).
std::string_view dtype_descr(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kInt8:
      return "|i1";
    case DType::kUint8:
      return "|u1";
    case DType::kInt16:
      return "<i2";
    case DType::kUint16:
      return "<u2";
    case DType::kInt32:
      return "<i4";
    case DType::kUint32:
      return "<u4";
    case DType::kInt64:
      return "<i8";
    case DType::kUint64:
      return "<u8";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat:
      return "<f4";
    case DType::kDouble:
      return "<f8";
    case DType::kComplex64:
      return "<c8";
    case DType::kComplex128:
      return "<c16";
    case DType::kBfloat16:
      return "<V2";
    default:
      return "";
  }
}

// Appends the strings as UTF-32 of one width, the longest's; returns that dtype's name.
std::string print_texts(std::span<const std::string> strings, std::string& out) {
  std::size_t longest = 1;
  std::vector<std::vector<std::uint32_t>> texts;
  for (const std::string& s : strings) {
    texts.push_back(code_points(s));
    longest = std::max(longest, texts.back().size());
  }
  out.resize(texts.size() * longest * 4);
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!texts[i].empty()) std::memcpy(out.data() + i * longest * 4, texts[i].data(), texts[i].size() * 4);
  return fmt::format("<U{}", longest);
}

struct NpyParts {
  Header header;
  DType dtype = DType::kUndefined;
  std::size_t data = 0;  // where the elements begin
};

absl::StatusOr<NpyParts> parse_npy_parts(std::string_view bytes, const std::string& place) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return bad_npy(place, "not a NumPy array");
  const bool wide = bytes[6] != 1;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, wide ? 4 : 2);
  const std::size_t start = wide ? 12 : 10;
  if (length > bytes.size() - start) return bad_npy(place, "the array's header is cut off");
  auto header = parse_header(bytes.substr(start, length));
  if (!header) return bad_npy(place, "the array's header can't be read");
  if (header->kind == 'O') return bad_npy(place, "an array of Python objects is not read");
  const auto dtype = holds_text(*header) ? std::optional(DType::kString) : dtype_of(header->kind, header->item);
  if (!dtype) return bad_npy(place, fmt::format("arrays of dtype {}{} are not read", header->kind, header->item));
  return NpyParts{*std::move(header), *dtype, start + length};
}

}  // namespace

absl::StatusOr<NpyHead> parse_npy_head(std::string_view bytes, const std::string& place) {
  absl::StatusOr<NpyParts> parts = parse_npy_parts(bytes, place);
  if (!parts.ok()) return parts.status();
  const auto count = checked_elements(parts->header.dims);
  const std::uint64_t item = parts->header.item, most = ~std::uint64_t{0};
  if (!count) return bad_npy(place, "the array's shape is too large");
  const auto elements = static_cast<std::uint64_t>(*count);
  return NpyHead{parts->dtype, std::move(parts->header.dims), item != 0 && elements > most / item ? most : elements * item};
}

absl::StatusOr<Tensor> parse_npy(std::string_view bytes, const std::string& place) {
  const absl::StatusOr<NpyParts> parts = parse_npy_parts(bytes, place);
  if (!parts.ok()) return parts.status();
  const Header* const header = &parts->header;
  const bool text = holds_text(*header);
  const auto count = checked_elements(header->dims);
  const std::string_view data = bytes.substr(parts->data);
  if (!count || (*count != 0 && header->item > data.size() / static_cast<std::uint64_t>(*count)))
    return bad_npy(place, "the array's data is cut off");
  const auto elements = static_cast<std::uint64_t>(*count);
  if (text && elements > (header->item == 0 ? kMostEmptyStrings : kMostStrings))
    return bad_npy(place, fmt::format("{} strings are too many", elements));
  std::string ordered;
  Header h = *header;
  std::string_view source = data;
  if (h.fortran && h.dims.size() > 1 && h.item > 0) {
    ordered.resize(elements * h.item);
    const auto order = fortran_order(h.dims, elements);
    for (std::uint64_t i = 0; i < elements; ++i) std::memcpy(ordered.data() + i * h.item, data.data() + order[i] * h.item, h.item);
    source = ordered;
  }
  if (text) return string_tensor(h, source, elements);
  Tensor tensor(parts->dtype, h.dims);
  if (elements == 0) return tensor;
  std::byte* to = tensor.mutable_data();
  std::memcpy(to, source.data(), elements * h.item);
  if (h.order == '>') {
    const std::uint64_t unit = h.kind == 'c' ? h.item / 2 : h.item;
    for (std::uint64_t i = 0; i < elements * h.item; i += unit) std::reverse(to + i, to + i + unit);
  }
  return with_plain_bools(std::move(tensor));
}

absl::StatusOr<std::string> print_npy(const Tensor& tensor) {
  const bool text = tensor.dtype() == DType::kString;
  std::string texts;
  const std::string descr = text ? print_texts(tensor.string_data(), texts) : std::string(dtype_descr(tensor.dtype()));
  if (descr.empty())
    return absl::UnimplementedError(
        fmt::format("NumPy has no dtype for {}; cast the output to another type in the model", dtype_name(tensor.dtype())));
  std::string shape;
  for (std::int64_t d : tensor.dims()) shape += fmt::format("{}, ", d);
  if (tensor.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.rank() == 1) shape.resize(shape.size() - 1);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  header += std::string(63 - (10 + header.size()) % 64, ' ') + '\n';
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  out += header;
  if (text) return out + texts;
  out.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  return out;
}

}  // namespace saturate
