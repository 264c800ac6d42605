// Functions of the vendor's device library, as we read them, for the simulation of kernels: those the simulator's own source lacks.
// Bits of comparisons are packed in bytes.
#include "rt.cpp"

static bool bit(M<uint8_t, 1> *m, int64_t i) {
    int64_t k = m->off + i;
    return (m->p[k >> 3] >> (k & 7)) & 1;
}
static void set_bit(M<uint8_t, 1> *m, int64_t i, bool value) {
    int64_t k = m->off + i;
    m->p[k >> 3] = (m->p[k >> 3] & ~(1 << (k & 7))) | (value << (k & 7));
}
static float &elem(M<float, 1> *m, int64_t i) { return *at(m, &i); }

#define COMPARE(NAME, OPERATOR)                                                                                             \
    extern "C" void _mlir_ciface_vcmp_##NAME##_1d_float(M<float, 1> *x, M<float, 1> *y, M<uint8_t, 1> *d) {                 \
        for (int64_t i = 0; i < x->s[0]; i++) set_bit(d, i, elem(x, i) OPERATOR elem(y, i));                                \
    }
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

extern "C" void _mlir_ciface_vsel_vv_1d_bool_float(M<uint8_t, 1> *c, M<float, 1> *a, M<float, 1> *b, M<float, 1> *d, void *) {
    for (int64_t i = 0; i < d->s[0]; i++) elem(d, i) = bit(c, i) ? elem(a, i) : elem(b, i);
}
extern "C" void _mlir_ciface_vsel_vs_1d_float(M<uint8_t, 1> *c, M<float, 1> *a, float b, M<float, 1> *d, void *) {
    for (int64_t i = 0; i < d->s[0]; i++) elem(d, i) = bit(c, i) ? elem(a, i) : b;
}
extern "C" void _mlir_ciface_vsel_sv_1d_float(M<uint8_t, 1> *c, float a, M<float, 1> *b, M<float, 1> *d, void *) {
    for (int64_t i = 0; i < d->s[0]; i++) elem(d, i) = bit(c, i) ? a : elem(b, i);
}

extern "C" void _mlir_ciface_vcast_int32_t_to_float_1d_with_mode(M<int32_t, 1> *s, M<float, 1> *d, int) {
    each<1>(d->s, [&](int64_t *i) { *at(d, i) = (float)*at(s, i); });
}

// Sums over the middle of three axes; the result keeps it with one element.
#define MIDDLE(NAME, START, COMBINE)                                                                                        \
    extern "C" void _mlir_ciface_reduce_##NAME##_ara_float(M<float, 3> *s, M<float, 3> *d, void *, float) {                 \
        for (int64_t i = 0; i < s->s[0]; i++)                                                                               \
            for (int64_t k = 0; k < s->s[2]; k++) {                                                                         \
                float a = START;                                                                                            \
                for (int64_t j = 0; j < s->s[1]; j++) {                                                                     \
                    int64_t index[3] = {i, j, k};                                                                           \
                    float b = *at(s, index);                                                                                \
                    a = COMBINE;                                                                                            \
                }                                                                                                           \
                int64_t index[3] = {i, 0, k};                                                                               \
                *at(d, index) = a;                                                                                          \
            }                                                                                                               \
    }
MIDDLE(sum, 0.0f, a + b)
MIDDLE(max, -INFINITY, a > b ? a : b)

#define REPEAT(NAME, N, ELEMENT, ...)                                                                                       \
    extern "C" void _mlir_ciface_broadcast_##NAME(M<ELEMENT, N> *s, M<ELEMENT, N> *d __VA_ARGS__) {                         \
        each<N>(d->s, [&](int64_t *i) { *at(d, i) = *at(s, i); });                                                          \
    }
REPEAT(1d_bfloat16_t, 1, bf16)
REPEAT(first_axis_align_2d_bfloat16_t, 2, bf16)
REPEAT(last_axis_align_2d_bfloat16_t, 2, bf16, , void *)
REPEAT(last_axis_unalign_2d_bfloat16_t, 2, bf16, , void *)
REPEAT(middle_axis_align_3d_float, 3, float)

// A scalar of two bytes is passed like a half.
extern "C" void _mlir_ciface_broadcast_scalar_bfloat16_t_to_1d(_Float16 v, M<bf16, 1> *d) {
    bf16 bits;
    memcpy(&bits, &v, sizeof bits);
    each<1>(d->s, [&](int64_t *i) { *at(d, i) = bits; });
}

#define CHANNEL(K)                                                                                                          \
    extern "C" void _mlir_ciface_deinterleave_channel_##K##_from_2_channels_1d_float(M<float, 1> *s, M<float, 1> *d) {      \
        for (int64_t i = 0; i < d->s[0]; i++) elem(d, i) = elem(s, 2 * i + K);                                              \
    }
CHANNEL(0)
CHANNEL(1)
extern "C" void _mlir_ciface_interleave_1d_float(M<float, 1> *a, M<float, 1> *b, M<float, 1> *d, void *) {
    for (int64_t i = 0; i < d->s[0]; i++) elem(d, i) = elem(i % 2 ? b : a, i / 2);
}
