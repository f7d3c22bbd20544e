#include "quantize/quantize.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "quantize/isa.h"

namespace pyrite {

namespace {

constexpr size_t kChunkValues = 1 << 15;  // that a thread takes at a time
constexpr int kMostColumns = 512;         // of a tile
constexpr int kMostBytes = 2048;

// Values [first, first + count) of the job's rows, taken as one line of blocks; a multiple of 16, and
// of the type's block. The last tile is filled up with zeros.
void quantize_span(const Job& job, size_t first, size_t count, uint8_t* out) {
  const Quantizer& quantizer = job.quantizer;
  const size_t columns = size_t(quantizer.tile_columns);
  float values[kMostColumns], importance[kMostColumns];
  uint8_t blocks[kMostBytes];
  for (size_t done = 0; done < count; done += columns) {
    const size_t taken = std::min(columns, count - done);
    const bool whole = taken == columns;
    const float* from = job.values + first + done;
    const size_t num_bytes = size_t(quantizer.tile_bytes) * taken / columns;
    if (job.importance != nullptr) {
      size_t column = (first + done) % job.columns;
      for (size_t i = 0; i < columns;) {
        const size_t run = std::min(columns - i, job.columns - column);
        std::memcpy(importance + i, job.importance + column, run * sizeof(float));
        i += run;
        column = 0;
      }
    }
    if (!whole) {
      std::fill(values, values + columns, 0.0f);
      std::copy(from, from + taken, values);
      from = values;
    }
    uint8_t* to = whole ? out : blocks;
    quantizer.tile(from, job.importance ? importance : nullptr, to);
    if (!whole) std::memcpy(out, blocks, num_bytes);
    out += num_bytes;
  }
}

bool is_sound(const Job& job, const float* values, size_t count) {
  float tail[16] = {};
  std::copy(values + count / 16 * 16, values + count, tail);
  // NaN compares as false.
  return job.table.largest(values, count / 16) <= job.limit && job.table.largest(tail, 1) <= job.limit;
}

int64_t first_unsound(const Job& job, size_t row, size_t end) {
  for (; row < end; ++row) {
    if (!is_sound(job, job.values + row * job.columns, job.columns)) return int64_t(row);
  }
  return -1;
}

}  // namespace

const QuantizerTable& quantizers_of(const char* isa) {
  (void)isa;
#if defined(__x86_64__)
  if (std::strcmp(isa, "avx2") == 0 || std::strcmp(isa, "avxvnni") == 0) return avx2::kQuantizers;
  if (std::strcmp(isa, "avx512") == 0 || std::strcmp(isa, "amx") == 0) return avx512::kQuantizers;
#elif defined(__aarch64__)
  if (std::strcmp(isa, "scalar") != 0) return neon::kQuantizers;
#endif
  return scalar::kQuantizers;
}

const Quantizer* quantizer_of(const QuantizerTable& table, WeightType type) {
  for (int i = 0; i < table.num_rows; ++i) {
    if (table.rows[i].type == type) return table.rows + i;
  }
  return nullptr;
}

int64_t quantize_rows(const Job& job, int num_threads) {
  const size_t chunk_rows = std::max<size_t>(1, kChunkValues / job.columns);
  const size_t chunks = (job.rows + chunk_rows - 1) / chunk_rows;
  std::atomic<size_t> next{0};
  std::atomic<int64_t> unsound{INT64_MAX};
  const auto work = [&] {
    for (size_t chunk; (chunk = next.fetch_add(1)) < chunks;) {
      const size_t row = chunk * chunk_rows, end = std::min(job.rows, row + chunk_rows);
      const size_t first = row * job.columns, count = (end - row) * job.columns;
      if (is_sound(job, job.values + first, count)) {
        quantize_span(job, first, count, job.blocks + row * job.row_bytes);
        continue;
      }
      const int64_t found = first_unsound(job, row, end);
      int64_t least = unsound.load();
      while (found < least && !unsound.compare_exchange_weak(least, found)) {
      }
    }
  };
  std::vector<std::thread> others;
  const size_t useful = std::min<size_t>(size_t(num_threads), chunks);
  for (size_t i = 1; i < useful; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  const int64_t found = unsound.load();
  return found == INT64_MAX ? -1 : found;
}

}  // namespace pyrite
