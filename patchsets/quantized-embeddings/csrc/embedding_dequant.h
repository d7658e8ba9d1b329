// The CUDA half of embedding_dequant as its host half sees it: no torch on either side.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hq::embedding {

constexpr int kUnit = 8;                 // values that a thread makes at a time: one 16-byte store
constexpr int64_t kMaxHidden = 1 << 19;  // up to here the kernel divides exactly by a multiplication

struct Shape {
  int64_t n;     // ids
  int64_t rows;  // of the table
  int hidden;    // a multiple of kUnit, at most kMaxHidden
  int groups;    // a row's scales; hidden / groups is a multiple of kUnit
};

enum class ScaleType { kBFloat16, kHalf };

// Start the kernel on the stream: out [n, hidden], ids [n], codes [rows, hidden * bits / 32], scales [rows, groups],
// all contiguous. n must not be 0; bits is 4 or 8; codes are aligned to `bits` bytes, out to 16.
cudaError_t dequant_rows(void* out, const int64_t* ids, const void* codes, const void* scales, ScaleType type, int bits,
                         Shape shape, cudaStream_t stream);

}  // namespace hq::embedding
