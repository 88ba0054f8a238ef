// Two arrays, compared in one pass; compiled in the background by native.py, loaded with ctypes.
//
// A block of elements that fits the first-level cache goes through a loop without branches, which the compiler turns
// into vector code. What only some blocks need is counted in loops of its own over the same block: tolerances where
// the largest error is beyond atol, zeros where the reference has some. When a sum over a block is not finite,
// something in the block is not, and the block is gone through again element by element. All arithmetic is in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

// The same fields, in this order, as Sums in sums.py.
struct Sums {
    double sum, squares, relative_sum, largest, largest_relative, atol_needed, rtol_needed;
    double reference_squares, candidate_squares, products, reference_sum, candidate_sum;
    int64_t finite, unequal, outside, wild, both_nan, relative_count, zeros;
    int64_t reference_nan, reference_inf, reference_neg_inf, candidate_nan, candidate_inf, candidate_neg_inf;
    int64_t worst, first_wild;
};

struct Limits {
    double atol, rtol;
    int64_t equal_nan;
};

namespace {

struct Bits16 { uint16_t bits; };
struct Half : Bits16 {};
struct BFloat : Bits16 {};

inline double wide(float value) { return value; }
inline double wide(double value) { return value; }
inline double wide(uint8_t value) { return value; }
inline double wide(int8_t value) { return value; }
inline double wide(int16_t value) { return value; }
inline double wide(int32_t value) { return value; }
inline double wide(int64_t value) { return static_cast<double>(value); }

inline float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline double wide(BFloat value) { return from_bits(static_cast<uint32_t>(value.bits) << 16); }

inline double wide(Half value) {
    const uint32_t body = value.bits & 0x7fffu;
    const uint32_t exponent = body >= 0x7c00u ? (body << 13) | 0x7f800000u : (body << 13) + (112u << 23);
    const float normal = from_bits(exponent);
    const float small = static_cast<float>(static_cast<int32_t>(body)) * 0x1p-24f;
    const float size = body < 0x400u ? small : normal;
    return value.bits & 0x8000u ? -size : size;
}

template <typename T> inline bool same_bits(T one, T other) { return one == other; }
inline bool same_bits(BFloat one, BFloat other) { return one.bits == other.bits; }
inline bool same_bits(Half one, Half other) { return one.bits == other.bits; }
inline bool same_bits(float one, float other) {
    uint32_t u, v;
    std::memcpy(&u, &one, 4);
    std::memcpy(&v, &other, 4);
    return u == v;
}
inline bool same_bits(double one, double other) {
    uint64_t u, v;
    std::memcpy(&u, &one, 8);
    std::memcpy(&v, &other, 8);
    return u == v;
}

template <typename T> inline double distance(T one, T other) { return std::fabs(wide(one) - wide(other)); }
inline double distance(int64_t one, int64_t other) {  // exact: double is only to 2**53
    const uint64_t u = static_cast<uint64_t>(one), v = static_cast<uint64_t>(other);
    return static_cast<double>(one > other ? u - v : v - u);
}

template <typename T>
void one_by_one(const T* reference, const T* candidate, int64_t at, int count, const Limits& limits, Sums& sums) {
    for (int i = 0; i < count; i++) {
        const double p = wide(reference[i]), q = wide(candidate[i]);
        const bool p_nan = std::isnan(p), q_nan = std::isnan(q);
        sums.reference_nan += p_nan;
        sums.candidate_nan += q_nan;
        sums.both_nan += p_nan && q_nan;
        if (std::isinf(p)) (p > 0 ? sums.reference_inf : sums.reference_neg_inf)++;
        if (std::isinf(q)) (q > 0 ? sums.candidate_inf : sums.candidate_neg_inf)++;
        const bool equal = distance(reference[i], candidate[i]) == 0 || p == q || (limits.equal_nan && p_nan && q_nan);
        sums.unequal += !equal;
        const bool finite = std::isfinite(p) && std::isfinite(q);
        if (!finite && !equal) {
            if (sums.first_wild < 0) sums.first_wild = at + i;
            sums.wild++;
            sums.outside++;
            continue;
        }
        if (!finite) continue;
        const double error = equal ? 0.0 : distance(reference[i], candidate[i]), size = std::fabs(p);
        sums.zeros += p == 0 && q == 0 && std::signbit(p) != std::signbit(q);
        sums.sum += error;
        sums.squares += error * error;
        sums.reference_squares += p * p;
        sums.candidate_squares += q * q;
        sums.products += p * q;
        sums.reference_sum += p;
        sums.candidate_sum += q;
        sums.finite++;
        sums.outside += !(error <= limits.atol + limits.rtol * size);
        sums.atol_needed = std::max(sums.atol_needed, error - limits.rtol * size);
        if (error > limits.atol) sums.rtol_needed = std::max(sums.rtol_needed, (error - limits.atol) / size);
        if (size > 0) {
            sums.relative_count++;
            sums.relative_sum += error / size;
            sums.largest_relative = std::max(sums.largest_relative, error / size);
        }
        if (error > sums.largest) {
            sums.largest = error;
            sums.worst = at + i;
        }
    }
}

// Rounded once where the processor can: only for sums, where the last digit is noise anyway.
inline double plus_product(double sum, double one, double other) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fma(one, other, sum);
#else
    return sum + one * other;
#endif
}

