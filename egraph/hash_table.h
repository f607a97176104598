// Open addressing of {hash, id} with linear probing; deletion shifts back, so that the table holds live keys only.
#pragma once

#include <cstring>

#include "egraph/arena.h"
#include "egraph/egraph.h"

namespace saturate {

class HashTable {
 public:
  struct Slot {
    std::uint32_t hash;
    NodeId id;  // kNone: free
  };

  HashTable() = default;
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return slots_.bytes(); }
  std::size_t capacity() const { return slots_.size(); }

  // The id whose slot has this hash and satisfies `same`, kNone where there is none.
  template <class Same>
  NodeId find(std::uint32_t hash, Same same) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = home(hash);; i = (i + 1) & mask_) {
      const Slot slot = slots_[i];
      if (slot.id == kNone) return kNone;
      if (slot.hash == hash && same(slot.id)) return slot.id;
    }
  }
  void prefetch(std::uint32_t hash) const { __builtin_prefetch(&slots_[home(hash)]); }
  // Where this hash is likely to be found: the id at its home. After reserve().
  NodeId home_id(std::uint32_t hash) const { return slots_[home(hash)].id; }
  // Room for so many insertions without growth in between.
  void reserve(std::size_t more) {
    std::size_t n = std::max<std::size_t>(64, slots_.size());
    while (4 * (size_ + more + 1) > 3 * n) n *= 2;
    if (n != slots_.size()) rehash(n);
  }

  void insert(std::uint32_t hash, NodeId id) {
    if (4 * (size_ + 1) > 3 * slots_.size()) rehash(std::max<std::size_t>(64, 2 * slots_.size()));
    place(hash, id);
    ++size_;
  }
  // Takes out an id that is in the table.
  void erase(std::uint32_t hash, NodeId id) {
    std::size_t hole = home(hash);
    while (slots_[hole].id != id) hole = (hole + 1) & mask_;
    for (std::size_t i = (hole + 1) & mask_; slots_[i].id != kNone; i = (i + 1) & mask_) {
      if (((i - home(slots_[i].hash)) & mask_) < ((i - hole) & mask_)) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole].id = kNone;
    --size_;
  }
  // Bytes that the next `more` insertions may add.
  std::size_t growth(std::size_t more) const {
    std::size_t n = std::max<std::size_t>(64, slots_.size());
    while (4 * (size_ + more + 1) > 3 * n) n *= 2;
    return n == slots_.size() ? 0 : n * sizeof(Slot);
  }

 private:
  std::size_t home(std::uint32_t hash) const { return hash & mask_; }
  void place(std::uint32_t hash, NodeId id) {
    std::size_t i = home(hash);
    while (slots_[i].id != kNone) i = (i + 1) & mask_;
    slots_[i] = {hash, id};
  }
  void rehash(std::size_t n) {
    Arena<Slot> old;
    old.swap(slots_);
    slots_.assign(n, {0, kNone});
    mask_ = n - 1;
    for (const Slot slot : old) {
      if (slot.id != kNone) place(slot.hash, slot.id);
    }
  }

  Arena<Slot> slots_;
  std::size_t size_ = 0, mask_ = 0;
};

}  // namespace saturate
