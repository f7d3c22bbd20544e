#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pyrite {

// Reads strict JSON from its beginning to its end, a token at a time. What is not JSON, and bytes
// that are not UTF-8, throw std::invalid_argument, which tells the byte. Does not own the text.
class JsonReader {
 public:
  JsonReader(const uint8_t* text, size_t size) : at_(text), begin_(text), end_(text + size) {}

  // The next character that is not white space, which stays; 0 at the end.
  char peek();

  // Whether that character is `wanted`, and takes it if so.
  bool take(char wanted);
  void expect(char wanted);

  // After a member of a list or an object: whether another follows. Else takes `closing`.
  bool another(char closing);

  // A string's contents, unescaped, in UTF-8. Valid until the next call.
  std::string_view string();

  // A whole number of at most 64 bits.
  int64_t integer();

  // Passes one value by. Of lists and objects only the ends are sought: whoever reads the same bytes
  // later tells whether they are JSON.
  void skip();

  void expect_end();

  // Where the next token may begin.
  const char* at() const { return reinterpret_cast<const char*>(at_); }

 private:
  [[noreturn]] void fail(const char* wanted) const;
  void skip_word();
  void unescape();
  uint32_t hexadecimal();
  void skip_character();

  const uint8_t* at_;
  const uint8_t* begin_;
  const uint8_t* end_;
  std::string unescaped_;
};

}  // namespace pyrite
