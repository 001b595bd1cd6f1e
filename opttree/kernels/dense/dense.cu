/* GradTree's dense representation on a GPU: a step of Adam for S starts at a time, as `dense` takes it on the CPU.

    prepare   a warp for each branch: the feature of the largest logit, and the weights of all features
    descend   a thread for each row of a batch: its path, its loss, the derivatives by the gates on the path
    update    a warp for each branch and each leaf: gradients, summed over the rows in their order, and Adam
    judge     a thread for each row: the loss of the hard tree

Results do not depend on which block comes first. Given as macros: real; DEPTH, P features, K outputs; LOSS, INDEX as in
`dense`. Theta of a start is logits (B, P), thresholds (B, P), scores (L, K).
*/

#define BRANCHES ((1 << DEPTH) - 1)
#define LEAVES (1 << DEPTH)
#define SIZE (2 * BRANCHES * P + LEAVES * K)
#define PER ((P + 31) / 32) /* features of a lane: lane, lane + 32, ... */
#define Y_WIDTH (LOSS == LOG ? 1 : K)
#define TINY 1e-30

typedef unsigned long long bits;

static __device__ real warp_sum(real value)
{
    for (int w = 16; w > 0; w /= 2) value += SHUFFLE(value, w);
    return value;
}

static __device__ real warp_max(real value)
{
    for (int w = 16; w > 0; w /= 2) {
        const real other = SHUFFLE(value, w);
        value = other > value ? other : value;
    }
    return value;
}

