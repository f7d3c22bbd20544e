// Attention of every instruction set: near its definition in double precision, and the same bits
// whether a row is alone or in a tile, and whether one call walks all spans or each its own.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/table.h"

using namespace pyrite;

namespace {

constexpr int kPositions = 600;

struct Shape {
  HeadShape head;
  int num_heads, window;
  float softcap;
  bool has_sinks = false;
};

std::vector<float> normal(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

// One head's keys and values of kPositions positions, in pages in a mixed order.
struct Pages {
  Pages(const KernelTable& kernels, KvType type, HeadShape shape, int run)
      : kernels(kernels.attention), type(type), shape(shape) {
    page_bytes = head_block_bytes(shape, type) + 64;
    const int num_pages = (kPositions + kPageTokens - 1) / kPageTokens;
    for (int page = 0; page < num_pages; ++page) table.push_back(page * 5 % num_pages);
    bytes.assign(page_bytes * size_t(num_pages), 0xff);  // what is not written is NaN
    keys = normal(size_t(kPositions) * shape.key_width, 1);
    values = normal(size_t(kPositions) * shape.value_width, 2);
    for (size_t i = 0; shape.values_in_keys && i < values.size(); ++i) {
      const size_t width = size_t(shape.value_width);
      values[i] = keys[i / width * size_t(shape.key_width) + i % width];
    }
    for (int position = 0; position < kPositions;) {
      const int slot = position % kPageTokens;
      const int count = std::min({run, kPageTokens - slot, kPositions - position});
      const size_t row = size_t(position);
      this->kernels.of(type).store(
          {&keys[row * shape.key_width],
           shape.values_in_keys ? nullptr : &values[row * shape.value_width],
           size_t(shape.value_width), shape, slot, count,
           bytes.data() + table[size_t(position / kPageTokens)] * page_bytes});
      position += count;
    }
  }

  const AttentionKernels& kernels;
  KvType type;
  HeadShape shape;
  size_t page_bytes;
  std::vector<int32_t> table;
  std::vector<uint8_t> bytes;
  std::vector<float> keys, values;
};

// From far below the scores to above them.
std::vector<float> sinks_of(const Shape& shape) {
  std::vector<float> sinks;
  for (int head = 0; shape.has_sinks && head < shape.num_heads; ++head) {
    sinks.push_back(head == 0 ? -200.0f : float(head) * 3.0f - 2.0f);
  }
  return sinks;
}

struct Rows {
  int first, count;
};

// (rows, heads, value_width). With `pieces` spans are computed by calls of their own.
std::vector<float> attend(const Pages& pages, const Shape& shape, const std::vector<float>& queries,
                          Rows rows, bool pieces) {
  const int num_queries = rows.count * shape.num_heads;
  const size_t width = size_t(shape.num_heads) * shape.head.value_width;
  std::vector<int32_t> positions;
  for (int i = 0; i < num_queries; ++i) positions.push_back(rows.first + i / shape.num_heads);
  std::vector<float> out(width * rows.count);
  std::vector<float> scratch(pages.kernels.scratch_floats(num_queries, shape.head));
  std::vector<float> partials(size_t(kPositions / kSpanTokens + 1) * num_queries *
                              partial_width(shape.head.value_width));
  const std::vector<float> sinks = sinks_of(shape);
  AttendTile tile = {};
  tile.queries = queries.data() + size_t(rows.first) * shape.num_heads * shape.head.key_width;
  tile.positions = positions.data();
  tile.num_queries = num_queries;
  tile.num_heads = shape.num_heads;
  tile.shape = shape.head;
  tile.window = shape.window;
  tile.softcap = shape.softcap;
  tile.sinks = sinks.empty() ? nullptr : sinks.data();
  tile.head_blocks = pages.bytes.data();
  tile.page_bytes = pages.page_bytes;
  tile.page_table = pages.table.data();
  const int seen = shape.window == 0 ? 0 : std::max(0, rows.first - shape.window + 1);
  tile.first_span = seen / kSpanTokens;
  tile.end_span = positions.back() / kSpanTokens + 1;
  tile.scratch = scratch.data();
  tile.out = out.data();
  tile.out_stride = width;
  if (!pieces) {
    pages.kernels.of(pages.type).attend(tile);
    return out;
  }
  tile.partials = partials.data();
  tile.partial_stride = size_t(num_queries) * partial_width(shape.head.value_width);
  for (int span = tile.end_span - 1; span >= tile.first_span; --span) {
    AttendTile piece = tile;
    piece.partials += size_t(span - tile.first_span) * tile.partial_stride;
    piece.first_span = span;
    piece.end_span = span + 1;
    pages.kernels.of(pages.type).attend_spans(piece);
  }
  pages.kernels.join(tile);
  return out;
}

// What one query's result is, of float32 keys and values.
std::vector<double> meaning(const Pages& pages, const Shape& shape, const float* query, int head,
                            int position) {
  const int width = shape.head.value_width;
  const int low = shape.window == 0 ? 0 : std::max(0, position - shape.window + 1);
  const int columns = shape.head.key_width;
  std::vector<double> scores, out(size_t(width), 0.0);
  for (int key = low; key <= position; ++key) {
    double score = 0;
    for (int i = 0; i < columns; ++i) {
      score += double(query[i]) * pages.keys[size_t(key) * columns + i];
    }
    if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
    scores.push_back(score);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  const std::vector<float> sinks = sinks_of(shape);
  double total = sinks.empty() ? 0 : std::exp(sinks[size_t(head)] - largest);
  for (size_t i = 0; i < scores.size(); ++i) {
    const double weight = std::exp(scores[i] - largest);
    total += weight;
    for (int column = 0; column < width; ++column) {
      out[size_t(column)] += weight * pages.values[(low + i) * width + column];
    }
  }
  for (double& column : out) column /= total;
  return out;
}

void check_meaning(const Pages& pages, const Shape& shape, const std::vector<float>& queries,
                   int position, const float* row) {
  const double limit = pages.type == KvType::kF16 ? 4e-3 : 6e-2;
  for (int head = 0; head < shape.num_heads; ++head) {
    const size_t at = (size_t(position) * shape.num_heads + head) * shape.head.key_width;
    const std::vector<double> wanted = meaning(pages, shape, &queries[at], head, position);
    for (int column = 0; column < shape.head.value_width; ++column) {
      const double found = row[size_t(head) * shape.head.value_width + column];
      CHECK(std::abs(found - wanted[size_t(column)]) < limit);
    }
  }
}

void check(const KernelTable& kernels, KvType type, const Shape& shape) {
  const Pages pages(kernels, type, shape.head, 1);
  const Pages at_once(kernels, type, shape.head, kPageTokens);
  CHECK(pages.bytes == at_once.bytes);
  const size_t width = size_t(shape.num_heads) * shape.head.value_width;
  std::vector<float> queries = normal(size_t(kPositions) * shape.num_heads * shape.head.key_width, 3);
  const float scale = 1.5f / std::sqrt(float(shape.head.key_width));
  for (float& query : queries) query *= scale;
  const int most = std::min(36, 72 / shape.num_heads);
  for (const int first : {0, 20, 250, 300, 512, kPositions - most}) {
    const Rows rows = {first, most};
    const std::vector<float> tile = attend(pages, shape, queries, rows, false);
    CHECK(attend(pages, shape, queries, rows, true) == tile);
    for (const int row : {0, 1, most / 2, most - 1}) {
      const float* wanted = &tile[size_t(row) * width];
      for (const bool pieces : {false, true}) {
        const std::vector<float> alone =
            attend(pages, shape, queries, {first + row, 1}, pieces);
        CHECK(std::memcmp(alone.data(), wanted, width * sizeof(float)) == 0);
      }
      check_meaning(pages, shape, queries, first + row, wanted);
    }
  }
}

}  // namespace

int main() {
  const Shape shapes[] = {
      {{64, 64}, 3, 0, 0},      {{64, 64}, 1, 40, 0},     {{128, 128}, 6, 0, 0},
      {{256, 256}, 4, 300, 50}, {{8, 8}, 2, 0, 0},        {{24, 24}, 7, 33, 0},
      {{80, 80}, 5, 0, 30},     {{96, 96}, 12, 0, 0},     {{112, 112}, 16, 257, 0},
      {{72, 72}, 9, 256, 5},    {{128, 128}, 8, 513, 0},  {{64, 64}, 8, 128, 0, true},
      {{192, 128}, 2, 0, 0},    {{576, 512}, 16, 0, 0},   {{24, 40}, 5, 33, 9, true},
      {{40, 8}, 3, 0, 0, true}, {{576, 512, true}, 16, 0, 0},
      {{24, 24, true}, 5, 33, 9, true},         {{72, 40, true}, 3, 0, 0},
      {{8, 8, true}, 1, 0, 0},  {{40, 32, true}, 16, 300, 0},
  };
  for (const char* name : kIsaNames) {
    const char* error = nullptr;
    const KernelTable* kernels = kernel_table(name, &error);
    if (kernels == nullptr) continue;
    for (const KvType type : {KvType::kF16, KvType::kQ8}) {
      for (const Shape& shape : shapes) check(*kernels, type, shape);
    }
  }
  return 0;
}
