/* What CUDA C adds to C, on one thread of a CPU: the threads of a block are coroutines that change at barriers.

Their order is drawn anew between barriers, so that a barrier that is missing shows; a barrier that some threads of a
block do not reach is an error (`emulate` returns 1). The source comes after it, then kernels' launchers that call `emulate`. */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__
#define __restrict__ restrict
#define __align__(n) __attribute__((aligned(n)))
#define __expf expf
#define __fdividef(a, b) ((a) / (b))
#define __fmul_rn(a, b) ((float)((a) * (b)))
#define __dmul_rn(a, b) ((a) * (b))
#define __syncthreads() ((void)synchronize(0))
#define __syncthreads_or(vote) synchronize(vote)
#define __ffs __builtin_ffs
#define __ballot_sync(mask, vote) ballot(vote)
#define __shfl_xor_sync(mask, value, lanes) ((__typeof__(value))shuffle((double)(value), lanes))

#define MOST_THREADS 1024
#define STACK (1 << 18)

typedef struct {
    int x, y, z;
} dim3;
static dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { READY, AT_BARRIER, AT_SHUFFLE, DONE };
static int state[MOST_THREADS], parity[MOST_THREADS], votes, decision;
static double exchange[2][MOST_THREADS];
static ucontext_t scheduler, contexts[MOST_THREADS];

static void pause_at(int what)
{
    const int own = threadIdx.x;
    state[own] = what;
    swapcontext(&contexts[own], &scheduler);
    threadIdx.x = own;
}

static int synchronize(int vote)
{
    votes |= vote;
    pause_at(AT_BARRIER);
    return decision;
}

static double shuffle(double value, int lanes)
{
    const int own = threadIdx.x, turn = parity[own] ^= 1;
    exchange[turn][own] = value;
    pause_at(AT_SHUFFLE);
    return exchange[turn][own ^ lanes];
}

static unsigned ballot(int vote)
{
    const int own = threadIdx.x;
    unsigned votes_of_warp = 0;
    shuffle(vote != 0, 0);
    for (int lane = 0; lane < 32; lane++)
        if (exchange[parity[own]][own - own % 32 + lane] != 0) votes_of_warp |= 1u << lane;
    return votes_of_warp;
}

static void (*kernel_body)(void);
static char shared_memory[SHARED] __align__(16); /* holds no numbers when a block begins */
static size_t shared_size;

static void thread_main(void)
{
    kernel_body();
    state[threadIdx.x] = DONE;
}

/* Run the body for all threads of one block; 1 if some wait at a barrier that the others do not reach */
static int run_block(int threads, char *stacks)
{
    static unsigned random_state = 1;
    int order[MOST_THREADS];
    memset(shared_memory, 0xff, shared_size);
    for (int t = 0; t < threads; t++) {
        order[t] = t;
        state[t] = READY;
        parity[t] = 0;
        getcontext(&contexts[t]);
        contexts[t].uc_stack.ss_sp = stacks + (size_t)t * STACK;
        contexts[t].uc_stack.ss_size = STACK;
        contexts[t].uc_link = &scheduler;
        makecontext(&contexts[t], thread_main, 0);
    }
    for (;;) {
        int ran = 0, done = 0, waiting = 0;
        for (int i = threads - 1; i > 0; i--) {
            random_state = random_state * 1664525u + 1013904223u;
            const int j = (random_state >> 8) % (i + 1), other = order[j];
            order[j] = order[i];
            order[i] = other;
        }
        for (int i = 0; i < threads; i++)
            if (state[order[i]] == READY) {
                threadIdx.x = order[i];
                swapcontext(&scheduler, &contexts[order[i]]);
                ran = 1;
            }
        for (int t = 0; t < threads; t++) done += state[t] == DONE, waiting += state[t] == AT_BARRIER;
        if (done == threads) return 0;
        if (waiting == threads) {
            decision = votes;
            votes = 0;
            for (int t = 0; t < threads; t++) state[t] = READY;
            continue;
        }
        for (int warp = 0; warp < threads; warp += 32) {
            int together = 1;
            for (int t = warp; t < warp + 32 && t < threads; t++) together &= state[t] == AT_SHUFFLE;
            if (together)
                for (int t = warp; t < warp + 32 && t < threads; t++) state[t] = READY, ran = 1;
        }
        if (!ran) return 1;
    }
}

static int emulate(void (*body)(void), int grid_x, int grid_y, int threads)
{
    char *stacks = malloc((size_t)threads * STACK);
    int failed = 0;
    kernel_body = body;
    blockDim = (dim3){threads, 1, 1};
    gridDim = (dim3){grid_x, grid_y, 1};
    for (int y = 0; y < grid_y && !failed; y++)
        for (int x = 0; x < grid_x && !failed; x++) {
            blockIdx = (dim3){x, y, 0};
            failed = run_block(threads, stacks);
        }
    free(stacks);
    return failed;
}