/* The number of a standard Gumbel distribution at a place of a sequence (SplitMix64) */
static __device__ double gumbel(wide seed, wide place)
{
    bits x = (bits)seed + (bits)(place + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    x = x ^ (x >> 31);
    return -log(-log(((double)(x >> 11) + 0.5) / 9007199254740992.0));
}

/* 1.5-entmax of a warp's numbers, see `dense.entmax`; or softmax */
static __device__ void weigh(real *z)
{
    real top = -1e30, total = 0;
    for (int i = 0; i < PER; i++) top = z[i] > top ? z[i] : top;
    top = warp_max(top);
    if (INDEX == GUMBEL) {
        for (int i = 0; i < PER; i++) total += z[i] = exp(z[i] - top);
        total = warp_sum(total);
        for (int i = 0; i < PER; i++) z[i] /= total;
        return;
    }
    double tau = -1;
    for (int round = 0; round < 50; round++) {
        double sum = 0, slope = 0;
        for (int i = 0; i < PER; i++) {
            const double s = 0.5 * (z[i] - top) - tau;
            if (s > 0) sum += s * s, slope += 2 * s;
        }
        for (int w = 16; w > 0; w /= 2) {
            sum += SHUFFLE(sum, w);
            slope += SHUFFLE(slope, w);
        }
        if (!(slope > 0)) break;
        const double move = (sum - 1) / slope;
        tau += move;
        if (move <= 1e-15) break;
    }
    for (int i = 0; i < PER; i++) {
        const double s = 0.5 * (z[i] - top) - tau;
        z[i] = s > 0 ? s * s : 0;
    }
}

/* Features (S, B), and where `noisy` the weights (S, B, P) of logits divided by the temperature */
KERNEL void prepare(const real *__restrict__ theta, const wide *__restrict__ seeds, const wide step, const real scale,
                    const int noisy, int *feature, real *weights)
{
    const int t = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (t >= BRANCHES) return;
    const real *logits = theta + (wide)blockIdx.y * SIZE + (wide)t * P;
    real z[PER], best = -1e30;
    int where = P;
    for (int i = 0; i < PER; i++) {
        const int j = lane + 32 * i;
        z[i] = j < P ? logits[j] : (real)-1e30;
        if (INDEX == GUMBEL && noisy && j < P) z[i] += (real)gumbel(seeds[blockIdx.y] + step, (wide)t * P + j);
        if (z[i] > best) best = z[i], where = j;
    }
    const real top = warp_max(best);
    int first = best == top ? where : P; /* of equal ones */
    for (int w = 16; w > 0; w /= 2) {
        const int other = SHUFFLE(first, w);
        first = other < first ? other : first;
    }
    if (lane == 0) feature[blockIdx.y * BRANCHES + t] = first < P ? first : P - 1; /* of what is no number, any */
    if (!noisy) return;
    for (int i = 0; i < PER; i++) z[i] = lane + 32 * i < P ? z[i] * scale : (real)-1e30;
    weigh(z);
    for (int i = 0; i < PER; i++)
        if (lane + 32 * i < P) weights[((wide)blockIdx.y * BRANCHES + t) * P + lane + 32 * i] = z[i];
}

/* Argument of the gate of branch t for a row: left where it is not negative */
static __device__ real argument(const real *x, int t, const int *feature, const real *T, const real *weights)
{
    if (INDEX != SOFT) return T[(wide)t * P + feature[t]] - x[feature[t]];
    real z = 0;
    for (int j = 0; j < P; j++) z += weights[(wide)t * P + j] * (T[(wide)t * P + j] - x[j]);
    return z;
}

/* Loss of a row, and its derivatives by the scores */
static __device__ double row_loss(const real *scores, const real *y, double gamma, double epsilon, real *slope)
{
    if (LOSS == SQUARED) {
        double total = 0;
        for (int k = 0; k < K; k++) {
            const real error = scores[k] - y[k];
            slope[k] = 2 * error;
            total += (double)(error * error);
        }
        return total;
    }
    const int own = (int)y[0];
    real top = scores[0], total = 0;
    for (int k = 1; k < K; k++) top = scores[k] > top ? scores[k] : top;
    for (int k = 0; k < K; k++) total += slope[k] = exp(scores[k] - top);
    for (int k = 0; k < K; k++) slope[k] /= total;
    const double q = slope[own] > TINY ? (double)slope[own] : TINY, miss = 1 - q, log_q = log(q);
    double focus = 1, factor = 0;
    if (gamma > 0) {
        focus = pow(miss, gamma);
        factor = miss > 0 ? gamma * q * pow(miss, gamma - 1) * log_q : 0;
    }
    const double along = factor - focus - epsilon * q;
    for (int k = 0; k < K; k++) slope[k] *= -along;
    slope[own] += along;
    return -focus * log_q + epsilon * miss;
}

/* Rows begin .. begin + count - 1 of each start's order (S, n): leaf (S, count), derivatives by the gates on the path
   (S, count, DEPTH) and by the leaf's scores (S, count, K), weighted losses (S, count). weight (S): of the batch. */
KERNEL void descend(const real *__restrict__ theta, const int *__restrict__ feature, const real *__restrict__ weights,
                    const real *__restrict__ X, const real *__restrict__ Y, const double *__restrict__ w,
                    const int *__restrict__ order, const int n, const int begin, const int count,
                    const double *__restrict__ weight, const double gamma, const double epsilon, int *leaf, real *along,
                    real *slope, double *loss)
{
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= count) return;
    const int row = order[(wide)blockIdx.y * n + begin + r];
    const wide at = (wide)blockIdx.y * count + r;
    const real *x = X + (wide)row * P, *T = theta + (wide)blockIdx.y * SIZE + BRANCHES * P, *scores = T + BRANCHES * P;
    const real share = (real)(w[row] / weight[blockIdx.y]);
    int path[DEPTH], t = 0;
    real z[DEPTH];
    feature += blockIdx.y * BRANCHES;
    weights += (wide)blockIdx.y * BRANCHES * P;
    slope += at * K;
    for (int level = 0; level < DEPTH; level++) {
        path[level] = t;
        z[level] = argument(x, t, feature, T, weights);
        t = 2 * t + (z[level] >= 0 ? 1 : 2);
    }
    const int reached = t - BRANCHES;
    leaf[at] = reached;
    loss[at] = share * row_loss(scores + reached * K, Y + (wide)row * Y_WIDTH, gamma, epsilon, slope);
    for (int k = 0; k < K; k++) slope[k] *= share;
    for (int level = 0; level < DEPTH; level++) {
        const int left = z[level] >= 0;
        int other = 2 * path[level] + (left ? 2 : 1);
        while (other < BRANCHES) other = 2 * other + (argument(x, other, feature, T, weights) >= 0 ? 1 : 2);
        real difference = 0;
        for (int k = 0; k < K; k++) difference += slope[k] * (scores[reached * K + k] - scores[(other - BRANCHES) * K + k]);
        const real e = exp(left ? -z[level] : z[level]);
        along[at * DEPTH + level] = (left ? difference : -difference) * (e / ((1 + e) * (1 + e)));
    }
}

typedef struct {
    real beta1, beta2, nu1, nu2, epsilon, scale1, scale2;
} moments_t;

static __device__ void adam(real *theta, real *first, real *second, real g, real rate, moments_t m)
{
    const real u = *first = m.beta1 * *first + (1 - m.beta1) * g;
    const real v = *second = m.beta2 * *second + (1 - m.beta2) * g * g;
    const real mean = (1 - m.nu1) * g + m.nu1 * u * m.scale1, square = (1 - m.nu2) * g * g + m.nu2 * v * m.scale2;
    *theta -= rate * mean / (sqrt(square) + m.epsilon);
}

