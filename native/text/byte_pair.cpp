#include "text/byte_pair.h"

#include <algorithm>
#include <bit>

namespace pyrite {

namespace {

constexpr uint32_t kAlphabetEnd = 0x144;

// Character -> byte, -1 outside the alphabet. Bytes that print stand for themselves; the others are
// given the characters from U+0100 on, in order.
std::array<int16_t, kAlphabetEnd> make_alphabet() {
  std::array<int16_t, kAlphabetEnd> bytes;
  bytes.fill(-1);
  uint32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    bytes[prints ? uint32_t(byte) : next++] = int16_t(byte);
  }
  return bytes;
}

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
Pending read_merge(std::string_view written, std::string& buffer) {
  Pending pending{};
  pending.start = buffer.size();
  const size_t space = written.find(' ', 1);
  if (space == std::string_view::npos) return pending;
  if (!read_byte_alphabet(written.substr(0, space), buffer)) return pending;
  pending.left_size = buffer.size() - pending.start;
  if (!read_byte_alphabet(written.substr(space + 1), buffer)) return pending;
  pending.right_size = buffer.size() - pending.start - pending.left_size;
  return pending;
}

}  // namespace

bool read_byte_alphabet(std::string_view written, std::string& bytes) {
  static const std::array<int16_t, kAlphabetEnd> alphabet = make_alphabet();
  for (size_t at = 0; at < written.size(); ++at) {
    uint32_t code = uint8_t(written[at]);
    if (code >= 0x80) {
      // Two bytes hold the whole alphabet.
      if (code < 0xC2 || code > 0xDF || ++at == written.size()) return false;
      const uint8_t next = uint8_t(written[at]);
      if ((next & 0xC0) != 0x80) return false;
      code = (code & 0x1F) << 6 | (next & 0x3F);
    }
    if (code >= kAlphabetEnd || alphabet[code] < 0) return false;
    bytes.push_back(char(alphabet[code]));
  }
  return true;
}

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

BytePair::BytePair(const Vocabulary& vocabulary, const Splitter& splitter, const Strings& merges,
                   int32_t unknown_id)
    : vocabulary_(vocabulary),
      splitter_(splitter),
      pairs_(merges.count),
      whole_(vocabulary.size()),
      unknown_id_(unknown_id) {
  for (int byte = 0; byte < 256; ++byte) {
    const uint8_t value = uint8_t(byte);
    byte_ids_[size_t(byte)] = vocabulary.find(&value, 1);
  }
  constexpr size_t kBatch = 64;
  for (size_t begin = 0; begin < merges.count; begin += kBatch) {
    add_merges(merges, begin, std::min(begin + kBatch, merges.count));
  }
}

// In three passes over a batch, each of which asks for the memory that the next one needs.
void BytePair::add_merges(const Strings& merges, size_t begin, size_t end) {
  std::string buffer;
  std::vector<Pending> batch;
  for (size_t rank = begin; rank < end; ++rank) {
    batch.push_back(read_merge(merges[rank], buffer));
    batch.back().merge.key = uint32_t(rank);
  }
  for (Pending& pending : batch) {
    const uint8_t* bytes = as_bytes(buffer) + pending.start;
    const size_t size = pending.left_size + pending.right_size;
    pending.left_hash = hash_bytes(bytes, pending.left_size);
    pending.right_hash = hash_bytes(bytes + pending.left_size, pending.right_size);
    pending.joint_hash = hash_bytes(bytes, size);
    vocabulary_.prefetch(pending.left_hash);
    vocabulary_.prefetch(pending.right_hash);
    vocabulary_.prefetch(pending.joint_hash);
  }
  for (Pending& pending : batch) {
    const uint8_t* bytes = as_bytes(buffer) + pending.start;
    const uint8_t* middle = bytes + pending.left_size;
    const size_t size = pending.left_size + pending.right_size;
    pending.left = vocabulary_.find(bytes, pending.left_size, pending.left_hash);
    pending.right = vocabulary_.find(middle, pending.right_size, pending.right_hash);
    pending.merge.id = vocabulary_.find(bytes, size, pending.joint_hash);
    pairs_.prefetch(pending.left, pending.right);
  }
  for (const Pending& pending : batch) {
    const bool dead = pending.right_size == 0 || pending.left < 0 || pending.right < 0 ||
                      pending.merge.id < 0;
    num_dead_merges_ += dead;
    if (!dead) pairs_.add(pending.left, pending.right, pending.merge);
  }
}

size_t BytePair::num_missing_bytes() const {
  size_t missing = 0;
  for (const int32_t id : byte_ids_) missing += id < 0;
  return missing;
}

void BytePair::merge_word(const uint8_t* word, size_t size, Scratch& scratch) const {
  scratch.symbols.clear();
  for (size_t i = 0; i < size; ++i) scratch.symbols.push_back({uint32_t(i), 1, byte_ids_[word[i]]});
  merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) {
    return left.id < 0 || right.id < 0 ? Merge{} : pairs_.find(left.id, right.id);
  });
}

void BytePair::encode_word(const uint8_t* word, size_t size, Scratch& scratch,
                           std::vector<int32_t>& ids) const {
  const int32_t id = vocabulary_.find(word, size);
  const auto merges_to_itself = [&] {
    merge_word(word, size, scratch);
    return scratch.symbols.size() == 1;
  };
  if (id >= 0 && (splitter_.whole_word_first || whole_(id, merges_to_itself))) {
    ids.push_back(id);
    return;
  }
  merge_word(word, size, scratch);
  for (const Symbol& symbol : scratch.symbols) {
    const int32_t found = symbol.id >= 0 ? symbol.id : unknown_id_;
    if (found >= 0) ids.push_back(found);
  }
}

void BytePair::encode(const uint8_t* text, size_t size, std::vector<int32_t>& ids) const {
  Scratch scratch;
  split(splitter_.stages, Text(text, size), 0, size,
        [&](size_t begin, size_t end) { encode_word(text + begin, end - begin, scratch, ids); });
}

}  // namespace pyrite
