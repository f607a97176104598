#include "tools/io/npz.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "fmt/format.h"
#include "tools/io/files.h"

namespace saturate {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;

absl::Status bad_npz(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}; save it again with numpy.savez", path, what));
}

template <typename T>
T at(std::string_view bytes, std::uint64_t offset) {
  T value{};
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof(T)) std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct ZipMember {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0, local = 0;
};

// Values of 2^32-1 stand for ones in the ZIP64 extra field, in this order.
void read_zip64(std::string_view extra, ZipMember& m) {
  for (std::uint64_t i = 0; i + 4 <= extra.size();) {
    const auto id = at<std::uint16_t>(extra, i), length = at<std::uint16_t>(extra, i + 2);
    if (id == 1) {
      std::uint64_t k = i + 4;
      for (std::uint64_t* field : {&m.size, &m.packed, &m.local}) {
        if (*field != 0xffffffffu) continue;
        *field = at<std::uint64_t>(extra, k);
        k += 8;
      }
      return;
    }
    i += 4u + length;
  }
}

absl::StatusOr<std::vector<ZipMember>> directory(std::string_view file, const std::string& path) {
  if (file.starts_with("\x93NUMPY")) return bad_npz(path, "a .npy file holds no name of an input");
  if (file.size() < 22) return bad_npz(path, "not a .npz file");
  std::uint64_t end = file.size() - 22;
  const std::uint64_t lowest = end > 65535 ? end - 65535 : 0;
  while (at<std::uint32_t>(file, end) != kEnd) {
    if (end == lowest) return bad_npz(path, "not a .npz file, or cut off");
    --end;
  }
  std::uint64_t count = at<std::uint16_t>(file, end + 10), offset = at<std::uint32_t>(file, end + 16);
  if (end >= 20 && at<std::uint32_t>(file, end - 20) == kEnd64Locator) {
    const auto end64 = at<std::uint64_t>(file, end - 12);
    if (at<std::uint32_t>(file, end64) != kEnd64) return bad_npz(path, "the archive's directory can't be read");
    count = at<std::uint64_t>(file, end64 + 32);
    offset = at<std::uint64_t>(file, end64 + 48);
  }
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (offset > file.size() || file.size() - offset < 46 || at<std::uint32_t>(file, offset) != kCentral)
      return bad_npz(path, "the archive's directory can't be read");
    ZipMember m;
    m.method = at<std::uint16_t>(file, offset + 10);
    m.crc = at<std::uint32_t>(file, offset + 16);
    m.packed = at<std::uint32_t>(file, offset + 20);
    m.size = at<std::uint32_t>(file, offset + 24);
    const std::uint64_t name = at<std::uint16_t>(file, offset + 28), extra = at<std::uint16_t>(file, offset + 30),
                        comment = at<std::uint16_t>(file, offset + 32);
    m.local = at<std::uint32_t>(file, offset + 42);
    if (file.size() - offset - 46 < name + extra) return bad_npz(path, "the archive's directory is cut off");
    m.name = file.substr(offset + 46, name);
    read_zip64(file.substr(offset + 46 + name, extra), m);
    members.push_back(std::move(m));
    offset += 46 + name + extra + comment;
  }
  return members;
}

// The first bytes of what is packed, `out.size()` at most.
void inflate_beginning(std::string_view packed, std::string& out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return out.clear();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(std::min(std::size_t{1} << 30, packed.size()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  inflate(&stream, Z_SYNC_FLUSH);
  out.resize(out.size() - stream.avail_out);
  inflateEnd(&stream);
}

bool inflate_raw(std::string_view packed, std::string& out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  std::size_t taken = 0, made = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    constexpr std::size_t kStep = std::size_t{1} << 30;  // zlib counts in 32 bits
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(std::min(kStep, packed.size() - taken));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + made);
    stream.avail_out = static_cast<uInt>(std::min(kStep, out.size() - made));
    const uInt in = stream.avail_in, room = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    made += room - stream.avail_out;
    if (state == Z_OK && in == stream.avail_in && room == stream.avail_out) break;
  }
  inflateEnd(&stream);
  return state == Z_STREAM_END && made == out.size();
}

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// A member's place in the file, from its header on.
struct ZipPart {
  std::uint64_t begin = 0, data = 0, end = 0;
};