/* Gradient of all starts from what `descend` found, and a step of Adam along it; the rates of logits, thresholds, scores */
KERNEL void update(real *theta, real *first, real *second, const int *__restrict__ feature,
                   const real *__restrict__ weights, const real *__restrict__ X, const int *__restrict__ order, const int n,
                   const int begin, const int count, const int *__restrict__ leaf, const real *__restrict__ along,
                   const real *__restrict__ slope, const real scale, const real rate0, const real rate1, const real rate2,
                   const real beta1, const real beta2, const real nu1, const real nu2, const real epsilon,
                   const real scale1, const real scale2)
{
    const int item = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const wide start = blockIdx.y;
    const moments_t m = {beta1, beta2, nu1, nu2, epsilon, scale1, scale2};
    if (item >= BRANCHES + LEAVES) return;
    leaf += start * count;
    if (item >= BRANCHES) {
        for (int k = 0; k < K; k++) {
            real g = 0;
            for (int r = lane; r < count; r += 32)
                if (leaf[r] == item - BRANCHES) g += slope[(start * count + r) * K + k];
            g = warp_sum(g);
            const wide at = start * SIZE + 2 * BRANCHES * P + (item - BRANCHES) * K + k;
            if (lane == 0) adam(theta + at, first + at, second + at, g, rate2, m);
        }
        return;
    }
    int level = 0;
    while (item + 1 >= 2 << level) level++;
    const int position = item + 1 - (1 << level);
    real g[PER], through = 0;
    int visited = 0;
    for (int i = 0; i < PER; i++) g[i] = 0;
    for (int base = 0; base < count; base += 32) {
        const int r = base + lane, mine = r < count && leaf[r] >> (DEPTH - level) == position;
        unsigned present = BALLOT(mine);
        visited |= present != 0;
        while (present) {
            const int next = base + __ffs(present) - 1;
            const real a = along[(start * count + next) * DEPTH + level];
            const real *x = X + (wide)order[start * n + begin + next] * P;
            present &= present - 1;
            through += a;
            for (int i = 0; i < PER; i++)
                if (lane + 32 * i < P) g[i] -= a * x[lane + 32 * i];
        }
    }
    real total = 0, product = 0;
    const wide at = start * SIZE + (wide)item * P;
    weights += (start * BRANCHES + item) * P;
    for (int i = 0; i < PER; i++) {
        const int j = lane + 32 * i;
        if (!visited || j >= P) continue;
        const real s = INDEX == GUMBEL ? weights[j] : sqrt(weights[j]);
        g[i] += through * theta[at + BRANCHES * P + j];
        total += s;
        product += s * g[i];
    }
    total = warp_sum(total);
    product = warp_sum(product);
    for (int i = 0; i < PER; i++) {
        const int j = lane + 32 * i;
        real by_logit = 0, by_threshold = 0;
        if (j >= P) continue;
        if (visited) {
            const real s = INDEX == GUMBEL ? weights[j] : sqrt(weights[j]);
            by_logit = s * (g[i] - product / total) * scale;
            by_threshold = INDEX == SOFT ? through * weights[j] : j == feature[start * BRANCHES + item] ? through : 0;
        }
        const wide threshold = at + BRANCHES * P + j;
        adam(theta + at + j, first + at + j, second + at + j, by_logit, rate0, m);
        adam(theta + threshold, first + threshold, second + threshold, by_threshold, rate1, m);
    }
}

/* Weighted losses of hard trees, summed over the rows of each block: (S, blocks) */
KERNEL void judge(const real *__restrict__ theta, const int *__restrict__ feature, const real *__restrict__ X,
                  const real *__restrict__ Y, const double *__restrict__ w, const int n, const double gamma,
                  const double epsilon, double *sums)
{
    extern __shared__ double parts[];
    const real *T = theta + (wide)blockIdx.y * SIZE + BRANCHES * P, *scores = T + BRANCHES * P;
    double total = 0;
    feature += blockIdx.y * BRANCHES;
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < n; row += gridDim.x * blockDim.x) {
        const real *x = X + (wide)row * P;
        real slope[K];
        int t = 0;
        while (t < BRANCHES) t = 2 * t + (x[feature[t]] <= T[(wide)t * P + feature[t]] ? 1 : 2);
        total += w[row] * row_loss(scores + (t - BRANCHES) * K, Y + (wide)row * Y_WIDTH, gamma, epsilon, slope);
    }
    parts[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x; i++) total += parts[i];
        sums[(wide)blockIdx.y * gridDim.x + blockIdx.x] = total;
    }
}
