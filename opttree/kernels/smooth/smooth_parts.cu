/* The smooth tree on a GPU: loss, gradient and Adam for S starts at a time. `fused` compiles and launches it.

A block of threads takes a start and a part of the rows, BLOCK rows at a time, transposed into shared memory (features x
rows), and walks the tree depth-first, as `smooth` does on the CPU: no array of rows x leaves exists. ROWS rows belong to
a thread. The tree is cut into tiles of LEVELS levels with SLOTS places for splits and as many for what comes after them:

    down   z = W x of all splits of a tile, one product of small matrices       P along the paths
    leaf   V = loss of the rows, gradient by the scores                         in registers, tiles at the bottom
    up     V = S V[left] + (1 - S) V[right];  dz = P S (1 - S) (V[left] - V[right])
           dW = dz x, one product of small matrices                             the rows of all threads

A tile that no row reaches with more than `cut` is skipped by the whole block. Depths that are no multiple of LEVELS get
PAD levels on top whose gates are always left. Every block of threads adds to gradients of its own, and `gather` adds
those up in their order: results do not depend on which block comes first.

Given as macros: real, ROWS (16 bytes of reals), BLOCK; DEPTH, LEVELS, TILES, PAD; P features, Q = P + 1 (a feature that
is 1) rounded up to a multiple of 4; K outputs; LOSS, MIXTURE, LINEAR; X_SHARED: whether the rows are in shared memory.
*/

enum { EXPECTED, FORWARD, BACKWARD };

#define THREADS (BLOCK / ROWS)
#define WARPS (THREADS / 32)
#define STRIDE (BLOCK + ROWS) /* of a feature's rows: 16 bytes more, so that features begin in different banks */
#define EXITS (1 << LEVELS)
#define NODES (EXITS - 1)
#define SLOTS (EXITS < 4 ? 4 : EXITS)
#define BRANCHES ((1 << DEPTH) - 1)
#define LEAVES (1 << DEPTH)
#define INNER (TILES > 1 ? TILES - 1 : 1)
#define BOTTOM (1 << (DEPTH > LEVELS ? DEPTH - LEVELS : 0)) /* tiles at the bottom */
#define N_TILES (first_tile(TILES))
#define TILE (Q * SLOTS)
#define HAS_LEAVES (LOSS != TABLE)
#define EACH_LEAF (HAS_LEAVES ? LINEAR ? 1 : K + 1 : 0) /* sums over rows: gradients of the constants, mass */
#define SUMS (EACH_LEAF * EXITS)
#define GROUPS ((SUMS + 31) / 32)
#define LEAF_TILE (LINEAR ? K * TILE : K * SLOTS)
#define SIZE (BRANCHES * (P + 1) + (HAS_LEAVES ? LEAVES * K * (LINEAR ? P + 1 : 1) : 0))

#ifdef DOUBLE
#define EXP exp
#define LOGARITHM log
#define SQRT sqrt
#define DIVIDE(a, b) ((a) / (b))
#define MULTIPLY(a, b) __dmul_rn(a, b) /* rounded before it is added: between equal leaves gradients are exactly 0 */
#else
#define EXP __expf
#define LOGARITHM logf
#define SQRT sqrtf
#define DIVIDE(a, b) __fdividef(a, b)
#define MULTIPLY(a, b) __fmul_rn(a, b)
#endif
#define TINY ((real)1e-30)
#define SURE ((real)40) /* argument of a gate that is always left */

typedef struct __align__(16) { real v[ROWS]; } pack; /* of a thread's rows */

#define EACH(r) _Pragma("unroll") for (int r = 0; r < ROWS; r++)

/* number of tiles above the tiles of this level: one at the top, those that can be reached below */
static __device__ int first_tile(int level)
{
    int tiles = 0;
    for (int m = 0; m < level; m++) tiles += m ? 1 << (LEVELS * m - PAD) : 1;
    return tiles;
}

/* sizes of a start's leaves and of a block's gradients, which stand as splits, linear leaves, sums */
static __device__ wide split_size(void) { return (wide)N_TILES * TILE; }
static __device__ wide sums_at(void) { return split_size() + (HAS_LEAVES && LINEAR ? (wide)BOTTOM * LEAF_TILE : 0); }
static __device__ wide part_size(void) { return sums_at() + (wide)BOTTOM * SUMS; }

static __device__ pack constant(real value)
{
    pack a;
    EACH(r) a.v[r] = value;
    return a;
}

/* out[j] = sum_k W[k][j] x[k] for a thread's rows */
static __device__ void products(const real *x, const real *W, pack *out)
{
    const real *own = x + ROWS * threadIdx.x;
#pragma unroll
    for (int j = 0; j < SLOTS; j++) out[j] = constant(0);
#pragma unroll 2
    for (int k = 0; k < Q; k++) {
        const pack a = *(const pack *)(own + k * STRIDE);
#pragma unroll
        for (int j = 0; j < SLOTS; j += ROWS) {
            const pack u = *(const pack *)(W + k * SLOTS + j);
#pragma unroll
            for (int i = 0; i < ROWS; i++) EACH(r) out[j + i].v[r] += u.v[i] * a.v[r];
        }
    }
}

