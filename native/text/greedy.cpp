#include "text/greedy.h"

namespace pyrite {

namespace {

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

char unescaped(char letter) {
  switch (letter) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    default: return letter;
  }
}

}  // namespace

void read_escaped(std::string_view written, std::string& bytes) {
  for (size_t at = 0; at < written.size(); ++at) {
    if (written[at] != '\\' || at + 1 == written.size()) {
      bytes.push_back(written[at]);
      continue;
    }
    const bool coded = written[++at] == 'x' && at + 2 < written.size();
    const int high = coded ? hex_digit(written[at + 1]) : -1;
    const int low = coded ? hex_digit(written[at + 2]) : -1;
    if (high >= 0 && low >= 0) {
      bytes.push_back(char(high * 16 + low));
      at += 2;
    } else {
      bytes.push_back(unescaped(written[at]));
    }
  }
}

Greedy::Greedy(const Vocabulary& vocabulary, int32_t unknown_id) : unknown_id_(unknown_id) {
  for (int32_t id = 0; id < int32_t(vocabulary.size()); ++id) {
    if (vocabulary.findable(id)) pieces_.add(vocabulary.bytes(id), id, false);
  }
}

size_t Greedy::num_missing_bytes() const {
  size_t missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const uint8_t value = uint8_t(byte);
    missing += pieces_.longest(&value, 1, 0, 0).id < 0;
  }
  return missing;
}

void Greedy::encode(const uint8_t* text, size_t size, bool, std::vector<int32_t>& ids) const {
  for (size_t at = 0; at < size;) {
    const Markers::Found found = pieces_.longest(text, size, at, 0);
    const int32_t id = found.id >= 0 ? found.id : unknown_id_;
    if (id >= 0) ids.push_back(id);
    at += found.id >= 0 ? found.size : 1;
  }
}

}  // namespace pyrite
