#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

namespace pyrite {

namespace {

constexpr size_t kAhead = 16;  // tokens whose slots are being fetched

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;

uint64_t fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

// No bytes may lie nowhere.
uint64_t load(const uint8_t* data, size_t size) {
  uint64_t value = 0;
  if (size > 0) std::memcpy(&value, data, size);
  return value;
}

}  // namespace

uint64_t hash_bytes(const uint8_t* data, size_t size) {
  uint64_t hash = fold(size + 1, kOdd);
  for (; size > 8; size -= 8, data += 8) hash = fold(hash ^ load(data, 8), kOdd);
  return fold(hash ^ load(data, size), kOdd + 2);
}

void Vocabulary::reserve(size_t count, size_t bytes) {
  bytes_.reserve(bytes);
  starts_.reserve(count + 1);
  kinds_.reserve(count);
  findable_.reserve(count);
}

void Vocabulary::add(std::string_view bytes, Kind kind, bool findable) {
  if (bytes.size() > std::numeric_limits<uint32_t>::max() - bytes_.size()) {
    throw std::length_error("the tokens hold more than 4 GiB");
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  starts_.push_back(uint32_t(bytes_.size()));
  kinds_.push_back(kind);
  findable_.push_back(findable && !bytes.empty());
  if (findable) longest_ = std::max(longest_, bytes.size());
}

void Vocabulary::index() {
  mask_ = std::bit_ceil(2 * size() + 1) - 1;
  slots_.assign(mask_ + 1, Slot{0, -1});
  std::vector<uint64_t> hashes(size() + kAhead);
  for (size_t id = 0; id < size(); ++id) {
    const uint8_t* data = bytes_.data() + starts_[id];
    hashes[id] = hash_bytes(data, starts_[id + 1] - starts_[id]);
  }
  for (size_t id = 0; id < size(); ++id) {
    prefetch(hashes[id + kAhead]);
    if (findable_[id]) insert(int32_t(id), hashes[id]);
  }
}

StringList Vocabulary::all() const {
  StringList list{bytes_, {starts_.begin(), starts_.end() - 1}, {}};
  list.lengths.reserve(size());
  for (size_t id = 0; id < size(); ++id) {
    list.lengths.push_back(int32_t(starts_[id + 1] - starts_[id]));
  }
  return list;
}

void Vocabulary::insert(int32_t id, uint64_t hash) {
  const std::string_view own = bytes(id);
  const auto* data = reinterpret_cast<const uint8_t*>(own.data());
  const uint32_t tag = uint32_t(hash >> 32);
  size_t slot = hash & mask_;
  while (slots_[slot].id >= 0) {
    if (slots_[slot].tag == tag && equals(slots_[slot].id, data, own.size())) {
      repeated_ = id;
      break;
    }
    slot = (slot + 1) & mask_;
  }
  slots_[slot] = Slot{tag, id};
}

}  // namespace pyrite
