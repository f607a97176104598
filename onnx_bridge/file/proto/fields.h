// Private to onnx_bridge: protobuf's ONNX classes, and access to fields that the installed ONNX may not know (it keeps them as unknown
// fields).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "onnx/onnx_pb.h"
#include "onnx_bridge/model/model.h"

namespace saturate::proto {

// One field of a message on the wire (protobuf encoding specification): `begin`..`end` with its tag, `payload` of length-delimited ones.
struct WireField {
  int number = 0, type = 0;
  std::size_t begin = 0, end = 0;
  std::string_view payload;
};
// The field that starts at `at`; nullopt where the bytes end early or are no field.
std::optional<WireField> read_field(std::string_view wire, std::size_t at);
// Offset of the first field with a number above `last` in a message written in order of numbers.
std::size_t offset_after(std::string_view wire, int last);
void append_bytes_field(std::string& wire, int number, std::string_view payload);
// A message without the fields of some numbers.
std::string without_fields(std::string_view wire, std::initializer_list<int> numbers);

template <typename M>
inline constexpr bool kFull = std::is_base_of_v<google::protobuf::Message, M>;

// Payloads of a length-delimited field that the class has no member for.
template <typename M>
std::vector<std::string_view> unknown_bytes(const M& message, int number) {
  std::vector<std::string_view> found;
  if constexpr (kFull<M>) {
    const auto& fields = message.unknown_fields();
    for (int i = 0; i < fields.field_count(); ++i)
      if (fields.field(i).number() == number && fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
        found.push_back(fields.field(i).length_delimited());
  } else {
    const std::string_view wire = message.unknown_fields();
    for (std::size_t at = 0; at < wire.size();) {
      const auto field = read_field(wire, at);
      if (!field) break;
      if (field->number == number && field->type == 2) found.push_back(field->payload);
      at = field->end;
    }
  }
  return found;
}

template <typename M>
void add_unknown_bytes(M* message, int number, std::string_view payload) {
  if constexpr (kFull<M>)
    message->mutable_unknown_fields()->AddLengthDelimited(number)->assign(payload);
  else
    append_bytes_field(*message->mutable_unknown_fields(), number, payload);
}

template <typename M>
constexpr int overload_field() {
  return std::is_same_v<M, onnx::NodeProto> ? 8 : 13;
}

// NodeProto.overload and FunctionProto.overload (IR 10).
template <typename M>
std::string overload_of(const M& message) {
  if constexpr (requires { message.overload(); }) return message.overload();
  const auto found = unknown_bytes(message, overload_field<M>());
  return found.empty() ? std::string() : std::string(found.back());
}
template <typename M>
void set_overload(M* message, const std::string& overload) {
  if (overload.empty()) return;
  if constexpr (requires { message->set_overload(overload); })
    message->set_overload(overload);
  else
    add_unknown_bytes(message, overload_field<M>(), overload);
}

// NodeProto.metadata_props (IR 10).
inline constexpr int kNodeMetadata = 9;
template <typename N>
Metadata metadata_of(const N& node) {
  Metadata out;
  if constexpr (requires { node.metadata_props(); }) {
    for (const auto& entry : node.metadata_props()) out[entry.key()] = entry.value();
  } else {
    onnx::StringStringEntryProto entry;
    for (const std::string_view payload : unknown_bytes(node, kNodeMetadata))
      if (entry.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) out[entry.key()] = entry.value();
  }
  return out;
}
// To a message that has none.
template <typename N>
void add_metadata(N* node, const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto entry;
    entry.set_key(key);
    entry.set_value(value);
    if constexpr (requires { node->add_metadata_props(); })
      *node->add_metadata_props() = entry;
    else
      add_unknown_bytes(node, kNodeMetadata, entry.SerializeAsString());
  }
}

// NodeProto.device_configurations and ModelProto.configuration (IR 11); NodeDeviceConfigurationProto.sharding_spec.
inline constexpr int kNodeDevices = 10, kModelDevices = 26, kShards = 2;
template <typename N>
Devices devices_of(const N& node) {
  Devices out;
  if constexpr (requires { node.device_configurations(); }) {
    for (const auto& one : node.device_configurations()) out.push_back(without_fields(one.SerializeAsString(), {kShards}));
  } else {
    for (const std::string_view payload : unknown_bytes(node, kNodeDevices)) out.push_back(without_fields(payload, {kShards}));
  }
  return out;
}
template <typename N>
void add_devices(N* node, const Devices& devices) {
  for (const std::string& one : devices) {
    if constexpr (requires { node->add_device_configurations(); })
      node->add_device_configurations()->ParseFromString(one);
    else
      add_unknown_bytes(node, kNodeDevices, one);
  }
}
template <typename M>
bool names_devices(const M& model) {
  if constexpr (requires { model.configuration_size(); })
    return model.configuration_size() > 0;
  else
    return !unknown_bytes(model, kModelDevices).empty();
}

// Whether the message itself holds a tensor's elements, as raw_data or in a typed field.
inline bool has_data(const onnx::TensorProto& t) {
  return t.has_raw_data() || t.float_data_size() || t.int32_data_size() || t.string_data_size() || t.int64_data_size() ||
         t.double_data_size() || t.uint64_data_size();
}

// FunctionProto.attribute_proto (IR 9): attributes with defaults.
inline constexpr int kFunctionAttributeProto = 11;
template <typename F>
std::vector<onnx::AttributeProto> attribute_protos(const F& function) {
  std::vector<onnx::AttributeProto> found;
  if constexpr (requires { function.attribute_proto(); }) {
    found.assign(function.attribute_proto().begin(), function.attribute_proto().end());
  } else {
    for (std::string_view payload : unknown_bytes(function, kFunctionAttributeProto)) {
      onnx::AttributeProto& a = found.emplace_back();
      if (!a.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) found.pop_back();
    }
  }
  return found;
}
template <typename F>
void add_attribute_proto(F* function, const onnx::AttributeProto& attribute) {
  if constexpr (requires { function->add_attribute_proto(); })
    *function->add_attribute_proto() = attribute;
  else
    add_unknown_bytes(function, kFunctionAttributeProto, attribute.SerializeAsString());
}

void copy_except_full(const google::protobuf::Message& from, google::protobuf::Message* to, std::initializer_list<int> numbers);
// Adds all fields of `from` to `to` but those of these numbers, without ever copying the left-out ones where reflection is there.
template <typename M>
void copy_except(const M& from, M* to, std::initializer_list<int> numbers) {
  if constexpr (kFull<M>) {
    copy_except_full(from, to, numbers);
  } else {
    to->MergeFromString(without_fields(from.SerializeAsString(), numbers));
  }
}

}  // namespace saturate::proto
