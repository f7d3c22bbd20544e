#pragma once
#include <cstddef>
#include <cstdint>

namespace pyrite {

// What pre-tokenizers ask about a code point; it may have several. Title case counts as upper.
enum : uint8_t {
  kLetter = 1,
  kNumber = 2,
  kMark = 4,
  kPunctuation = 8,
  kSymbol = 16,
  kSpace = 32,
  kUpper = 64,
  kLower = 128,
};

// The classes of all 0x110000 code points, one byte each.
const uint8_t* unicode_classes();

// A character as it stands in a text. `size` is in bytes, 0 past the end of the text. A byte that is
// not part of well-formed UTF-8 is a glyph of its own with the code U+FFFD and no class.
struct Glyph {
  uint32_t code;
  uint8_t classes;
  uint8_t size;
};

// Bytes of the well-formed UTF-8 sequence at `at`, 0 when there is none; its code point in `code`.
size_t decode_utf8(const uint8_t* at, const uint8_t* end, uint32_t& code);

// Writes `code` as UTF-8 and returns its size.
size_t encode_utf8(uint32_t code, uint8_t* out);

// Bytes seen as glyphs. Does not own them.
class Text {
 public:
  Text(const uint8_t* data, size_t end) : data_(data), end_(end), classes_(unicode_classes()) {}

  // The same bytes from `begin` to `end`: a part of a text ends where its text would.
  Text part(size_t begin, size_t end) const {
    Text part = *this;
    part.begin_ = begin;
    part.end_ = end;
    return part;
  }

  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

  // Whether white space ends at `offset`.
  bool follows_space(size_t offset) const {
    for (size_t size = 3; size > 0; --size) {  // the last byte of a longer one is no glyph alone
      if (begin_ + size > offset) continue;
      const Glyph glyph = at(offset - size);
      if (glyph.size == size) return (glyph.classes & kSpace) != 0;
    }
    return false;
  }

  // One that lies before the end.
  uint8_t byte(size_t offset) const { return data_[offset]; }

  Glyph at(size_t offset) const {
    if (offset >= end_) return {0, 0, 0};
    const uint8_t byte = data_[offset];
    if (byte < 0x80) return {byte, classes_[byte], 1};
    uint32_t code = 0;
    const size_t size = decode_utf8(data_ + offset, data_ + end_, code);
    if (size == 0) return {0xFFFD, 0, 1};
    return {code, classes_[code], uint8_t(size)};
  }

 private:
  const uint8_t* data_;
  size_t begin_ = 0;
  size_t end_;
  const uint8_t* classes_;
};

}  // namespace pyrite