std::optional<ZipPart> zip_part(std::string_view file, const ZipMember& m) {
  if (m.local > file.size() || file.size() - m.local < 30 || at<std::uint32_t>(file, m.local) != kLocal) return std::nullopt;
  const std::uint64_t data = m.local + 30u + at<std::uint16_t>(file, m.local + 26) + at<std::uint16_t>(file, m.local + 28);
  if (data > file.size() || file.size() - data < m.packed) return std::nullopt;
  return ZipPart{m.local, data, data + m.packed};
}

std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : ~std::uint64_t{0};
}

// Sizes before anything is allocated: few bytes must not become many, once or by being named often.
absl::Status check_members(std::string_view file, const std::vector<ZipMember>& members, const std::string& path, std::uint64_t max_bytes) {
  std::vector<ZipPart> parts;
  std::uint64_t all = 0;
  for (const ZipMember& m : members) {
    const auto part = zip_part(file, m);
    const std::string place = fmt::format("{}({})", path, m.name);
    if (!part) return bad_npz(place, "the archive is damaged or cut off");
    // Deflate packs at most 1032 to 1: a larger claim is a lie.
    if (m.size > max_bytes - all || m.size / 1040 > m.packed + 1)
      return bad_npz(place, fmt::format("{} bytes are too many, {} in all are read", m.size, max_bytes));
    all += m.size;
    parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const ZipPart& a, const ZipPart& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i].begin < parts[i - 1].end) return bad_npz(path, "members of the archive lie over each other");
  return absl::OkStatus();
}

absl::StatusOr<Tensor> read_member(std::string_view file, const ZipMember& m, const std::string& path) {
  const std::string place = fmt::format("{}({})", path, m.name);
  const std::string_view packed = file.substr(zip_part(file, m)->data, m.packed);
  if (m.method == 0) {
    if (m.size != m.packed || checksum(packed) != m.crc) return bad_npz(place, "the archive is damaged");
    return parse_npy(packed, place);
  }
  if (m.method != 8) return bad_npz(place, fmt::format("compression method {} is not read", m.method));
  std::string bytes(m.size, '\0');
  if (!inflate_raw(packed, bytes) || checksum(bytes) != m.crc) return bad_npz(place, "the archive is damaged");
  return parse_npy(bytes, place);
}

std::string array_name(const ZipMember& m) { return m.name.substr(0, m.name.size() - 4); }  // without .npy

