// What the judge and its child process say to each other: messages of plain bytes over a socket, with open files beside them.
// Nothing here knows of models; the child needs no more than this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace saturate::wire {

// The socket's number in the child.
inline constexpr int kSocket = 3;
inline constexpr std::size_t kMostFiles = 16;                         // of one message
inline constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 30;  // of one message
// Of a model that the runtime saves with its weights in it: what protobuf writes.
inline constexpr std::uint64_t kMostSaved = std::uint64_t{2} << 30;

// Sanitizers take terabytes of addresses, of which no limit can be set.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kLimitsMemory = false;
#else
inline constexpr bool kLimitsMemory = true;
#endif

enum class Ask : std::uint8_t {
  kStart,      // library, threads -> version
  kLoad,       // id of the session, level, purpose, message of the model, places of its large weights in the files -> nothing
  kFree,       // id of a session
  kRun,        // id of a session, inputs, names of outputs -> seconds, outputs
  kAfterLoad,  // level, message of the model, places of its large weights in the files -> message of the model that was made of it
  // Sessions in turns: ids, names of outputs, sets of inputs with their weights, rounds and seconds at most, clock -> whole rounds that
  // were run. Of each round the seconds of each session follow, those of the sets of inputs summed by their weights.
  kTime,
};
// What a session is loaded for: to be compared, with memory given back after each run, or to be timed as users run it.
// kTimingAlone: by the clock on the wall, with threads that wait for work as users' do, but for those of a session that does not run.
enum class Purpose : std::uint8_t { kComparing, kTiming, kTimingAlone };
enum class Clock : std::uint8_t { kProcessor, kWall };
enum class Answer : std::uint8_t {
  kDone,
  kRefused,      // a message
  kNoKernel,     // ONNX Runtime's NOT_IMPLEMENTED; a message
  kNoMemory,     // a message
  kNotCompared,  // a value of a kind that is not sent; a message
};
enum class Kind : std::uint8_t { kAbsent, kTensor, kSequence, kOptional };
// As GraphOptimizationLevel has them: ORT_DISABLE_ALL, ORT_ENABLE_EXTENDED, ORT_ENABLE_ALL.
enum class Level : std::uint8_t { kNone = 0, kExtended = 2, kAll = 99 };

// Numbers as they lie in memory: both ends are this machine.
class Packer {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void number(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(static_cast<std::uint64_t>(value.size()));
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a Packer wrote. Behind the end all is 0, and ok() is false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}
  template <typename T>
  requires std::is_trivially_copyable_v<T> T number() {
    T value{};
    const std::string_view part = take(sizeof value);
    if (part.size() == sizeof value) std::memcpy(&value, part.data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number<std::uint64_t>()); }
  bool ok() const { return ok_; }

 private:
  std::string_view take(std::uint64_t n) {
    ok_ = ok_ && n <= left_.size();
    if (!ok_) return {};
    const std::string_view part = left_.substr(0, n);
    left_.remove_prefix(n);
    return part;
  }
  std::string_view left_;
  bool ok_ = true;
};

struct Message {
  std::string bytes;
  std::vector<int> files;  // the receiver's own, to be closed by it
};

// Whether all of it went over; false where the other end is gone.
bool send_message(int socket, std::string_view bytes, const std::vector<int>& files = {});
enum class Got : std::uint8_t { kMessage, kClosed, kStopped };
// Waits for a message. `go_on` is asked about twenty times a second; once it says false: kStopped.
template <typename GoOn>
Got receive_message(int socket, Message& message, GoOn go_on);

// Reads exactly n bytes, with files that come along.
enum class Part : std::uint8_t { kSome, kClosed, kNothingYet };
Part receive_some(int socket, char* to, std::size_t n, std::size_t& got, std::vector<int>& files, int milliseconds);

template <typename GoOn>
Got receive_message(int socket, Message& message, GoOn go_on) {
  std::uint64_t size = 0;
  message = {};
  const auto fill = [&](char* to, std::size_t n) {
    for (std::size_t done = 0; done < n;) {
      std::size_t got = 0;
      const Part part = receive_some(socket, to + done, n - done, got, message.files, 50);
      if (part == Part::kClosed) return Got::kClosed;
      if (part == Part::kNothingYet && !go_on()) return Got::kStopped;
      done += got;
    }
    return Got::kMessage;
  };
  if (const Got got = fill(reinterpret_cast<char*>(&size), sizeof size); got != Got::kMessage) return got;
  if (size > kMostBytes) return Got::kClosed;
  message.bytes.resize(size);
  return fill(message.bytes.data(), size);
}

}  // namespace saturate::wire
