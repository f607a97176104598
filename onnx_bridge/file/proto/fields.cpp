#include "onnx_bridge/file/proto/fields.h"

#include <algorithm>

namespace saturate::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool read_varint(std::string_view wire, std::size_t& at, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at >= wire.size()) return false;
    const auto byte = static_cast<std::uint8_t>(wire[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

void append_varint(std::string& wire, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) wire.push_back(static_cast<char>(value | 0x80));
  wire.push_back(static_cast<char>(value));
}

void copy_singular(const Message& from, Message* to, const FieldDescriptor* f) {
  const auto* in = from.GetReflection();
  const auto* out = to->GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      out->MutableMessage(to, f)->CopyFrom(in->GetMessage(from, f));
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      out->SetString(to, f, in->GetString(from, f));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      out->SetInt32(to, f, in->GetInt32(from, f));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      out->SetInt64(to, f, in->GetInt64(from, f));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      out->SetUInt32(to, f, in->GetUInt32(from, f));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      out->SetUInt64(to, f, in->GetUInt64(from, f));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      out->SetFloat(to, f, in->GetFloat(from, f));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      out->SetDouble(to, f, in->GetDouble(from, f));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      out->SetBool(to, f, in->GetBool(from, f));
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      out->SetEnumValue(to, f, in->GetEnumValue(from, f));
      break;
  }
}

void copy_element(const Message& from, Message* to, const FieldDescriptor* f, int i) {
  const auto* in = from.GetReflection();
  const auto* out = to->GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      out->AddMessage(to, f)->CopyFrom(in->GetRepeatedMessage(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      out->AddString(to, f, in->GetRepeatedString(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      out->AddInt32(to, f, in->GetRepeatedInt32(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      out->AddInt64(to, f, in->GetRepeatedInt64(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      out->AddUInt32(to, f, in->GetRepeatedUInt32(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      out->AddUInt64(to, f, in->GetRepeatedUInt64(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      out->AddFloat(to, f, in->GetRepeatedFloat(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      out->AddDouble(to, f, in->GetRepeatedDouble(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      out->AddBool(to, f, in->GetRepeatedBool(from, f, i));
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      out->AddEnumValue(to, f, in->GetRepeatedEnumValue(from, f, i));
      break;
  }
}

}  // namespace

std::optional<WireField> read_field(std::string_view wire, std::size_t at) {
  WireField field;
  field.begin = at;
  std::uint64_t tag = 0, value = 0;
  if (!read_varint(wire, at, tag) || (tag >> 3) == 0 || (tag >> 3) > 0x1fffffff) return std::nullopt;
  field.number = static_cast<int>(tag >> 3);
  field.type = static_cast<int>(tag & 7);
  std::size_t length = 0;
  switch (field.type) {
    case 0:
      if (!read_varint(wire, at, value)) return std::nullopt;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      if (!read_varint(wire, at, value) || value > wire.size() - at) return std::nullopt;
      length = value;
      field.payload = wire.substr(at, length);
      break;
    case 5:
      length = 4;
      break;
    default:
      return std::nullopt;
  }
  if (length > wire.size() - at) return std::nullopt;
  field.end = at + length;
  return field;
}

std::size_t offset_after(std::string_view wire, int last) {
  std::size_t at = 0;
  while (at < wire.size()) {
    const auto field = read_field(wire, at);
    if (!field || field->number > last) return at;
    at = field->end;
  }
  return at;
}

std::string without_fields(std::string_view wire, std::initializer_list<int> numbers) {
  std::string out;
  for (std::size_t at = 0; at < wire.size();) {
    const auto field = read_field(wire, at);
    if (!field) break;
    if (std::find(numbers.begin(), numbers.end(), field->number) == numbers.end()) out += wire.substr(at, field->end - at);
    at = field->end;
  }
  return out;
}

void append_bytes_field(std::string& wire, int number, std::string_view payload) {
  append_varint(wire, static_cast<std::uint64_t>(number) << 3 | 2);
  append_varint(wire, payload.size());
  wire.append(payload);
}

void copy_except_full(const Message& from, Message* to, std::initializer_list<int> numbers) {
  const auto left_out = [&](int n) { return std::find(numbers.begin(), numbers.end(), n) != numbers.end(); };
  std::vector<const FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  for (const FieldDescriptor* f : fields) {
    if (left_out(f->number())) continue;
    if (!f->is_repeated()) {
      copy_singular(from, to, f);
      continue;
    }
    const int n = from.GetReflection()->FieldSize(from, f);
    for (int i = 0; i < n; ++i) copy_element(from, to, f, i);
  }
  const auto& unknown = from.GetReflection()->GetUnknownFields(from);
  for (int i = 0; i < unknown.field_count(); ++i)
    if (!left_out(unknown.field(i).number())) to->GetReflection()->MutableUnknownFields(to)->AddField(unknown.field(i));
}

}  // namespace saturate::proto
