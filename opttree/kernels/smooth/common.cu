/* What all kernels use: it is compiled before them, as one source. They are C, but for what CUDA or HIP adds to it. */

#ifdef __cplusplus
#define KERNEL extern "C" __global__
#else
#define KERNEL __global__
#endif

/* In groups of 32 threads, which are the warps of CUDA (those of HIP may have 64): the value of the thread whose number
   differs in the bits of `lanes`; and a bit for each thread, its vote. */
#ifdef __HIP__
#define SHUFFLE(value, lanes) __shfl_xor(value, lanes, 32)
#define BALLOT(vote) ((unsigned)(__ballot(vote) >> (warpSize == 64 ? threadIdx.x & 32 : 0)))
#else
#define SHUFFLE(value, lanes) __shfl_xor_sync(0xffffffffu, value, lanes)
#define BALLOT(vote) __ballot_sync(0xffffffffu, vote)
#endif

typedef long long wide;

