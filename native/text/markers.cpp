#include "text/markers.h"

#include <stdexcept>
#include <utility>

namespace pyrite {

void Markers::add(std::string_view bytes, int32_t id, bool control) {
  if (bytes.empty()) return;
  if (bytes.size() > kMostBytes) throw std::length_error("a marker has more than 1024 bytes");
  if (nodes_.size() + bytes.size() > kMostNodes) {
    throw std::length_error("the markers have more than a million bytes");
  }
  begins_[uint8_t(bytes[0])] = true;
  uint32_t node = 0;
  for (const char byte : bytes) node = grow(node, uint8_t(byte));
  (control ? nodes_[node].control : nodes_[node].user) = id;
}

Markers::Found Markers::longest(const uint8_t* text, size_t size, size_t at,
                                size_t control_end) const {
  Found found;
  uint32_t node = 0;
  for (size_t end = at; end < size;) {
    node = child(node, text[end++]);
    if (node == 0) break;
    const bool as_control = end <= control_end && nodes_[node].control >= 0;
    const int32_t id = as_control ? nodes_[node].control : nodes_[node].user;
    if (id >= 0) found = {id, end - at};
  }
  return found;
}

size_t Markers::slot_of(uint64_t key) const {
  const size_t mask = edges_.size() - 1;
  size_t slot = (key * 0x9E3779B97F4A7C15) >> 20 & mask;
  while (edges_[slot].key != kFree && edges_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

uint32_t Markers::child(uint32_t node, uint8_t byte) const {
  if (edges_.empty()) return 0;
  const uint64_t key = uint64_t(node) << 8 | byte;
  const Edge& edge = edges_[slot_of(key)];
  return edge.key == key ? edge.child : 0;
}

uint32_t Markers::grow(uint32_t node, uint8_t byte) {
  if (2 * (num_edges_ + 1) > edges_.size()) enlarge();
  const uint64_t key = uint64_t(node) << 8 | byte;
  Edge& edge = edges_[slot_of(key)];
  if (edge.key == key) return edge.child;
  edge = {key, uint32_t(nodes_.size())};
  nodes_.emplace_back();
  ++num_edges_;
  return edge.child;
}

void Markers::enlarge() {
  const size_t size = edges_.empty() ? 64 : 2 * edges_.size();
  const std::vector<Edge> old = std::exchange(edges_, std::vector<Edge>(size));
  for (const Edge& edge : old) {
    if (edge.key != kFree) edges_[slot_of(edge.key)] = edge;
  }
}

}  // namespace pyrite
