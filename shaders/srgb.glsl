// sRGB by tables (Khronos Data Format 13.3), because drivers' own conversions differ by a code: the CPU rasterizer's numbers
// (native/raster/srgb.c). vkshare/backends/vulkan/colours.py fills the buffer. (As constant arrays they made lavapipe thirty
// times slower: it copies such an array for each pixel.)

layout(set = 0, binding = 1, std430) readonly buffer Tables {
    float linear_of_code[256];
    float threshold[255]; // the smallest float that encodes to each code but 0
} srgb;

float srgb_to_linear(float encoded)
{
    return srgb.linear_of_code[int(encoded * 255.0 + 0.5)];
}

float linear_to_srgb(float linear)
{
    int code = 0; // NaN stays here
    for (int step = 128; step > 0; step >>= 1)
        if (linear >= srgb.threshold[code + step - 1])
            code += step;
    return float(code) / 255.0;
}
