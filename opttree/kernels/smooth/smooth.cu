/* The kernels of the smooth tree, of the parts in `smooth_parts.cu`, which is compiled before it as one source. */

/* Gradients (S, chunks, part_size) and summed losses (S, chunks) of chunks of rows (x) for starts (y).

X (n, Q), Y (n, K), w (n); rows: numbers of rows in blocks, -1 where there is none; bounds (S, 2): the blocks of each
start. */
KERNEL void walk(const real *__restrict__ X, const real *__restrict__ Y, const real *__restrict__ w,
                 const int *__restrict__ rows, const int *__restrict__ bounds, const real *__restrict__ W,
                 const real *__restrict__ C, const real cut, real *scratch, real *parts, double *values)
{
    extern __shared__ pack shared[];
    const wide chunk = (wide)blockIdx.y * gridDim.x + blockIdx.x;
    real *G = (real *)shared, *shared_sums = G + SLOTS * STRIDE;
    real *x = X_SHARED ? shared_sums + GROUPS * THREADS : scratch + chunk * Q * STRIDE;
    real *part = parts + chunk * part_size();
    double total = 0;
    W += blockIdx.y * split_size();
    C += (wide)blockIdx.y * BOTTOM * LEAF_TILE;
    for (wide i = threadIdx.x; i < part_size(); i += THREADS) part[i] = 0;
    const int begin = bounds[2 * blockIdx.y], n_blocks = bounds[2 * blockIdx.y + 1] - begin;
    const int first = begin + (int)((wide)n_blocks * blockIdx.x / gridDim.x);
    const int last = begin + (int)((wide)n_blocks * (blockIdx.x + 1) / gridDim.x);
    for (int i = first; i < last; i++) {
        const int *numbers = rows + (wide)i * BLOCK;
        rows_t own;
        __syncthreads();
        for (int e = threadIdx.x; e < BLOCK * Q; e += THREADS) {
            const int row = numbers[e / Q];
            x[e % Q * STRIDE + e / Q] = row < 0 ? 0 : X[(wide)row * Q + e % Q];
        }
        EACH(r)
        {
            const int row = own.row[r] = numbers[ROWS * threadIdx.x + r];
            own.w.v[r] = row < 0 ? 0 : w[row];
#if HAS_LEAVES
            for (int k = 0; k < (LOSS == LOG ? 1 : K); k++)
                own.y[k].v[r] = row < 0 ? 0 : Y[(wide)row * (LOSS == LOG ? 1 : K) + k];
#endif
        }
        __syncthreads();
#if MIXTURE
        pack every;
        EACH(r) every.v[r] = own.w.v[r] > 0;
        for (int k = 0; k < K; k++) own.F[k] = constant(0);
        walk_tree(FORWARD, x, Y, &own, W, C, every, cut, G, shared_sums, part);
        total += mixture_losses(&own);
        walk_tree(BACKWARD, x, Y, &own, W, C, every, cut, G, shared_sums, part);
#else
        const pack V = walk_tree(EXPECTED, x, Y, &own, W, C, own.w, cut, G, shared_sums, part);
        EACH(r) total += (double)(own.w.v[r] * V.v[r]);
#endif
    }
    __syncthreads();
    ((double *)G)[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < THREADS; t++) total += ((double *)G)[t];
        values[chunk] = total;
    }
}

/* Where a split of theta is in the order of tiles: the branch at a place of a tile in heap order, -1 where there is none,
   -2 for a level that only fills the first tile */
static __device__ int branch_at(int tile, int slot)
{
    int m = 0, d = 0;
    if (slot >= NODES) return -1;
    while (m + 1 < TILES && tile >= first_tile(m + 1)) m++;
    while (slot >= (2 << d) - 1) d++;
    const int level = m * LEVELS + d - PAD;
    const int position = (tile - first_tile(m)) * (1 << d) + slot - ((1 << d) - 1);
    if (level < 0) return position == 0 ? -2 : -1;
    return position < (1 << level) ? (1 << level) - 1 + position : -1;
}

/* Thetas (S, SIZE), blocks of threads over (y) starts, as `walk` takes them: W (S, N_TILES, Q, SLOTS) with the scales in
   it, C (S, BOTTOM, K, [Q,] SLOTS); constant leaves under log loss become class probabilities. */
KERNEL void lay_out(const real *__restrict__ theta, const real *__restrict__ alpha, real *W, real *C)
{
    const wide i = (wide)blockIdx.x * blockDim.x + threadIdx.x;
    const real scale = alpha[blockIdx.y];
    const real *A = theta + (wide)blockIdx.y * SIZE, *b = A + BRANCHES * P, *values = b + BRANCHES;
    W += blockIdx.y * split_size();
    C += (wide)blockIdx.y * BOTTOM * LEAF_TILE;
    if (i < split_size()) {
        const int t = branch_at((int)(i / TILE), (int)(i % SLOTS)), k = (int)(i / SLOTS % Q);
        W[i] = t == -1 || k > P ? 0
               : t == -2        ? (k == P ? SURE : 0)
               : k == P         ? scale * b[t]
                                : -scale * A[(wide)t * P + k];
    }
#if HAS_LEAVES
    if (i < (wide)BOTTOM * LEAF_TILE) {
        const int l = (int)(i % SLOTS), tile = (int)(i / LEAF_TILE), k = (int)(i % LEAF_TILE / (LINEAR ? TILE : SLOTS));
        const wide leaf = (wide)tile * EXITS + l;
        const real *own = values + leaf * K;
        if (l >= EXITS) {
            C[i] = 0;
        } else if (LINEAR) {
            const int feature = (int)(i / SLOTS % Q);
            const real *coefs = values + (wide)LEAVES * K + (leaf * K + k) * P;
            C[i] = feature < P ? coefs[feature] : feature == P ? own[k] : 0;
        } else if (LOSS == LOG) {
            real top = own[0], total = 0;
            for (int c = 1; c < K; c++) top = own[c] > top ? own[c] : top;
            for (int c = 0; c < K; c++) total += EXP(own[c] - top);
            C[i] = EXP(own[k] - top) / total;
        } else {
            C[i] = own[k];
        }
    }
#endif
}

