// Files of a model: where its tensors lie; and, private to saving, which names the data of a model may take, so that nothing is lost and
// one rename changes from old to new.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "onnx_bridge/file/data/external_data.h"
#include "onnx_bridge/file/output_file.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Ranges of files in which tensors lie, of attributes, bodies and functions, too.
void for_each_file_range(const Model& model, const std::function<void(const FileRange&)>& visit);

// The data files named after the model at `to` as they are before saving.
//
// The first of OUT.onnx.data, OUT.onnx.2.data, ... (or as its format ends) that is free takes the new data, so nothing that is there is
// written to. Old data is given up only where the model that is replaced refers to it and the model being saved does not lie in it (unless
// it is the same file).
class DataNames {
 public:
  DataNames(const Model& model, const Destination& to, DataFormat format);
  // kInvalidArgument where OUT.onnx.data is a folder or the like.
  absl::Status status() const { return status_; }
  // A name that nothing has.
  std::string free() const;
  // OUT.onnx.data, and whether its present content is to be given up.
  const std::string& first() const { return first_; }
  bool first_is_old() const;
  // Its file, if there is one: the new one has its mode.
  const struct stat* like() const;
  // Removes old data but `kept`.
  void remove_old(const std::string& kept) const;

 private:
  struct Old {
    std::string name;
    struct stat file;
  };
  std::string path_of(const std::string& name) const;
  void find_old(const Model& model);

  const Destination& to_;
  DataFormat format_;
  std::string base_, first_;
  std::vector<Old> old_;
  absl::Status status_;
};

}  // namespace saturate