// How many are outside the tolerance, and the relative tolerance that would do.
template <typename T> void beyond_atol(const T* x, const T* y, int length, const Limits& limits, Sums& sums) {
    const double atol = limits.atol, rtol = limits.rtol;
    double outside = 0, rtol_needed = 0;
#pragma omp simd reduction(+ : outside) reduction(max : rtol_needed)
    for (int i = 0; i < length; i++) {
        const double error = distance(x[i], y[i]), size = std::fabs(wide(x[i])), above = error - atol;
        outside += error <= atol + rtol * size ? 0.0 : 1.0;
        const double needed = size > 0 ? above / size : above > 0 ? INFINITY : 0.0;
        rtol_needed = needed > rtol_needed ? needed : rtol_needed;
    }
    sums.outside += static_cast<int64_t>(outside);
    sums.rtol_needed = std::max(sums.rtol_needed, rtol_needed);
}

// How many references are zero; and how many pairs are two zeros of different sign: equal, but not in their bits.
template <typename T> int among_zeros(const T* x, const T* y, int length, Sums& sums) {
    int zero = 0, signs = 0;
#pragma omp simd reduction(+ : zero, signs)
    for (int i = 0; i < length; i++) {
        const bool none = wide(x[i]) == 0;
        zero += none;
        signs += none && wide(y[i]) == 0 && !same_bits(x[i], y[i]);
    }
    sums.zeros += signs;
    return zero;
}

template <typename T>
void compare(const T* reference, const T* candidate, int64_t count, const Limits& limits, Sums& sums) {
    constexpr int block = 2048;
    const double rtol = limits.rtol;
    for (int64_t at = 0; at < count; at += block) {
        const int length = static_cast<int>(std::min<int64_t>(block, count - at));
        const T *x = reference + at, *y = candidate + at;
        double sum = 0, squares = 0, relative_sum = 0, largest = 0, largest_relative = 0, atol_needed = 0;
        double smallest = INFINITY, pp = 0, qq = 0, pq = 0, ps = 0, qs = 0, unequal = 0;
#pragma omp simd reduction(+ : sum, squares, relative_sum, pp, qq, pq, ps, qs, unequal) reduction(min : smallest) \
    reduction(max : largest, largest_relative, atol_needed)
        for (int i = 0; i < length; i++) {
            const double p = wide(x[i]), q = wide(y[i]), error = distance(x[i], y[i]), size = std::fabs(p);
            sum += error;
            squares = plus_product(squares, error, error);
            pp = plus_product(pp, p, p);
            qq = plus_product(qq, q, q);
            pq = plus_product(pq, p, q);
            ps += p;
            qs += q;
            unequal += error == 0 ? 0.0 : 1.0;
            largest = error > largest ? error : largest;
            smallest = size < smallest ? size : smallest;
            const double beyond = error - rtol * size;
            atol_needed = beyond > atol_needed ? beyond : atol_needed;
            const double relative = size > 0 ? error / size : 0.0;
            relative_sum += relative;
            largest_relative = relative > largest_relative ? relative : largest_relative;
        }
        if (!std::isfinite(pp + qq + squares + relative_sum)) {
            one_by_one(x, y, at, length, limits, sums);
            continue;
        }
        if (largest > sums.largest) {
            sums.largest = largest;
            for (int i = 0; i < length; i++)
                if (distance(x[i], y[i]) == largest) {
                    sums.worst = at + i;
                    break;
                }
        }
        if (largest > limits.atol) beyond_atol(x, y, length, limits, sums);
        sums.relative_count += length - (smallest > 0 ? 0 : among_zeros(x, y, length, sums));
        sums.sum += sum;
        sums.squares += squares;
        sums.relative_sum += relative_sum;
        sums.largest_relative = std::max(sums.largest_relative, largest_relative);
        sums.atol_needed = std::max(sums.atol_needed, atol_needed);
        sums.reference_squares += pp;
        sums.candidate_squares += qq;
        sums.products += pq;
        sums.reference_sum += ps;
        sums.candidate_sum += qs;
        sums.finite += length;
        sums.unequal += static_cast<int64_t>(unequal);
    }
}

}  // namespace

#define EXPORT(NAME, TYPE)                                                                                            \
    extern "C" void compare_##NAME(const void* reference, const void* candidate, int64_t count, const Limits* limits, \
                                   Sums* sums) {                                                                      \
        compare(static_cast<const TYPE*>(reference), static_cast<const TYPE*>(candidate), count, *limits, *sums);     \
    }

EXPORT(float64, double)
EXPORT(float32, float)
EXPORT(float16, Half)
EXPORT(bfloat16, BFloat)
EXPORT(uint8, uint8_t)
EXPORT(int8, int8_t)
EXPORT(int16, int16_t)
EXPORT(int32, int32_t)
EXPORT(int64, int64_t)
