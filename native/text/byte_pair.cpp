#include "text/byte_pair.h"

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

BytePair::BytePair(const Vocabulary& vocabulary, const Words& words, const Strings& merges,
                   int32_t unknown_id)
    : vocabulary_(vocabulary),
      words_(words),
      pairs_(merges.count),
      whole_(vocabulary.size()),
      unknown_id_(unknown_id) {
  for (int byte = 0; byte < 256; ++byte) {
    const uint8_t value = uint8_t(byte);
    byte_ids_[size_t(byte)] = vocabulary.find(&value, 1);
  }
  num_dead_merges_ = read_merges(merges, vocabulary, read_byte_alphabet, pairs_);
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
  if (id >= 0 && (words_.whole_first || whole_(id, merges_to_itself))) {
    ids.push_back(id);
    return;
  }
  merge_word(word, size, scratch);
  for (const Symbol& symbol : scratch.symbols) {
    const int32_t found = symbol.id >= 0 ? symbol.id : unknown_id_;
    if (found >= 0) ids.push_back(found);
  }
}

void BytePair::encode(const uint8_t* text, size_t size, bool, std::vector<int32_t>& ids) const {
  if (!words_.space_first || (size > 0 && text[0] == ' ')) return encode_words(text, size, ids);
  std::vector<uint8_t> spaced{' '};
  spaced.insert(spaced.end(), text, text + size);
  encode_words(spaced.data(), spaced.size(), ids);
}

void BytePair::encode_words(const uint8_t* text, size_t size, std::vector<int32_t>& ids) const {
  Scratch scratch;
  split(words_.splitter.stages, Text(text, size), 0, size,
        [&](size_t begin, size_t end) { encode_word(text + begin, end - begin, scratch, ids); });
}

}  // namespace pyrite
