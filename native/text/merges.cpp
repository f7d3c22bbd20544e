#include "text/merges.h"

#include <algorithm>
#include <bit>

namespace pyrite {

namespace {

const uint8_t* as_bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// A merge on its way into the table.
struct Pending {
  size_t start;  // of its bytes, in the buffer of its batch
  size_t left_size;
  size_t right_size;  // 0: it is not one
  uint64_t left_hash;
  uint64_t right_hash;
  uint64_t joint_hash;
  int32_t left;
  int32_t right;
  Merge merge;
};

// Appends the bytes of both parts of b"left right".
Pending read_merge(std::string_view written, ReadPiece read, std::string& buffer) {
  Pending pending{};
  pending.start = buffer.size();
  const size_t space = written.find(' ', 1);
  if (space == std::string_view::npos) return pending;
  if (!read(written.substr(0, space), buffer)) return pending;
  pending.left_size = buffer.size() - pending.start;
  if (!read(written.substr(space + 1), buffer)) return pending;
  pending.right_size = buffer.size() - pending.start - pending.left_size;
  return pending;
}

// In three passes over a batch, each of which asks for the memory that the next one needs.
class Batch {
 public:
  Batch(const Vocabulary& vocabulary, PairTable& pairs) : vocabulary_(vocabulary), pairs_(pairs) {}

  void add(std::string_view written, ReadPiece read, size_t rank) {
    pending_.push_back(read_merge(written, read, buffer_));
    pending_.back().merge.key = uint32_t(rank);
  }

  // Returns how many are dead.
  size_t finish() {
    hash();
    look_up();
    return store();
  }

 private:
  void hash() {
    for (Pending& pending : pending_) {
      const uint8_t* bytes = as_bytes(buffer_) + pending.start;
      const size_t size = pending.left_size + pending.right_size;
      pending.left_hash = hash_bytes(bytes, pending.left_size);
      pending.right_hash = hash_bytes(bytes + pending.left_size, pending.right_size);
      pending.joint_hash = hash_bytes(bytes, size);
      vocabulary_.prefetch(pending.left_hash);
      vocabulary_.prefetch(pending.right_hash);
      vocabulary_.prefetch(pending.joint_hash);
    }
  }

  void look_up() {
    for (Pending& pending : pending_) {
      const uint8_t* bytes = as_bytes(buffer_) + pending.start;
      const uint8_t* middle = bytes + pending.left_size;
      const size_t size = pending.left_size + pending.right_size;
      pending.left = vocabulary_.find(bytes, pending.left_size, pending.left_hash);
      pending.right = vocabulary_.find(middle, pending.right_size, pending.right_hash);
      pending.merge.id = vocabulary_.find(bytes, size, pending.joint_hash);
      pairs_.prefetch(pending.left, pending.right);
    }
  }

  size_t store() const {
    size_t num_dead = 0;
    for (const Pending& pending : pending_) {
      const bool dead = pending.right_size == 0 || pending.left < 0 || pending.right < 0 ||
                        pending.merge.id < 0;
      num_dead += dead;
      if (!dead) pairs_.add(pending.left, pending.right, pending.merge);
    }
    return num_dead;
  }

  const Vocabulary& vocabulary_;
  PairTable& pairs_;
  std::string buffer_;
  std::vector<Pending> pending_;
};

}  // namespace

PairTable::PairTable(size_t count) : mask_(std::bit_ceil(2 * count + 1) - 1), slots_(mask_ + 1) {}

void PairTable::add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t slot = slot_of(key);
  while (slots_[slot].key != kFree) {
    if (slots_[slot].key == key) return;
    slot = (slot + 1) & mask_;
  }
  slots_[slot] = {key, merge};
}

size_t read_merges(const Strings& merges, const Vocabulary& vocabulary, ReadPiece read,
                   PairTable& pairs) {
  constexpr size_t kBatch = 64;
  size_t num_dead = 0;
  for (size_t begin = 0; begin < merges.count; begin += kBatch) {
    Batch batch(vocabulary, pairs);
    for (size_t rank = begin; rank < std::min(begin + kBatch, merges.count); ++rank) {
      batch.add(merges[rank], read, rank);
    }
    num_dead += batch.finish();
  }
  return num_dead;
}

}  // namespace pyrite
