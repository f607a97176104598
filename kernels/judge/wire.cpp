#include "kernels/judge/wire.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace saturate::wire {

bool send_message(int socket, std::string_view bytes, const std::vector<int>& files) {
  std::uint64_t size = bytes.size();
  if (files.size() > kMostFiles) return false;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
  iovec part{&size, sizeof size};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  if (!files.empty()) {
    head.msg_control = control;
    head.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* const beside = CMSG_FIRSTHDR(&head);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(beside), files.data(), files.size() * sizeof(int));
  }
  ssize_t sent = 0;
  while ((sent = ::sendmsg(socket, &head, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  if (sent != static_cast<ssize_t>(sizeof size)) return false;
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

Part receive_some(int socket, char* to, std::size_t n, std::size_t& got, std::vector<int>& files, int milliseconds) {
  pollfd waiting{socket, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, milliseconds);
  if (ready <= 0) return ready < 0 && errno != EINTR ? Part::kClosed : Part::kNothingYet;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
  iovec part{to, n};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  head.msg_control = control;
  head.msg_controllen = sizeof control;
  const ssize_t taken = ::recvmsg(socket, &head, MSG_CMSG_CLOEXEC);
  if (taken < 0 && errno == EINTR) return Part::kNothingYet;
  if (taken <= 0) return Part::kClosed;
  for (cmsghdr* beside = CMSG_FIRSTHDR(&head); beside; beside = CMSG_NXTHDR(&head, beside)) {
    if (beside->cmsg_level != SOL_SOCKET || beside->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (beside->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const std::size_t before = files.size();
    files.resize(before + count);
    std::memcpy(files.data() + before, CMSG_DATA(beside), count * sizeof(int));
  }
  got = static_cast<std::size_t>(taken);
  return Part::kSome;
}

}  // namespace saturate::wire
