#include "text/byte_pair.h"

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

}  // namespace

bool read_byte_alphabet(std::string_view written, std::string& bytes) {
  static const std::array<int16_t, kAlphabetEnd> alphabet = make_alphabet();
  const uint8_t* at = as_bytes(written);
  const uint8_t* end = at + written.size();
  while (at < end) {
    uint32_t code = 0;
    const size_t size = decode_utf8(at, end, code);
    if (size == 0 || code >= kAlphabetEnd || alphabet[code] < 0) return false;
    bytes.push_back(char(alphabet[code]));
    at += size;
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

BytePair::BytePair(const Vocabulary& vocabulary, const Splitter& splitter, size_t num_merges,
                   int32_t unknown_id)
    : vocabulary_(vocabulary),
      splitter_(splitter),
      pairs_(num_merges),
      whole_(vocabulary.size()),
      unknown_id_(unknown_id) {
  for (int byte = 0; byte < 256; ++byte) {
    const uint8_t value = uint8_t(byte);
    byte_ids_[size_t(byte)] = vocabulary.find(&value, 1);
  }
}

bool BytePair::add_merge(std::string_view written) {
  const uint32_t rank = rank_++;
  const size_t space = written.find(' ', 1);
  if (space == std::string_view::npos) return false;
  merge_bytes_.clear();
  if (!read_byte_alphabet(written.substr(0, space), merge_bytes_)) return false;
  const size_t left_size = merge_bytes_.size();
  if (!read_byte_alphabet(written.substr(space + 1), merge_bytes_)) return false;
  const uint8_t* bytes = as_bytes(merge_bytes_);
  const int32_t left = vocabulary_.find(bytes, left_size);
  const int32_t right = vocabulary_.find(bytes + left_size, merge_bytes_.size() - left_size);
  const int32_t merged = vocabulary_.find(bytes, merge_bytes_.size());
  if (left < 0 || right < 0 || merged < 0) return false;
  pairs_.add(left, right, {rank, merged});
  return true;
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
