// Turns columns of keys into rows: 16 lines of 32 numbers of 16 bits, one after the other, become 32
// rows of 16. Where a head's values are columns of its keys they are kept once, the way that scores
// want them, and are turned as they are read.
//
// Eight vectors of eight numbers are turned by three rounds of interleaving vector i with vector
// i + 4: each round moves the highest bit of a number's vector to the end of its place. Included
// inside the namespace of one instruction set, see lanes.h.

constexpr int kTurnedLines = 16;
constexpr int kTurnedRows = 32;

template <class Words>
PYRITE_INLINE void turn_eight(Words (&v)[8]) {
  for (int round = 0; round < 3; ++round) {
    Words next[8];
    for (int i = 0; i < 4; ++i) {
      next[2 * i] = interleave_low(v[i], v[i + 4]);
      next[2 * i + 1] = interleave_high(v[i], v[i + 4]);
    }
    for (int i = 0; i < 8; ++i) v[i] = next[i];
  }
}

#if defined(__AVX512F__)

// Four of eight by eight at once: lanes are lines i and i + 8 of eight rows, then of the next eight.
struct TurnedWords {
  __m512i all;
};
PYRITE_INLINE TurnedWords interleave_low(TurnedWords a, TurnedWords b) {
  return {_mm512_unpacklo_epi16(a.all, b.all)};
}
PYRITE_INLINE TurnedWords interleave_high(TurnedWords a, TurnedWords b) {
  return {_mm512_unpackhi_epi16(a.all, b.all)};
}

PYRITE_INLINE void turn_lines(const uint16_t* lines, uint16_t* rows) {
  const __m512i picks[2] = {_mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                            _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15)};
  for (int half = 0; half < 2; ++half) {
    TurnedWords v[8];
    for (int i = 0; i < 8; ++i) {
      const __m512i line = _mm512_loadu_si512(lines + i * kTurnedRows);
      const __m512i other = _mm512_loadu_si512(lines + (i + 8) * kTurnedRows);
      v[i] = {_mm512_permutex2var_epi64(line, picks[half], other)};
    }
    turn_eight(v);
    for (int i = 0; i < 8; ++i) {
      uint16_t* row = rows + (16 * half + i) * kTurnedLines;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row), _mm512_castsi512_si256(v[i].all));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + 8 * kTurnedLines),
                          _mm512_extracti64x4_epi64(v[i].all, 1));
    }
  }
}

#elif defined(__AVX2__)

// Two of eight by eight at once: lanes are lines i and i + 8 of eight rows.
struct TurnedWords {
  __m256i all;
};
PYRITE_INLINE TurnedWords interleave_low(TurnedWords a, TurnedWords b) {
  return {_mm256_unpacklo_epi16(a.all, b.all)};
}
PYRITE_INLINE TurnedWords interleave_high(TurnedWords a, TurnedWords b) {
  return {_mm256_unpackhi_epi16(a.all, b.all)};
}

PYRITE_INLINE void turn_lines(const uint16_t* lines, uint16_t* rows) {
  for (int first = 0; first < kTurnedRows; first += 8) {
    TurnedWords v[8];
    for (int i = 0; i < 8; ++i) {
      const auto part = [&](int line) {
        const uint16_t* from = lines + line * kTurnedRows + first;
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      };
      v[i] = {_mm256_inserti128_si256(_mm256_castsi128_si256(part(i)), part(i + 8), 1)};
    }
    turn_eight(v);
    for (int i = 0; i < 8; ++i) {
      uint16_t* row = rows + (first + i) * kTurnedLines;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row), v[i].all);
    }
  }
}

#elif defined(__aarch64__) && !defined(PYRITE_PORTABLE)

struct TurnedWords {
  uint16x8_t all;
};
PYRITE_INLINE TurnedWords interleave_low(TurnedWords a, TurnedWords b) {
  return {vzip1q_u16(a.all, b.all)};
}
PYRITE_INLINE TurnedWords interleave_high(TurnedWords a, TurnedWords b) {
  return {vzip2q_u16(a.all, b.all)};
}

PYRITE_INLINE void turn_lines(const uint16_t* lines, uint16_t* rows) {
  for (int line = 0; line < kTurnedLines; line += 8) {
    for (int first = 0; first < kTurnedRows; first += 8) {
      TurnedWords v[8];
      for (int i = 0; i < 8; ++i) v[i] = {vld1q_u16(lines + (line + i) * kTurnedRows + first)};
      turn_eight(v);
      for (int i = 0; i < 8; ++i) vst1q_u16(rows + (first + i) * kTurnedLines + line, v[i].all);
    }
  }
}

#else

PYRITE_INLINE void turn_lines(const uint16_t* lines, uint16_t* rows) {
  for (int row = 0; row < kTurnedRows; ++row) {
    for (int line = 0; line < kTurnedLines; ++line) {
      rows[row * kTurnedLines + line] = lines[line * kTurnedRows + row];
    }
  }
}

#endif