/* Gradients (S, SIZE) with those of the penalties (S, 6): l1 and l2 on splits, on leaves; l2 on thresholds, on constants
   of leaves; and masses of the leaves (S, LEAVES), from the chunks'. */
KERNEL void gather(const real *__restrict__ parts, const int chunks, const real *__restrict__ theta,
                   const real *__restrict__ alpha, const real *__restrict__ weight, const real *__restrict__ penalty,
                   real *gradient, real *mass)
{
    const wide i = (wide)blockIdx.x * blockDim.x + threadIdx.x;
    wide to = -1;
    real total = 0, l1 = 0, l2 = 0;
    if (i >= part_size()) return;
    parts += (wide)blockIdx.y * chunks * part_size();
    theta += (wide)blockIdx.y * SIZE;
    gradient += (wide)blockIdx.y * SIZE;
    mass += (wide)blockIdx.y * LEAVES;
    penalty += 6 * blockIdx.y;
    for (int c = 0; c < chunks; c++) total += parts[c * part_size() + i];
    total /= weight[blockIdx.y];
    if (i < split_size()) {
        const int t = branch_at((int)(i / TILE), (int)(i % SLOTS)), k = (int)(i / SLOTS % Q);
        if (t >= 0 && k <= P) {
            to = k < P ? (wide)t * P + k : (wide)BRANCHES * P + t;
            total *= k < P ? -alpha[blockIdx.y] : alpha[blockIdx.y];
            if (k < P) l1 = penalty[0], l2 = penalty[1];
            else l2 = penalty[4];
        }
    }
#if HAS_LEAVES
    else if (i < sums_at()) {
        const wide e = i - split_size(), l = e % SLOTS, leaf = e / LEAF_TILE * EXITS + l;
        const int k = (int)(e % LEAF_TILE / TILE), feature = (int)(e / SLOTS % Q);
        const wide constants = (wide)BRANCHES * (P + 1);
        if (l < EXITS && feature == P) to = constants + leaf * K + k, l2 = penalty[5];
        if (l < EXITS && feature < P) {
            to = constants + (wide)LEAVES * K + (leaf * K + k) * P + feature;
            l1 = penalty[2], l2 = penalty[3];
        }
    } else {
        const wide e = i - sums_at(), leaf = e / EACH_LEAF;
        const int k = (int)(e % EACH_LEAF);
        if (!LINEAR && k < K) to = (wide)BRANCHES * (P + 1) + leaf * K + k, l2 = penalty[5];
        else mass[leaf] = total;
    }
#endif
    if (to >= 0) {
        const real at = theta[to];
        gradient[to] = total + l1 * (real)((at > 0) - (at < 0)) + 2 * l2 * at;
    }
}

/* A step of Adam or QHAdam, as in `first_order`: (x) entries of theta, (y) starts. Closed leaves get the constants that
   are best for the gates instead. */
KERNEL void adam(real *theta, const real *__restrict__ gradient, const real *__restrict__ mass, real *first, real *second,
                 const real rate, const real beta1, const real beta2, const real nu1, const real nu2, const real epsilon,
                 const real scale1, const real scale2, const int closed, const real *__restrict__ penalty)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, constants = BRANCHES * (P + 1);
    const wide at = (wide)blockIdx.y * SIZE + i;
    if (i >= SIZE) return;
#if HAS_LEAVES
    if (closed && i >= constants && i < constants + LEAVES * K) {
        const int leaf = (i - constants) / K, k = (i - constants) % K;
        const real m = mass[(wide)blockIdx.y * LEAVES + leaf] + penalty[6 * blockIdx.y + 5];
        if (m <= (real)1e-9) return;
        if (LOSS == SQUARED) {
            theta[at] -= gradient[at] / (2 * m);
        } else if (k == 0) { /* for all classes */
            real top = theta[at], total = 0;
            for (int c = 1; c < K; c++) top = theta[at + c] > top ? theta[at + c] : top;
            for (int c = 0; c < K; c++) total += EXP(theta[at + c] - top);
            for (int c = 0; c < K; c++) {
                const real q = EXP(theta[at + c] - top) / total - gradient[at + c] / m;
                theta[at + c] = LOGARITHM(q > (real)1e-6 ? q : (real)1e-6);
            }
        }
        return;
    }
#endif
    const real g = gradient[at];
    const real u = first[at] = beta1 * first[at] + (1 - beta1) * g;
    const real v = second[at] = beta2 * second[at] + (1 - beta2) * g * g;
    const real mean = (1 - nu1) * g + nu1 * u * scale1, square = (1 - nu2) * g * g + nu2 * v * scale2;
    theta[at] -= rate * mean / (SQRT(square) + epsilon);
}