absl::Status admit_member(std::string_view file, const ZipMember& m, const std::string& path, const AdmitArray& admit) {
  constexpr std::size_t kMostHeader = std::size_t{1} << 16;
  const std::string place = fmt::format("{}({})", path, m.name);
  const std::string_view packed = file.substr(zip_part(file, m)->data, m.packed);
  std::string beginning(std::min<std::uint64_t>(kMostHeader, m.size), '\0');
  if (m.method == 8)
    inflate_beginning(packed, beginning);
  else
    beginning = packed.substr(0, kMostHeader);
  const absl::StatusOr<NpyHead> head = parse_npy_head(beginning, place);
  return head.ok() ? admit(array_name(m), *head) : head.status();
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

constexpr std::uint16_t kVersion = 45, kDosDate = 0x21;  // 1980-01-01

// What the headers of both places have alike. Sizes stand in the ZIP64 field behind the name.
void put_common(std::string& out, const ZipMember& m, std::uint16_t extra) {
  for (std::uint16_t v : {kVersion, std::uint16_t{0}, m.method, std::uint16_t{0}, kDosDate}) put(out, v);
  put(out, m.crc);
  put(out, 0xffffffffu);
  put(out, 0xffffffffu);
  put(out, static_cast<std::uint16_t>(m.name.size()));
  put(out, extra);
}

void put_zip64(std::string& out, const ZipMember& m, std::uint16_t length) {
  put(out, std::uint16_t{1});
  put(out, length);
  put(out, m.size);
  put(out, m.packed);
}

void put_local(std::string& out, const ZipMember& m) {
  put(out, kLocal);
  put_common(out, m, 20);
  out += m.name;
  put_zip64(out, m, 16);
}

void put_central(std::string& out, const ZipMember& m) {
  put(out, kCentral);
  put(out, kVersion);
  put_common(out, m, 28);
  for (int i = 0; i < 3; ++i) put(out, std::uint16_t{0});  // comment, disk, internal attributes
  put(out, std::uint32_t{0600u << 16});
  put(out, 0xffffffffu);
  out += m.name;
  put_zip64(out, m, 24);
  put(out, m.local);
}

// The ends of a ZIP64 file: the directory of `count` members, `bytes` long, begins at `offset`.
void put_end(std::string& out, std::uint64_t count, std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end64 = out.size();
  put(out, kEnd64);
  put(out, std::uint64_t{44});
  put(out, kVersion);
  put(out, kVersion);
  put(out, std::uint32_t{0});
  put(out, std::uint32_t{0});
  put(out, count);
  put(out, count);
  put(out, bytes);
  put(out, offset);
  put(out, kEnd64Locator);
  put(out, std::uint32_t{0});
  put(out, end64);
  put(out, std::uint32_t{1});
  put(out, kEnd);
  put(out, std::uint32_t{0});
  for (int i = 0; i < 2; ++i) put(out, std::uint16_t{0xffff});
  for (int i = 0; i < 2; ++i) put(out, 0xffffffffu);
  put(out, std::uint16_t{0});
}

}  // namespace

AdmitArray within_memory(const std::string& path, std::uint64_t most) {
  return [path, most, taken = std::uint64_t{0}](const std::string& name, const NpyHead& head) mutable {
    if (head.bytes > most - taken)
      return absl::InvalidArgumentError(
          fmt::format("{}({}): {} bytes behind {} of other arrays are above the {} that tensors may take; --max-memory gives more memory",
                      path, name, head.bytes, taken, most));
    taken += head.bytes;
    return absl::OkStatus();
  };
}

absl::StatusOr<NamedTensors> load_npz(const std::string& path, std::uint64_t max_bytes, const AdmitArray& admit, Pipes pipes) {
  absl::StatusOr<std::string> file = read_data_file(path, machine_memory(), pipes);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<ZipMember>> members = directory(*file, path);
  if (!members.ok()) return members.status();
  std::erase_if(*members, [](const ZipMember& m) { return !m.name.ends_with(".npy"); });
  if (const absl::Status s = check_members(*file, *members, path, std::min(max_bytes, machine_memory())); !s.ok()) return s;
  if (admit)
    for (const ZipMember& m : *members)
      if (absl::Status s = admit_member(*file, m, path, admit); !s.ok()) return s;
  NamedTensors out;
  for (const ZipMember& m : *members) {
    std::string name = array_name(m);
    absl::StatusOr<Tensor> tensor = read_member(*file, m, path);
    if (!tensor.ok()) return tensor.status();
    out.emplace_back(std::move(name), *std::move(tensor));
  }
  return out;
}

absl::Status save_npz(const NamedTensors& tensors, const std::string& path) {
  std::string out, central;
  for (const auto& [name, tensor] : tensors) {
    absl::StatusOr<std::string> bytes = print_npy(tensor);
    if (!bytes.ok())
      return absl::Status(bytes.status().code(), fmt::format("{}({}): {}", path, name, std::string(bytes.status().message())));
    const ZipMember m{.name = name + ".npy", .crc = checksum(*bytes), .packed = bytes->size(), .size = bytes->size(), .local = out.size()};
    put_local(out, m);
    out += *bytes;
    put_central(central, m);
  }
  const std::uint64_t directory_at = out.size();
  out += central;
  put_end(out, tensors.size(), directory_at, central.size());
  return write_file(path, out);
}

}  // namespace saturate
