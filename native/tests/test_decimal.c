/* Numbers parsed without the C library's strtoull. */
#include "check_macros.h"
#include "os/decimal.h"

static void reads(const char *text, uint64_t expected)
{
    uint64_t value = vks_decimal(text);
    CHECK(value == expected, "'%s' is read as %llu", text, (unsigned long long)value);
}

int main(void)
{
    reads("", 0);
    reads("x", 0);
    reads("-1", 0);
    reads("0", 0);
    reads("  42", 42);
    reads("7 8", 7);
    reads("12x", 12);
    reads("18446744073709551614", UINT64_MAX - 1);
    reads("18446744073709551615", UINT64_MAX);
    reads("18446744073709551616", UINT64_MAX);
    reads("99999999999999999999999", UINT64_MAX);
    return check_result();
}
