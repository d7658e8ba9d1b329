// embedding_dequant: look up rows of a packed embedding table and dequantize them.
//
//   ids            int64 [n]
//   weight_packed  int32 [rows, hidden * bits / 32], bits 4 or 8
//   weight_scale   bf16 or fp16 [rows, groups]
//   result         [n, hidden] of the scale's type
//
// The packing is that of compressed-tensors' "pack-quantized" format along the hidden dimension: an int32 holds
// 32 / bits codes, the first in its lowest bits, each stored unsigned with an offset of 2^(bits - 1). A value is
// (code - offset) * scale, computed in float32, where it is exact for these types, and rounded once.
//
// An id outside [0, rows) raises on the CPU. On the GPU it gives a row of zeros: reporting it would need a
// synchronisation with the host, and nothing outside the table is read.
//
// Bytes per row, int8: hidden + 2 * groups read, 2 * hidden written; int4 reads hidden / 2 instead of hidden. With
// hidden 5120 and groups of 128 that is 15,440 and 12,880 bytes. 16,384 rows of int8 are 253 MB, 0.27 ms at the
// 936 GB/s that the memory of an RTX 3090 has on paper. There is next to no arithmetic, so the kernel has one goal:
// enough wide, coalesced accesses in flight.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "embedding_dequant.h"

namespace hq::embedding {

constexpr int kThreads = 128;
constexpr int kManyUnroll = 5;    // hidden 5120 is 640 units: one block a row, five loads of each thread in flight
constexpr int64_t kFewRows = 64;  // up to here one unit a thread, so that more multiprocessors have work

// The codes of one unit: 4 or 8 bytes, read by one load.
template <int BITS>
struct Codes;
template <>
struct Codes<4> {
  using type = uint32_t;
};
template <>
struct Codes<8> {
  using type = uint2;
};

// Code `i` of a unit, less the offset, as a float. 2^23 + code is a float whose low mantissa bits are the code itself,
// so bit operations and one exact subtraction do what a conversion instruction of a quarter of the rate would.
template <int BITS>
__device__ __forceinline__ float value_of(typename Codes<BITS>::type codes, int i) {
  constexpr uint32_t kExponent = 0x4B000000;  // 2^23
  uint32_t bits;
  if constexpr (BITS == 8) {
    bits = __byte_perm(i < 4 ? codes.x : codes.y, kExponent, 0x7540 | (i & 3));
  } else {
    bits = ((codes >> (4 * i)) & 0xF) | kExponent;
  }
  return __uint_as_float(bits) - static_cast<float>((1 << 23) + (1 << (BITS - 1)));
}

__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }

template <typename T>
__device__ __forceinline__ uint32_t round_pair(float low, float high);
template <>
__device__ __forceinline__ uint32_t round_pair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
template <>
__device__ __forceinline__ uint32_t round_pair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// unit / units_per_group by a multiplication: `inverse` is ceil(2^32 / units_per_group). Its error is below one part in
// 2^32 of the divisor, so the quotient is exact while unit * units_per_group < 2^32: hidden up to 2^19.
__device__ __forceinline__ uint32_t group_of(uint32_t unit, uint64_t inverse) {
  return static_cast<uint32_t>((unit * inverse) >> 32);
}

// Block (x, y) makes units [y * kThreads * UNROLL, ...) of row x. A thread issues all its loads before it uses one.
template <int BITS, typename T, int UNROLL>
__global__ void __launch_bounds__(kThreads)
    dequant(uint4* __restrict__ out, const int64_t* __restrict__ ids,
            const typename Codes<BITS>::type* __restrict__ codes, const T* __restrict__ scales, int64_t rows,
            uint32_t units, uint32_t groups, uint64_t inverse) {
  const int64_t row = blockIdx.x;
  const uint32_t first = blockIdx.y * (kThreads * UNROLL) + threadIdx.x;
  const int64_t id = ids[row];
  uint4* const to = out + row * units;

  if (id < 0 || id >= rows) {
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      const uint32_t unit = first + k * kThreads;
      if (unit < units) to[unit] = make_uint4(0, 0, 0, 0);
    }
    return;
  }

  const auto* const from = codes + id * units;
  const T* const scale_row = scales + id * groups;
  typename Codes<BITS>::type loaded[UNROLL];
  T scale[UNROLL];
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    const uint32_t unit = first + k * kThreads;
    if (unit < units) {
      loaded[k] = from[unit];
      scale[k] = scale_row[group_of(unit, inverse)];
    }
  }
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    const uint32_t unit = first + k * kThreads;
    if (unit < units) {
      const float s = to_float(scale[k]);
      const auto pair = [&](int i) {
        return round_pair<T>(value_of<BITS>(loaded[k], i) * s, value_of<BITS>(loaded[k], i + 1) * s);
      };
      to[unit] = make_uint4(pair(0), pair(2), pair(4), pair(6));
    }
  }
}

template <int BITS, typename T, int UNROLL>
void launch(void* out, const int64_t* ids, const void* codes, const void* scales, Shape shape, cudaStream_t stream) {
  const uint32_t units = shape.hidden / kUnit;
  const uint32_t units_per_group = units / shape.groups;
  const uint64_t inverse = ((uint64_t{1} << 32) + units_per_group - 1) / units_per_group;
  constexpr uint32_t kCovered = kThreads * UNROLL;
  const dim3 grid(static_cast<uint32_t>(shape.n), (units + kCovered - 1) / kCovered);
  dequant<BITS, T, UNROLL><<<grid, kThreads, 0, stream>>>(
      static_cast<uint4*>(out), ids, static_cast<const typename Codes<BITS>::type*>(codes),
      static_cast<const T*>(scales), shape.rows, units, shape.groups, inverse);
}

template <int BITS, typename T>
auto* fitting(Shape shape) {
  const bool one_unit_each = shape.n <= kFewRows || shape.hidden <= kThreads * kUnit;
  return one_unit_each ? launch<BITS, T, 1> : launch<BITS, T, kManyUnroll>;
}

cudaError_t dequant_rows(void* out, const int64_t* ids, const void* codes, const void* scales, ScaleType type, int bits,
                         Shape shape, cudaStream_t stream) {
  const bool bf16 = type == ScaleType::kBFloat16;
  auto* const run = bits == 8 ? (bf16 ? fitting<8, __nv_bfloat16>(shape) : fitting<8, __half>(shape))
                              : (bf16 ? fitting<4, __nv_bfloat16>(shape) : fitting<4, __half>(shape));
  run(out, ids, codes, scales, shape, stream);
  return cudaGetLastError();
}

}  // namespace hq::embedding
