#pragma once
// How rows are cut into tiles that a product takes at once: as few as there can be, and even.

#include <algorithm>
#include <cstddef>

#include "kernels/table.h"

namespace pyrite {

constexpr int kTileRows = 64;   // rows of a chunk at most
constexpr int kTilePanels = 8;  // panels that are multiplied before the tile is finished
constexpr size_t kTileStride = kTilePanels * kPanelRows;

constexpr int divide_up(int value, int by) { return (value + by - 1) / by; }

struct Tiles {
  int count, rows;

  explicit Tiles(int num_rows)
      : count(divide_up(num_rows, kTileRows)), rows(divide_up(num_rows, std::max(1, count))) {}
};

}  // namespace pyrite