/* g[j] of all threads' rows into shared memory G[j] */
static __device__ void publish(const pack *g, real *G)
{
    __syncthreads();
#pragma unroll
    for (int j = 0; j < SLOTS; j++) *(pack *)(G + j * STRIDE + ROWS * threadIdx.x) = g[j];
    __syncthreads();
}

/* a thread sums TALL x 4 products over a slice of the rows; the slices' sums fit into G */
#define TALL (SLOTS * ROWS / 4 < 8 ? SLOTS * ROWS / 4 : 8)
#define HALVES (SLOTS / TALL)

/* part[k][j] += sum_r G[j][r] x[k][r] over the rows of the block; G is spoilt */
static __device__ void add_moments(real *G, const real *x, real *part)
{
    const int groups = Q / 4, units = HALVES * groups;
    for (int base = 0; base < units; base += THREADS) {
        const int own = units - base < THREADS ? units - base : THREADS, slices = THREADS / own;
        const int slice = threadIdx.x / own, unit = base + threadIdx.x % own;
        const int f = unit % groups, h = unit / groups;
        real sum[TALL][4];
#pragma unroll
        for (int j = 0; j < TALL; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) sum[j][i] = 0;
        if (slice < slices)
            for (int row = slice * ROWS; row < BLOCK; row += slices * ROWS) {
                pack a[4];
#pragma unroll
                for (int i = 0; i < 4; i++) a[i] = *(const pack *)(x + (f + i * groups) * STRIDE + row);
#pragma unroll
                for (int j = 0; j < TALL; j++) {
                    const pack g = *(const pack *)(G + (h + j * HALVES) * STRIDE + row);
#pragma unroll
                    for (int i = 0; i < 4; i++) EACH(r) sum[j][i] += g.v[r] * a[i].v[r];
                }
            }
        if (slices == 1) {
#pragma unroll
            for (int j = 0; j < TALL; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (slice == 0) part[(f + i * groups) * SLOTS + h + j * HALVES] += sum[j][i];
            continue;
        }
        __syncthreads(); /* the last turn: G has been read, and holds the slices' sums now */
#pragma unroll
        for (int j = 0; j < TALL; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) G[(4 * j + i) * THREADS + threadIdx.x] = sum[j][i];
        __syncthreads();
        for (int o = threadIdx.x; o < 4 * TALL * own; o += THREADS) {
            const int u = o % own, ji = o / own, feature = (base + u) % groups + ji % 4 * groups;
            real total = 0;
            for (int s = 0; s < slices; s++) total += G[ji * THREADS + s * own + u];
            part[feature * SLOTS + (base + u) / groups + ji / 4 * HALVES] += total;
        }
    }
}

static __device__ void halve(real *v, int w)
{
#pragma unroll
    for (int i = 0; i < w; i++) {
        const int upper = threadIdx.x & w;
        const real mine = upper ? v[i + w] : v[i], other = upper ? v[i] : v[i + w];
        v[i] = mine + SHUFFLE(other, w);
    }
}

/* 32 sums over a warp's lanes at once: lane i returns that of v[i] */
static __device__ real warp_sums(real *v)
{
    halve(v, 16);
    halve(v, 8);
    halve(v, 4);
    halve(v, 2);
    halve(v, 1);
    return v[0];
}

/* Number i of a tile's sums over the rows of a thread; every 32 of them are summed over the warp, so that few are held */
static __device__ void collect(int i, real value, real *sums, real *shared_sums)
{
    sums[i % 32] = value;
    if (i % 32 == 31) shared_sums[i / 32 * THREADS + threadIdx.x] = warp_sums(sums);
}

static __device__ real row_sum(pack a)
{
    real total = 0;
    EACH(r) total += a.v[r];
    return total;
}

/* path probabilities of the node at position o of level d of a tile, from its parent's */
static __device__ pack share(pack above, pack gate, int right)
{
    pack p;
    EACH(r)
    {
        const real left = above.v[r] * gate.v[r];
        p.v[r] = right ? above.v[r] - left : left;
    }
    return p;
}

/* V of a branch from its children's; its gate is overwritten by dz */
static __device__ pack combine(pack above, pack *gate, pack left, pack right)
{
    EACH(r)
    {
        const real s = gate->v[r], difference = left.v[r] - right.v[r];
        gate->v[r] = above.v[r] * s * (1 - s) * difference;
        right.v[r] += s * difference;
    }
    return right;
}

static __device__ void gates(const real *x, const real *W, pack *S)
{
    products(x, W, S);
#pragma unroll
    for (int j = 0; j < NODES; j++)
        EACH(r) S[j].v[r] = DIVIDE((real)1, 1 + EXP(-S[j].v[r])); /* 0 and 1 where the exponential over- or underflows */
}

#define PLACE(d, o) ((1 << (d)) - 1 + (o)) /* of the split at position o of level d of a tile */

/* What a thread knows of its rows: their numbers, weights, outputs; F: prediction, then the derivative by it (MIXTURE) */
typedef struct {
    int row[ROWS];
    pack w, y[K ? K : 1], F[K ? K : 1];
} rows_t;

/* V of leaf l of a tile, probabilities p; gradient by the scores into T (LINEAR: where they stood) or summed into sums */
static __device__ pack leaf_losses(int what, int l, wide leaf, const real *Y, rows_t *own, const real *C, pack p, pack *T,
                                   real *sums, real *shared_sums)
{
    pack V = constant(0);
#if LOSS == TABLE
    EACH(r) V.v[r] = own->row[r] < 0 ? 0 : Y[(wide)own->row[r] * LEAVES + leaf];
#else
    pack slope = p, likely = constant(0);
#if LOSS == LOG
#if LINEAR
    pack top = T[l], total = constant(0);
    for (int k = 1; k < K; k++) EACH(r) top.v[r] = T[k * SLOTS + l].v[r] > top.v[r] ? T[k * SLOTS + l].v[r] : top.v[r];
    for (int k = 0; k < K; k++)
        EACH(r)
        {
            T[k * SLOTS + l].v[r] = EXP(T[k * SLOTS + l].v[r] - top.v[r]);
            total.v[r] += T[k * SLOTS + l].v[r];
        }
    for (int k = 0; k < K; k++) EACH(r) T[k * SLOTS + l].v[r] /= total.v[r];
#endif
    for (int k = 0; k < K; k++)
        EACH(r) if ((int)own->y[0].v[r] == k) likely.v[r] = LINEAR ? T[k * SLOTS + l].v[r] : C[k * SLOTS + l];
    EACH(r)
    {
        const real q = likely.v[r] > TINY ? likely.v[r] : TINY;
        if (what == FORWARD) own->F[0].v[r] += p.v[r] * q;
        V.v[r] = what == BACKWARD ? own->F[0].v[r] * q : -LOGARITHM(q);
        if (what == BACKWARD) slope.v[r] = -p.v[r] * V.v[r];
    }
#endif
    for (int k = 0; k < K; k++) {
        pack g;
        EACH(r)
        {
            const real score = LINEAR ? T[k * SLOTS + l].v[r] : C[k * SLOTS + l];
            if (LOSS == LOG) {
                g.v[r] = slope.v[r] * (score - ((int)own->y[0].v[r] == k));
            } else if (what == FORWARD) {
                own->F[k].v[r] += p.v[r] * score;
            } else if (what == BACKWARD) {
                V.v[r] += own->F[k].v[r] * score;
                g.v[r] = p.v[r] * own->F[k].v[r];
            } else {
                const real e = score - own->y[k].v[r];
                V.v[r] += MULTIPLY(e, e);
                g.v[r] = 2 * p.v[r] * e;
            }
        }
        if (what == FORWARD) continue;
        if (LINEAR) T[k * SLOTS + l] = g;
        else collect(l * EACH_LEAF + k, row_sum(g), sums, shared_sums);
    }
    if (what != FORWARD) collect(l * EACH_LEAF + EACH_LEAF - 1, row_sum(p), sums, shared_sums);
#endif
    return V;
}

/* A tile whose exits are leaves, all in registers; returns its V */
static __device__ pack bottom_tile(int what, int tile, const real *x, const real *Y, rows_t *own, const real *W,
                                   const real *C, pack top, real *G, real *shared_sums, real *part)
{
    pack S[SLOTS], p[LEVELS + 1], left[LEVELS + 1], V = constant(0);
    pack T[HAS_LEAVES && LINEAR ? K * SLOTS : 1];
    real sums[32];
    const int number = tile - first_tile(TILES - 1);
    gates(x, W, S);
#if HAS_LEAVES
    C += (wide)number * LEAF_TILE;
#if LINEAR
    for (int k = 0; k < K; k++) products(x, C + k * TILE, T + k * SLOTS);
#endif
#endif
    p[0] = top;
#pragma unroll
    for (int l = 0; l < EXITS; l++) {
#pragma unroll
        for (int d = 1; d <= LEVELS; d++)
            if (l % (EXITS >> d) == 0) {
                const int o = l >> (LEVELS - d);
                p[d] = share(p[d - 1], S[PLACE(d - 1, o >> 1)], o & 1);
            }
        V = leaf_losses(what, l, (wide)number * EXITS + l, Y, own, C, p[LEVELS], T, sums, shared_sums);
        if (what == FORWARD) continue;
#pragma unroll
        for (int d = LEVELS; d > 0; d--)
            if ((l + 1) % (EXITS >> d) == 0) {
                const int o = l >> (LEVELS - d);
                if (o & 1) V = combine(p[d - 1], &S[PLACE(d - 1, o >> 1)], left[d], V);
                else left[d] = V;
            }
    }
    if (what == FORWARD) return V;
#pragma unroll
    for (int j = NODES; j < SLOTS; j++) S[j] = constant(0);
#if HAS_LEAVES
#pragma unroll
    for (int i = SUMS; i < 32 * GROUPS; i++) collect(i, 0, sums, shared_sums);
#endif
    publish(S, G);
#if HAS_LEAVES
    for (int i = threadIdx.x; i < SUMS; i += THREADS) {
        real total = 0;
        for (int w = 0; w < WARPS; w++) total += shared_sums[i / 32 * THREADS + 32 * w + i % 32];
        part[sums_at() + (wide)number * SUMS + i] += total;
    }
#endif
    add_moments(G, x, part + (wide)tile * TILE);
#if HAS_LEAVES && LINEAR
    for (int k = 0; k < K; k++) {
#pragma unroll
        for (int j = EXITS; j < SLOTS; j++) T[k * SLOTS + j] = constant(0);
        publish(T + k * SLOTS, G);
        add_moments(G, x, part + split_size() + (wide)number * LEAF_TILE + k * TILE);
    }
#endif
    return V;
}

/* The whole tree for a block of rows; returns V of the root */
static __device__ pack walk_tree(int what, const real *x, const real *Y, rows_t *own, const real *W, const real *C,
                                 pack root, real cut, real *G, real *shared_sums, real *part)
{
    pack S[INNER][SLOTS], left[INNER][LEVELS + 1], top[INNER + 1], V;
    int index[INNER + 1], at[INNER + 1]; /* of the tile in its level; the exit that is under way */
    int m = 0;
    index[0] = 0;
    top[0] = root;
    for (;;) {
        const int tile = first_tile(m) + index[m];
        int reached = 0;
        if (tile < first_tile(m + 1)) /* not beyond a gate that is always left */
            EACH(r) reached |= top[m].v[r] > cut;
        if (!__syncthreads_or(reached)) {
            V = constant(0);
        } else if (m == TILES - 1) {
            V = bottom_tile(what, tile, x, Y, own, W + (wide)tile * TILE, C, top[m], G, shared_sums, part);
        } else {
            gates(x, W + (wide)tile * TILE, S[m]);
            at[m] = -1;
            m++;
        }
        /* up, where tiles are done */
        while (m > 0 && at[m - 1] >= 0) {
            const int done = at[m - 1];
            pack *gate = S[m - 1];
            int d = LEVELS, o = done;
            for (; d > 0 && o & 1; d--, o >>= 1) {
                if (what == FORWARD) continue;
                pack above = top[m - 1];
                for (int e = 1; e < d; e++) {
                    const int node = done >> (LEVELS - e);
                    above = share(above, gate[PLACE(e - 1, node >> 1)], node & 1);
                }
                V = combine(above, &gate[PLACE(d - 1, o >> 1)], left[m - 1][d], V);
            }
            if (d > 0) {
                left[m - 1][d] = V;
                break;
            }
            m--;
            if (what == FORWARD) continue;
            for (int j = NODES; j < SLOTS; j++) S[m][j] = constant(0);
            publish(S[m], G);
            add_moments(G, x, part + (wide)(first_tile(m) + index[m]) * TILE);
        }
        if (m == 0) return V;
        /* down, to the next exit of the tile above */
        const int next = ++at[m - 1];
        pack p = top[m - 1];
        for (int d = 1; d <= LEVELS; d++) {
            const int o = next >> (LEVELS - d);
            p = share(p, S[m - 1][PLACE(d - 1, o >> 1)], o & 1);
        }
        top[m] = p;
        index[m] = index[m - 1] * EXITS + next;
    }
}

#if MIXTURE
/* Loss of the mixture's predictions, weighted and summed over a thread's rows; they become its derivative by them */
static __device__ double mixture_losses(rows_t *own)
{
    double total = 0;
    EACH(r)
    {
        const real w = own->w.v[r];
        if (LOSS == LOG) {
            const real q = own->F[0].v[r] > TINY ? own->F[0].v[r] : TINY;
            total -= (double)(w * LOGARITHM(q));
            own->F[0].v[r] = -w / q;
        } else {
            for (int k = 0; k < K; k++) {
                const real e = own->F[k].v[r] - own->y[k].v[r];
                total += (double)(w * e * e);
                own->F[k].v[r] = 2 * w * e;
            }
        }
    }
    return total;
}
#endif
