#pragma once
// Zeroed memory that costs nothing until it is touched: the pages of keys and values, the arena, the
// logits. Aligned to a page of the system.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace pyrite {

class Region {
 public:
  Region() = default;
  // Throws std::bad_alloc when the address space or a limit does not hold it.
  explicit Region(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<uint8_t*>(data);
    // Fewer misses of address translation; a hint, of no account where it is refused.
    if (bytes >= kHugeBytes) madvise(data, bytes, MADV_HUGEPAGE);
  }
  Region(Region&& other) noexcept { swap(other); }
  Region& operator=(Region&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Region() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  uint8_t* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kHugeBytes = size_t(8) << 20;

  void swap(Region& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace pyrite
