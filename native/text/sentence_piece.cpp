#include "text/sentence_piece.h"

#include <algorithm>
#include <bit>
#include <string>

#include "text/unicode.h"

namespace pyrite {

namespace {

constexpr std::string_view kBoundary = "\xE2\x96\x81";

// Keys order as scores do, the highest first; no key is Merge::kNever.
uint32_t key_of(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score == 0 ? 0.0f : score);
  const uint32_t rising = bits & 0x80000000 ? ~bits : bits | 0x80000000;
  const uint32_t key = ~rising;
  return key == Merge::kNever ? key - 1 : key;
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

const uint8_t* as_bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

bool read_spaced(std::string_view written, std::string& bytes) {
  bytes += spaces_for_boundaries(written);
  return true;
}

}  // namespace

std::string spaces_for_boundaries(std::string_view text) {
  std::string spaced;
  spaced.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t boundary = std::min(text.find(kBoundary, at), text.size());
    spaced.append(text, at, boundary - at);
    if (boundary < text.size()) spaced.push_back(' ');
    at = boundary + kBoundary.size();
  }
  return spaced;
}

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

SentencePiece::SentencePiece(const Vocabulary& vocabulary, Spaces spaces, int32_t unknown_id)
    : vocabulary_(vocabulary),
      whole_(vocabulary.size()),
      spaces_(spaces),
      unknown_id_(unknown_id) {
  byte_ids_.fill(-1);
  for (int32_t id = 0; id < int32_t(vocabulary.size()); ++id) {
    const std::string_view piece = vocabulary.bytes(id);
    if (vocabulary.kind(id) == Kind::kByte) byte_ids_[uint8_t(piece[0])] = id;
    for (size_t space = piece.find(' ', 1); space < piece.size(); space = piece.find(' ', space + 1)) {
      if (piece[space - 1] != ' ') glues_[uint8_t(piece[space - 1])] = true;
    }
  }
}

SentencePiece::SentencePiece(const Vocabulary& vocabulary, const float* scores, Spaces spaces,
                             int32_t unknown_id)
    : SentencePiece(vocabulary, spaces, unknown_id) {
  keys_.reserve(vocabulary.size());
  for (size_t id = 0; id < vocabulary.size(); ++id) keys_.push_back(key_of(scores[id]));
}

SentencePiece::SentencePiece(const Vocabulary& vocabulary, const Strings& merges, Spaces spaces,
                             int32_t unknown_id)
    : SentencePiece(vocabulary, spaces, unknown_id) {
  pairs_.emplace(merges.count);
  num_dead_merges_ = read_merges(merges, vocabulary, read_spaced, *pairs_);
}

bool SentencePiece::prefixed(std::string_view text, bool first) const {
  if (spaces_.prefix == SpacePrefix::kNever) return false;
  if (spaces_.prefix == SpacePrefix::kAlways) return true;
  if (spaces_.prefix == SpacePrefix::kFirstUnlessSpaced && !first) return false;
  return !text.starts_with(' ') && !text.starts_with(kBoundary);
}

void SentencePiece::encode(const uint8_t* text, size_t size, bool first,
                           std::vector<int32_t>& ids) const {
  const std::string_view view(reinterpret_cast<const char*>(text), size);
  const bool prefix = prefixed(view, first);
  if (!prefix && view.find(kBoundary) == std::string_view::npos) {
    return encode_words(text, size, ids);
  }
  const std::string spaced = (prefix ? " " : "") + spaces_for_boundaries(view);
  encode_words(as_bytes(spaced), spaced.size(), ids);
}

// A word begins at a space that follows something else, unless some piece goes on across such a
// place: merges cannot tell words cut this way from the whole text. Or, told so, at every space.
void SentencePiece::encode_words(const uint8_t* text, size_t size,
                                 std::vector<int32_t>& ids) const {
  Scratch scratch;
  size_t begin = 0;
  for (size_t at = 1; at < size; ++at) {
    if (text[at] != ' ') continue;
    if (!spaces_.cuts && (text[at - 1] == ' ' || glues_[text[at - 1]])) continue;
    encode_word(text + begin, at - begin, scratch, ids);
    begin = at;
  }
  encode_word(text + begin, size - begin, scratch, ids);
}

// By merges, a character without a piece is its bytes from the start, and they may merge too.
void SentencePiece::add_symbols(const uint8_t* word, size_t size,
                                std::vector<Symbol>& symbols) const {
  for (size_t at = 0; at < size;) {
    uint32_t code = 0;
    const size_t length = std::max<size_t>(decode_utf8(word + at, word + size, code), 1);
    const int32_t id = vocabulary_.find(word + at, length);
    if (id < 0 && pairs_ && has_bytes(word + at, length)) {
      for (size_t i = at; i < at + length; ++i) {
        symbols.push_back({uint32_t(i), 1, byte_ids_[word[i]]});
      }
    } else {
      symbols.push_back({uint32_t(at), uint32_t(length), id});
    }
    at += length;
  }
}

void SentencePiece::merge_word(const uint8_t* word, size_t size, Scratch& scratch) const {
  scratch.symbols.clear();
  add_symbols(word, size, scratch.symbols);
  if (pairs_) {
    merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) {
      return left.id < 0 || right.id < 0 ? Merge{} : pairs_->find(left.id, right.id);
    });
    return;
  }
  merge_symbols(scratch, [this, word](const Symbol& left, const Symbol& right) {
    const int32_t id = vocabulary_.find(word + left.start, left.size + right.size);
    return id < 0 ? Merge{} : Merge{keys_[size_t(id)], id};
  });
}

void SentencePiece::encode_word(const uint8_t* word, size_t size, Scratch& scratch,
                                std::vector<int32_t>& ids) const {
  const int32_t id = vocabulary_.find(word, size);
  const auto merges_to_itself = [&] {
    merge_word(word, size, scratch);
    return scratch.symbols.size() == 1;
  };
  if (id >= 0 && whole_(id, merges_to_itself)) {
    ids.push_back(id);
    return;
  }
  merge_word(word, size, scratch);
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else {
      push_bytes(word + symbol.start, symbol.size, ids);
    }
  }
}

bool SentencePiece::has_bytes(const uint8_t* bytes, size_t size) const {
  return std::all_of(bytes, bytes + size, [this](uint8_t byte) { return byte_ids_[byte] >= 0; });
}

void SentencePiece::push_bytes(const uint8_t* bytes, size_t size, std::vector<int32_t>& ids) const {
  if (has_bytes(bytes, size)) {
    for (size_t i = 0; i < size; ++i) ids.push_back(byte_ids_[bytes[i]]);
  } else if (unknown_id_ >= 0) {
    ids.push_back(unknown_id_);
  }
}

}  // namespace pyrite
