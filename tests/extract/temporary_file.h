// A file of given text for as long as a test runs; named by process, for ctest runs each test in one of its own.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace saturate::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& ending = ".json")
      : path_(std::filesystem::temp_directory_path() /
              ("saturate_test_" + std::to_string(getpid()) + "_" + std::to_string(counter_++) + ending)) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_; }

 private:
  static inline int counter_ = 0;
  std::filesystem::path path_;
};

}  // namespace saturate::test
