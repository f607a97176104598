// Whole models as text. What plain values do not carry (producer, metadata) goes by way of a ModelProto that has nothing else.
#include "onnx_bridge/file/text/model.h"

#include "fmt/format.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/file/text/reader.h"

namespace saturate {
namespace {

void read_model_header(text::TextReader& reader, Model& model, onnx::ModelProto& rest) {
  if (!reader.at_punct("<")) return;
  reader.header([&](const TextToken& key) {
    if (key.text == "ir_version")
      model.ir_version = reader.integer();
    else if (key.text == "opset_import")
      model.opset_imports = reader.opset_imports();
    else if (key.text == "producer_name")
      rest.set_producer_name(reader.string("a name"));
    else if (key.text == "producer_version")
      rest.set_producer_version(reader.string("a version"));
    else if (key.text == "domain")
      rest.set_domain(reader.string("a domain"));
    else if (key.text == "model_version")
      rest.set_model_version(reader.integer());
    else if (key.text == "doc_string")
      rest.set_doc_string(reader.string("a text"));
    else if (key.text == "metadata_props")
      for (auto& [k, v] : reader.string_pairs()) {
        auto* entry = rest.add_metadata_props();
        entry->set_key(k);
        entry->set_value(v);
      }
    else
      reader.fail(
          key,
          fmt::format(
              "'{}' is no key of a model: ir_version, opset_import, producer_name, producer_version, domain, model_version, doc_string, "
              "metadata_props",
              key.text));
  });
}

Model read_model(text::TextReader& reader) {
  Model model;
  auto rest = std::make_shared<onnx::ModelProto>();
  read_model_header(reader, model, *rest);
  model.graph = reader.graph();
  while (reader.peek().kind != TextToken::Kind::kEnd) model.functions.push_back(reader.function());
  rest->set_ir_version(model.ir_version);
  for (const auto& [domain, version] : model.opset_imports) {  // else they would count as missing (opset_was_assumed)
    onnx::OperatorSetIdProto* import = rest->add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  model.origin = std::move(rest);
  return model;
}

}  // namespace

absl::StatusOr<Model> parse_model_text_in(std::string_view input, const std::string& name, const std::string& folder) {
  ExternalFiles files(folder);
  try {
    text::TextReader reader(input, name, &files);
    Model model = read_model(reader);
    proto::Places places;
    proto::assume_opset(model);
    proto::check_model(model, places);
    return model;
  } catch (const text::TextError& e) {
    return absl::InvalidArgumentError(e.message);
  } catch (const proto::LoadError& e) {
    return absl::InvalidArgumentError(name + ": " + e.message);
  }
}

absl::StatusOr<Model> parse_model_text(std::string_view input, const std::string& name_for_errors) {
  return parse_model_text_in(input, name_for_errors, "");
}

std::string print_model_text(const Model& model) {
  std::string out = fmt::format("<\n  ir_version: {},\n  opset_import: [", model.ir_version);
  bool first = true;
  for (const auto& [domain, version] : model.opset_imports) {
    out += fmt::format("{}{} : {}", first ? "" : ", ", text::quoted_text(domain), version);
    first = false;
  }
  out += "]";
  if (const auto* origin = static_cast<const onnx::ModelProto*>(model.origin.get())) {
    const auto field = [&](const char* key, const std::string& value) {
      if (!value.empty()) out += fmt::format(",\n  {}: {}", key, text::quoted_text(value));
    };
    field("producer_name", origin->producer_name());
    field("producer_version", origin->producer_version());
    field("domain", origin->domain());
    if (origin->has_model_version()) out += fmt::format(",\n  model_version: {}", origin->model_version());
    field("doc_string", origin->doc_string());
    std::string pairs;
    for (const auto& entry : origin->metadata_props())
      pairs += fmt::format("{}{}: {}", pairs.empty() ? "" : ", ", text::quoted_text(entry.key()), text::quoted_text(entry.value()));
    if (!pairs.empty()) out += ",\n  metadata_props: [" + pairs + "]";
  }
  out += "\n>\n" + print_text(model.graph) + "\n";
  for (const Function& f : model.functions) out += text::print_function(f) + "\n";
  return out;
}

}  // namespace saturate
