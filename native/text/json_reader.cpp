#include "text/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "text/unicode.h"

namespace pyrite {

namespace {

const char* as_text(const uint8_t* bytes) { return reinterpret_cast<const char*>(bytes); }

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

bool is_blank(uint8_t byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// Characters that stand for themselves in a string, one byte each.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t byte = 0x20; byte < 0x80; ++byte) plain[byte] = byte != '"' && byte != '\\';
  return plain;
}();

// Indentation, eight bytes at once.
const uint8_t* skip_spaces(const uint8_t* at, const uint8_t* end) {
  constexpr uint64_t kSpaces = 0x2020202020202020;
  uint64_t next = 0;
  while (end - at >= 8) {
    std::memcpy(&next, at, 8);
    if (next != kSpaces) break;
    at += 8;
  }
  return at;
}

char escaped(uint8_t letter) {
  switch (letter) {
    case '"': case '\\': case '/': return char(letter);
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return 0;
  }
}

}  // namespace

void JsonReader::fail(const char* wanted) const {
  throw std::invalid_argument("byte " + std::to_string(at_ - begin_) + ": expected " + wanted);
}

char JsonReader::peek() {
  while (at_ < end_ && is_blank(*at_)) {
    if (*at_++ == '\n') at_ = skip_spaces(at_, end_);
  }
  return at_ < end_ ? char(*at_) : '\0';
}

bool JsonReader::take(char wanted) {
  if (peek() != wanted || at_ == end_) return false;
  ++at_;
  return true;
}

void JsonReader::expect(char wanted) {
  const char text[] = {wanted, '\0'};
  if (!take(wanted)) fail(text);
}

bool JsonReader::another(char closing) {
  if (take(',')) return true;
  expect(closing);
  return false;
}

void JsonReader::skip() {
  size_t depth = 0;
  do {
    const char next = peek();
    if (next == '"') {
      string();
    } else if (at_ == end_) {
      fail("a value");
    } else {
      ++at_;
      if (next == '{' || next == '[') ++depth;
      if (next == '}' || next == ']') {
        if (depth == 0) fail("a value");
        --depth;
      }
      if (depth == 0 && next != '}' && next != ']') skip_word();
    }
  } while (depth > 0);
}

void JsonReader::skip_word() {
  while (at_ < end_ && !is_blank(*at_) && *at_ != ',' && *at_ != '}' && *at_ != ']') ++at_;
}

void JsonReader::expect_end() {
  if (peek() != '\0' || at_ < end_) fail("the end");
}

std::string_view JsonReader::string() {
  if (!take('"')) fail("a string");
  const uint8_t* start = at_;
  for (;;) {
    while (at_ < end_ && kPlain[*at_]) ++at_;
    if (at_ == end_) fail("the end of a string");
    if (*at_ == '"') return {as_text(start), size_t(at_++ - start)};
    if (*at_ == '\\') break;
    skip_character();
  }
  unescaped_.assign(as_text(start), size_t(at_ - start));
  while (*at_ != '"') {
    const uint8_t* from = at_;
    if (*at_ == '\\') {
      unescape();
    } else {
      skip_character();
      unescaped_.append(as_text(from), size_t(at_ - from));
    }
    if (at_ == end_) fail("the end of a string");
  }
  ++at_;
  return unescaped_;
}

void JsonReader::skip_character() {
  uint32_t code = 0;
  const size_t size = decode_utf8(at_, end_, code);
  if (size == 0) fail("text in UTF-8");
  if (code < 0x20) fail("an escape in place of a control character");
  at_ += size;
}

void JsonReader::unescape() {
  if (++at_ == end_) fail("an escape");
  const uint8_t letter = *at_++;
  if (letter != 'u') {
    const char meant = escaped(letter);
    if (meant == 0) fail("a known escape");
    unescaped_.push_back(meant);
    return;
  }
  uint32_t code = hexadecimal();
  if (code >= 0xD800 && code < 0xDC00 && end_ - at_ >= 2 && at_[0] == '\\' && at_[1] == 'u') {
    at_ += 2;
    const uint32_t low = hexadecimal();
    if (low < 0xDC00 || low > 0xDFFF) fail("the other half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code >= 0xD800 && code <= 0xDFFF) fail("both halves of a surrogate pair");
  uint8_t bytes[4];
  unescaped_.append(as_text(bytes), encode_utf8(code, bytes));
}

uint32_t JsonReader::hexadecimal() {
  uint32_t code = 0;
  const char* first = as_text(at_);
  const char* last = first + std::min<ptrdiff_t>(4, end_ - at_);
  const auto [stop, error] = std::from_chars(first, last, code, 16);
  if (error != std::errc() || stop != first + 4) fail("four hexadecimal digits");
  at_ += 4;
  return code;
}

int64_t JsonReader::integer() {
  peek();
  int64_t value = 0;
  const uint8_t* digits = at_ + (at_ < end_ && *at_ == '-');
  if (digits == end_ || !is_digit(*digits)) fail("a whole number");
  const bool leads = *digits == '0' && digits + 1 < end_ && is_digit(digits[1]);
  if (leads) fail("a number without zeros before it");
  const auto [stop, error] = std::from_chars(as_text(at_), as_text(end_), value);
  if (error != std::errc()) fail("a number of at most 64 bits");
  at_ += stop - as_text(at_);
  if (at_ < end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) fail("a whole number");
  return value;
}

}  // namespace pyrite
