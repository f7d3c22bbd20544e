#pragma once
// How rows are cut into tiles that a product takes at once: as few as there can be, and as even as
// whole sixteens are, for kernels take these the fastest.

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

  explicit Tiles(int num_rows) : count(divide_up(num_rows, kTileRows)), rows(num_rows) {
    if (count > 1) rows = divide_up(divide_up(num_rows, count), 16) * 16;
  }
};

}  // namespace pyrite
