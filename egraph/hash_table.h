// Open addressing of {hash, id} with linear probing; deletion shifts back, so that the table holds live keys only.
#pragma once

#include <atomic>
#include <cstring>

#include "egraph/egraph.h"
#include "egraph/parallel.h"
#include "egraph/reserved_array.h"

namespace saturate {

class HashTable {
 public:
  struct alignas(8) Slot {
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
  template <bool kShared = false>
  NodeId home_id(std::uint32_t hash) {
    return load<kShared>(home(hash)).id;
  }
  // Room for so many insertions without growth in between. With a team: by all its threads, where the table is large.
  void reserve(std::size_t more, Team* team = nullptr) {
    std::size_t n = std::max<std::size_t>(64, slots_.size());
    while (4 * (size_ + more + 1) > 3 * n) n *= 2;
    if (n == slots_.size()) return;
    if (team != nullptr && n >= kWorthThreads) return rehash_shared(n, *team);
    rehash(n);
  }

  // Many insertions at once, with ids that may turn out to be superfluous. claim() finds the slot that has this hash and satisfies `same`,
  // or puts {hash, id} into a free one; of several claims of one key the lowest id stays. kShared: several threads claim at once (and
  // nothing else is done). After reserve(); then either settle() or, for another id of a key, nothing; then added().
  struct Claim {
    std::size_t place;
    NodeId id;  // the claimed one where the key is new; else the other one that was there
  };
  template <bool kShared, class Same>
  Claim claim(std::uint32_t hash, NodeId id, Same same) {
    for (std::size_t i = home(hash);; i = (i + 1) & mask_) {
      Slot slot = load<kShared>(i);
      if (slot.id == kNone && put<kShared>(i, slot, {hash, id})) return {i, id};
      if (slot.hash != hash || !same(slot.id)) continue;
      while (id < slot.id && !put<kShared>(i, slot, {hash, id})) {
      }
      return {i, slot.id};
    }
  }
  NodeId id_at(std::size_t place) const { return slots_[place].id; }
  void settle(std::size_t place, NodeId id) { slots_[place].id = id; }
  void added(std::size_t count) { size_ += count; }

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
  template <bool kShared>
  Slot load(std::size_t i) {
    if constexpr (!kShared) return slots_[i];
    return std::atomic_ref(slots_[i]).load(std::memory_order_acquire);
  }
  // False: the slot has changed meanwhile; `old` is what it holds.
  template <bool kShared>
  bool put(std::size_t i, Slot& old, Slot slot) {
    if constexpr (kShared)
      return std::atomic_ref(slots_[i]).compare_exchange_strong(old, slot, std::memory_order_acq_rel, std::memory_order_acquire);
    slots_[i] = slot;
    return true;
  }
  void rehash_shared(std::size_t n, Team& team) {
    ReservedArray<Slot> old;
    old.swap(slots_);
    slots_.resize(n);
    mask_ = n - 1;
    over_stretches(&team, n, kStretch, [&](std::size_t first, std::size_t last) {
      std::fill(slots_.begin() + first, slots_.begin() + last, Slot{0, kNone});
    });
    over_stretches(&team, old.size(), kStretch, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        if (old[i].id != kNone) claim<true>(old[i].hash, old[i].id, [](NodeId) { return false; });
      }
    });
  }
  void rehash(std::size_t n) {
    ReservedArray<Slot> old;
    old.swap(slots_);
    slots_.assign(n, {0, kNone});
    mask_ = n - 1;
    for (const Slot slot : old) {
      if (slot.id != kNone) place(slot.hash, slot.id);
    }
  }

  static constexpr std::size_t kStretch = std::size_t{1} << 18, kWorthThreads = 4 * kStretch;  // slots; a stretch is a huge page

  ReservedArray<Slot> slots_;
  std::size_t size_ = 0, mask_ = 0;
};

}  // namespace saturate
